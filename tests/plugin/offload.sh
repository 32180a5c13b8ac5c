#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The offload plugins, and their ways to do without what a system may forbid, against their interface
# (zero check offload), with some seeds.
build=${ZERO_TEST_BUILD:-.}
folder=$(mktemp -d "$build/offload-check-XXXXXX") || exit 1
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/a" "$folder/b" "$folder/c"
n=0
failed=0

# bad WHAT: what the last check has printed says why.
bad() {
    echo "not ok $n - $1"
    sed 's/^/# /' "$folder/tap"
    failed=1
}

check() {
    what=$1
    shift
    if ! "$build/zero" check offload --help > "$folder/help" 2>&1; then
        echo "Bail out! $(cat "$folder/help")"
        exit 1
    fi
    for seed in ${ZERO_TEST_WHOLE:+1 2} 3; do
        env "$@" "$build/zero" check offload --huge --seed $seed "${what%% *}" > "$folder/tap" 2>&1
        status=$?
        n=$((n + 1))
        if [ $status = 0 ] && ! grep -q '^not ok' "$folder/tap" && grep -q '^ok 20 ' "$folder/tap"; then
            echo "ok $n - $what, seed $seed"
        else
            bad "$what, seed $seed: status $status"
        fi
    done
}

# fails WHAT PLUGIN VARIABLE=VALUE...: requests fail by ZERO_FAULT_IO above the one that is tried, or
# by the system.
fails() {
    title=$1
    plugin=$2
    shift 2
    n=$((n + 1))
    env "$@" ZERO_LOG=error "$build/zero" check offload --case 'a request that fails' "$plugin" \
        > "$folder/tap" 2>&1
    if [ $? = 0 ] && grep -q '^ok 1 ' "$folder/tap" && ! grep -q SKIP "$folder/tap"; then
        echo "ok $n - $title"
    else
        bad "$title"
    fi
}

# caught TITLE WORDS: the last check, with $status, has found what is wrong and says so.
caught() {
    if [ $status = 1 ] && grep -q '^not ok 1 ' "$folder/tap" && grep -q "$2" "$folder/tap"; then
        echo "ok $n - $1"
    else
        bad "$1: status $status"
    fi
}

# lost WHERE WORDS PLUGIN VARIABLE=VALUE...: a write that is acknowledged and not done is found. Below a
# store several are under way at once, and one of them may be overwritten before it is read: then
# another one is lost (of threads a third is not seen).
lost() {
    title="a write that is lost $1 is found"
    words=$2
    plugin=$3
    shift 3
    n=$((n + 1))
    for lost in 20 33 47 24 38 51 29; do
        env ZERO_SHAKY_DROP=$lost "$@" ZERO_LOG=error "$build/zero" check offload \
            --case 'random extents' "$plugin" > "$folder/tap" 2>&1
        status=$?
        [ $status = 0 ] || break
    done
    caught "$title" "$words"
}

# finds TITLE CASE WORDS PLUGIN VARIABLE=VALUE...: a store that is wrong is found by that case, shaky or
# what stands on it.
finds() {
    title=$1
    case=$2
    words=$3
    plugin=$4
    shift 4
    n=$((n + 1))
    env ZERO_NVME_PATH="$full/a" ZERO_PLUGIN_PATH="$build/tests/plugin/.libs" "$@" ZERO_LOG=error \
        ZERO_TRACE_OFFLOAD=shaky ZERO_FAULT_OFFLOAD=shaky \
        "$build/zero" check offload --case "$case" "$plugin" > "$folder/tap" 2>&1
    status=$?
    caught "$title" "$words"
}

# order TITLE SORT PLUGIN VARIABLE=VALUE...: three writes that one call brings end, as trace sees them
# above or below fault, in the order that `sort -n SORT` gives their places.
order() {
    title=$1
    how=$2
    plugin=$3
    shift 3
    n=$((n + 1))
    env "$@" ZERO_LOG=none,trace:trace "$build/zero" check offload --case 'moved counts' "$plugin" \
        > "$folder/tap" 2>&1
    places=$(sed -n 's/.*write of [0-9]* bytes at \([0-9]*\) = [1-9].*/\1/p' "$folder/tap" | tr '\n' ' ')
    sorted=$(echo "$places" | tr -s ' ' '\n' | sed '/^$/d' | sort -n "$how" | tr '\n' ' ')
    if [ "$(echo "$places" | wc -w)" = 3 ] && [ "$places" = "$sorted" ]; then
        echo "ok $n - $title"
    else
        bad "$title: $places"
    fi
}

full=$(cd "$folder" && pwd)
check 'cpu' ZERO_CPU_LOCK=auto
check 'cpu (not locked)' ZERO_CPU_LOCK=0
finds 'mapped memory that begins beside a page is found' 'mapped bytes' \
    'map gives 0x[0-9a-f]*40: a multiple of 4096 is due' askew
finds 'a poll that no completion wakes is found' 'waiting ends' \
    'one request is under way: poll gives [01] after [0-9]* ms' wrong_store ZERO_WRONG_STORE=dull
finds 'a thread that each store leaves is found' 'nothing stays' \
    '[0-9]* threads run after 17 stores, [0-9]* after one' wrong_store ZERO_WRONG_STORE=threads
finds 'so many descriptors left that none can be counted are found' 'nothing stays' \
    'how many descriptors are open after 17 stores cannot be counted' wrong_store ZERO_WRONG_STORE=full
finds 'a store that ends nothing any more is found' 'more requests than' \
    '100 of 2000 requests have ended, none within the last 10 s' wrong_store ZERO_WRONG_STORE=stuck
n=$((n + 1))
if env ZERO_WRONG_STORE=slow ZERO_PLUGIN_PATH="$build/tests/plugin/.libs" \
    "$build/zero" check offload --case 'more requests than' wrong_store > "$folder/tap" 2>&1; then
    echo "ok $n - a store may be slow"
else
    bad 'a store that is slow'
fi
for case in 'that are wrong' 'waiting ends'; do
    n=$((n + 1))
    if env ZERO_WRONG_STORE=early ZERO_PLUGIN_PATH="$build/tests/plugin/.libs" \
        "$build/zero" check offload --case "$case" wrong_store > "$folder/tap" 2>&1; then
        echo "ok $n - a poll may come back for nothing ($case)"
    else
        bad "a poll that comes back for nothing ($case)"
    fi
done
if "$build/zero" check offload --list > /dev/null && [ -e "$build/.libs/zero-offload-nvme.so" ]; then
    check 'nvme' ZERO_NVME_PATH="$full/a"
    check 'nvme (three folders)' ZERO_NVME_PATH="$full/a:$full/b:$full/c" ZERO_LOG=error
    check 'nvme (one transfer at a time)' ZERO_NVME_PATH="$full/a" ZERO_NVME_DEPTH=1
    check 'fault (over nvme)' ZERO_NVME_PATH="$full/a"
    check 'fault (late)' ZERO_NVME_PATH="$full/a" ZERO_FAULT_IO=delay=1:n=5:times=300
    check 'fault (transfers in pieces)' ZERO_NVME_PATH="$full/a" ZERO_FAULT_IO=cut=4096:times=0
    check 'fault (every other call takes nothing)' ZERO_NVME_PATH="$full/a" \
        ZERO_FAULT_IO=busy:every=2:times=0
    check 'fault (busy, late, in pieces)' ZERO_NVME_PATH="$full/a" ZERO_NVME_DEPTH=1 \
        ZERO_FAULT_IO=busy:every=3:times=0,cut=8192:every=2:times=0,delay=1:every=5:times=0
    order 'fault keeps the order of requests' -s fault ZERO_FAULT_OFFLOAD=trace ZERO_TRACE_OFFLOAD=cpu
    order 'requests that are reordered reach the store below from the last one on' -r fault \
        ZERO_FAULT_OFFLOAD=trace ZERO_TRACE_OFFLOAD=cpu ZERO_FAULT_IO=reorder:times=0
    order 'and end in that order, too' -r trace \
        ZERO_TRACE_OFFLOAD=fault ZERO_FAULT_OFFLOAD=cpu ZERO_FAULT_IO=reorder:times=0
    check 'fault (in another order)' ZERO_NVME_PATH="$full/a" ZERO_FAULT_IO=reorder:times=0
    check 'fault (over cpu, in another order)' ZERO_FAULT_OFFLOAD=cpu ZERO_FAULT_IO=reorder:times=0
    check 'fault (some in another order, late, in pieces)' ZERO_NVME_PATH="$full/a" ZERO_NVME_DEPTH=1 \
        ZERO_FAULT_IO=reorder:every=2:times=0,cut=8192:every=3:times=0,delay=1:every=5:times=0
    # What is wrong in a call that is reordered ends with the error, as others do.
    for what in error=EIO:op=write:n=3:times=4 error=EIO:op=write:every=3:times=9,reorder:times=0 \
        error=ENOSPC:op=write:n=2:every=2:times=7,cut=4096:times=0 \
        busy:every=2:times=0,error=EIO:op=read:every=3:times=0,error=EIO:op=write:n=5; do
        fails "fault over nvme ($what)" fault ZERO_NVME_PATH="$full/a" ZERO_FAULT_IO="$what"
        fails "fault over cpu ($what)" fault ZERO_FAULT_OFFLOAD=cpu ZERO_FAULT_IO="$what"
    done
    # A write that is lost above the store's checksums: what is read is not what was written.
    for below in nvme cpu; do
        for what in drop drop:n=20 drop:every=5:times=0 drop:n=9,reorder:times=0; do
            lost "above $below ($what)" \
                'differs: a write of it has ended well, and what was there before it still is' \
                fault ZERO_FAULT_OFFLOAD=$below ZERO_NVME_PATH="$full/a" ZERO_FAULT_IO="$what"
        done
    done
    for engine in io_uring threads; do # and below them: they find it
        lost "below the checksums, by $engine" \
            'bytes at [0-9]* are not what was written there (checksum)' \
            shaky ZERO_NVME_PATH="$full/a" ZERO_NVME_ENGINE=$engine \
            ZERO_PLUGIN_PATH="$build/tests/plugin/.libs"
        lost "below, without checksums, by $engine" \
            'differs: a write of it has ended well, and what was there before it still is' \
            shaky ZERO_NVME_PATH="$full/a" ZERO_NVME_ENGINE=$engine \
            ZERO_NVME_CHECKSUM=0 ZERO_PLUGIN_PATH="$build/tests/plugin/.libs"
    done
    for engine in io_uring threads; do # errors of the system, several at a time
        fails "shaky by $engine" shaky ZERO_NVME_PATH="$full/a" ZERO_NVME_ENGINE=$engine \
            ZERO_SHAKY_ENDS=-5 ZERO_PLUGIN_PATH="$build/tests/plugin/.libs"
    done
    finds 'a request that ends before its end, without an error, is found' 'random extents' \
        'bytes ends well after' shaky ZERO_SHAKY_LESS=20
    finds 'a request that ends twice is found' 'random extents' 'ends twice, or is of nobody' \
        shaky ZERO_SHAKY_TWICE=20
    for wrapper in trace fault; do # what is below them they do not believe either
        for wrong in TWICE FOREIGN; do
            finds "a request that is not under way and ends is found by $wrapper ($wrong)" 'random extents' \
                "$wrapper: shaky ended a request that is not under way, tag [0-9]*: try it with zero check offload" \
                $wrapper ZERO_SHAKY_$wrong=20
        done
    done
    finds 'a write that is lost because something is read is found' 'reads beside writes' \
        'turn [0-9]*: the [0-9]* bytes at [0-9]* differ' shaky ZERO_SHAKY_BESIDE=1 \
        ZERO_NVME_ENGINE=threads ZERO_NVME_CHECKSUM=0
    finds 'a store that takes less in a request than it says is found' 'one request' \
        'write of 307200 bytes, max_io 307200: submit gives -[A-Z0-9]*: shaky: a request of 307200 bytes: 131072 are the most' \
        shaky ZERO_SHAKY_MOST=307200 ZERO_SHAKY_TAKES=131072
    for wants in 8192 3000; do # more than a page, which the engine refuses, too; no power of two
        finds "a store that wants multiples of $wants bytes is found" 'declared makes sense' \
            "probe: offset_align is $wants: a power of two that is at most 4096 is due" \
            shaky ZERO_SHAKY_WANTS=$wants
    done
    finds 'a disk that takes less than a page in a request is found' 'declared makes sense' \
        'probe: max_io is 2048: of a disk 4096 at least are due' shaky ZERO_SHAKY_MOST=2048
    check 'nvme (threads)' ZERO_NVME_PATH="$full/a" ZERO_NVME_ENGINE=threads
    check 'nvme (through the page cache)' ZERO_NVME_PATH="$full/a" ZERO_NVME_DIRECT=0
    for engine in io_uring threads; do
        check "shaky (by $engine)" ZERO_NVME_PATH="$full/a:$full/b" ZERO_NVME_ENGINE=$engine \
            ZERO_LOG=error ZERO_PLUGIN_PATH="$build/tests/plugin/.libs"
        check "shaky (by $engine, refused past the page cache)" ZERO_NVME_PATH="$full/a" \
            ZERO_NVME_ENGINE=$engine ZERO_SHAKY_DIRECT=1 ZERO_LOG=error \
            ZERO_PLUGIN_PATH="$build/tests/plugin/.libs"
    done
    check 'shaky (300 KiB at most in a request)' ZERO_NVME_PATH="$full/a:$full/b" ZERO_LOG=error \
        ZERO_SHAKY_MOST=307200 ZERO_PLUGIN_PATH="$build/tests/plugin/.libs"
    check 'nvme (no checksums)' ZERO_NVME_PATH="$full/a:$full/b" ZERO_NVME_CHECKSUM=0 ZERO_LOG=error
fi
# Sizes that are no multiple of a block, or that have room for few: nothing is written past the memory, and
# what has no room is skipped.
for bytes in 100000 64K; do
    for plugin in cpu nvme; do
        n=$((n + 1))
        if ! [ -e "$build/.libs/zero-offload-$plugin.so" ]; then
            echo "ok $n - $plugin in stores of $bytes # SKIP no $plugin plugin was built"
            continue
        fi
        ZERO_NVME_PATH="$full/a" "$build/zero" check offload --bytes $bytes $plugin > "$folder/tap" 2>&1
        status=$?
        if [ $status = 0 ] && ! grep -q '^not ok' "$folder/tap" && grep -q '^ok 20 ' "$folder/tap"; then
            echo "ok $n - $plugin in stores of $bytes"
        else
            bad "$plugin in stores of $bytes: status $status"
        fi
    done
done
# What is read back through the store may come from the system's memory: the case cannot see whether a
# sync has reached the disk, and says so; what nvme asks of the system is looked at here.
n=$((n + 1))
if "$build/zero" check offload --list | grep -q '^sync .*whether it reaches the disk is not shown'; then
    echo "ok $n - the case of a sync says what it does not show"
else
    echo "not ok $n - the case of a sync promises more than it shows"
    failed=1
fi
for engine in io_uring threads; do
    n=$((n + 1))
    if ! [ -e "$build/tests/plugin/.libs/zero-offload-shaky.so" ]; then
        echo "ok $n - a sync by $engine # SKIP no nvme plugin was built"
        continue
    fi
    env ZERO_NVME_PATH="$full/a:$full/b" ZERO_NVME_ENGINE=$engine ZERO_LOG=error ZERO_SHAKY_SAYS=1 \
        ZERO_PLUGIN_PATH="$build/tests/plugin/.libs" \
        "$build/zero" check offload --case sync shaky > "$folder/tap" 2>&1
    # After the last write, of each file.
    syncs=$(awk '/shaky: a write of/ { delete synced }
                 /shaky: a sync of/ { synced[$NF] }
                 END { print length(synced) }' "$folder/tap")
    if [ "$syncs" = 2 ]; then
        echo "ok $n - a sync by $engine reaches the files of both folders, after what was written"
    else
        bad "a sync by $engine: files synced after what was written: $syncs"
    fi
done
# Of a file server that is gone the system waits for an answer: who asks an open store what it is must not.
n=$((n + 1))
what="an open store says what it is without asking the system"
if ! [ -e "$build/tests/plugin/.libs/zero-offload-shaky.so" ]; then
    echo "ok $n - $what # SKIP no nvme plugin was built"
else
    env ZERO_NVME_PATH="$full/a" ZERO_NVME_ENGINE=threads ZERO_LOG=error ZERO_SHAKY_SAYS=1 \
        ZERO_PLUGIN_PATH="$build/tests/plugin/.libs" \
        "$build/zero" check offload --case 'moved counts' shaky > "$folder/tap" 2>&1
    # The case asks behind the last write; opening asks the system before.
    stats=$(awk '/shaky: a write of/ { n = 0 }
                 /shaky: a stat of/ { n++ }
                 END { print n + 0 }' "$folder/tap")
    if grep -q '^ok 1 ' "$folder/tap" && grep -q 'shaky: a stat of' "$folder/tap" && [ "$stats" = 0 ]; then
        echo "ok $n - $what"
    else
        bad "$what: $stats times"
    fi
fi
# Files and memory are registered with io_uring, and every transfer goes by that. An unprivileged user
# may register as much as he may lock.
n=$((n + 1))
what="transfers by io_uring are of registered files and memory"
if ! [ -e "$build/tests/plugin/.libs/zero-offload-shaky.so" ]; then
    echo "ok $n - $what # SKIP no nvme plugin was built"
elif [ "$(id -u)" != 0 ] && ! grep -q '^Max locked memory *unlimited' /proc/self/limits; then
    echo "ok $n - $what # SKIP this user may not lock all of his memory"
else
    env ZERO_NVME_PATH="$full/a:$full/b" ZERO_NVME_ENGINE=io_uring ZERO_LOG=error ZERO_SHAKY_SAYS=1 \
        ZERO_PLUGIN_PATH="$build/tests/plugin/.libs" \
        "$build/zero" check offload --case random shaky > "$folder/tap" 2>&1
    if [ "$(grep -c '^shaky: .* file, ' "$folder/tap")" = 1 ] &&
        grep -q '^shaky: a registered file, registered memory' "$folder/tap"; then
        echo "ok $n - $what"
    else
        bad "$what"
    fi
fi
# Transfers that have ended together make room for others that begin together: of 16 MiB in stripes of
# 1 MiB, 8 at a time, two calls of the system write and two read. Two more try the ring.
n=$((n + 1))
what="what io_uring ends together is followed by one call"
if ! [ -e "$build/tests/plugin/.libs/zero-offload-shaky.so" ]; then
    echo "ok $n - $what # SKIP no nvme plugin was built"
else
    env ZERO_NVME_PATH="$full/a:$full/b" ZERO_NVME_ENGINE=io_uring ZERO_NVME_DEPTH=4 ZERO_NVME_CHECKSUM=0 \
        ZERO_LOG=error ZERO_SHAKY_WAITS=1 ZERO_SHAKY_SAYS=1 ZERO_PLUGIN_PATH="$build/tests/plugin/.libs" \
        "$build/zero" check offload --bytes 16M --case 'one request of all' shaky > "$folder/tap" 2>&1
    calls=$(grep -c '^shaky: a call with [1-9]' "$folder/tap")
    if grep -q '^ok 1 ' "$folder/tap" && [ "$calls" -ge 4 ] && [ "$calls" -le 8 ]; then
        echo "ok $n - $what"
    else
        bad "$what: $calls calls"
    fi
fi
# There are places for 64 pieces of memory: what is more goes without, and is told of once.
n=$((n + 1))
what="memory of more pieces than there are places: the last ones are registered"
if ! [ -e "$build/tests/plugin/.libs/zero-offload-shaky.so" ]; then
    echo "ok $n - $what # SKIP no nvme plugin was built"
elif [ "$(id -u)" != 0 ] && ! grep -q '^Max locked memory *unlimited' /proc/self/limits; then
    echo "ok $n - $what # SKIP this user may not lock all of his memory"
else
    env ZERO_NVME_PATH="$full/a:$full/b" ZERO_NVME_ENGINE=io_uring ZERO_LOG=info ZERO_SHAKY_SAYS=1 \
        ZERO_SHAKY_PIECE=65536 ZERO_PLUGIN_PATH="$build/tests/plugin/.libs" \
        "$build/zero" check offload --case random shaky > "$folder/tap" 2>&1
    if [ "$(grep -c '^shaky: a registered file' "$folder/tap")" = 2 ] &&
        [ "$(grep -c ' bytes are not registered with io_uring: there are 64 places' "$folder/tap")" = 1 ] &&
        grep -q '^ok 1 ' "$folder/tap"; then
        echo "ok $n - $what"
    else
        bad "$what"
    fi
    check "shaky (by io_uring, memory in many pieces)" ZERO_NVME_PATH="$full/a:$full/b" ZERO_LOG=error \
        ZERO_NVME_ENGINE=io_uring ZERO_SHAKY_PIECE=65536 ZERO_PLUGIN_PATH="$build/tests/plugin/.libs"
fi
# Errors of the system itself name the operation, the place and what it said.
for engine in io_uring threads; do
    for ends in "-5 Input/output error" "-28 No space left on device" \
        "-30 Read-only file system" \
        "0 the system does nothing of it and names no error, again and again"; do
        n=$((n + 1))
        if ! [ -e "$build/tests/plugin/.libs/zero-offload-shaky.so" ]; then
            echo "ok $n - a transfer by $engine that ends with ${ends%% *} # SKIP no nvme plugin was built"
            continue
        fi
        env ZERO_NVME_PATH="$full/a" ZERO_NVME_ENGINE=$engine ZERO_LOG=error ZERO_SHAKY_ENDS="${ends%% *}" \
            ZERO_SHAKY_FROM=20 ZERO_PLUGIN_PATH="$build/tests/plugin/.libs" timeout 60 \
            "$build/zero" check offload --case random shaky > "$folder/tap" 2>&1
        status=$?
        if [ $status = 1 ] && grep -Eq \
            "(read|write) of [0-9]+ bytes at [0-9]+ of the file in $full/a: (${ends#* })" "$folder/tap"; then
            echo "ok $n - a transfer by $engine that ends with ${ends%% *} is an error that says where"
        else
            bad "a transfer by $engine that ends with ${ends%% *}: status $status"
        fi
    done
done
# Wrappers that go round in a circle, which their probes find: an entry asks for nothing.
n=$((n + 1))
if ZERO_TRACE_OFFLOAD=fault ZERO_FAULT_OFFLOAD=trace timeout 60 "$build/zero" check offload trace \
    > "$folder/tap" 2>&1 || ! grep -q 'stands on itself' "$folder/tap"; then
    echo "not ok $n - a circle of wrappers"
    tail -n 20 "$folder/tap" | sed 's/^/# /'
    failed=1
else
    echo "ok $n - a circle of wrappers"
fi
# A system that refuses at once is asked once a millisecond, and not as fast as a processor can.
for engine in io_uring threads; do
    n=$((n + 1))
    what="a transfer by $engine that is refused at once waits before it is started again"
    if ! [ -e "$build/tests/plugin/.libs/zero-offload-shaky.so" ]; then
        echo "ok $n - $what # SKIP no nvme plugin was built"
        continue
    fi
    env ZERO_NVME_PATH="$full/a" ZERO_NVME_ENGINE=$engine ZERO_NVME_DEPTH=1 ZERO_NVME_DIRECT=0 ZERO_LOG=error \
        ZERO_SHAKY_REFUSES=200 ZERO_SHAKY_SAYS=1 ZERO_PLUGIN_PATH="$build/tests/plugin/.libs" \
        "$build/zero" check offload --bytes 64K --case sync shaky > "$folder/tap" 2>&1
    refused=$(sed -n 's/^shaky: refused //p' "$folder/tap")
    if grep -q '^ok 1 ' "$folder/tap" && [ "${refused:-0}" -gt 0 ] && [ "$refused" -le 200 ]; then
        echo "ok $n - $what"
    else
        bad "$what: ${refused:-not refused} times in 0.2 s"
    fi
done
# Where a ring breaks, what it was never given does not keep the store from closing.
n=$((n + 1))
what="a ring that takes nothing any more: an error, and the store closes"
if ! [ -e "$build/tests/plugin/.libs/zero-offload-shaky.so" ]; then
    echo "ok $n - $what # SKIP no nvme plugin was built"
else
    env ZERO_NVME_PATH="$full/a" ZERO_NVME_ENGINE=io_uring ZERO_LOG=error ZERO_SHAKY_BREAKS=20 \
        ZERO_PLUGIN_PATH="$build/tests/plugin/.libs" timeout 60 \
        "$build/zero" check offload --case random shaky > "$folder/tap" 2>&1
    status=$?
    if [ $status = 1 ] && grep -q 'io_uring is broken: Input/output error; in ' "$folder/tap" && ! grep -q 'close: ' "$folder/tap"; then
        echo "ok $n - $what"
    else
        bad "$what: status $status"
    fi
fi
# What keeps a file from being made has a remedy of its own.
for error in '24 (ulimit -n)$' '23 (sysctl fs.file-max)$' '28 (df -i) .*, or name another folder$' \
    '122 (quota), .*, or name another folder$'; do
    n=$((n + 1))
    what="no file can be made, error ${error%% *}: the sentence says what to do"
    if ! [ -e "$build/tests/plugin/.libs/zero-offload-shaky.so" ]; then
        echo "ok $n - $what # SKIP no nvme plugin was built"
        continue
    fi
    env ZERO_NVME_PATH="$full/a" ZERO_LOG=error ZERO_SHAKY_MAKES="${error%% *}" \
        ZERO_PLUGIN_PATH="$build/tests/plugin/.libs" \
        "$build/zero" check offload --case sync shaky > "$folder/tap" 2>&1
    status=$?
    caught "$what" "no file can be made in $full/a (ZERO_NVME_PATH): .*${error#* }"
done
# What a file system does not say is tried.
n=$((n + 1))
what="a store where nobody knows what is free"
if ! [ -e "$build/tests/plugin/.libs/zero-offload-shaky.so" ]; then
    echo "ok $n - $what # SKIP no nvme plugin was built"
elif env ZERO_NVME_PATH="$full/a" ZERO_LOG=error ZERO_SHAKY_SILENT=1 \
    ZERO_PLUGIN_PATH="$build/tests/plugin/.libs" \
    "$build/zero" check offload --case sync shaky > "$folder/tap" 2>&1; then
    echo "ok $n - $what"
else
    bad "$what"
fi
# What is one file system has a number for each subvolume, dataset or overlay, and its room once: a
# store of 12 MiB in two of them, of which each has 8 MiB free.
for type in '9123683e btrfs' '2fc12fc1 ZFS' '794c7630 overlays'; do
    n=$((n + 1))
    what="volumes of one file system share its room (${type#* })"
    if ! [ -e "$build/tests/plugin/.libs/zero-offload-shaky.so" ]; then
        echo "ok $n - $what # SKIP no nvme plugin was built"
        continue
    fi
    for case in 'what the probe says' sync; do
        env ZERO_NVME_PATH="$full/a:$full/b" ZERO_LOG=warn ZERO_SHAKY_TYPE="${type%% *}" \
            ZERO_SHAKY_VOLUMES=8388608 ZERO_PLUGIN_PATH="$build/tests/plugin/.libs" \
            "$build/zero" check offload --bytes 12M --case "$case" shaky
    done > "$folder/tap" 2>&1
    if grep -q 'the probe says that 8388608 bytes could be had, and 12582912 can' "$folder/tap" &&
        grep -q 'open of 12582912 bytes: .*; 8388608 are free' "$folder/tap" &&
        [ "$(grep -c ' lie on one disk ' "$folder/tap")" = 2 ]; then
        echo "ok $n - $what"
    else
        bad "$what"
    fi
done
n=$((n + 1))
what="file systems with room of their own do not share it"
if ! [ -e "$build/tests/plugin/.libs/zero-offload-shaky.so" ]; then
    echo "ok $n - $what # SKIP no nvme plugin was built"
elif env ZERO_NVME_PATH="$full/a:$full/b" ZERO_LOG=warn ZERO_SHAKY_TYPE=ef53 ZERO_SHAKY_VOLUMES=8388608 \
    ZERO_PLUGIN_PATH="$build/tests/plugin/.libs" \
    "$build/zero" check offload --bytes 12M --case sync shaky > "$folder/tap" 2>&1 &&
    ! grep -q ' lie on one disk ' "$folder/tap"; then
    echo "ok $n - $what"
else
    bad "$what"
fi
# A call that does not return is told of, and ends with its case.
n=$((n + 1))
what="a call that does not return: the case has failed"
if ! [ -e "$build/tests/plugin/.libs/zero-offload-shaky.so" ]; then
    echo "ok $n - $what # SKIP no nvme plugin was built"
else
    env ZERO_NVME_PATH="$full/a" ZERO_NVME_ENGINE=io_uring ZERO_LOG=error ZERO_SHAKY_HANGS=20 \
        ZERO_PLUGIN_PATH="$build/tests/plugin/.libs" timeout 60 \
        "$build/zero" check offload --timeout 1 --case random shaky > "$folder/tap" 2>&1
    status=$?
    if [ $status = 1 ] && grep -q '^not ok 1 - random' "$folder/tap" &&
        grep -q 'for 1 s (--timeout)' "$folder/tap"; then
        echo "ok $n - $what"
    else
        bad "$what: status $status"
    fi
fi
# Nothing (0) is no error as long as it does not go on.
for engine in io_uring threads; do
    check "shaky (by $engine, which does nothing now and then)" ZERO_NVME_PATH="$full/a:$full/b" \
        ZERO_NVME_ENGINE=$engine ZERO_SHAKY_ENDS=0 ZERO_LOG=error \
        ZERO_PLUGIN_PATH="$build/tests/plugin/.libs"
done
# What a job left that was killed between making a file and taking its name away goes; nothing else.
n=$((n + 1))
what="an empty file that a killed job has left is removed, no other"
if ! [ -e "$build/tests/plugin/.libs/zero-offload-shaky.so" ]; then
    echo "ok $n - $what # SKIP no nvme plugin was built"
else
    mkdir "$folder/d"
    touch -d '2 minutes ago' "$folder/d/.zero-scratch-aaaaaa" "$folder/d/zero-config"
    touch "$folder/d/.zero-scratch-dddddd" # its maker, on another host maybe, is about to
    echo text > "$folder/d/.zero-scratch-bbbbbb"
    touch -d '2 minutes ago' "$folder/d/.zero-scratch-bbbbbb"
    ln -s zero-config "$folder/d/.zero-scratch-cccccc"
    env ZERO_NVME_PATH="$full/d" ZERO_LOG=error ZERO_PLUGIN_PATH="$build/tests/plugin/.libs" \
        "$build/zero" check offload --case sync shaky > "$folder/tap" 2>&1
    left=$(find "$folder/d" -mindepth 1 -printf '%f\n' | LC_ALL=C sort | tr '\n' ' ')
    if [ "$left" = ".zero-scratch-bbbbbb .zero-scratch-cccccc .zero-scratch-dddddd zero-config " ]; then
        echo "ok $n - $what"
    else
        bad "$what: $left"
    fi
fi
n=$((n + 1))
if [ -z "$(find "$folder/a" "$folder/b" "$folder/c" -type f)" ]; then
    echo "ok $n - nothing stays in the folders"
else
    echo "not ok $n - files stay: $(find "$folder/a" "$folder/b" "$folder/c" -type f)"
    failed=1
fi
echo "1..$n"
exit $failed
