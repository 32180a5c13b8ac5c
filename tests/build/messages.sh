#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Rules for every sentence that can be printed, from the list that scripts/messages.py makes.
. "$ZERO_TEST_TOP/tests/tap.sh"
list=$(mktemp) || exit 99
trap 'rm -f "$list"' EXIT

ok 'a list is made' sh -c "python3 -B '$ZERO_TEST_TOP/scripts/messages.py' >'$list'"
# One of each way to say something: a function, a macro, a pointer, a choice, a name of one file;
# fputs; and of parts: by snprintf, returned, a value that stands in a sentence.
for sentence in 'ZERO_ISA is %s, but this CPU goes up to %s: use auto' \
    'ZERO_NVME_PATH names %s twice' 'split: color %d is negative' \
    'the system does nothing of it and names no error, again and again; look at dmesg for what its disk says' \
    'the data file %s is empty: give a text to learn from' 'zero run: no memory' \
    'the fractions of %s add up to %.6g, not to 1' '%s is not known: the nearest option is %s' \
    'has a value, but that option takes none' ', its machine hangs, or the network is cut'; do
    ok "in the list: $sentence" grep -qF "	$sentence" "$list"
done
# What a driver has no text for is an unknown error: a part of a sentence that says of what.
none 'no sentence says that something is wrong without saying what' \
    "$(grep -iE '	.*\b(invalid|illegal|failed to|unable to|unexpected|unknown error|internal error)\b' "$list" |
        grep -vE '	(an )?unknown error$')"
none 'no sentence ends in a full stop, since it may stand in another one' \
    "$(grep -E '[a-z]\.(\\n)?$' "$list")"
done_testing
