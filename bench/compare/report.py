# SPDX-License-Identifier: Apache-2.0
"""Medians, spreads and ratios of what driver.py has kept, as JSON and as Markdown.

A time is the median over the rounds, its spread (90 % quantile - 10 % quantile) / median, both as
`zero bench` has them (tools/bench_stats.c). A ratio is the median of the ratios of single rounds,
the peer's time to libzero's in the same round, so that what slows down both in one round cancels;
above 1 libzero is faster.
"""
import json
import os
import platform
import subprocess

import figures
import programs
from figures import quantile, ratio_text, size_text
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


def pages_text(m):
    """Where huge pages are to be had."""
    found = m["huge_pages"]
    gives = {what: found[what] in ("always", "madvise", "advise", "within_size", "force")
             for what in found}
    return (f"huge pages, for which all ask, the machine gave to "
            f"{'' if gives['enabled'] else 'no '}private memory ({found['enabled']}), that of MPI and "
            f"gloo, and to {'' if gives['shmem_enabled'] else 'no '}shared memory "
            f"({found['shmem_enabled']}), that of libzero, which asks for each by itself, too")


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
    found["openblas"] = (lines_of("dpkg-query", "-W", "-f", "${Version}\n", "libopenblas0-pthread")
                         or ["unknown"])[0]
    found["python"] = platform.python_version()
    found["Open MPI copies between processes by"] = single_copy()
    found["zero-gpt2 multiplies with"] = products()
    return found


def single_copy():
    """What vader, its component for one machine, may use instead of two copies."""
    name = "btl_vader_single_copy_mechanism"
    lines = lines_of("ompi_info", "--param", "btl", "vader", "--level", "9", "--parsable")
    value = next((line.rpartition(":")[2] for line in lines if f":{name}:value:" in line), "unknown")
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", encoding="ascii") as file:
            scope = file.read().strip()
    except OSError:
        scope = "not there"
    return f"{value} ({name}; yama/ptrace_scope {scope}, {'root' if os.geteuid() == 0 else 'no root'})"


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
            out["ratio_quartiles"] = [quantile(ratios, 0.25), quantile(ratios, 0.75)]
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
           "retries": [f"{label} {why}" for r in kept for label, why in r.get("retries", {}).items()],
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
    if part.kind == "limits" and growth(out):
        out["growth"] = growth(out)
        for name, found in out["growth"].items():
            found["rounds"] = growth_of_rounds(part.programs[0].name, name, found["to"], rounds)
    return out


GROWTH = (16 << 20, 1 << 30)


def growth(part):
    """Of each operation and program, how much more time a byte takes at most than at least, from
    16 MiB to 1 GiB, or to the largest size that was measured, "to"."""
    sizes = [size for size in programs.Scale.limit_sizes if GROWTH[0] <= size <= GROWTH[1]]
    names = dict.fromkeys(key.rpartition(" ")[0] for key in part["rows"])
    found = {}
    for name in names:
        rows = {size: part["rows"].get(f"{name} {size}") for size in sizes}
        base = part["programs"][0]["name"]
        rows = {size: row for size, row in rows.items() if row and "median_s" in row[base]}
        if name in ("", "map") or len(rows) < 3 or min(rows) > GROWTH[0]:
            continue
        found[name] = {"to": max(rows)}
        for p in part["programs"]:
            per = [row[p["name"]].get("median_s", 0) / size for size, row in rows.items()]
            found[name][p["name"]] = max(per) / min(per) - 1 if min(per) else None
    return found


def growth_of_rounds(program, name, largest, rounds):
    """The same of a program in single rounds, of those that have all sizes."""
    sizes = [size for size in programs.Scale.limit_sizes if GROWTH[0] <= size <= largest]
    found = []
    for r in rounds:
        times = r.get(program, {})
        per = [] if isinstance(times, str) else [
            seconds(times[f"{name} {size}"]) / size for size in sizes
            if not isinstance(times.get(f"{name} {size}", ""), str)]
        if len(per) == len(sizes):
            found.append(round(max(per) / min(per) - 1, 4))
    return found


def flags():
    """What the C compiler was told."""
    try:
        text = (programs.BUILD / "Makefile").read_text()
    except OSError:
        return "unknown"
    return next((line[9:] for line in text.splitlines() if line.startswith("CFLAGS = ")), "unknown")


IN_ROWS = ("sizes", "limit_sizes", "limit_ranks")  # of a scale: the rows say which


def same_machine(a, b):
    return all(a.get(k) == b.get(k) for k in ("processor", "model", "cores_used", "L2", "L3"))


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


# ---- Markdown ------------------------------------------------------------------------------------

INTRODUCTION = """\
<!-- SPDX-License-Identifier: Apache-2.0 -->
# libzero beside its peers

Written by `bench/compare/run`; the same figures, and more, are in the JSON file beside this one.
Times are medians of {rounds} rounds, in each of which libzero and every
peer ran once, each round in another order; in brackets (90 % − 10 % quantile) / median. Ratios are
a peer's time to libzero's in the same round, medians again: above 1 libzero is faster. Behind a
ratio stand the least and the greatest of a round; it is bold where at least three quarters of the rounds
agree on who is faster. Part by part it says at which commit it was measured, and how much of a processor others took, or the host of a
virtual machine, while a program ran; the JSON file has a hash of the sources that each depends on.

| | |
|---|---|
"""

NOTES = {
    "collectives": """\
Bytes are those of the full message. In place and out of place were both measured; the faster one
counts, for every program, and stands behind its time ("in", "out", as it was in most rounds; the JSON
file has both, with the ratio in the same place); for a reduce_scatter of MPI's the fastest one of
`MPI_Reduce_scatter_block`, `MPI_Reduce_scatter` and `MPI_Allreduce`. The fastest of three starts of each placement counts,
since some take several times as long, whoever sums (NOTES.md, "Processors that are far apart"); of gloo
there is one. Ranks are bound to a core each
where there are enough; with more ranks than cores libzero's are bound in turn, Open MPI's yield
(`mpi_yield_when_idle`) and are both bound and not, of which the faster one counts; MPICH, which polls without yielding, and gloo, which takes
half a minute to a minute a round, are left out. Samples and buffers are those of `zero bench coll`:
the same buffers again and again, small operations in a row, so that what fits into the caches comes
from there, for libzero also what the other rank has not written since. In the tables in which what
is sent was just written, each rank writes its part before each operation, as a product writes
gradients, one operation is a sample, and the meeting of the ranks before it is in small ones (gloo
is left out). MPI and gloo take any memory, libzero's buffers lie in memory that its plugin has
allocated; {pages}.
""",
    "transports": """\
Two ranks on this machine, the messages through UCX or libfabric, fp32: libzero in place, Open MPI in
place or not and by whichever call is the fastest, which stands behind its time. The bare exchange
calls nothing but the transport: each rank sends half of the message from a private buffer and
receives the other half into one, both at once and polling. It takes turns with libzero's gather of as
many bytes (`exchange`, of `zero bench p2p`), as many in each sample: the ratio is the part of the
transport's speed that is left. Open MPI uses the same kind of wire with its own components.
""",
    "optimizer": """\
AdamW on {params} parameters in bf16; fp32 master copy, momentum and variance. PyTorch and DeepSpeed
have {tensors} tensors. Gradients in bf16 have to be turned into fp32 for both, which counts, except
for "no master copy": there DeepSpeed updates bf16 parameters in place and moves 22 bytes per
parameter instead of 28, for less precise results (and without AVX-512 by a loop that is plain C, as
cpu_adam.h of 0.19.8 has it: no peer then). Norm and clipping are left out on all sides. The plain loop loads and stores the same
bytes as libzero and computes nothing: nobody who moves them can be faster by more than its ratio.
All use large pages where the kernel gives them when asked (PyTorch: `THP_MEM_ALLOC_ENABLE`).
""",
    "steps": """\
GPT-2 of the same shape ({preset}, sequences of {seq} tokens), two ranks with one thread, each bound
to one core with all its helper threads; the norm of the gradient is clipped to 1, AdamW. bf16 means
parameters, and gradients on the wire, in bf16 and fp32 master copies. What differs: in bf16 PyTorch
also keeps activations in bf16; zero-gpt2 keeps them in fp32. Both multiply in bf16 with oneDNN
where the processor has instructions for it and, for zero-gpt2, where its line above says so; otherwise
zero-gpt2 widens to fp32. In fp32 both do the same work, each with its own BLAS. Every program also
starts anew in each round; its first {warmup} steps do not count. With `ZERO_MAP=0` libzero gathers
parameters by copying them instead of mapping the owners' memory. PyTorch and DeepSpeed run eagerly,
as they do unless told otherwise: what torch.compile() would give was not tried. They use large
pages as above.
""",
    "offload": """\
A store of {store} bytes on the disk that ZERO_NVME_PATH names (else /var/tmp), read and written one
block after another past the page cache; times are those of a block. fio is the limit: its blocks lie in
pages of the same kind as libzero's, huge ones where the system gives them to who asks, and it takes turns
with libzero in one run, as does libzero without checksums, which no other has; DeepSpeed locks all memory
that it reads into or writes from, in such pages too, and has as many blocks under way. Where a part was
measured otherwise, it says so. Steps are those of stage 3 above, with what the table says outside
the device, which is the same memory here for "cpu": what moves there is copied for nothing, and
counts. PyTorch and DeepSpeed keep fp32 parameters as masters where libzero keeps halves.
""",
    "limits": """\
libzero alone, beside what limits it: plain loops with the same loads and stores, measured in turn
with it in the same run (`zero bench`). The bold ratio is the limit's time to libzero's: 0.9 is 90 %
of the limit, above 1 libzero is better to the memory than those loops. Behind it is which loop was
the best one in most rounds; the JSON file has the medians of all. "Fresh" is what was just written by
the rank that gives it; there, and for the sums of an all_reduce, the loops work on memory that ranks
share, so that it comes from where the operation has it. "Cold" is other memory each time, beyond all
caches. Collectives are of fp32 in shm;
with more ranks than cores both take turns on them. "map" is a gather that moves nothing, beside the
flags that its ranks raise. Growth per byte is the most time of a byte over these sizes to the least,
less 1. Of a step `exposed` is what the rank that waits longest waits for with nothing to compute,
the exchange of norms before the update included.
""",
}


def time_text(seconds):
    for factor, unit in ((1, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


HUGE_LEAST = 90  # % of memory in huge pages; with less a table says how much


def figure(found):
    if "missing" in found:
        return "–"
    text = f"{time_text(found['median_s'])} ({100 * found['spread']:.0f} %){failures(found)}"
    what = found.get("what", "")
    if what.startswith("wanted"):  # nothing was measured that could be ahead or behind
        return f"{what}, {time_text(found['median_s'])}"
    text += f" {ratio_figure(found)}" if "ratio" in found else ""
    how = what or ", ".join(found[k] for k in ("place", "call") if k in found)
    text += f" {how}" if how else ""
    return text + "".join(f", {value:.0f} {programs.ALSO[what]}"
                          for what, value in found.get("also", {}).items()
                          if not what.endswith("huge_pages_percent") or value < HUGE_LEAST)


def failures(found):
    """Of how many rounds a figure is not, and why."""
    return "".join(f", {what} {found[key]} rounds" for key, what in (
        ("failed_rounds", "failed in"), ("left_out_rounds", "then left out of")) if key in found)


def ratio_figure(found):
    """With its range; bold where most rounds agree on which side of 1 it is."""
    text = f"{ratio_text(found['ratio'])}×"
    first, third = found["ratio_quartiles"]
    text = f"**{text}**" if first > 1 or third < 1 else text
    return f"{text} ({ratio_text(found['ratio_least'])}–{ratio_text(found['ratio_most'])})"


def table(header, rows):
    out = "| " + " | ".join(header) + " |\n|" + "---|" * len(header) + "\n"
    return out + "".join("| " + " | ".join(row) + " |\n" for row in rows)


def reasons(parts):
    """Every reason once, with the programs and rows that it keeps from a part, and the parts."""
    found = {}
    for part in parts:
        here = {}
        for p in part["programs"]:
            cells = {k: r[p["name"]].get("missing") for k, r in part["rows"].items()}
            for key, reason in [("", p["missing"])] if "missing" in p else cells.items():
                if reason:
                    labels, names = here.setdefault(reason, ({}, {}))
                    labels[p["label"]] = names[key.split(" ")[0]] = True
        for reason, (labels, names) in here.items():
            text = ", ".join(name for name in (*labels, *names) if name)
            titles = found.setdefault(f"{text}: {reason}", [])
            titles += [part["title"]] if part["title"] not in titles else []
    return "".join(f"- {text} ({'; '.join(where)})\n" if "not installed" not in text else
                   f"- {text}\n" for text, where in found.items())



def circumstances(part, now):
    """What was otherwise when the part was measured than the file's head has it."""
    def all_of(x):
        m = x["machine"]
        return {"Linux": m["kernel"], "memory in GiB": m["memory_GiB"], "huge pages": pages_brief(m),
                **x["versions"]}
    has = all_of(now)
    other = [f"{what}: {value}" for what, value in all_of(part).items()
             if what in has and value != has[what]]
    return f" Measured with {'; '.join(other)}." if other else ""


def pages_brief(m):
    return "enabled {enabled}, shmem_enabled {shmem_enabled}".format(**m["huge_pages"])


def origin_line(part, now=None):
    """Which sources and when, how quiet it was, and what is to be known of it; `now`: all results,
    with the machine and the versions that their head names."""
    seen = [max(r.values()) for r in part["others"] if r]
    bad = sum(x > MOST_OTHERS for x in seen)
    others = f" Others took at most {100 * max(seen):.0f} % of a processor, in the middle round " \
             f"{100 * median(seen):.0f} %." if seen else ""
    others += f" Disturbed so, also when they were done again: {bad} rounds." if bad else ""
    retries = part.get("retries", [])
    others += f" Failed and ran again ({len(retries)}): {'; '.join(dict.fromkeys(retries))}." \
        if retries else ""
    others += circumstances(part, now) if now else ""
    return f"Commit {', '.join(part['commits'])}, {', '.join(part['dates'])}.{others}\n\n"


def collectives_table(part, now=None):
    names = [p["name"] for p in part["programs"]]
    rows = []
    for key, row in part["rows"].items():
        dtype, size = key.split(" ")
        rows.append([dtype, size_text(int(size)), *(figure(row[name]) for name in names)])
    return f"\n### {part['title']}\n\n{origin_line(part, now)}" + table(
        ["", "bytes", *(p["label"] for p in part["programs"])], rows)


def limits_table(part, now=None):
    rows, sized = [], False
    for key, row in part["rows"].items():
        name, _, size = key.rpartition(" ")
        found = [figure(row[p["name"]]) for p in part["programs"]]
        if size.isdigit():
            sized = True
            time = row[part["programs"][0]["name"]].get("median_s", 0)
            rows.append([f"{name}, {size_text(int(size))}", *found,
                         f"{1e9 * time / int(size):.3g}" if time and name != "map" else "–"])
        else:
            rows.append([key, *found])
    for name, found in growth(part).items():
        rows.append([f"{name}, growth per byte, {size_text(GROWTH[0])} to "
                     f"{size_text(found.get('to', GROWTH[1]))}",
                     *(f"+{100 * found[p['name']]:.0f} %" if found[p["name"]] is not None else "–"
                       for p in part["programs"]), "–"])
    header = ["", *(p["label"] for p in part["programs"]), *(["ns per byte"] if sized else [])]
    return f"\n### {part['title']}\n\n{origin_line(part, now)}" + table(header, rows)


def list_table(part, params, now=None):
    rows = []
    for p in part["programs"]:
        found = part["rows"].get("", {}).get(p["name"], {"missing": p.get("missing", "")})
        if "missing" in found:
            rows.append([p["label"], "–", "–", "–"] + (["–"] if params else []))
            continue
        ratio = "1"
        if "ratio" in found:
            ratio = ratio_figure(found)
        per = [f"{found['median_s'] / params * 1e9:.2f}"] if params else []
        rows.append([p["label"], time_text(found["median_s"]) + failures(found), *per,
                     f"{100 * found['spread']:.0f} %", ratio])
    per = ["ns per parameter"] if params else []
    return f"\n### {part['title']}\n\n{origin_line(part, now)}" + table(
        ["", "time", *per, "spread", "to libzero"], rows)


def commands_text(part):
    """What libzero ran, beneath its table; of the peers the JSON file has it."""
    found = part.get("commands", {})
    lines = next((found[name] for name in ("zero", "limit") if found.get(name)), [])
    return "".join(f"\n    {line}" for line in lines) + "\n" if lines else ""


def other_scale_keys(old, new):
    return [k for k in new if k not in IN_ROWS and old.get(k) != new[k]]


def markdown(found):
    m, scale = found["machine"], found["scale"]
    text = INTRODUCTION.format(**found)
    kind = "" if found["quick"] is False and found["rounds"] >= 7 else " — **not for publication**"
    facts = [("date, commits", f"{found['date']}, {', '.join(found['commits'])}{kind}"),
             ("processor", f"{m['processor']}, {m['cores_used']} cores used of {m['processors']} "
                           f"processors, {', '.join(m['instructions'])}; "
                           f"L2 {m['L2']}, L3 {m['L3']}; virtual: {m['virtual']}"),
             ("memory, kernel", f"{m['memory_GiB']} GiB, Linux {m['kernel']}"),
             ("huge pages", pages_brief(m)),
             ("disturbed", f"{sum(p['repeated_rounds'] for p in found['parts'])} rounds were, and "
                           "were done again")]
    facts += [(name, version) for name, version in found["versions"].items()]
    text += "".join(f"| {a} | {b} |\n" for a, b in facts)
    text += figures.table(found)
    titles = {"collectives": "Collectives", "transports": "Networks", "optimizer": "Optimizer",
              "steps": "Training steps", "offload": "Outside the device",
              "limits": "Limits"}
    for kind, title in titles.items():
        parts = [p for p in found["parts"] if p["kind"] == kind]
        left_out = [p["title"] for p in found.get("not_measured", []) if p["kind"] == kind]
        if not parts and not left_out:
            continue
        text += f"\n## {title}\n\n{NOTES[kind].format(pages=pages_text(m), **scale)}"
        for part in parts:
            text += collectives_table(part, found) if kind in ("collectives", "transports") else \
                limits_table(part, found) if kind == "limits" else \
                list_table(part, scale["params"] if kind == "optimizer" else 0, found)
            text += commands_text(part)
        missing = reasons(parts) + "".join(f"- {title}: not measured\n" for title in left_out)
        if missing:
            text += f"\nNot measured:\n\n{missing}"
    return text
