#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What needs a GPU, in under eight minutes: every kernel against the host, also under
# compute-sanitizer; GPT-2 in all stages against losses of the processor; two ranks on one GPU; NCCL;
# and figures, each as a ratio to what limits it.
#
#     make check-gpu                       in a build folder
#     tests/gpu/run.sh [-o FILE] [SIZE]    FILE: where the report goes, too
#
# SIZE small: micro instead of 124M, for a GPU that is emulated. The report is a part of
# bench/RESULTS-gpu.md. Status: 0, 1 where something failed, 77 without a GPU, with the reason.
# What the machine lacks, and what GPU_SECONDS (460) are not enough for, is left out and named.
set -u
file=''
[ "${1-}" = -o ] && file=$2 && shift 2
size=${1:-full}
here=$(cd "$(dirname "$0")" && pwd)
if [ -d "$here/bin" ]; then # a kit: everything lies beside this script
    bin=$here/bin tests=$here/bin plugins=$here/plugins python=$here text=$here/text
    losses=$here/losses
    export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    [ ! -d "$here/ucx" ] || export UCX_MODULE_DIR="$here/ucx"
else
    top=$(cd "$here/../.." && pwd)
    bin=${ZERO_TEST_BUILD:-$top/build} python=$top/bench/compare text=$top/LICENSE
    tests=$bin/tests/gpu plugins=$bin/.libs losses=$here/losses
fi
export ZERO_PLUGIN_PATH="$plugins" ZERO_DEVICE=cuda:0 ZERO_TIMEOUT=120
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
seconds=${GPU_SECONDS:-460} # for it all
end=$(($(date +%s) + seconds))
failed=0
emulated='the GPU is emulated'
: >"$tmp/checks"
# shellcheck disable=SC2016 # each rank's own
printf '#!/bin/sh\nNCCL_HOSTID=rank$RANK exec "$@"\n' >"$tmp/as_host"
chmod +x "$tmp/as_host"

say() {
    echo "check-gpu: $*" >&2
}
# What was found so far: checks, and figures behind them.
part=checks
report() {
    printf '%s\n' "$*" >>"$tmp/$part"
}
# not_measured WHAT REASON
not_measured() {
    report "- $1: not measured: $2"
    say "$1: left out: $2"
}
# result WHAT GOOD [DETAIL]
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
        not_measured "$1" 'it took longer than there was time'
    else
        result "$@"
    fi
}
# within SECONDS COMMAND...: in what is left of the time; 124 where that is not enough, 125 where its own
# is not: then it hangs, or is much too slow.
within() {
    own=$1 left=$((end - $(date +%s)))
    shift
    [ "$left" -gt 5 ] || return 124
    [ "$left" -gt "$own" ] || own=0
    timeout -k 5 "$([ "$own" = 0 ] && echo "$left" || echo "$own")" "$@"
    ended=$?
    [ "$ended" != 124 ] || [ "$own" = 0 ] || ended=125
    return $ended
}

# ---- Is there a GPU?

within 60 "$bin/zero" info --machine --plugins >"$tmp/info" 2>&1
if ! grep -qE '^  device +cuda ' "$tmp/info"; then
    echo "skipped: there is no device plugin cuda in $plugins: it was built without nvcc"
    exit 77
fi
if grep -qE '^  device +cuda .*not usable here' "$tmp/info"; then
    sed -n '/^  device  *cuda /,/^  [a-z]/s/^ *\(cuda: .*\)/skipped: \1/p' "$tmp/info" | head -n 1
    exit 77
fi

# ---- What the machine has

# Where Python's packages keep NVIDIA's libraries.
packages=$(python3 -c 'import site, sys
print("\n".join(p for p in sys.path + site.getsitepackages() if p))' 2>/dev/null)
in_packages() {
    for folder in $packages; do
        for found in "$folder"/nvidia/*/lib/$1; do
            [ -e "$found" ] && echo "$found" && return
        done
    done
}
cublas=$(ldconfig -p 2>/dev/null | grep -o '/.*libcublas\.so\.1[123]$' | head -n 1)
[ -n "$cublas" ] || cublas=$(find /usr/local/cuda/lib64/ -name 'libcublas.so.1?' 2>/dev/null | head -n 1)
[ -n "$cublas" ] || cublas=$(in_packages 'libcublas.so.1?')
cublas=${GPU_CUBLAS:-$cublas} # as somebody wants it
nccl=$(ldconfig -p 2>/dev/null | grep -o '/.*libnccl\.so\.2$' | head -n 1)
[ -n "$nccl" ] || nccl=$(in_packages 'libnccl.so.2')

report "## $(sed -n 's/.*GPUs\{0,1\}, the first: \(.*\); driver.*/\1/p; s/.*1 GPU: \(.*\); driver.*/\1/p' \
    "$tmp/info" | head -n 1)"
report ''
report "| | |"
report "|---|---|"
report "| date | $(date -u +%Y-%m-%d) |"
report "| driver | $(sed -n 's/.*; \(driver for CUDA [0-9.]*\).*/\1/p' "$tmp/info" | head -n 1)$(
    nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | sed 's/^/, /;q') |"
report "| libzero | $(sed 's/^zero //;q' "$tmp/info"), $(git -C "$here" rev-parse --short=12 HEAD 2>/dev/null ||
    cat "$here/commit" 2>/dev/null || echo 'commit not known') |"
report "| cuBLAS | ${cublas:-not found} |"
report "| NCCL | ${nccl:-not found} |"
report "| processor, kernel | $(sed -n 's/^  processor *//p' "$tmp/info"), $(uname -sr) |"
report ''
report '### Checks'
report ''

# ---- Kernels

if [ "$size" = small ]; then
    rounds=1 preset=micro batch=2 seq=32 steps=3 mib=4 loops=2
else
    rounds=12 preset=124M batch=4 seq=256 steps=50 mib=1024 loops=10
fi
within 120 "$tests/kernels" "$rounds" >"$tmp/kernels" 2>&1
status=$?
judge 'every kernel against the host' "$status" "$(grep -c '^ok' "$tmp/kernels") of $(
    grep -cE '^(not )?ok' "$tmp/kernels") cases"
[ "$status" = 0 ] || grep -vE '^ok' "$tmp/kernels" | head -n 20 >&2
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
no_sanitizer='compute-sanitizer is not here' no_nccl='libnccl.so.2 is not here'
[ "$size" = full ] || sanitizer='' nccl='' no_sanitizer=$emulated no_nccl=$emulated
for tool in memcheck racecheck synccheck; do
    if [ -z "$sanitizer" ]; then
        not_measured "$tool of the kernels" "$no_sanitizer"
        continue
    fi
    program=$tests/kernels
    [ -x "$tests/.libs/kernels" ] && program=$tests/.libs/kernels # not the script around it
    within 60 "$sanitizer" --tool "$tool" --error-exitcode 9 "$program" 1 >"$tmp/$tool" 2>&1
    status=$?
    if grep -q 'not supported' "$tmp/$tool"; then
        not_measured "$tool of the kernels" "$(grep -m 1 'not supported' "$tmp/$tool")"
    elif [ $status = 124 ] || [ $status = 125 ]; then
        not_measured "$tool of the kernels" 'it took longer than a minute'
    else
        result "$tool of the kernels" "$status" "$(grep -m 1 SUMMARY "$tmp/$tool" | tr -d =)"
    fi
done

# ---- NCCL

if [ -n "$nccl" ]; then
    export ZERO_NCCL_LIBRARY="$nccl"
    within 60 "$bin/zero" check comm nccl -n 1 >"$tmp/nccl" 2>&1
    judge 'zero check comm nccl, one rank' $? "$(grep -c '^ok' "$tmp/nccl") cases"
else
    not_measured 'zero check comm nccl' "$no_nccl"
fi

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
        tail -n 3 "$tmp/out" >&2
        return $status
    }
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
# train WHAT REFERENCE RANKS ARGUMENT...: losses within 1e-2 of the file REFERENCE.
train() {
    what=$1 reference=$2
    shift 2
    gpt2 "$tmp/log" "$@"
    status=$?
    if [ $status != 0 ]; then
        judge "$what" $status "$(tail -n 1 "$tmp/out" | cut -c 1-160)"
        return
    fi
    losses_of "$tmp/log" >"$tmp/losses"
    if [ ! -s "$reference" ]; then
        cp "$tmp/losses" "$reference"
        result "$what" 0 "losses $(sed 1q "$tmp/losses") to $(tail -n 1 "$tmp/losses")"
        return
    fi
    far=$(apart "$tmp/losses" "$reference")
    awk -v far="$far" 'BEGIN { exit !(far != "inf" && far <= 1e-2) }'
    result "$what" $? "losses within $far of the reference, $(sed 1q "$tmp/losses") to $(
        tail -n 1 "$tmp/losses")"
}

shape="--preset $preset --batch $batch --seq $seq --steps $steps"
# trained WHAT REFERENCE RANKS OFFLOAD ARGUMENT...
trained() {
    what=$1${4:+, $4} reference=$2 ranks=$3
    [ -z "$4" ] || export ZERO_OFFLOAD="$4"
    shift 4
    train "$what" "$reference" "$ranks" "$@"
    unset ZERO_OFFLOAD
}
# The references are of the processor, in bf16, by the same command without ZERO_DEVICE.
export ZERO_NVME_PATH="$tmp" ZERO_OFFLOAD_MEASURE=0
for stage in 0 1 2 3; do
    for offload in '' optimizer:cpu; do
        # shellcheck disable=SC2086 # words
        trained "GPT-2 $preset, stage $stage, against the processor" "$losses/$preset" 1 \
            "$offload" $shape --stage $stage
    done
done
# shellcheck disable=SC2086
trained "GPT-2 $preset, stage 3, against the processor" "$losses/$preset" 1 \
    optimizer:cpu:0.8+nvme:0.2,parameters:cpu,gradients:cpu,activations:cpu $shape --stage 3
# shellcheck disable=SC2086
trained "GPT-2 $preset, stage 2, --recompute, against the processor" "$losses/$preset" 1 '' $shape \
    --stage 2 --recompute
# shellcheck disable=SC2086
trained 'two ranks on one GPU, stage 3, by shm' "$tmp/two" 2 '' $shape --stage 3
# shellcheck disable=SC2086
trained 'two ranks on one GPU, stage 0: the losses of stage 3' "$tmp/two" 2 '' $shape --stage 0
for comm in ucx ofi; do
    if [ -e "$plugins/zero-comm-$comm.so" ]; then
        export ZERO_COMM="$comm"
        # shellcheck disable=SC2086
        trained "two ranks on one GPU, stage 3, by $comm: the losses of shm" "$tmp/two" 2 '' \
            $shape --stage 3
        unset ZERO_COMM
    else
        not_measured "two ranks on one GPU, by $comm" 'its plugin is not here'
    fi
done
# NCCL refuses two ranks on one GPU unless it takes them for two hosts.
if [ -n "$nccl" ]; then
    ranks_of_hosts=1 gpt2_seconds=50
    export ZERO_COMM=nccl ZERO_NUMERICS=relaxed NCCL_SOCKET_IFNAME=lo
    # shellcheck disable=SC2086
    trained 'two ranks on one GPU, stage 3, by NCCL: the losses of shm' "$tmp/two" 2 '' $shape \
        --stage 3
    unset ZERO_COMM ZERO_NUMERICS NCCL_SOCKET_IFNAME ranks_of_hosts gpt2_seconds
else
    not_measured 'two ranks on one GPU, by NCCL' "$no_nccl"
fi
# ---- Figures

part=figures
report ''
report '### Figures'
report ''
report '| what | measured | beside | ratio | wanted |'
report '|---|---|---|---|---|'
within 60 "$tests/times" "$mib" >"$tmp/times" 2>&1
status=$?
if [ $status = 0 ]; then
    cat "$tmp/times" >>"$tmp/$part"
elif [ "$status" = 124 ]; then
    report '| copies and AdamW | not measured: it took longer than there was time | | | |'
else
    tail -n 3 "$tmp/times" >&2
    failed=$((failed + 1))
    report "| copies and AdamW | failed: $(tail -n 1 "$tmp/times") | | | |"
fi
# overhead PRESET BATCH SEQ
overhead() {
    within 100 "$tests/overhead" "$1" "$2" "$3" "$loops" "$cublas" >"$tmp/overhead" 2>"$tmp/err"
    status=$?
    if [ $status = 0 ]; then
        cat "$tmp/overhead" >>"$tmp/$part"
        say "$(cat "$tmp/overhead")"
    elif [ $status = 124 ] || [ $status = 125 ] || grep -qi 'memory' "$tmp/overhead"; then
        report "| GPT-2 $1 step | not measured: $(tail -n 1 "$tmp/overhead") | | | 1.05 at most |"
    else
        failed=$((failed + 1))
        cat "$tmp/overhead" "$tmp/err" >&2
        report "| GPT-2 $1 step | failed: $(tail -n 1 "$tmp/overhead") | | | |"
    fi
}
if [ "$size" = small ]; then
    overhead micro 2 32
else
    overhead 124M 8 1024
fi

# median LOG FIELD: of the steps but the first two, in milliseconds.
median() {
    grep '"type":"step"' "$1" | sed 1,2d | sed "s/.*\"$2\":\([0-9.e+-]*\).*/\1/" | sort -g |
        awk '{ v[NR] = $1 } END { printf "%.2f\n", 1e3 * v[int((NR + 1) / 2)] }'
}
# In the last step of the file of ops: the queue, of all but computing, that is at work for the
# longest time, and for how many milliseconds. Ops of a queue that overlap count once.
busiest() {
    last=$(sed -n '$s/.*"step":\([0-9]*\),.*/\1/p' "$1")
    sed -n "s/.*\"step\":$last,.*\"queue\":\"\([^\"]*\)\".*\"start_ns\":\([0-9]*\),\"end_ns\":\([0-9]*\).*/\1|\2|\3/p" \
        "$1" | grep -v '^compute' | sort -t '|' -k 1,1 -k 2,2n | awk -F '|' '
            $1 != queue { queue = $1; until = 0 }
            { from = $2 > until ? $2 : until }
            $3 > from { busy[queue] += $3 - from; until = $3 }
            END {
                for (q in busy)
                    if (busy[q] > most) { most = busy[q]; which = q }
                printf "%.2f %s\n", most * 1e-6, which
            }'
}
# on_host WHAT ARGUMENT...: the passes take as long as they do without offload; copies and updates as
# long as they are under way. A step of all three, side by side, should not take longer than the
# longest of them.
on_host() {
    what=$1
    shift
    # shellcheck disable=SC2086
    gpt2 "$tmp/log" 1 $shape --steps 8 --stage 2
    status=$?
    compute=$(median "$tmp/log" compute_s)
    if [ $status = 0 ]; then
        export ZERO_OFFLOAD=optimizer:cpu
        # shellcheck disable=SC2086
        gpt2 "$tmp/log" 1 $shape --steps 8 --stage 2 --ops "$tmp/ops" "$@"
        status=$?
        unset ZERO_OFFLOAD
    fi
    if [ $status = 0 ]; then
        report "$(busiest "$tmp/ops" | awk -v compute="$compute" -v what="GPT-2 $preset step, $what" \
            -v step="$(median "$tmp/log" time_s)" '{
                most = $1; sub(/^[^ ]* /, ""); which = "the queue " $0
                if (compute > most) { most = compute; which = "the passes without offload" }
                printf "| %s | %.2f ms | %s: %.2f ms | %.3f | 1.10 at most |", what, step, which,
                    most, step / most
            }')"
    elif [ $status = 124 ]; then
        report "| GPT-2 $preset step, $what | not measured: it took longer than there was time | | | |"
    else
        report "| GPT-2 $preset step, $what | failed | | | |"
        failed=$((failed + 1))
    fi
    say "$(tail -n 1 "$tmp/$part")"
}
on_host 'optimizer on the host'
export ZERO_UPDATE_AT=backward
on_host 'updates beside the backward pass, which do not clip' --clip 0
unset ZERO_UPDATE_AT

# beside_torch PRESET BATCH SECONDS HOW...: tokens a second, after overhead() of the same shape
beside_torch() {
    model=$1 sequences=$2 most=$3
    shift 3
    if [ "$size" = small ]; then
        echo "no: $emulated" >"$tmp/torch"
    else
        within "$most" python3 -B "$here/torch_step.py" "$python" "$model" "$sequences" 1024 10 "$@" \
            >"$tmp/torch" 2>"$tmp/err" ||
            [ -s "$tmp/torch" ] || echo 'no PyTorch that works here' >"$tmp/torch"
    fi
    ours=$(sed -n "s/^| GPT-2 $model step, .* \([0-9]*\) tokens.s .*/\1/p" "$tmp/$part")
    for how; do
        theirs=$(sed -n "s/^$how //p" "$tmp/torch")
        least=0.8
        [ "$how" = compiled ] && least=1.0
        if [ -n "$theirs" ] && [ -n "$ours" ]; then
            report "| GPT-2 $model, tokens/s | $ours | PyTorch $(sed -n 's/^version //p' \
                "$tmp/torch"), $how: $theirs | $(awk -v a="$ours" -v b="$theirs" \
                'BEGIN { printf "%.3f", a / b }') | $least |"
        else
            report "| GPT-2 $model, tokens/s | ${ours:-not measured} | PyTorch, $how: not measured: $(
                grep '^no' "$tmp/torch" || echo 'it took too long') | | $least |"
        fi
        say "$(tail -n 1 "$tmp/$part")"
    done
}
beside_torch 124M 8 90 eager compiled

# ---- 1.5B, last, since it takes the longest

if [ "$size" = full ]; then
    overhead 1.5B 1 1024
    beside_torch 1.5B 1 60 eager
fi
part=checks
if [ "$size" = full ]; then
    big='--preset 1.5B --batch 1 --seq 64 --steps 50 --lr 2e-5'
    for stage in 3 0 1 2; do
        for offload in '' optimizer:cpu; do
            # shellcheck disable=SC2086
            trained "GPT-2 1.5B, stage $stage, against the processor" "$losses/1.5B" 1 "$offload" \
                $big --stage $stage
        done
    done
fi

cat "$tmp/checks" "$tmp/figures"
[ -z "$file" ] || cat "$tmp/checks" "$tmp/figures" >"$file"
say "$failed failed, $((end - $(date +%s))) s of $seconds left"
[ "$failed" = 0 ]
