# SPDX-License-Identifier: Apache-2.0
# A small TAP producer for shell tests, the counterpart of tap.h. Source it, call ok and friends,
# end with done_testing. The environment comes from `make check`: ZERO_TEST_TOP is the source tree,
# ZERO_TEST_BUILD the build tree.
# shellcheck shell=sh
tap_run=0
tap_failed=0

diag() {
    printf '%s\n' "$*" | sed 's/^/# /'
}

# ok WHAT COMMAND...: good when the command succeeds; its output is shown when it does not.
ok() {
    tap_what=$1
    shift
    tap_run=$((tap_run + 1))
    if tap_output=$("$@" 2>&1); then
        echo "ok $tap_run - $tap_what"
    else
        tap_failed=$((tap_failed + 1))
        echo "not ok $tap_run - $tap_what"
        diag "failed: $*"
        diag "$tap_output"
    fi
}

# none WHAT TEXT: good when TEXT, a list of offences, is empty.
none() {
    tap_run=$((tap_run + 1))
    if [ -z "$2" ]; then
        echo "ok $tap_run - $1"
    else
        tap_failed=$((tap_failed + 1))
        echo "not ok $tap_run - $1"
        diag "$2"
    fi
}

# todo WHAT WHY TEXT: like none, but a known gap as long as TEXT is not empty.
todo() {
    if [ -n "$3" ]; then
        tap_run=$((tap_run + 1))
        echo "not ok $tap_run - $1 # TODO $2"
        diag "$3"
    else
        none "$1" ''
    fi
}

# skip WHAT REASON
skip() {
    tap_run=$((tap_run + 1))
    echo "ok $tap_run - $1 # SKIP $2"
}

# skip_all REASON: the whole script has nothing to test here.
skip_all() {
    echo "1..0 # SKIP $1"
    exit 0
}

done_testing() {
    echo "1..$tap_run"
    [ "$tap_failed" = 0 ]
    exit
}
