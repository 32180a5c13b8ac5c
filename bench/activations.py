# SPDX-License-Identifier: Apache-2.0
"""Activations elsewhere beside activations that are computed twice, in turn.

Each round trains with every way once, in another order. Printed are medians of the rounds: a step,
that to one with all activations on the device, and what a rank reserves on the device, for
activations and in all. Without a GPU the tier cpu is the same memory as the device, so its copies
are for nothing, and count. A job's activations are what they have of the device when all together
need most. The exit status is 3 where a job fails, or the disk is reached through the page cache.

Run in the build folder, with nothing else on the machine: make bench-activations, or

    python3 bench/activations.py [--preset 124M] [--ranks 2] [--stage 3] [--batch 4]
"""
import os
import random
import statistics
import sys
import tempfile

import gpt2_job

WAYS = {"on the device": ("", []), "computed twice": ("", ["--recompute"]),
        "activations:cpu": ("activations:cpu", []), "activations:nvme": ("activations:nvme", []),
        "activations:cpu:0.5+nvme:0.5": ("activations:cpu:0.5+nvme:0.5", []),
        "activations:nvme, computed twice": ("activations:nvme", ["--recompute"])}


def train(o, name, cache):
    """Median of the steps; MiB of the device for activations, and in all; GB of a rank's disk in a
    step."""
    offload, more = WAYS[name]
    done, records, _ = gpt2_job.train(o, {**os.environ, "ZERO_OFFLOAD": offload,
                                          "ZERO_NVME_PATH": o.folder, "XDG_CACHE_HOME": cache},
                                      *more)
    why = done.stderr if done.returncode else gpt2_job.no_disk(o, done, records)
    if why:
        print(f"bench/activations.py: {name}: {why}", file=sys.stderr)
        sys.exit(3)
    steps = [r for r in records if r["type"] == "step"][2:]
    memory = [r for r in next(r for r in records if r["type"] == "summary")["memory"]
              if r["tier"] == "device"]
    moved = statistics.median(s["disk_read_bytes"] + s["disk_written_bytes"] for s in steps)
    return (statistics.median(s["time_s"] for s in steps),
            sum(r["reserved"] for r in memory if r["class"] == "activations") / 2**20,
            sum(r["reserved"] for r in memory) / 2**20, moved / 1e9)


def main():
    o = gpt2_job.options(__doc__, stage=3, batch=4, rounds=3).parse_args()
    found, names = {name: [] for name in WAYS}, list(WAYS)
    with tempfile.TemporaryDirectory() as cache:
        for number in range(o.rounds):
            random.Random(number).shuffle(names)
            for name in names:
                found[name].append(train(o, name, cache))
                print(f"  round {number + 1}, {name}: {found[name][-1][0]:.3f} s", file=sys.stderr,
                      flush=True)
    print(f"GPT-2 {o.preset}, stage {o.stage}, {o.ranks} rank(s), {o.dtype}, sequence {o.seq}, "
          f"batch {o.batch}; medians of {o.rounds} rounds\n\n| activations | step, s | to those on "
          "the device | of the device for them, MiB | in all, MiB | a rank's disk, GB a step |\n"
          "|---|---|---|---|---|---|")
    for name, rounds in found.items():
        step, own, all_, moved = (statistics.median(r[i] for r in rounds) for i in range(4))
        ratios = [r[0] / d[0] for r, d in zip(rounds, found["on the device"])]
        print(f"| {name} | {step:.3f} | {statistics.median(ratios):.2f} ({min(ratios):.2f} to "
              f"{max(ratios):.2f}) | {own:.0f} | {all_:.0f} | {moved:.2f} |")


if __name__ == "__main__":
    main()
