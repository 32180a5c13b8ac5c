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
    not measured. Where ratios of rounds were not kept, of the one whose median is the nearest."""
    row = part["rows"].get(key, {})
    found = [row[p] for p in peers if "ratio" in row.get(p, {})]
    if not found:
        return None
    if all("ratios" in cell for cell in found):
        rounds = [[r for r in some if r is not None] for some in zip(*(c["ratios"] for c in found))]
        nearest = [min(some) for some in rounds if some]
        return (quantile(nearest, 0.5), min(nearest), max(nearest), quantile(nearest, 0.25),
                quantile(nearest, 0.75))
    best = min(found, key=lambda cell: cell["ratio"])
    low, high = best.get("ratio_quartiles", (best["ratio_least"], best["ratio_most"]))
    return best["ratio"], best["ratio_least"], best["ratio_most"], low, high


def ratios(part, cells, peers, wanted):
    """`cells`: key of a row, and what it is called here. A text and a verdict of each."""
    out = []
    for key, label in cells:
        found = ratio_of(part, key, peers)
        if found:
            middle, least, most, low, high = found
            out.append((label, f"{ratio_text(middle)} ({ratio_text(least)}–{ratio_text(most)})",
                        judge(low, high, wanted)))
    return out


def times(part, cells, most_s):
    """Of libzero alone, which is to take no longer; the spread has four fifths of the rounds."""
    out = []
    for key, label in cells:
        cell = part["rows"].get(key, {}).get("zero", {})
        if "median_s" in cell:
            low, high = (cell["median_s"] * (1 + sign * cell["spread"] / 2) for sign in (-1, 1))
            out.append((label, f"{cell['median_s'] * 1e6:.3g} µs", judge(-high, -low, -most_s)))
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
        yield (f"{op}, 8 ranks on two cores: no collapse", f"{loop} of the same bytes", 0.5,
               "limits-coll-8", sized(op, LARGE), ("limit",))
    for wire in ("ucx-shm", "ucx-tcp", "ofi-shm", "ofi-tcp"):
        name = wire.replace("-", " over ")
        for key in ("exchange", "all_gather"):  # the latter: not in turn, of older files
            yield (f"all_gather, {name}", "a bare exchange", 0.9, f"transport-{wire}",
                   sized(key, NETWORK), ("ring",))
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
                                     ("torch", "PyTorch", 4)):
                yield who, name, much, f"adamw-{threads}-{grad}", [("", "")], (peer,)
    for dtype, batch in (("bf16", 1), ("bf16", 4), ("fp32", 1), ("fp32", 4)):
        for stage in range(4):
            yield (f"a step of GPT-2, {dtype}, batch {batch}, stage {stage}",
                   "the fastest of PyTorch and DeepSpeed", 1, f"step-{dtype}-batch{batch}-stage{stage}",
                   [("", "")], ("ddp", "ddp-autocast", "zero-redundancy", "deepspeed-1", "fsdp2-keep",
                                "deepspeed-2", "fsdp2", "deepspeed-3"))
    yield ("what a step in stage 3 waits for, with nothing to compute", "5 % of the step", 1,
           "limits-step", [("exposed", "")], ("limit",))


def growths(parts):
    """Again the larger ones come after other bytes and the smaller ones do not; cold all do."""
    for end, data in (("", "again"), ("-cold", "cold")):
        part = parts.get(f"limits-coll-2{end}", {})
        for op in ("all_gather", "reduce_scatter"):
            found = part.get("growth", {}).get(op, {})
            if found.get("zero") is None:
                continue
            text, rounds = f"{100 * found['zero']:.0f} %", found.get("rounds")
            if rounds:
                text += f" ({100 * min(rounds):.0f}–{100 * max(rounds):.0f} %)"
            low, high = (quantile(rounds or [found["zero"]], q) for q in (0.25, 0.75))
            yield (f"time of a byte, {op}, 2 ranks, {data}", "growth from 16 MiB on", "≤ 20 %",
                   [(f"to {size_text(found.get('to', GIB))}", text, judge(-high, -low, -0.2))])


def rows(found):
    """(what, beside what, wanted, [(size, figure, verdict)]) of all that was measured."""
    parts = {p["part"]: p for p in found["parts"]}
    for what, beside, much, part, cells, peers in wanted():
        some = ratios(parts[part], cells, peers, much) if part in parts else []
        if some:
            yield what, beside, f"≥ {much:g}×", some
    for n in (2, 4, 8):
        part = parts.get(f"limits-coll-{n}", {"rows": {}})
        some = times(part, sized("map", (MIB, 64 * MIB)), 20e-6)
        if some:
            yield f"a gather that is mapped, {n} ranks: its flags", "", "≤ 20 µs", some
    yield from growths(parts)


TEXT = """
## What was wanted

Made of the tables below: ratios with the least and the greatest of a round. **Reached** has what at
least three quarters of the rounds have, *missed* what at most a quarter of them has, and between these
it is open. "Again": the same bytes again and again; "fresh": each rank has just written what it gives;
"cold": other memory each time. Collectives are of fp32: MPI has no sums in bf16. A better peer is that of
each round. Where only the least and the greatest of the rounds were kept, as older programs did, all of them
have what is reached, none has what is missed, and the better peer is the one whose median is the nearer one.
A mapped gather moves nothing, so its flags are all of it. Why a figure is missed stands in NOTES.md.

"""


def table(found):
    """As Markdown; empty where nothing was measured that was wanted."""
    marks = {REACHED: "**reached**", MISSED: "*missed*", OPEN: "open"}
    lines = []
    for what, beside, much, cells in rows(found):
        text = "; ".join(" ".join(filter(None, (size, figure, marks[verdict])))
                         for size, figure, verdict in cells)
        lines.append(f"| {what} | {beside} | {much} | {text} |\n")
    return TEXT + "| | beside | wanted | measured |\n|---|---|---|---|\n" + "".join(lines) \
        if lines else ""
