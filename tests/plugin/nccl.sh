#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The plugin nccl where there is no GPU: it says why it cannot be used, and what to do.
# shellcheck disable=SC2317 # functions are called through ok
. "$ZERO_TEST_TOP/tests/tap.sh"
zero=$ZERO_TEST_BUILD/zero
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 99
unset ZERO_COMM ZERO_LOG ZERO_CONFIG ZERO_NCCL_LIBRARY ZERO_CUDA_LIBRARY
export ZERO_NUMERICS=relaxed

# in_words WORDS: one line of out has the words.
in_words() {
    grep -qF -e "$1" out || {
        tail -n 20 out
        false
    }
}
train() {
    timeout -k 5 60 env "$@" "$zero" run -n 2 -- "$ZERO_TEST_BUILD/zero-gpt2" --preset micro \
        --steps 1 --data "$ZERO_TEST_TOP/LICENSE" >out 2>&1 </dev/null
    status=$?
}

# Whatever this machine has, there is no such driver.
export ZERO_CUDA_LIBRARY=/nonexistent/libcuda.so.1
"$zero" info >out 2>&1
ok 'zero info lists it' in_words 'comm     nccl     version'
ok 'as not usable, for the driver' in_words 'nccl: /nonexistent/libcuda.so.1 cannot be loaded'
ok 'with the remedy' in_words 'install the driver, or choose another transport with ZERO_COMM'
train ZERO_COMM=nccl
ok 'training with it by name fails' [ "$status" != 0 ]
ok 'with the reason' in_words 'nccl: /nonexistent/libcuda.so.1 cannot be loaded'
ok 'and the remedy' in_words 'NCCL needs an NVIDIA GPU and its driver; install the driver'
train ZERO_NUMERICS=relaxed
ok 'without a name it is not asked' [ "$status" = 0 ]
"$zero" check comm nccl >out 2>&1
ok 'zero check comm says it, too' in_words 'install the driver'
done_testing
