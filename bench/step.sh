#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the runtime costs a training step, as figures:
#
#     bench/step.sh [PRESET [STEPS]]        (default 124M, 9; in the build folder: make bench-step)
#
# - Two ranks, stage 3, sequences of 256, batch 1, on two cores with one rank bound to each: the
#   helper threads of a rank run in the time of its core. How much of a step is spent waiting for
#   collectives: with parameters mapped, which nobody has to gather, and gathered by copies, with
#   prefetch and without.
# - One rank: a step with the library and one of a plain loop in turn.
preset=${1:-124M}
steps=${2:-9}
build=${ZERO_TEST_BUILD:-$PWD}
text=${ZERO_TEST_TOP:-$(dirname "$0")/..}/LICENSE
[ -x "$build/zero-gpt2" ] || { echo "$build/zero-gpt2 is not built: make" >&2; exit 1; }
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
export OMP_NUM_THREADS=1 ZERO_THREADS=1 ZERO_PLUGIN_PATH="${ZERO_PLUGIN_PATH:-$build/.libs}"
unset ZERO_TEST_TOP ZERO_TEST_BUILD

# A field of the steps but the first two, smallest first.
values() {
    grep '"type":"step"' "$tmp/log" | sed 1,2d | sed "s/.*\"$1\":\([0-9.e+-]*\).*/\1/" | sort -g
}
middle() {
    values "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

# exposure NAME PREFETCH MAP
exposure() {
    ZERO_PREFETCH_BYTES=$2 ZERO_MAP=$3 taskset -c "$cores" "$build/zero" run -n 2 --bind -- \
        "$build/zero-gpt2" --preset "$preset" --stage 3 --seq 256 --batch 1 --val 0 \
        --data "$text" --steps $((steps + 2)) --json "$tmp/log" >"$tmp/out" 2>&1 ||
        { cat "$tmp/out" >&2; exit 1; }
    grep '"type":"step"' "$tmp/log" | sed 1,2d |
        sed 's/.*"time_s":\([0-9.e+-]*\).*"exposed_s":\([0-9.e+-]*\).*/\2 \1/' |
        awk '{ print 100 * $1 / $2 }' | sort -g >"$tmp/percent"
    printf '%-30s step %.3f s, compute %.3f, exposed %.3f, optimizer %.3f, other %.3f\n' "$1" \
        "$(middle time_s)" "$(middle compute_s)" "$(middle exposed_s)" "$(middle optimizer_s)" \
        "$(middle other_s)"
    awk '{ v[NR] = $1 } END { printf "%-30s median %.1f %% of a step, %.1f to %.1f in %d steps\n",
        "  exposed", v[int((NR + 1) / 2)], v[1], v[NR], NR }' "$tmp/percent"
}

# Two processors of different cores, of those that this process may use.
allowed=$(taskset -pc $$ | sed 's/.*: //' | tr ',' '\n' |
    awk -F - '{ for (i = $1; i <= ($2 == "" ? $1 : $2); i++) print i }')
cores=$(lscpu -p=CPU,CORE | awk -F , -v allowed="$allowed" '
    BEGIN { n = split(allowed, a, "\n"); for (i = 1; i <= n; i++) may[a[i]] = 1 }
    !/^#/ && ($1 in may) && !seen[$2]++ && k++ < 2 { printf "%s%s", sep, $1; sep = "," }')
case $cores in
*,*)
    echo "Two ranks on cores $cores, $preset, stage 3; medians of $steps steps:"
    exposure 'mapped' 128M auto
    exposure 'copied, with prefetch' 128M 0
    exposure 'copied, without prefetch' 0 0
    ;;
*) echo 'Two ranks need two cores: left out' ;;
esac
if [ -x "$build/bench/gpt2_overhead" ]; then
    echo "One rank against a plain loop, $preset; medians of $steps steps:"
    "$build/bench/gpt2_overhead" "$preset" "$steps"
else
    echo 'One rank against a plain loop: make bench/gpt2_overhead' >&2
fi
