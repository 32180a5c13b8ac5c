#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# doc/ARCHITECTURE.md against the tree: every room is there and has its line, so has every folder that
# git keeps, every file that it names is there, and every stop of its walks is a function of the file.
. "$ZERO_TEST_TOP/tests/tap.sh"
cd "$ZERO_TEST_TOP" || exit 1
page=doc/ARCHITECTURE.md

# "| what | `FILE`: `FUNCTION`, `FUNCTION` | ... |" as FILE FUNCTION, one a line.
stops() {
    sed -n 's/^|[^|]*| `\([a-z0-9_/]*\.[ch]\)`: \([^|]*\)|.*/\1 \2/p' "$page" |
        while read -r file functions; do
            echo "$functions" | grep -oE '[a-z0-9_]+' | sed "s|^|$file |"
        done
}
# Files of the core are named from there, others from the root.
place() {
    for at in "core/$1" "$1"; do
        [ -e "$at" ] && echo "$at" && return
    done
    return 1
}
ok 'there are walks' test "$(stops | wc -l)" -ge 40
none 'every stop is a function of its file' "$(stops | while read -r file function; do
    # At the beginning of a line: a call is indented.
    at=$(place "$file") && grep -qE "^[a-z](.*[ *])?$function\(" "$at" || echo "$file: $function"
done)"
none 'every room has a line' "$(ls -d core/*/ plugins/*/ machine launch tools bench examples/*/ tests |
    sed 's|/$||' | while read -r room; do
    name=${room##*/}
    grep -qE "^\| .*\`($room|$name|${room%/*}/$name)/?\`" "$page" || echo "$room"
done)"
# A tarball has nothing to compare with, nor has a checkout that git is not there for, or refuses.
tracked=$(git ls-files 2>/dev/null)
if [ -n "$tracked" ]; then
    none 'every folder at the top that git keeps has a line, or what is in it' "$(echo "$tracked" |
        sed -n 's|^\([^./]*\)/.*|\1|p' | sort -u | while read -r folder; do
        grep -qE "^\| .*\`$folder/" "$page" || echo "$folder"
    done)"
    none 'the line of tests names all of its folders that git keeps' "$(echo "$tracked" |
        sed -n 's|^tests/\([^/]*\)/.*|\1|p' | sort -u | while read -r folder; do
        grep -qE "^\| \`tests/\` \|.*\`$folder\`" "$page" || echo "$folder"
    done)"
else
    skip 'folders that git keeps' 'git does not tell here what it keeps'
fi
none 'every room of a line is there' "$(sed -n '/^## Rooms/,/^## The/p' "$page" |
    sed -n 's/^| `\([a-z0-9/-]*\)`.*/\1/p' | while read -r room; do
    [ -d "$room" ] || echo "$room"
done)"
none 'every file to start reading at is in its room' "$(
    sed -n '/^## Rooms/,/^## The/s/^| `\([a-z0-9/-]*\)`.*| \([^|]*\) |$/\1 \2/p' "$page" |
        while read -r room files; do
            echo "$files" | grep -oE '`[^` ]+\.[a-z]+`' | tr -d '`' | while read -r file; do
                [ -e "$room/$file" ] || echo "$room: $file"
            done
        done
)"
none 'every file that it names is there' "$(sed '/^## Rooms/,/^## The/{/^|/d;}' "$page" |
    grep -oE '`[^` ]*/[^` ]*\.(c|h|sh|py|cuh|cu)`' | tr -d '`' | sort -u | while read -r file; do
    place "$file" >/dev/null || echo "$file"
done)"
# Headers that say at their head what lies in which file of their room.
for head in core/engine/runtime.h core/job/internal.h; do
    room=${head%/*}
    none "$head names the files of its room" "$(
        { sed -n 's/^ \* \{3\}\([a-z0-9_]*\.c\) .*/\1/p' "$head"
            (cd "$room" && ls ./*.c) | sed 's|^\./||'; } | sort | uniq -u)"
done
done_testing
