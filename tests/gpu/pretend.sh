#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# For tests/plugin/check_gpu.sh: every program that run.sh starts, by the name of a link to this one.
# It says at once what the real one would say on a GPU, so that each row of the full size is reached
# without one. PRETEND names what goes wrong, in words that are below; PRETEND_GPUS is their number.
name=$(basename "$0")

wrong() {
    case " ${PRETEND-} " in
    *" $1 "*) true ;;
    *) false ;;
    esac
}
refuse() {
    echo "zero-gpt2: $1"
    exit 1
}
info() {
    if wrong broken; then
        echo 'zero: error while loading shared libraries'
        exit 127
    fi
    gpus=${PRETEND_GPUS:-1}
    [ "$gpus" = 1 ] && s='' || s=s
    printf 'zero 0.1.0\n\nmachine\n  processor  none\n\nplugins\n'
    printf '  device   cuda     version 0.1.0, interface 0.8\n'
    printf '           %s GPU%s, the first: Pretended GPU (9.0); driver for CUDA 13.0\n' "$gpus" "$s"
}
# The first losses are those of the processor, all others too.
gpt2() {
    preset='' steps=0 json='' ops='' what=$*
    while [ $# -gt 0 ]; do
        case $1 in
        --preset) preset=$2 ;;
        --steps) steps=$2 ;;
        --json) json=$2 ;;
        --ops) ops=$2 ;;
        esac
        shift
    done
    losses=$(dirname "$0")/../losses/$preset
    head -n "$steps" "$losses" | sed 's/.*/{"type":"step","step":1,"loss":&,"time_s":0.011,"compute_s":0.01}/' >"$json"
    [ -z "$ops" ] || for step in 1 2 3 4 5 6 7 8; do
        for queue in compute host; do
            echo "{\"step\":$step,\"body\":1,\"queue\":\"$queue\",\"start_ns\":1,\"end_ns\":10000001}"
        done
    done >"$ops"
    echo "Outside the device: ${ZERO_OFFLOAD:-nothing}; of each rank: device 1 MiB"
    echo 'The 2 steps after the forecast of 0.010 s took 0.011 s (median)'
    [ "$ZERO_DEVICE" = cuda ] && far=copies-apart || far=copies
    ! wrong $far || echo 'shm: collectives go through memory of the host, since a rank cannot share'
    case $what in
    *--recompute*) ! wrong bits || preset=else ;;
    esac
    echo "Weights $(echo "$preset ${WORLD_SIZE:-1}" | od -An -tx1 | tr -d ' \n' | cut -c 1-16)"
}
train() {
    if [ "$ZERO_TIMEOUT" -ge 60 ]; then
        refuse 'a check would be stopped before'
    elif [ "${ZERO_COMM-}" = nccl ] && [ "$ZERO_TIMEOUT" -gt 20 ]; then
        refuse 'a start and a wait by NCCL would be stopped before'
    fi
    [ "${ZERO_DEVICE-}" != cuda:63 ] || refuse 'device cuda:63: cuda: there is no GPU 63'
    [ ! -e "${LD_LIBRARY_PATH%%:*}/libcuda.so.1" ] || refuse 'cuda: no NVIDIA driver: '
    case $* in
    *'--batch 1024 '*) refuse 'the plan needs 1.8 TiB, but device cuda:0 has less' ;;
    esac
    if [ "${ZERO_COMM-}" = nccl ]; then
        case $ZERO_NCCL_LIBRARY in
        *libnccl*) ;;
        *) refuse 'it is older than NCCL 2.18, or another library' ;;
        esac
        [ "$ZERO_DEVICE" = cuda ] || [ -n "${NCCL_HOSTID-}" ] || refuse 'Duplicate GPU detected'
    fi
    gpt2 "$@"
}

case $name in
zero)
    case $1 in
    info) info ;;
    check) echo 'ok 1 - data is moved as it is' ;;
    run) # -n 2 --
        shift 4
        RANK=0 WORLD_SIZE=2 "$@"
        ;;
    esac
    ;;
zero-gpt2) train "$@" ;;
kernels)
    for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21; do
        echo "ok $n - a kernel"
    done
    ;;
comm_gpu) echo 'ok 1 - a collective' ;;
times)
    echo '| fused AdamW, bf16, 28 bytes an element | 9.0 GB/s | copies on the device: 9.0 GB/s | 1.000 | ≥ 0.90 |'
    ;;
overhead)
    echo "| GPT-2 $1 step, $2 x $3 tokens, 9 tokens/s | 9.00 ms | without the runtime: 9.00 ms | 1.000 | ≤ 1.05 |"
    if wrong leap; then
        echo 'losses apart 2.0e-02'
    else
        echo 'losses apart 1.0e-04'
    fi
    ;;
fault)
    echo 'rank 0 is told: cuda: CUDA_ERROR_ILLEGAL_ADDRESS'
    echo 'rank 1 is told: rank 0 failed: cuda: CUDA_ERROR_ILLEGAL_ADDRESS'
    ;;
compute-sanitizer)
    shift 3 # --tool TOOL --error-exitcode
    echo '========= ERROR SUMMARY: 0 errors'
    shift
    "$@"
    ;;
python3)
    case $* in
    *torch_step.py*) ;;
    *) exit 1 ;;
    esac
    if wrong torch; then
        echo 'a thing | that PyTorch says'
        exit 1
    fi
    ! wrong slow || exec sleep 100
    for how; do :; done
    printf 'version 9.9\n%s 9\n' "$how"
    ;;
ldconfig) printf '\tlibnccl.so.2 (libc6,x86-64) => /pretended/libnccl.so.2\n' ;;
nvidia-smi) echo 999.9 ;;
esac
