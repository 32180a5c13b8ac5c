#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Between processes of one machine ucx copies once, from memory to memory: error handling of its
# endpoints would turn that off without a word.
# shellcheck disable=SC2317 # functions are called through ok
. "$ZERO_TEST_TOP/tests/tap.sh"
zero=$ZERO_TEST_BUILD/zero
# A sanitizer insists on coming before any other library.
library=$(ldd "$zero" | awk '/lib[at]san/ { printf "%s ", $3 }')$ZERO_TEST_BUILD/tests/rank/.libs/libcopies.so
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
unset ZERO_LOG ZERO_CONFIG ZERO_NUMERICS ZERO_COMM UCX_TLS
[ -e "$ZERO_TEST_BUILD/.libs/zero-comm-ucx.so" ] || skip_all 'the plugin ucx was not built'
"$zero" info --plugins | grep 'UCX' | grep -q 'cma' || skip_all 'UCX has no cma here'

# gathers [SETTING]: three times 8 MiB from either of two ranks to the other; leaves `copied` and status.
gathers() {
    : >"$tmp/copies"
    env "$@" LD_PRELOAD="$library" COPIES_FILE="$tmp/copies" timeout -k 5 60 "$zero" bench coll -n 2 \
        --comm ucx --op all_gather --bytes 16M --reps 3 --warmup 0 --json >"$tmp/out" 2>"$tmp/err"
    status=$?
    copied=$(awk '{ n += $1 } END { printf "%.0f", n }' "$tmp/copies")
    diag "$* copied: $copied"
}
all=$((3 * 2 * 8 * 1024 * 1024))

gathers A=b
ok 'ranks gather' [ "$status" = 0 ]
ok 'by copying from process to process' [ "$copied" -ge "$all" ]
gathers UCX_TLS=posix,cma,self
ok 'also where the transports are named' [ "$copied" -ge "$all" ]
gathers UCX_TLS=posix,self
ok 'without that transport they gather, too' [ "$status" = 0 ]
ok 'which this test would notice' [ "$copied" -lt 1048576 ] # it tries whether it could
done_testing
