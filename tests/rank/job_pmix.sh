#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Ranks that mpirun starts find each other through PMIx, with nothing else in their environment.
. "$ZERO_TEST_TOP/tests/tap.sh"

probe=$ZERO_TEST_BUILD/tests/rank/job_probe
mpirun=$(command -v mpirun.openmpi || command -v mpirun)
case $("$mpirun" --version 2>/dev/null) in
*'Open MPI'* | *OpenRTE* | *PRRTE*) ;;
*) skip_all 'no mpirun of Open MPI' ;;
esac
grep -q '^#define HAVE_PMIX 1' "$ZERO_TEST_BUILD/config.h" || skip_all 'built without PMIx'
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT ZERO_JOB
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT
# What the library of PMIx itself loses at its end.
echo 'leak:libpmix.so' > "$scratch/lsan"
export LSAN_OPTIONS="suppressions=$scratch/lsan:print_suppressions=0"

# mpi N COMMAND...: as root too, on few cores, within a minute.
mpi() {
    mpi_n=$1
    shift
    timeout -k 5 60 env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        "$mpirun" --oversubscribe -n "$mpi_n" "$@" > "$scratch/out" 2> "$scratch/err"
}
said() {
    cat "$scratch/out" "$scratch/err"
}
# so_often N LINE: the line stands there N times.
so_often() {
    [ "$(grep -cxF "$2" "$scratch/out")" = "$1" ] || { said; return 1; }
}

mpi 4 "$probe" where
ok 'four ranks are four ranks' so_often 4 'ranks 0 1 2 3'
for rank in 0 1 2 3; do
    ok "rank $rank knows its place" so_often 1 "rank $rank: $rank of 4 here, one host"
done
mpi 1 "$probe"
ok 'one rank is one' so_often 1 'ranks 0'

# As on several hosts: address, port and secret come from rank 0 by PMIx.
mpi 4 env ZERO_RENDEZVOUS=tcp ZERO_INTERFACE=lo "$probe" where
ok 'by TCP at an interface' so_often 4 'ranks 0 1 2 3'
ok 'without a warning: there is a secret' test ! -s "$scratch/err"
mpi 3 env ZERO_RENDEZVOUS=tcp MASTER_ADDR=127.0.0.1 ZERO_PORT="$((20000 + $$ % 10000))" "$probe"
ok 'by TCP at an address of our own' so_often 3 'ranks 0 1 2'
mpi 2 sh -c "export ZERO_RENDEZVOUS=tcp ZERO_INTERFACE=lo; '$probe' && '$probe'"
ok 'a second program of the same ranks' so_often 4 'ranks 0 1'
mpi 2 env ZERO_RENDEZVOUS=tcp ZERO_INTERFACE=lo "$probe" twice
ok 'a second job of the same processes' so_often 4 'ranks 0 1'
mpi 2 "$probe" twice
ok 'by Unix sockets too' so_often 4 'ranks 0 1'

# A server that is late with what the fence should have brought. A sanitizer comes before any library.
late="$(ldd "$probe" | awk '/lib[at]san/ { printf "%s ", $3 }')$ZERO_TEST_BUILD/tests/rank/.libs/libunready.so"
mpi 2 env ZERO_RENDEZVOUS=tcp ZERO_INTERFACE=lo LD_PRELOAD="$late" UNREADY=5 "$probe"
ok 'what is not there yet is asked for again' so_often 2 'ranks 0 1'
ok 'five times' test "$(grep -cx 'asked 6' "$scratch/err")" = 2
mpi 2 env ZERO_RENDEZVOUS=tcp ZERO_INTERFACE=lo LD_PRELOAD="$late" UNREADY=999999 \
    ZERO_JOIN_TIMEOUT=1 "$probe"
ok 'until the deadline' sh -c "grep -F 'PMIx_Get of rank 0' '$scratch/err' &&
    grep -x 'asked 7' '$scratch/err' || { cat '$scratch/out' '$scratch/err'; exit 1; }"

mpi 2 env ZERO_RENDEZVOUS=tcp ZERO_INTERFACE=none7 "$probe"
ok 'an interface that is not there is named' sh -c "grep -F 'ZERO_INTERFACE is \"none7\"' '$scratch/err'"
# Its launcher may leave the others alone when rank 0 ends: here it does not see that it has failed.
mpi 2 env ZERO_JOIN_TIMEOUT=20 ZERO_RENDEZVOUS=tcp ZERO_INTERFACE=none7 sh -c "'$probe'; exit 0"
ok 'and by the others, which do not wait for it' sh -c "
    grep -F 'rank 0 cannot say where it listens: ZERO_INTERFACE is \"none7\"' '$scratch/err' ||
        { cat '$scratch/out' '$scratch/err'; exit 1; }"

# A machine with two networks and no route to others, and an interface to which nothing is connected.
space=zero-p-$$
end_space() {
    ip netns del "$space" 2>/dev/null
    rm -rf "$scratch"
}
make_space() {
    ip netns add "$space" && trap end_space EXIT && ip -n "$space" link set lo up &&
        ip -n "$space" link add idle0 type veth peer name off0 && ip -n "$space" link set idle0 up &&
        ip -n "$space" addr add 172.17.0.1/16 dev idle0 || return 1
    for way in 1 2; do
        ip -n "$space" link add way$way type veth peer name end$way &&
            ip -n "$space" addr add 10.78.$way.1/24 dev way$way &&
            ip -n "$space" link set way$way up && ip -n "$space" link set end$way up || return 1
    done
    for _ in $(seq 50); do # the kernel takes its time to say so
        ip -n "$space" link show idle0 | grep -q 'state [A-Z]*DOWN' && break
        sleep 0.1
    done
}
if [ "$(id -u)" != 0 ]; then
    skip 'a machine with several networks' 'not root'
elif ! make_space 2>/dev/null; then
    skip 'a machine with several networks' 'no network namespace can be made here'
else
    launcher=$mpirun
    printf '#!/bin/sh\nexec ip netns exec %s %s "$@"\n' "$space" "$launcher" > "$scratch/there"
    chmod +x "$scratch/there"
    mpirun=$scratch/there
    mpi 2 env ZERO_RENDEZVOUS=tcp "$probe"
    ok 'several networks and no default route: nothing is guessed, they are listed' \
        sh -c "grep -F 'ZERO_INTERFACE: way1 (10.78.1.1), way2 (10.78.2.1)' '$scratch/err' ||
            { cat '$scratch/out' '$scratch/err'; exit 1; }"
    mpi 2 env ZERO_RENDEZVOUS=tcp ZERO_INTERFACE=way2 "$probe"
    ok 'which works' so_often 2 'ranks 0 1'
    ip -n "$space" link set way2 down
    mpi 2 env ZERO_RENDEZVOUS=tcp ZERO_LOG=info "$probe"
    ok 'the only one that runs is taken' sh -c "grep -F 'listens at 10.78.1.1:' '$scratch/err' ||
        { cat '$scratch/out' '$scratch/err'; exit 1; }"
    mpirun=$launcher
fi

# A launcher that is gone.
ok 'without a server there is an error' sh -c "
    PMIX_RANK=0 PMIX_NAMESPACE=gone timeout -k 5 100 '$probe' 2> '$scratch/err' && exit 1
    grep -E 'PMIx: .*(mpirun|launcher)' '$scratch/err'"
ok 'RANK goes before PMIx' sh -c "
    PMIX_RANK=3 PMIX_NAMESPACE=gone RANK=0 WORLD_SIZE=1 '$probe' | grep -x 'ranks 0'"

# A launcher that is killed when rank 0 has asked it, and rank 1 has not come. The ranks write to
# files, as nobody reads what they say.
wait_for() {
    for _ in $(seq 300); do
        eval "$1" && return
        sleep 0.1
    done
    return 1
}
# ended FILE...: each ends with a line "status N".
ended() {
    for file in "$@"; do
        grep -q '^status' "$file" 2>/dev/null || return 1
    done
}
# started COMMAND: two ranks run it in a shell, their words go to $scratch/rank.R; sets $launcher.
started() {
    rm -f "$scratch"/rank.*
    env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$mpirun" --oversubscribe -n 2 \
        sh -c "trap '' HUP TERM; exec > '$scratch'/rank.\$PMIX_RANK 2>&1; $1; echo status \$?" \
        > "$scratch/out" 2> "$scratch/err" &
    launcher=$!
}
lost() {
    kill -KILL "$launcher"
    wait "$launcher" 2>/dev/null
}
both="'$scratch/rank.0' '$scratch/rank.1'"
touch "$scratch/held"
started "echo here; n=0; while [ \$PMIX_RANK = 1 ] && [ -e '$scratch/held' ] && [ \$n -lt 300 ]; do
    sleep 0.1; n=\$((n + 1)); done; export ZERO_JOIN_TIMEOUT=5 ZERO_RENDEZVOUS=tcp ZERO_INTERFACE=lo; '$probe'"
wait_for "[ -s '$scratch/rank.0' ] && [ -s '$scratch/rank.1' ]"
sleep 1
lost
rm "$scratch/held"
ok 'the launcher is gone while ranks meet: both end' wait_for "ended $both"
for rank in 0 1; do
    ok "rank $rank names it" sh -c "grep -E 'PMIx: .*(mpirun|launcher)' '$scratch/rank.$rank' &&
        grep -x 'status [1-9][0-9]*' '$scratch/rank.$rank' || { cat '$scratch'/rank.*; exit 1; }"
done

# Who has met needs it no more.
if [ -x "$ZERO_TEST_BUILD/zero-gpt2" ]; then
    for rendezvous in auto tcp; do
        started "ZERO_RENDEZVOUS=$rendezvous '$ZERO_TEST_BUILD/zero-gpt2' --preset micro --batch 2 \
            --steps 400 --data '$ZERO_TEST_TOP/LICENSE'"
        wait_for "grep -qE '^step +[1-9][0-9]*/400' '$scratch/rank.0' 2>/dev/null"
        ok "$rendezvous: there were steps to go" sh -c "! grep -E 'step +400/400' '$scratch/rank.0'"
        lost
        ok "$rendezvous: the launcher is gone between steps: the ranks go on to the end" \
            wait_for "ended $both"
        ok "$rendezvous: without an error" sh -c "grep -E 'step +400/400' '$scratch/rank.0' &&
            [ \$(cat $both | grep -cx 'status 0') = 2 ] || { cat '$scratch'/rank.*; exit 1; }"
    done
    mpi 2 "$ZERO_TEST_BUILD/zero-gpt2" --preset micro --batch 2 --steps 3 \
        --data "$ZERO_TEST_TOP/LICENSE"
    ok 'zero-gpt2 trains' sh -c "grep -E 'step +3/3' '$scratch/out' || { cat '$scratch'/*; exit 1; }"
else
    skip 'zero-gpt2 trains' 'not built'
fi
done_testing
