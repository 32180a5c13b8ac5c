#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What `zero check comm` is asked for: some cases, again and again; what it says when one fails.
# shellcheck disable=SC2317 # functions are called through ok
. "$ZERO_TEST_TOP/tests/tap.sh"
zero=$ZERO_TEST_BUILD/zero
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 99
unset ZERO_COMM ZERO_TRACE_COMM ZERO_FAULT_COMM ZERO_FAULT ZERO_LOG ZERO_CONFIG

# check ARGUMENT...: leaves out, err and status.
check() {
    timeout -k 5 100 "$zero" check comm "$@" >out 2>err </dev/null
    status=$?
}
show() {
    tail -n 20 out
    tail -n 20 err
    false
}
# gives STATUS FILE WORDS: that status, and FILE has the words.
gives() { { [ "$status" = "$1" ] && grep -qF -e "$3" "$2"; } || show; }
counts() { [ "$(grep -c "$1" out)" = "$2" ] || show; }

# hangs FOLDER BELOW RANK RANKS: a rank that does not return from the plugin, in the background, since
# nothing but a time of half a minute ends it.
hangs() {
    mkdir "$1" && (
        cd "$1" || exit
        export ZERO_FAULT_COMM="$2" ZERO_FAULT="delay=300000:rank=$3:n=2"
        check -n "$4" --timeout 30 --case 'moved as' fault
        echo "$status" >status
    ) &
}
# wrong DEFECT RANKS CASE: the plugin wrong with that defect.
wrong() {
    ZERO_WRONG=$1 check -n "$2" --case "$3" wrong
}
# finds TITLE PATTERN: the case has failed, and a complaint has the pattern.
complains() { { [ "$status" = 1 ] && grep -q '^not ok 1 - ' out && grep -q -e "^# rank .*$1" out; } || show; }
finds() { ok "$1" complains "$2"; }
# of FOLDER: out, err and status are those of that one.
of() {
    cp "$1/out" "$1/err" . && status=$(cat "$1/status")
}
hangs hang-0 shm 0 2
hangs hang-1 shm 1 2
hangs hang-alone self 0 1

check --list
ok 'the cases have names' gives 0 out 'wire bytes'
check -n 2 --case 'wire bytes' shm
ok 'one case' gives 0 out '1..1'
ok 'it is that one' gives 0 out 'ok 1 - wire bytes'
check -n 2 --case 'a' --repeat 3 --seed 5 --case 'wire' shm
ok 'three times' gives 0 out '1..3'
ok 'with seeds that follow each other' gives 0 out 'ok 3 - wire bytes, seed 7'
check -n 1 --repeat 2 --case 'me' self
ok 'what does not apply is skipped as often' counts '# SKIP' "$(($(grep -c '# SKIP' out) / 2 * 2))"
check --case 'no such thing' shm
ok 'a name that no case has' gives 2 err '"no such thing"'
check --repeat 0 shm
ok 'no times' gives 2 err '--repeat'
check --repeat x shm
ok 'no number' gives 2 err 'zero check comm: --repeat is "x"'
check --no-such shm
ok 'no option' gives 2 err 'zero check comm: --no-such is not an option: see zero check comm --help'
ZERO_FAULT=error=EIO:rank=1:at=alloc check -n 2 --case 'waiting' fault
ok 'a case that fails' gives 1 out 'not ok 1 - waiting'
ok 'with what the rank complains about' counts '^# rank 1, context.c:[0-9]*: alloc: .*rank 1' 1
check -n 2 --case 'aborts in the middle' shm
ok 'how many ranks a case needs is said' gives 0 out '# SKIP 3 ranks are needed: -n 3'
check -n 1 --case 'who is missing' self
ok 'also where it is two' gives 0 out '# SKIP 2 ranks are needed: -n 2'
# A communicator that could not be made is not closed: the ranks live, and say what failed.
ZERO_FAULT=error=EIO:at=split:rank=all:n=2 check -n 2 --case 'are independent' fault
ok 'a second split that fails' gives 1 out 'not ok 1 - communicators are independent'
ok 'is what every rank complains about' counts '^# rank [01], order.c:[0-9]*: split: .*ZERO_FAULT' 2
ok 'and no rank ends in it' counts 'has ended' 0
check -n 2 --case 'more than 2 GiB' shm
ok 'what takes gigabytes waits to be asked for' gives 0 out '# SKIP it takes gigabytes of memory: --huge'
check --timeout 0 shm
ok 'no time' gives 2 err 'zero check comm: --timeout'

# A rank that is killed, first in its second collective, then as the case ends.
export ZERO_FAULT_COMM=shm
for rank in 0 1; do
    for at in n=2 at=close; do
        ZERO_FAULT=kill:rank=$rank:$at check -n 2 --case 'wire' fault
        ok "rank $rank is killed, $at: a failure of the plugin" gives 1 out "# rank $rank "
        ok 'the case has failed, once' counts '^not ok 1 - wire bytes' 1
        ok 'no rank says that it passed' counts '^ok' 0
        ok 'and no other case is awaited' counts '^Bail out!' 1
    done
done
ZERO_FAULT=stop:rank=1:n=2 check -n 2 --case 'wire' fault
ok 'a rank that is stopped' gives 1 out '# rank 1 failed: it does not answer'
unset ZERO_FAULT_COMM
export ZERO_PLUGIN_PATH="$ZERO_PLUGIN_PATH:$ZERO_TEST_BUILD/tests/plugin/.libs"
check -n 2 --case 'post different things' shm
ok 'what both ranks posted is named' gives 0 out 'ok 1 - ranks that post different things'
check -n 2 --case 'post different things' terse
ok 'a plugin that names what one of them posted' gives 1 out 'not ok 1 - ranks that post different'
ok 'lacks a value' gives 1 out 'lacks the value'
# A case that would try nothing says so.
check -n 2 --case 'data is moved' shm
ok 'who moves is tried' counts '^ok 1 - data is moved as it is$' 1
check -n 2 --case 'reductions are exact' movers
ok 'who only moves has no sums to be tried' gives 0 out '# SKIP not among the plugin'
# One collective at a time is allowed: no case wants more.
export ZERO_SLOW_ROOM=1
check -n 2 --case 'batch' slow
ok 'who takes one at a time has no batches' gives 0 out '# SKIP max_inflight is 1'
for case in 'large collectives' 'independent' 'an abort'; do
    check -n 2 --case "$case" slow
    ok "$case, one at a time" gives 0 out 'ok 1 - '
done
unset ZERO_SLOW_ROOM
# A reason may be short; there has to be one.
wrong curt 2 'are wrong are refused'
ok 'a short reason is one' gives 0 out 'ok 1 - '
wrong hushed 2 'are wrong are refused'
finds 'a refusal without a reason is found' 'unknown kind: no reason is given'
wrong apart 2 'are wrong are refused'
finds 'a batch of which some are posted is found' \
    '\(nothing of it is posted\|tag 1 came where 0 was due\)'
# The sentence is that of the completion, not of error().
wrong mute 2 'post different things'
finds 'a completion without a reason is found' 'the completion gives no reason'
# It names both ranks, and what differs.
wrong lone 2 'post different things'
finds 'a sentence that names one of two ranks is found' 'lacks "rank 0"'
wrong vague 2 'post different things'
finds 'a sentence that does not say what differs is found' 'lacks "epoch"'
wrong mute 2 'an abort ends'
finds 'so is one after an abort' 'a completion with an error comes without a reason'
for _ in 1 2 3 4 5; do # a busy machine may not let it spin for half of the time
    wrong spins 1 'waiting ends'
    [ $status = 0 ] || break
done
finds 'a progress that does not sleep is found' 'progress computes for [0-9]* of [0-9]* ms'
for what in descriptors threads; do
    wrong $what 2 'leave nothing'
    finds "$what that each context leaves are found" ": [0-9]* $what .* after 5 contexts, [0-9]* after one"
done
# An abort ends blocking calls, too.
wrong deaf 2 'an abort ends'
finds 'a split that ignores an abort before it is found' ': split gives -[A-Z0-9]*, want -ECANCELED'
wrong held 2 'an abort ends'
finds 'so is one under way' 'the split under way gives -[A-Z0-9]*, want -ECANCELED'
# A peer may seem to be gone before its abort is heard; with LOCAL_ABORT none is, the rank aborts in turn.
for what in lost gone; do
    wrong $what 2 'an abort ends'
    ok "a rank that finds the one gone that aborts ($what)" gives 0 out 'ok 1 - '
done
wrong gone 3 'aborts in the middle'
ok 'so it may in the middle of work' gives 0 out 'ok 1 - '
# What the plugin returned is said with its own reason, and nothing else with any.
wrong halves 2 'data is moved'
finds 'a wrong number of bytes is found' ': result [0-9]*, want [0-9]*$'
wrong loses 2 'data is moved'
finds 'a completion that does not come is found' ': no completion within 10 s, want [0-9]*$'
ZERO_FAULT_COMM=shm ZERO_FAULT=error=EIO:rank=1:n=1 check -n 2 --case 'data is moved' fault
finds 'what ends with an error has it by name, with the reason' \
    '\(result\|post gives\) -\(EIO\|5\): fault: '
check -n 2 --case 'data is moved' sums
ok 'who only sums moves nothing' gives 0 out '# SKIP not among the plugin'

wait
# Who waits for a rank that hangs is not taken for it: it comes back sooner.
for rank in 0 1; do
    of hang-$rank
    ok "rank $rank does not return from the plugin" gives 1 out "rank $rank has not returned from"
    ok 'the case has failed, once' counts '^not ok 1 - data is moved' 1
done
of hang-alone
ok 'a rank that is alone does not return' gives 1 out 'rank 0 has not returned from'
ok 'and nothing waits for it' counts '^Bail out!' 1
done_testing
