#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What `zero info` says of the device plugin cuda, and what a job says that asks for it by name: with
# a driver, and where something is wrong with it.
top=${ZERO_TEST_TOP:?}
build=${ZERO_TEST_BUILD:?}
# shellcheck source=../tap.sh
. "$top/tests/tap.sh"
[ -e "$build/.libs/zero-device-cuda.so" ] || skip_all 'built without nvcc'
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
driver=$build/tests/fake/.libs

# info SETTINGS: of the driver that executes on the host.
info() {
    FAKE_CUDA=$1 LD_LIBRARY_PATH="$driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
        "$build/zero" info --plugins >"$tmp/out" 2>"$tmp/err"
}
says() {
    grep -qE -- "$1" "$tmp/out" || {
        sed -n '/ cuda /,/looked for/p' "$tmp/out" | sed 's/^/# /'
        sed 's/^/# /' "$tmp/err"
        false
    }
}
lacks() { ! grep -qE -- "$1" "$tmp/out"; }

info ''
ok 'a GPU is found' says '^  device +cuda +version [0-9.]+, interface [0-9.]+$'
ok 'and named' says '2 GPUs, the first: Emulated GPU 0 \(9\.0\); driver for CUDA 13\.0'
ok 'with its memory' says 'memory +256 MiB, 256 MiB free'
info devices=0
ok 'no GPU: not usable' says '^  device +cuda +version.*: not usable here'
ok 'why and what to do' says 'CUDA_ERROR_NO_DEVICE.*CUDA_VISIBLE_DEVICES'
info version=11080
ok 'a driver that is too old, and what to do' \
    says 'driver is for CUDA 11\.8 and older, .*install a driver for CUDA [0-9]+ or later'
info init=34
ok 'a stub, and what to do' says 'CUDA_ERROR_STUB_LIBRARY.*LD_LIBRARY_PATH'

# A program that asks for it by name; beside the driver lies a cuBLAS that executes on the host.
printf '%08192d' 7 >"$tmp/text"
# gpt2 STATUS DEVICE FOLDER ARGUMENT...
gpt2() {
    wanted=$1 device=$2 folder=$3
    shift 3
    ZERO_DEVICE=$device LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
        ${ranks:+"$build/zero" run -n "$ranks" --} "$build/zero-gpt2" --preset micro --steps 2 \
        --data "$tmp/text" "$@" >"$tmp/out" 2>&1
    status=$?
    [ $status = "$wanted" ] || {
        echo "# ended with $status; what it said last:"
        tail -n 20 "$tmp/out" | sed 's/^/# /'
        false
    }
}
ranks=''
ok 'a GPU that is not there is an error' gpt2 1 cuda:5 "$driver"
ok 'it says how many there are' says 'there is no GPU 5: this process sees 2'
ok 'GPT-2 trains on a GPU' gpt2 0 cuda "$driver" --dtype bf16 --sample 3
ok 'and says what computes' says '118528 parameters in bf16, 1 rank, .*cuBLAS 13\.0 on the GPU'
ok 'with losses' says '^step 2/2  loss [0-9.]+'
ranks=2
ZERO_LOG=info ok 'on two' gpt2 0 cuda "$driver" --dtype bf16 --stage 3
ok 'with losses of both' says 'step 2/2  loss [0-9.]+'
ok 'and says why not by NCCL' says 'not comm nccl: ZERO_NUMERICS is ordered, .*ZERO_NUMERICS=relaxed'
ZERO_LOG=info ok 'on one that they share' gpt2 0 cuda:0 "$driver" --dtype bf16
ok 'where NCCL is no choice' lacks 'comm nccl'
ok 'without cuBLAS it is an error' gpt2 1 cuda "$driver" --cublas "$tmp/no"
ok 'once, and it says what to do' says "zero-gpt2: .*--cublas $tmp/no cannot be loaded.*install cuBLAS"
ok 'the table of memory is there for a GPU, too' gpt2 0 cuda "$driver" --memory-table
ranks=''
# What the plan needs, in whole MiB, is too little: a 32nd of it stays for what libraries take later.
ok 'a plan is printed' gpt2 0 cuda "$driver"
need=$(awk '$1 == "all" && $2 == "device" { n = $3 } END { print int(n) + 1 }' "$tmp/out")
ok 'of so many MiB' [ "$need" -gt 32 ]
FAKE_CUDA=memory_mib=$need ok 'a plan does not take the last byte of a device' gpt2 1 cuda "$driver"
ok 'and says what stays' says "device cuda:0 \(what is free, less what libraries take later\) has"
FAKE_CUDA=memory_mib=$((need + need / 16)) ok 'with more there is room' gpt2 0 cuda "$driver"

# No driver: whatever this machine has, the name leads to a file that is none.
echo 'this is no library' >"$tmp/libcuda.so.1"
LD_LIBRARY_PATH="$tmp" "$build/zero" info --plugins >"$tmp/out" 2>"$tmp/err"
ok 'no driver: not usable' says '^  device +cuda +version.*: not usable here'
ok 'why and what to do then' says 'no NVIDIA driver: .*libcuda\.so\.1: .*install the driver'
ok 'everything else is shown' says '^  device +host'
ok 'without a driver a program that asks for it ends' gpt2 1 cuda "$tmp"
ok 'with the reason and the remedy' says 'device cuda: cuda: no NVIDIA driver: .*install the driver'
done_testing
