#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What `zero bench arena` prints and how it refuses what is no table of lifetimes.
. "$ZERO_TEST_TOP/tests/tap.sh"
zero=${ZERO_TEST_BUILD:-$PWD}/zero
[ -x "$zero" ] || { echo "Bail out! $zero is not built"; exit 99; }
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 99

bench() {
    "$zero" bench arena "$@" >out 2>err
    status=$?
}
good() { # WHAT LINE ARG...: exits 0 and prints the line
    what=$1
    line=$2
    shift 2
    bench "$@"
    ok "$what" [ "$status" = 0 ]
    ok "$what: $line" grep -qE "$line" out
}
bad() { # WHAT WORDS TEXT: a file of this text is refused with these words
    # shellcheck disable=SC2059
    printf "$3" >bad.csv
    bench bad.csv
    ok "$1 is refused" [ "$status" = 2 ]
    ok "$1: $2" grep -q "$2" err
}

printf 'id,lower,upper,size\na,0,3,4\nb,3,9,4\nc,0,9,4\nd,9,21,4\ne,0,21,4\n' >x.12.csv
good "five buffers" '^x.12.csv +5 +12 +12 +1\.000000 ' x.12.csv
cp x.12.csv x.11.csv
bench x.11.csv x.12.csv
ok "a capacity that cannot be met is no failure" [ "$status" = 0 ]
bench --must-fit x.11.csv x.12.csv
ok "unless it must be met: exit status 1" [ "$status" = 1 ]
ok "and that is said" grep -qE '^x.11.csv .*above the capacity' out
ok "the other file is planned all the same" grep -qE '^x.12.csv .* 1\.000000 ' out
printf 'size, id ,class,upper,lower\r\n7,a,q,18446744073709551615,1099511627776\r\n\r\n' >y.csv
good "columns in any order, large times, other line ends" '^y.csv +1 +7 +7 ' y.csv
printf 'id,lower,upper,size\n' >none.csv
good "no buffers" '^none.csv +0 +0 +0 ' none.csv
printf 'id,lower,upper,size\na,5,5,9\nb,1,9,0' >hollow.csv
good "no bytes, no life, no last line end" '^hollow.csv +2 +0 +0 ' hollow.csv
good "greedy only" '^x.12.csv .*greedy' --nodes 0 --threads 1 x.12.csv

good "a step's buffers" '^step-300 +300 .* 1.000000 ' --nodes 0 --step 300
good "a long step" '^step-20000 +20000 .* 1.000000 .*core' --nodes 2000000 --step 20000
good "a random cut" '^cut-60 +60 .* 1.000000 ' --cut 60 --seed 7
good "an object a line" '^{"bench":"arena","op":"plan","median_s":.*,"spread":.*,"check":"ok",.*"task":"step-44","buffers":44,' \
    --json --step 44
good "a plan above its capacity is a plan" '"check":"ok",.*"fits":0,' --json x.11.csv
good "one that meets it fits" '"check":"ok",.*"fits":1,' --json --must-fit x.12.csv
bench --json --spoil x.12.csv
ok "buffers that overlap: exit status 1" [ "$status" = 1 ]
ok "with a record" grep -q '"check":"failed",.*"task":"x.12.csv",.*"fits":1,' out
ok "that names them" grep -q 'x.12.csv: .*buffers 0 and . are alive together and overlap' err
bench --spoil x.12.csv
ok "and a line" grep -qE '^x.12.csv .*\(check failed\)' out
printf 'id,lower,upper,size\na,0,3,4\n' >one.csv
bench --spoil one.csv
ok "a buffer above the peak: exit status 1" [ "$status" = 1 ]
ok "and the bytes that are taken" grep -q 'one.csv: the peak is said to be 4, and buffers end at 5' err
good "unless nobody checks" '"check":"off"' --json --no-check --spoil --step 44
cp x.12.csv 'a "b\c.csv'
good "names are escaped" '"task":"a \\"b\\\\c.csv"' --json 'a "b\c.csv'
good "bytes to the last one" '"lower_bound":1100910592,"peak":1100910592,' --json --step 1000
good "times can be read for few buffers" '^step-100 .* [0-9.]+ [um]s +[0-9.]+%  ' --step 100
good "seven plans" '"repetitions":7,' --json --step 100
good "or as many as are wanted" '"spread":.*"repetitions":9,' --json --reps 9 --step 100
good "one has no spread" '^step-100 .* [um]s +-  ' --reps 1 --step 100
good "units" '^step-1000 +1000 ' --nodes 1K --step 1K
bench --nodes 0 --step 10,20 --step 30 --cut 40
ok "lists add up" [ "$(grep -cE '^(step|cut)-[1-4]0 ' out)" = 4 ]

# Three plans of so few buffers are wide apart now and then; 100.0% may be a little more.
bench --nodes 0 --reps 3 --step "$(seq -s, 10 73)"
told=$(sed -n 's/^\([0-9]*\) rows\{0,1\} ha.* a spread above 100 %.*/\1/p' out)
ok "rows of a wide spread are counted: ${told:-none}" awk -v told="${told:-0}" '
    /^step-/ { n += $8 + 0 > 100; about += $8 == "100.0%" }
    END { exit !(told >= n && told <= n + about) }' out

refused() { # WORDS ARG...: bad use, one sentence, no head of a table
    words=$1
    shift
    bench "$@"
    ok "refused: $*" [ "$status" = 2 ]
    ok "$words" grep -q "^zero bench arena: .*$words" err
    ok "that is all" [ "$(cat out err | wc -l)" = 1 ]
}
refused '-[-]cut is "1e9"' --cut 1e9
refused '-[-]step is "1e3"' --step 1e3
refused '-[-]step is ""' --step ,
refused '-[-]step is ""' --step 10,
refused '-[-]step is "0"' --step 0
refused '-[-]cut is "0"' --step 10 --cut 0
refused '-[-]threads is "0"' --threads 0 --step 10
refused '-[-]reps is "0"' --reps 0 --step 10
refused '-[-]nods is not an option: see zero bench arena -[-]help' --nods 5
refused 'is given: see zero bench arena --help' --json

bad "an empty file" "empty" ''
bad "a missing column" 'no column "upper"' 'id,lower,size\na,1,2\n'
bad "a negative number" 'bad.csv:2: lower is "-1"' 'id,lower,upper,size\na,-1,2,3\n'
bad "a fraction" 'size is "3.5"' 'id,lower,upper,size\na,1,2,3.5\n'
bad "a number of 65 bits" 'size is "18446744073709551616"' \
    'id,lower,upper,size\na,1,2,18446744073709551616\n'
bad "an empty field" 'upper is ""' 'id,lower,upper,size\na,1,,3\n'
bad "a short line" 'bad.csv:3: size is ""' 'id,lower,upper,size\na,1,2,3\nb,1,2\n'
bad "a life that ends before it starts" 'lies before' 'id,lower,upper,size\na,2,1,3\n'
bad "sizes beyond all memory" '2^62' \
    'id,lower,upper,size\na,1,2,4611686018427387904\nb,1,2,4611686018427387904\n'
bench /nonexistent/x.csv
ok "a file that is not there" [ "$status" = 2 ]
ok "is named" grep -q '/nonexistent/x.csv: cannot open' err
bench .
ok "a folder is refused" [ "$status" = 2 ]
bench
ok "no file at all is bad use" [ "$status" = 2 ]
bench --nodes many x.12.csv
ok "a bad option value" [ "$status" = 2 ]
ok "is named" grep -q -e '--nodes is "many"' err
bench --help
ok "help" [ "$status" = 0 ]
ok "on standard output" grep -q 'lower bound' out
done_testing
