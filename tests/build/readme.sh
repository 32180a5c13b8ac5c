#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the README tells people to type: scripts exist, options are known, the example compiles
# without warnings and trains on one rank and on two.
. "$ZERO_TEST_TOP/tests/tap.sh"
cd "$ZERO_TEST_BUILD" || exit 1

readme=$ZERO_TEST_TOP/README.md
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The text of all fences of one language.
fences() {
    awk -v fence="\`\`\`$1" '$0 == fence { on = 1; next } /^```/ { on = 0 } on' "$readme"
}

fences c > "$scratch/example.c"
ok 'the example is there' test -s "$scratch/example.c"
# shellcheck disable=SC2086 # lists of flags
ok 'it compiles' $CC -std=c11 -Wall -Wextra -Wpedantic -Werror $SANITIZE_CFLAGS \
    -I"$ZERO_TEST_TOP/include" -o "$scratch/example" "$scratch/example.c" \
    -L"$ZERO_TEST_BUILD/.libs" -lzero -Wl,-rpath,"$ZERO_TEST_BUILD/.libs"
ok 'it trains on one rank' sh -c "'$scratch/example' | grep 'norm of the gradient after 100 steps'"
ok 'it trains on two ranks' sh -c "./zero run -n 2 -- '$scratch/example' |
    grep 'norm of the gradient after 100 steps'"

fences sh > "$scratch/commands"
grep -oE '(^|[ /])(scripts/[a-z-]+)' "$scratch/commands" | tr -d ' ' | sort -u > "$scratch/scripts"
while read -r script; do
    ok "$script is there" test -x "$ZERO_TEST_TOP/$script"
done < "$scratch/scripts"

ok 'options of zero-gpt2 are known' sh -c "
    ./zero-gpt2 --help > '$scratch/gpt2'
    for option in \$(sed -n 's/.*zero-gpt2 //p' '$scratch/commands' '$readme' | grep -oE -- '--[a-z0-9-]+')
    do
        grep -q -- \"^  \$option \" '$scratch/gpt2' || { echo \"\$option\"; exit 1; }
    done"
ok 'variables are options' sh -c "
    ./zero info --options > '$scratch/options'
    for name in \$(grep -oE 'ZERO_[A-Z_0-9]+' '$readme' | grep -vE '^ZERO_(TRAIN|FORWARD|BACKWARD|F32|CONFIG_INIT)\$')
    do
        grep -q \"^  \$name \" '$scratch/options' || { echo \"\$name\"; exit 1; }
    done"
ok 'links lead somewhere' sh -c "
    for link in \$(grep -oE '\]\([^)]*\)' '$readme' | tr -d '])('); do
        test -e '$ZERO_TEST_TOP'/\$link || { echo \"\$link\"; exit 1; }
    done"
done_testing
