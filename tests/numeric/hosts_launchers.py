# SPDX-License-Identifier: Apache-2.0
"""Launchers over two hosts, which are network namespaces with names of their own: Open MPI's
mpirun, whose way to the other host is a script in the place of ssh, torchrun with two nodes,
torchrun's variables without torchrun, Slurm's srun with a node on each, and variables set by hand
with two ranks a host. Four ranks over UCX and libfabric train to the same bits as on one host."""
import contextlib
import os
import shutil
import stat

import namespaces
import slurm
import support
from namespaces import NET, Hosts, stories, weights
from support import GPT2, TEXT, Job, ok, skip

TRAIN = [GPT2, "--preset", "micro", "--data", TEXT, "--val", 0, "--batch", 1, "--steps", 20,
         "--stage", 3]
RANKS = 4  # two on each host
MPIRUN = "mpirun.openmpi"
TORCHRUN = os.environ.get("ZERO_TEST_TORCHRUN") or shutil.which("torchrun")


def variables(hosts, name):
    return {"ZERO_COMM": name, "ZERO_SECRET_FILE": hosts.secret, "ZERO_LOG": "info",
            "ZERO_TIMEOUT": "60"}


def by_hand(hosts, env, more=None):
    jobs = []
    for rank in range(RANKS):
        host, local = divmod(rank, RANKS // hosts.n)
        jobs.append(Job([*hosts.on(host), *TRAIN], 0, {
            **env, "RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": str(local),
            "LOCAL_WORLD_SIZE": str(RANKS // hosts.n), "MASTER_ADDR": f"{NET}.1",
            "MASTER_PORT": "29500", **(more or {})}))
    return jobs


def as_torchrun(hosts, env):
    """Its variables; it holds MASTER_PORT on its first node."""
    return by_hand(hosts, env, {
        "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0", "GROUP_RANK": "0"})


def torchrun(hosts, env):
    """Its options in the spelling that all versions know."""
    return [Job([*hosts.on(i), TORCHRUN, "--no_python", f"--nproc_per_node={RANKS // hosts.n}",
                 f"--nnodes={hosts.n}", f"--node_rank={i}", f"--master_addr={NET}.1",
                 "--master_port=29500", *TRAIN], 0, env) for i in range(hosts.n)]


def by_pmix(env):
    return {k: v for k, v in env.items() if k != "ZERO_SECRET_FILE"} | {"ZERO_INTERFACE": "eth0"}


def mpirun(hosts, env):
    """PMIx gives its ranks address, port and secret of rank 0; its hosts have two interfaces."""
    agent = support.path("agent")
    with open(agent, "w", encoding="ascii") as file:
        file.write("#!/bin/sh\n# HOST COMMAND...: as ssh\ncase $1 in\n")
        for i in range(hosts.n):
            words = " ".join("'" + word + "'" for word in hosts.on(i))
            file.write(f"node{i}) shift; exec {words} sh -c \"$*\" ;;\n")
        file.write("esac\nexit 1\n")
    os.chmod(agent, os.stat(agent).st_mode | stat.S_IXUSR)
    env = by_pmix(env)
    export = [word for name in [*env, "ZERO_PLUGIN_PATH", "LD_LIBRARY_PATH", "XDG_CACHE_HOME"]
              for word in ("-x", name)]
    where = ",".join(f"node{i}:{RANKS // hosts.n}" for i in range(hosts.n))
    return [Job([*hosts.on(0), MPIRUN, "--allow-run-as-root", "--oversubscribe", "--mca",
                 "plm_rsh_agent", agent, "--mca", "oob_tcp_if_include", "eth0", *export,
                 "-n", RANKS, "--host", where, *TRAIN], 0, env)]


def srun(own):
    return lambda hosts, env: [own.srun(RANKS, TRAIN, by_pmix(env))]


def main():
    namespaces.require()
    built = [name for name in ("ucx", "ofi")
             if os.path.exists(os.path.join(support.BUILD, ".libs", f"zero-comm-{name}.so"))]
    if not built:
        support.skip_all("neither ucx nor ofi was built: their libraries are missing")
    starts = [("variables set by hand", by_hand), ("torchrun's variables", as_torchrun)]
    if TORCHRUN:
        starts.append(("torchrun", torchrun))
    else:
        skip("torchrun, two hosts: the same bits", "torchrun is not installed")
    if not shutil.which(MPIRUN):
        skip("mpirun, two hosts: the same bits", "Open MPI is not installed")
    elif not support.has_pmix():
        skip("mpirun, two hosts: the same bits", "built without PMIx")
    else:
        starts.append(("mpirun", mpirun))
    here = Job(TRAIN, RANKS, {"ZERO_COMM": "shm"}).end(120)
    wanted = weights(here)
    ok(here.status == 0 and wanted, "zero run trains on one host", here.story())
    with contextlib.ExitStack() as stack:
        hosts = stack.enter_context(Hosts(2))
        if slurm.why_not():
            skip("srun, two hosts: the same bits", slurm.why_not())
        else:
            own = slurm.Slurm([slurm.Node(f"node{i}", f"{NET}.{1 + i}", hosts.on(i))
                               for i in range(hosts.n)])
            stack.callback(own.end)
            if ok(own.start(), "Slurm starts on two hosts", *own.said()):
                starts.append(("srun", srun(own)))
        for what, start in starts:
            for name in built:
                jobs = [job.end(120) for job in start(hosts, variables(hosts, name))]
                got = [weights(job) for job in jobs if weights(job)]
                said = "".join(job.err for job in jobs)
                ok(got == [wanted] and all(job.status == 0 for job in jobs),
                   f"{what}, two hosts, {name}: the same bits as on one", *stories(jobs))
                ok(f"listens at {NET}.1:" in said, "rank 0 listens for the other host",
                   *stories(jobs))
    support.done()


main()
