#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Who may include whom. A room of the core includes only itself and the rooms before it, and of these
# only the headers that are their doors; plugins include only the public headers, what they share
# and their own folder, examples only the public headers and their own folder; the core includes no
# header of a back end. Folders of tools/ have an order, as rooms have.
. "$ZERO_TEST_TOP/tests/tap.sh"
cd "$ZERO_TEST_TOP" || exit 1

rooms='machine launch base memory plugin device job model schedule site run step place engine'
# Headers by which other rooms and tools enter; all of machine, launch and base.
doors='memory/plan memory/limits plugin/loader device/host job/job model/model schedule/program
    schedule/passes schedule/simulate site/site run/run run/inside step/step place/place'

# All includes of a folder as FILE:LINE KIND NAME, KIND being " or <.
includes() {
    find "$@" \( -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \) -exec awk '
        match($0, /^[ \t]*#[ \t]*include[ \t]*["<][^">]*/) {
            text = substr($0, RSTART, RLENGTH)
            sub(/^[ \t]*#[ \t]*include[ \t]*/, "", text)
            print FILENAME ":" FNR, substr(text, 1, 1), substr(text, 2)
        }' {} +
}

none 'no room of the core includes a later one' "$(includes core | awk -v rooms="$rooms" '
    BEGIN { n = split(rooms, name); for (i = 1; i <= n; i++) order[name[i]] = i }
    {
        split($1, path, "/"); own = order[path[2]]
        if (!own) { print $1 ": " path[2] " is no room"; next }
        if ($2 == "<" || $3 == "config.h") next
        split($3, target, "/")
        if (!order[target[1]]) print $1 ": \"" $3 "\" does not start with the name of a room"
        else if (order[target[1]] > own) print $1 ": " path[2] " includes " $3
    }')"

none 'rooms of the core and tools enter another room by its doors' "$(includes core tools |
    awk -v doors="$(echo "$doors" | tr -s ' \n' ' ')" '
    BEGIN { n = split(doors, door, " "); for (i = 1; i <= n; i++) open[door[i] ".h"] = 1 }
    $2 == "<" || $3 !~ /^[a-z]+\/[^\/]+$/ || $3 ~ /^(machine|launch|base|zero)\// { next }
    {
        split($1, path, "/"); split($3, target, "/")
        if (path[1] == "core" && path[2] != target[1] && !open[$3]) print $1 ": " $3
    }')"

# The one exception is a launcher, not a back end.
none 'the core includes no header of a back end' "$(includes core |
    grep -vE '^core/job/pmix\.c:[0-9]+ < pmix\.h$' |
    grep -E ' (ucp|uct|ucs|rdma|infiniband|cuda|cuda_runtime|nccl|liburing|libaio|pmix|mpi)[./_]')"

# shellcheck disable=SC2016 # a program of awk
outside='
    $2 == "<" || $3 == "config.h" { next }
    $3 !~ /\// { next }
    $1 ~ /^plugins\/cuda\/[^\/]+:/ && $3 ~ /^kernel\/[^\/]+$/ { next }
    $1 ~ /^plugins\/cuda\/kernel\// && $3 ~ /^\.\.\/\.\.\/common\/[^\/]+$/ { next }
    $1 ~ /^plugins\/common\/p2p\// && $3 ~ /^\.\.\/[^\/]+$/ { next }
    $1 ~ /^examples\/gpt2\/[^\/]+:/ && $3 ~ /^gpu\/gpu\.h$/ { next }
    $1 ~ /^examples\/gpt2\/gpu\// && $3 ~ /^\.\.\/[^\/]+$/ { next }
    shared != "" && $3 ~ shared { next }
    { print $1 ": \"" $3 "\"" }'
none 'plugins include public headers, shared ones and their own' "$(includes plugins |
    awk -v shared='^(\\.\\./common/(p2p/p2p.h|[^/]+)|(machine|launch)/[^/]+)$' "$outside")"

# The folders of tools/ in their order; a file at its top includes all of them.
tools='common exchange run check/cases check/stores check
    bench/measure bench/arena bench/optimizer bench/coll bench/offload bench/step bench
    report/crash report/memory report info'
none 'no folder of tools/ includes a later one' "$(includes tools | awk -v tools="$tools" '
    function folder(path) { return path ~ /\// ? substr(path, 1, match(path, /\/[^\/]*$/) - 1) : "" }
    BEGIN { n = split(tools, name); for (i = 1; i <= n; i++) order[name[i]] = i; order[""] = n + 1 }
    {
        file = $1; sub(/:.*/, "", file); sub(/^tools\//, "", file); own = order[folder(file)]
        if (!own) { print $1 ": " folder(file) " is not in the list"; next }
        if ($2 == "<" || $3 !~ /^(tools\/|\.\.)/) next
        target = $3; sub(/^tools\//, "", target)
        if ($3 !~ /^tools\// || !order[folder(target)]) print $1 ": \"" $3 "\" names no folder of tools/"
        else if (order[folder(target)] > own) print $1 ": " folder(file) " includes " $3
    }')"
none 'no file of tools/ repeats the name of its folder' "$(find tools -name '*.[ch]' |
    awk -F/ '{ for (i = 1; i < NF; i++) if ($NF ~ "^" $i "[_.]") { print; next } }')"
for room in machine launch; do
    none "$room includes nothing else" "$(includes $room |
        awk -v own="^$room/" '$2 == "\"" && $3 !~ own')"
done
none 'examples include public headers and their own' "$(includes examples | awk "$outside")"
none 'public headers include only standard and public ones' "$(includes include |
    grep -Ev ' < (zero/[a-z]+\.h|std[a-z]+\.h|string\.h)$')"
done_testing
