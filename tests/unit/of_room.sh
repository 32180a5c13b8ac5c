#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# of_room.sh FOLDER ROOM: the tests in a folder that include headers of a room of the core, or a
# header beside them that does.
cd "$1" || exit 1
{
    grep -l "#include \"$2/" ./*.c
    grep -l "#include \"$2/" ./*.h | while IFS= read -r header; do
        grep -l "#include \"${header#./}\"" ./*.c
    done
} | sed 's|^\./||; s/\.c$//' | sort -u
