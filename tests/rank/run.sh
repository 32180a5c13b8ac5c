#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What `zero run` promises: environment, output, exit status, signals, and that nothing remains.
top=${ZERO_TEST_BUILD:-$PWD}
zero=$top/zero
probe=$top/tests/rank/job_probe
[ -x "$zero" ] || { echo "Bail out! $zero is not built"; exit 99; }
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 99
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT ZERO_JOB
unset TORCHELASTIC_RUN_ID OMP_NUM_THREADS
n=0
failed=0

result() { # good what
    n=$((n + 1))
    if [ "$1" = 0 ]; then
        echo "ok $n - $2"
    else
        failed=1
        echo "not ok $n - $2"
        sed 's/^/# out: /' out 2>/dev/null | head -20
        sed 's/^/# err: /' err 2>/dev/null | head -20
    fi
}
check() { # what command...
    what=$1
    shift
    "$@"
    result $? "$what"
}
run() { # options and program of zero run; leaves out, err and status
    "$zero" run "$@" >out 2>err </dev/null
    status=$?
}
is() { [ "$1" = "$2" ] || { echo "# got \"$1\", want \"$2\""; return 1; }; }
now_ms() { echo $(($(date +%s%N) / 1000000)); }
# Ranks of the tests note their processes in the file `pids`; $say does it in a rank.
say='echo $$ >>pids'
state() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -c1; }
none_alive() {
    for p in $(cat pids); do
        case $(state "$p") in
        '' | Z | X) ;;
        *) echo "# process $p lives"; return 1 ;;
        esac
    done
}
gone() { # all of pids, within a second
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        none_alive >/dev/null && return 0
        sleep 0.1
    done
    none_alive
}
wait_pids() { # until so many have noted themselves
    for _ in $(seq 100); do
        [ "$(wc -l 2>/dev/null <pids)" -ge "$1" ] && return 0
        sleep 0.02
    done
    return 1
}

# --- environment
run -n 3 -- sh -c 'echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE \
    $MASTER_ADDR $OMP_NUM_THREADS'
sort out >sorted
printf '[0] 0 3 0 3 127.0.0.1 1\n[1] 1 3 1 3 127.0.0.1 1\n[2] 2 3 2 3 127.0.0.1 1\n' >want
check "every rank finds its place" cmp -s sorted want
check "all well is status 0" is "$status" 0
check "and silent" is "$(cat err)" ""
run -n 2 --no-prefix -- sh -c 'echo $ZERO_JOB $MASTER_PORT'
check "one name and one port for all" is "$(sort -u out | wc -l)" 1
check "the name is long" grep -qE '^[0-9a-f]{32} [0-9]+$' out
first=$(head -1 out)
run -n 1 -- sh -c 'echo $ZERO_JOB $MASTER_PORT'
check "another job has another name" [ "$first" != "$(cat out)" ]
OMP_NUM_THREADS=7 "$zero" run -n 2 --no-prefix -- sh -c 'echo $OMP_NUM_THREADS' >out
check "OMP_NUM_THREADS of the user is kept" is "$(sort -u out)" 7
echo hello | "$zero" run -n 2 -- cat >out
check "rank 0 has the standard input, others none" is "$(cat out)" "[0] hello"

# --- output
run -n 2 --prefix -- sh -c 'printf "a\nlast"; echo problem >&2'
check "an unfinished last line is passed on" is "$(sort out | tr '\n' ,)" \
    "[0] a,[0] last,[1] a,[1] last,"
check "errors stay apart" is "$(sort err | tr '\n' ,)" "[0] problem,[1] problem,"
run -n 2 --no-prefix -- sh -c 'echo plain'
check "without prefix" is "$(sort -u out)" plain
run -n 1 -- sh -c 'echo single'
check "a single rank has none" is "$(cat out)" single
run -n 2 -- sh -c 'printf "10%%\r20%%\r30%%\ndos\r\n"'
check "of a progress line its last state" is "$(sort out | tr '\n' ,)" \
    "[0] 30%,[0] dos,[1] 30%,[1] dos,"
run -n 2 -- sh -c 'head -c 300000 /dev/zero | tr "\0" x; echo; seq 20000'
longest=$(awk '{ if (length > m) m = length } END { print m }' out)
check "long lines and many lines arrive whole" is "$(wc -l <out) $longest" "40002 300004"
grep '^\[1\] ' out | sed 1d | cut -c5- >got
seq 20000 >want
check "in their order" cmp -s got want
"$zero" run -n 2 -- yes 2>err | head -1 >out
check "a reader that goes away ends the job" grep -q '\[.\] y' out
{ "$zero" run -n 2 -- seq 20000 2>err; echo $? >code; } | { sleep 1; cat; } >out
check "a reader that pauses gets all the same" is "$(wc -l <out) $(cat code)" "40000 0"
mkfifo slow
exec 9<>slow # nobody reads it
: >pids
"$zero" run -n 2 -- sh -c "seq 20000; $say" >slow 2>err 9>&- </dev/null &
pid=$!
wait_pids 2
for _ in $(seq 40); do # the first signal may meet a rank
    kill -TERM $pid
    for _ in $(seq 10); do
        grep -q 'bytes' err && break 2
        sleep 0.05
    done
done
grep -q 'bytes' err || kill -KILL $pid
wait $pid
status=$?
exec 9>&-
check "a signal ends the wait for one that does not go on" is "$status" 143
check "and what is lost is counted" grep -qE '^zero run: [0-9]+ bytes .*lost' err
run -n 2 -- sh -c 'sleep 60 & echo $! >>left; echo done'
check "who is left in the background is not waited for" is "$(sort out | tr '\n' ,) $status" \
    "[0] done,[1] done, 0"
check "and lives on" sh -c 'kill $(cat left)'
if command -v script >/dev/null; then
    script -qec "'$zero' run -n 2 -- sh -c 'test -t 1 && echo terminal; echo rank'" /dev/null \
        </dev/null >out 2>err
    tr -d '\r' <out | sed 's/\x1b\[K//g' | sort >sorted
    printf '[1] rank\nrank\nterminal\n' | sort >want
    check "on a terminal rank 0 writes itself" cmp -s sorted want
else
    n=$((n + 1))
    echo "ok $n - on a terminal rank 0 writes itself # SKIP no program: script"
fi

# --- exit status
t=$(now_ms)
run -n 2 -- sh -c 'if [ $RANK = 1 ]; then kill -STOP $$; fi; sleep 0.3; exit 3'
t=$(($(now_ms) - t))
check "who is stopped when all others have failed is not waited for ($t ms)" [ "$t" -lt 8000 ]
check "and named" grep -qE '^zero run: rank 1 \(process [0-9]+\) is stopped and is killed' err
check "the status is that of the rank that failed" is "$status" 3
run -n 3 --grace 0 -- sh -c 'if [ $RANK = 1 ]; then exit 7; fi; exec sleep 50'
check "the status of the rank that failed" is "$status" 7
check "one line says which and how" \
    grep -qE '^zero run: rank 1 \(process [0-9]+\) ended first, with status 7' err
check "one line only" is "$(wc -l <err)" 1
run -n 2 -- sh -c 'if [ $RANK = 0 ]; then echo $$ >first; exit 0; fi
    for _ in $(seq 500); do # until the launcher knows that it has ended
        [ -s first ] && ! kill -0 "$(cat first)" 2>/dev/null && break
        sleep 0.02
    done
    exit 7'
check "not first where another had ended well" \
    grep -qE '^zero run: rank 1 \(process [0-9]+\) exited with status 7$' err
: >pids
t=$(now_ms)
run -n 3 --grace 0.2 -- sh -c "$say; if [ \$RANK = 2 ]; then kill -SEGV \$\$; fi; exec sleep 60"
t=$(($(now_ms) - t))
check "killed by a signal: 128 + 11" is "$status" 139
check "named" grep -qE '^zero run: rank 2 \(process [0-9]+\) was killed by signal 11' err
check "the others are ended soon after the grace time ($t ms)" [ "$t" -lt 1300 ]
check "and gone" gone
: >pids
t=$(now_ms)
run -n 2 --grace 0.2 -- sh -c "$say; trap '' TERM INT; sleep 60 & echo \$! >>pids
    if [ \$RANK = 1 ]; then kill -KILL \$\$; fi; wait; sleep 60"
t=$(($(now_ms) - t))
check "also those that ignore SIGTERM ($t ms)" [ "$t" -lt 1800 ]
check "with what they left in the background" gone
run -n 2 -- sh -c 'if [ $RANK = 0 ]; then sleep 0.02; exit 9; fi; kill -KILL $$'
check "an exit that answers a kill is not to blame" is "$status" 137
run -n 3 -- sh -c 'case $RANK in
    0) trap "echo told" TERM; sleep 1.5 & wait; echo slowly ;; 1) exit 7 ;; esac'
check "who ends by itself has the time for it" is "$(cat out)" "[0] slowly"
check "the status is that of the first all the same" is "$status" 7
check "and who looks on is told, once" is \
    "$(grep -c 'rank 1 .*status 7; the others have 15 s' err) $(wc -l <err)" "1 1"

# --- signals
signalled() { # signal processes options...: starts, waits for pids, signals, waits for the end
    sig=$1
    want=$2
    shift 2
    env --default-signal=INT,QUIT "$zero" run "$@" >out 2>err </dev/null &
    pid=$!
    wait_pids "$want"
    kill -"$sig" $pid
    wait $pid
    status=$?
}
: >pids
signalled INT 3 -n 3 -- sh -c "$say; exec sleep 60"
check "SIGINT: status 130" is "$status" 130
check "and all are gone" gone
: >pids
signalled TERM 2 -n 2 -- sh -c "$say; exec sleep 60"
check "SIGTERM: status 143" is "$status" 143
: >pids
signalled INT 4 -n 2 -- sh -c "trap 'echo bye; exit 0' INT; $say; sleep 60 & echo \$! >>pids; wait"
check "ranks may end in their own way" is "$(sort out | tr '\n' ,)" "[0] bye,[1] bye,"
check "with status 130 all the same" is "$status" 130
check "and leave nothing" gone
: >pids
t=$(now_ms)
signalled INT 2 -n 2 --grace 0.3 -- sh -c "trap '' INT TERM; $say; sleep 60; sleep 60"
t=$(($(now_ms) - t))
check "those that do not end are killed ($t ms)" [ "$t" -lt 4000 ]
check "for good" gone
: >pids
t=$(now_ms)
signalled INT 3 -n 2 -- sh -c "if [ \$RANK = 1 ]; then $say; exit 7; fi
    trap '' TERM INT; $say; while ! grep -q 'rank 1' err; do sleep 0.1; done; $say
    sleep 60; sleep 60"
t=$(($(now_ms) - t))
check "Ctrl-C when a rank has failed ends the others now ($t ms)" [ "$t" -lt 5000 ]
check "with the status of that rank" is "$status" 7
check "and all of them" gone
: >pids
signalled USR1 2 -n 2 -- sh -c "trap 'kill \$!; echo usr; exit 0' USR1; $say; sleep 60 & wait"
check "SIGUSR1 is passed on" is "$(sort out | tr '\n' ,)" "[0] usr,[1] usr,"
check "and does not end the job" is "$status" 0
: >pids
signalled KILL 2 -n 2 -- sh -c "$say; exec sleep 60"
check "ranks die with the launcher" gone
if command -v script >/dev/null; then
    : >pids
    { wait_pids 2; printf '\003'; sleep 0.5; } |
        script -qec "'$zero' run -n 2 -- sh -c \
            'echo \$\$ >>pids; printf \"\\rstep 1\"; exec sleep 60'" /dev/null >out 2>err
    status=$?
    check "Ctrl-C on a terminal: status 130" is "$status" 130
    check "and nothing is left" gone
else
    n=$((n + 1))
    echo "ok $n - Ctrl-C on a terminal # SKIP no program: script"
fi

# --- bad use
bad() { # what word options...: status 2 and a line with the word
    what=$1
    word=$2
    shift 2
    run "$@"
    check "$what" [ "$status" = 2 ]
    check "it says so" grep -qF -- "$word" err
}
bad "no ranks" "1 to 4096" -n 0 -- true
bad "negative ranks" "1 to 4096" -n -3 -- true
bad "too many ranks" "1 to 4096" -n 4097 -- true
bad "no number" "\"two\"" -n two -- true
bad "no time" "--grace is \"soon\": seconds from 0 to 1000000 are wanted" -n 2 --grace soon -- true
bad "-n missing" "-n N is missing" -- true
bad "program missing" "PROG is missing" -n 2
bad "unknown option" "--bindd" -n 2 --bindd -- true
bad "no such program" "no-such-program-x" -n 2 -- no-such-program-x
bad "no such path" "No such file" -n 2 -- ./no/such
bad "a folder" "folder" -n 2 -- /
echo 'echo hi' >script.sh
bad "not executable" "not executable" -n 2 -- ./script.sh
chmod +x script.sh
bad "no interpreter" "#!" -n 2 -- ./script.sh
bad "in this folder only" "./script.sh" -n 2 -- script.sh
cp "$zero" zero-copy 2>/dev/null && cp script.sh zero-helper && sed -i '1i #!/bin/sh' zero-helper
PATH=/usr/bin:/bin ./zero-copy run -n 2 --no-prefix -- zero-helper >out 2>err
check "a program beside zero is found" is "$(sort -u out)" hi
run -n 2 --bind --no-prefix -- sh -c 'grep Cpus_allowed_list /proc/self/status'
check "--bind runs" is "$status $(wc -l <out)" "0 2"
"$zero" rnu >out 2>err
check "an unknown command" is "$? $(grep -c 'did you mean "run"' err)" "2 1"
"$zero" --help >out 2>err
check "help fits a screen" [ "$(wc -l <out)" -le 24 ]
"$zero" run --help >out 2>err
check "so does the help of run" [ "$(wc -l <out)" -le 24 ]

# --- with the library
run -n 4 -- "$probe"
check "ranks of zero run find each other" is "$(sort out | tr '\n' ,)" \
    "[0] ranks 0 1 2 3,[1] ranks 0 1 2 3,[2] ranks 0 1 2 3,[3] ranks 0 1 2 3,"
for r in 0 1; do
    RANK=$r WORLD_SIZE=2 LOCAL_RANK=$r LOCAL_WORLD_SIZE=2 MASTER_ADDR=$(hostname) \
        MASTER_PORT=$((20000 + $$ % 20000)) TORCHELASTIC_RUN_ID=none "$probe" >out.$r 2>err &
done
wait
check "without zero run, as torchrun starts them" is "$(cat out.0 out.1 | sort -u)" "ranks 0 1"
run -n 1 -- "$probe"
check "one rank" is "$(cat out)" "ranks 0"
"$probe" >out 2>err
check "nothing set is one rank" is "$(cat out)" "ranks 0"
run -n 3 -- sh -c "if [ \$RANK = 2 ]; then $probe wait & sleep 0.4; kill -KILL \$!; wait; exit 6; fi
    exec $probe wait"
check "a dead rank is named by the others" is \
    "$(grep -cE '^\[[01]\] probe: rank 2 failed: its process [0-9]+ has ended' err)" 2

echo "1..$n"
exit $failed
