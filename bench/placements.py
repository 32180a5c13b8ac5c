# SPDX-License-Identifier: Apache-2.0
"""Placements by hand beside ZERO_OFFLOAD=auto, in turn, under one limit of memory.

Each round trains with every placement once, in another order, and with auto twice: as the first job of
its kind, which measures the disk, and as the second, which finds how long the first one computed.
Printed are medians of the rounds: a step, what zero-gpt2 foretold of it, and that to the time it took.

Run in the build folder, with nothing else on the machine:

    python3 bench/placements.py [--preset 124M] [--ranks 2] [--stage 1] [--limit device:700M,cpu:200M]
        [PLACEMENT]…
"""
import argparse
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

BUILD = os.environ.get("ZERO_TEST_BUILD", os.getcwd())
HANDS = ("optimizer:nvme", "optimizer:cpu:0.1+nvme:0.9", "optimizer:device:0.2+nvme:0.8",
         "optimizer:device+cpu+nvme", "optimizer:nvme,gradients:nvme", "optimizer:nvme,parameters:nvme")
FIRST, SECOND = "auto, first job", "auto, second job"


def arguments():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("placements", nargs="*", default=HANDS)
    p.add_argument("--preset", default="124M")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--stage", type=int, default=1)
    p.add_argument("--dtype", default="bf16")
    p.add_argument("--seq", type=int, default=256)
    p.add_argument("--steps", type=int, default=8, help="the first two do not count")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--limit", default="device:700M,cpu:200M", help="ZERO_MEMORY_LIMIT of each rank")
    p.add_argument("--folder", default=os.environ.get("ZERO_NVME_PATH", "/var/tmp"))
    return p.parse_args()


def train(o, offload, cache):
    """Median of the steps, what was foretold, and where things lay; or None, and why."""
    with tempfile.TemporaryDirectory() as folder:
        log, text = os.path.join(folder, "log"), os.path.join(folder, "text")
        with open(text, "wb") as f:
            f.write(os.urandom(64 * o.seq).hex().encode())
        env = {**os.environ, "ZERO_OFFLOAD": offload, "ZERO_MEMORY_LIMIT": o.limit,
               "ZERO_NVME_PATH": o.folder, "ZERO_STAGE": str(o.stage), "XDG_CACHE_HOME": cache,
               "ZERO_PLUGIN_PATH": os.path.join(BUILD, ".libs")}
        done = subprocess.run(
            [os.path.join(BUILD, "zero"), "run", "-n", str(o.ranks), "--bind", "--",
             os.path.join(BUILD, "zero-gpt2"), "--preset", o.preset, "--dtype", o.dtype,
             "--seq", str(o.seq), "--batch", "1", "--steps", str(o.steps), "--val", "0",
             "--data", text, "--json", log], env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            why = re.search(r"the plan needs [^:\n]*", done.stderr)
            return None, why.group(0) if why else done.stderr.strip().split("\n")[-1]
        with open(log, encoding="utf-8") as f:
            records = [json.loads(line) for line in f]
    steps = [r for r in records if r["type"] == "step"][2:]
    where = re.search(r"Outside the device: (.*?); of each rank", done.stdout)
    told = [r["step_s"] for r in records if r["type"] == "forecast"]
    return (statistics.median(s["time_s"] for s in steps), told[-1] if told else None), \
        where.group(1) if where else ""


def main():
    o = arguments()
    found, notes = {}, {}
    names = [*o.placements, "auto"]
    for number in range(o.rounds):
        random.Random(number).shuffle(names)
        for name in names:
            cache = tempfile.mkdtemp()
            for what in (FIRST, SECOND) if name == "auto" else (name,):
                times, notes[what] = train(o, name, cache)
                if times:
                    found.setdefault(what, []).append(times)
                print(f"  round {number + 1}, {what}: {times or notes[what]}", file=sys.stderr,
                      flush=True)
            shutil.rmtree(cache)
    print(f"GPT-2 {o.preset}, stage {o.stage}, {o.ranks} rank(s), {o.dtype}, sequence {o.seq}, each rank has "
          f"{o.limit}; medians of {o.rounds} rounds\n\n| placement | step, s | foretold, s | of the step | "
          "where it was |\n|---|---|---|---|---|")
    for what in (*o.placements, FIRST, SECOND):
        if what not in found:
            print(f"| {what} | does not fit: {notes[what]} | | | |")
            continue
        step = statistics.median(t[0] for t in found[what])
        told = [t for t in found[what] if t[1]]
        foretold = f"{statistics.median(t[1] for t in told):.3f} | " \
            f"{statistics.median(t[1] / t[0] for t in told):.2f}" if told else "– | –"
        print(f"| {what} | {step:.3f} | {foretold} | {notes[what]} |")


if __name__ == "__main__":
    main()
