#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What `zero info` shows: the machine, every plugin or what is wrong with it, every option.
top=${ZERO_TEST_BUILD:-$PWD}
zero=$top/zero
[ -x "$zero" ] || { echo "Bail out! $zero is not built"; exit 99; }
tmp=$(mktemp -d "$top/tests/info.XXXXXX") || exit 99
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 99
for v in $(env | sed -n 's/^\(ZERO_[A-Z_]*\)=.*/\1/p' | grep -v ZERO_TEST); do unset "$v"; done
n=0
failed=0

check() { # what command...
    what=$1
    shift
    n=$((n + 1))
    if "$@"; then
        echo "ok $n - $what"
    else
        failed=1
        echo "not ok $n - $what"
        sed 's/^/# out: /' out | head -40
        sed 's/^/# err: /' err | head -20
    fi
}
info() {
    "$zero" info "$@" >out 2>err
    status=$?
}
has() { grep -qE -- "$1" "${2:-out}"; }
has_not() { ! has "$@"; }

info
check "all of it on a screen" [ "$(wc -l <out)" -le 30 ]
echo "this is no plugin" >zero-comm-broken.so
export ZERO_PLUGIN_PATH="$top/.libs:$tmp"
info
check "status 0" [ "$status" = 0 ]
check "the version" has '^zero [0-9]'
check "cores" has '^  cores +[0-9]+ with [0-9]+ thread'
check "memory" has '^  memory +[0-9.]+ [MGT]iB'
check "the limit of locked memory" has '^  memlock'
check "the host device" has '^  device +host +kernels for (avx512|avx2|scalar); [0-9.]+ [MG]iB free'
check "a transport" has '^  comm +self +one rank'
check "a tier" has '^  offload +cpu +.*iB$'
check "a broken plugin" has '^  comm +broken +cannot be loaded:'
check "and why" has 'zero-comm-broken[.]so:'
check "where it looked" has "looked for in $top/.libs:$tmp:"
check "nothing on standard error" [ ! -s err ]
info --plugins
check "the host device" has '^  device +host +version'
check "with its instruction set" has 'kernels for (avx512|avx2|scalar)'
check "the plugin self" has '^  comm +self +version [0-9.]+, interface [0-9.]+$'
check "its path" has "$top/.libs/zero-comm-self.so"
check "with words for all that plugins can do" has_not 'bit-[0-9]'
check "what it can do" has 'collective all_gather reduce_scatter'
check "a broken plugin is shown" has '^  comm +broken +cannot be loaded'
check "with the reason" has "$tmp/zero-comm-broken.so.*"
check "where it looked" has "looked for in $top/.libs:$tmp:"
check "nothing on standard error" [ ! -s err ]

cp out whole
info
for plugin in device:cuda comm:nccl comm:ofi comm:ucx offload:nvme; do
    kind=${plugin%:*} name=${plugin#*:}
    if [ -e "$top/.libs/zero-$kind-$name.so" ]; then
        check "$name was built" has_not "^  $kind +$name +cannot be loaded" whole
    else
        check "$name was not built" has "^  $kind +$name +cannot be loaded$" whole
        check "why, and what to do" has '^ +not built: .* was .*: .*configure again' whole
        check "also in short" has "^  $kind +$name +cannot be loaded: not built: "
    fi
done
cp "$zero" alone # beside no plugin at all
ZERO_PLUGIN_PATH='' ./alone info --plugins >out 2>err
if [ ! -d "$(sed -n 's/^  looked for in //p' out)" ]; then # else libzero is installed there
    check "a plugin whose file is not there" has '^  comm +nccl +cannot be loaded$'
    check "and what to do" has \
        '^ +no file zero-comm-nccl[.]so in the folders below: set ZERO_PLUGIN_PATH'
fi

if [ -e "$top/.libs/zero-offload-nvme.so" ] && [ -w /dev/shm ] &&
    [ "$(stat -f -c %T /dev/shm)" = tmpfs ]; then
    ZERO_NVME_PATH=/dev/shm info --plugins
    check "a tier whose files are memory says so" has '^ +can +(direct )?memory$'
    check "with words for all of it" has_not 'bit-[0-9]'
fi
if [ -e "$top/.libs/zero-comm-ofi.so" ]; then
    ZERO_OFI_DEVICE=eth99 info --plugins
    check "ofi: a device that is not there is an error" has 'ZERO_OFI_DEVICE=eth99; there are '
    check "of this plugin" has '^  comm +ofi +version.*: not usable here'
fi
if [ -e "$top/.libs/zero-comm-ucx.so" ]; then
    UCX_TLS=self,tcp UCX_NET_DEVICES=lo info --plugins
    check "ucx: what its user's settings leave" has '^ +UCX [0-9.]+: tcp \(lo\)$'
fi

echo 'lr = 0.5 # half' >zero.conf
ZERO_STAGE=2 info --options
check "options: status 0" [ "$status" = 0 ]
check "a value from the environment" has '^  ZERO_STAGE +2 +\(environment; default: 3\)$'
check "one from the file" has '^  ZERO_LR +0.5 +\(file .*zero.conf:1; default: 1e-3\)$'
check "one by default" has '^  ZERO_ACCUM +1 +\(default\)$'
check "what is allowed" has 'allowed: a whole number from 0 to 3'
sed -n 's/^ZERO__OPTION(\([A-Z0-9_]*\),.*/\1/p' \
    "$ZERO_TEST_TOP/core/base/options_table.h" >names
check "the table has options" [ "$(wc -l <names)" -ge 20 ]
all_shown() { while read -r o; do grep -q "^  ZERO_$o " out || return 1; done <names; }
check "every option is shown" all_shown
sed -n '/^comm shm$/,/^$/p' out >of_shm
check "one that a plugin has, under its kind and name" \
    has '^  ZERO_SHM_DEVICE +1 +\(default\)$' of_shm
check "what is allowed there only the plugin knows" has_not 'allowed:' of_shm
check "texts fit a terminal" has_not '^ {6}.{75}'
ZERO_STAG=2 info --options
check "a misspelt name is warned about" has 'ZERO_STAG=2 is not known.*ZERO_STAGE' err
ZERO_STAGE=9 info --options
check "a bad value is an error" [ "$status" = 1 ]
check "that names it" has 'ZERO_STAGE=9 is not allowed' err
ZERO_PLUGIN_PATH="" info --plugins
check "the build tree's plugins are found unasked" has "$top/.libs/zero-comm-shm.so"
ZERO_PLUGIN_PATH=relative info
check "so is a relative path" [ "$status" = 1 ]
info --optoins
check "bad use is status 2" [ "$status" = 2 ]
info --help
check "help fits a screen" [ "$(wc -l <out)" -le 24 ]

echo "1..$n"
exit $failed
