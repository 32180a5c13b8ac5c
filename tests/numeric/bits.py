# SPDX-License-Identifier: Apache-2.0
"""The founding promise at the level of a whole program: 100 steps of GPT-2 end in the same bits (30
where it is one of many tests: what differs does so in the first steps, or when a scale moves).

What may change the bits is the number of ranks, the types of the parameters and of the optimizer's
states, how many micro-batches a step has and when they are reduced, and clipping; runs that agree
in these form a group. Everything else must not change them. Without arguments: a cover of some 60
runs in which any two values of any two settings meet, in pairs of one group that differ in
everything else, and one run again and again.

--all: every placement in every stage of every group, with recomputation and without, each with
other settings of what is left, drawn by chance and always the same; types of states and clipping
are drawn for each group; hours. Results are kept in the build tree by setting and by the contents
of the programs, so that it can be stopped and goes on.
--all ranks=2 isa=avx2 restricts settings; part=3/8 is every eighth one, seconds=400 stops by
itself; what is kept of others is compared, too. --all --every: every combination, which is days.
350M in all placements is a part of larger.py.
"""
import hashlib
import itertools
import json
import os
import random
import subprocess
import sys
import time

import support
from support import diag, ok

STEPS = 100 if "--all" in sys.argv or support.WHOLE else 30
# From the first to the last request of a job: every one is cut short, every other one is late, and
# every third call finds the disk busy.
FAULTS = "busy:every=3:times=0,cut=4096:times=0,delay=1:every=2:times=0"
SOME = "optimizer:cpu+nvme,activations:nvme"
GROUP = {"ranks": [1, 2, 3, 4], "dtype": ["fp32", "bf16", "fp16"], "accum": [1, 3],
         "reduce_at": ["micro", "boundary"], "state_dtype": ["fp32", "bf16"], "clip": [1, 0]}
FREE = {"stage": [0, 1, 2, 3], "bucket_bytes": ["64K", "1M", "64M"],
        "prefetch_bytes": ["0", "128M"], "threads": [1, 2, 3],
        "isa": ["scalar", "avx2", "avx512"], "recompute": [False, True],
        "map": [0, 1], "update_at": ["end", "backward"],
        "offload": ["", "optimizer:cpu", "optimizer:nvme", "parameters:cpu,gradients:cpu",
                    "parameters:nvme,gradients:nvme,optimizer:nvme",
                    "parameters:cpu:0.6+nvme:0.4,gradients:device:0.4+nvme:0.6,"
                    "optimizer:device:0.3+cpu:0.3+nvme:0.4",
                    "activations:cpu", "activations:cpu:0.5+nvme:0.5,optimizer:cpu",
                    # as much as there is room for: in a host memory that has too little for all of
                    # the states, on a device that is too small by half of them. What a disk needs
                    # of the host's memory in any case is there for the activations: it is more than
                    # micro's states.
                    SOME, "auto",
                    "parameters:fault,gradients:fault,optimizer:fault,activations:fault",
                    # a system that does a part, is interrupted and wants to be asked again
                    "parameters:shaky,gradients:shaky,optimizer:shaky,activations:shaky"]}
CROSSED = ("stage", "recompute", "offload")  # with each other and all groups, by --all
DRAWN = ("state_dtype", "clip")  # of a group, not crossed
STATES = ("master", "momentum", "variance")
MOST_RUNS = 66


def isas():
    """Those that this processor has: the library refuses the others."""
    def works(isa):
        job = support.train(["--preset", "micro", "--data", support.TEXT, "--steps", 0,
                             "--val", 0], env={"ZERO_ISA": isa})
        return job.status == 0
    return [i for i in FREE["isa"] if i == "scalar" or works(i)]


def text(run):
    return " ".join(f"{k}={v}" for k, v in run.items())


def small_device(run, options, env):
    """The limit of a device on which half of the optimizer's states have no room."""
    job = support.train([*options, "--steps", 0], run["ranks"], {**env, "ZERO_OFFLOAD": ""}, 300)
    rows = job.summary["memory"] if job.summary else []
    needs = sum(r["reserved"] for r in rows)
    return ("device:"
            f"{(needs - sum(r['reserved'] for r in rows if r['class'] in STATES) // 2) >> 10}K")


def states_on(tier, rows):
    return sum(r["reserved"] for r in rows if r["tier"] == tier and r["class"] in STATES)


def small_host(run, options, env):
    """The limit of a host's memory that has room for a disk's tiles and for some of the states
    beside them, and not for all; and what these are on the disk, if all are."""
    rows = []
    for tier in ("nvme", "cpu"):
        job = support.train([*options, "--steps", 0], run["ranks"],
                            {**env, "ZERO_OFFLOAD": f"optimizer:{tier},activations:nvme"}, 300)
        rows.append(job.summary["memory"] if job.summary else [])
    tiles, states = (sum(r["reserved"] for r in x if r["tier"] == "cpu") for x in rows)
    return f"cpu:{(tiles + 3 * states) // 4 >> 10}K", states_on("nvme", rows[0])


def is_where(run, rows, states):
    """What fills its tiers has left the device; `states`: of these some lie on the disk, and not
    all."""
    if run["offload"] == SOME:
        return 0 < states_on("nvme", rows) < states and not states_on("device", rows)
    return run["offload"] != "auto" or len({r["tier"] for r in rows if r["reserved"]}) > 1


def result(run):
    """Hash of the weights, and of all losses and norms on the way; or None."""
    options = ["--preset", "micro", "--data", support.TEXT, "--val", 0, "--batch", 1,
               "--steps", STEPS, "--clip", run["clip"], "--dtype", run["dtype"],
               "--stage", run["stage"],
               "--accum", run["accum"]] + ["--recompute"] * run["recompute"]
    env = {"ZERO_" + name.upper(): str(run[name])
           for name in ("reduce_at", "bucket_bytes", "prefetch_bytes", "threads", "isa", "map",
                        "offload", "state_dtype", "update_at")}
    # With fp16 the loss scale grows until a step overflows, so that skipped steps are compared too.
    env.update({"ZERO_LOSS_SCALE_WINDOW": str(STEPS // 5), "ZERO_TIMEOUT": "60"})
    if any(name in run["offload"] for name in ("nvme", "fault", "shaky", "auto")):
        # Two tiles at once are fewer than there are, so that their places are used again.
        env.update({"ZERO_NVME_PATH": support.FOLDER, "ZERO_TILE_BYTES": "32K",
                    "ZERO_TEST_TILES": "2", "ZERO_FAULT_OFFLOAD": "nvme", "ZERO_FAULT_IO": FAULTS})
    if "shaky" in run["offload"]:
        env["ZERO_PLUGIN_PATH"] = ":".join(os.path.abspath(os.path.join(support.BUILD, f))
                                           for f in (".libs", "tests/plugin/.libs"))
    states = 0
    if run["offload"] == "auto":
        env["ZERO_MEMORY_LIMIT"] = small_device(run, options, env)
    elif run["offload"] == SOME:
        env["ZERO_MEMORY_LIMIT"], states = small_host(run, options, env)
    job = support.train(options, run["ranks"], env, 300)
    if job.status != 0 or not job.summary or len(job.steps) != STEPS \
            or not is_where(run, job.summary["memory"], states):
        diag(text(run), job.story(), *(job.summary or {}).get("memory", ()))
        return None
    way = json.dumps([[s["loss"], s["grad_norm"]] for s in job.steps])
    return [job.summary["weights_hash"], hashlib.sha256(way.encode()).hexdigest()[:16],
            sum(s["grad_norm"] is None for s in job.steps)]


def possible(run):
    """Updates beside the backward pass do not know the norm: where that is needed they are at the
    end."""
    return run if run["clip"] == 0 and run["dtype"] != "fp16" else {**run, "update_at": "end"}


# ---- The cover -----------------------------------------------------------------------------------

def pairs(run):
    return set(itertools.combinations(sorted((k, str(v)) for k, v in run.items()), 2))


def cover(free):
    """Pairs of runs, each the best of some random ones. All pairs of values must occur."""
    rng = random.Random(3)
    factors = {**GROUP, **free}
    missing = set().union(*(itertools.product([(a, str(x)) for x in factors[a]],
                                              [(b, str(y)) for y in factors[b]])
                            for a, b in itertools.combinations(sorted(factors), 2)))
    missing -= {p for p in missing if ("update_at", "backward") in p and
                {("clip", "1"), ("dtype", "fp16")} & set(p)}
    runs = []
    while missing and len(runs) < MOST_RUNS:
        best = None
        for _ in range(1000):
            group = {k: rng.choice(v) for k, v in GROUP.items()}
            two = {k: rng.sample(v, 2) if len(v) > 1 else v * 2 for k, v in free.items()}
            one, other = (possible({**group, **{k: v[i] for k, v in two.items()}})
                          for i in range(2))
            gain = len(missing & (pairs(one) | pairs(other)))
            if best is None or gain > best[0]:
                best = gain, one, other
        runs += best[1:]
        missing -= pairs(best[1]) | pairs(best[2])
    return runs, missing


def group_of(run):
    return tuple((k, run[k]) for k in GROUP)


def compare(runs, results):
    """One test for each group."""
    groups = {}
    for run, value in zip(runs, results):
        groups.setdefault(group_of(run), []).append((run, value))
    for group, members in groups.items():
        values = [value for _, value in members]
        ok(None not in values and all(v == values[0] for v in values),
           f"{text(dict(group))}: {len(members)} runs end in the same bits",
           *(f"{value} {text(run)}" for run, value in members if value != values[0] or
             run is members[0][0]))
        if dict(group)["dtype"] == "fp16":
            ok(None in values or values[0][2] > 0, "among them skipped steps: the loss scale moved")


def repeat(run, times):
    values = [result(run) for _ in range(times)]
    ok(None not in values and all(v == values[0] for v in values),
       f"{times} times the same run, the same bits: {text(run)}", *values)


# ---- All of them ---------------------------------------------------------------------------------

def binaries():
    """What the results depend on."""
    digest = hashlib.sha256()
    libs = os.path.join(support.BUILD, ".libs")
    for file in [support.GPT2] + sorted(os.path.join(libs, f) for f in os.listdir(libs)
                                        if f.endswith(".so")):
        with open(file, "rb") as content:
            digest.update(content.read())
    return digest.hexdigest()[:16]


def combinations(factors, every):
    crossed = [name for name in factors
               if every or (name in GROUP and name not in DRAWN) or name in CROSSED]
    for values in itertools.product(*(factors[name] for name in crossed)):
        run = dict(zip(crossed, values))
        of_group = random.Random(text({k: v for k, v in run.items() if k in GROUP}))
        run |= {name: of_group.choice(factors[name]) for name in DRAWN if name not in run}
        rng = random.Random(text(run))
        yield possible({name: run[name] if name in run else rng.choice(factors[name])
                        for name in factors})


def run_all(free, only, every):
    part, parts = map(int, only.pop("part", "1/1").split("/"))
    until = time.monotonic() + float(only.pop("seconds", "inf"))
    factors = {**GROUP, **free}
    for name, value in only.items():
        factors[name] = [v for v in factors.get(name, []) if str(v) == value]
    runs = list(combinations(factors, every))
    if not runs or not 1 <= part <= parts:
        support.bail(f"no such combination: {text(only)} part={part}/{parts}")
    random.Random(1).shuffle(runs)  # a fault shows early wherever it is
    mine = {text(run) for run in runs[part - 1::parts]}
    os.makedirs(os.path.join(support.BUILD, "tests/numeric"), exist_ok=True)
    file = os.path.join(support.BUILD, f"tests/numeric/bits-{binaries()}.json")
    known = {o["run"]: o["result"] for o in support.objects(file)} if os.path.exists(file) else {}
    diag(f"{len(mine)} of {len(runs)} combinations; results are kept in {file}")
    done, first = 0, {}
    with open(file, "a", encoding="utf-8", buffering=1) as kept:
        for run in runs:
            name = text(run)
            done += name in mine and (name in known or time.monotonic() < until)
            if name in mine and name not in known and time.monotonic() < until:
                known[name] = result(run)
                if known[name]:
                    kept.write(json.dumps({"run": name, "result": known[name]}) + "\n")
            if name in known and known[name] != first.setdefault(group_of(run), known[name]):
                diag(f"differs: {name}: {known[name]}, not {first[group_of(run)]}")
            if sys.stderr.isatty():
                sys.stderr.write(f"\r\033[K{done}/{len(mine)} {name}")
    runs = [run for run in runs if text(run) in known]
    diag(f"{done} of {len(mine)} are done; {len(runs)} are compared")
    compare(runs, [known[text(run)] for run in runs])
    if runs and done == len(mine) and part == parts:
        repeat(runs[-1], 20)


def main():
    free = dict(FREE, isa=isas())
    words = [a for a in sys.argv[1:] if a != "--every"]
    if words[:1] == ["--all"]:
        run_all(free, dict(a.split("=", 1) for a in words[1:]), len(words) < len(sys.argv) - 1)
    else:
        runs, missing = cover(free)
        ok(not missing and len(runs) <= MOST_RUNS, f"{len(runs)} runs cover all pairs of values",
           missing)
        if support.SANITIZED:
            runs = runs[:4]
        compare(runs, [result(run) for run in runs])
        repeat(runs[1], 20 if support.WHOLE else 3 if support.SANITIZED else 6)
    support.done()


main()
