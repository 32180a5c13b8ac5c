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
mpi 2 env ZERO_RENDEZVOUS=tcp ZERO_INTERFACE=none7 "$probe"
ok 'an interface that is not there is named' sh -c "grep -F 'ZERO_INTERFACE is \"none7\"' '$scratch/err'"

# A launcher that is gone.
ok 'without a server there is an error' sh -c "
    PMIX_RANK=0 PMIX_NAMESPACE=gone timeout -k 5 100 '$probe' 2> '$scratch/err' && exit 1
    grep -E 'PMIx: .*(mpirun|launcher)' '$scratch/err'"
ok 'RANK goes before PMIx' sh -c "
    PMIX_RANK=3 PMIX_NAMESPACE=gone RANK=0 WORLD_SIZE=1 '$probe' | grep -x 'ranks 0'"

if [ -x "$ZERO_TEST_BUILD/zero-gpt2" ]; then
    mpi 2 "$ZERO_TEST_BUILD/zero-gpt2" --preset micro --batch 2 --steps 3 \
        --data "$ZERO_TEST_TOP/LICENSE"
    ok 'zero-gpt2 trains' sh -c "grep -E 'step +3/3' '$scratch/out' || { cat '$scratch'/*; exit 1; }"
else
    skip 'zero-gpt2 trains' 'not built'
fi
done_testing
