# SPDX-License-Identifier: Apache-2.0
# For run.sh: what passes or fails.
# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034,SC2086 # run.sh has the places of things, parts.sh reads some; words

# Cases of a log in TAP that were tried.
tried() {
    grep -E '^(not )?ok' "$1" | grep -vcE '# SKIP'
}
# judge_cases WHAT STATUS: of output in TAP. Where no case was tried, nothing has passed.
judge_cases() {
    n_cases=$(tried "$output") good=$2
    [ "$good" != 0 ] || [ "$n_cases" -gt 0 ] || good=1
    judge "$1" "$good" "$n_cases cases"
}

# ---- Kernels, and collectives of a transport of the host on memory of the GPU

kernels() {
    within 120 "$tmp/kernels" "$tests/kernels" "$rounds"
    status=$?
    cases=$(tried "$tmp/kernels")
    [ $status != 0 ] || [ "$cases" -gt 20 ] || status=1
    judge 'every kernel against the host' $status "$(grep -c '^ok' "$tmp/kernels") of $cases cases"
}
sanitizers() {
    program=$tests/kernels
    [ -x "$tests/.libs/kernels" ] && program=$tests/.libs/kernels # not the script around it
    for tool in memcheck racecheck synccheck; do
        what="$tool of the kernels"
        if [ -z "$sanitizer" ]; then
            not_measured "$what" "$no_sanitizer"
            continue
        fi
        within 60 "$tmp/$tool" "$sanitizer" --tool "$tool" --error-exitcode 9 "$program" 4
        status=$?
        if [ $status = 125 ]; then # it makes them many times slower
            not_measured "$what" "$(why $status '')"
        elif [ $status != 124 ] && [ "$(tried "$tmp/$tool")" = 0 ]; then
            not_measured "$what" "$(grep -m 1 . "$tmp/$tool")"
        else
            [ $status != 0 ] || [ "$(tried "$tmp/$tool")" = "$cases" ] || status=1
            judge "$what" $status "$(grep -m 1 SUMMARY "$tmp/$tool" | tr -d = | sed 's/^ *//')"
        fi
    done
}
collectives() {
    within 60 "$tmp/comm" "$rank_tests/comm_gpu"
    judge_cases 'collectives by shm, ranks that share the GPU, bit for bit as on the host' $?
}

# ---- Trainings

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
# are the processor's, in bf16, by the same command without ZERO_DEVICE; and weights with the same
# bits as all others have of as many ranks, whatever the stage and wherever states lie.
trained() {
    what=$1${4:+, $4} reference=$2 n_ranks=$3
    [ -z "$4" ] || export ZERO_OFFLOAD="$4"
    shift 4
    gpt2 "$tmp/log" "$n_ranks" "$@"
    status=$?
    unset ZERO_OFFLOAD
    if [ $status = 125 ] && [ -n "${disk_decides-}" ]; then # a slow one is no failure
        not_measured "$what" "$(why $status "$(last_words)")"
        return
    elif [ $status != 0 ]; then
        judge "$what" $status "$(last_words)"
        return
    fi
    losses_of "$tmp/log" >"$tmp/losses"
    far=$(apart "$tmp/losses" "$reference")
    awk -v far="$far" 'BEGIN { exit !(far != "inf" && far <= 1e-2) }'
    status=$?
    weights=$(sed -n 's/.*Weights \([0-9a-f][0-9a-f]*\)$/\1/p' "$tmp/out" | tail -n 1)
    detail="losses within $far of the processor's, $(sed 1q "$tmp/losses") to $(
        tail -n 1 "$tmp/losses"); Weights ${weights:-not told}"
    first=$tmp/weights.$(basename "$reference").$n_ranks # the bits that all others must have
    if [ -z "$weights" ]; then
        status=1
    elif [ "${ZERO_COMM-}" != nccl ]; then # which adds up in an order of its own
        [ $status != 0 ] || [ -e "$first" ] || printf '%s\n' "$weights" >"$first"
        if [ -e "$first" ] && [ "$weights" != "$(cat "$first")" ]; then
            status=1 detail="$detail, not $(cat "$first") as before"
        fi
    fi
    copied=$(grep -m 1 'go through memory of the host' "$tmp/out" | cut -c 1-160)
    if [ -n "$copied" ]; then # a transport of GPUs that does without them
        detail="$detail; $copied"
        [ "$ZERO_DEVICE" = cuda ] || status=1 # two GPUs may not reach each other
    fi
    if [ $status != 0 ] || [ "$reference" = "$losses/1.5B" ]; then
        keep losses "$what" "$tmp/losses"
    fi
    result "$what" $status "$detail"
}
# One rank in every stage, then two on this GPU, that share the same sequences.
trainings() {
    for stage in 0 1 2 3; do
        for offload in '' optimizer:cpu; do
            trained "GPT-2 $preset, stage $stage, one rank" "$losses/$preset" 1 "$offload" $shape \
                --stage $stage
        done
    done
    trained "GPT-2 $preset, stage 3, one rank" "$losses/$preset" 1 \
        optimizer:cpu:0.95+nvme:0.05,parameters:cpu,gradients:cpu,activations:cpu $shape --stage 3
    trained "GPT-2 $preset, stage 2, --recompute, one rank" "$losses/$preset" 1 '' $shape --stage 2 \
        --recompute
    for stage in 0 1 2 3; do
        trained "two ranks on one GPU, stage $stage, by shm" "$losses/$preset" 2 '' $shape2 \
            --stage $stage
    done
    for comm in ucx ofi; do
        if [ -e "$plugins/zero-comm-$comm.so" ]; then
            export ZERO_COMM="$comm"
            trained "two ranks on one GPU, stage 3, by $comm" "$losses/$preset" 2 '' $shape2 --stage 3
            unset ZERO_COMM
        else
            not_measured "two ranks on one GPU, stage 3, by $comm" 'its plugin is not here'
        fi
    done
}
# large STAGE OFFLOAD: 1.5B
large() {
    trained "GPT-2 1.5B, stage $1, one rank" "$losses/1.5B" 1 "$2" $big --stage "$1"
}
# In a part of the memory, where it is best; the disk is measured, and a step foretold.
in_a_part() {
    export ZERO_MEMORY_LIMIT="$limit" ZERO_OFFLOAD_MEASURE=1
    gpt2_seconds=60 disk_decides=1
    trained "GPT-2 $preset, stage 2, one rank, in $limit" "$losses/$preset" 1 auto $shape --stage 2
    export ZERO_OFFLOAD_MEASURE=0
    unset ZERO_MEMORY_LIMIT gpt2_seconds disk_decides
    placed=$(grep -m 1 'Outside the device' "$tmp/out")
    [ -z "$placed" ] || report checks "- of that: $placed; $(grep -m 1 'after the forecast' "$tmp/out")"
}
# trained_by_nccl WHAT: two ranks. Two waits in a row, a start and a collective, end before the check.
trained_by_nccl() {
    export ZERO_COMM=nccl ZERO_NUMERICS=relaxed NCCL_SOCKET_IFNAME=lo ZERO_TIMEOUT=20
    gpt2_seconds=60
    trained "$1" "$losses/$preset" 2 '' $shape2 --stage 3
    unset ZERO_COMM ZERO_NUMERICS NCCL_SOCKET_IFNAME gpt2_seconds
    export ZERO_TIMEOUT=30
}
# NCCL refuses two ranks on one GPU unless it takes them for two hosts.
by_nccl() {
    if [ -z "$nccl" ]; then
        not_measured 'zero check comm nccl' "$no_nccl"
        not_measured 'two ranks on one GPU, stage 3, by NCCL' "$no_nccl"
        return
    fi
    within 60 "$tmp/nccl" env ZERO_TIMEOUT=20 "$bin/zero" check comm nccl -n 1
    judge_cases 'zero check comm nccl, one rank' $?
    ranks_of_hosts=1
    trained_by_nccl 'two ranks on one GPU, stage 3, by NCCL'
    unset ranks_of_hosts
}
# A GPU for each of two ranks.
two_gpus() {
    if [ "${gpus:-1}" -lt 2 ]; then
        not_measured 'two ranks on two GPUs' 'one GPU here'
        return
    fi
    export ZERO_DEVICE=cuda
    trained 'two ranks on two GPUs, stage 3, by shm' "$losses/$preset" 2 '' $shape2 --stage 3
    if [ -n "$nccl" ]; then
        within 100 "$tmp/nccl" env ZERO_TIMEOUT=20 NCCL_SOCKET_IFNAME=lo \
            "$bin/zero" check comm nccl -n 2
        judge_cases 'zero check comm nccl, two ranks' $?
        trained_by_nccl 'two ranks on two GPUs, stage 3, by NCCL'
    else
        not_measured 'two ranks on two GPUs, stage 3, by NCCL' "$no_nccl"
    fi
    export ZERO_DEVICE=cuda:0
}

# ---- Bad input

# refused WHAT PATTERN COMMAND...: it ends by itself, not well, with a sentence that says so.
refused() {
    what=$1 pattern=$2
    shift 2
    within 60 "$tmp/out" "$@"
    status=$?
    said=$(grep -m 1 -e "$pattern" "$tmp/out" | cut -c 1-240)
    case $status in
    0) status=1 ;;
    124 | 125) ;;
    *)
        status=0
        [ -n "$said" ] || status=1
        ;;
    esac
    judge "$what is refused" $status "$said"
}
# astray WHAT COMMAND...: the rank that did it says so, the other one says the same of it, both soon.
astray() {
    what=$1
    shift
    within 60 "$tmp/fault" "$@"
    status=$?
    said=$(sed -n 's/.*rank 0 is told: \(.*CUDA_ERROR_ILLEGAL_ADDRESS.*\)/\1/p' "$tmp/fault" | head -n 1)
    if [ $status != 124 ]; then
        [ -n "$said" ] && grep 'rank 1 is told: ' "$tmp/fault" | grep -qF "rank 0 failed: $said" &&
            [ $(($(date +%s) - began)) -lt 15 ] || status=1
    fi
    judge "$what: both say so" $status "$(printf '%s\n' "$said" | cut -c 1-240)"
}
bad_input() {
    one="--preset $preset --batch 1 --seq 32 --steps 1"
    refused 'a GPU that is not there' 'there is no GPU 63' env ZERO_DEVICE=cuda:63 "$bin/zero-gpt2" \
        --data "$text" $one
    refused 'a model that the GPU has no memory for' 'the plan needs .* but device cuda:0' \
        "$bin/zero-gpt2" --data "$text" --preset 1.5B --batch 1024 --seq 1024 --steps 1 \
        ${cublas:+--cublas "$cublas"}
    echo 'this is no library' >"$tmp/libcuda.so.1"
    refused 'a driver that is none' 'cuda: no NVIDIA driver: ' env \
        LD_LIBRARY_PATH="$tmp${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$bin/zero-gpt2" --data "$text" $one
    rm "$tmp/libcuda.so.1"
    if [ -n "$nccl" ]; then
        refused 'an NCCL that is none' 'it is older than NCCL 2.18, or another library' \
            env ZERO_COMM=nccl ZERO_NUMERICS=relaxed ZERO_NCCL_LIBRARY="$plugins/zero-comm-shm.so" \
            ZERO_TIMEOUT=20 "$bin/zero" run -n 2 -- "$bin/zero-gpt2" --data "$text" $one
        refused 'two ranks on one GPU by NCCL' 'Duplicate GPU' \
            env $looks ZERO_COMM=nccl ZERO_NUMERICS=relaxed NCCL_SOCKET_IFNAME=lo \
            ZERO_TIMEOUT=20 "$bin/zero" run -n 2 -- "$bin/zero-gpt2" --data "$text" $one \
            ${cublas:+--cublas "$cublas"}
    fi
    if [ "$size" = small ]; then
        not_measured 'a kernel that goes astray' 'the GPU is emulated'
        return
    fi
    astray 'a kernel that goes astray, two ranks by shm' "$bin/zero" run -n 2 -- "$tests/fault" "$cublas"
    [ -z "$nccl" ] || astray 'a kernel that goes astray, two ranks by NCCL' \
        env ZERO_COMM=nccl ZERO_NUMERICS=relaxed NCCL_SOCKET_IFNAME=lo \
        "$bin/zero" run -n 2 -- "$tmp/as_host" "$tests/fault" "$cublas"
}
