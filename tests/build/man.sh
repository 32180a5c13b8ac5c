#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Manual pages: no warning of the formatter, and the options of zero(7) are those of the table. The
# helps of the commands: the options of the pages are theirs, and they fit a terminal of 80 columns.
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
# What the commands take, by their own word.
zero=$ZERO_TEST_BUILD/zero
listed() { # the commands that the help of `zero $1` lists, each behind $1
    "$zero" ${1:+"$1"} --help | sed -n "1{/ COMMAND /!q;}; s/^  \([a-z0-9]*\) .*/${1:+$1 }\1/p"
}
commands=$(for command in $(listed); do
    echo "$command"
    listed "$command"
done)
ok 'the commands are found' test "$(echo "$commands" | grep -c ' ')" -ge 10
said=$(echo "$commands" | {
    "$zero" --help
    while read -r command; do
        # shellcheck disable=SC2086 # words
        "$zero" $command --help </dev/null
    done
})
gpt2=$("$ZERO_TEST_BUILD/zero-gpt2" --help)
none 'no help has a line of more than 80 columns' \
    "$(printf '%s\n' "$said" "$gpt2" | LC_ALL=C.UTF-8 grep -E '^.{81,}$')"
options() { # of a page or a text on the standard input
    sed 's/\\f[A-Z]//g; s/\\//g' | grep -oE -e '--[a-z][a-z0-9-]+' | sort -u
}
lacks() { # TEXT: those of the options on the standard input that it does not have
    while IFS= read -r option; do
        echo "$1" | grep -qE -e "(^|[^a-z-])--${option#--}([^a-z0-9-]|\$)" || echo "$option"
    done
}
# Of --spoil, the self-test of what benchmarks check, no help tells.
for name in zero.1 zero-plugin.7; do
    none "$name: every option is one of a command" \
        "$(grep -v 'pkg.-config' "$man/$name" | options | lacks "$said --spoil")"
done
none 'zero-gpt2.1: every option is one of zero-gpt2' \
    "$(options <"$man/zero-gpt2.1" | lacks "$gpt2")"
none 'zero-gpt2.1: every option of zero-gpt2 is there' \
    "$(echo "$gpt2" | options | lacks "$(options <"$man/zero-gpt2.1")")"
done_testing
