# SPDX-License-Identifier: Apache-2.0
"""What was wanted of libzero, and whether it is so by the parts of report.results().

A figure is reached when at least three quarters of the rounds have it, missed when at most a quarter
has, and open else: a median alone does not say whether another day's would be on the same side.
"""
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
LARGE = (MIB, 4 * MIB, 16 * MIB, 64 * MIB)
NETWORK = (MIB, 64 * MIB)
MPI, BOTH = ("openmpi",), ("openmpi", "mpich")
DATA = {"": "again", "-fresh": "fresh"}
REACHED, MISSED, OPEN = "reached", "missed", "open"
NOT = "not measured"
COLLAPSE = 2
# Of all ranks together, read and written, of eight to two: copies of everything; n inputs and a sum.
MOVED = {"all_gather": 8 / 2, "reduce_scatter": (8 + 1) / (2 + 1)}


def quantile(values, q):
    """Between two values where it has to be."""
    values = sorted(values)
    at = q * (len(values) - 1)
    i = int(at)
    return values[i] + (at - i) * (values[i + 1] - values[i]) if i + 1 < len(values) else values[-1]


def size_text(size):
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def ratio_text(ratio):
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


def judge(low, high, wanted):
    """Of ratios, of which more is better; low and high: a quarter of the rounds has less, or more."""
    return REACHED if low >= wanted else MISSED if high < wanted else OPEN


def ratio_of(part, key, peers):
    """Of the peer that comes nearest to libzero in each round: median, least, most, quartiles; None:
    not measured."""
    row = part["rows"].get(key, {})
    ratios_of = [row[p]["ratios"] for p in peers if "ratios" in row.get(p, {})]
    rounds = [[r for r in some if r is not None] for some in zip(*ratios_of)]
    nearest = [min(some) for some in rounds if some]
    return (quantile(nearest, 0.5), min(nearest), max(nearest), quantile(nearest, 0.25),
            quantile(nearest, 0.75)) if nearest else None


def ratios(part, cells, peers, wanted):
    """`cells`: key of a row, and what it is called here. A text and a verdict of each. Without one
    of the peers nothing is known of the better one of all."""
    labels = {p["name"]: p["label"] for p in part["programs"] if p["name"] in peers}
    out = []
    for key, label in cells if labels else ():
        found, row = ratio_of(part, key, peers), part["rows"].get(key, {})
        absent = ", ".join(labels[p] for p in labels if "ratios" not in row.get(p, {}))
        if not found:
            out.append((label, NOT, ""))
            continue
        middle, least, most, low, high = found
        verdict = judge(low, high, wanted)
        text = f"{ratio_text(middle)} ({ratio_text(least)}–{ratio_text(most)})"
        out.append((label, f"{text} without {absent}" if absent else text,
                    OPEN if absent and verdict == REACHED else verdict))
    return out


def zero_cell(part, key):
    return part.get("rows", {}).get(key, {}).get("zero", {})


def times(part, cells, most_s):
    """Of libzero alone, which is to take no longer."""
    found = [(label, zero_cell(part, key)) for key, label in cells]
    return [(label, f"{cell['median_s'] * 1e6:.3g} µs",
             judge(-cell["quartiles"][1], -cell["quartiles"][0], -most_s))
            if "median_s" in cell else (label, NOT, "") for label, cell in found]


def collapses(few, many, op, bytes_moved):
    """How much longer a byte takes with more ranks on the same cores, of all bytes that are moved."""
    out = []
    for key, label in sized(op, LARGE):
        a, b = zero_cell(few, key), zero_cell(many, key)
        if "median_s" not in a or "median_s" not in b:
            out.append((label, NOT, ""))
            continue
        middle = b["median_s"] / a["median_s"] / bytes_moved
        low, high = (b["quartiles"][i] / a["quartiles"][1 - i] / bytes_moved for i in (0, 1))
        out.append((label, f"{ratio_text(middle)}", judge(-high, -low, -COLLAPSE)))
    return out


def sized(name, sizes):
    return [(f"{name} {size}", size_text(size)) for size in sizes]


def wanted():
    """(what is compared, with what, how much is wanted, part, cells, peers)."""
    for op, much in (("reduce_scatter", 4), ("all_gather", 1.3), ("all_reduce", 2.5)):
        for end, data in DATA.items():
            yield (f"{op}, 2 ranks, {data}", "the better of Open MPI and MPICH", much, f"{op}-2{end}",
                   sized("f32", LARGE), BOTH)
            yield (f"{op}, 2 ranks, {data}", "Open MPI", 1, f"{op}-2{end}",
                   sized("f32", (4 * KIB,)), MPI)
    for op, loop in (("reduce_scatter", "a plain add"), ("all_gather", "a plain copy")):
        for place in ("", " in place"):
            for end, data in DATA.items():
                yield (f"{op}{place or ' out of place'}, 2 ranks, {data}",
                       f"{loop} of the same bytes", 0.85, f"limits-coll-2{end}",
                       sized(op + place, LARGE), ("limit",))
    for op, much in (("reduce_scatter", 10), ("all_gather", 1.5)):
        yield (f"{op}, 4 ranks on two cores", "Open MPI that yields", much, f"{op}-4",
               sized("f32", LARGE), MPI)
    for op, loop in (("reduce_scatter", "a plain add"), ("all_gather", "a plain copy")):
        yield (f"{op}, 8 ranks on two cores", f"{loop} of the same bytes by 8 ranks", 0.5,
               "limits-coll-8", sized(op, LARGE), ("limit",))
    for wire in ("ucx-shm", "ucx-tcp", "ofi-shm", "ofi-tcp"):
        name = wire.replace("-", " over ")
        yield (f"all_gather, {name}", "a bare exchange", 0.9, f"transport-{wire}",
               sized("exchange", NETWORK), ("ring",))
        yield (f"all_gather, {name}", "Open MPI on that wire", 1, f"transport-{wire}",
               sized("all_gather", NETWORK), MPI)
        yield (f"reduce_scatter, {name}", "Open MPI on that wire", 1.5, f"transport-{wire}",
               sized("reduce_scatter", NETWORK), MPI)
    for grad in ("bf16", "fp32"):
        for threads in (1, 2):
            who = f"AdamW, {threads} thread{'s' * (threads > 1)}, gradients {grad}"
            yield (who, "a plain loop", 0.95, f"limits-optimizer-{threads}",
                   [(f"adamw, gradients {grad}", "")], ("limit",))
            yield (f"norm, clip and cast with it, {threads} thread{'s' * (threads > 1)}, gradients {grad}",
                   "a plain loop of both passes", 0.95, f"limits-optimizer-{threads}",
                   [(f"update, gradients {grad}", "")], ("limit",))
            for peer, name, much in (("deepspeed", "DeepSpeed", 1.1),
                                     ("deepspeed-direct", "DeepSpeed without a master copy", 1.1),
                                     ("torch", "PyTorch, not fused, with copies to bf16", 4),
                                     ("torch-fused", "PyTorch, fused, with copies to bf16", 1)):
                yield who, name, much, f"adamw-{threads}-{grad}", [("", "")], (peer,)
    for dtype, batch in (("bf16", 1), ("bf16", 4), ("fp32", 1), ("fp32", 4)):
        for stage in range(4):
            yield (f"a step of GPT-2, {dtype}, batch {batch}, stage {stage}",
                   "the fastest of PyTorch and DeepSpeed", 1, f"step-{dtype}-batch{batch}-stage{stage}",
                   [("", "")], ("ddp", "ddp-autocast", "zero-redundancy", "deepspeed-1", "fsdp2-keep",
                                "deepspeed-2", "fsdp2", "deepspeed-3"))
    for key, how in (("exposed", ""), ("exposed, ZERO_MAP=0", ", parameters gathered by copies")):
        yield (f"what a step in stage 3 waits for, with nothing to compute{how}", "5 % of the step", 1,
               "limits-step", [(key, "")], ("limit",))


def growths(parts):
    """Again the larger ones come after other bytes and the smaller ones do not; cold all do."""
    for end, data in (("", "again"), ("-cold", "cold")):
        part = parts.get(f"limits-coll-2{end}", {})
        for op in ("all_gather", "reduce_scatter"):
            found = part.get("growth", {}).get(op, {})
            if found.get("zero") is None:
                yield (f"time of a byte, {op}, 2 ranks, {data}", "growth from 16 MiB on", "≤ 20 %",
                       [("", NOT, "")])
                continue
            rounds = found["rounds"]
            text = f"{100 * found['zero']:.0f} % ({100 * min(rounds):.0f}–{100 * max(rounds):.0f} %)"
            low, high = (quantile(rounds, q) for q in (0.25, 0.75))
            yield (f"time of a byte, {op}, 2 ranks, {data}", "growth from 16 MiB on", "≤ 20 %",
                   [(f"to {size_text(found.get('to', GIB))}", text, judge(-high, -low, -0.2))])


def rows(found):
    """(what, beside what, wanted, [(size, figure, verdict)]) of all that was wanted of the parts that
    there are on this machine."""
    parts = {p["part"]: p for p in found["parts"]}
    here = {*parts, *(p["part"] for p in found.get("not_measured", []))}
    for what, beside, much, part, cells, peers in wanted():
        some = ratios(parts[part], cells, peers, much) if part in parts else \
            [("", NOT, "")] if part in here else []
        if some:
            yield what, beside, f"≥ {much:g}×", some
    of = {n: parts.get(f"limits-coll-{n}", {}) for n in (2, 4, 8)}
    for op, moved in MOVED.items():
        yield (f"{op}, 8 ranks on two cores: no collapse", "the time of a byte by 2 ranks",
               f"≤ {COLLAPSE}×", collapses(of[2], of[8], op, moved))
    for n, part in of.items():
        yield (f"a gather that is mapped, {n} ranks: its flags", "", "≤ 20 µs",
               times(part, sized("map", (MIB, 64 * MIB)), 20e-6))
    yield from growths(parts)


TEXT = """
## What was wanted

Made of the tables below: ratios with the least and the greatest of a round. **Reached** has what at
least three quarters of the rounds have, *missed* what at most a quarter of them has, and between these
it is open. "Again": the same bytes again and again; "fresh": each rank has just written what it gives;
"cold": other memory each time. Collectives are of fp32: MPI has no sums in bf16. A better peer is that of
each round. "No collapse" counts the bytes that all ranks read and write: those of eight on two cores are four
times those of two, and three times in sums. A mapped gather moves nothing, so its flags are all of it. Why a figure is missed stands in NOTES.md.

"""


def table(found):
    """As Markdown."""
    marks = {REACHED: "**reached**", MISSED: "*missed*", OPEN: "open", "": ""}
    lines = []
    for what, beside, much, cells in rows(found):
        text = "; ".join(" ".join(filter(None, (size, figure, marks[verdict])))
                         for size, figure, verdict in cells)
        lines.append(f"| {what} | {beside} | {much} | {text} |\n")
    return TEXT + "| | beside | wanted | measured |\n|---|---|---|---|\n" + "".join(lines)
