# SPDX-License-Identifier: Apache-2.0
"""What bench/compare makes of rounds: quantiles, disturbed rounds, parts that were not measured. No
peer is needed: the programs here are functions."""
import io
import contextlib
import os
import pathlib
import sys
from types import SimpleNamespace

import support
from support import ok

os.environ.setdefault("ZERO_TEST_BUILD", support.BUILD)
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(support.TOP, "bench", "compare"))
import driver  # noqa: E402
import programs  # noqa: E402
import report  # noqa: E402

programs.OUT = pathlib.Path(support.path("compare"))
SETTINGS = {"commit": "0", "quick": False, "scale": "0", "peers": {}}


def near(a, b):
    return abs(a - b) < 1e-12


def quantiles():
    seven = [7, 1, 6, 2, 5, 3, 4]
    ok(near(report.median(seven), 4) and near(report.spread(seven), (6.4 - 1.6) / 4),
       "of seven rounds the 90 % quantile lies between two of them", report.spread(seven))
    ok(near(report.median([1, 2]), 1.5) and report.spread([3]) == 0 and report.spread([0, 0]) == 0,
       "of two, of one, of none that took time")


def part_of(runs):
    def run():
        runs.append(1)
        return {"": 0.5 * len(runs)}
    return programs.Part("made", "steps", "a part", [programs.Program("zero", "libzero", run=run)])


def measured(part, others, rounds):
    """The state after a run in which so many others ran before each program."""
    state, seen = driver.State(part, SETTINGS), iter(others)
    driver.others = lambda: next(seen)
    with contextlib.redirect_stdout(io.StringIO()):
        driver.run_part(part, state, SimpleNamespace(rounds=rounds), 1e18)
    return state.data


def disturbed():
    runs = []
    data = measured(part_of(runs), [0, 2, 0, 0], 3)
    ok(len(runs) == 4 and data["again"] == [0, 1, 0] and data["others"] == [0, 0, 0]
       and [r["zero"][""] for r in data["rounds"]] == [0.5, 1.5, 2.0],
       "a round in which others ran is done again", data)
    driver.State(part_of(runs), SETTINGS).path.unlink()
    runs = []
    data = measured(part_of(runs), [1, 1, 3], 1)
    ok(len(runs) == 3 and data["again"] == [2] and data["others"] == [3],
       "twice at most, and then it says so", data)


def left_out():
    part = part_of([])
    found = {"date": "", "commit": "0", "quick": False, "rounds": 7, "versions": {},
             "scale": vars(programs.Scale()),
             "machine": {k: "" for k in ("processor", "L2", "L3", "virtual", "kernel", "cores_used",
                                         "processors", "memory_GiB")} | {"instructions": []},
             "parts": [], "not_measured": [{"part": p.name, "kind": p.kind, "title": p.title}
                                           for p in programs.all_parts(programs.Scale())]}
    text = report.markdown(found)
    ok(all(f"- {p['title']}: not measured" in text for p in found["not_measured"]),
       "every part that was not run is named", text)
    ok({p.kind for p in programs.all_parts(programs.QUICK)} == set(driver.KINDS),
       "all kinds of parts can be chosen")
    rounds = [{"zero": {"all_gather 1048576": 2.0}, "limit": {"all_gather 1048576": 1.0}}] * 3
    limits = programs.Part("limits-x", "limits", "collectives", [
        programs.Program("zero", "libzero"), programs.Program("limit", "limit")])
    data = driver.State(part, SETTINGS).fresh | {"rounds": rounds}
    row = report.limits_table(report.summary(limits, data, 3))
    ok("| all_gather, 1 MiB | 2 s (0 %) | 1 s (0 %) **0.50×** |" in row, "beside its limit", row)


def real():
    """The parts that need no peer, at their smallest."""
    scale = programs.Scale(limit_sizes=(65536,), limit_ranks=(2,), samples=2, params=1000,
                           arena=(100,), preset="micro", seq=16, limit_steps=2)
    programs.pinned = lambda cpus, command: list(map(str, command))
    for part in programs.limits(scale):
        try:
            found = [p.run() for p in part.programs]
        except programs.Failed as error:
            found = [str(error)]
        ok(all(f and isinstance(f, dict) for f in found)
           and all(isinstance(v, (int, float)) for f in found for v in f.values())
           and (len(found) == 1 or set(found[0]) == set(found[1])),
           f"{part.name}: seconds, of the limit for the same keys", found)


quantiles()
disturbed()
left_out()
real()
support.done()
