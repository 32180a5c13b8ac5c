# SPDX-License-Identifier: Apache-2.0
# For run.sh: its report, what a check may take, and how one of them is made.
# shellcheck shell=sh
# shellcheck disable=SC2154 # run.sh has the places of things

end=$(($(date +%s) + ${GPU_SECONDS:-460})) # of it all
failed=0
missed_rows=0
out_of_time='there was no time left for it'
part=checks # of the report; figures are its second one
: >"$tmp/checks"
: >"$tmp/figures"
# shellcheck disable=SC2016 # each rank's own
printf '#!/bin/sh\nNCCL_HOSTID=rank$RANK exec "$@"\n' >"$tmp/as_host"
chmod +x "$tmp/as_host"

say() {
    echo "check-gpu: $*" >&2
}
report() {
    printf '%s\n' "$*" >>"$tmp/$part"
    [ -z "$file" ] || cat "$tmp/checks" "$tmp/figures" >"$file" # whatever becomes of the rest
}
# not_measured WHAT REASON
not_measured() {
    report "- $1: not measured: $2"
    say "$1: left out: $2"
}
# result WHAT STATUS [DETAIL]
result() {
    if [ "$2" = 0 ]; then
        report "- $1: passed${3:+ ($3)}"
    else
        failed=$((failed + 1))
        report "- $1: **failed**${3:+ ($3)}"
    fi
    say "$(tail -n 1 "$tmp/$part" | cut -c 3-)"
}
# judge WHAT STATUS [MORE]: what there was no time for has not failed.
judge() {
    if [ "$2" = 124 ]; then
        not_measured "$1" "$out_of_time"
    else
        result "$@"
    fi
}
# row WHAT MEASURED BESIDE RATIO WANTED: the ratio is at most what is wanted, or with ≥ at least.
row() {
    missed=$(awk -v ratio="$4" -v wanted="$5" 'BEGIN {
        if (wanted == "") exit
        at_least = sub(/^≥ /, "", wanted); sub(/^≤ /, "", wanted)
        print (at_least ? ratio < wanted + 0 : ratio > wanted + 0) ? ", missed" : "" }')
    [ -z "$missed" ] || missed_rows=$((missed_rows + 1))
    report "| $1 | $2 | $3 | $4 | $5$missed |"
    say "$1: $2, $3: $4${5:+, wanted $5}$missed"
}
# no_row WHAT STATUS DETAIL: there is no figure; 124 is for want of time.
no_row() {
    if [ "$2" = 124 ]; then
        report "| $1 | not measured: $out_of_time | | | |"
    else
        failed=$((failed + 1))
        report "| $1 | failed: $(echo "$3" | tr '|' '/' | cut -c 1-160) | | | |"
    fi
    say "$(tail -n 1 "$tmp/$part")"
}
# within SECONDS COMMAND...: in what is left of the time. 124 where that is not enough, 125 where its
# own is not: then it hangs, or is much too slow.
within() {
    own=$1 left=$((end - $(date +%s))) missing=125
    shift
    [ "$left" -gt 5 ] || return 124
    if [ "$left" -le "$own" ]; then
        own=$left missing=124
    fi
    began=$(date +%s)
    timeout -k 5 "$own" "$@"
    ended=$?
    if [ "$ended" = 124 ] || { [ "$ended" = 137 ] && [ $(($(date +%s) - began)) -ge "$own" ]; }; then
        ended=$missing
    fi
    return "$ended"
}

# Cases of a log in TAP that were tried.
tried() {
    grep -E '^(not )?ok' "$1" | grep -vcE '# SKIP'
}
# judge_cases WHAT STATUS LOG: of a log in TAP. Where no case was tried, nothing has passed.
judge_cases() {
    n_cases=$(tried "$3") good=$2
    [ "$good" != 0 ] || [ "$n_cases" -gt 0 ] || good=1
    judge "$1" "$good" "$n_cases cases"
    [ "$good" = 0 ] || grep -vE '^ok' "$3" | head -n 20 >&2
}

# ---- GPT-2

# gpt2 LOG RANKS ARGUMENT...
gpt2() {
    log=$1 ranks=$2
    shift 2
    launcher=''
    [ "$ranks" = 1 ] || launcher="$bin/zero run -n $ranks --"
    [ -z "${ranks_of_hosts-}" ] || launcher="$launcher $tmp/as_host"
    # shellcheck disable=SC2086 # words
    within "${gpt2_seconds:-100}" $launcher "$bin/zero-gpt2" --dtype bf16 --val 0 --data "$text" --seed 1 \
        ${cublas:+--cublas "$cublas"} --json "$log" "$@" >"$tmp/out" 2>&1 || {
        status=$?
        tail -n 20 "$tmp/out" >&2
        return $status
    }
}
# What it says of its end, rather than what its launcher does.
last_words() {
    { grep 'zero-gpt2: ' "$tmp/out" || tail -n 1 "$tmp/out"; } | head -n 1 | cut -c 1-160
}
losses_of() {
    sed -n 's/.*"type":"step".*"loss":\([0-9.e+-]*\).*/\1/p' "$1"
}
# How far two lists of losses are apart at most.
apart() {
    paste "$1" "$2" | awk 'NF != 2 { bad = 1 }
        { d = $1 - $2; if (d < 0) d = -d; if (!(d <= most)) most = d }
        END { if (bad || !NR) print "inf"; else printf "%.1e\n", most }'
}
# trained WHAT REFERENCE RANKS OFFLOAD ARGUMENT...: losses within 1e-2 of the file REFERENCE, which
# are the processor's, in bf16, by the same command without ZERO_DEVICE.
trained() {
    what=$1${4:+, $4} reference=$2 ranks=$3
    [ -z "$4" ] || export ZERO_OFFLOAD="$4"
    shift 4
    gpt2 "$tmp/log" "$ranks" "$@"
    status=$?
    unset ZERO_OFFLOAD
    if [ $status != 0 ]; then
        judge "$what" $status "$(last_words)"
        return
    fi
    if grep -q 'go through memory of the host' "$tmp/out"; then # a transport of GPUs that does without them
        result "$what" 1 "$(grep -m 1 'go through memory of the host' "$tmp/out" | cut -c 1-160)"
        return
    fi
    losses_of "$tmp/log" >"$tmp/losses"
    far=$(apart "$tmp/losses" "$reference")
    awk -v far="$far" 'BEGIN { exit !(far != "inf" && far <= 1e-2) }'
    result "$what" $? "losses within $far of the processor's, $(sed 1q "$tmp/losses") to $(
        tail -n 1 "$tmp/losses"); $(grep -o 'Weights [0-9a-f]*' "$tmp/out" | tail -n 1)"
}

# refused WHAT PATTERN COMMAND...: it ends by itself, not well, with a sentence that says so.
refused() {
    what=$1 pattern=$2
    shift 2
    within 60 "$@" >"$tmp/out" 2>&1
    status=$?
    said=$(grep -m 1 -e "$pattern" "$tmp/out" | cut -c 1-240)
    [ $status = 124 ] || if [ $status = 0 ] || [ $status = 125 ] || [ -z "$said" ]; then
        tail -n 20 "$tmp/out" >&2
        status=1
    else
        status=0
    fi
    judge "$what is refused" $status "$said"
}
# astray WHAT COMMAND...: the rank that did it says so, the other one says the same of it, both soon.
astray() {
    what=$1
    shift
    began=$(date +%s)
    within 60 "$@" >"$tmp/fault" 2>&1
    status=$?
    said=$(sed -n 's/.*rank 0 is told: \(.*CUDA_ERROR_ILLEGAL_ADDRESS.*\)/\1/p' "$tmp/fault" | head -n 1)
    if [ $status != 124 ]; then
        [ -n "$said" ] && grep 'rank 1 is told: ' "$tmp/fault" | grep -qF "rank 0 failed: $said" &&
            [ $(($(date +%s) - began)) -lt 15 ] || status=1
    fi
    judge "$what: both say so" $status "$(echo "$said" | cut -c 1-240)"
    [ $status = 0 ] || tail -n 20 "$tmp/fault" >&2
}

# ---- Figures

# events MEBIBYTES: the update and copies, by events of the GPU
events() {
    within 60 "$tests/times" "$1" >"$tmp/times" 2>&1
    status=$?
    if [ $status != 0 ]; then
        no_row 'copies and AdamW' $status "$(tail -n 1 "$tmp/times")"
        return
    fi
    while IFS='|' read -r _ what measured beside ratio wanted _; do
        # shellcheck disable=SC2086 # without the blanks around
        row "$(echo $what)" "$(echo $measured)" "$(echo $beside)" "$(echo $ratio)" "$(echo $wanted)"
    done <"$tmp/times"
}
# overhead PRESET BATCH SEQ
overhead() {
    within 100 "$tests/overhead" "$1" "$2" "$3" "$loops" "$cublas" >"$tmp/overhead" 2>"$tmp/err"
    status=$?
    if [ $status = 0 ]; then
        # Of the parts of a step, which follow it, nothing is wanted by itself.
        wanted='≤ 1.05'
        while IFS='|' read -r _ what measured beside ratio _; do
            # shellcheck disable=SC2086
            row "$(echo $what)" "$(echo $measured)" "$(echo $beside)" "$(echo $ratio)" "$wanted"
            wanted=''
        done <"$tmp/overhead"
    else
        no_row "GPT-2 $1 step" $status "$(cat "$tmp/err" "$tmp/overhead" | tail -n 1)"
    fi
}
# median LOG FIELD: of the steps but the first two, in milliseconds.
median() {
    grep '"type":"step"' "$1" | sed 1,2d | sed "s/.*\"$2\":\([0-9.e+-]*\).*/\1/" | sort -g |
        awk '{ v[NR] = $1 } END { printf "%.2f\n", 1e3 * v[int((NR + 1) / 2)] }'
}
# In one step of a file of ops: the queue, of all but computing, that is at work for the longest time,
# and for how many milliseconds. Ops of a queue that overlap count once; what began before the step
# computed belongs to the one before.
busiest_in() {
    sed -n "s/.*\"step\":$2,.*\"queue\":\"\([^\"]*\)\".*\"start_ns\":\([0-9]*\),\"end_ns\":\([0-9]*\).*/\1|\2|\3/p" \
        "$1" | sort -t '|' -k 2,2n | awk -F '|' '
            /^compute/ { if (!began) began = $2; next }
            !began { next }
            { from = $2 > until[$1] ? $2 : until[$1] }
            $3 > from { busy[$1] += $3 - from; until[$1] = $3 }
            END {
                for (q in busy)
                    if (busy[q] > most) { most = busy[q]; which = q }
                printf "%.2f %s\n", most * 1e-6, which
            }'
}
# The median of the steps but the first two, as for what is measured beside it.
busiest() {
    for number in $(sed -n 's/.*"step":\([0-9]*\),.*/\1/p' "$1" | sort -nu | sed 1,2d); do
        busiest_in "$1" "$number"
    done | sort -g | awk '{ line[NR] = $0 } END { print line[int((NR + 1) / 2)] }'
}
# on_host PRESET TOKENS ARGUMENT...: a step whose optimizer is on the host, with its updates behind the passes and
# beside them. The passes take as long as they do without offload; copies and updates as long as they
# are under way. A step of all three, side by side, should not take longer than the longest of them.
on_host() {
    what="GPT-2 $1 step, $2 tokens, optimizer on the host"
    shift 2
    gpt2 "$tmp/log" 1 "$@"
    status=$?
    if [ $status != 0 ]; then
        no_row "$what" $status "$(last_words)"
        return
    fi
    compute=$(median "$tmp/log" compute_s)
    export ZERO_OFFLOAD=optimizer:cpu
    updated "$what, behind the passes" "$@"
    export ZERO_UPDATE_AT=backward
    updated "$what, beside the passes, which does not clip" "$@" --clip 0
    unset ZERO_OFFLOAD ZERO_UPDATE_AT
}
# updated WHAT ARGUMENT...: one of them
updated() {
    of=$1
    shift
    gpt2 "$tmp/log" 1 "$@" --ops "$tmp/ops"
    status=$?
    if [ $status != 0 ]; then
        no_row "$of" $status "$(last_words)"
        return
    fi
    step=$(median "$tmp/log" time_s)
    busy=$(busiest "$tmp/ops")
    most=${busy%% *} which="the queue ${busy#* }"
    if awk -v a="$compute" -v b="$most" 'BEGIN { exit !(a > b) }'; then
        most=$compute which='the passes without offload'
    fi
    row "$of" "$step ms" "$which: $most ms" \
        "$(awk -v a="$step" -v b="$most" 'BEGIN { printf "%.3f", a / b }')" '≤ 1.10'
    [ -n "${ZERO_UPDATE_AT-}" ] && return
    # One behind the other: what neither accounts for is time in which the GPU and the host wait.
    row "the same: neither passes nor updates" \
        "$(awk -v a="$step" -v b="$compute" -v c="${busy%% *}" 'BEGIN { printf "%.2f", a - b - c }') ms" \
        "the step: $step ms" \
        "$(awk -v a="$step" -v b="$compute" -v c="${busy%% *}" 'BEGIN { printf "%.3f", (a - b - c) / a }')" \
        '≤ 0.05'
}
# beside_torch PRESET BATCH SECONDS HOW: tokens a second, after overhead() of the same shape
beside_torch() {
    what="GPT-2 $1, tokens/s" least='≥ 0.8'
    [ "$4" != compiled ] || least='≥ 1.0'
    if [ -n "${no_torch-}" ]; then
        report "| $what | not measured beside PyTorch, $4: $no_torch | | | |"
        return
    fi
    within "$3" env LD_LIBRARY_PATH="$path_before" python3 -B "$here/torch_step.py" "$python" "$1" \
        "$2" 1024 10 "$4" >"$tmp/torch" 2>"$tmp/err"
    status=$?
    ours=$(sed -n "s/^| GPT-2 $1 step, .* \([0-9]*\) tokens.s .*/\1/p" "$tmp/$part")
    theirs=$(sed -n "s/^$4 //p" "$tmp/torch")
    if [ -n "$theirs" ] && [ -n "$ours" ]; then
        row "$what" "$ours" "PyTorch $(sed -n 's/^version //p' "$tmp/torch"), $4: $theirs" \
            "$(awk -v a="$ours" -v b="$theirs" 'BEGIN { printf "%.3f", a / b }')" "$least"
    elif grep -q '^no' "$tmp/torch"; then
        report "| $what | not measured beside PyTorch, $4: $(grep '^no' "$tmp/torch") | | | |"
    else
        [ $status != 125 ] || echo 'it took too long' >>"$tmp/err"
        no_row "$what beside PyTorch, $4" "$status" "$(tail -n 1 "$tmp/err")"
    fi
}
