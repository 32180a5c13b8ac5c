# SPDX-License-Identifier: Apache-2.0
"""libzero alone beside what limits it, as `zero bench` measures both."""
import os

import programs
from figures import EXPOSED_MOST
from optimizer import GRADIENTS
from training import RANKS

CACHED_MOST = 64 << 20
COMPARED_LEAST = 1 << 20  # by two ranks and by many
GROWTH_LEAST = 16 << 20
TURNS_MOST = 16 << 20
BLOCK_REPS = 5  # that zero bench coll makes of one loop in a row where caches matter
# Times a message, what `zero bench coll` wants of each rank: where operations go, and as much for
# the limits, once in private and once in shared memory; cold twice, and of one operation at a time.
NEEDED = {"limited": 6, "alone": 2, "limited cold": 8, "alone cold": 4}


def memory_bytes():
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")


def limits_coll(scale, ranks, memory):
    """Each rank has a source and a destination in shared memory, and both again for the limit;
    "map" is the gather that moves nothing. In place and fresh only what may fit into caches
    differs; cold, on other memory each time, shows whether the time of a byte grows with the
    message where no cache helps the small ones, and whether that of plain loops does. Beyond the
    caches nobody asks for ranks that share cores, and a round of eight took six minutes."""
    moving, sums = ("all_gather", "reduce_scatter"), ("all_reduce",)
    alone = ("all_gather", "map", "reduce_scatter")
    greatest = max(scale.limit_sizes) if ranks <= len(programs.cores()) else CACHED_MOST
    plans = {"again": [("", [], (alone, sums), 0, greatest),
                       (" in place", ["--in-place"], (moving, sums), 0, CACHED_MOST)],
             "fresh": [("", ["--fresh"], (moving, sums), 0, CACHED_MOST),
                       (" in place", ["--fresh", "--in-place"], (moving, sums), 0, CACHED_MOST)],
             "cold": [("", ["--cold"], tuple((op,) for op in moving), GROWTH_LEAST,
                       max(scale.limit_sizes))]}[memory]
    found = {}
    for where, options, groups, least, largest in plans:
        wanted = [size for size in scale.limit_sizes if least <= size <= largest]
        for some, reps, warmup, more in batches(scale, ranks, wanted, memory == "cold"):
            for ops in groups if some else ():
                command = ["./zero", "bench", "coll", "--comm", "shm", "-n", ranks, "--op",
                           ",".join(ops), "--bytes", ",".join(map(str, some)), "--reps", reps,
                           "--warmup", warmup, "--json", *options, *more]
                for r in programs.records_of(command, 2 * scale.limit_s):
                    if r["op"] == "map":
                        r |= {"limit_loop": "flags alone", "also": ("wire_bytes",)}
                    elif "huge_pages_percent" in r:
                        r["also"] = ("huge_pages_percent",)
                    found[f"{r['op']}{where} {r.get('wanted_bytes', r['bytes'])}"] = r
        for op in [op for ops in groups for op in ops]:
            for size in wanted:
                found.setdefault(f"{op}{where} {size}", "its memory is more than there is")
    if ranks > 2 * len(programs.cores()):
        found |= by_two(scale)
    return found


def by_two(scale):
    """Beside many ranks on few cores, in the same round: does the time of a byte collapse?"""
    sizes = [size for size in scale.limit_sizes if COMPARED_LEAST <= size <= CACHED_MOST]
    command = ["./zero", "bench", "coll", "--comm", "shm", "-n", 2, "--op",
               "all_gather,reduce_scatter", "--bytes", ",".join(map(str, sizes)), "--reps",
               scale.limit_samples, "--no-limit", "--json"]
    return {f"{r['op']} by 2 ranks {r['bytes']}": r
            for r in programs.records_of(command, scale.limit_s)}


def batches(scale, ranks, sizes, cold):
    """(sizes, repetitions, warm-up, further options): without limits where memory is too little for
    them, in every round alike. Where caches matter operation and loops take turns by several
    repetitions; up to TURNS_MOST there are so many that each of eight comes first once."""
    most = memory_bytes() * 0.75
    fits = {limited: [size for size in sizes if ranks * size * (
        NEEDED[limited + " cold" * cold] + 1 / ranks) < most] for limited in ("limited", "alone")}
    some = fits["limited"]
    blocks = 3 if ranks <= len(programs.cores()) else 2
    few, turns = scale.limit_samples // 2 + 1, 8 * BLOCK_REPS if scale.limit_samples > 3 else 10
    yield [s for s in some if s <= TURNS_MOST], turns, 3, []
    yield [s for s in some if TURNS_MOST < s <= CACHED_MOST], blocks * BLOCK_REPS, 1, []
    yield [s for s in some if s > CACHED_MOST], few, 1, []
    yield [s for s in fits["alone"] if s not in some], few, 1, ["--no-limit"]


def limits_optimizer(scale, threads):
    env, found = programs.environment(ZERO_THREADS=str(threads)), {}
    for grad, name in GRADIENTS.items():
        command = ["./zero", "bench", "optimizer", "--params", scale.params, "--threads", threads,
                   "--grad-dtype", name, "--reps", 7, "--json"]
        for r in programs.records_of(command, scale.limit_s, env, programs.cores()[:threads]):
            found[f"{r['op']}, gradients {grad}"] = r
    return found


def limits_step(scale):
    command = ["./zero", "bench", "step", "--preset", scale.preset, "--stage", 3, "--seq",
               scale.seq, "--batch", 1, "--steps", scale.limit_steps, "--json"]
    found = {}
    for end, env in (("", {}), (", ZERO_MAP=0", {"ZERO_MAP": "0"})):
        some = programs.records_of(command, scale.limit_s, programs.environment(**env),
                                   programs.cores()[:RANKS])
        some = {r["op"]: r for r in some}
        some["step"]["limit_loop"] = "without its waits"
        some["collectives"]["also"] = ("percent_beside_computing",)
        norm = some.pop("norm", {"median_s": 0})  # is waited for, too, in the update
        some["exposed"]["median_s"] += norm["median_s"]
        some["exposed"] |= {"limit_s": EXPOSED_MOST * some["step"]["median_s"],
                            "limit_loop": f"wanted: at most {100 * EXPOSED_MOST:.0f} %"}
        found |= {op + end: r for op, r in some.items()}
    return found


def limits_arena(scale):
    command = ["./zero", "bench", "arena", "--step", ",".join(map(str, scale.arena)), "--json"]
    return {r["task"]: r for r in programs.records_of(command, scale.limit_s)}


def limits(scale):
    work = [(f"coll-{n}", f"collectives of {n} ranks", lambda n=n: limits_coll(scale, n, "again"),
             True) for n in scale.limit_ranks]
    work += [("coll-2-fresh", "collectives of 2 ranks, what is sent was just written",
              lambda: limits_coll(scale, 2, "fresh"), True)]
    if max(scale.limit_sizes) > GROWTH_LEAST:
        work.append(("coll-2-cold", "collectives of 2 ranks, other memory each time",
                     lambda: limits_coll(scale, 2, "cold"), True))
    work += [(f"optimizer-{t}", f"AdamW, {t} thread{'s' * (t > 1)}",
              lambda t=t: limits_optimizer(scale, t), True)
             for t in range(1, len(programs.cores()) + 1)]
    if len(programs.cores()) >= RANKS:
        work.append(("step", f"a step of GPT-2 {scale.preset}, stage 3, {RANKS} ranks",
                     lambda: limits_step(scale), True))
    work.append(("arena", "plans of the buffers of a step", lambda: limits_arena(scale), False))
    for name, title, find, limited in work:
        measured = programs.Measured(find)
        part = programs.Part(f"limits-{name}", "limits", title,
                    [programs.Program("zero", "libzero", run=measured.zero)])
        if limited:
            part.programs.append(programs.Program("limit", "limit", run=measured.limit))
        yield part
