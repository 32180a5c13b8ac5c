#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# zero-gpt2 as a user meets it: options, logs, weights in and out, Ctrl-C, and what it says about
# input that cannot work.
# shellcheck disable=SC2317 # functions are called through ok
. "$ZERO_TEST_TOP/tests/tap.sh"
gpt2=$ZERO_TEST_BUILD/zero-gpt2
text=$ZERO_TEST_TOP/LICENSE
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 99
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT ZERO_JOB ZERO_STAGE
unset ZERO_ACCUM ZERO_CLIP ZERO_LR ZERO_COMM ZERO_CONFIG ZERO_LOG ZERO_BETA2 ZERO_WEIGHT_DECAY

# The model of the tests; leaves out, err and status.
run() {
    "$gpt2" --preset micro --data "$text" --steps 2 "$@" >out 2>err </dev/null
    status=$?
}
show() {
    cat out err
    false
}
is() { [ "$1" = "$2" ] || { echo "got \"$1\", want \"$2\""; show; }; }

# refused WHAT WORDS ARGUMENT...: status 1, and one line of error that has the words.
refused() {
    what=$1
    words=$2
    shift 2
    run "$@"
    ok "$what" refusal "$words"
}
refusal() {
    is "$status" 1 && is "$(wc -l <err)" 1 && { grep -qF -e "$1" err || show; }
}
hash_of() { sed -n 's/.*"weights_hash":"\([0-9a-f]*\)".*/\1/p' "$1"; }

# ---- Input that cannot work

"$gpt2" >out 2>err
status=$?
ok 'no data' refusal '--data FILE is missing'
refused 'a missing file' '/no/such/file' --data /no/such/file
: >empty
refused 'an empty file' 'empty is empty' --data empty
echo 'too short' >short
refused 'a short file' 'longer file or a shorter --seq' --data short
printf "odd" >odd
refused 'a folder' 'not a file' --data /
refused 'too little held out' 'larger --val' --val 0.0001
refused 'too little left' 'from 0 to 0.9' --val 0.99
refused 'a sequence longer than the model' 'longer than the 32 positions' --seq 33
refused 'sequence 0' '--seq 0' --seq 0
refused 'batch 0' '--batch 0' --batch 0
refused 'a batch that is no number' '--batch 4x' --batch 4x
refused 'a negative batch' '--batch -1' --batch -1
refused 'accumulation 0' 'accum' --accum 0
refused 'stage 7' 'stage' --stage 7
refused 'an unknown preset' 'micro, tiny, 124M' --preset huge
refused 'an unknown type' 'fp32, bf16 or fp16' --dtype fp8
refused 'an unknown option' '--colour' --colour red
refused 'a word too many' 'more' more
refused 'an option without its value' '--sample wants a value' --sample
refused 'an odd file of tokens' 'odd number' --format tokens --data odd --seq 2
refused 'bytes outside the vocabulary' 'outside the vocabulary of 100: give --vocab 256' --vocab 100
refused 'an evaluation of nothing' 'held-out data' --val 0 --beat-bigram
refused 'a log that cannot be created' 'cannot create /no/such' --json /no/such/log
refused 'no weights' 'weights-in: cannot open /no' --weights-in /no/such/weights
refused 'weights that are a text' 'no safetensors file' --weights-in "$text"
refused 'a place for weights that is not there' 'cannot create /no/such' --weights-out /no/such/w
ok 'which is found before the first step' is "$(grep -c step out)" 0
refused 'a folder as the place for weights' 'is a folder: name a file in it' --weights-out "$tmp"
ZERO_COMM=pigeon run
ok 'an unknown plugin' refusal 'zero-comm-pigeon.so'
if [ -w /dev/full ]; then
    refused 'a full disk' 'disk full' --json /dev/full
else
    skip 'a full disk' 'no /dev/full'
fi

# ---- Logs

run --stage 1 --json log --ops ops --eval-every 1 --clip 1
ok 'it runs' is "$status" 0
whole='"type":"step","step":[12],"loss":[0-9.]*,"grad_norm":[0-9.]*,"time_s":[0-9.e-]*,'
whole=$whole'"compute_s":[0-9.e-]*,"exposed_s":[0-9.e-]*,"optimizer_s":[0-9.e-]*,'
whole=$whole'"other_s":[0-9.e-]*,"tokens_per_s":[0-9.]*,"wire_bytes":[0-9]*,"disk_read_bytes":0,'
whole=$whole'"disk_written_bytes":0}$'
ok 'two steps in the log' is "$(grep -c "^{$whole" log)" 2
ok 'two evaluations' is "$(grep -cE '^\{"type":"eval","step":[12],"loss":[0-9.]+\}$' log)" 2
whole='"type":"summary","weights_hash":"[0-9a-f]\{16\}","stage":1,"ranks":1,"comm":"self",'
whole=$whole'"dtype":"fp32","parameters":118528,"vocab":256,"batch":[0-9]*,"seq":32,'
whole=$whole'"memory":\[{"class":"parameters","tier":"device","planned":[0-9]*,"reserved":[0-9]*,'
whole=$whole'"peak":[0-9]*},{.*}\],"mapped_bytes":0,'
whole=$whole'"disk_read_bytes":0,"disk_written_bytes":0,"disk_direct":false}$'
ok 'a summary at the end' is "$(tail -n 1 log | grep -c "^{$whole")" 1
parts() {
    grep '"step"' log | grep -o '_s":[0-9.e-]*' | cut -d : -f 2 | paste -d ' ' - - - - - - |
        awk '{ d = $1 - $2 - $3 - $4 - $5; if (d * d > 1e-14 || $5 < 0) exit 1 }
            END { exit NR != 2 }'
}
ok 'the time of a step is the sum of its parts' parts
intervals() {
    sed -n 's/.*"start_ns":\([0-9]*\),"end_ns":\([0-9]*\)}$/\1 \2/p' ops |
        awk '$2 < $1 { exit 1 } END { exit NR < 20 }'
}
ok 'the ops of the steps have their times' intervals
ok 'the progress is in plain lines' is "$(grep -c '^step [12]/2  loss' out)" 2
ok 'a table of memory' grep -q '^  variance ' out

# ---- Sources of settings

ZERO_STAGE=2 run --json log
ok 'ZERO_STAGE counts' grep -q '"stage":2' log
ZERO_STAGE=2 run --json log --stage 0
ok 'what was typed counts more' grep -q '"stage":0' log
run --json log
own=$(hash_of log)
run --json log --beta2 0.999 --weight-decay 0.02
typed=$(hash_of log)
ZERO_BETA2=0.999 ZERO_WEIGHT_DECAY=0.02 run --json log
ok "so they do where GPT-2's defaults are others than the library's" is "$(hash_of log)" "$typed"
ok 'which are not those of this run' test "$typed" != "$own"
printf 'beta2 = 0.999\nweight_decay = 0.02\n' >settings
ZERO_CONFIG=settings run --json log
ok 'also from a file, with a value that is the default' is "$(hash_of log)" "$typed"

# ---- Weights

run --steps 3 --json log --weights-out w
first=$(hash_of log)
ok 'weights are written' is "$(wc -c <w)" "$((8 + $(od -An -t u8 -N 8 w) + 4 * 118528))"
run --steps 0 --json log --weights-in w --weights-out w2
ok 'and read' is "$(hash_of log)" "$first"
ok 'as the same file' cmp w w2
run --steps 3 --json log --recompute
ok 'recomputation changes nothing' is "$(hash_of log)" "$first"
run --steps 3 --json log --seed 2
ok 'another seed does' test "$(hash_of log)" != "$first"
head -c 100000 w >part
refused 'weights that end early' 'ends early' --weights-in part
refused 'weights of another model' 'has the shape [256,64], and preset micro wants [300,64]' \
    --weights-in w --vocab 300
printf '\002\0\0\0\0\0\0\0{}' >none
refused 'weights of nothing' 'none has no tensor wte.weight' --weights-in none
ok 'nothing of a write that failed remains' test ! -e w.part

# ---- Text

run --steps 5 --sample 40 --prompt 'Licen' --dtype bf16
ok 'text is written' is "$(sed -n '/^----$/,/^----$/p' out | head -c 10 | tail -n 1)" 'Licen'
run --beat-bigram
ok 'a model that learned nothing does not beat pairs of bytes' is "$status" 3
awk 'BEGIN { for (i = 0; i < 4000; i++) printf "%c%c", 65 + i % 7, 66 }' >tokens.bin
run --data tokens.bin --vocab 17000 --format tokens --batch 2
ok 'tokens of 16 bits' is "$status" 0
refused 'pairs of bytes, of which tokens have none' 'tokens.bin holds tokens of 16 bits' \
    --data tokens.bin --vocab 17000 --batch 2 --beat-bigram
refused 'a token outside the vocabulary' 'outside the vocabulary of 256' --data tokens.bin

# ---- Memory of each stage

run --memory-table
rows() {
    awk '$NF ~ /^[0-9]+$/ { n++; if ($NF != $(NF - 1) || $(NF - 2) > $NF) exit 1 }
        END { exit n != 4 }' out
}
ok 'four stages, reserved as planned' rows

# ---- Ctrl-C

"$gpt2" --preset tiny --data "$text" --steps 1000000 >out 2>err &
pid=$!
for _ in $(seq 100); do
    grep -q '^step' out && break
    sleep 0.1
done
kill -INT $pid
wait $pid
ok 'an interrupted run ends with 130' is $? 130
ok 'without a word of error' is "$(wc -c <err)" 0

# ---- Two ranks

"$ZERO_TEST_BUILD/zero" run -n 2 -- "$gpt2" --preset micro --data /no/such/file >out 2>err
# Once, unless the ranks are so far apart that the second one has not heard of the first.
ok 'an error that all ranks meet is told' is "$(grep -c 'cannot open' err | tr 2 1)" 1
"$ZERO_TEST_BUILD/zero" run -n 2 -- "$gpt2" --preset tiny --data "$text" --steps 1000000 \
    >out 2>err &
pid=$!
for _ in $(seq 100); do
    grep -q 'step' out && break
    sleep 0.1
done
kill -INT $pid
wait $pid
ok 'an interrupted job ends with 130' is $? 130
done_testing
