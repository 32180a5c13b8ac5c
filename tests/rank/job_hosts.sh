#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Two network namespaces as two hosts, with a third one that passes packets between them: ranks find
# each other by TCP, know who shares a host, and notice on both sides when packets are dropped.
. "$ZERO_TEST_TOP/tests/tap.sh"

probe=$ZERO_TEST_BUILD/tests/rank/job_probe
[ "$(id -u)" = 0 ] || skip_all 'not root'
command -v ip >/dev/null || skip_all 'no program: ip'
a=zero-a-$$ b=zero-b-$$ between=zero-c-$$
scratch=$(mktemp -d) || exit 99
clean() {
    # shellcheck disable=SC2046 # a list of processes
    kill -KILL $(cat "$scratch"/*.pid 2>/dev/null) 2>/dev/null
    for space in $a $b $between; do
        ip netns del "$space" 2>/dev/null
    done
    rm -rf "$scratch"
}
trap clean EXIT
for space in $a $b $between; do
    ip netns add "$space" 2>/dev/null || skip_all 'no network namespace can be made here'
done

# link SPACE NUMBER: SPACE is 10.77.NUMBER.1, the middle 10.77.NUMBER.2.
link() {
    ip link add "zl$2" netns "$1" type veth peer name "zm$2" netns $between &&
        ip -n "$1" addr add "10.77.$2.1/24" dev "zl$2" &&
        ip -n $between addr add "10.77.$2.2/24" dev "zm$2" &&
        ip -n "$1" link set lo up && ip -n "$1" link set "zl$2" up &&
        ip -n $between link set "zm$2" up &&
        ip -n "$1" route add default via "10.77.$2.2"
}
forward() {
    ip netns exec $between sh -c "echo $1 > /proc/sys/net/ipv4/ip_forward"
}
{ link $a 1 && link $b 2 && forward 1; } 2>/dev/null ||
    skip_all 'no network namespace can be made here'

unset LOCAL_RANK ZERO_JOB TORCHELASTIC_RUN_ID ZERO_LOG
export WORLD_SIZE=4 MASTER_ADDR=10.77.1.1 MASTER_PORT=29500
export ZERO_SECRET_FILE="$scratch/secret"
(umask 077 && head -c 32 /dev/urandom | od -An -vtx1 | tr -d ' \n' > "$ZERO_SECRET_FILE")

# start MODE: ranks 0 and 1 on host a, 2 and 3 on b.
start() {
    for rank in 0 1 2 3; do
        space=$a
        [ $rank -lt 2 ] || space=$b
        RANK=$rank ip netns exec "$space" "$probe" "$1" \
            > "$scratch/$rank.out" 2> "$scratch/$rank.err" &
        echo $! > "$scratch/$rank.pid"
    done
}
now_ms() {
    echo $(($(date +%s%N) / 1000000))
}
said() {
    cat "$scratch"/*.out "$scratch"/*.err
}
all_say() {
    for rank in 0 1 2 3; do
        grep -qxF "$1" "$scratch/$rank.out" || { said; return 1; }
    done
}
errors_say() { # PATTERN RANK...
    pattern=$1
    shift
    for rank in "$@"; do
        grep -qE "$pattern" "$scratch/$rank.err" || { said; return 1; }
    done
}

for say in LOCAL_WORLD_SIZE=2 ''; do
    # shellcheck disable=SC2163 # the variable's name is in the variable
    if [ -n "$say" ]; then export "$say"; else unset LOCAL_WORLD_SIZE; fi
    what=${say:-without LOCAL_WORLD_SIZE}
    start where
    wait
    ok "ranks on two hosts find each other, $what" all_say 'ranks 0 1 2 3'
    for rank in 0 1 2 3; do
        ok "rank $rank knows its place" grep -xF \
            "rank $rank: $((rank % 2)) of 2 here, several hosts" "$scratch/$rank.out"
    done
    none 'and nothing is warned about' "$(cat "$scratch"/*.err)"
done

# Debian's way: a machine's own name leads to its loopback, on others to its address. Here with a
# bridge of the same address on both hosts, as container engines make them.
cat > "$scratch/named" <<'END'
#!/bin/sh
# NAME HOSTS PROGRAM...: as on a machine of that name
hostname "$1" && mount --bind "$2" /etc/hosts && shift 2 && exec "$@"
END
chmod +x "$scratch/named"
printf '127.0.0.1 localhost\n127.0.1.1 node1\n127.0.1.1 head\n' > "$scratch/hosts-1"
printf '127.0.0.1 localhost\n127.0.1.1 node2\n10.77.1.1 node1 head\n' > "$scratch/hosts-2"
for space in $a $b; do
    ip -n "$space" link add bridge0 type veth peer name box0 &&
        ip -n "$space" link set bridge0 up && ip -n "$space" link set box0 up &&
        ip -n "$space" addr add 172.17.0.1/16 dev bridge0 || exit 99
done
start_named() {
    for rank in 0 1 2 3; do
        space=$a i=1
        [ $rank -lt 2 ] || space=$b i=2
        RANK=$rank ip netns exec "$space" unshare --uts "$scratch/named" node$i \
            "$scratch/hosts-$i" "$probe" where > "$scratch/$rank.out" 2> "$scratch/$rank.err" &
        echo $! > "$scratch/$rank.pid"
    done
    wait
}
for say in LOCAL_WORLD_SIZE=2 ZERO_RENDEZVOUS=tcp ''; do
    for name in node1 head; do
        unset LOCAL_WORLD_SIZE ZERO_RENDEZVOUS
        # shellcheck disable=SC2163 # the variable's name is in the variable
        [ -z "$say" ] || export "$say"
        MASTER_ADDR=$name ZERO_LOG=info start_named
        ok "rank 0's own loopback as MASTER_ADDR $name, ${say:-nothing said}" all_say 'ranks 0 1 2 3'
        ok 'it listens at the interface of the default route, and says why' grep -F \
            "rank 0 listens at 10.77.1.1:29500 (MASTER_ADDR is $name, the loopback here; zl1 has the default route)" \
            "$scratch/0.err"
        ok 'the others say how they come' errors_say "rank 3 comes by TCP to 10.77.1.1:29500 \\(" 3
    done
done
ip -n $a route del default && ip -n $a route add 10.77.2.0/24 via 10.77.1.2 || exit 99
export LOCAL_WORLD_SIZE=2
RANK=0 MASTER_ADDR=node1 ip netns exec $a unshare --uts "$scratch/named" node1 "$scratch/hosts-1" \
    "$probe" where > "$scratch/0.out" 2> "$scratch/0.err"
ok 'without a default route the interfaces are named, and the remedy' errors_say \
    'ZERO_INTERFACE: zl1 \(10.77.1.1\), bridge0 \(172.17.0.1\)' 0
MASTER_ADDR=node1 ZERO_INTERFACE=zl1 start_named
ok 'which works' all_say 'ranks 0 1 2 3'
ok 'where another host has no such interface, it warns' errors_say \
    'ZERO_INTERFACE is "zl1", but .* which has lo, zl2, bridge0: .*; this rank goes without' 2 3
ip -n $a route add default via 10.77.1.2 || exit 99
for space in $a $b; do
    ip -n "$space" link del bridge0
done

start_and_work() {
    start wait
    for _ in $(seq 200); do
        [ "$(cat "$scratch"/*.out | grep -c ready)" = 4 ] && return
        sleep 0.05
    done
}

start_and_work
ok 'rank 0 listens at its address only' sh -c "
    cat /proc/$(cat "$scratch/0.pid")/net/tcp | awk '\$4 == \"0A\" { print \$2 }' | grep -x '01014D0A:733C' &&
    ! cat /proc/$(cat "$scratch/0.pid")/net/tcp /proc/$(cat "$scratch/0.pid")/net/tcp6 |
        awk '\$4 == \"0A\" { print \$2 }' | grep '^0*:'"
forward 0
begin=$(now_ms)
wait
took=$(($(now_ms) - begin))
diag "all ranks knew after $took ms"
ok 'dropped packets are noticed on both sides within 10 s' test "$took" -lt 10000
ok 'the host of rank 0 names a rank of the other' errors_say 'rank [23] failed: .*network' 0 1
ok 'the other host names rank 0' errors_say 'rank 0 failed: .*network' 2 3
forward 1

# Without a heartbeat it is the kernel that notices.
export ZERO_HEARTBEAT=0
start_and_work
forward 0
begin=$(now_ms)
wait
took=$(($(now_ms) - begin))
diag "without a heartbeat all ranks knew after $took ms"
ok 'without a heartbeat too' test "$took" -lt 10500
ok 'and named' errors_say 'rank [023] failed: the network to its process [0-9]+ on .* is cut' 0 1 2 3
forward 1
unset ZERO_HEARTBEAT

start_and_work
kill -KILL "$(cat "$scratch/3.pid")"
begin=$(now_ms)
wait
took=$(($(now_ms) - begin))
ok "a rank that is killed on the other host is named within a second ($took ms)" test "$took" -lt 1500
ok 'with its host' errors_say 'rank 3 failed: its process [0-9]+ on [^ ]+ has ended' 0 1 2

unset ZERO_SECRET_FILE
export LOCAL_WORLD_SIZE=2
start where
wait
ok 'without a secret several hosts are refused' errors_say 'ZERO_SECRET_FILE' 0 1 2 3
export ZERO_INSECURE=1
start where
wait
ok 'unless that is wanted' all_say 'ranks 0 1 2 3'
ok 'with a warning' errors_say 'ZERO_INSECURE' 0
done_testing
