#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the README tells people to type: scripts exist, options are known, the example compiles
# without warnings and trains on one rank and on two.
. "$ZERO_TEST_TOP/tests/tap.sh"
cd "$ZERO_TEST_BUILD" || exit 1

readme=$ZERO_TEST_TOP/README.md
fences=$ZERO_TEST_TOP/scripts/fences
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Build/root as the README has it, from what is built; `cc` adds the warnings of this tree.
root=$scratch/build/root
mkdir -p "$root/bin" "$root/lib/pkgconfig" "$root/include" "$scratch/bin"
cp -r "$ZERO_TEST_TOP/include/zero" "$root/include"
cp -P .libs/libzero.so* "$root/lib"
sed "s|^prefix=.*|prefix=$root|" zero.pc > "$root/lib/pkgconfig/zero.pc"
ln -s "$ZERO_TEST_BUILD/zero" "$root/bin/zero"
cat > "$scratch/bin/cc" <<END
#!/bin/sh
exec $CC -std=c11 -Wall -Wextra -Wpedantic -Werror $SANITIZE_CFLAGS "\$@"
END
chmod +x "$scratch/bin/cc"

"$fences" c > "$scratch/example.c"
ok 'the example is there' test -s "$scratch/example.c"
"$fences" sh | sed -n '/^export PKG_CONFIG_PATH/,/^cc /p' > "$scratch/compile"
ok 'it compiles as it says there' sh -c "cd '$scratch' && grep -q '^cc ' compile &&
    PATH='$scratch/bin':\$PATH sh -eu ./compile && test -x example"
ok 'the installed library is the one it runs with' sh -c "ldd '$scratch/example' |
    grep -F 'libzero.so.0 => $root/lib/libzero.so'"
ok 'it trains on one rank' sh -c "'$scratch/example' | grep 'norm of the gradient after 100 steps'"
ok 'it trains on two ranks' sh -c "./zero run -n 2 -- '$scratch/example' |
    grep 'norm of the gradient after 100 steps'"

"$fences" sh > "$scratch/commands"
grep -oE '(^|[ /])(scripts/[a-z-]+)' "$scratch/commands" | tr -d ' ' | sort -u > "$scratch/scripts"
while read -r script; do
    ok "$script is there" test -x "$ZERO_TEST_TOP/$script"
done < "$scratch/scripts"

ok 'options of zero-gpt2 are known' sh -c "
    ./zero-gpt2 --help > '$scratch/gpt2'
    for option in \$(sed -n 's/.*zero-gpt2 //p' '$scratch/commands' '$readme' | grep -oE -- '--[a-z0-9-]+')
    do
        grep -q -- \"^  \$option \" '$scratch/gpt2' || { echo \"\$option\"; exit 1; }
    done"
ok 'variables are options' sh -c "
    ./zero info --options > '$scratch/options'
    for name in \$(grep -oE 'ZERO_[A-Z_0-9]+' '$readme' | grep -vE '^ZERO_(TRAIN|FORWARD|BACKWARD|F32|CONFIG_INIT)\$')
    do
        grep -q \"^  \$name \" '$scratch/options' || { echo \"\$name\"; exit 1; }
    done"
ok 'links lead somewhere' sh -c "
    for link in \$(grep -oE '\]\([^)#]*' '$readme' | tr -d ']('); do
        test -e '$ZERO_TEST_TOP'/\$link || { echo \"\$link\"; exit 1; }
    done"
# Each cell by its row and column; a dash where nothing was measured.
# shellcheck disable=SC2016 # a program of awk
ok 'ratios are those of the results' awk -F ' *[|] *' '
    FILENAME ~ /RESULTS/ {
        machine = FILENAME ~ /zen5/ ? "Zen 5" : "Zen 4"
        if ($3 == "the fastest of PyTorch and DeepSpeed")
            measured[machine $2] = \
                match($5, /[0-9.]+ \([0-9.]+–[0-9.]+\)/) ? substr($5, RSTART, RLENGTH) : "–"
        next
    }
    /^\| \| stage 0 \| stage 1 \| stage 2 \| stage 3 \|$/ { head = 1 }
    /^\| Zen [45], batch [0-9]+ \|/ {
        split($2, row, ", ")
        for (stage = 0; stage <= 3; stage++) {
            what = row[1] "a step of GPT-2, bf16, " row[2] ", stage " stage
            cell = $(3 + stage)
            if (cell != measured[what]) { print what ": " cell ", not " measured[what]; bad = 1 }
            n++
        }
    }
    END { exit bad || !head || n != 16 }' "$ZERO_TEST_TOP/bench/RESULTS.md" \
    "$ZERO_TEST_TOP/bench/RESULTS-zen5.md" "$readme"
# Those of the paragraph that names the file, rounded as they are there; N % is what a ratio is above 1.
# shellcheck disable=SC2016 # a program of awk
ok 'figures of the GPU are in its results' awk '
    { gsub(/[|(),;:]/, " ") }
    FNR == NR {
        for (i = 1; i <= NF; i++) {
            sub(/\.$/, "", $i)
            if ($i ~ /^[0-9]+(\.[0-9]+)?(e-[0-9]+)?$/) have[$i + 0]
        }
        next
    }
    /RESULTS-gpu\.md/ {
        for (i = 1; i <= NF; i++) {
            word = $i
            sub(/\.$/, "", word)
            percent = $(i + 1) == "%"
            if (!percent && word !~ /^[0-9]+(\.[0-9]+|e-[0-9]+|\.[0-9]+e-[0-9]+)$/) continue
            digits = index(word, ".") ? length(word) - index(word, ".") : 0
            found = 0
            for (x in have)
                found += percent ? sprintf("%.0f", 100 * (x - 1)) == word : \
                         word ~ /e/ ? x == word + 0 : sprintf("%.*f", digits, x) == word
            if (!found) { print word; bad = 1 }
            n++
        }
    }
    END { exit bad || !n }' "$ZERO_TEST_TOP/bench/RESULTS-gpu.md" RS= "$readme"
# And each is that of its row.
gpu=$ZERO_TEST_TOP/bench/RESULTS-gpu.md
paragraphs=$(tr '\n' ' ' <"$readme")
ratio() { # WHAT BESIDE DIGITS: of that row; without DIGITS what it is above 1, in percent
    awk -F ' *[|] *' -v what="$1" -v beside="$2" -v digits="${3-}" \
        'index($2, what) == 1 && $4 ~ beside {
            if (digits) printf "%.*f", digits, $5; else printf "%.0f", 100 * ($5 - 1)
        }' "$gpu"
}
says() { # WORDS of README.md
    case $paragraphs in
    *"$1"*) ;;
    *)
        echo "# README.md does not say: $1"
        false
        ;;
    esac
}
ok '124M beside eager PyTorch' says \
    "\`zero-gpt2\` 124M makes $(ratio 'GPT-2 124M, tokens/s' eager 2) times the tokens"
ok '124M beside compiled PyTorch' says \
    "in the same run, $(ratio 'GPT-2 124M, tokens/s' compiled 2) times those of compiled"
runtime='without the runtime'
ok 'what the runtime adds' says \
    "adds $(ratio 'GPT-2 124M step' "$runtime") % to a step of 124M and $(
        ratio 'GPT-2 1.5B step' "$runtime") % to one of 1.5B"
ok 'where that is missed' says \
    "1.5B, $(ratio 'GPT-2 1.5B step' "$runtime" 3) times a step without it"
ok 'the optimizer on the host' says "with the optimizer on the host, $(
    ratio 'GPT-2 124M step, 4 x 256 tokens, optimizer on the host, behind' queue 3) times what"
# What a run reserves is compared with them by numeric/memory.py.
# shellcheck disable=SC2016 # a program of awk
ok 'bytes of the sharding table follow from its formulas' awk -F'|' -v psi=124.475904 '
    /^\| [0-3] \|/ {
        for (i = 5; i <= 7; i++) {
            ranks = 2 ^ (i - 5)
            split("16 " 4 + 12 / ranks " " 2 + 14 / ranks " " 16 / ranks, factor, " ")
            split($i, bytes, "/")
            wanted = factor[$2 + 1] * psi
            if (bytes[1] - wanted > 0.06 || wanted - bytes[1] > 0.06 || bytes[2] + 0 < bytes[1] ||
                bytes[2] > 1.002 * bytes[1]) { print $0 ": " wanted; bad = 1 }
            n++
        }
    }
    END { exit bad || n != 12 }' "$readme"
# Beside the table, whose last column it draws: what is rounded adds up to a third of a MB.
# shellcheck disable=SC2016 # a program of awk
ok 'states of the picture are those of the last column' awk '
    FNR == NR {
        if (/^\| [0-3] \|/) { n = split($0, cell, "[|/]"); wanted[++rows] = cell[n - 1] + 0 }
        next
    }
    { while (match($0, /<title>[a-z]+ [0-9.]+ MB/)) {
        split(substr($0, RSTART + 7, RLENGTH - 7), part, " ")
        if (part[1] == "parameters") stage++
        if (part[1] ~ /^(parameters|gradients|master|momentum|variance)$/) sum[stage] += part[2]
        $0 = substr($0, RSTART + RLENGTH)
    } }
    END {
        for (i = 1; i <= 4; i++)
            if (sum[i] - wanted[i] > 0.35 || wanted[i] - sum[i] > 0.35) {
                print "stage " i - 1 ": " sum[i] ", not " wanted[i]
                bad = 1
            }
        exit bad || rows != 4 || stage != 4
    }' "$readme" "$ZERO_TEST_TOP/doc/memory.svg"
done_testing
