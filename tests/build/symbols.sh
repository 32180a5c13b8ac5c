#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The library exports the functions that zero.h declares and nothing else, a plugin its one entry;
# and neither can end the process of an application.
. "$ZERO_TEST_TOP/tests/tap.sh"
cd "$ZERO_TEST_BUILD" || exit 1

exported() {
    nm -D --defined-only "$1" | awk '$2 ~ /[A-Z]/ && $2 != "A" { sub(/@.*/, "", $3); print $3 }' |
        sort
}

# Functions that end the process, among those that a file wants from elsewhere.
endings() {
    nm -D --undefined-only "$1" | awk '{ sub(/@.*/, "", $2); print $2 }' |
        grep -Ex '_?exit|_Exit|quick_exit|abort|__assert_fail|err|errx|__longjmp_chk|longjmp' |
        tr '\n' ' '
}

declared=$(awk 'BEGIN { RS = "\001" } {
        gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, ""); gsub(/#[^\n]*/, ""); gsub(/\n/, " ")
        n = split($0, part, ";")
        for (i = 1; i <= n; i++)
            if (match(part[i], /ZERO_API [^(]*\(/)) {
                name = substr(part[i], RSTART, RLENGTH - 1)
                sub(/.*[ *]/, "", name)
                print name
            }
    }' "$ZERO_TEST_TOP/include/zero/zero.h" | sort)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
echo "$declared" > "$scratch/declared"
exported .libs/libzero.so > "$scratch/exported"

ok 'zero.h declares functions' test "$(wc -l < "$scratch/declared")" -gt 20
none 'libzero exports nothing that zero.h does not declare' \
    "$(comm -13 "$scratch/declared" "$scratch/exported")"
none 'libzero exports everything that zero.h declares' \
    "$(comm -23 "$scratch/declared" "$scratch/exported")"
none 'libzero cannot end the process' "$(endings .libs/libzero.so)"

for plugin in .libs/zero-*-*.so; do
    [ -e "$plugin" ] || continue
    ok "${plugin##*/} exports its entry only" test "$(exported "$plugin")" = zero_plugin_v1
    none "${plugin##*/} cannot end the process" "$(endings "$plugin")"
done
done_testing
