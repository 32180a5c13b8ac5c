#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The interfaces of plugins are those of tests/abi/baseline. While they are drafts (major 0) a change
# may be made on purpose: copy the headers there and say in CHANGELOG.md what changed. Breaks that are
# put in here have to be seen, or the guard guards nothing; an entry at the end of a table has to be
# told from them, since that is what may change later without breaking anybody.
top=${ZERO_TEST_TOP:?}
# shellcheck source=../tap.sh
. "$top/tests/tap.sh"
command -v abidiff >/dev/null || skip_all 'abidiff is not installed'
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
here=$top/tests/abi

# anchor NAME FOLDER-WITH-zero/: the object of these headers.
anchor() {
    # shellcheck disable=SC2086 # a compiler may be two words: ccache gcc
    ${CC:-cc} -std=c11 -g -O0 -fPIC -shared -fvisibility=hidden -I"$2" -o "$tmp/$1.so" \
        "$here/anchor.c"
}
# same A B: no difference.
same() {
    abidiff "$tmp/$1.so" "$tmp/$2.so"
}
# grown A B: tables have more entries at their ends, nothing else.
grown() {
    abidiff --suppressions "$here/append.suppr" "$tmp/$1.so" "$tmp/$2.so"
}
differs() {
    ! same "$1" "$2" >/dev/null
}
# changed NAME FILE SED: headers with one change, compiled.
changed() {
    mkdir -p "$tmp/$1/zero"
    cp "$top"/include/zero/*.h "$tmp/$1/zero/"
    sed -i "$3" "$tmp/$1/zero/$2"
    ! cmp -s "$tmp/$1/zero/$2" "$top/include/zero/$2" && anchor "$1" "$tmp/$1"
}

ok 'the baseline compiles' anchor old "$here/baseline"
ok 'the headers compile' anchor new "$top/include"
ok 'the interfaces are those of the baseline' same old new

# logged KIND: CHANGELOG.md says what the interface's present minor version brought.
logged() {
    minor=$(sed -n "s/^#define ZERO_$(echo "$1" | tr a-z A-Z)_MINOR //p" "$top/include/zero/$1.h")
    tr -s '\n ' ' ' <"$top/CHANGELOG.md" | grep -qi "$1 interface, minor $minor\b"
}
for kind in comm offload device; do
    ok "the change log knows the minor version of the $kind interface" logged "$kind"
done

ok 'a break compiles: an entry in the middle of a table' \
    changed middle comm.h 's|^    int (\*wake)(struct zero_comm_ctx \*ctx);|    int (*early)(void);\n&|'
ok 'it is seen' differs new middle
ok 'a break compiles: a field of another size' \
    changed wider comm.h 's|^    uint32_t group, epoch;|    uint64_t group, epoch;|'
ok 'it is seen' differs new wider
ok 'a break compiles: an entry with other arguments' \
    changed retyped offload.h 's|(struct zero_store \*store, uint64_t bytes);|(struct zero_store *store, uint32_t bytes);|'
ok 'it is seen' differs new retyped
ok 'a break compiles: a field of a descriptor that goes' \
    changed gone comm.h '/^    int32_t root;/d'
ok 'it is seen' differs new gone
ok 'an addition compiles: an entry at the end of a table' \
    changed longer comm.h 's|^    int (\*memory)(struct zero_comm_ctx \*ctx, uint32_t \*mem);|&\n    int (*later)(void);|'
ok 'it is seen' differs new longer
ok 'it is told from a break' grown new longer
ok 'an entry in the middle is a break' sh -c "! abidiff --suppressions '$here/append.suppr' \
    '$tmp/new.so' '$tmp/middle.so'"
done_testing
