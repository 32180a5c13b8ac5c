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
# bench/RESULTS-gpu.md. Status: 0, 1 where something failed, 77 without a GPU, with the reason. A figure
# that misses what is wanted says so, and does not fail. What the machine lacks, and what GPU_SECONDS
# (460) are not enough for, is left out and named. GPU_CUBLAS names a cuBLAS.
set -u
file=''
[ "${1-}" = -o ] && file=$2 && shift 2
size=${1:-full}
here=$(cd "$(dirname "$0")" && pwd)
path_before=${LD_LIBRARY_PATH-}
if [ -d "$here/bin" ]; then # a kit: everything lies beside this script
    bin=$here/bin tests=$here/bin ranks=$here/bin plugins=$here/plugins python=$here text=$here/text
    export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    [ ! -d "$here/ucx" ] || export UCX_MODULE_DIR="$here/ucx"
else
    top=$(cd "$here/../.." && pwd)
    bin=${ZERO_TEST_BUILD:-$top/build} python=$top/bench/compare text=$top/LICENSE
    tests=$bin/tests/gpu ranks=$bin/tests/rank plugins=$bin/.libs
fi
losses=$here/losses
export ZERO_PLUGIN_PATH="$plugins" ZERO_DEVICE=cuda:0 ZERO_TIMEOUT=120
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
# shellcheck source=parts.sh
. "$here/parts.sh"

# ---- Is there a GPU?

within 60 "$bin/zero" info --machine --plugins >"$tmp/info" 2>&1
if ! grep -qE '^  device +cuda +version ' "$tmp/info"; then
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
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
no_sanitizer='compute-sanitizer is not here' no_nccl='libnccl.so.2 is not here' no_torch=''
if [ "$size" = small ]; then
    rounds=1 preset=micro batch=2 seq=32 steps=3 mib=4 loops=2 limit=device:34048K,cpu:26500K
    sanitizer='' nccl=''
    no_sanitizer='the GPU is emulated' no_nccl='the GPU is emulated' no_torch='the GPU is emulated'
else
    rounds=12 preset=124M batch=4 seq=256 steps=50 mib=1024 loops=10 limit=device:1600M,cpu:300M
fi
[ -z "$nccl" ] || export ZERO_NCCL_LIBRARY="$nccl"
commit=$(cat "$here/commit" 2>/dev/null ||
    git -C "$here" describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null ||
    echo 'commit not known')

report "## $(sed -n 's/.*GPUs\{0,1\}, the first: \(.*\); driver.*/\1/p; s/.*1 GPU: \(.*\); driver.*/\1/p' \
    "$tmp/info" | head -n 1)"
report ''
report "| | |"
report "|---|---|"
report "| date | $(date -u +%Y-%m-%d) |"
report "| driver | $(sed -n 's/.*; \(driver for CUDA [0-9.]*\).*/\1/p' "$tmp/info" | head -n 1)$(
    nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | sed 's/^/, /;q') |"
report "| libzero | $(sed 's/^zero //;q' "$tmp/info"), $commit |"
report "| cuBLAS | ${cublas:-not found}${cublas:+, $(readlink -f "$cublas" | sed 's/.*\.so\.//')} |"
report "| NCCL | ${nccl:-not found}${nccl:+, $(readlink -f "$nccl" | sed 's/.*\.so\.//')} |"
report "| processor, kernel | $(sed -n 's/^  processor *//p' "$tmp/info"), $(nproc) threads, $(uname -sr) |"
report ''
report '### Checks'
report ''
part=figures
report ''
report '### Figures'
report ''
report '| what | measured | beside | ratio | wanted |'
report '|---|---|---|---|---|'
part=checks

# ---- Kernels

within 120 "$tests/kernels" "$rounds" >"$tmp/kernels" 2>&1
status=$?
cases=$(tried "$tmp/kernels")
[ $status != 0 ] || [ "$cases" -gt 20 ] || status=1
judge 'every kernel against the host' $status "$(grep -c '^ok' "$tmp/kernels") of $cases cases"
[ $status = 0 ] || grep -vE '^ok' "$tmp/kernels" | head -n 20 >&2
for tool in memcheck racecheck synccheck; do
    if [ -z "$sanitizer" ]; then
        not_measured "$tool of the kernels" "$no_sanitizer"
        continue
    fi
    program=$tests/kernels
    [ -x "$tests/.libs/kernels" ] && program=$tests/.libs/kernels # not the script around it
    within 40 "$sanitizer" --tool "$tool" --error-exitcode 9 "$program" 4 >"$tmp/$tool" 2>&1
    status=$?
    if [ $status != 124 ] && [ "$(tried "$tmp/$tool")" = 0 ]; then
        not_measured "$tool of the kernels" "$(grep -m 1 . "$tmp/$tool")"
    else
        [ $status != 0 ] || [ "$(tried "$tmp/$tool")" = "$cases" ] || status=1
        judge "$tool of the kernels" $status "$(grep -m 1 SUMMARY "$tmp/$tool" | tr -d = | sed 's/^ *//')"
        [ $status = 0 ] || grep -vE '^ok' "$tmp/$tool" | head -n 20 >&2
    fi
done

# ---- Collectives of a transport of the host on its memory

within 60 "$ranks/comm_gpu" >"$tmp/comm" 2>&1
judge_cases 'collectives by shm, ranks that share the GPU, bit for bit as on the host' $? "$tmp/comm"

# ---- GPT-2: one rank in every stage, then two on this GPU

shape="--preset $preset --batch $batch --seq $seq --steps $steps"
export ZERO_NVME_PATH="$tmp" ZERO_OFFLOAD_MEASURE=0
for stage in 0 1 2 3; do
    for offload in '' optimizer:cpu; do
        # shellcheck disable=SC2086 # words
        trained "GPT-2 $preset, stage $stage, one rank" "$losses/$preset" 1 "$offload" $shape \
            --stage $stage
    done
done
# shellcheck disable=SC2086
trained "GPT-2 $preset, stage 3, one rank" "$losses/$preset" 1 \
    optimizer:cpu:0.95+nvme:0.05,parameters:cpu,gradients:cpu,activations:cpu $shape --stage 3
# shellcheck disable=SC2086
trained "GPT-2 $preset, stage 2, --recompute, one rank" "$losses/$preset" 1 '' $shape --stage 2 \
    --recompute
# In a part of the memory, where it is best; the disk is measured, and a step foretold.
export ZERO_MEMORY_LIMIT="$limit" ZERO_OFFLOAD_MEASURE=1
# shellcheck disable=SC2086
trained "GPT-2 $preset, stage 2, one rank, in $limit" "$losses/$preset" 1 auto $shape --stage 2
say "$(grep -m 1 'Outside the device' "$tmp/out"); $(grep -m 1 'after the forecast' "$tmp/out")"
export ZERO_OFFLOAD_MEASURE=0
unset ZERO_MEMORY_LIMIT
# Two ranks that share the same sequences.
shape2="--preset $preset --batch $((batch / 2)) --seq $seq --steps $steps"
for stage in 0 1 2 3; do
    # shellcheck disable=SC2086
    trained "two ranks on one GPU, stage $stage, by shm" "$losses/$preset" 2 '' $shape2 --stage $stage
done
for comm in ucx ofi; do
    if [ -e "$plugins/zero-comm-$comm.so" ]; then
        export ZERO_COMM="$comm"
        # shellcheck disable=SC2086
        trained "two ranks on one GPU, stage 3, by $comm" "$losses/$preset" 2 '' $shape2 --stage 3
        unset ZERO_COMM
    else
        not_measured "two ranks on one GPU, stage 3, by $comm" 'its plugin is not here'
    fi
done

# NCCL refuses two ranks on one GPU unless it takes them for two hosts.
if [ -n "$nccl" ]; then
    within 30 "$bin/zero" check comm nccl -n 1 >"$tmp/nccl" 2>&1
    judge_cases 'zero check comm nccl, one rank' $? "$tmp/nccl"
    ranks_of_hosts=1 gpt2_seconds=40
    export ZERO_COMM=nccl ZERO_NUMERICS=relaxed NCCL_SOCKET_IFNAME=lo
    # shellcheck disable=SC2086
    trained 'two ranks on one GPU, stage 3, by NCCL' "$losses/$preset" 2 '' $shape2 --stage 3
    unset ZERO_COMM ZERO_NUMERICS NCCL_SOCKET_IFNAME ranks_of_hosts gpt2_seconds
else
    not_measured 'zero check comm nccl' "$no_nccl"
    not_measured 'two ranks on one GPU, stage 3, by NCCL' "$no_nccl"
fi

# ---- Bad input

one="--preset $preset --batch 1 --seq 32 --steps 1"
# shellcheck disable=SC2086
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
    other=$(ldconfig -p | grep -o '/.*libm\.so\.6$' | head -n 1)
    # shellcheck disable=SC2086
    refused 'an NCCL that is none' 'it is older than NCCL 2.18, or another library' \
        env ZERO_COMM=nccl ZERO_NUMERICS=relaxed ZERO_NCCL_LIBRARY="$other" \
        "$bin/zero" run -n 2 -- "$bin/zero-gpt2" --data "$text" $one
    # shellcheck disable=SC2086
    refused 'two ranks on one GPU by NCCL' 'Duplicate GPU' \
        env ZERO_COMM=nccl ZERO_NUMERICS=relaxed NCCL_SOCKET_IFNAME=lo \
        "$bin/zero" run -n 2 -- "$bin/zero-gpt2" --data "$text" $one ${cublas:+--cublas "$cublas"}
fi
if [ "$size" = small ]; then
    not_measured 'a kernel that goes astray' 'the GPU is emulated'
else
    astray 'a kernel that goes astray, two ranks by shm' "$bin/zero" run -n 2 -- "$tests/fault" "$cublas"
    [ -z "$nccl" ] || astray 'a kernel that goes astray, two ranks by NCCL' \
        env ZERO_COMM=nccl ZERO_NUMERICS=relaxed NCCL_SOCKET_IFNAME=lo \
        "$bin/zero" run -n 2 -- "$tmp/as_host" "$tests/fault" "$cublas"
fi

# ---- Figures

part=figures
events "$mib"
if [ "$size" = small ]; then
    overhead micro 2 32
else
    overhead 124M 8 1024
    beside_torch 124M 8 45 eager
fi
# shellcheck disable=SC2086
on_host "$preset" "$batch x $seq" $shape --steps 8 --stage 2

# ---- 1.5B, and what may take long

# At larger rates losses of single sequences leap, and with them whatever rounds differently.
big='--preset 1.5B --batch 1 --seq 64 --steps 50 --lr 1e-5'
if [ "$size" = full ]; then
    part=checks
    for stage in 3 0 1 2; do
        # shellcheck disable=SC2086
        trained "GPT-2 1.5B, stage $stage, one rank" "$losses/1.5B" 1 '' $big --stage $stage
    done
    part=figures
    overhead 1.5B 1 1024
    beside_torch 1.5B 1 45 eager
    on_host 1.5B "1 x 1024" --preset 1.5B --batch 1 --seq 1024 --steps 8 --stage 2
    part=checks
fi
part=figures
if [ "$size" = small ]; then
    beside_torch micro 2 45 eager
else
    beside_torch 124M 8 90 compiled
    part=checks
    for stage in 3 0 1 2; do
        offload=optimizer:cpu
        [ $stage = 3 ] || offload=optimizer:cpu:0.25+device:0.75
        # shellcheck disable=SC2086
        trained "GPT-2 1.5B, stage $stage, one rank" "$losses/1.5B" 1 "$offload" $big --stage $stage
    done
fi

part=figures
report ''
report "All of it took $(($(date +%s) - end + ${GPU_SECONDS:-460})) s."
cat "$tmp/checks" "$tmp/figures"
say "$failed failed, $missed_rows figures missed what is wanted, $((end - $(date +%s))) s of \
${GPU_SECONDS:-460} left"
[ "$failed" = 0 ]
