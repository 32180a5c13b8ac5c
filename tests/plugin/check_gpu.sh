#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `make check-gpu` on a GPU that is emulated: all that such a one can, and its report has every part;
# without a GPU it is skipped with the reason; a kit of it does the same; and the full size with
# programs that only pretend, so that every line of the scripts has run before a GPU is there.
top=${ZERO_TEST_TOP:?}
build=${ZERO_TEST_BUILD:?}
# shellcheck source=../tap.sh
. "$top/tests/tap.sh"
[ -e "$build/.libs/zero-device-cuda.so" ] || skip_all 'built without nvcc'
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
fake=$build/tests/fake/.libs

# run STATUS SCRIPT ARGUMENT...
run() {
    wanted=$1
    shift
    "$@" >"$tmp/out" 2>"$tmp/err"
    [ $? = "$wanted" ]
}
says() {
    grep -qE -e "$1" "$tmp/out" || {
        sed 's/^/# /' "$tmp/out" "$tmp/err"
        false
    }
}
# in_order PATTERN...: lines of stderr, each behind the one before
in_order() {
    at=0
    for pattern; do
        line=$(grep -n -m 1 -e "$pattern" "$tmp/err" | cut -d : -f 1)
        if [ "${line:-0}" -le "$at" ]; then
            echo "$pattern: line ${line:-none}, and what comes before is line $at"
            return 1
        fi
        at=$line
    done
}

# ---- The full size, by programs that pretend

full=$tmp/full
mkdir -p "$full/bin" "$full/plugins" "$full/path" "$full/losses"
for name in run parts checks figures; do
    cp "$top/tests/gpu/$name.sh" "$full/"
done
cp "$top"/tests/gpu/losses/* "$full/losses/"
for name in zero zero-gpt2 kernels times overhead fault comm_gpu; do
    ln -s "$top/tests/gpu/pretend.sh" "$full/bin/$name"
done
for name in compute-sanitizer python3 ldconfig nvidia-smi; do
    ln -s "$top/tests/gpu/pretend.sh" "$full/path/$name"
done
# pretended STATUS [WRONG [ARGUMENT...]]
pretended() {
    status=$1 wrong=${2-}
    shift
    [ $# = 0 ] || shift
    run "$status" env PATH="$full/path:$PATH" PRETEND="$wrong" "$full/run.sh" "$@"
}
ok 'the full size passes' pretended 0
ok 'what was missed at the end before comes first' in_order 'every kernel' 'collectives by shm' \
    'check comm nccl, one rank' 'by NCCL: passed' 'on two GPUs: left out: one GPU' 'fused AdamW' '1.5B step, .* tokens/s' 'eager: 9' \
    '124M step.* behind' '1.5B step.* behind' '1.5B, stage 1.*cpu:0.25' '1.5B, stage 2.*cpu:0.25' \
    '1.5B, stage 3.*optimizer:cpu:' '1.5B, stage 0.*cpu:0.25' '1.5B, stage 3, one rank: ' \
    '1.5B, stage 0, one rank: ' '124M step, .* tokens/s' 'GPT-2 124M, tokens/s.* eager: 9' \
    '124M, stage 0' 'one GPU, stage 3, by shm' 'GPU that is not there' 'two ranks by NCCL: both' \
    'memcheck' 'synccheck' 'compiled: 9' ' auto: passed' ' 0 failed'
ok 'in two tables' sh -c 'grep -c "^|---" "$1" | grep -qx 2 && ! grep -A 999 "^### F" "$1" | grep "^- "' \
    sh "$tmp/out"
ok 'every row has five columns' sh -c '! grep -A 999 "^### F" "$1" | grep "^|" | grep -vE "^(\|[^|]*){6}$"' \
    sh "$tmp/out"
ok 'what auto has chosen is told' says '^- of that: Outside the device: auto'
export PRETEND_GPUS=8
ok 'where there are more GPUs' pretended 0 copies-apart
unset PRETEND_GPUS
ok 'two ranks have one each' in_order 'by NCCL: passed' 'two GPUs, stage 3, by shm: passed' \
    'check comm nccl, two ranks: passed' 'two GPUs, stage 3, by NCCL: passed' 'fused AdamW'
ok 'which may not reach each other' says '^- two .* on two GPUs, .* by shm: passed .*; shm: collectives go th'
ok 'as ranks on one can' pretended 1 copies
ok 'or else that fails' says '^- two ranks on one GPU, .* by shm: \*\*failed\*\* .*; shm: collectives go through'
ok 'a kit that is broken fails' pretended 1 broken
ok 'with the reason' grep -qx 'check-gpu: zero info: zero: error while loading shared libraries' "$tmp/err"
ok 'other bits fail' pretended 1 bits -o "$tmp/report"
ok 'where they are' test "$(grep -c '^- .*failed' "$tmp/out")" = 1
ok 'beside those of all others' says \
    '^- .* --recompute, one rank: \*\*failed\*\* .*; Weights [0-9a-f]+, not [0-9a-f]+ as before\)$'
ok 'the report is a file, too' cmp "$tmp/report" "$tmp/out"
ok 'beside it, what failed has said' test "$(sed -n 1p "$tmp/report.failed")" = \
    '== GPT-2 124M, stage 2, --recompute, one rank'
ok 'the losses of 1.5B, and its own' test "$(wc -l <"$tmp/report.losses")" = $((9 * 51))
ok 'what steps took' test "$(grep -c '^losses apart' "$tmp/report.overhead")" = 2
ok 'and no more' test "$(find "$tmp" -name 'report.*' | wc -l)" = 3
ok 'none of it is left' pretended 0 '' -o "$tmp/report"
ok 'from the run before' test "$(find "$tmp" -name "report.*" | wc -l)" = 2
ok 'losses that leap fail' pretended 1 leap
ok 'by themselves' says '^- GPT-2 1\.5B, losses with the runtime and without: \*\*failed\*\* \(up to 2.0e-02 apart'
ok 'and the rows stay' says '^\| GPT-2 1\.5B step, 1 x 1024 tokens, 9 tokens/s \|'
ok 'PyTorch that fails is not ours' pretended 0 torch
ok 'and is told in one column' says 'not measured beside PyTorch, eager: a thing / that PyTorch says \|'

# Each as run.sh uses it, with a second of its own.
mkdir "$tmp/late"
# shellcheck disable=SC2016 # of the other shell
ok 'what takes longer than it may' run 0 env PATH="$full/path:$PATH" PRETEND=slow sh -c '
    set -u
    tmp=$1 here=$2 file="" path_before="" no_torch="" python=.
    . "$here/parts.sh"
    . "$here/checks.sh"
    . "$here/figures.sh"
    gpt2() { within 1 "$tmp/out" sleep 9; }
    disk_decides=1
    trained "to the disk" none 1 auto
    within 1 "$tmp/hangs" sleep 9
    judge "a hang" $?
    report figures "| GPT-2 micro step, 2 x 32 tokens, 9 tokens/s | 9 ms | none | 1 | |"
    beside_torch micro 2 1 eager
    row "a step" "1 ms" "nothing: 0 ms" inf ""
    end=$(date +%s)
    within 1 "$tmp/over" true
    judge "a check" $?
    cat "$tmp/checks" "$tmp/figures"
    [ $failed = 2 ]' sh "$tmp/late" "$full"
ok 'fails' says '^- a hang: \*\*failed\*\* \(no end within 1 s\)$'
ok 'but not for a disk' says '^- to the disk, auto: not measured: no end within 1 s$'
ok 'nor for PyTorch' says '^\| GPT-2 micro, .* not measured beside PyTorch, eager: no end within 1 s \|'
ok 'nor for want of time' says '^- a check: not measured: there was no time left for it$'
ok 'a ratio that is no number fails' says '^\| a step \| failed: no ratio of 1 ms to nothing: 0 ms \| \| \| \|$'

# ---- The small size, on a GPU that is emulated

echo 'this is no library' >"$tmp/libcuda.so.1"
export LD_LIBRARY_PATH="$tmp"
ok 'without a GPU it is skipped' run 77 "$top/tests/gpu/run.sh"
ok 'with the reason' says '^skipped: cuda: no NVIDIA driver: '

export LD_LIBRARY_PATH="$fake" GPU_CUBLAS="$fake/libcublas.so.13"
export GPU_NCCL="$fake/../nccl/.libs/libnccl_cuda.so" FAKE_CUDA=memory_mib=1024
ok 'on an emulated GPU all of it passes' run 0 "$top/tests/gpu/run.sh" small
unset GPU_NCCL
export FAKE_CUDA=devices=1
ok 'by NCCL' test "$(grep -cE '^- (zero check comm nccl|two ranks on (one|two) GPUs?, .* by NCCL).*: passed' \
    "$tmp/out")" = 4
ok 'on two GPUs' says '^- two ranks on two GPUs, stage 3, by shm: passed'
ok 'named in the report' says '^## Emulated GPU 0'
ok 'with the driver' says '^\| driver \| driver for CUDA 13\.0'
ok 'the kernels' says '^- every kernel against the host: passed \(([0-9]+) of \1 cases\)'
ok 'collectives on its memory' says '^- collectives by shm, .*: passed \([0-9]+ cases\)'
ok 'GPT-2 in all stages' test "$(grep -c '^- GPT-2 micro, stage [0-3].* passed (losses within' \
    "$tmp/out")" = 11
ok 'in a part of the memory' says '^- GPT-2 micro, stage 2, one rank, in device:.*, auto: passed'
ok 'what lies in each tier' says '^- GPT-2 micro.*, optimizer:cpu:0.95.nvme:0.05,parameters:cpu,.*: passed'
ok 'two ranks on one GPU' says '^- two ranks on one GPU, stage 0, by shm: passed'
for comm in ucx ofi; do
    if [ -e "$build/.libs/zero-comm-$comm.so" ]; then
        ok "by $comm" says "^- two ranks on one GPU, stage 3, by $comm: passed"
    fi
done
# What a GPU is compared with is what a processor computes today, by the command of run.sh.
ZERO_DEVICE=host "$build/zero-gpt2" --dtype bf16 --val 0 --data "$top/LICENSE" --seed 1 --json "$tmp/host" \
    --preset micro --batch 2 --seq 32 --steps 3 >"$tmp/host.out" 2>&1
sed -n 's/.*"type":"step".*"loss":\([0-9.e+-]*\).*/\1/p' "$tmp/host" >"$tmp/host.losses"
ok 'the losses that it is compared with are the processor'\''s' sh -c 'paste "$1" "$2" | awk "
    { d = \$1 - \$2 } NF != 2 || d > 2e-3 || d < -2e-3 { bad = 1 } END { exit bad || NR != 3 }"' sh \
    "$tmp/host.losses" "$top/tests/gpu/losses/micro"
ok 'what was left out is named' says '^- memcheck of the kernels: not measured: '
for what in 'a GPU that is not there' 'a model that the GPU has no memory for' 'a driver that is none' \
    'an NCCL that is none' 'two ranks on one GPU by NCCL'; do
    ok "$what" says "^- $what is refused: passed \("
done
ok 'a stray kernel is left out' says '^- a kernel that goes astray: not measured: the GPU is emulated'
ok 'the update beside a copy' says '^\| fused AdamW, bf16, 28 bytes an element .*GB/s .* ≥ 0\.90'
ok 'of which nothing is wanted with lower halves' says '^\| the same, .* lower half, 26 bytes .*[0-9] \|  \|$'
ok 'losses with the runtime and without' says '^- GPT-2 micro, losses with .*: passed \(up to [0-9.e+-]+ apart'
ok 'a step without the runtime' says '^\| GPT-2 micro step.*without the runtime'
ok 'an update on the host' says '^\| GPT-2 micro step, .* optimizer on the host, behind .* \| [0-9.]+ ms'
ok 'and one beside the passes' says '^\| GPT-2 micro step, .* optimizer on the host, beside .* \| [0-9.]+ ms'
ok 'PyTorch' says 'not measured beside PyTorch, eager: the GPU is emulated'

export KIT_MIB=1
ok 'a kit that is too large is refused' run 1 "$top/scripts/gpu-kit" "$tmp/large"
ok 'with the remedy' grep -q 'MiB, more than 1: configure the build with --without-blas' "$tmp/err"
unset KIT_MIB
# Without them the limit is as it is.
[ -z "$(find "$tmp/large/lib" -name 'libopenblas*' -o -name 'libdnnl*')" ] || export KIT_MIB=1024
rm -rf "$tmp/large"
ok 'a kit of it' run 0 "$top/scripts/gpu-kit" "$tmp/kit"
ok 'with its size' says 'gpu-kit: .*, [0-9]+ MiB; run.sh in it does the rest'
unset ZERO_TEST_BUILD ZERO_TEST_TOP ZERO_PLUGIN_PATH
ok 'does the same elsewhere' run 0 "$tmp/kit/run.sh" small
ok 'on one GPU' says '^- two ranks on two GPUs: not measured: one GPU here$'
ok 'without NCCL' says '^- zero check comm nccl: not measured: the GPU is emulated$'
ok 'with the same parts' test "$(grep -c ' passed' "$tmp/out")" -gt 10
rm "$tmp/kit/losses/micro"
mv "$tmp/kit/bin/comm_gpu" "$tmp/comm_gpu"
printf '#!/bin/sh\necho "1..0 # SKIP nothing to try"\n' >"$tmp/kit/bin/comm_gpu"
chmod +x "$tmp/kit/bin/comm_gpu"
ok 'without anything to compare with' run 1 "$tmp/kit/run.sh" small
ok 'no training passes' test "$(grep -c '^- GPT-2.* passed (losses within' "$tmp/out")" = 0
ok 'nor cases of which none was tried' says '^- collectives by shm, .*: \*\*failed\*\* \(0 cases\)'
mv "$tmp/comm_gpu" "$tmp/kit/bin/comm_gpu"
export GPU_SECONDS=7
ok 'where there is no time' run 0 "$tmp/kit/run.sh" small
ok 'that is what it says' says '^- two ranks on one GPU, .*: not measured: there was no time left for it'
rm "$tmp/kit/plugins/zero-device-cuda.so"
ok 'without the plugin it is skipped, too' run 77 "$tmp/kit/run.sh" small
ok 'with that reason' says '^skipped: there is no device plugin cuda in '
done_testing
