#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Whole jobs with a fault injected by the comm plugin `fault`: they end, in time, with an error that
# names the rank to blame. (What each fault does to single collectives: tests/rank/fault.c.)
# shellcheck disable=SC2317 # functions are called through ok
. "$ZERO_TEST_TOP/tests/tap.sh"
zero=$ZERO_TEST_BUILD/zero
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 99
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT ZERO_JOB ZERO_STAGE
unset ZERO_ACCUM ZERO_CONFIG ZERO_LOG ZERO_FAULT ZERO_FAULT_COMM ZERO_FAULT_SEED
export ZERO_COMM=fault OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

show() {
    tail -n 15 out
    tail -n 30 err
    false
}
quotes() { grep -q -e "$1" err || show; }
# Behind what each rank says of itself.
nobody_says() {
    if grep -v '^zero run' err | sed 's/^\[.\] zero-gpt2: rank [0-9]* failed in //' | grep -q -e "$1"; then
        show
    fi
}
# train FAULT SECONDS ARGUMENT...: three steps of GPT-2 on $ranks ranks (2); leaves out, err and status.
# $grace: that of zero run; a rank that stands still needs none.
train() {
    what=$1 seconds=$2
    shift 2
    ZERO_FAULT=$what timeout -k 5 "$seconds" "$zero" run -n "${ranks:-2}" --grace "${grace:-15}" -- \
        "$ZERO_TEST_BUILD/zero-gpt2" --preset micro --data "$ZERO_TEST_TOP/LICENSE" --steps 3 "$@" \
        >out 2>err </dev/null
    status=$?
}
# bench FAULT: a few collectives.
bench() {
    ZERO_FAULT=$1 timeout -k 5 60 "$zero" bench coll -n 2 --no-bind --bytes 64K --reps 4 \
        --warmup 1 >out 2>err </dev/null
    status=$?
}
good() { [ "$status" = 0 ] || show; }
happened() { grep -q "zero: rank $1: fault: $2, at" err || show; }
# Failed in time, and a rank, not the launcher, blames rank 1.
blames() {
    case $status in
    137) [ "$1" = killed ] || { show; return 1; } ;; # else by timeout
    0 | 124) show; return 1 ;;
    esac
    grep -v '^zero run' err | grep -v 'zero: rank [0-9]*: fault: ' | grep -q 'rank 1' || show
}

train '' 60
ok 'without a fault a job ends well' good
train 'skip:rank=1:n=100000' 60
ok 'so does one whose fault never happens' good
ok 'which is said' quotes 'did not happen'

for fault in skip size dtype; do
    train "$fault:rank=1:n=4" 60
    ok "$fault: it happens" happened 1 "$fault:rank=1:n=4"
    ok "$fault: the ranks went apart, and rank 1 is named" blames
    bench "$fault:rank=1:n=4"
    ok "$fault among bare collectives" blames
done
ZERO_TIMEOUT=4 train order:rank=1:n=4 60
ok 'order: rank 1 is named' blames

for stage in 0 3; do
    train error=EIO:rank=1:n=5 60 --stage $stage
    ok "stage $stage, a post fails: rank 1 is named" blames
    ok "stage $stage, a post fails: with the cause" quotes 'post fails on rank 1'
done
train error=ENETDOWN:rank=1:at=progress:n=20 60
ok 'progress fails: rank 1 is named' blames
train error=EIO:rank=1:at=done:n=3 60
ok 'a completion is an error: rank 1 is named' blames
for place in open alloc; do
    train "error=ENOMEM:rank=1:at=$place" 60
    ok "$place fails: rank 1 is named" blames
    ok "$place fails: with the cause" quotes "$place fails on rank 1"
done
# The cause may be overtaken by its consequence here, "rank 1 aborted".
train error=ENOMEM:rank=1:at=split 60
ok 'split fails: rank 1 is named' blames
# The others are in an exchange that only their deadline ends.
ZERO_TIMEOUT=4 train error=ENOMEM:rank=1:at=exchange 60
ok 'exchange fails: rank 1 is named' blames
train error=EIO:rank=1:at=close 60
ok 'an error at the end is too late for a job that has done its work' good

train kill:rank=1:n=5 60
ok 'a rank dies in a step: the other one names it' blames killed
ok 'a rank dies in a step: and the launcher' quotes '^zero run: rank 1 .*killed by signal 9'
train kill:rank=1:at=open 60
ok 'a rank dies before it opens its transport' blames killed
train kill:rank=1:at=close 60
ok 'a rank dies at the very end' quotes '^zero run: rank 1 .*killed by signal 9'

train 'kill:rank=1:n=5,delay=90000:rank=0:at=close' 60
ok 'a transport that does not end after an error is not waited for' blames killed
ok 'which is said' quotes 'left to the end of the process'
train 'delay=60000:rank=0:at=done:n=1,delay=1500:rank=1:n=3,kill:rank=1:n=4' 60
ok 'a transport that does not return keeps no rank from saying who has died' blames killed

grace=1
train stop:rank=1:n=5 60
ok 'a rank stands still in a step: the other one names it' blames
train stop:rank=1:at=exchange 60
ok 'a rank stands still while memory is exchanged' blames
grace=15

train delay=300:rank=1:n=4:times=3 60
ok 'a rank that is late is waited for' good
ok 'it was late' happened 1 'delay=300:rank=1:n=4:times=3'
ZERO_TIMEOUT=2 train delay=9000:rank=1:n=4 60
ok 'a rank that is later than ZERO_TIMEOUT is named' blames
ok 'with the time' quotes 'ZERO_TIMEOUT'

# Where ranks only wait for each other: rank 0 says who is missing, and takes no blame itself.
for comm in shm ucx ofi; do
    [ -e "$ZERO_TEST_BUILD/.libs/zero-comm-$comm.so" ] || continue
    for place in open split exchange; do
        ZERO_FAULT_COMM=$comm ZERO_TIMEOUT=1 train "delay=4000:rank=1:at=$place" 60
        ok "$comm: a rank that is too late in $place is named by rank 0" \
            quotes '^\[0\] zero-gpt2: .*rank 1'
        ok "$comm, $place: and rank 0 is not" nobody_says 'rank 0 failed'
    done
done

# A rank that leaves an operation out while the others are late waits sooner than they do.
ranks=3
# It is the last gather of an update, so that none of its kind follows before a reduction.
last=kind=all_gather:n=5
ZERO_TIMEOUT=2 train "skip:rank=2:$last,delay=400:rank=0:$last,delay=400:rank=1:$last" 60 --stage 2
ok 'it left an operation out' happened 2 "skip:rank=2:$last"
ok 'which its own deadline told, not a fingerprint' quotes 'ZERO_TIMEOUT'
for rank in 0 1 2; do
    ok "rank $rank says that it was rank 2" quotes "^\[$rank\] zero-gpt2: rank 2 failed"
done
ranks=2

train explode 60
ok 'text that is no fault is refused' test "$status" = 1
ok 'quoted, with the grammar' quotes '"explode": there is no such action; ACTION'
train drop:rank=1 60
ok 'what drops a collective has another name, which is told' \
    quotes '"drop:rank=1": there is no such action; .* skip (drops a collective), order (posts it after'
done_testing
