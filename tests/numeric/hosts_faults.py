# SPDX-License-Identifier: Apache-2.0
"""A rank on another host is stopped, or leaves an operation out, over UCX and libfabric: every
other rank names it within 5 s, or within its deadline and 1 s. Hosts are network namespaces."""
import contextlib
import os
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import namespaces
import support
from namespaces import Hosts, stories
from support import TEXT, diag, ok

TRAIN = ["--preset", "micro", "--data", TEXT, "--batch", 1, "--val", 0, "--stage", 3, "--steps",
         1000000]
HOSTS = 3
STOPPED_S = 5
TIMEOUT_S = 5


def until(true, seconds=60):
    """When it was first seen to be; None: not in time."""
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    return time.monotonic() if true() else None


def stop(jobs, victim):
    for pid in jobs[victim].ranks():
        os.kill(pid, signal.SIGSTOP)
    return time.monotonic()


def skips(jobs, victim):
    return until(lambda: f"rank {victim}: fault: skip" in jobs[victim].text("err"))


class Case:
    """What happens to one rank of a job of its own, and how long the others may take to name it."""

    def __init__(self, what, victim, begin, limit, env):
        self.what, self.victim, self.begin, self.limit, self.env = what, victim, begin, limit, env
        self.hosts, self.jobs, self.good, self.seconds = None, [], False, []

    def run(self):
        self.jobs = self.hosts.start(TRAIN, self.env)
        others = [job for rank, job in enumerate(self.jobs) if rank != self.victim]
        trains = until(lambda: "step 1/" in self.jobs[0].text("out"))
        start = self.begin(self.jobs, self.victim)
        # Where it goes on, its next operation is compared with another one of its peers'.
        said = re.compile(rf"rank {self.victim}\b.* failed|"
                          rf"ranks \d and {self.victim} posted different collectives")
        named = [until(lambda job=job: said.search(job.text("err")), 40) for job in others]
        self.jobs[self.victim].kill()
        for job in self.jobs:
            job.end(40)
        if trains and start and all(named):
            self.seconds = [when - start for when in named]
        self.good = self.seconds and max(self.seconds) < self.limit and \
            all(job.status == 1 for job in others)

    def tell(self):
        diag(f"{self.what}: named after {', '.join(f'{s:.1f} s' for s in self.seconds)}")
        ok(self.good, f"{self.what}: every other rank names it within {self.limit} s",
           *stories(self.jobs))


def cases(name):
    yield Case(f"{name}, rank 2 of {HOSTS} hosts is stopped", 2, stop, STOPPED_S,
               {"ZERO_COMM": name})
    if not support.SHORT:
        yield Case(f"{name}, rank 0 of {HOSTS} hosts is stopped", 0, stop, STOPPED_S,
                   {"ZERO_COMM": name})
    below = {"ZERO_COMM": "fault", "ZERO_FAULT_COMM": name, "ZERO_TIMEOUT": str(TIMEOUT_S)}
    skip = "skip:rank=2:n=100"
    yield Case(f"{name}, rank 2 of {HOSTS} hosts leaves an operation out", 2, skips, TIMEOUT_S + 1,
               {**below, "ZERO_FAULT": skip})
    # So that nothing which comes after it tells: only the deadline of those who wait.
    yield Case(f"{name}, rank 2 of {HOSTS} hosts leaves an operation out, and comes to no other", 2,
               skips, TIMEOUT_S + 1, {**below, "ZERO_FAULT": f"{skip},delay=30000:rank=2:n=101"})


def main():
    namespaces.require()
    built = [name for name in ("ucx", "ofi")
             if os.path.exists(os.path.join(support.BUILD, ".libs", f"zero-comm-{name}.so"))]
    if not built:
        support.skip_all("neither ucx nor ofi was built: their libraries are missing")
    everything = [case for name in built for case in cases(name)]
    with contextlib.ExitStack() as stack:
        for case in everything:
            case.hosts = stack.enter_context(Hosts(HOSTS))
        with ThreadPoolExecutor(2) as pool:  # most of it is waiting
            list(pool.map(Case.run, everything))
    for case in everything:
        case.tell()
    support.done()


main()
