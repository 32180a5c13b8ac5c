#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The wrappers `trace` and `fault`: over other plugins they pass what these pass; what is below them
# is found and checked as strictly as what the library loads itself; what `trace` writes.
# shellcheck disable=SC2317 # functions are called through ok
. "$ZERO_TEST_TOP/tests/tap.sh"
zero=$ZERO_TEST_BUILD/zero
libs=$ZERO_TEST_BUILD/.libs
bad=$ZERO_TEST_BUILD/tests/plugin/.libs
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 99
unset ZERO_COMM ZERO_TRACE_COMM ZERO_FAULT_COMM ZERO_FAULT ZERO_LOG ZERO_CONFIG

show() {
    grep -v '^ok' out | tail -n 20
    tail -n 20 err
    false
}
# check RANKS PLUGIN ARGUMENT...: leaves out, err and status.
check() {
    ranks=$1 plugin=$2
    shift 2
    timeout -k 5 300 "$zero" check comm -n "$ranks" "$@" "$plugin" >out 2>err </dev/null
    status=$?
}
passes() { { [ "$status" = 0 ] && grep -q '^ok' out && ! grep -q '^not ok' out; } || show; }
# refused WHAT BELOW WORDS: trace over BELOW cannot be used, and the reason has the words.
refused() {
    ZERO_TRACE_COMM=$2 check 2 trace --case 'waiting'
    ok "$1" refusal "$3"
}
strange() {
    { [ "$status" = 1 ] && grep -q 'zero-comm-wrong.so ended a collective that is not under way' out; } || show
}
refusal() { { [ "$status" = 2 ] && grep -qF -e "$1" err; } || show; }

for wrapper in trace fault; do
    for ranks in 2 ${ZERO_TEST_WHOLE:+3}; do
        check $ranks $wrapper
        ok "$wrapper over shm, $ranks ranks" passes
    done
    check 1 self
    grep -E '^(not )?ok' out >without
    ZERO_TRACE_COMM=self ZERO_FAULT_COMM=self check 1 $wrapper
    grep -E '^(not )?ok' out >with
    ok "$wrapper over self is as self alone" cmp with without
    if [ -e "$libs/zero-comm-ucx.so" ]; then
        ZERO_TRACE_COMM=ucx ZERO_FAULT_COMM=ucx check 2 $wrapper
        ok "$wrapper over ucx, which gives no memory of its own" passes
    fi
done
ZERO_TRACE_COMM=fault check 2 trace
ok 'trace over fault over shm' passes
ZERO_FAULT_COMM=$libs/zero-comm-trace.so check 2 "$libs/zero-comm-fault.so" --case 'data'
ok 'fault over trace over shm, by absolute paths' passes
"$zero" info --plugins >out 2>err
ok 'zero info shows what is below' grep -q 'over shm: ranks of one machine' out

# ---- What is below

refused 'a plugin that is not there' pigeon 'zero-comm-pigeon.so'
refused 'a relative path' ./zero-comm-shm.so \
    'ZERO_TRACE_COMM is "./zero-comm-shm.so": "./zero-comm-shm.so" names no comm plugin'
refused 'a name in capitals' Shm 'absolute path'
refused 'a file of another name' /etc/passwd 'zero-comm-NAME.so'
refused 'a device plugin' "$bad/zero-device-old_table.so" 'one for comm is needed'
refused 'itself' trace 'stands on itself'
ZERO_FAULT_COMM=trace
export ZERO_FAULT_COMM
refused 'a circle of two' fault 'stands on itself'
unset ZERO_FAULT_COMM
cp "$libs/zero-comm-trace.so" zero-comm-copy.so
refused 'a copy of itself under another name' "$tmp/zero-comm-copy.so" 'stands on itself'
refused 'no entry' "$bad/zero-comm-bad_symbol.so" 'no symbol zero_plugin_v1'
refused 'the entry of another library' "$bad/zero-comm-bad_origin.so" 'comes from another file'
refused 'another version' "$bad/zero-comm-bad_major.so" 'speaks comm interface'
refused 'a later version' "$bad/zero-comm-bad_need.so" 'needs comm interface'
refused 'a missing entry' "$bad/zero-comm-bad_entry.so" 'entry post'
refused 'a table that ends early' "$bad/zero-comm-bad_short.so" 'entry split'
refused 'a table without end' "$bad/zero-comm-bad_size.so" 'bytes long'
refused 'no table' "$bad/zero-comm-bad_table.so" 'comm table is NULL'
refused 'no interface of the kind' "$bad/zero-comm-bad_kind.so" 'no comm interface'
refused 'another name inside' "$bad/zero-comm-bad_name.so" 'calls itself'
refused 'no description' "$bad/zero-comm-bad_desc.so" 'returned no plugin'
refused 'an undefined symbol' "$bad/zero-comm-bad_undefined.so" 'symbol_that_nobody_defines'
refused 'an entry that fails, in its own words' "$bad/zero-comm-bad_init.so" 'flux capacitor'
refused 'a probe that fails, in its own words' "$bad/zero-comm-bad_probe.so" 'no such wire'
echo 'this is no plugin' >zero-comm-text.so
refused 'a text' "$tmp/zero-comm-text.so" 'cannot load'

mkdir open
cp "$libs/zero-comm-shm.so" open/
chmod 0777 open
refused 'a folder that everybody may write to' "$tmp/open/zero-comm-shm.so" 'chmod o-w'
chmod 0700 open
chmod 0666 open/zero-comm-shm.so
refused 'a file that everybody may write to' "$tmp/open/zero-comm-shm.so" 'chmod o-w'
chmod 0644 open/zero-comm-shm.so
ln -s open/zero-comm-shm.so zero-comm-shm.so
ZERO_TRACE_COMM=$tmp/zero-comm-shm.so check 2 trace --case 'waiting'
ok 'a link from a good folder to a good file' passes
chmod 0777 open
refused 'a link into a bad folder' "$tmp/zero-comm-shm.so" 'chmod o-w'

# ---- What ends and is not under way

for wrapper in trace fault; do
    for how in twice foreign; do
        ZERO_WRONG=$how ZERO_TRACE_COMM=$bad/zero-comm-wrong.so \
            ZERO_FAULT_COMM=$bad/zero-comm-wrong.so check 1 $wrapper --case 'data is moved'
        ok "$wrapper notices a collective that ends $how" strange
    done
done

# ---- What trace writes

ZERO_LOG=none,trace:info check 2 trace --case 'wire bytes'
ok 'the table: collectives' grep -qE 'all_gather +1 +0 +[0-9]+ ' err
ok 'the table: calls' grep -qE 'exchange +1 +0 ' err
ok 'no more than the table' test "$(grep -c 'post of' err)" = 0
ZERO_LOG=none,trace:trace check 2 trace --case 'wire bytes'
ok 'posts' grep -qE 'post of all_reduce 2 on communicator 1 = 0: [0-9]+ bf16 to fp32' err
ok 'completions' grep -qE 'broadcast 3 on communicator 1 = [0-9]+ after [0-9.]+ ms' err
ok 'memory' grep -qE 'alloc of 4194304 bytes = 0 in' err
ZERO_LOG='' check 2 trace --case 'wire bytes'
ok 'nothing unless asked' test ! -s err
done_testing
