#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The plugin nccl where there is no GPU: it says why it cannot be used, and what to do.
# shellcheck disable=SC2317 # functions are called through ok
. "$ZERO_TEST_TOP/tests/tap.sh"
zero=$ZERO_TEST_BUILD/zero
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 99
unset ZERO_COMM ZERO_LOG ZERO_CONFIG ZERO_NCCL_LIBRARY ZERO_CUDA_LIBRARY NCCL_COMM_BLOCKING
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
"$zero" info --plugins >out 2>&1
ok 'zero info lists it' in_words 'comm     nccl     version'
ok 'as not usable, for the driver' in_words 'nccl: /nonexistent/libcuda.so.1: cannot open'
ok 'with the remedy' in_words 'install the driver, or choose another transport with ZERO_COMM'
"$zero" info --options >out 2>&1
for option in LIBRARY REGISTER STAGING; do
    ok "ZERO_NCCL_$option is among the options" in_words " ZERO_NCCL_$option "
done
ZERO_NCCL_REGISTER=yes "$zero" info --options >out 2>&1
for option in NCCL_LIBRARY NCCL_STAGING CUDA_LIBRARY; do
    ok "so is ZERO_$option where another one is wrong" in_words " ZERO_$option "
done
train ZERO_COMM=nccl
ok 'training with it by name fails' [ "$status" != 0 ]
ok 'with the reason' in_words 'nccl: /nonexistent/libcuda.so.1: cannot open'
ok 'and the remedy' in_words 'NCCL needs an NVIDIA GPU and its driver; install the driver'
train ZERO_NUMERICS=relaxed
ok 'without a name there is another one' [ "$status" = 0 ]
train ZERO_COMM=shm ZERO_NCCL_LIBRARY=/nonexistent ZERO_NCLL_LIBRARY=/nonexistent ZERO_SHM_SPINN=1
not_in_words() { ! in_words "$1" >/dev/null; }
ok 'what is set for it is not unknown then' not_in_words 'ZERO_NCCL_LIBRARY'
ok 'but what is set for nobody' in_words 'ZERO_NCLL_LIBRARY=/nonexistent is not known'
ok 'and what the plugin at hand does not know' in_words 'ZERO_SHM_SPINN=1 is not known'
"$zero" check comm nccl >out 2>&1
ok 'zero check comm says it, too' in_words 'install the driver'

# The plugin that is installed, and a driver and a library that are not: it would work.
fakes=$ZERO_TEST_BUILD/tests/fake/nccl/.libs
export ZERO_CUDA_LIBRARY="$fakes/libnccl.so"
ZERO_NCCL_LIBRARY=/nonexistent/libnccl.so.2 "$zero" info --plugins >out 2>&1
ok 'no NCCL' in_words '/nonexistent/libnccl.so.2: cannot open'
ok 'what to do' in_words 'install NCCL 2.18 or later (libnccl2), say where it is with ZERO_NCCL_LIB'
export ZERO_NCCL_LIBRARY="$fakes/libnccl.so"
FAKE_NCCL_VERSION=21705 "$zero" info --plugins >out 2>&1
ok 'an NCCL that is too old' in_words 'is NCCL 2.17.5, and 2.18 is the oldest that is taken: install '
FAKE_CUDA_DEVICES=0 "$zero" info --plugins >out 2>&1
ok 'a driver without a GPU' in_words 'the driver finds no GPU (does CUDA_VISIBLE_DEVICES hide it?)'
"$zero" info --plugins >out 2>&1
ok 'all is there' in_words 'NCCL 2.28.9, 2 GPUs'
train ZERO_COMM=nccl
ok 'a device of another kind' in_words 'nccl does not offer memory of the host (ZERO_DEVICE is one; cuda gives each rank a GPU)'

"$zero" bench coll --comm nccl -n 2 >out 2>&1
ok 'what it cannot measure is said' in_words 'comm plugin nccl moves no memory of the host, which'

# The same on ordinary memory.
export ZERO_PLUGIN_PATH="$fakes"
train ZERO_COMM=nccl
ok 'it trains' [ "$status" = 0 ]
ok 'and is not warned of' not_in_words 'the others may hang'
train ZERO_COMM=nccl FAKE_NCCL_VERSION=22602
ok 'so does an older one' [ "$status" = 0 ]
once() { [ "$(grep -cF -e "$1" out)" = 1 ]; }
ok 'of which one rank warns' once 'nccl: NCCL 2.26.2 trains, but when a rank ends early, the others may hang'
train ZERO_COMM=nccl FAKE_NCCL_VERSION=22703
ok '2.27.3 is not' not_in_words 'the others may hang'
train ZERO_LOG=info
ok 'it is taken without a name where sums need no order' in_words 'comm nccl: every rank has a GPU, and sums'
ok 'and trains' [ "$status" = 0 ]
train ZERO_LOG=info ZERO_NUMERICS=ordered
ok 'not where they do' in_words 'comm shm: all ranks are on this host'
ok 'of which nothing is said without GPUs' not_in_words 'comm nccl'
train ZERO_LOG=info FAKE_NCCL_VERSION=21705
ok 'nor where it does not work' in_words 'not comm nccl: '
ok 'which harms nobody' [ "$status" = 0 ]
ZERO_DEVICE=host:0 timeout -k 5 100 "$zero" check comm -n 1 nccl >out 2>&1
ok 'it is checked with the device of that number' [ "$?" = 0 ]
FAKE_NCCL_VERSION=22907 timeout -k 5 100 "$zero" check comm -n 1 nccl >out 2>&1
ok 'also one whose sums of one rank are whole' [ "$?" = 0 ]
train ZERO_COMM=nccl FAKE_NCCL_DUPLICATE=1 ZERO_TIMEOUT=10
ok 'two ranks on one GPU are told' in_words 'Duplicate GPU detected'
ok 'what to do' in_words 'start fewer ranks, or take ZERO_COMM=shm (for tests alone: another NCCL_HOSTID'
# shellcheck disable=SC2016 # each rank's own
ZERO_COMM=nccl FAKE_NCCL_DUPLICATE=1 timeout -k 5 60 "$zero" run -n 2 -- sh -c '
    NCCL_HOSTID=rank$RANK exec "$@"' sh "$ZERO_TEST_BUILD/zero-gpt2" --preset micro --steps 1 \
    --data "$ZERO_TEST_TOP/LICENSE" >out 2>&1 </dev/null
ok 'that is so' [ "$?" = 0 ]
# shellcheck disable=SC2016
ZERO_COMM=nccl timeout -k 5 60 "$zero" run -n 2 -- sh -c '
    ZERO_NCCL_STAGING=$((65536 << RANK)) exec "$@"' sh "$ZERO_TEST_BUILD/zero-gpt2" --preset micro \
    --steps 1 --data "$ZERO_TEST_TOP/LICENSE" >out 2>&1 </dev/null
ok 'ranks with other pieces' in_words 'ZERO_NCCL_STAGING is 131072 on rank 1 and 65536 on rank 0: give all'
train ZERO_COMM=nccl NCCL_COMM_BLOCKING=1
ok 'calls that wait' in_words 'NCCL_COMM_BLOCKING is 1 in the environment, with which calls of NCCL wait'
train ZERO_COMM=nccl NCCL_COMM_BLOCKING=0
ok 'calls that do not' [ "$status" = 0 ]
train ZERO_COMM=nccl ZERO_NCCL_STAGING=many
ok 'no number' in_words 'ZERO_NCCL_STAGING is "many"'
train ZERO_COMM=nccl ZERO_NCCL_REGISTER=yes
ok 'no choice' in_words 'ZERO_NCCL_REGISTER is "yes": give 0 or 1'

# NCCL itself, where it is: without a GPU it refuses, and says so through the plugin.
export ZERO_NCCL_LIBRARY=libnccl.so.2
"$zero" info --plugins >out 2>&1
if [ -e /dev/nvidiactl ] || [ -n "$SANITIZE_CFLAGS" ] || ! grep -q ' NCCL [0-9.]*, 2 GPUs' out; then
    skip 'NCCL without a GPU' 'NCCL is not installed, or there is a GPU'
else
    train ZERO_COMM=nccl ZERO_TIMEOUT=20
    ok 'NCCL without a GPU fails' [ "$status" != 0 ]
    ok 'by name' in_words 'split: ncclCommInitRankConfig: unhandled cuda error'
fi
done_testing
