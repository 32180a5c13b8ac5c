#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# GPT-2 under Slurm's srun with PMIx, on a Slurm of this machine alone that the test starts and ends:
# controller, node and munge with files, keys and ports of their own. slurmd needs root.
# shellcheck source=../tap.sh
. "${ZERO_TEST_TOP:?}/tests/tap.sh"
[ "$(id -u)" = 0 ] || skip_all 'not root'
for program in slurmctld slurmd srun munged; do
    command -v $program >/dev/null || skip_all "Slurm is not installed: $program is missing"
done
grep -q '^#define HAVE_PMIX 1' "${ZERO_TEST_BUILD:?}/config.h" || skip_all 'built without PMIx'
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT ZERO_JOB
tmp=$(mktemp -d) || exit 99
daemons=''
end() {
    # shellcheck disable=SC2086 # a list
    [ -z "$daemons" ] || kill $daemons 2>/dev/null
    wait
    rm -rf "$tmp"
}
trap end EXIT
host=$(hostname -s)
port=$((20000 + $$ % 10000))

# Numbers of jobs are of this run: a Slurm that was killed leaves a folder /tmp/spmix_appdir_UID_JOB,
# and the next job of that number does not start.
mkdir "$tmp/munge" "$tmp/state" "$tmp/spool"
chmod 711 "$tmp" "$tmp/munge"
(umask 077 && head -c 128 /dev/urandom > "$tmp/munge/key")
cat > "$tmp/slurm.conf" <<END
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$tmp/munge/socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
StateSaveLocation=$tmp/state
SlurmdSpoolDir=$tmp/spool
SlurmctldPidFile=$tmp/slurmctld.pid
SlurmdPidFile=$tmp/slurmd.pid
SlurmctldLogFile=$tmp/slurmctld.log
SlurmdLogFile=$tmp/slurmd.log
ReturnToService=2
FirstJobId=$(($$ % 60000 + 1000))
NodeName=$host NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
END
echo 'CgroupPlugin=cgroup/v1' > "$tmp/cgroup.conf"
SLURM_CONF=$tmp/slurm.conf
export SLURM_CONF
munged --foreground --force --socket="$tmp/munge/socket" --key-file="$tmp/munge/key" \
    --log-file="$tmp/munge/log" --pid-file="$tmp/munge/pid" --seed-file="$tmp/munge/seed" \
    > "$tmp/munge.out" 2>&1 &
daemons="$daemons $!"
slurmctld -D > "$tmp/slurmctld.out" 2>&1 &
daemons="$daemons $!"
slurmd -D -N "$host" > "$tmp/slurmd.out" 2>&1 &
daemons="$daemons $!"

# The daemons write more than a terminal should see.
said() {
    for file in "$tmp"/*.log "$tmp"/*.out "$tmp"/munge/log; do
        echo "$file:"
        tail -n 15 "$file"
    done
}
ready() {
    for _ in $(seq 100); do
        sinfo -h -o %T 2>/dev/null | grep -q '^idle' && return 0
        sleep 0.2
    done
    said
    return 1
}
# trained COMMAND...: zero-gpt2, started by the command.
trained() {
    "$@" "$ZERO_TEST_BUILD/zero-gpt2" --preset micro --steps 20 --val 0 --batch 1 \
        --data "$ZERO_TEST_TOP/LICENSE"
}
# zero-gpt2 by srun on N tasks.
train() {
    n=$1
    shift
    trained timeout 120 srun --mpi=pmix -n "$n" "$@" > "$tmp/got" 2> "$tmp/err" ||
        { cat "$tmp/got" "$tmp/err"; said; return 1; }
}
# same_bits N: as zero run has them on so many ranks.
same_bits() {
    [ -s "$tmp/wanted.$1" ] ||
        trained "$ZERO_TEST_BUILD/zero" run -n "$1" -- > "$tmp/wanted.$1" 2> "$tmp/err" ||
        { cat "$tmp/wanted.$1" "$tmp/err"; return 1; }
    wanted=$(sed -n 's/.*Weights //p' "$tmp/wanted.$1")
    got=$(sed -n 's/.*Weights //p' "$tmp/got")
    echo "got $got, want $wanted"
    [ -n "$got" ] && [ "$got" = "$wanted" ]
}

ok 'Slurm starts' ready
for stage in 0 1 2 3; do
    n=$((2 + stage % 3))
    ok "srun --mpi=pmix trains on $n ranks in stage $stage" train $n env ZERO_STAGE=$stage
    ok 'in that stage' grep -q ", stage $stage, " "$tmp/got"
    ok 'to the same bits as zero run' same_bits $n
done
ok 'srun trains over TCP and UCX, as on several hosts' train 4 env ZERO_RENDEZVOUS=tcp ZERO_COMM=ucx
ok 'to the same bits' same_bits 4
done_testing
