# SPDX-License-Identifier: Apache-2.0
"""How the cost of a model grows with its number of parameters and units.

    make bench-growth [BENCH='--rounds 5 --json growth.json --beside BUILD']

Models of 1,562 to 100,000 parameters (64 elements each, 12.5 in a unit) double seven times; each
runs with one and two ranks, with all states on the device and with the optimizer's states in host
memory. Printed are medians of the rounds: seconds to register and to commit, microseconds of a use
(acquire and release) and of an update for each unit, bytes of bookkeeping for each parameter. It
fails if a doubling of the model more than 2.3-folds a figure, the least of the rounds, which other
work on the machine disturbs least. --beside names the build folder of
another version, whose library the same program takes in turn; the ratios are printed.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

MOST = 2.3
OWN = os.environ.get("ZERO_TEST_BUILD", os.getcwd())
SIZES = [(125 << k, 1562 if k == 0 else int(1562.5 * (1 << k))) for k in range(7)]
PLACES = {"device": "", "optimizer:cpu": "optimizer:cpu"}
FIGURES = ("add_s", "commit_s", "uses_s", "update_s", "bytes")
LEAST = {"add_s": 1e-3, "commit_s": 5e-3, "uses_s": 5e-4, "update_s": 5e-4, "bytes": 1 << 16}


def run(build, ranks, place, units, params, steps):
    """One job; the figures of rank 0."""
    libs = os.path.join(build, ".libs")
    env = dict(os.environ, ZERO_PLUGIN_PATH=libs, LD_LIBRARY_PATH=libs, ZERO_THREADS="1")
    if place:
        env["ZERO_OFFLOAD"] = place
    command = [os.path.join(build, "zero"), "run", "-n", str(ranks), "--",
               os.path.join(OWN, "bench", ".libs", "growth"),
               str(units), str(params), "64", str(steps)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=900)
    lines = [line for line in done.stdout.splitlines() if "{" in line]
    if done.returncode or not lines:
        sys.exit(f"bench-growth: {' '.join(command)}: status {done.returncode}\n{done.stderr}")
    return json.loads(lines[0][lines[0].index("{"):])


def measure(builds, ranks, place, units, params, rounds):
    """Medians and least figures of the rounds for each build, which take turns."""
    all_of = {build: [] for build in builds}
    steps = max(5, min(100, 20000 // units))
    for _ in range(rounds):
        for build in builds:
            all_of[build].append(run(build, ranks, place, units, params, steps))
    return {build: {f: statistics.median(one[f] for one in runs) for f in FIGURES} |
            {"least": {f: min(one[f] for one in runs) for f in FIGURES}}
            for build, runs in all_of.items()}


def line(units, params, row):
    return (f"{params:>9} {units:>6} {row['add_s']:>9.4f} {row['commit_s']:>9.4f} "
            f"{row['uses_s'] / units / 2 * 1e6:>9.2f} {row['update_s'] / units * 1e6:>9.2f} "
            f"{row['bytes'] / params:>9.0f}")


def judge(rows):
    """Doublings that cost more than they may: figure, parameters, ratio."""
    bad = []
    for (_, before), (params, after) in zip(rows, rows[1:]):
        for f in FIGURES:
            ratio = max(after["least"][f], LEAST[f]) / max(before["least"][f], LEAST[f])
            if ratio > MOST:
                bad.append((f, params, ratio))
    return bad


def main():
    parse = argparse.ArgumentParser(description="Cost over the number of parameters and units.")
    parse.add_argument("--rounds", type=int, default=3)
    parse.add_argument("--json", help="writes all medians to this file")
    parse.add_argument("--beside", help="build folder of another version")
    parse.add_argument("--few", action="store_true", help="the three smallest models alone")
    args = parse.parse_args()
    out, bad = [], []
    for ranks in (1, 2):
        for name, place in PLACES.items():
            rows = []
            print(f"\n{ranks} rank(s), {name}\n{'parameters':>9} {'units':>5} {'add s':>9} "
                  f"{'commit s':>9} {'use us':>9} {'update us':>9} {'bytes/par':>9}")
            for units, params in SIZES[:3] if args.few else SIZES:
                row = measure([OWN], ranks, place, units, params, args.rounds)[OWN]
                rows.append((params, row))
                out.append(dict(row, ranks=ranks, place=name, units=units, parameters=params))
                print(line(units, params, row), flush=True)
            found = judge(rows)
            bad += [(ranks, name) + one for one in found]
    if args.beside:
        for ranks in (1, 2):
            print(f"\n{ranks} rank(s), 50,000 parameters in 4,000 units, beside {args.beside}")
            both = measure([OWN, args.beside], ranks, "", 4000, 50000, args.rounds)
            for build in (OWN, args.beside):
                print(line(4000, 50000, both[build]), flush=True)
            print("times as fast: " + ", ".join(
                f"{f[:-2]} {both[args.beside][f] / both[OWN][f]:.1f}" for f in FIGURES[:4]))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(out, f, indent=1)
    for ranks, name, figure, params, ratio in bad:
        print(f"bench-growth: {ranks} rank(s), {name}: {figure} grew {ratio:.2f} times up to "
              f"{params} parameters, {MOST} at most")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
