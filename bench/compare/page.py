# SPDX-License-Identifier: Apache-2.0
"""What report.results() gives, as a page of Markdown."""
import figures
import programs
from figures import REACHED, most, ratio_text, size_text
from limits import GROWTH_LEAST
from report import MOST_OTHERS, median

INTRODUCTION = """\
<!-- SPDX-License-Identifier: Apache-2.0 -->
# libzero beside its peers

Written by `bench/compare/run`; the same figures, and more, are in the JSON file beside this one.
Times are medians of {rounds} rounds, in each of which libzero and every peer ran once, each round
in another order; in brackets (90 % − 10 % quantile) / median. Ratios are a peer's time to libzero's
in the same round, medians again: above 1 libzero is faster. Behind a ratio stand the least and the
greatest of a round; it is bold where at least three quarters of the rounds agree on who is faster.
Part by part it says at which commit it was measured, and how much of a processor others took, or
the host of a virtual machine, while a program ran; the JSON file has a hash of the sources that
each depends on.

| | |
|---|---|
"""

TITLES = {"collectives": "Collectives", "transports": "Networks", "optimizer": "Optimizer",
          "steps": "Training steps", "offload": "Outside the device", "limits": "Limits"}

NOTES = {
    "collectives": """\
Bytes are those of the full message. In place and out of place were both measured; the faster one
counts, for every program, and stands behind its time ("in", "out", as it was in most rounds; the
JSON file has both, with the ratio in the same place); for a reduce_scatter of MPI's the fastest one
of `MPI_Reduce_scatter_block`, `MPI_Reduce_scatter` and `MPI_Allreduce`. The fastest of three starts
of each placement counts, since some take several times as long, whoever sums (NOTES.md, "Processors
that are far apart"); of gloo there is one. It counts for each size by itself, for every program
alike, so times of two sizes may be of two starts, in which the host had the processors elsewhere.
The MPIs are Debian's, and are not tuned. Ranks are bound to a core each where there are enough;
with more ranks than cores libzero's are bound in turn, Open MPI's yield (`mpi_yield_when_idle`) and
are both bound and not, of which the faster one counts; MPICH, which polls without yielding, and
gloo, which takes half a minute to a minute a round, are left out. Buffers are those of `zero bench
coll`: the same ones again and again, small operations in a row, so that what fits into the caches
comes from there, for libzero also what the other rank has not written since. So are samples, but of
MPI a row is shorter, and there are fewer, at least 7, where one placement would take longer than 67
ms with each call. Until 28 November 2026 MPI's buffers of bf16 came from the heap, in small pages
in part, and those of 4 MiB take twice as long as in fp32 by that. In the tables in which what is
sent was just written, each rank writes its part before each operation, as a product writes
gradients, one operation is a sample, and the meeting of the ranks before it is in small ones (gloo
is left out). MPI and gloo take any memory, libzero's buffers lie in memory that
its plugin has allocated; {pages}.
""",
    "transports": """\
Two ranks on this machine, the messages through UCX or libfabric, fp32: libzero in place, Open MPI
in place or not and by whichever call is the fastest, which stands behind its time. The bare
exchange calls nothing but the transport: each rank sends half of the message from a private buffer
and receives the other half into one, both at once and polling. It takes turns with libzero's gather
of as many bytes (`exchange`, of `zero bench p2p`), as many in each sample: the ratio is the part of
the transport's speed that is left. Open MPI uses the same kind of wire with its own components.
""",
    "optimizer": """\
AdamW on {params} parameters in bf16; fp32 master copy, momentum and variance. PyTorch and DeepSpeed
have {tensors} tensors. Gradients in bf16 have to be turned into fp32 for both, which counts, except
for "no master copy": there DeepSpeed updates bf16 parameters in place and moves 22 bytes per
parameter instead of 28, for less precise results (and without AVX-512 by a loop that is plain C, as
cpu_adam.h of 0.19.8 has it: no peer then). Norm and clipping are left out on all sides. The plain
loop loads and stores the same bytes as libzero and computes nothing: nobody who moves them can be
faster by more than its ratio. Times of two tables do not compare: the same loop may be half as fast
in another start, supposedly by where the host has the processors, which nothing watches here. All
use large pages where the kernel gives them when asked (PyTorch: `THP_MEM_ALLOC_ENABLE`).
""",
    "steps": """\
GPT-2 of the same shape ({preset}, sequences of {seq} tokens), two ranks with one thread, each bound
to one core with all its helper threads; the norm of the gradient is clipped to 1, AdamW. bf16 means
parameters, and gradients on the wire, in bf16 and fp32 master copies. What differs: in bf16 PyTorch
also keeps activations in bf16; zero-gpt2 keeps them in fp32. Both multiply in bf16 with oneDNN
where the processor has instructions for it and, for zero-gpt2, where its line above says so;
otherwise zero-gpt2 widens to fp32. In fp32 both do the same work, each with its own BLAS. Every
program also starts anew in each round; its first {warmup} steps do not count. With `ZERO_MAP=0`
libzero gathers parameters by copying them instead of mapping the owners' memory. PyTorch and
DeepSpeed run eagerly, as they do unless told otherwise: what torch.compile() would give was not
tried. Both communicate through gloo. They use large pages as above. Most of a step is computing
("Limits" below has how much of libzero's), so a ratio is that of whole programs: of their products
and attention more than of how they shard. One rank alone, where a title says so, shards nothing and
sends nothing: what is left is that computing. "Bytes sent" are those of rank 0 in the last step.
""",
    "offload": """\
A store of {store} bytes on the disk that ZERO_NVME_PATH names (else /var/tmp), read and written one
block after another past the page cache; times are those of a block. fio is the limit: its blocks
lie in pages of the same kind as libzero's, huge ones where the system gives them to who asks, and
it takes turns with libzero in one run, as does libzero without checksums, which no other has;
DeepSpeed locks all memory that it reads into or writes from, in such pages too, and has as many
blocks under way. Where a part was measured otherwise, it says so. Steps are those of stage 3 above,
with what the table says outside the device, which is the same memory here for "cpu": what moves
there is copied for nothing, and counts. PyTorch and DeepSpeed keep fp32 parameters as masters where
libzero keeps halves.
""",
    "limits": """\
libzero alone, beside what limits it: plain loops with the same loads and stores, measured in turn
with it in the same run (`zero bench`). The bold ratio is the limit's time to libzero's: 0.9 is 90 %
of the limit, above 1 libzero is better to the memory than those loops. Behind it is which loop was
the best one in most rounds; the JSON file has the medians of all. "Fresh" is what was just written
by the rank that gives it; there, and for the sums of an all_reduce, the loops work on memory that
ranks share, so that it comes from where the operation has it. "Cold" is other memory each time,
beyond all caches. Collectives are of fp32 in shm; with more ranks than cores both take turns on
them. "map" is a gather that moves nothing, whatever its size, so its time is that of the barrier by
which ranks know that they may read, beside the flags alone; "bytes sent" are those of a rank in all
that was timed. GB/s are those of the message, of libzero and of the limit. Growth per byte is the
most time of a byte over these sizes to the least, less 1; "again" larger ones are of another start,
come after no operation that is not timed, and find less in the caches. Of a step `exposed` is what
the rank that waits longest waits for with nothing to compute, the exchange of norms before the
update included. What is beside computing takes its turns on the same core, which makes computing
longer.
""",
}


def time_text(seconds):
    for factor, unit in ((1, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


HUGE_LEAST = 90  # % of memory in huge pages; with less a table says how much
ADAMW_BYTES = 28  # of a parameter: gradient and copy in bf16, three states read and written


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
    return text + beside(found)


def beside(found):
    """What a record says beside its time."""
    return "".join(f", {value:.0f} {programs.ALSO[what]}"
                   for what, value in found.get("also", {}).items()
                   if not what.endswith("huge_pages_percent") or value < HUGE_LEAST)


def failures(found):
    """Of how many rounds a figure is not, and why."""
    return "".join(f", {what} {found[key]} rounds" for key, what in (
        ("failed_rounds", "failed in"), ("left_out_rounds", "then left out of")) if key in found)


def ratio_figure(found):
    """With its range; bold where most rounds agree on which side of 1 it is."""
    text = f"{ratio_text(found['ratio'])}×"
    rounds = [r for r in found["ratios"] if r is not None]
    agree = REACHED in (most(rounds, 1), most([-r for r in rounds], -1))
    text = f"**{text}**" if agree else text
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
        return {"Linux": m["kernel"], "memory in GiB": m["memory_GiB"],
                "huge pages": pages_brief(m), **x["versions"]}
    has = all_of(now)
    other = [f"{what}: {value}" for what, value in all_of(part).items()
             if what in has and value != has[what]]
    return f" Measured with {'; '.join(other)}." if other else ""


def pages_text(m):
    """Where huge pages are to be had."""
    found = m["huge_pages"]
    no = {what: "" if state in ("always", "madvise", "advise", "within_size", "force") else "no "
          for what, state in found.items()}
    return ("huge pages, for which all ask, the machine gave to "
            f"{no['enabled']}private memory ({found['enabled']}), that of MPI and gloo, and to "
            f"{no['shmem_enabled']}shared memory ({found['shmem_enabled']}), that of libzero, "
            "which asks for each by itself, too")


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
    if part.get("moved"):
        others += f" In {part['moved']} of the rounds the host had moved the processors."
    elif "moved" not in part and part.get("kind") == "collectives":
        others += " Whether the host moved the processors was not watched."
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


def speed(found, size):
    """Of the message, in GB/s: what passes through memory is more."""
    return f"{int(size) / found['median_s'] / 1e9:.3g}" if "median_s" in found else "–"


def memory_text(found):
    """What plain loops move through memory, in GB/s: what they load and store, not what the
    processor fetches to store into it."""
    parts = {p["part"]: p["rows"] for p in found["parts"]}
    large = [int(key.split()[1]) for key, row in parts.get("limits-coll-2", {}).items()
             if key.startswith("all_gather ") and "median_s" in row.get("limit", {})
             and key.split()[1].isdigit()]
    moved = [("copies", "limits-coll-2", f"all_gather {max(large, default=0)}", 4 * max(large)),
             ("sums of two", "limits-coll-2", f"reduce_scatter {max(large)}", 3 * max(large))] \
        if large else []
    moved += [("AdamW's loads and stores", f"limits-optimizer-{found['machine']['cores_used']}",
               "adamw, gradients bf16", ADAMW_BYTES * found["scale"]["params"])]
    rates = [(what, size / parts[part][key]["limit"]["median_s"] / 1e9)
             for what, part, key, size in moved
             if "median_s" in parts.get(part, {}).get(key, {}).get("limit", {})]
    return ", ".join(f"{what} {rate:.0f} GB/s" for what, rate in rates) or "not measured"


def limits_table(part, now=None):
    rows, sized = [], False
    for key, row in part["rows"].items():
        name, _, size = key.rpartition(" ")
        found = [figure(row[p["name"]]) for p in part["programs"]]
        if size.isdigit():
            sized = True
            rows.append([f"{name}, {size_text(int(size))}", *found,
                         "–" if name == "map" else
                         ", ".join(speed(row[p["name"]], size) for p in part["programs"])])
        else:
            rows.append([key, *found])
    for name, found in part.get("growth", {}).items():
        rows.append([f"{name}, growth per byte, {size_text(GROWTH_LEAST)} to "
                     f"{size_text(found['to'])}",
                     *(f"+{100 * found[p['name']]:.0f} %" if found[p["name"]] is not None else "–"
                       for p in part["programs"]), "–"])
    header = ["", *(p["label"] for p in part["programs"]), *(["GB/s of both"] if sized else [])]
    return f"\n### {part['title']}\n\n{origin_line(part, now)}" + table(header, rows)


def list_table(part, params, now=None):
    rows = []
    for p in part["programs"]:
        found = part["rows"].get("", {}).get(p["name"], {"missing": p.get("missing", "")})
        if "missing" in found:
            rows.append([p["label"], "–", "–", "–"] + (["–"] if params else []))
            continue
        ratio = ratio_figure(found) if "ratio" in found else "1"
        per = [f"{found['median_s'] / params * 1e9:.2f}"] if params else []
        rows.append([p["label"] + beside(found), time_text(found["median_s"]) + failures(found),
                     *per, f"{100 * found['spread']:.0f} %", ratio])
    per = ["ns per parameter"] if params else []
    return f"\n### {part['title']}\n\n{origin_line(part, now)}" + table(
        ["", "time", *per, "spread", "to libzero"], rows)


def commands_text(part):
    """What libzero ran, beneath its table; of the peers the JSON file has it."""
    found = part.get("commands", {})
    lines = next((found[name] for name in ("zero", "limit") if found.get(name)), [])
    return "".join(f"\n    {line}" for line in lines) + "\n" if lines else ""


def markdown(found):
    m, scale = found["machine"], found["scale"]
    text = INTRODUCTION.format(**found)
    kind = "" if found["quick"] is False and found["rounds"] >= 7 else " — **not for publication**"
    facts = [("date, commits", f"{found['date']}, {', '.join(found['commits'])}{kind}"),
             ("processor", f"{m['processor']} ({m.get('model', 'model not recorded')}), "
                           f"{m['cores_used']} cores used of {m['processors']} processors, "
                           f"{', '.join(m['instructions'])}; "
                           f"L2 {m['L2']}, L3 {m['L3']}; virtual: {m['virtual']}"),
             ("memory, kernel", f"{m['memory_GiB']} GiB, Linux {m['kernel']}"),
             ("memory's speed, by the best plain loops of two ranks, and AdamW's on all cores",
              memory_text(found)),
             ("huge pages", pages_brief(m)),
             ("disturbed", f"{sum(p['repeated_rounds'] for p in found['parts'])} rounds were, or "
                           "their processors were moved, and were done again")]
    facts += [(name, version) for name, version in found["versions"].items()]
    text += "".join(f"| {a} | {b} |\n" for a, b in facts)
    text += figures.table(found)
    for kind, title in TITLES.items():
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
