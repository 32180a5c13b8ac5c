#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Rules for every source file: licence line, length, blanks; scripts that shellcheck accepts.
. "$ZERO_TEST_TOP/tests/tap.sh"
cd "$ZERO_TEST_TOP" || exit 1

longest=400
longest_there=700 # of tests, public headers and what a plugin author copies
folders=$(ls -d include core machine launch plugins tools examples tests scripts doc bench 2>/dev/null)
code='\.(c|h|cc|cu|cuh)$' # C, C++, CUDA

# Text that people wrote, in the tree or in a tarball.
sources() {
    # shellcheck disable=SC2086 # a list of folders
    find $folders -type f \( -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \
        -o -name '*.sh' -o -name '*.py' -o -name '*.inc' \
        -o -name '*.map' -o -name '*.md' -o -name '*.[17]' -o -path 'scripts/*' \
        -o -path bench/compare/setup -o -path bench/compare/run -o -name allowed-skips \) ! -path '*/.deps/*' ! -path '*/.libs/*'
    ls Makefile.am configure.ac m4/zero_*.m4 ./*.pc.in README.md CONTRIBUTING.md CHANGELOG.md
    if [ -d .ci ]; then find .ci -type f; fi
}

none 'every file starts with its licence' "$(sources | while read -r file; do
    head -n 2 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || echo "$file"
done)"
none "no file of code has more than $longest lines, of tests, public headers and the template $longest_there" \
    "$(sources | grep -E "$code" | xargs wc -l | awk -v longest=$longest -v there=$longest_there '
        $2 != "total" && $1 > ($2 ~ /^(tests|include|examples\/plugin-template)\// ? there : longest)')"
none 'no function has more than 60 lines' "$(sources | grep -E "$code" | xargs awk '
    FNR == 1 { begin = 0 }
    /^\{$/ { begin = FNR }
    /^\}/ && begin { if ($0 == "}" && FNR - begin > 61) print FILENAME ":" begin; begin = 0 }')"
none 'no tabs and no blanks at the end of a line of code' \
    "$(sources | grep -E "$code" | xargs grep -nE "$(printf '\t')| +$")"
none 'no line of code, nor of Python, is longer than 100 columns' \
    "$(sources | grep -E -e "$code" -e '\.py$' | LC_ALL=C.UTF-8 xargs grep -nE '^.{101,}$' | cut -c 1-120)"
# automake makes NAME.log of NAME, NAME.sh and NAME.py, and runs one of them only.
none 'no two tests have the same log' "$(env -u MAKEFLAGS -u MAKELEVEL make -s --no-print-directory \
    -C "$ZERO_TEST_BUILD" list-tests TESTS_LEFT_OUT= | sed 's/\.\(sh\|py\)$//' | sort | uniq -d)"
if command -v shellcheck >/dev/null; then
    none 'shellcheck finds nothing' "$(sources | grep -vE '\.(c|h|cc|cu|cuh|md|py|inc|map|m4|in|am|ac|[17])$' |
        grep -v allowed-skips | xargs shellcheck -x -P SCRIPTDIR -S warning -e SC1091 -f gcc)"
else
    skip 'shellcheck finds nothing' 'no shellcheck'
fi
done_testing
