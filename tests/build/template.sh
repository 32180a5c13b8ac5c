#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The plugins of examples/plugin-template, built as their author would, outside of the source tree
# and with an installed library only, and tried with the installed tools. `make installcheck` says
# where that is (ZERO_TEST_PREFIX, below ZERO_TEST_DESTDIR); `make check` makes a tree that looks so.
# shellcheck disable=SC2317 # functions are called through ok
. "$ZERO_TEST_TOP/tests/tap.sh"

tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
for v in $(env | sed -n 's/^\(ZERO_[A-Z_]*\)=.*/\1/p' | grep -v ZERO_TEST); do unset "$v"; done
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES DESTDIR

if [ -n "${ZERO_TEST_PREFIX-}" ]; then
    zero=${ZERO_TEST_DESTDIR-}${ZERO_TEST_BINDIR:-$ZERO_TEST_PREFIX/bin}/zero
    PKG_CONFIG_PATH=${ZERO_TEST_DESTDIR-}${ZERO_TEST_LIBDIR:-$ZERO_TEST_PREFIX/lib}/pkgconfig
    if [ -n "${ZERO_TEST_DESTDIR-}" ]; then
        PKG_CONFIG_SYSROOT_DIR=$ZERO_TEST_DESTDIR
        export PKG_CONFIG_SYSROOT_DIR
    fi
    LD_LIBRARY_PATH=${PKG_CONFIG_PATH%/pkgconfig}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
else
    zero=$ZERO_TEST_BUILD/zero
    PKG_CONFIG_PATH=$tmp/installed/lib/pkgconfig
    mkdir -p "$PKG_CONFIG_PATH" "$tmp/installed/include"
    cp -r "$ZERO_TEST_TOP/include/zero" "$tmp/installed/include"
    sed "s|^prefix=.*|prefix=$tmp/installed|" "$ZERO_TEST_BUILD/zero-plugin.pc" \
        >"$PKG_CONFIG_PATH/zero-plugin.pc"
fi
export PKG_CONFIG_PATH
here=$tmp/template
cp -r "$ZERO_TEST_TOP/examples/plugin-template" "$here" && chmod -R u+w "$here"
rm -f "$here"/*.so "$here"/*.inc
cd "$here" || exit 99

build() { make CC="${CC:-cc}" CFLAGS="-O2 -g -Wall -Wextra -Werror" ZERO="$zero" "$@"; }
exported() {
    [ "$(nm -D --defined-only "$1" | awk '$2 ~ /[A-Z]/ { print $3 }')" = zero_plugin_v1 ]
}
unlinked() { ! readelf -d "$1" | grep -q 'NEEDED.*libzero'; }

ok 'the headers are found' pkg-config --exists zero-plugin
ok 'the folder of plugins is known' sh -c 'pkg-config --variable=plugindir zero-plugin | grep ^/'
ok 'both plugins compile without a warning' build all
for so in zero-comm-template.so zero-offload-template.so; do
    ok "$so exports its entry only" exported ./$so
    ok "$so does not link the library" unlinked ./$so
done
for ranks in 1 2 4; do
    ok "zero check comm accepts the comm plugin, $ranks ranks" build check-comm RANKS=$ranks
done
ok 'zero check offload accepts the offload plugin' build check-offload
# smaller NAME SED: what declares less, in the macros of comm.h and nowhere else, refuses the rest.
smaller() {
    cp -r "$here" "$tmp/$1" && sed -i "$2" "$tmp/$1/comm.h" && ! cmp -s comm.h "$tmp/$1/comm.h" &&
        build -C "$tmp/$1" clean check-comm RANKS=2
}
ok 'a plugin of a barrier alone is accepted, as the guide begins with one' smaller barrier '
    /^#define KINDS/,/ZERO_BARRIER)$/c\#define KINDS (1u << ZERO_BARRIER)
    s/^#define FLAGS .*/#define FLAGS 0/'
ok 'so is one of sums of two types, without ACCUMULATE' smaller sums '
    s/^#define FLAGS .*/#define FLAGS 0/
    s/^#define REDOPS .*/#define REDOPS (1u << ZERO_SUM)/
    s/^#define DTYPES .*/#define DTYPES (1u << ZERO_F32 | 1u << ZERO_BF16)/'
listing() {
    ZERO_PLUGIN_PATH=$here "$zero" info --plugins | tee list | grep -qE '^  comm +template +version 1' &&
        grep -qE '^  offload +template +version 1' list || { cat list; false; }
}
ok 'zero info finds and probes both' listing
renamed() {
    build name=pigeon all && exported ./zero-comm-pigeon.so && ls >files &&
        build name=pigeon check-comm check-offload && ls | cmp - files &&
        ZERO_PLUGIN_PATH=$here "$zero" info --plugins >list && grep -qE '^  comm +pigeon +version 1' list &&
        grep -qE '^  offload +pigeon +version 1' list || { cat list; false; }
}
ok 'both are called something else with one word, and both checks accept them' renamed
folder_named() {
    ZERO_PIGEON_DIR=nowhere "$zero" check offload "$here/zero-offload-pigeon.so" >out 2>&1
    grep -F 'ZERO_PIGEON_DIR is "nowhere"' out || { cat out; false; }
}
ok 'its option has the other name, too' folder_named
ok 'make clean takes away what has that name' sh -c '
    make name=pigeon clean >/dev/null && test ! -e zero-comm-pigeon.so && test -e zero-comm-template.so'
ok 'make install puts them where it should' sh -c "
    make install DESTDIR='$tmp/root' plugindir=/plugins >/dev/null &&
        test -x '$tmp/root/plugins/zero-comm-template.so' &&
        test -x '$tmp/root/plugins/zero-offload-template.so'"

gpt2=${zero%/*}/zero-gpt2
hash_of() {
    ZERO_COMM=$1 "$zero" run -n 2 -- "$gpt2" --preset micro --data "$ZERO_TEST_TOP/LICENSE" \
        --steps 3 --stage 3 --json "$tmp/log" >out 2>&1 </dev/null || cat out >&2
    sed -n 's/.*"weights_hash":"\([0-9a-f]*\)".*/\1/p' "$tmp/log"
}
same() {
    ours=$(hash_of "$here/zero-comm-template.so")
    theirs=$(hash_of shm)
    echo "template $ours, shm $theirs"
    [ -n "$ours" ] && [ "$ours" = "$theirs" ]
}
ok 'GPT-2 trained through the comm plugin ends in the same bits as through shm' same
same_states() {
    theirs=$(hash_of shm)
    export ZERO_PLUGIN_PATH="$here" ZERO_OFFLOAD=optimizer:template
    ours=$(hash_of shm)
    unset ZERO_PLUGIN_PATH ZERO_OFFLOAD
    echo "template $ours, none $theirs"
    [ -n "$ours" ] && [ "$ours" = "$theirs" ] && grep -q 'Outside the device: optimizer:template' out
}
ok 'with the states in the offload plugin, too' same_states
done_testing
