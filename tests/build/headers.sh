#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every public header compiles alone, as C11 and as C++17, with no warning.
. "$ZERO_TEST_TOP/tests/tap.sh"

warn='-Wall -Wextra -Werror -pedantic-errors -fsyntax-only'
for header in "$ZERO_TEST_TOP"/include/zero/*.h; do
    name=${header##*/}
    # shellcheck disable=SC2086 # CC and the warnings are lists of words
    ok "$name is C11" sh -c "echo '#include <zero/$name>' |
        $CC -x c -std=c11 $warn -I'$ZERO_TEST_TOP/include' -"
    # shellcheck disable=SC2086
    ok "$name is C++17" sh -c "echo '#include <zero/$name>' |
        $CXX -x c++ -std=c++17 $warn -I'$ZERO_TEST_TOP/include' -"
done
done_testing
