#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fuzzes every parser of bytes from outside with libFuzzer and the address and undefined-behaviour
# sanitizers; what was found interesting is kept in tests/fuzz/corpus of the build folder. A target's
# seeds are tried first as they are: they must reach what they say.
#
#     tests/fuzz/run.sh                     all targets, a million inputs each
#     tests/fuzz/run.sh TARGET [OPTION]...  one target, options of libFuzzer
set -eu
top=${ZERO_TEST_TOP:?}
build=${ZERO_TEST_BUILD:?}
out=$build/tests/fuzz
command -v clang >/dev/null || { echo 'check-fuzz: clang is needed: scripts/setup tests' >&2; exit 1; }
[ -e "$build/config.h" ] || { echo "check-fuzz: $build is not configured" >&2; exit 1; }
targets='options config_file environment link words notices crash_report rank_zero rank_other secret
    pmix_notice fault blobs'
if [ $# -gt 0 ]; then
    targets=$1
    shift
else
    set -- -runs=1000000
fi

# shellcheck disable=SC2046 # flags
flags() {
    echo -std=gnu11 -g -O1 -fno-omit-frame-pointer -fsanitize=address,undefined \
        -fno-sanitize-recover=undefined -DHAVE_CONFIG_H -I"$build" -I"$top" -I"$top/include" \
        -I"$top/core" -DZERO_PLUGIN_DIR='"/nowhere"' \
        $(pkg-config --cflags libxxhash hwloc jansson libsodium) \
        $(pkg-config --cflags pmix 2>/dev/null)
}

mkdir -p "$out/objects"
# Objects know of their own file only.
find "$top/machine" "$top/launch" "$top/core" "$top/plugins" "$top/include" "$top/tools" \
    -name '*.h' -newer "$out/library.a" 2>&1 |
    grep -q . && rm -f "$out"/objects/*.o
echo 'check-fuzz: compiling the library for the fuzzer'
# shellcheck disable=SC2046,SC3013 # flags; -nt is everywhere
for file in "$top"/machine/*.c "$top"/launch/*.c "$top"/core/*/*.c "$top"/plugins/common/*.c \
    "$top"/plugins/common/p2p/*.c "$top"/tests/fault/parse.c "$top"/tests/fault/store_parse.c \
    "$top"/tests/fault/words.c "$top"/tools/report/crash/read.c; do
    name=$(echo "${file#"$top"/}" | tr / _)
    object=$out/objects/${name%.c}.o
    [ "$object" -nt "$file" ] ||
        clang $(flags) -fsanitize=fuzzer-no-link -c -o "$object" "$file"
done
rm -f "$out/library.a"
ar rcs "$out/library.a" "$out"/objects/*.o
failed=0
for target in $targets; do
    # shellcheck disable=SC2046 # flags
    clang $(flags) -fsanitize=fuzzer -o "$out/fuzz_$target" "$top/tests/fuzz/$target.c" \
        "$out/library.a" $(pkg-config --libs libxxhash hwloc jansson libsodium) -lpthread -ldl -lm
    # shellcheck disable=SC2046 # flags
    clang $(flags) -o "$out/seeds_$target" "$top/tests/fuzz/$target.c" "$top/tests/fuzz/seeds.c" \
        "$out/library.a" $(pkg-config --libs libxxhash hwloc jansson libsodium) -lpthread -ldl -lm
    mkdir -p "$out/corpus/$target"
    ZERO_LOG=none "$out/seeds_$target" "$out/corpus/$target" >"$out/$target.log" 2>&1 ||
        { failed=1; echo "check-fuzz: $target: a seed as it is:"; tail -40 "$out/$target.log"; continue; }
    echo "check-fuzz: $target $*"
    ZERO_LOG=none "$out/fuzz_$target" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="$out/$target-" "$@" "$out/corpus/$target" >"$out/$target.log" 2>&1 ||
        { failed=1; echo "check-fuzz: $target failed:"; tail -40 "$out/$target.log"; }
    # Seeds from which nothing new was found are seeds that do not reach what they are for.
    find "$out/corpus/$target" -type f ! -name 'seed-*' | grep -q . ||
        { failed=1; echo "check-fuzz: $target found nothing beyond its seeds: does it reach the parser?"; }
    grep -E 'stat::(number_of_executed_units|average_exec_per_sec|peak_rss_mb)' "$out/$target.log" || :
done
exit $failed
