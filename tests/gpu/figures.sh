# SPDX-License-Identifier: Apache-2.0
# For run.sh: what is measured.
# shellcheck shell=sh
# shellcheck disable=SC2154 # run.sh has the places of things

# rows WHAT STATUS: those of a Markdown table that the last command printed, and what became of it
rows() {
    grep '^| ' "$output" >"$tmp/rows"
    while IFS='|' read -r _ what measured beside ratio wanted _; do
        # shellcheck disable=SC2086,SC2116 # without the blanks around
        row "$(echo $what)" "$(echo $measured)" "$(echo $beside)" "$(echo $ratio)" "$(echo $wanted)"
    done <"$tmp/rows"
    if [ "$2" != 0 ] || [ ! -s "$tmp/rows" ]; then
        no_row "$1" "$2" "$({ grep '^Bail out! ' "$output" || grep -v '^| ' "$output"; } | tail -n 1)"
    fi
}
# events MEBIBYTES: the update and copies, by events of the GPU
events() {
    within 60 "$tmp/times" "$tests/times" "$1"
    rows 'copies and AdamW' $?
}
# overhead PRESET BATCH SEQ: a step with the runtime and without, and their losses
overhead() {
    within 100 "$tmp/overhead" "$tests/overhead" "$1" "$2" "$3" "$loops" "$cublas"
    rows "GPT-2 $1 step" $?
    keep overhead "GPT-2 $1" "$tmp/overhead"
    gap=$(sed -n 's/^losses apart //p' "$tmp/overhead")
    case $gap in
    '') return ;;
    *n*) false ;; # no number
    *) awk -v gap="$gap" 'BEGIN { exit !(gap <= 1e-2) }' ;;
    esac
    result "GPT-2 $1, losses with the runtime and without" $? "up to $gap apart"
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
# on_host PRESET TOKENS ARGUMENT...: a step whose optimizer is on the host, with its updates behind
# the passes and beside them. The passes take as long as they do without offload; copies and updates as long as they
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
# beside_torch PRESET BATCH SECONDS HOW: tokens a second, after overhead() of the same shape. That
# PyTorch fails, or takes too long, says nothing of ours.
beside_torch() {
    what="GPT-2 $1, tokens/s" least='≥ 0.8'
    [ "$4" != compiled ] || least='≥ 1.0'
    ours=$(sed -n "s/^| GPT-2 $1 step, .* \([0-9]*\) tokens.s .*/\1/p" "$tmp/figures" | head -n 1)
    reason=$no_torch
    if [ -z "$reason" ] && [ -z "$ours" ]; then
        reason='there is no step of ours to compare it with'
    elif [ -z "$reason" ]; then
        within "$3" "$tmp/torch" env LD_LIBRARY_PATH="$path_before" python3 -B "$here/torch_step.py" \
            "$python" "$1" "$2" 1024 10 "$4"
        status=$?
        theirs=$(sed -n "s/^$4 //p" "$tmp/torch")
        if [ -n "$theirs" ]; then
            row "$what" "$ours" "PyTorch $(sed -n 's/^version //p' "$tmp/torch"), $4: $theirs" \
                "$(awk -v a="$ours" -v b="$theirs" 'BEGIN { printf "%.3f", a / b }')" "$least"
            return
        fi
        keep failed "$what beside PyTorch, $4" "$output"
        reason=$out_of_time
        [ $status = 124 ] || reason=$(grep -m 1 -E '^no (PyTorch|GPU)' "$tmp/torch") ||
            reason=$(why $status "$(tail -n 1 "$tmp/torch")")
    fi
    report figures "| $what | not measured beside PyTorch, $4: $(
        printf '%s\n' "$reason" | tr '|' '/' | cut -c 1-160) | | | |"
    say "$(tail -n 1 "$tmp/figures")"
}
