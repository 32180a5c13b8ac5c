# SPDX-License-Identifier: Apache-2.0
"""What bench/compare makes of rounds: quantiles, disturbed and broken rounds, programs that fail,
parts that were not measured. No peer is needed: the programs here are functions."""
import io
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time
from types import SimpleNamespace

import support
from support import ok

os.environ.setdefault("ZERO_TEST_BUILD", support.BUILD)
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(support.TOP, "bench", "compare"))
import collectives  # noqa: E402
import driver  # noqa: E402
import figures  # noqa: E402
import limits  # noqa: E402
import page  # noqa: E402
import programs  # noqa: E402
import report  # noqa: E402
import training  # noqa: E402
from parts import all_parts  # noqa: E402

programs.OUT = pathlib.Path(support.path("compare"))
SETTINGS = {"steps": {"measured": "0", "quick": False, "scale": "0", "peers": {}}}


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
    """The state after a run in which others took so much of a processor beside each program."""
    state, seen = driver.State(part, SETTINGS), iter(others)
    driver.Watch = lambda: SimpleNamespace(others=lambda: next(seen))
    with contextlib.redirect_stdout(io.StringIO()):
        driver.run_part(part, state, SimpleNamespace(rounds=rounds), 1e18)
    return state.data


def disturbed():
    runs = []
    data = measured(part_of(runs), [0, 2, 0, 0], 3)
    ok(len(runs) == 4 and data["repeated"] == 1
       and [r["others"]["zero"] for r in data["rounds"]] == [0, 0, 0]
       and [r["found"]["zero"][""] for r in data["rounds"]] == [0.5, 1.5, 2.0],
       "a round in which others ran is done again", data)
    driver.State(part_of(runs), SETTINGS).path.unlink()
    runs = []
    data = measured(part_of(runs), [1, 1, 1, 2, 3], 1)
    ok(len(runs) == 4 and data["repeated"] == 3 and data["rounds"][0]["others"] == {"zero": 2},
       "three times at most, and then it says so", data)
    driver.State(part_of(runs), SETTINGS).path.unlink()


def moved():
    """A round during which the host moved the processors is done again, three times at most."""
    def barrier():
        took = next(seen)
        if not took:
            raise programs.Failed("no barrier")
        return took
    runs, seen = [], iter([1, 1.1, 1, 3, 1, 0, *[1, 2] * 4])
    part = part_of(runs)
    part.kind = "collectives"
    found = {"machine": report.machine() | {"virtual": "a host"}, "versions": report.versions()}
    driver.facts, facts = (lambda: found), driver.facts
    programs.barrier_s, real = barrier, programs.barrier_s
    SETTINGS["collectives"] = SETTINGS["steps"]
    data = measured(part, [0] * 7, 3)
    driver.facts, programs.barrier_s = facts, real
    ok(len(runs) == 7 and data["repeated"] == 4
       and [r["moved"] for r in data["rounds"]] == [False, False, True]
       and data["rounds"][0]["barriers_s"] == [1, 1.1], "where processors are", data)
    part.kind = "steps"
    text = page.origin_line(report.summary(part, data, 3))
    ok("In 1 of the rounds the host had moved the processors." in text,
       "is told of what was kept", text)
    driver.State(part, SETTINGS).path.unlink()


REAL_WATCH = driver.Watch


def watched():
    """What we have started is ours once it has ended; until then nobody can tell."""
    spin = [sys.executable, "-c", "import time\nt = time.process_time() + 0.5\n"
            "while time.process_time() < t: pass"]
    before = driver.ours_s()
    subprocess.run(spin, check=True)
    ours = driver.ours_s() - before
    orphan = subprocess.Popen(spin)  # as somebody else's: it has not been waited for
    watch = REAL_WATCH()
    time.sleep(0.4)
    beside = watch.others()
    orphan.wait()
    ok(ours >= 0.5 and beside > 0.2, "what others take is seen, and what is ours", ours, beside)


def in_turn():
    """Two programs, the second one broken off in the third round, and one that fails at times."""
    order, ends = [], [0]

    def program(name, fails=()):
        def run():
            order.append(name)
            n = order.count(name)
            if name == "peer" and n == 3 and not ends[0]:
                ends[0] = 1
                raise KeyboardInterrupt
            if n in fails:
                raise programs.Failed("no luck")
            return {"": float(n)}
        return programs.Program(name, name, run=run)

    part = programs.Part("turns", "steps", "a part", [program("zero"), program("peer")])
    zeros = iter(lambda: 0, 1)
    try:
        measured(part, zeros, 4)
    except KeyboardInterrupt:
        pass
    kept = len(driver.State(part, SETTINGS).data["rounds"])
    data = measured(part, zeros, 4)
    ok(kept == 2 and len(data["rounds"]) == 4 and order[:6] == ["zero", "peer", "peer", "zero",
                                                               "zero", "peer"]
       and order[6:8] == ["zero", "peer"],
       "each round has another order, and one that was broken off is done again as a whole", order)
    other = {"steps": SETTINGS["steps"] | {"measured": "1"}}
    ok(not driver.State(part, other).data["rounds"] and driver.State(part, SETTINGS).data["rounds"],
       "another commit begins anew, and takes nothing away")

    order.clear()
    part = programs.Part("luck", "steps", "a part", [program("zero"), program("once", (2,)),
                                                     program("never", range(99)),
                                                     program("late", range(2, 99))])
    data = measured(part, zeros, 4)
    found = report.summary(part, data, 4)
    row = found["rows"][""]
    ok(found["retries"] == ["once failed: no luck"] and
       "Failed and ran again (1): once failed: no luck." in page.origin_line(found),
       "and the table says so", found["retries"], page.origin_line(found))
    ok((row["late"]["failed_rounds"], row["late"]["left_out_rounds"]) == (2, 1)
       and "1 s, failed in 2 rounds, then left out of 1 rounds" in page.list_table(found, 0),
       "as of how many rounds there is no figure", row, page.list_table(found, 0))
    ok(order.count("once") == 5 and row["once"]["rounds"] == 4,
       "what fails once is tried again", order)
    ok(order.count("never") == 4 and "no luck" in row["never"]["missing"]
       and row["zero"]["rounds"] == 4, "what fails in two rounds is left out, with the reason", row)
    options = SimpleNamespace(rounds=4)
    ok(driver.complete(part, SETTINGS, options) and not driver.complete(
        programs.Part("luck", "steps", "", part.programs[2:]), SETTINGS, options),
       "what libzero fails in is not published")


def paired():
    """A figure and its limit are of one run, whichever is asked for first."""
    runs = []

    def find():
        runs.append(1)
        return {"": {"median_s": float(len(runs)), "limit_s": float(len(runs)), "check": "ok"}}
    m = programs.Measured(find)
    got = [m.zero(), m.limit(), m.limit(), m.zero(), m.zero(), m.limit()]
    ok([g[""] for g in got] == [1, 1, 2, 2, 3, 3], "a limit is that of the same run", got)


def loops():
    """Which loop is the limit is kept, in every round, and how long all of them took."""
    def record(best, plain, stream):
        return {"median_s": 2.0, "check": "ok", "limit_s": min(plain, stream), "limit_loop": best,
                "plain_s": plain, "stream_s": stream}
    runs = iter([record("plain", 1.0, 4.0), record("stream", 5.0, 2.0), record("plain", 1.5, 9.0)])
    m = programs.Measured(lambda: {"all_gather 1048576": next(runs)})
    data = measured(programs.Part("loops", "steps", "", [
        programs.Program("zero", "libzero", run=m.zero),
        programs.Program("limit", "limit", run=m.limit)]), iter(lambda: 0, 1), 3)
    rounds = [r["found"] for r in data["rounds"]]
    cell = report.cell("limit", "all_gather 1048576", "zero", rounds)
    ok(cell["median_s"] == 1.5 and cell["ratio"] == 0.75 and cell["what"] == "plain"
       and cell["ways"] == {"plain": {"median_s": 1.5, "best": 2},
                            "stream": {"median_s": 4.0, "best": 1}},
       "the limit is what the best loop of each round took; the others are kept", cell)
    ok(page.figure(cell).endswith(" **0.75×** (0.50–1.00) plain"), "and named", page.figure(cell))
    rounds = [{"zero": {"": z}, "peer": {"": 1.0}} for z in (0.5, 2.0, 0.8, 1.9)]
    cell = report.cell("peer", "", "zero", rounds)
    ok(page.figure(cell).endswith(" 0.89× (0.50–2.00)"),
       "where rounds disagree on who is faster nothing is bold", page.figure(cell), cell)
    wanted = {"median_s": 0.05, "spread": 0, "ratio": 2.0, "what": "wanted: at most 5 %"}
    ok(page.figure(wanted) == "wanted: at most 5 %, 50 ms", "a wish is no limit",
       page.figure(wanted))


def places():
    """The fastest placement counts, is named, and the other one is kept, beside the
    same of a peer."""
    def record(place, seconds, **more):
        return {"dtype": "f32", "bytes": 4096, "check": "ok", "median_s": seconds, **more} | (
            {"in_place": int(place == "in")} if not more else {"place": place})
    scale = programs.QUICK
    zero = collectives.fastest(scale, [record("out", 2.0), record("in", 1.0)])
    peer = collectives.fastest(scale, [record("out", 3.0, call="block"),
                                       record("in", 4.0, call="block"),
                                       record("out", 6.0, call="lengths"),
                                       record("in", 2.5, call="lengths"),
                                       {"dtype": "bf16", "missing": "no type"}])
    ok(zero == {"f32 4096": {"seconds": 1.0, "place": "in", "places": {"out": 2.0, "in": 1.0}}}
       and peer["f32 4096"] == {"seconds": 2.5, "place": "in", "call": "lengths",
                                "places": {"out": 3.0, "in": 2.5}}
       and peer["bf16 4096"] == "no type", "the fastest of all placements and calls", zero, peer)
    rounds = [{"zero": zero, "peer": peer}] * 2 + [{"zero": {"f32 4096": {
        "seconds": 2.0, "place": "out", "places": {"out": 2.0, "in": 5.0}}}, "peer": "failed"}]
    cell = report.cell("zero", "f32 4096", "zero", rounds)
    ok(cell["median_s"] == 1.0 and cell["place"] == "in" and cell["fastest_so"] == 2
       and [cell["places"][p]["median_s"] for p in ("in", "out")] == [1.0, 2.0],
       "of three rounds what it was in most", cell)
    cell = report.cell("peer", "f32 4096", "zero", rounds)
    ok(cell["ratio"] == 2.5 and [cell["places"][p]["ratio"] for p in ("in", "out")] == [2.5, 1.5]
       and page.figure(cell).endswith(" **2.50×** (2.50–2.50) in, lengths"),
       "ratios of the fastest, and of each placement", cell)


def pages():
    """What the tables say about huge pages is what the machine gave."""
    texts = [page.pages_text(m) for m in (
        {"huge_pages": {"enabled": "madvise", "shmem_enabled": "never"}},
        {"huge_pages": {"enabled": "never", "shmem_enabled": "advise"}})]
    ok("to private memory (madvise)" in texts[0] and "to no shared memory (never)" in texts[0]
       and "to no private memory (never)" in texts[1] and "to shared memory (advise)" in texts[1],
       "pages are as they were", *texts)
    ok(all(w in report.huge_pages() for w in ("enabled", "shmem_enabled")), "and are recorded")


def written():
    """A command stands there without the folders of whoever ran it."""
    said = programs.written([str(programs.BUILD / "zero"), "bench", "--json", "/tmp/a.json", "b c"],
                            {"ZERO_MAP": "0", "ZERO_THREADS": "1", "HOME": "/"})
    ok(said == "ZERO_MAP=0 ./zero bench --json steps.json 'b c'", "a command as a user has it",
       said)
    found = report.commands_of([{"commands": {"zero": ["a"], "peer": ["b"]}},
                                {"commands": {"zero": []}}, {}])
    ok(found == {"zero": ["a"], "peer": ["b"]} and
       page.commands_text({"commands": found}) == "\n    a\n" and not page.commands_text({}),
       "and beneath the table", found)


def sources():
    """Changes that are not committed are other sources, and each their own."""
    said, real = [""], driver.git
    driver.git = lambda *words: said[0] if words[0] == "diff" else real(*words)
    hashes = [driver.measured("limits") for said[0] in ("", "one", "two")]
    driver.git = real
    ok(len(set(hashes)) == 3 and [h.endswith("-changed") for h in hashes] == [False, True, True]
       or hashes[0] == "unknown", "two trees with changes do not share rounds", hashes)
    folders = {name for name in os.listdir(support.TOP)
               if os.path.exists(os.path.join(support.TOP, name, "Makefile.inc"))} \
        - {"tests", "doc", "bench"}
    ok({"core", "tools"} < folders <= set(driver.MEASURED),
       "all that is built is among the sources", sorted(folders - set(driver.MEASURED)))


def grown():
    """The worst pair of sizes counts, not the first and the last."""
    def row(size, ns):
        return {"zero": {"median_s": ns * size * 1e-9, "spread": 0},
                "limit": {"missing": "no memory"} if size >> 30 else {"median_s": size * 1e-9,
                                                                      "spread": 0}}
    rows = {f"{op} {size << 20}": row(size << 20, ns) for op in ("all_gather", "map")
            for size, ns in ((1, 9), (4, 9), (16, 1.1), (64, 1.0), (256, 1.25), (1024, 1.1))}
    part = {"title": "", "others": [], "dates": [], "commits": [], "rows": rows, "programs": [
        {"name": "zero", "label": "libzero"}, {"name": "limit", "label": "limit"}]}
    ok(list(report.growth(part)) == ["all_gather"]
       and near(report.growth(part)["all_gather"]["zero"], 0.25),
       "growth is the most to the least", report.growth(part))
    text = page.limits_table(part | {"growth": report.growth(part)})
    ok("| all_gather, growth per byte, 16 MiB to 1 GiB | +25 % | – | – |" in text,
       "and stands in the table", text)
    part["rows"]["all_gather 1073741824"]["zero"] = {"missing": "no memory"}
    text = page.limits_table(part | {"growth": report.growth(part)})
    ok("| all_gather, growth per byte, 16 MiB to 256 MiB | +25 % | +0 % | – |" in text,
       "up to what was measured", text)
    part["rows"]["all_gather 1073741824"]["zero"] = {"median_s": 1, "spread": 0}
    said = page.reasons([part])
    ok(said == "- limit, all_gather, map: no memory ()\n", "what a reason keeps away is one line",
       said)


def grown_by_rounds():
    """Growth is judged by rounds, as ratios are."""
    found = [{"zero": {f"all_gather {size << 20}": size * (1 + by * (size == 64)) for size in
                       (16, 64, 256)}} for by in (0.1, 0.3, 0.15)] + [{"zero": "failed"}]
    part = programs.Part("limits-coll-2", "limits", "", [programs.Program("zero", "libzero")])
    data = {"settings": SETTINGS["steps"], "repeated": 0, "seconds": 0, "rounds": [
        {"found": f, "others": {}, "date": "", "commit": ""} for f in found]}
    some = report.summary(part, data, 4)
    text = figures.table({"parts": [some]})
    ok(some["growth"]["all_gather"]["rounds"] == [0.1, 0.3, 0.15]
       and "to 256 MiB 15 % (of a round 10–30 %), 2 of 3 rounds: open" in text, "growth of rounds",
       some["growth"], text)


def told_beside():
    """What a record says beside its time is kept, and stands behind it."""
    m = programs.Measured(lambda: {"collectives": {
        "median_s": 2.0, "check": "ok", "also": ("percent_beside_computing",),
        "percent_beside_computing": 96.6}})
    rounds = [{"zero": m.zero()} for _ in range(3)]
    cell = report.cell("zero", "collectives", "zero", rounds)
    ok(cell["median_s"] == 2.0 and page.figure(cell) == "2 s (0 %), 97 % beside computing",
       "what stands beside a time", page.figure(cell))


def unchecked():
    for check in ("off", "failed", "wrong"):
        try:
            programs.checked({"op": "all_gather", "bytes": 4096, "median_s": 1, "check": check})
            said = "nothing"
        except programs.Failed as error:
            said = str(error)
        ok(all(w in said for w in ("all_gather", "4096", check)), "a result that is not right",
           said)


def implausible():
    for losses in ([9.0, 8.0], [10.8, 10.9], [float("nan"), 1.0]):
        try:
            training.plausible(losses, "124M")
            said = ""
        except programs.Failed as error:
            said = str(error)
        ok("losses are" in said, "a training that learns nothing is no step", losses, said)
    ok(training.plausible([10.9, 10.1], "124M") is None, "one that does is")


def left_out():
    part = part_of([])
    found = {"date": "", "commits": ["0"], "quick": False, "rounds": 7, "versions": {},
             "scale": vars(programs.Scale()),
             "machine": {k: "" for k in ("processor", "L2", "L3", "virtual", "kernel", "cores_used",
                                         "processors", "memory_GiB")} | {
                                             "instructions": [], "huge_pages": report.huge_pages()},
             "parts": [], "not_measured": [{"part": p.name, "kind": p.kind, "title": p.title}
                                           for p in all_parts(programs.Scale())]}
    text = page.markdown(found)
    ok(all(f"- {p['title']}: not measured" in text for p in found["not_measured"]),
       "every part that was not run is named", text)
    ok({p.kind for p in all_parts(programs.QUICK)} == set(driver.KINDS),
       "all kinds of parts can be chosen")
    rounds = [{"zero": {"all_gather 1048576": 2.0}, "limit": {"all_gather 1048576": 1.0}}] * 3
    limits = programs.Part("limits-x", "limits", "collectives", [
        programs.Program("zero", "libzero"), programs.Program("limit", "limit")])
    data = driver.State(part, SETTINGS).fresh | {"rounds": [
        {"found": found, "others": {}, "date": "", "commit": ""} for found in rounds]}
    row = page.limits_table(report.summary(limits, data, 3))
    ok("| all_gather, 1 MiB | 2 s (0 %) | 1 s (0 %) **0.50×** (0.50–0.50) | 0.000524, 0.00105 |"
       in row,
       "beside its limit", row)


def otherwise():
    """What was otherwise when a part was measured stands with the part."""
    machine = {"kernel": "6.1", "memory_GiB": 23, "huge_pages": {"enabled": "always",
                                                                 "shmem_enabled": "never"}}
    now = {"machine": machine | {"huge_pages": {"enabled": "always", "shmem_enabled": "advise"}},
           "versions": {"gcc": "12", "fio": "3"}}
    part = {"others": [], "commits": ["a"], "dates": ["b"], "machine": machine,
            "versions": {"gcc": "11", "fio": "3"}}
    ok(page.origin_line(part, now) == "Commit a, b. Measured with huge pages: enabled always, "
       "shmem_enabled never; gcc: 11.\n\n" and
       page.origin_line(part | now, now) == "Commit a, b.\n\n",
       "what was otherwise when a part was measured stands with it", page.origin_line(part, now))


def wanted():
    """What was wanted is judged by most rounds, six of seven, beside the nearest of the peers."""
    def peer(*ratios):
        return {"ratios": list(ratios)}
    far = peer(8, 8, 8, 9, 9, 9, 9)

    def alone(low, middle, high):
        return {"zero": {"median_s": middle, "quartiles": [low, high]}}
    found = {"not_measured": [{"part": "all_gather-4"}], "parts": [
        {"part": "reduce_scatter-2", "programs": [
            {"name": name, "label": name.upper()} for name in ("zero", "openmpi", "mpich")],
         "rows": {
            "f32 1048576": {"openmpi": far, "mpich": peer(3.5, 4.5, 5, 5, 5, 6, 7)},
            "f32 4194304": {"openmpi": peer(2, 3, 5, 5, 5, 6, 7), "mpich": far},
            "f32 16777216": {"openmpi": peer(1, 2, 3, 3, 3, 3.5, 4.5), "mpich": {"missing": "no"}},
            "f32 4096": {"openmpi": peer(0.9, 2, 3, 3, 3, 3.5, 4.5)}}},
        {"part": "limits-step", "programs": [{"name": "zero", "label": "libzero"}], "rows": {
            "exposed": {"limit": peer(0.5, 2, 2, 2, 2, 2, 4)},
            "exposed, ZERO_MAP=0": {"limit": peer(0.5, 0.8, 2, 2, 2, 2, 4)}}},
        {"part": "limits-coll-2", "growth": {"all_gather": {
            "to": 1 << 30, "zero": 0.3, "limit": 0.4,
            "rounds": [0.15, 0.25, 0.3, 0.3, 0.3, 0.35, 0.35]}}, "rows": {
            "map 1048576": alone(9e-6, 1e-5, 2e-5), "map 67108864": alone(1.9e-5, 2e-5, 2.1e-5)},
         "programs": [{"name": "zero", "label": "libzero"}]},
        {"part": "limits-coll-8", "programs": [{"name": "zero", "label": "libzero"}], "rows": {
            "all_gather by 2 ranks 1048576": alone(1, 1, 1), "all_gather 1048576": alone(7, 8, 8),
            "all_gather by 2 ranks 4194304": alone(1, 1.5, 2),
            "all_gather 4194304": alone(7, 9, 11)}}]}
    lines = figures.table(found).splitlines()
    ok([line for line in lines if line.startswith("| ")][1:] == [
        "| reduce_scatter, 2 ranks, again | the better of Open MPI and MPICH | ≥ 4× | 1 MiB 5.00 "
        "(3.50–7.00) **reached**; 4 MiB 5.00 (2.00–7.00), 5 of 7 rounds: open; 16 MiB 3.00 "
        "(1.00–4.50) without MPICH *missed*; 64 MiB not measured |",
        "| reduce_scatter, 2 ranks, again | Open MPI | ≥ 1× | 4 KiB 3.00 (0.90–4.50) **reached** |",
        "| all_gather, 4 ranks on two cores | Open MPI that yields | ≥ 1.5× | not measured |",
        "| all_gather, 8 ranks on two cores: no collapse | the time by 2 ranks : the bytes that "
        "all move | ≤ 2× | 1 MiB 8.00 : 4 = 2.00 **reached**; 4 MiB 6.00 : 4 = 1.50 open; 16 MiB "
        "not measured; 64 MiB not measured |",
        "| reduce_scatter, 8 ranks on two cores: no collapse | the time by 2 ranks : the bytes "
        "that all move | ≤ 2× | 1 MiB not measured; 4 MiB not measured; 16 MiB not measured; "
        "64 MiB not measured |",
        "| a gather that is mapped, 2 ranks: its barrier |  | ≤ 20 µs | 1 MiB 10 µs **reached**; "
        "64 MiB 20 µs open |",
        *(f"| a gather that is mapped, {n} ranks: its barrier |  | ≤ 20 µs | 1 MiB not measured; "
          "64 MiB not measured |" for n in (4, 8)),
        "| what a step in stage 3 waits for, with nothing to compute | the step | ≤ 5 % | "
        "2.5 % (1.2–10.0 %) **reached** |",
        "| what a step in stage 3 waits for, with nothing to compute, parameters gathered by "
        "copies | the step | ≤ 5 % | 2.5 % (1.2–10.0 %), 5 of 7 rounds: open |",
        "| time of a byte, all_gather, 2 ranks, again | growth from 16 MiB on | ≤ 20 % | "
        "to 1 GiB 30 % (of a round 15–35 %), plain loops 40 %, *missed* |",
        *(f"| time of a byte, {op}, 2 ranks, {data} | growth from 16 MiB on | ≤ 20 % | not "
          "measured |"
          for op, data in (("reduce_scatter", "again"), ("all_gather", "cold"),
                           ("reduce_scatter", "cold")))],
       "what was wanted: reached, missed, open or not measured", *lines)
    found["parts"][0]["rows"]["f32 16777216"]["openmpi"] = far
    ok("16 MiB 9.00 (8.00–9.00) without MPICH open" in figures.table(found),
       "with a peer that is not there nothing is reached beside the better of two",
       figures.table(found))


def explained(results):
    """What is missed or open by these figures has its reason in their section of NOTES.md."""
    sections = (results.parent / "NOTES.md").read_text(encoding="utf-8").split("\n## ")
    notes = next((" ".join(x.split()) for x in sections
                  if x.startswith("Beside the peers") and f"`bench/{results.stem}.md`" in x), "")
    rows = list(figures.rows(json.loads(results.read_text(encoding="utf-8"))))
    silent = [called for called, cells in ((f"{what}, beside {beside}" if beside else what, cells)
                                           for what, beside, _, cells in rows)
              if any(c[2] in (figures.MISSED, figures.OPEN) for c in cells)
              and called not in notes]
    ok(rows and not silent, f"what {results.name} has not reached is explained", *silent)


def better_of_two():
    rounds = [{"zero": {"": 1.0}, "openmpi": {"": a}, "mpich": {"": b}}
              for a, b in ((3, 9), (9, 3), (3, 9), (9, 3), (9, 5))] + [
                  {"zero": {"": 1.0}, "openmpi": "failed", "mpich": {"": 4}}]
    row = {name: report.cell(name, "", "zero", rounds) for name in ("zero", "openmpi", "mpich")}
    part = {"rows": {"": row}, "programs": [{"name": name, "label": name} for name in row]}
    ok(row["openmpi"]["ratio"] == 9 and row["mpich"]["ratio"] == 4.5
       and figures.nearest(part, "", ("openmpi", "mpich")) == [3, 3, 3, 3, 5, None],
       "the better of two is the better one of each round in which both have run", row)
    ok(figures.ratios(part, [("", "")], ("openmpi", "mpich"), 2) == [
        ("", "3.00 (3.00–5.00) in 5 of 6 rounds", figures.OPEN)]
       and figures.ratios(part, [("", "")], ("mpich",), 2)[0][2] == figures.REACHED,
       "a round in which one of them has failed leaves it open", figures.ratios(
           part, [("", "")], ("openmpi", "mpich"), 2))


def parts_of_wanted():
    known, has = set(), training.has_bf16_products
    for training.has_bf16_products in (lambda: True, lambda: False):
        known |= {p.name for p in all_parts(programs.Scale())}
    training.has_bf16_products = has
    ok({part for _, _, _, part, _, _ in figures.wanted()} <= known,
       "of parts that there are", sorted({w[3] for w in figures.wanted()} - known))


def said_of_publishing(parts, old):
    """Why parts are not published beside an older file; "" if they are."""
    settings = {kind: {"measured": "0", "quick": False} for kind in driver.KINDS}
    options = SimpleNamespace(quick=False, rounds=7, name="made")
    driver.complete, driver.published = (lambda *_: True), (lambda _: old)
    copied, driver.shutil.copyfile = driver.shutil.copyfile, lambda *_: None
    for part in parts:
        state = driver.State(part, settings)
        state.data["rounds"] = [{"found": {}, "others": {}, "date": "", "commit": ""}]
        state.data["facts"] = {"machine": report.machine(), "versions": report.versions()}
        state.save()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            driver.publish(parts, settings, options, programs.Scale())
        return ""
    except SystemExit as error:
        return str(error)
    finally:
        driver.shutil.copyfile = copied


def stay():
    """What was measured earlier stays beside what is new, with its commit, on the same machine."""
    scale = programs.Scale()
    some = all_parts(scale)[:2]

    def data(commit):
        return {"settings": {"measured": f"sources of {commit}", "quick": False}, "repeated": 0,
                "facts": {"machine": report.machine(), "versions": report.versions()}, "seconds": 1,
                "rounds": [{"found": {}, "others": {}, "date": "2026-01-01", "commit": commit}]}
    ok(report.same_machine(report.machine(), report.machine()) and not report.same_machine(
        report.machine(), report.machine() | {"L3": "another"}), "machines are told apart")
    report.versions = lambda: {peer: "1" for peer in programs.PEERS}
    old = report.results([(p, data("first")) for p in some], 1, scale)
    old = json.loads(json.dumps(old))
    new = report.results([(some[1], data("second"))], 1, scale, old)
    ok([p["commits"] for p in new["parts"]] == [["first"], ["second"]]
       and [p["measured"] for p in new["parts"]] == ["sources of first", "sources of second"]
       and len(new["not_measured"]) == len(all_parts(scale)) - 2,
       "parts of two commits, each with its own", new["parts"])
    old["rounds"] = 7
    ok(said_of_publishing(some[1:], old) == "" and all(w in said_of_publishing(
        some[1:], old | {"scale": old["scale"] | {"samples": 9}}) for w in (
            some[0].name, "samples was 9, is 51")), "what is published is never lost",
       said_of_publishing(some[1:], old), said_of_publishing(
           some[1:], old | {"scale": old["scale"] | {"samples": 9}}))
    text = page.markdown(new)
    ok("Commit first, 2026-01-01." in text and "Commit second, 2026-01-01." in text,
       "the table says which", text)
    for other in (old | {"machine": old["machine"] | {"processor": "another one"}},
                  old | {"versions": old["versions"] | {programs.PEERS[0]: "2"}},
                  old | {"rounds": 0}):
        new = report.results([(some[1], data("second"))], 1, scale, other)
        ok([p["commits"] for p in new["parts"]] == [["second"]],
           "but for figures of another machine, of other peers, of fewer rounds", new["parts"])


def real():
    """The parts that need no peer, at their smallest."""
    scale = programs.Scale(limit_sizes=(65536,), limit_ranks=(2,), samples=2, params=1000,
                           arena=(100,), preset="micro", seq=16, limit_steps=2)
    programs.pinned = lambda cpus, command: list(map(str, command))
    for part in limits.limits(scale):
        try:
            found = [p.run() for p in part.programs]
        except programs.Failed as error:
            found = [str(error)]
        ok(all(f and isinstance(f, dict) for f in found)
           and all(isinstance(report.seconds(v), (int, float)) for f in found for v in f.values())
           and (len(found) == 1 or set(found[0]) >= set(found[1]) and found[1]),
           f"{part.name}: seconds, of the limit for the same keys", found)


quantiles()
watched()
disturbed()
moved()
in_turn()
paired()
loops()
places()
pages()
written()
sources()
grown()
grown_by_rounds()
told_beside()
unchecked()
implausible()
left_out()
otherwise()
wanted()
for results in sorted(pathlib.Path(support.TOP, "bench").glob("RESULTS*.json")):
    explained(results)
better_of_two()
parts_of_wanted()
stay()
real()
support.done()
