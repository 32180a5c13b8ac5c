#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# How near the memory planner comes to the lower bound, and how long it takes, as figures:
#
#     bench/arena.sh [ARG...]               (in the build folder: make bench-arena)
#
# - Tasks of a training step and random cuts of many sizes, with the library's own effort; ARG is
#   for zero bench arena: --seed 2, --nodes N, --threads 1.
# - The five files of MiniMalloc's hard set, where a data folder lies beside the checkout, and the
#   time that they take together. ZERO_TEST_DATA names another folder.
#
# Status 1: a plan is wrong, or above the bytes that it should fit into.
build=${ZERO_TEST_BUILD:-$PWD}
data=${ZERO_TEST_DATA:-${ZERO_TEST_TOP:-$(dirname "$0")/..}/../shared/data}/minimalloc
zero=$build/zero
[ -x "$zero" ] || { echo "$zero is not built: make" >&2; exit 1; }
"$zero" bench arena --must-fit --nodes 2000000 --step 100,1000,5000,10000,20000,100000 \
    --cut 100,1000,4000,10000,20000 "$@"
status=$?
set -- "$data"/A.*.csv "$data"/B.*.csv "$data"/C.*.csv "$data"/D.*.csv "$data"/E.*.csv
if [ -f "$1" ]; then
    echo
    tmp=$(mktemp) || exit 1
    trap 'rm -f "$tmp"' EXIT
    "$zero" bench arena --must-fit "$@" >"$tmp" || status=$?
    cat "$tmp"
    awk 'NR > 1 { s += $6 * ($7 == "us" ? 1e-6 : $7 == "ms" ? 1e-3 : 1) }
         END { printf "%-28s %.3f s\n", "all of them", s }' "$tmp"
else
    echo "no $data: left out" >&2
fi
exit "$status"
