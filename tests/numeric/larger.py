# SPDX-License-Identifier: Apache-2.0
"""A model whose states are four times what a job may have of memory: it trains with optimizer
states, gradients and parameters on the disk, within a control group and ZERO_MEMORY_LIMIT, and the
weights are those of the same steps without either; and those of the same steps with states anywhere
else, in every stage, on one rank and on two. The median of the five steps after the forecast is
within 20 % of it: nothing else is to work on the machine meanwhile.

    make check-larger                            350M in 1.24 GB, seven steps
    make check-larger LARGER='--preset 1.5B --gb 3 --no-reference'

It needs the room on the disk (5 GB for 350M, 22 GB for 1.5B), and minutes.
"""
import argparse
import os
import resource
import statistics

import support
from support import diag, ok

PARTS = ("optimizer", "gradients", "parameters")
# Ranks, micro-batches of a step, stage, ZERO_OFFLOAD; all of one number of ranks and micro-batches
# are to end in the same bits.
PLACES = [(1, 1, 3, "optimizer:cpu"), (1, 1, 1, "optimizer:nvme"),
          (1, 1, 2, "optimizer:device:0.3+cpu:0.3+nvme:0.4,parameters:cpu,gradients:cpu"),
          (1, 1, 3, "parameters:nvme,gradients:nvme,activations:nvme"),
          (1, 2, 1, ""), (1, 2, 3, "optimizer:nvme,gradients:nvme,parameters:nvme"),
          (2, 1, 1, ""), (2, 1, 2, "optimizer:cpu,activations:cpu"), (2, 1, 3, "optimizer:nvme"),
          (2, 1, 3, "parameters:cpu:0.5+nvme:0.5,gradients:nvme,optimizer:cpu:0.5+nvme:0.5"),
          (2, 1, 1, "optimizer:nvme,gradients:cpu,activations:nvme"),
          (2, 2, 1, ""),
          (2, 2, 3, "optimizer:fault,gradients:fault,parameters:fault,activations:fault")]
# What is reserved for each of them.
CLASSES = {"optimizer": ("master", "momentum", "variance"),
           "gradients": ("gradients", "accumulators"),
           "parameters": ("parameters",), "activations": ("activations",)}
# Every request is cut short, every other one is late, and every third call finds the disk busy.
FAULTS = {"ZERO_FAULT_OFFLOAD": "nvme",
          "ZERO_FAULT_IO": "busy:every=3:times=0,cut=1048576:times=0,delay=1:every=2:times=0"}


def arguments():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--preset", default="350M")
    p.add_argument("--gb", type=float, default=1.24, help="of the whole job, in 10^9 bytes")
    p.add_argument("--ranks", type=int, default=1)
    p.add_argument("--steps", type=int, default=7)
    p.add_argument("--stage", type=int, default=3)
    p.add_argument("--seq", type=int, default=256)
    p.add_argument("--accum", type=int, default=1, help="micro-batches of a step")
    p.add_argument("--dtype", default="bf16")
    p.add_argument("--program", type=float, default=0.25,
                   help="10^9 bytes of each rank that are not the library's to plan")
    p.add_argument("--auto", action="store_true", help="ZERO_OFFLOAD=auto instead")
    p.add_argument("--no-reference", action="store_true",
                   help="no other runs to compare with")
    p.add_argument("--folder", default=os.environ.get("ZERO_NVME_PATH", "/var/tmp"))
    return p.parse_args()


def train(o, env, group=None):
    how = {"preexec_fn": group.enter} if group else {}
    log = support.path("log.json")
    if os.path.exists(log):
        os.unlink(log)
    job = support.Job([support.GPT2, "--json", log, "--preset", o.preset, "--dtype", o.dtype,
                       "--stage", o.stage, "--seq", o.seq, "--batch", 1, "--accum", o.accum,
                       "--steps", o.steps, "--clip", 1, "--val", 0, "--data", support.TEXT],
                      o.ranks, {"ZERO_TIMEOUT": "600", **env}, **how).end(3600)
    job.log = support.objects(log) if os.path.exists(log) else []
    return job


def places(o, found):
    """`found`: by ranks and micro-batches, the weights of a run in memory alone."""
    for ranks, accum, stage, offload in PLACES:
        o.ranks, o.accum, o.stage = ranks, accum, stage
        # Else a step of some micro-batches is reduced at its end in stages 0 and 1, to other bits.
        job = train(o, {"ZERO_OFFLOAD": offload, "ZERO_NVME_PATH": o.folder,
                        "ZERO_REDUCE_AT": "micro", **FAULTS})
        weights = job.log[-1].get("weights_hash") if job.status == 0 and job.log else None
        what = (f"{o.preset}, {ranks} rank(s), {accum} micro-batch(es), stage {stage}, "
                f"{offload or 'in memory'}")
        ok(weights and weights == found.setdefault((ranks, accum), weights),
           f"{what}: the same bits", job.story())
        wrong = misplaced(job.log[-1], offload) if weights else ["no run"]
        ok(not wrong, f"{what}: what is to lie there does", *wrong)


def misplaced(summary, offload):
    """What is not where `offload` wants it. What lies on a disk passes through the host's memory,
    and may be used on the device; states are not."""
    wrong, classes = [], {}
    for row in summary["memory"]:
        if row["reserved"]:
            classes.setdefault(row["class"], set()).add(row["tier"])
    for part in filter(None, offload.split(",")):
        name, where = part.split(":", 1)
        wanted = {place.split(":")[0] for place in where.split("+")}
        found = set().union(*(classes.get(kind, ()) for kind in CLASSES[name]))
        if not wanted <= found or (name == "optimizer" and "device" in found - wanted):
            wrong.append(f"{part}: found in {sorted(found)}")
    for kind, found in classes.items():
        wrong += [f"{kind}: in {tier}" for tier in found & {"nvme", "fault"} if tier not in offload]
    return wrong


def tiers(summary):
    """Reserved bytes by tier, and those of the model's states anywhere."""
    by_tier, states = {}, 0
    for row in summary["memory"]:
        by_tier[row["tier"]] = by_tier.get(row["tier"], 0) + row["reserved"]
        if row["class"] in ("parameters", "gradients", "accumulators", "master", "momentum",
                            "variance"):
            states += row["reserved"]
    return by_tier, states


def forecast(log, what):
    """The steps that follow the forecast, which comes after the second one."""
    said = [r for r in log if r["type"] == "forecast"]
    took = [r["time_s"] for r in log if r["type"] == "step"][2:7]
    if not said or len(took) < 5:
        support.skip(f"{what}: the forecast", "it is judged by five steps after it (--steps 7)")
        return
    foretold, median = said[-1]["step_s"], statistics.median(took)
    ok(abs(foretold - median) <= 0.20 * median,
       f"{what}: forecast {foretold:.2f} s, median of five steps {median:.2f} s: "
       f"{100 * (foretold / median - 1):+.0f} %")


def kernel_bytes():
    """Read from and written to disks by the programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 512 * used.ru_inblock, 512 * used.ru_oublock


def on_disk(what, ranks, log, counted):
    """The kernel has seen what the tier says it moved; what the first step reads was never written,
    which costs a file system no reading."""
    first = next(r for r in log if r["type"] == "step")
    read = ranks * (log[-1]["disk_read_bytes"] - first["disk_read_bytes"])
    written = ranks * log[-1]["disk_written_bytes"]
    ok(read > 0 and counted[0] >= 0.95 * read and counted[1] >= 0.95 * written,
       f"{what}: the kernel has seen what the tier moved, {read / 1e9:.2f} GB read and "
       f"{written / 1e9:.2f} written", counted)


def main():
    o = arguments()
    group = support.MemoryGroup()
    if not group.folder:
        support.skip_all("no control group for memory that may be changed")
    room = int(o.gb * 1e9)
    share = room // o.ranks - int(o.program * 1e9)
    group.limit(room)
    offload = "auto" if o.auto else ",".join(f"{part}:nvme" for part in PARTS)
    before = kernel_bytes()
    try:
        small = train(o, {"ZERO_OFFLOAD": offload, "ZERO_NVME_PATH": o.folder,
                          "ZERO_BUCKET_BYTES": "16M", "ZERO_PREFETCH_BYTES": "32M",
                          "ZERO_MEMORY_LIMIT": f"device:{share * 2 // 3},cpu:{share // 3}"}, group)
        peak = group.peak()
    finally:
        group.end()
    last = small.log[-1] if small.log else {}
    what = f"{o.preset}, {o.ranks} rank(s), {o.steps} steps in {o.gb} GB"
    if not ok(small.status == 0 and last.get("type") == "summary", f"{what}: it trains",
              small.story()):
        support.done()
    by_tier, states = tiers(last)
    diag(*(f"{tier}: {size / 1e9:.3f} GB of each rank" for tier, size in by_tier.items()),
         f"the group had {peak / 1e9:.3f} GB at most")
    diag(*(f"step {s['step']}: {s['time_s']:.2f} s, of it update {s['optimizer_s']:.2f}, waiting "
           f"{s['exposed_s']:.2f}; {s['disk_read_bytes'] / 1e9:.3f} GB read, "
           f"{s['disk_written_bytes'] / 1e9:.3f} written"
           for s in small.log if s["type"] == "step"))
    diag(*(line for line in small.out.split("\n") if "should take" in line or "forecast" in line))
    ok(states * o.ranks >= 4 * room, f"{what}: its states are {states * o.ranks / 1e9:.2f} GB")
    ok(last["disk_direct"], f"{what}: the disk is read and written past the page cache")
    on_disk(what, o.ranks, small.log, [b - a for a, b in zip(before, kernel_bytes())])
    forecast(small.log, what)
    planned = sum(size for tier, size in by_tier.items() if tier != "nvme")
    ok(planned <= share and 0 < peak < room, f"{what}: it keeps to its limits", planned, peak)
    if not o.no_reference:
        whole = train(o, {})
        same = whole.status == 0 and whole.log[-1]["weights_hash"] == last["weights_hash"]
        ok(same, f"{what}: the weights of a run in memory", whole.story(), small.story())
        diag(*(f"in memory, step {s['step']}: {s['time_s']:.2f} s"
               for s in whole.log if s["type"] == "step"))
        places(o, {(o.ranks, o.accum): last["weights_hash"]})
    support.done()


main()
