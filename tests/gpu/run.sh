#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What needs a GPU, in under eight minutes: every kernel against the host, also under
# compute-sanitizer; GPT-2 in all stages against losses of the processor; two ranks on one GPU, and on
# two where there are; NCCL; and figures, each as a ratio to what limits it.
#
#     make check-gpu                       in a build folder
#     tests/gpu/run.sh [-o FILE] [SIZE]    FILE: where the report goes, too
#
# Beside FILE lies what explains a miss: FILE.failed, what the programs said; FILE.losses, those of
# 1.5B and of what failed; FILE.overhead, what steps with the runtime and without were.
#
# SIZE small: micro instead of 124M, for a GPU that is emulated. The report is a part of
# bench/RESULTS-gpu.md. Status: 0, 1 where something failed, 77 without a GPU, with the reason. A figure
# that misses what is wanted says so, and does not fail. What the machine lacks, and what GPU_SECONDS
# (460) are not enough for, is left out and named. GPU_CUBLAS and GPU_NCCL name libraries.
set -u
PATH=$PATH:/usr/sbin:/sbin # ldconfig
file=''
[ "${1-}" = -o ] && file=$2 && shift 2
size=${1:-full}
here=$(cd "$(dirname "$0")" && pwd)
path_before=${LD_LIBRARY_PATH-}
if [ -d "$here/bin" ]; then # a kit: everything lies beside this script
    bin=$here/bin tests=$here/bin rank_tests=$here/bin plugins=$here/plugins
    python=$here text=$here/text
    export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    [ ! -d "$here/ucx" ] || export UCX_MODULE_DIR="$here/ucx"
else
    top=$(cd "$here/../.." && pwd)
    bin=${ZERO_TEST_BUILD:-$top/build} python=$top/bench/compare text=$top/LICENSE
    tests=$bin/tests/gpu rank_tests=$bin/tests/rank plugins=$bin/.libs
fi
losses=$here/losses
# What hangs ends by the library's own sentence: before any check here is stopped.
export ZERO_PLUGIN_PATH="$plugins" ZERO_DEVICE=cuda:0 ZERO_TIMEOUT=30
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
# shellcheck source=parts.sh
. "$here/parts.sh"
# shellcheck source=checks.sh
. "$here/checks.sh"
# shellcheck source=figures.sh
. "$here/figures.sh"

[ -z "$file" ] || rm -f "$file.failed" "$file.losses" "$file.overhead"

# ---- Is there a GPU?

within 60 "$tmp/info" "$bin/zero" info --machine --plugins
status=$?
if [ $status != 0 ]; then
    say "zero info: $(why $status "$(tail -n 1 "$tmp/info")")"
    exit 1
fi
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
nccl=${GPU_NCCL:-$nccl}
gpus=$(sed -n 's/^ *\([0-9][0-9]*\) GPUs\{0,1\}, the first: .*/\1/p' "$tmp/info" | head -n 1)
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
no_sanitizer='compute-sanitizer is not here' no_nccl='libnccl.so.2 is not here' no_torch=''
if [ "$size" = small ]; then
    rounds=1 preset=micro batch=2 seq=32 steps=3 mib=4 loops=2 limit=device:34048K,cpu:26500K
    sanitizer='' nccl=${GPU_NCCL-} looks=FAKE_NCCL_DUPLICATE=1 # which the emulated NCCL does only then
    no_sanitizer='the GPU is emulated' no_nccl='the GPU is emulated' no_torch='the GPU is emulated'
else
    # 200 MiB of the states are left for the disk: 10 GB each way.
    rounds=12 preset=124M batch=4 seq=256 steps=50 mib=1024 loops=10 limit=device:2200M,cpu:300M looks=''
fi
[ -z "$nccl" ] || export ZERO_NCCL_LIBRARY="$nccl"
commit=$(cat "$here/commit" 2>/dev/null ||
    git -C "$here" describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null ||
    echo 'commit not known')

report checks "## $(sed -n 's/.*GPUs\{0,1\}, the first: \(.*\); driver.*/\1/p' "$tmp/info" | head -n 1)"
report checks ''
report checks '| | |'
report checks '|---|---|'
report checks "| date | $(date -u +%Y-%m-%d) |"
report checks "| driver | $(sed -n 's/.*; \(driver for CUDA [0-9.]*\).*/\1/p' "$tmp/info" | head -n 1)$(
    timeout 10 nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null |
        sed 's/^/, /;q') |"
report checks "| libzero | $(sed 's/^zero //;q' "$tmp/info"), $commit |"
report checks "| cuBLAS | ${cublas:-not found}${cublas:+, $(readlink -f "$cublas" | sed 's/.*\.so\.//')} |"
report checks "| NCCL | ${nccl:-not found}${nccl:+, $(readlink -f "$nccl" | sed 's/.*\.so\.//')} |"
report checks "| processor, kernel | $(sed -n 's/^  processor *//p' "$tmp/info"), $(nproc) threads, $(uname -sr) |"
report checks ''
report checks '### Checks'
report checks ''
report figures ''
report figures '### Figures'
report figures ''
report figures '| what | measured | beside | ratio | wanted |'
report figures '|---|---|---|---|---|'

# ---- What there is, in the order in which it would be missed

shape="--preset $preset --batch $batch --seq $seq --steps $steps"
shape2="--preset $preset --batch $((batch / 2)) --seq $seq --steps $steps" # of each of two ranks
# At larger rates losses of single sequences leap, and with them whatever rounds differently.
big='--preset 1.5B --batch 1 --seq 64 --steps 50 --lr 1e-5'
export ZERO_NVME_PATH="$tmp" ZERO_OFFLOAD_MEASURE=0

kernels
collectives
by_nccl
two_gpus
events "$mib"
if [ "$size" = full ]; then
    overhead 1.5B 1 1024
    beside_torch 1.5B 1 45 eager
fi
# shellcheck disable=SC2086 # words
on_host "$preset" "$batch x $seq" $shape --steps 8 --stage 2
if [ "$size" = full ]; then
    on_host 1.5B '1 x 1024' --preset 1.5B --batch 1 --seq 1024 --steps 8 --stage 2
    for stage in 1 2; do
        large $stage optimizer:cpu:0.25+device:0.75
    done
    large 3 optimizer:cpu
    large 0 optimizer:cpu:0.25+device:0.75
    for stage in 3 0 1 2; do
        large $stage ''
    done
    overhead 124M 8 1024
    beside_torch 124M 8 45 eager
else
    overhead micro 2 32
fi
trainings
bad_input
sanitizers
if [ "$size" = full ]; then
    beside_torch 124M 8 90 compiled
else
    beside_torch micro 2 45 eager
fi
in_a_part

report figures ''
report figures "All of it took $(($(date +%s) - end + ${GPU_SECONDS:-460})) s."
cat "$tmp/checks" "$tmp/figures"
say "$failed failed, $missed_rows figures missed what is wanted, $((end - $(date +%s))) s of \
${GPU_SECONDS:-460} left"
[ "$failed" = 0 ]
