# SPDX-License-Identifier: Apache-2.0
"""The same program, the same bits, whoever starts the ranks: zero run, variables set by hand, with
addresses of both kinds, as torchrun sets them, torchrun itself, Open MPI's mpirun and Slurm's srun.
Each of them starts 2, 3 and 4 ranks in stages 0 to 3, over shm and the networks that are built,
these in shared memory and by tcp, so that any two of these meet; mpirun and srun so many ranks over
each of them."""
import atexit
import contextlib
import os
import secrets
import shutil
import socket

import slurm
import support
from support import GPT2, TEXT, Job, ok, skip

TRAIN = [GPT2, "--preset", "micro", "--data", TEXT, "--val", 0, "--batch", 1, "--steps", 20]
# torchrun, where it is not in PATH
TORCHRUN = os.environ.get("ZERO_TEST_TORCHRUN") or shutil.which("torchrun")
SECRET = support.path("secret")
BY_PMIX = ("mpirun", "srun")
TRANSPORTS = {
    "shm": {"ZERO_COMM": "shm"},
    "ucx": {"ZERO_COMM": "ucx"},
    "ofi": {"ZERO_COMM": "ofi"},
    "ucx, tcp": {"ZERO_COMM": "ucx", "UCX_TLS": "tcp,self"},
    "ofi, tcp": {"ZERO_COMM": "ofi", "ZERO_OFI_PROVIDER": "tcp"},
}


def weights(jobs):
    """What rank 0 ends with; None when a rank failed."""
    for job in jobs:
        if job in support.JOBS:
            job.end(120)
    found = [line.split("Weights ")[1].split()[0] for job in jobs
             for line in job.out.splitlines() if "Weights " in line]
    return found[0] if found and all(job.status == 0 for job in jobs) else None


def in_stage(stage, jobs):
    """Has rank 0 trained in that stage?"""
    return any(f", stage {stage}, " in job.out for job in jobs)


def free_port():
    """One that is free, and the next one too."""
    while True:
        with contextlib.ExitStack() as stack:
            first, second = (stack.enter_context(socket.socket()) for _ in range(2))
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            with contextlib.suppress(OSError, OverflowError):
                second.bind(("127.0.0.1", port + 1))
                return port


def by_hand(ranks, env=None, address="127.0.0.1", port=0):
    port = port or free_port()
    return [Job(TRAIN, 0, {"RANK": str(r), "WORLD_SIZE": str(ranks), "MASTER_ADDR": address,
                           "MASTER_PORT": str(port), **(env or {})}) for r in range(ranks)]


def by_tcp(ranks, env=None, address="127.0.0.1"):
    more = {"ZERO_RENDEZVOUS": "tcp", "ZERO_SECRET_FILE": SECRET}
    return by_hand(ranks, more | (env or {}), address)


def as_torchrun(ranks, env=None):
    """Its variables, and it holds MASTER_PORT."""
    port = free_port()
    with socket.socket() as held:
        held.bind(("127.0.0.1", port))
        held.listen()
        jobs = by_hand(ranks, {
            "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "0",
            "LOCAL_WORLD_SIZE": str(ranks), "ZERO_RENDEZVOUS": "tcp", "ZERO_SECRET_FILE": SECRET,
            **(env or {})}, port=port)
        for job in jobs:
            job.end(120)
    return jobs


def torchrun(ranks, env=None):
    """Its options in the spelling that all versions know."""
    return [Job([TORCHRUN, "--no_python", f"--nproc_per_node={ranks}",
                 f"--master_port={free_port()}", *TRAIN], 0, env)]


def mpirun(ranks, env=None):
    return [Job(["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", ranks, *TRAIN],
                0, env)]


def is_built(name):
    return os.path.exists(os.path.join(support.BUILD, ".libs", f"zero-comm-{name}.so"))


def has_ipv6():
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as s:
        s.bind(("::1", 0))
        return True
    return False


def main():
    with open(os.open(SECRET, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
        file.write(secrets.token_hex(32))
    wanted = {ranks: weights([Job(TRAIN, ranks)]) for ranks in (2, 3, 4)}
    ok(all(wanted.values()), "zero run trains")

    def same(what, jobs, ranks=2, stage=None):
        got = weights(jobs)
        ok(got == wanted[ranks] and (stage is None or in_stage(stage, jobs)),
           f"{what}: the same bits", got, *(job.story() for job in jobs))

    same("variables set by hand", by_hand(2))
    same("by TCP", by_tcp(2))
    if has_ipv6():
        same("by TCP, IPv6", by_tcp(2, address="::1"))
        same("by TCP, IPv6 in brackets", by_tcp(2, address="[::1]"))
    else:
        skip("by TCP, IPv6", "this machine has no IPv6")
    starts = [("by hand", by_hand), ("by TCP", by_tcp), ("as torchrun starts them", as_torchrun)]
    if TORCHRUN:
        starts.append(("torchrun", torchrun))
    else:
        skip("torchrun: the same bits", "torchrun is not installed")
    if not shutil.which("mpirun.openmpi"):
        skip("mpirun: the same bits", "Open MPI is not installed")
    elif not support.has_pmix():
        skip("mpirun: the same bits", "built without PMIx")
    else:
        starts.append(("mpirun", mpirun))
    if slurm.why_not():
        skip("srun: the same bits", slurm.why_not())
    else:
        own = slurm.Slurm([slurm.Node(socket.gethostname().split(".")[0], "127.0.0.1", [])])
        atexit.register(own.end)  # before what it holds is removed
        if ok(own.start(), "Slurm starts", *own.said()):
            starts.append(("srun", lambda ranks, env: [own.srun(ranks, TRAIN, env)]))
    transports = {what: env for what, env in TRANSPORTS.items() if is_built(env["ZERO_COMM"])}
    for i, (what, start) in enumerate(starts):
        for t, (name, env) in enumerate(transports.items()):
            stage, some = (i + t) % 4, 2 + (i + 2 * t) % 3
            for ranks in (2, 3, 4) if what in BY_PMIX and not support.SHORT else (some,):
                same(f"{what}, {ranks} ranks over {name} in stage {stage}",
                     start(ranks, {**env, "ZERO_STAGE": str(stage)}), ranks, stage)
    for what, start in starts:
        if what in BY_PMIX and is_built("ucx"):
            same(f"{what}, by TCP as on several hosts",
                 start(4, {"ZERO_RENDEZVOUS": "tcp", "ZERO_COMM": "ucx"}), 4)
    support.done()


main()
