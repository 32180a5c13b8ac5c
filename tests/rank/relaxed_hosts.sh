#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Two network namespaces as two hosts with two ranks each: what ZERO_NUMERICS=relaxed sends between
# them, by the counters of their interfaces, is half of what direct exchange sends.
# shellcheck disable=SC2317 # functions are called through ok
. "$ZERO_TEST_TOP/tests/tap.sh"

[ "$(id -u)" = 0 ] || skip_all 'not root'
command -v ip >/dev/null || skip_all 'no program: ip'
[ -e "$ZERO_TEST_BUILD/.libs/zero-comm-ucx.so" ] || skip_all 'the plugin ucx was not built'
a=zero-ra-$$ b=zero-rb-$$
scratch=$(mktemp -d) || exit 99
clean() {
    ip netns del $a 2>/dev/null
    ip netns del $b 2>/dev/null
    rm -rf "$scratch"
}
trap clean EXIT
{
    ip netns add $a && ip netns add $b &&
        ip link add zero-r0 netns $a type veth peer name zero-r1 netns $b &&
        ip -n $a addr add 10.77.9.1/24 dev zero-r0 && ip -n $b addr add 10.77.9.2/24 dev zero-r1 &&
        ip -n $a link set lo up && ip -n $b link set lo up &&
        ip -n $a link set zero-r0 up && ip -n $b link set zero-r1 up
} 2>/dev/null || skip_all 'no network namespace can be made here'

unset LOCAL_RANK ZERO_JOB TORCHELASTIC_RUN_ID ZERO_LOG ZERO_CONFIG ZERO_RELAXED_GROUP UCX_TLS
export WORLD_SIZE=4 MASTER_ADDR=10.77.9.1 MASTER_PORT=29500 ZERO_THREADS=1 ZERO_COMM=ucx
export ZERO_SECRET_FILE="$scratch/secret"
(umask 077 && head -c 32 /dev/urandom | od -An -vtx1 | tr -d ' \n' > "$ZERO_SECRET_FILE")

# The kernel takes up to a second to call a link up.
for end in "$a zero-r0" "$b zero-r1"; do
    i=0
    until [ "$(ip netns exec "${end% *}" cat "/sys/class/net/${end#* }/operstate")" = up ] ||
        [ $i = 50 ]; do
        sleep 0.1
        i=$((i + 1))
    done
done

sent() { ip netns exec $a cat /sys/class/net/zero-r0/statistics/tx_bytes; }

# train NUMERICS: leaves `bytes`, `loss` and how many ranks failed.
train() {
    before=$(sent)
    pids=
    failed=0
    for rank in 0 1 2 3; do
        space=$a
        [ $rank -lt 2 ] || space=$b
        RANK=$rank ZERO_NUMERICS=$1 ip netns exec $space timeout -k 5 100 \
            "$ZERO_TEST_BUILD/zero-gpt2" --preset tiny --stage 2 --dtype fp32 --seq 32 --batch 1 \
            --steps 4 --val 0 --data "$ZERO_TEST_TOP/LICENSE" --json "$scratch/log.$rank" \
            >"$scratch/out.$rank" 2>&1 </dev/null &
        pids="$pids $!"
    done
    for pid in $pids; do
        wait "$pid" || failed=$((failed + 1))
    done
    bytes=$(($(sent) - before))
    loss=$(sed -n 's/.*"loss": *\([0-9.]*\).*/\1/p' "$scratch/log.0" | tail -n 1)
    diag "$1: $bytes bytes, loss $loss"
    [ $failed = 0 ] || tail -n 3 "$scratch"/out.*
}

train ordered
ok 'four ranks on two hosts train' [ $failed = 0 ]
ordered=$bytes ordered_loss=$loss
train relaxed
ok 'with relaxed sums, too' [ $failed = 0 ]
ok 'to the same loss' awk -v a="$loss" -v b="$ordered_loss" \
    'BEGIN { d = a > b ? a - b : b - a; exit !(a > 0 && d < 0.001 * a) }'
ok 'and send half' awk -v a="$bytes" -v b="$ordered" 'BEGIN { exit !(a > 0.4 * b && a < 0.6 * b) }'
done_testing
