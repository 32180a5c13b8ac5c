# SPDX-License-Identifier: Apache-2.0
# For run.sh: its report, what a check may take, and how zero-gpt2 is run.
# shellcheck shell=sh
# shellcheck disable=SC2154 # run.sh has the places of things

end=$(($(date +%s) + ${GPU_SECONDS:-460})) # of it all
failed=0
missed_rows=0
out_of_time='there was no time left for it'
output=/dev/null # what the last command wrote
: >"$tmp/checks" # the two parts of the report
: >"$tmp/figures"
# shellcheck disable=SC2016 # each rank's own
printf '#!/bin/sh\nNCCL_HOSTID=rank$RANK exec "$@"\n' >"$tmp/as_host"
chmod +x "$tmp/as_host"

# ---- The report

say() {
    printf 'check-gpu: %s\n' "$*" >&2
}
# report PART LINE
report() {
    printf '%s\n' "$2" >>"$tmp/$1"
    [ -z "$file" ] || cat "$tmp/checks" "$tmp/figures" >"$file" # whatever becomes of the rest
}
# keep NAME WHAT LOG: beside the report, in FILE.NAME, what explains a miss
keep() {
    if [ -n "$file" ] && [ -s "$3" ]; then
        printf '== %s\n' "$2" >>"$file.$1"
        tail -n 200 "$3" >>"$file.$1"
    fi
}
# show WHAT: of what has failed
show() {
    grep -v '^ok ' "$output" | tail -n 20 >&2
    keep failed "$1" "$output"
}
# why STATUS WORDS
why() {
    if [ "$1" = 125 ]; then
        printf '%s\n' "no end within $own s${2:+; $2}"
    else
        printf '%s\n' "${2:-status $1}"
    fi
}
# not_measured WHAT REASON
not_measured() {
    report checks "- $1: not measured: $2"
    say "$1: left out: $2"
}
# result WHAT STATUS [DETAIL]
result() {
    if [ "$2" = 0 ]; then
        report checks "- $1: passed${3:+ ($3)}"
    else
        failed=$((failed + 1))
        report checks "- $1: **failed** ($(why "$2" "${3-}"))"
        show "$1"
    fi
    say "$(tail -n 1 "$tmp/checks" | cut -c 3-)"
}
# judge WHAT STATUS [DETAIL]: what there was no time for has not failed.
judge() {
    if [ "$2" = 124 ]; then
        not_measured "$1" "$out_of_time"
    else
        result "$@"
    fi
}
# row WHAT MEASURED BESIDE RATIO WANTED: the ratio is at most what is wanted, or with ≥ at least.
row() {
    case $4 in
    '' | *[!0-9.-]*)
        no_row "$1" 1 "no ratio of $2 to $3"
        return
        ;;
    esac
    missed=$(awk -v ratio="$4" -v wanted="$5" 'BEGIN {
        if (wanted == "") exit
        at_least = sub(/^≥ /, "", wanted); sub(/^≤ /, "", wanted)
        print (at_least ? ratio < wanted + 0 : ratio > wanted + 0) ? ", missed" : "" }')
    [ -z "$missed" ] || missed_rows=$((missed_rows + 1))
    report figures "| $1 | $2 | $3 | $4 | $5$missed |"
    say "$1: $2, $3: $4${5:+, wanted $5}$missed"
}
# no_row WHAT STATUS DETAIL: there is no figure; 124 is for want of time.
no_row() {
    if [ "$2" = 124 ]; then
        report figures "| $1 | not measured: $out_of_time | | | |"
    else
        failed=$((failed + 1))
        report figures "| $1 | failed: $(why "$2" "$3" | tr '|' '/' | cut -c 1-160) | | | |"
        show "$1"
    fi
    say "$(tail -n 1 "$tmp/figures")"
}

# ---- Time

# within SECONDS OUTPUT COMMAND...: in what is left of the time. 124 where that is not enough, 125
# where its own is not: then it hangs, or is much too slow.
within() {
    own=$1 output=$2 left=$((end - $(date +%s))) missing=125
    shift 2
    : >"$output"
    [ "$left" -gt 5 ] || return 124
    if [ "$left" -le "$own" ]; then
        own=$left missing=124
    fi
    began=$(date +%s)
    timeout -k 5 "$own" "$@" >"$output" 2>&1
    ended=$?
    if [ "$ended" = 124 ] || { [ "$ended" = 137 ] && [ $(($(date +%s) - began)) -ge "$own" ]; }; then
        ended=$missing
    fi
    return "$ended"
}

# ---- GPT-2

# gpt2 LOG RANKS ARGUMENT...
gpt2() {
    log=$1 n_ranks=$2
    shift 2
    launcher=''
    [ "$n_ranks" = 1 ] || launcher="$bin/zero run -n $n_ranks --"
    [ -z "${ranks_of_hosts-}" ] || launcher="$launcher $tmp/as_host"
    rm -f "$log"
    # shellcheck disable=SC2086 # words
    within "${gpt2_seconds:-100}" "$tmp/out" $launcher "$bin/zero-gpt2" --dtype bf16 --val 0 \
        --data "$text" --seed 1 ${cublas:+--cublas "$cublas"} --json "$log" "$@"
}
# What it says of its end, rather than what its launcher does.
last_words() {
    { grep 'zero-gpt2: ' "$tmp/out" || tail -n 1 "$tmp/out"; } | head -n 1 | cut -c 1-160
}
