# SPDX-License-Identifier: Apache-2.0
"""Medians, spreads and ratios of what driver.py has kept, as JSON; page.py makes a page of it.

A time is the median over the rounds, its spread (90 % quantile - 10 % quantile) / median, both as
`zero bench` has them (tools/bench/measure/stats.c). A ratio is the median of the ratios of single
rounds, the peer's time to libzero's in the same round, so that what slows down both in one round
cancels; above 1 libzero is faster.
"""
import json
import os
import platform
import subprocess

import programs
from figures import quantile
from limits import GROWTH_LEAST
from parts import all_parts

MOST_OTHERS = 0.25  # of a processor, while a program ran: more is a disturbance


def median(values):
    return quantile(values, 0.5)


def spread(values):
    middle = median(values)
    return (quantile(values, 0.9) - quantile(values, 0.1)) / middle if middle > 0 else 0


def lines_of(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    except OSError:
        return []


def huge_pages():
    """Whether the kernel gives them to private and to shared memory."""
    found = {}
    for what in ("enabled", "shmem_enabled"):
        try:
            with open(f"/sys/kernel/mm/transparent_hugepage/{what}", encoding="ascii") as file:
                found[what] = file.read().partition("[")[2].partition("]")[0]
        except OSError:
            found[what] = "unknown"
    return found


def machine():
    fields = dict(line.split(":", 1) for line in lines_of("lscpu") if ":" in line)
    flags = set(fields.get("Flags", "").split())
    telling = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
    with open("/proc/meminfo", encoding="ascii") as file:
        memory = int(file.readline().split()[1]) / 2**20
    return {
        "processor": fields.get("Model name", platform.processor()).strip(),
        "model": ", ".join(f"{k.split()[-1].lower()} {fields[k].strip()}"
                           for k in ("CPU family", "Model", "Stepping") if k in fields),
        "processors": len(os.sched_getaffinity(0)), "cores_used": len(programs.cores()),
        "instructions": [f for f in telling if f in flags],
        "L2": fields.get("L2 cache", "").strip(), "L3": fields.get("L3 cache", "").strip(),
        "memory_GiB": round(memory, 1), "kernel": platform.release(),
        "virtual": fields.get("Hypervisor vendor", "no").strip(),
        "huge_pages": huge_pages(),
    }


def versions():
    found = {peer: programs.peer_line(peer) for peer in programs.PEERS}
    found["gcc"] = f"{(lines_of('gcc', '-dumpfullversion') or ['unknown'])[0]}, {flags()}"
    for name, package in (("openblas", "libopenblas0-pthread"),
                          ("onednn of zero-gpt2", "libdnnl2")):
        found[name] = (lines_of("dpkg-query", "-W", "-f", "${Version}\n", package)
                       or ["unknown"])[0]
    found["python"] = platform.python_version()
    found["Open MPI copies between processes by"] = single_copy()
    found["zero-gpt2 multiplies with"] = products()
    return found


def flags():
    """What the C compiler was told."""
    try:
        text = (programs.BUILD / "Makefile").read_text()
    except OSError:
        return "unknown"
    return next((line[9:] for line in text.splitlines() if line.startswith("CFLAGS = ")), "unknown")


def single_copy():
    """What vader, its component for one machine, may use instead of two copies."""
    name = "btl_vader_single_copy_mechanism"
    lines = lines_of("ompi_info", "--param", "btl", "vader", "--level", "9", "--parsable")
    value = next((line.rpartition(":")[2] for line in lines if f":{name}:value:" in line),
                 "unknown")
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", encoding="ascii") as file:
            scope = file.read().strip()
    except OSError:
        scope = "not there"
    root = "root" if os.geteuid() == 0 else "no root"
    return f"{value} ({name}; yama/ptrace_scope {scope}, {root})"


def products():
    """What zero-gpt2 says about itself in bf16."""
    command = ["./zero-gpt2", "--preset", "micro", "--dtype", "bf16", "--steps", "0", "--val", "0",
               "--data", programs.TOP / "LICENSE"]
    try:
        text = programs.run([(command, programs.environment())], 60)
    except programs.Failed as error:
        return f"unknown: {error}"
    line = text.splitlines()[0] if text else ""
    return line.split(", ", 3)[-1] or "unknown"


# ---- Figures -------------------------------------------------------------------------------------


def seconds(found):
    """A time as programs give it: perhaps with what it is; see programs.limit_of()."""
    return found["seconds"] if isinstance(found, dict) else found


def tried(found):
    """What the limit was in most rounds, and of each loop the median and how often it was best."""
    called = [f["what"] for f in found]
    out = {"what": max(called, key=called.count)}
    for way in dict.fromkeys(way for f in found for way in f.get("ways", {})):
        times = [f["ways"][way] for f in found if way in f.get("ways", {})]
        out.setdefault("ways", {})[way] = {"median_s": median(times), "best": called.count(way)}
    return out


def where(found, bases):
    """In how many rounds which placement and call was the fastest, and the time of each placement,
    in rounds of the first program's `bases` with the ratio to it in the same place."""
    called = [{k: f[k] for k in ("place", "call") if k in f} for f in found if f]
    out = dict(max(called, key=called.count))
    out["fastest_so"] = called.count(out)
    out["places"] = {}
    for place in sorted({p for f in found if f for p in f["places"]}):
        pairs = [(f["places"][place], b["places"].get(place) if b else None)
                 for f, b in zip(found, bases) if f and place in f["places"]]
        times = [t for t, _ in pairs]
        ratios = [t / b for t, b in pairs if b]
        out["places"][place] = {"median_s": median(times), "spread": spread(times)} | (
            {"ratio": median(ratios)} if ratios else {})
    return out


def cell(program, key, base, rounds):
    """The figures of a program in one row; of the first program there is no ratio. A reason that
    is empty: this program has nothing to do with that row."""
    def of_round(r, name):
        found = r.get(name, {})
        return found if isinstance(found, str) else found.get(key)

    def time_or_reason(r, name):
        return seconds(of_round(r, name))

    found = [time_or_reason(r, program) for r in rounds]
    times = [t for t in found if isinstance(t, (int, float))]
    if not times:
        return {"missing": next((t for t in found if isinstance(t, str)), "")}
    out = {"median_s": median(times), "spread": spread(times), "rounds": len(times),
           "quartiles": [quantile(times, 0.25), quantile(times, 0.75)]}
    left_out = sum(program not in r for r in rounds)  # it had failed too often
    if len(times) + left_out < len(rounds):
        out["failed_rounds"] = len(rounds) - left_out - len(times)
    if left_out:
        out["left_out_rounds"] = left_out
    told = [f if isinstance(f, dict) else {} for f in (of_round(r, program) for r in rounds)]
    also = [f["also"] for f in told if "also" in f]
    if also:
        out["also"] = {k: median([a[k] for a in also if k in a]) for k in also[0]}
    if any("what" in f for f in told):
        out |= tried([f for f in told if f])
    elif any("places" in f for f in told):
        bases = [of_round(r, base) if program != base else None for r in rounds]
        out |= where(told, [b if isinstance(b, dict) and "places" in b else None for b in bases])
    if program != base:
        pairs = [(time_or_reason(r, program), time_or_reason(r, base)) for r in rounds]
        by_round = [p / b if isinstance(p, (int, float)) and isinstance(b, (int, float)) else None
                    for p, b in pairs]
        ratios = [ratio for ratio in by_round if ratio is not None]
        if ratios:
            out["ratios"] = [ratio and round(ratio, 4) for ratio in by_round]
            out["ratio"] = median(ratios)
            out["ratio_least"], out["ratio_most"] = min(ratios), max(ratios)
    return out


def commands_of(rounds):
    """Of each program, from the last round in which it ran anything."""
    found = {}
    for r in rounds:
        found |= {name: commands for name, commands in r.get("commands", {}).items() if commands}
    return found


def summary(part, data, n_rounds):
    kept = data["rounds"][:n_rounds]
    rounds, keys = [r["found"] for r in kept], []
    for r in rounds:
        for found in r.values():
            keys += [key for key in found if key not in keys] if isinstance(found, dict) else []
    if part.kind in ("collectives", "transports"):
        first = list(dict.fromkeys(key.split(" ")[0] for key in keys))
        keys.sort(key=lambda key: (first.index(key.split(" ")[0]), int(key.split(" ")[1])))
    out = {"part": part.name, "kind": part.kind, "title": part.title,
           "others": [r["others"] for r in kept], "dates": sorted({r["date"] for r in kept}),
           "commits": sorted({r["commit"] for r in kept}),
           "measured": data["settings"]["measured"], **data.get("facts", {}),
           "commands": commands_of(kept),
           "moved": sum(r.get("moved", False) for r in kept),
           "retries": [f"{label} {why}" for r in kept
                       for label, why in r.get("retries", {}).items()],
           "repeated_rounds": data["repeated"], "seconds": round(data["seconds"]),
           "programs": [], "rows": {}}
    for p in part.programs:
        missing = None if programs.installed(p.peer) else programs.peer_line(p.peer)
        out["programs"].append({"name": p.name, "label": p.label}
                               | ({"missing": missing} if missing else {}))
    for key in keys:
        out["rows"][key] = {
            p["name"]: {"missing": p["missing"]} if "missing" in p else
            cell(p["name"], key, part.programs[0].name, rounds) for p in out["programs"]}
    if part.kind == "limits" and (grown := growth(out)):
        out["growth"] = grown
        for name, found in grown.items():
            found["rounds"] = growth_of_rounds(part.programs[0].name, name, found["to"], rounds)
    return out


def growth(part):
    """Of each operation and program, how much more time a byte takes at most than at least, from
    GROWTH_LEAST to the largest size that was measured, "to"."""
    sizes = [size for size in programs.Scale.limit_sizes if size >= GROWTH_LEAST]
    names = dict.fromkeys(key.rpartition(" ")[0] for key in part["rows"])
    found = {}
    for name in names:
        rows = {size: part["rows"].get(f"{name} {size}") for size in sizes}
        base = part["programs"][0]["name"]
        rows = {size: row for size, row in rows.items() if row and "median_s" in row[base]}
        if name in ("", "map") or len(rows) < 3 or min(rows) > GROWTH_LEAST:
            continue
        found[name] = {"to": max(rows)}
        for p in part["programs"]:
            per = [row[p["name"]].get("median_s", 0) / size for size, row in rows.items()]
            found[name][p["name"]] = max(per) / min(per) - 1 if min(per) else None
    return found


def growth_of_rounds(program, name, largest, rounds):
    """The same of a program in single rounds, of those that have all sizes."""
    sizes = [size for size in programs.Scale.limit_sizes if GROWTH_LEAST <= size <= largest]
    found = []
    for r in rounds:
        times = r.get(program, {})
        per = [] if isinstance(times, str) else [
            seconds(times[f"{name} {size}"]) / size for size in sizes
            if not isinstance(times.get(f"{name} {size}", ""), str)]
        if len(per) == len(sizes):
            found.append(round(max(per) / min(per) - 1, 4))
    return found


IN_ROWS = ("sizes", "limit_sizes", "limit_ranks")  # of a scale: the rows say which


def same_machine(a, b):
    return all(a.get(k) == b.get(k) for k in ("processor", "model", "cores_used", "L2", "L3"))


def other_scale_keys(old, new):
    return [k for k in new if k not in IN_ROWS and old.get(k) != new[k]]


def differences(old, new):
    """Why parts of an older file may not stand beside new ones."""
    scale = other_scale_keys(old["scale"], new["scale"])
    return ([f"{k} was {old['scale'].get(k)}, is {new['scale'].get(k)}" for k in scale]
            + ([f"of {old['rounds']} rounds"] if old["rounds"] < new["rounds"] else [])
            + (["of another machine"] if not same_machine(old["machine"], new["machine"]) else [])
            + [f"{peer} was {old['versions'].get(peer)}, is {new['versions'][peer]}"
               for peer in programs.PEERS if old["versions"].get(peer) != new["versions"][peer]])


def results(done, n_rounds, scale, old=None):
    """Parts that were not run are those of `old`, if they are comparable, or named, so that nothing
    is missing silently."""
    found = {"rounds": n_rounds, "scale": json.loads(json.dumps(vars(scale))),  # as in a file
             "machine": machine(), "versions": versions(),
             "quick": any(d["settings"]["quick"] for _, d in done)}
    parts = {part["part"]: part for part in old["parts"]} \
        if old and not differences(old, found) else {}
    parts |= {p.name: summary(p, d, n_rounds) for p, d in done}
    everything = all_parts(scale)
    found["parts"] = [parts[p.name] for p in everything if p.name in parts]
    dates = sorted({date for part in found["parts"] for date in part["dates"]}) or ["never"]
    found["date"] = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    found["commits"] = sorted({c for part in found["parts"] for c in part["commits"]})
    found["not_measured"] = [{"part": p.name, "kind": p.kind, "title": p.title}
                             for p in everything if p.name not in parts]
    return found
