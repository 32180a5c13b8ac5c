# SPDX-License-Identifier: Apache-2.0
"""What `zero bench` prints: tables and JSON records with the fields they should have, checks that
notice a wrong result, and sentences about bad use. Figures are not judged."""
import atexit
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import support
from support import ok

FIELDS = {"bench": str, "op": str, "comm": str, "ranks": int, "bytes": int, "dtype": str,
          "median_s": float, "spread": float, "bandwidth_GBps": float, "limit_GBps": float,
          "check": str}


OTHERS = r"^others took [\d.]+ % of a processor meanwhile"
STORES = {"plain", "plain by four", "stream", "stream by four"}
LOOPS = STORES | {"stream asking ahead", "memcpy", "each sums all"}
UPDATES = STORES | {"stream the copy", "stream the copy by four"}


def bench(*words, env=None):
    return support.Job([support.ZERO, "bench", *words], 0, env).end(60)


def records(job):
    """The lines of --json, [] unless all are objects."""
    try:
        return [json.loads(line) for line in job.out.splitlines()]
    except ValueError:
        return []


def typed(record, fields):
    """All fields are there, of the right type."""
    return all(isinstance(record.get(f), (int, float) if t is float else t)
               for f, t in fields.items())


def near(a, b):
    return abs(a - b) <= 1e-6 * abs(b)


def good(record, **wanted):
    return (record.get("check") == "ok" and record.get("median_s", 0) > 0
            and record.get("spread", -1) >= 0
            and all(record.get(k) == v for k, v in wanted.items()))


def refused(what, words, *command, env=None):
    """Bad use: status 2 and one sentence with these words, nothing else."""
    job = bench(*command, env=env)
    ok(job.status == 2 and re.search(words, job.err) and not job.out
       and len(job.err.splitlines()) == 1, f"{what} is refused: {words}", job.story())


def coll_table(few):
    job = bench("coll", "--bytes", "4K:64K", *few)
    rows = re.findall(r"^(\w+) +(\d+) +[\d.]+ +[\d.]+% +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+%  ok$",
                      job.out, re.M)
    ok(job.status == 0 and [(o, int(b)) for o, b in rows] ==
       [(o, b) for o in ("all_gather", "reduce_scatter", "all_reduce")
        for b in (4096, 16384, 65536)], "coll: a table of three operations at three sizes",
       job.story())

    ok(re.search(r"^pages of the plugin's memory: (huge|small|\d+ % huge), of the limit's: ",
                 job.out, re.M) and " max GB/s " in job.out,
       "coll: a table's head says which pages", job.story())
    job = bench("coll", "--bytes", "4K", "--dtype", "f16", *few)
    ok(job.status == 0 and "sums in f16 have no limit: there is no plain loop" in job.out,
       "coll: and why f16 has no limit", job.story())


def coll_records(few):
    every = "all_gather,reduce_scatter,all_reduce,broadcast,barrier,map"
    job = bench("coll", "-n", "3", "--comm", "shm", "--op", every, "--bytes", "100,1M", "--dtype",
                "bf16", "--json", *few)
    all_ = records(job)
    moves = [r for r in all_ if r["op"] not in ("barrier", "map")]
    ok(job.status == 0 and len(all_) == 11 and all(good(r, bench="coll", ranks=3) for r in all_),
       "coll --json: a record for each operation and size, all checked", job.story())
    ok(len(moves) == 8 and all(typed(r, FIELDS) and r["dtype"] == "bf16" for r in moves),
       "with all fields", job.story())
    ok({r["bytes"] for r in moves} == {102, 1048578},
       "messages have as many elements for every rank", job.story())
    travels = {"all_gather": 2 / 3, "reduce_scatter": 2 / 3, "all_reduce": 4 / 3, "broadcast": 1}
    ok(all(near(r["bandwidth_GBps"], r["bytes"] / r["median_s"] * 1e-9)
           and near(r["bus_GBps"], r["bandwidth_GBps"] * travels[r["op"]])
           and near(r["limit_GBps"], r["bytes"] / r["limit_s"] * 1e-9)
           and near(r["percent_of_limit"], 100 * r["limit_s"] / r["median_s"])
           and 0 < r["percent_low"] <= r["percent_high"] and r["min_s"] <= r["median_s"]
           for r in moves), "bandwidths and percentages are those of the times", job.story())
    wire = {r["op"]: r["wire_bytes"] for r in all_ if r.get("bytes", 0) >= 1048578}
    ok(wire.get("all_gather") == wire.get("reduce_scatter") == 2 * 1048578 // 3
       and wire.get("map") == 0, "ranks send what the plugin says, and nothing for map", wire)
    ok(all("limit_GBps" not in r and "bandwidth_GBps" not in r for r in all_ if r not in moves),
       "barrier and map move nothing, so there is no bandwidth", job.story())
    ok(all(r.get("limit_s", 0) > 0 and r.get("percent_of_limit", 0) > 0 for r in all_)
       and {r.get("limit_loop") for r in moves} <= LOOPS,
       "a limit in time for all, that of moves from one of the loops", job.story())
    ways = [[r[f"{way.replace(' ', '_')}_s"] for way in LOOPS if f"{way.replace(' ', '_')}_s" in r]
            for r in all_]
    ok(all(r["limit_s"] == min(w) and r[f"{r['limit_loop'].replace(' ', '_')}_s"] == min(w)
           for r, w in zip(all_, ways) if r in moves)
       and all(not w for r, w in zip(all_, ways) if r not in moves),
       "of the loops that took turns the fastest", job.story())
    ok(all(0 <= r[f] <= 100 for r in moves for f in ("huge_pages_percent",
                                                     "limit_huge_pages_percent")),
       "and how much lies in huge pages", job.story())
    ok(all("limit_huge_pages_percent" not in r and ("huge_pages_percent" in r) == (r["op"] == "map")
           for r in all_ if r not in moves),
       "but of barrier, which has no memory, and of map, whose limit has none", job.story())
    ok(all(r["warm"] == (1 if r["batch"] > 1 else 4) for r in all_),
       "what was not timed before a repetition is said", job.story())


def coll_options(few):
    """Each is measured, and beside the limits that it has."""
    moving, sums = ["all_gather"], ["reduce_scatter", "all_reduce"]
    for options, limited in ((["--in-place"], moving + sums), (["--cold"], moving + sums),
                             (["--fresh"], moving + sums), (["--no-limit"], []),
                             (["--dtype", "f16", "-n", "1"], moving)):
        what = f"coll {' '.join(options)}"
        job = bench("coll", "--bytes", "8K", "--json", *few, *options)
        ok(job.status == 0 and len(records(job)) == 3 and all(good(r) for r in records(job)), what,
           job.story())
        ok([r["op"] for r in records(job) if r.get("limit_s", 0) > 0] == limited,
           f"{what}: limits of {' and '.join(limited) or 'nothing'}", job.story())
        ok([r["op"] for r in records(job) if "each_sums_all_s" in r] == (
            ["all_reduce"] if "all_reduce" in limited and options != ["--in-place"] else []),
           f"{what}: two may each sum everything, but not in place", job.story())


def coll_results(few):
    """A wrong element is found wherever it is, and each time brings what was just written."""
    job = bench("coll", "--bytes", "4K", "--json", "--spoil", *few)
    ok(job.status == 1 and [r["check"] for r in records(job)] == ["failed"] * 3
       and re.search(r"reduce_scatter of 4096 bytes: element 511 on rank 1 is \S+, not ", job.err),
       "a wrong element is found and named, exit status 1", job.story())
    job = bench("coll", "--bytes", "64K", "--json", "--spoil", "--cold", *few)
    ok(job.status == 1 and len(re.findall(r"all_reduce of 65536 bytes: element 16383 on rank 1 is",
                                          job.err)) == 1
       and re.search(r"all_reduce of 65536 bytes in slot \d+: element 16383 on rank 1 is", job.err),
       "coll --cold: another slot than the first is checked as well", job.story())
    job = bench("coll", "--op", "all_gather,reduce_scatter,all_reduce,broadcast", "--bytes", "8K",
                "--json", "--fresh", "--cold", *few)
    ok(job.status == 0 and len(records(job)) == 4
       and all(good(r, fresh=1, batch=1, warm=4) for r in records(job)),
       "coll --fresh: one operation at a time, the last one brings what was just written",
       job.story())
    job = bench("coll", "--op", "all_gather,reduce_scatter,all_reduce,broadcast", "--bytes", "8K",
                "--json", "--fresh", "--spoil", *few)
    ok(job.status == 1 and all(
        f"{op} of 8192 bytes that were just written: element" in job.err
        for op in ("all_gather", "reduce_scatter", "all_reduce", "broadcast")),
       "coll --fresh: what is not of the last repetition is found in sums, too", job.story())
    for op, plain in (("all_reduce", "--in-place"), ("reduce_scatter", "--fresh")):
        job = bench("coll", "-n", "3", "--op", op, "--bytes", "4K,1000004", "--json", plain, *few)
        ok(job.status == 0 and all(good(r) and r["limit_s"] > 0 for r in records(job)),
           f"coll {op} {plain}: its limit is in memory that ranks share", job.story())
    job = bench("coll", "--op", "map", "--bytes", "8K", "--json", "--spoil", *few)
    ok(job.status == 1 and [r["check"] for r in records(job)] == ["failed"]
       and "map of 8192 bytes: element" in job.err, "a wrong element of a map is found",
       job.story())


def coll_senseless():
    """Options that do nothing to an operation, or to some sizes."""
    for op, option in (("map", "--cold"), ("barrier", "--cold"), ("map", "--in-place"),
                       ("broadcast", "--in-place"), ("barrier", "--in-place"),
                       ("barrier", "--fresh")):
        refused(f"{option} for {op}, which it does nothing to", f"{option}: .*leave {op} out",
                "coll", "--op", f"all_gather,{op}", option)
    refused("a factor for sizes one by one", "--factor is for a range", "coll", "--bytes", "4K,1M",
            "--factor", "2")
    refused("a size and a blank", '--bytes is "4 "', "coll", "--bytes", "4 ")
    refused("a barrier that is spoiled", "nothing that could be", "coll", "--op", "barrier",
            "--spoil")


def coll_memory(few):
    """No more is needed than what is measured has."""
    job = bench("coll", "--op", "barrier", "--bytes", "1T", "--json", *few)
    ok(job.status == 0 and len(records(job)) == 1, "a barrier needs no memory", job.story())
    job = bench("coll", "--op", "map", "--bytes", "1T", *few)
    ok(job.status == 2 and "2 ranks need 1048576 MiB" in job.err,
       "a map needs what is mapped, and no more", job.story())
    job = bench("coll", "--op", "reduce_scatter", "--bytes", "1T", "--dtype", "f16", *few)
    ok(job.status == 2 and "2 ranks need 4194304 MiB" in job.err,
       "without a limit there is no memory for it", job.story())
    job = bench("p2p", "--bytes", "1T", "--reps", "3")
    ok(job.status == 2 and "2 ranks need 12582912 MiB" in job.err,
       "p2p: what both have mapped counts as well", job.story())


def coll_unchecked(few):
    job = bench("coll", "--bytes", "4K", "--json", "--spoil", "--no-check", *few)
    ok(job.status == 0 and [r["check"] for r in records(job)] == ["off"] * 3,
       "unless nobody checks", job.story())
    job = bench("coll", "--bytes", "4K", "--json", "--no-check", "--check", *few)
    ok(job.status == 0 and [r["check"] for r in records(job)] == ["ok"] * 3,
       "which can be taken back", job.story())


def coll_refused():
    refused("an unknown plugin", "no plugin zero-comm-nosuch.so", "coll", "--comm", "nosuch")
    refused("a plugin for one rank", "at most 1 rank, not 2", "coll", "--comm", "self")
    refused("what the plugin cannot do", "self has no map", "coll", "-n", "1", "--op", "map")
    refused("an unknown operation", '--op is "gather"', "coll", "--op", "gather")
    refused("a bad size", '--bytes is "4X"', "coll", "--bytes", "4X")
    refused("a range that goes down", '--bytes is "1M:4K"', "coll", "--bytes", "1M:4K")
    refused("a message larger than memory", "MiB left: lower", "coll", "--bytes", "1T")
    refused("a bad type", '--dtype is "i8"', "coll", "--dtype", "i8")
    refused("no ranks", '--ranks is "0"', "coll", "-n", "0")
    refused("an option without value", "--bytes needs a value", "coll", "--bytes")
    refused("an unknown option", "--size is not an option", "coll", "--size", "4")
    refused("another word for --op", "--ops is not an option", "coll", "--ops", "all_gather")
    refused("a word", "4K is not an option, and nothing else", "coll", "4K")
    refused("a value too many", "--json=3 has a value, but", "coll", "--json=3")
    refused("an ambiguous option", "--f=1 may be one of several", "coll", "--f=1")
    refused("an unknown letter", "-x is not an option", "coll", "--json", "-x")
    refused("an operation twice", "each once", "coll", "--op", "all_gather,all_gather")


def coll_rounded(few):
    job = bench("coll", "-n", "3", "--op", "all_gather,map", "--bytes", "100,101,102,108,3M",
                "--json", *few)
    ok(job.status == 0 and [(r["bytes"], r.get("wanted_bytes")) for r in records(job)] ==
       [(108, 100), (3 << 20, None), (3 << 12, 100), (3 << 20, None)],
       "sizes that are rounded to the same are measured once, with what was wanted", job.story())


def coll_ranks(few):
    """Who the ranks are, and that no other job starts them."""
    refused("what only ranks are told", "--rank-of-bench=1,1 is not an option", "coll",
            "--rank-of-bench=1,1")
    job = bench("coll", "--rank", "1", "--op", "barrier", "--json", *few)
    ok(job.status == 0 and [r["ranks"] for r in records(job)] == [1], "--rank means --ranks",
       job.story())
    for env in ({"RANK": "0"}, {"PMIX_RANK": "1"}, {"PMI_RANK": "0"},
                {"PMI_RANK": "0", "PMI_SIZE": "2"},
                {"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_STEP_NUM_TASKS": "2"}):
        refused("a job within a job", f"{list(env)[0]} is set", "coll", env=env)
    for what, env in (("mpirun with one rank", {"PMI_RANK": "0", "PMI_SIZE": "1"}),
                      ("srun with one task", {"SLURM_PROCID": "0", "SLURM_NTASKS": "1",
                                              "SLURM_STEP_NUM_TASKS": "1"}),
                      ("a script of sbatch", {"SLURM_PROCID": "0", "SLURM_NTASKS": "2"})):
        job = bench("coll", "--op", "barrier", "--json", *few, env=env)
        ok(job.status == 0 and len(records(job)) == 1, f"but {what} is no job", job.story())


def coll():
    few = ["--reps", "3", "--warmup", "1"]
    coll_table(few)
    coll_records(few)
    limit_pages(few)
    coll_options(few)
    coll_results(few)
    coll_senseless()
    coll_memory(few)
    coll_unchecked(few)
    coll_refused()
    coll_rounded(few)
    coll_ranks(few)


def huge_pages_of(file):
    """What the kernel is told about large pages: always, madvise, never and so on."""
    try:
        with open(f"/sys/kernel/mm/transparent_hugepage/{file}", encoding="ascii") as text:
            return re.search(r"\[(\w+)\]", text.read()).group(1)
    except OSError:
        return "never"


def limit_pages(few):
    """Shared memory of a limit has the pages that the plugin's has."""
    for ops in ("all_gather", "broadcast", "reduce_scatter", "all_gather,broadcast,reduce_scatter"):
        job = bench("coll", "--op", ops, "--bytes", "8M", "--json", *few)
        found = {r["op"]: r.get("limit_huge_pages_percent") for r in records(job)}
        own = {r["op"]: r.get("huge_pages_percent") for r in records(job)}
        ok(job.status == 0 and list(found) == ops.split(",") and None not in found.values(),
           f"coll {ops}: the pages of its limit", job.story())
        for op in sorted({"all_gather", "broadcast"} & found.keys()):
            ok((found[op] or 0) >= (own[op] or 0) - 25,
               f"coll {ops}: {op} and its limit, both in shared memory", (found, own))
        if huge_pages_of("enabled") == "never":
            ok(not found.get("reduce_scatter"), f"coll {ops}: nor are those of private memory",
               found)


def p2p():
    job = bench("p2p", "--bytes", "8,4K", "--reps", "3", "--json")
    all_ = records(job)
    ok(job.status == 0 and [(r["op"], r["comm"], r["bytes"]) for r in all_] ==
       [("exchange", "shm, bare", 8), ("exchange", "shm", 8), ("exchange", "shm, bare", 4096),
        ("exchange", "shm", 4096), ("ping_pong", "shm", 8), ("ping_pong", "shm", 4096)]
       and all(good(r, bench="p2p", ranks=2) and typed(r, FIELDS)
               for r in all_ if r["comm"] == "shm"), "p2p: records for each size", job.story())
    ok(all(r["missing"].startswith("none: shm stands on no library") and "median_s" not in r
           for r in all_ if r["comm"] == "shm, bare")
       and all(r["in_place"] == 1 and "ratio_to_bare" not in r for r in all_
               if r["op"] == "exchange" and r["comm"] == "shm"),
       "p2p: shm has no bare exchange, and a record says so", job.story())
    job = bench("p2p", "--bytes", "8,4K", "--reps", "3")
    ok(job.status == 0 and len(re.findall(r"^bare exchange: none: shm", job.text("out"), re.M)) == 1
       and len(re.findall(r"^exchange +\d", job.text("out"), re.M)) == 2,
       "p2p: and a line above the table, once", job.story())
    job = bench("p2p", "--bytes", "8,64K", "--reps", "3", "--json", "--fresh", "--cold", "--op",
                "ping_pong")
    ok(job.status == 0 and all(good(r, fresh=1, cold=1) for r in records(job)),
       "p2p --fresh --cold", job.story())
    job = bench("p2p", "--bytes", "4K", "--reps", "2", "--spoil")
    ok(job.status == 1 and "failed" in job.out, "p2p: a wrong message is found", job.story())
    refused("a third rank", "-n is not an option", "p2p", "-n", "3")
    refused("an operation of coll", '"barrier": a list of exchange and ping_pong', "p2p", "--op",
            "barrier")
    refused("an operation of p2p", '"exchange": a list of all_gather', "coll", "--op", "exchange")
    for name in ("ucx", "ofi"):
        bare(name)
    bare_fakes()


def bare(name):
    """The library's own exchange, in turn with the plugin's."""
    what = f"p2p: the bare exchange of {name}"
    program = os.path.join(support.BUILD, f"zero-exchange-{name}")
    if not os.path.exists(os.path.join(support.BUILD, ".libs", f"zero-comm-{name}.so")):
        support.skip(what, "the plugin was not built: its library is missing")
        return
    if "thread" in os.environ.get("SANITIZE_CFLAGS", ""):
        support.skip(what, "its library is not for the thread sanitizer")
        return
    few = ["--comm", name, "--op", "exchange", "--bytes", "64K,1M", "--reps", "3", "--warmup", "1"]
    job = bench("p2p", "--json", *few)
    pairs = list(zip(records(job)[::2], records(job)[1::2]))
    ok(job.status == 0 and len(records(job)) == 4
       and all(good(b, op="exchange", comm=f"{name}, bare", bytes=size, repetitions=3)
               and good(p, op="exchange", comm=name, bytes=size, in_place=1)
               for (b, p), size in zip(pairs, (65536, 1 << 20))),
       f"{what} and the plugin's, for each size", job.story())
    ok(pairs and all(p["bare_s"] == b["median_s"] and p["ratio_low"] <= p["ratio_high"]
                     and abs(p["ratio_to_bare"] * p["median_s"] / b["median_s"] - 1) < 1e-6
                     for b, p in pairs), f"{what}: the ratio is that of the medians", job.story())
    job = bench("p2p", *few)
    ok(job.status == 0 and re.search(r"^bare exchange +65536 .* ok\nexchange +65536 .*%  ok$",
                                     job.out, re.M) and "of bare" in job.out,
       f"{what}: a table", job.story())
    for words in (["0"], ["0,9999"], ["0,1", "2"]):
        job = support.Job([program, *words], 0, None).end(60)
        ok(job.status == 2 and job.err.startswith("usage: "), f"{what}: {words} are refused",
           job.story())


FAKE = """#!/usr/bin/env python3
import sys
said = {said}
print("ready", flush=True)
for line in sys.stdin:
    with open({log!r}, "a") as file:
        file.write(line)
    print(said.pop(0) if len(said) > 1 else said[0], flush=True)
    if said[0] == "end":
        break
"""


def bare_fakes():
    """Programs that say what they are told to, beside a copy of zero; for `fault`, which has
    none."""
    folder = support.path("beside")
    os.mkdir(folder)
    log, program = f"{folder}/log", f"{folder}/zero-exchange-fault"
    shutil.copy(support.ZERO, f"{folder}/zero")
    command = [f"{folder}/zero", "bench", "p2p", "--comm", "fault", "--op", "exchange", "--bytes",
               "64K,1M", "--reps", "3", "--warmup", "1", "--json"]

    def run(said):
        if said:
            with open(program, "w", encoding="ascii") as file:
                file.write(FAKE.format(said=said, log=log))
            os.chmod(program, 0o755)
        return support.Job(command, 0, {"ZERO_FAULT_COMM": "shm"}).end(60)

    job = run(None)
    ok(job.status == 0 and [r.get("missing", "")[:42] for r in records(job)] ==
       ["not built: no program zero-exchange-fault ", ""] * 2
       and all(good(r) for r in records(job)[1::2]),
       "p2p: a program that was not built is named, and no failure", job.story())
    job = run(["0.0256"])
    with open(log, encoding="ascii") as file:
        asked = file.read().split("\n")
    ok(job.status == 0 and asked == ["32768 256 1"] * 4 + ["524288 16 1"] * 4 + [""],
       "p2p: each repetition asks for half of the bytes, as often as the plugin moves them", asked)
    ok([r["median_s"] for r in records(job)[::2]] == [0.0001, 0.0016]
       and all(r["bare_s"] == b["median_s"] and r["ratio_low"] <= r["ratio_to_bare"] * 1.0001
               for b, r in zip(records(job)[::2], records(job)[1::2])),
       "p2p: and takes the time that it is told", job.story())
    for what, said, why in (
            ("fails", ["error the data: it is wrong"], "failed: the data: it is wrong"),
            ("fails later", ["0.01", "0.01", "error memory: none"], "failed: memory: none"),
            ("ends", ["0.01", "end"], "failed: it "),
            ("talks nonsense", ["fast"], 'failed: it answered "fast"')):
        job = run(said)
        found = records(job)
        ok(job.status == 1 and len(found) == 4 and found[2].get("missing", "").startswith(why)
           and all(good(r) for r in found[1::2]), f"p2p: a bare exchange that {what}: status 1",
           job.story())


def optimizer():
    few = ["--reps", "3", "--warmup", "1"]
    fields = {k: t for k, t in FIELDS.items() if k not in ("comm", "ranks")}
    fields.update(ns_per_param=float, parameters=int, threads=int, grad_dtype=str)
    for dtype, grad, params, threads in (("bf16", "bf16", "100001", 1), ("bf16", "f32", "1M", 2),
                                         ("f32", "f32", "70K", 2), ("f16", "bf16", "1", 1)):
        job = bench("optimizer", "--dtype", dtype, "--grad-dtype", grad, "--params", params,
                    "--threads", str(threads), "--unit", "64K", "--json", *few)
        all_ = records(job)
        ok(job.status == 0 and [r["op"] for r in all_] == ["update", "norm", "adamw"]
           and all(typed(r, fields) and good(r, bench="optimizer", dtype=dtype, grad_dtype=grad,
                                             threads=threads) for r in all_),
           f"optimizer: {params} parameters of {dtype}, gradients {grad}, {threads} threads",
           job.story())
        ok(all(near(r["ns_per_param"], r["median_s"] * 1e9 / r["parameters"])
               and near(r["bandwidth_GBps"], r["bytes"] / r["median_s"] * 1e-9) for r in all_),
           "optimizer: figures are those of the times", job.story())
    job = bench("optimizer", "--params", "10K", *few)
    ok(job.status == 0 and re.search(r"^adamw +[\d.]+ +[\d.]+% +[\d.]+ .* -  ok$", job.out, re.M),
       "optimizer: a table", job.story())
    job = bench("optimizer", "--params", "1M", "--threads", "64", "--json", *few)
    ok(job.status == 0 and "64 threads share" in job.err
       and all(r.get("percent_of_limit", 0) > 0 for r in records(job)),
       "optimizer: threads that share cores are told of; larger data have a percentage",
       job.story())
    job = bench("optimizer", "--params", "10K", "--json", *few)
    ok(job.status == 0 and len(records(job)) == 3
       and all("percent_of_limit" not in r for r in records(job)),
       "optimizer: small data have no percentage", job.story())
    job = bench("optimizer", "--params", "10K", "--spoil", *few)
    ok(job.status == 1 and "failed" in job.out and re.search("element 1 is p .* not ", job.err),
       "optimizer: a wrong element is found and named", job.story())
    # 16 elements for each that is checked
    job = bench("optimizer", "--params", "1M", "--spoil", *few)
    ok(job.status == 1 and "element 15 is" in job.err,
       "optimizer: what is checked is of every lane of a vector", job.story())
    refused("no parameters", '--params is "0"', "optimizer", "--params", "0")
    refused("more than memory", "MiB left: lower --params", "optimizer", "--params", "100G")
    refused("a bad type", '--dtype is "i8"', "optimizer", "--dtype", "i8")


def step_records(few):
    """One for each part; returned by the names of the parts."""
    job = bench("step", "--stage", "2", "--json", *few)
    all_ = records(job)
    by = {r["op"]: r for r in all_}
    waits = [op for op in by if op.startswith("exposed_")]
    fields = {k: t for k, t in FIELDS.items() if k not in ("bytes", "bandwidth_GBps",
                                                           "limit_GBps")}
    fields.update(stage=int, preset=str, batch=int, seq=int, percent_of_step=float)
    ok(job.status == 0 and {"step", "compute", "exposed", "optimizer", "other"} <= set(by)
       and all(typed(r, fields) and r["stage"] == 2 and r["ranks"] == 2 and r["check"] == "ok"
               and (r["batch"], r["seq"]) == (8, 32)
               and r["rank"] == all_[0]["rank"] in (0, 1)
               and r["repetitions"] == 3 for r in all_) and by["step"].get("tokens_per_s", 0) > 0,
       "step: a record for each part", job.story())
    ok("exposed_reduce" in waits and sum(by[op]["min_s"] for op in waits)
       <= by["exposed"]["median_s"] * 1.001 + 1e-6,
       "step: waits for each kind of op are a part of all waits", job.story())
    ok(0 < by["step"].get("limit_s", 0) <= by["step"]["median_s"] - by["exposed"]["min_s"] + 1e-6
       and 0 <= by["collectives"]["percent_beside_computing"] <= 100,
       "step: what it takes without waits; collectives beside computing", job.story())
    ok(by["optimizer"].get("limit_s", 0) > 0 and by["optimizer"].get("limit_loop") in UPDATES
       and "percent_of_limit" not in by["optimizer"] and "limit_s" not in by["compute"]
       and not re.sub(rf"{OTHERS}.*\n", "", job.err),
       "step: what limits the optimizer, of small states no percentage", job.story())
    return by


def step_table(few):
    job = bench("step", "-n", "1", "--dtype", "bf16", "--batch", "3", "--seq", "20", *few, "--",
                "--accum", "2")
    ok(job.status == 0 and re.search(r"^compute +[\d.]+ +[\d.]+% +[\d.]+% +- +-$", job.out, re.M)
       and "1 rank, bf16, batch 3, sequences of 20, medians of 3" in job.out,
       "step: a table, and options for zero-gpt2", job.story())


def step_elsewhere(few, by):
    """With states on a disk; `by`: records of a step without one."""
    job = bench("step", "--json", "--cache", *few, env={"ZERO_OFFLOAD": "optimizer:nvme"})
    disk = {r["op"]: r for r in records(job)}.get("disk", {})
    ok(job.status == 0 and disk.get("bytes", 0) > 0 and disk.get("bandwidth_GBps", 0) > 0
       and "disk" not in by, "step: how long the disk works, where there is one", job.story())
    ok("limit_s" not in {r["op"]: r for r in records(job)}.get("optimizer", {"limit_s": 0}),
       "step: what is updated from elsewhere has no such limit", job.story())


def step_optimizer(few):
    job = bench("step", "--stage", "0", "--preset", "tiny", "--seq", "16", "--steps", "2", "--json",
                *few[4:], "--", "--accum", "2")
    of = {r["op"]: r for r in records(job)}.get("optimizer", {})
    ok(job.status == 0 and of.get("percent_of_limit", 0) > 0,
       "step: the optimizer's percentage of its limit", job.story())
    again = bench("step", "--stage", "0", "--preset", "tiny", "--seq", "16", "--steps", "2",
                  "--json", *few[4:], "--", "--accum", "2")
    limits = [of.get("limit_s"), {r["op"]: r for r in records(again)}["optimizer"].get("limit_s")]
    ok(limits[0] != limits[1], "step: its limit is measured, and never twice the same", limits)


def step_disk(few):
    job = bench("step", *few, env={"ZERO_OFFLOAD": "optimizer:nvme", "ZERO_NVME_DIRECT": "0"})
    ok(job.status == 1 and "the ranks' tier goes through the page cache" in job.err,
       "step: a disk that is read from the page cache is none", job.story())
    folder = direct_folder()
    if folder:
        job = bench("step", *few, env={"ZERO_OFFLOAD": "optimizer:nvme", "ZERO_NVME_PATH": folder})
        ok(job.status == 0, "step: a disk that is one", job.story())
    else:
        support.skip("step on a disk", "no folder for tests lies on a disk")


def step_options(few):
    job = bench("step", "-n", "1", "--comm", "self", "--reps", "2", "--no-check", "--json",
                *few[:2], *few[4:])
    ok(job.status == 0 and all(r["comm"] == "self" and r["check"] == "off"
                               and r["repetitions"] == 2 for r in records(job)),
       "step: a plugin by name, --reps, --no-check", job.story())
    job = bench("step", "--json", *few[:2], "--steps", "1", *few[4:])
    by = {r["op"]: r for r in records(job)}
    ok(job.status == 0 and by["exposed"]["median_s"] > 0 and abs(
        by["step"]["limit_s"] - by["step"]["median_s"] + by["exposed"]["median_s"]) < 1e-7,
       "step: of one, what it takes without waits is the rest of it", job.story())


def step_losses(few):
    job = bench("step", "--spoil", "--json", *few)
    ok(job.status == 1 and records(job) and all(r["check"] == "failed" for r in records(job))
       and re.search(r"step 1 has the loss \S+ on rank 1 and \S+ on rank 0", job.err),
       "step: ranks that tell different losses are found", job.story())
    job = bench("step", "-n", "1", "--spoil", *few)
    ok(job.status == 1 and "check failed" in job.out
       and "the logarithm of a vocabulary of 256" in job.err,
       "step: so is a first loss that cannot be", job.story())


def step_refused(few):
    refused("an unknown preset", 'is "huge": micro, tiny, 124M, 350M, 774M or 1.5B is wanted$',
            "step", "--preset", "huge")
    refused("an unknown stage", '--stage is "4"', "step", "--stage", "4")
    for word in ("--preset", "--js=x", "--ops", "--steps=1", "--val", "--stage"):
        refused("what would falsify the record", f"{word} behind -- would", "step", *few, "--",
                word, "0")
    job = bench("step", "-n", "1", *few, "--", "--vocab", "0")
    ok(job.status not in (0, None) and "--vocab 0" in job.err, "step: zero-gpt2 says what is wrong",
       job.story())
    refused("a value too many", "--json=3 has a value, but", "step", "--json=3")
    refused("a word", "micro is not an option", "step", "micro")
    refused("a job within a job", "RANK is set", "step", env={"RANK": "0"})
    refused("no steps", '--steps is "0"', "step", "--steps", "0")
    refused("a folder that is not there", "set TMPDIR", "step", env={"TMPDIR": "/nonexistent"})


def step():
    few = ["--preset", "micro", "--steps", "3", "--warmup", "1", "--data", support.TEXT]
    by = step_records(few)
    step_table(few)
    step_elsewhere(few, by)
    step_optimizer(few)
    step_disk(few)
    step_options(few)
    step_losses(few)
    step_refused(few)


def direct_folder():
    """A folder on a disk, None where files for tests lie in memory only."""
    for place in (support.FOLDER, support.BUILD, "/var/tmp"):
        kind = subprocess.run(["stat", "-f", "-c", "%T", place], capture_output=True, text=True)
        if kind.returncode == 0 and kind.stdout.strip() not in ("tmpfs", "ramfs", "overlayfs"):
            folder = tempfile.mkdtemp(prefix="bench-offload-", dir=place)
            atexit.register(shutil.rmtree, folder, True)
            return folder
    return None


def offload_cpu(few):
    job = bench("offload", "--tier", "cpu", "--op", "read,random_mixed", "--bytes", "64K:256K",
                "--depth", "1:2", "--json", *few)
    all_ = records(job)
    ok(job.status == 0 and [(r["op"], r["bytes"], r["depth"]) for r in all_] ==
       [(op, b, d) for op in ("read", "random_mixed") for b in (1 << 16, 1 << 18) for d in (1, 2)]
       and all(good(r, bench="offload", tier="cpu") and r.get("limit") in LOOPS
               and r["percent_low"] <= r["percent_high"] for r in all_),
       "offload of memory: a record for each shape, beside plain loops", job.story())
    job = bench("offload", "--tier", "cpu", *few)
    ok(job.status == 0 and re.findall(r"^(\w+) +2097152 +16 .* ok$", job.out, re.M) ==
       ["read", "write", "mixed"], "offload: a table", job.story())
    job = bench("offload", "--tier", "cpu", "--op", "read", "--at-least", "1", "--json", *few)
    ok(job.status == 0, "a bound that is kept", job.story())
    job = bench("offload", "--tier", "cpu", "--op", "read", "--at-least", "1000", "--json", *few)
    ok(job.status == 1 and len(records(job)) == 1
       and re.search(r"[\d.]+ % of what it ran beside .* at least 1000 were wanted", job.err),
       "offload: a bound that is missed", job.story())
    job = bench("offload", "--tier", "cpu", "--spoil", "--json", *few)
    ok(job.status == 1 and [r["check"] for r in records(job)] == ["failed"] * 3
       and re.search(r"cpu: the 4096 bytes at \d+ are not what was written", job.err),
       "offload: a wrong byte is found, and where it is", job.story())
    job = bench("offload", "--tier", "cpu", "--spoil", "--no-check", "--json", *few)
    ok(job.status == 0 and [r["check"] for r in records(job)] == ["off"] * 3,
       "unless nobody checks", job.story())
    refused("a block of no pages", "5000 is no multiple of 4096", "offload", "--bytes", "5000")
    refused("a store without room", "less than twice the 64 blocks", "offload", "--depth", "64",
            "--size", "64M")
    refused("too deep", "at most 1024 is possible", "offload", "--depth", "4K")
    refused("pages of no kind", '--pages is "gigantic": auto, small or huge is wanted$',
            "offload", "--pages", "gigantic")
    refused("an unknown operation", '--op is "append"', "offload", "--op", "append")
    refused("no number", '^zero bench offload: --reps is "no"', "offload", "--reps", "no")
    refused("an operation twice", "each once", "offload", "--op", "read,read")
    refused("no time", '--seconds is "0": seconds from 0.01 to 3600 are wanted$', "offload",
            "--seconds", "0")
    refused("a time in words", '--seconds is "1s": seconds from', "offload", "--seconds", "1s")
    refused("what is no option", "OPTION=VALUE is wanted", "offload", "--beside", "depth")
    refused("more than memory", "lower --bytes or --depth", "offload", "--bytes", "1G", "--size",
            "4T", "--depth", "1K")
    refused("an unknown plugin", "no plugin zero-offload-nosuch.so", "offload", "--tier", "nosuch")


def offload_nvme(few):
    folder = direct_folder()
    if not folder:
        support.skip("offload to a disk", "no folder for tests lies on a disk")
        return
    disk = {"ZERO_NVME_PATH": folder}
    shape = ["--bytes", "256K", "--json", *few]
    job = bench("offload", "--op", "read,write,random_mixed", *shape, env=disk)
    all_ = records(job)
    ok(job.status == 0 and len(all_) == 3 and all(r["depth"] == 16 for r in all_)
       and all(good(r, bench="offload", tier="nvme", beside="nvme_checksum=0")
               and r["on_disk_percent"] >= 95 and r["beside_GBps"] > 0
               and "past the page cache" in r["store"] for r in all_),
       "offload to a disk: what the plugin moved is on the disk", job.story())
    if shutil.which("fio"):
        ok(all(r.get("limit", "").startswith("fio") and r["limit_cpu_s_per_GB"] >= 0
               and r["limit_pages"] in ("unknown", "small") for r in all_), "beside fio",
           job.story())
        pages(shape, disk)
    else:
        ok("fio is not installed" in job.err, "there is no fio: it says so", job.story())
    job = bench("offload", "--no-fio", "--beside", "", "--op", "read", *shape, env=disk)
    ok(job.status == 0 and not job.err
       and all("limit" not in r and "beside" not in r for r in records(job)),
       "offload: beside nothing", job.story())
    job = bench("offload", "--no-fio", "--at-least", "50", "--op", "read", *shape, env=disk)
    ok(job.status == 1 and "nothing ran beside it" in job.err, "nor a bound", job.story())
    job = bench("offload", "--beside", "nvme_chksum=0", *shape, env=disk)
    ok(job.status == 2 and "nearest option is nvme_checksum" in job.err,
       "offload: an option that nobody knows is refused", job.story())
    cached = {**disk, "ZERO_NVME_DIRECT": "0"}
    job = bench("offload", *shape, env=cached)
    ok(job.status == 1 and not job.out and "through the page cache" in job.err,
       "offload through the page cache: no figures, status 1", job.story())
    job = bench("offload", "--cache", "--op", "read", *shape, env=cached)
    ok(job.status == 0 and all(r["on_disk_percent"] < 95 for r in records(job)),
       "unless that is allowed; what was read from memory is not counted as on disk", job.story())
    memory_as_disk(shape)
    ok(not (left := support.left_in(folder)), "offload: nothing stays in the folder", left)


def pages(shape, disk):
    """fio's blocks lie in pages of the same kind as ours, which is looked up while it works."""
    def kinds(*more):
        job = bench("offload", "--beside", "", "--op", "read", *shape, *more, env=disk)
        return job, [(r["pages"], r["limit_pages"]) for r in records(job)]

    job, seen = kinds("--pages", "small", "--seconds", "0.5")
    ok(seen == [("small", "small")], "small pages for both", job.story())
    with open("/sys/kernel/mm/transparent_hugepage/enabled", encoding="ascii") as file:
        never = "[never]" in file.read()
    if never:
        refused("huge pages where the system has none", "--pages huge: this system has none",
                "offload", "--op", "read", "--pages", "huge", env=disk)
        return
    for more in ([], ["--pages", "huge"]):
        job, seen = kinds("--seconds", "0.5", "--bytes", "2M", *more)
        if seen == [("huge", "small")]:
            ok("small pages and ours in huge ones" in job.err, f"a fio without them is told {more}",
               job.story())
        else:
            ok(seen == [("huge", "huge")] and not job.err, f"huge pages for both {more}",
               job.story())


def memory_as_disk(shape):
    """Files that claim to be past the page cache, and lie in memory: only the
    kernel's count tells."""
    what = "offload to memory that looks like a disk: found out by /proc/self/io"
    base = support.path("layers")
    os.mkdir(base)
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "none", base],
                                      capture_output=True).returncode:
        support.skip(what, "this user may not mount a file system")
        return
    try:
        for name in ("lower", "upper", "work", "merged"):
            os.mkdir(f"{base}/{name}")
        layers = f"lowerdir={base}/lower,upperdir={base}/upper,workdir={base}/work"
        merged = f"{base}/merged"
        if subprocess.run(["mount", "-t", "overlay", "-o", layers, "none", merged],
                          capture_output=True).returncode:
            support.skip(what, "this system has no overlays")
            return
        job = bench("offload", "--no-fio", "--op", "write", *shape, env={"ZERO_NVME_PATH": merged})
        if "through the page cache" in job.err:
            support.skip(what, "this system's memory files are not past the page cache")
        else:
            ok(job.status == 1 and re.search(r" 0\.0 % of it is on disk", job.err), what,
               job.story())
    finally:
        subprocess.run(["umount", "-l", f"{base}/merged"], capture_output=True, check=False)
        subprocess.run(["umount", "-l", base], check=False)


def offload():
    few = ["--reps", "2", "--warmup", "0", "--seconds", "0.02", "--size", "128M"]
    offload_cpu(few)
    if os.path.exists(os.path.join(support.BUILD, ".libs", "zero-offload-nvme.so")):
        offload_nvme(few)
    else:
        support.skip("offload to a disk", "built without liburing")


def beside():
    """Each says so when something else runs where it does: a loop on the only processor, here."""
    may = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(may)})
    neighbour = support.Job([sys.executable, "-c", "while True: pass"])
    for words in (["coll", "-n", "1", "--bytes", "1M", "--reps", "60"],
                  ["optimizer", "--params", "8M", "--reps", "60"],  # for some time, on any machine
                  ["step", "--preset", "micro", "--steps", "20"],
                  ["arena", "--nodes", "0", "--step", "10K", "--reps", "60"]):
        for how in ([], ["--json"]):
            job = bench(*words, *how)
            ok(job.status == 0 and bool(re.search(OTHERS, job.err, re.M)) == bool(how)
               and bool(re.search(OTHERS, job.out, re.M)) != bool(how),
               f"{words[0]} {how}: what others took", job.story())
    neighbour.kill()
    neighbour.end()
    os.sched_setaffinity(0, may)


def helps(*names):
    for name in names:
        job = bench(name, "--help")
        ok(job.status == 0 and job.out.startswith(f"usage: zero bench {name}") and not job.err,
           f"{name} --help", job.story())


helps("coll", "p2p", "optimizer", "offload", "step")
ok("is no defect" in " ".join(bench("coll", "--help").out.partition("--comm")[0].split()),
   "coll --help says before its options what a low percentage of small messages means")
said = bench("step", "--help").out
ok(all(re.search(rf"^  --{option} (.|\n {{20}})*\((.|\n {{20}})*\)$", said, re.M)
       for option in ("stage", "batch", "seq", "dtype")), "step --help says what is taken", said)
coll()
p2p()
optimizer()
offload()
step()
beside()
support.done()
