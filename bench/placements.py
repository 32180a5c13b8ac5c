# SPDX-License-Identifier: Apache-2.0
"""Placements by hand beside ZERO_OFFLOAD=auto, in turn, under one limit of memory.

Each round trains with every placement once, in another order, and with auto twice: as the first job
of its kind, which measures the disk, and as the second, which finds how long the first one
computed. Printed are medians of the rounds: a step, what zero-gpt2 foretold of it, and that to the
time it took. The exit status is 1 where that is not within 20 percent, and 3 where the disk is
reached through the page cache.

Run in the build folder, with nothing else on the machine: make bench-placements, or

    python3 bench/placements.py [--preset 124M] [--ranks 2] [--stage 1]
        [--limit device:1200M,cpu:200M] [PLACEMENT]…
"""
import os
import random
import re
import statistics
import sys
import tempfile

import gpt2_job

HANDS = ("optimizer:nvme", "optimizer:cpu:0.1+nvme:0.9", "optimizer:device:0.2+nvme:0.8",
         "optimizer:device+cpu+nvme", "optimizer:device+cpu+nvme,activations:cpu",
         "optimizer:device+nvme,gradients:cpu+device",
         "optimizer:cpu+nvme,activations:device:0.5+cpu:0.5", "optimizer:nvme,gradients:nvme",
         "optimizer:nvme,parameters:nvme")
FIRST, SECOND = "auto, first job", "auto, second job"


def arguments():
    p = gpt2_job.options(__doc__, dtype="fp32", seq=64, rounds=3)
    p.add_argument("placements", nargs="*", default=HANDS)
    p.add_argument("--limit", default="device:1200M,cpu:200M",
                   help="ZERO_MEMORY_LIMIT of each rank")
    return p.parse_args()


def train(o, offload, cache):
    """Median of the steps and what was foretold, or None; where things lay, or why
    there is none."""
    done, records, _ = gpt2_job.train(o, {**os.environ, "ZERO_OFFLOAD": offload,
                                          "ZERO_MEMORY_LIMIT": o.limit,
                                          "ZERO_NVME_PATH": o.folder, "XDG_CACHE_HOME": cache})
    if done.returncode:
        why = re.search(r"the plan needs [^:\n]*", done.stderr)
        return None, why.group(0) if why else done.stderr.strip().split("\n")[-1]
    if why := gpt2_job.no_disk(o, done, records):
        print(f"bench/placements.py: {why}", file=sys.stderr)
        sys.exit(3)
    steps = [r["time_s"] for r in records if r["type"] == "step"][2:]
    told = [r["step_s"] for r in records if r["type"] == "forecast"]
    where = re.search(r"Outside the device: (.*?); of each rank", done.stdout)
    return (statistics.median(steps), told[-1] if told else None), where.group(1) if where else ""


def main():
    o = arguments()
    found, notes = {}, {}
    names = [*o.placements, "auto"]
    for number in range(o.rounds):
        random.Random(number).shuffle(names)
        for name in names:
            with tempfile.TemporaryDirectory() as cache:
                for what in (FIRST, SECOND) if name == "auto" else (name,):
                    times, notes[what] = train(o, name, cache)
                    if times:
                        found.setdefault(what, []).append(times)
                    print(f"  round {number + 1}, {what}: {times or notes[what]}", file=sys.stderr,
                          flush=True)
    print(f"GPT-2 {o.preset}, stage {o.stage}, {o.ranks} rank(s), {o.dtype}, sequence {o.seq}, "
          f"each rank has {o.limit}; medians of {o.rounds} rounds\n\n| placement | step, s | "
          "foretold, s | of the step | where it was |\n|---|---|---|---|---|")
    missed = 0
    for what in (*o.placements, FIRST, SECOND):
        if what not in found:
            print(f"| {what} | does not fit: {notes[what]} | | | |")
            continue
        step = statistics.median(t[0] for t in found[what])
        told = [t for t in found[what] if t[1]]
        foretold = "– | –"
        if told:
            ratio = statistics.median(t[1] / t[0] for t in told)
            missed += abs(ratio - 1) > 0.2
            foretold = f"{statistics.median(t[1] for t in told):.3f} | {ratio:.2f}" \
                f"{' MISSED' if abs(ratio - 1) > 0.2 else ''}"
        print(f"| {what} | {step:.3f} | {foretold} | {notes[what]} |")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
