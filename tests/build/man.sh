#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Manual pages: no warning of the formatter, and the options of zero(7) are those of the table.
. "$ZERO_TEST_TOP/tests/tap.sh"

man=$ZERO_TEST_TOP/doc/man
page=$(mktemp)
trap 'rm -f "$page"' EXIT
cat "$man/zero.7.head" > "$page"
"$ZERO_TEST_BUILD/doc/man/options" >> "$page"
cat "$man/zero.7.tail" >> "$page"
ok 'zero(7) says what the table of options says (make update-man)' diff "$page" "$man/zero.7"

for file in "$man"/*.[17]; do
    if command -v man >/dev/null; then
        none "${file##*/} has no fault" \
            "$(LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$file" 2>&1 >/dev/null)"
    else
        skip "${file##*/} has no fault" 'no man'
    fi
done
done_testing
