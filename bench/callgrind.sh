#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Instructions of the sum of a reduction and of AdamW beside plain loops that load and store the
# same, counted by callgrind. Counts need no quiet machine and are the same on every one that has
# the instruction set; what they cannot tell is time.
#
#     bench/callgrind.sh [ISA [MIB...]]     (in the build folder: make bench-callgrind)
#
# ISA is avx2 (the default: valgrind knows no AVX-512) or scalar; MIB are messages of two ranks, 1
# and 16 if none are given: a rank sums half of one. Loops take the widest vectors that valgrind has.
build=${ZERO_TEST_BUILD:-$PWD}
isa=${1:-avx2}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- 1 16
counts=$build/bench/counts
[ -x "$counts" ] || { echo "$counts is not built: make bench/counts" >&2; exit 1; }
command -v valgrind >/dev/null || { echo "valgrind is not installed" >&2; exit 1; }
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT

name() { # of a kernel's way, as tools/bench/measure/loops.c has it
    case $1-$2 in
    *-0) echo plain ;; *-1) echo plain by four ;; *-2) echo stream ;; *-3) echo stream by four ;;
    add-4) echo stream asking ahead ;;
    move-4) echo stream the copy ;; move-5) echo stream the copy by four ;;
    *) echo "$2" ;;
    esac
}
count() { # KERNEL HOW ELEMENTS PER UNIT: a line with the instructions for PER elements
    valgrind -q --tool=callgrind --toggle-collect=counted --callgrind-out-file="$out" \
        "$counts" "$1" "$2" "$3" || exit 1
    awk -v what="$1, $(name "$1" "$2")" -v n="$3" -v per="$4" -v unit="$5" '/^(summary|totals):/ { all = $2 }
        END { printf "%-30s %10d %14d %8.2f a %s\n", what, n, all, all / n * per, unit }' "$out"
}
printf '%-30s %10s %14s\n' kernel elements instructions
for mib in "$@"; do
    n=$((mib * 1024 * 1024 / 4 / 2))
    count reduce "$isa" "$n" 16 "64 bytes of the sum"
    for way in 0 1 2 3 4; do
        count add "$way" "$n" 16 "64 bytes of the sum"
    done
done
count adamw "$isa" 1048576 1 parameter
for way in 0 1 2 3 4 5; do
    count move "$way" 1048576 1 parameter
done
