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
# What the commands take, by their own word.
said=$(for command in '' run 'bench coll' 'bench p2p' 'bench optimizer' 'bench arena' 'bench step' \
    'bench offload' 'check comm' 'check offload' info report 'report crash' 'report memory'; do
    # shellcheck disable=SC2086 # words
    "$ZERO_TEST_BUILD/zero" $command --help 2>/dev/null
done)
options() { # of a page or a text on the standard input
    sed 's/\\f[A-Z]//g; s/\\//g' | grep -oE -e '--[a-z][a-z0-9-]+' | sort -u
}
lacks() { # TEXT: those of the options on the standard input that it does not have
    while IFS= read -r option; do
        echo "$1" | grep -qE -e "(^|[^a-z-])--${option#--}([^a-z0-9-]|\$)" || echo "$option"
    done
}
for name in zero.1 zero-plugin.7; do
    none "$name: every option is one of a command" \
        "$(grep -v 'pkg.-config' "$man/$name" | options | lacks "$said")"
done
said=$("$ZERO_TEST_BUILD/zero-gpt2" --help)
none 'zero-gpt2.1: every option is one of zero-gpt2' \
    "$(options <"$man/zero-gpt2.1" | lacks "$said")"
none 'zero-gpt2.1: every option of zero-gpt2 is there' \
    "$(echo "$said" | options | lacks "$(options <"$man/zero-gpt2.1")")"
done_testing
