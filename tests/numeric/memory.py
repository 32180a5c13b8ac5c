# SPDX-License-Identifier: Apache-2.0
"""Memory of GPT-2 124M in bf16, measured. What model states reserve on a rank in each stage follows
the formulas of the ZeRO paper within 1 %; the resident memory of all ranks (Pss: shared pages count
once) is that, the plan of the step and what a tiny model's ranks have besides, within 5 %."""
import os
import re
import time

import support
from support import diag, ok, skip

# Tiny sequences: the step is short, and what is measured is not activations.
BIG = ["--preset", "124M", "--dtype", "bf16", "--seq", 16, "--batch", 1]
SMALL = ["--preset", "micro", "--seq", 16, "--batch", 1]
STATES = ("parameters", "gradients", "accumulators", "master", "momentum", "variance")


def formula(stage, parameters, ranks):
    """Bytes of each class on a rank: 16-bit parameters and gradients, fp32 master and moments."""
    def part(least):
        return 1 / ranks if stage >= least else 1
    bytes_each = {"parameters": 2 * part(3), "gradients": 2 * part(2), "accumulators": 0,
                  "master": 4 * part(1), "momentum": 4 * part(1), "variance": 4 * part(1)}
    return {name: parameters * x for name, x in bytes_each.items()}


def available():
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))


def near(got, want, part):
    return abs(got - want) <= part * want


# ---- Reserved ------------------------------------------------------------------------------------

def reserved(ranks):
    """The table of zero-gpt2: every stage takes a step."""
    what = f"124M on {ranks} rank{'s' * (ranks > 1)}"
    if available() < ranks * (3 << 30):
        skip(what, f"{ranks * 3} GiB of memory are needed")
        return
    job = support.Job([support.GPT2, *BIG, "--memory-table"], ranks).end(600)
    rows = re.findall(r"^(?:\[0\])?\s+([0-3])\s.*?(\d+)\s+(\d+)\s+(\d+)$", job.out, re.M)
    count = re.search(r"with (\d+) parameters", job.out)
    if not ok(job.status == 0 and count and [r[0] for r in rows] == list("0123"),
              what + " takes a step in every stage", job.story()):
        return
    for stage, by_formula, planned, got in ([int(x) for x in row] for row in rows):
        want = sum(formula(stage, int(count[1]), ranks).values())
        ok(near(got, want, 0.01) and got == planned and abs(by_formula - want) < ranks * 200,
           f"{what}, stage {stage}: {got} bytes reserved, by formula {want:.0f}: "
           f"{100 * (got / want - 1):+.3f} %", f"planned {planned}, its formula {by_formula}")


# ---- Resident ------------------------------------------------------------------------------------

def pss(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))


def sleeping(pid):
    """All threads of a process wait."""
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/stat", encoding="latin-1") as file:
            if file.read().rsplit(")", 1)[1].split()[0] != "S":
                return False
    return True


def hold(options, ranks, steps=2):
    """Takes some steps and holds: rank 0 opens a file for its weights that is a pipe nobody reads,
    the others wait for it. Returns the resident bytes of all ranks and the job."""
    weights = support.path("weights")
    if not os.path.exists(weights + ".part"):
        os.mkfifo(weights + ".part")
    job = support.Job([support.GPT2, *options, "--data", support.TEXT, "--val", 0,
                       "--steps", steps, "--weights-out", weights], ranks)
    until, quiet = time.monotonic() + 300, 0
    while quiet < 5 and job.process.poll() is None and time.monotonic() < until:
        time.sleep(0.1)
        pids = job.ranks()
        try:
            held = f"step {steps}/{steps}" in job.text("out") and all(map(sleeping, pids))
        except OSError:
            held = False
        quiet = quiet + 1 if held else 0
    resident = sum(map(pss, pids)) if quiet == 5 and len(pids) == ranks else 0
    job.kill()
    return resident, job.end()


def plan(options, ranks):
    """Bytes that all ranks reserved, by the report of rank 0: it is the same for every rank."""
    job = support.train([*options, "--data", support.TEXT, "--val", 0, "--steps", 1], ranks)
    if not job.summary:
        diag(job.story())
        return None, 0
    states = {row["class"]: row["reserved"] for row in job.summary["memory"]}
    return states, ranks * sum(states.values())


def resident(ranks, stage):
    what = f"124M on {ranks} ranks, stage {stage}"
    if available() < ranks * (3 << 30):
        skip(what + ": resident", f"{ranks * 3} GiB of memory are needed")
        return
    setting = ["--stage", stage]
    states, big = plan(BIG + setting, ranks)
    _, small = plan(SMALL + setting, ranks)
    if not ok(big and small, what + ": the report of a job"):
        return
    want = formula(stage, 124475904, ranks)
    ok(all(near(states.get(name, 0), want[name], 0.01) for name in STATES),
       what + ": every class of model states reserves what its formula says", states, want)
    have, job = hold(BIG + setting, ranks)
    base, job2 = hold(SMALL + setting, ranks)
    if ok(have and base, what + ": resident memory at a barrier", job.story(), job2.story()):
        base -= small
        ok(near(have, big + base, 0.05),
           f"{what}: {have >> 20} MiB resident; reserved {big >> 20} and {base >> 20} of a tiny "
           f"model: {100 * (have / (big + base) - 1):+.2f} %")


def main():
    if support.SANITIZED:
        support.skip_all("a sanitizer's memory is not the program's")
    for ranks in (1, 2, 4):
        reserved(ranks)
    for stage in range(4):
        resident(2, stage)
    support.done()


main()
