# SPDX-License-Identifier: Apache-2.0
"""What zero-gpt2 tells: every object of its JSON log has exactly the fields it should, of the right
type and in harmony with each other; so has every line of --ops; progress is one line in place on a
terminal and plain lines elsewhere; --beat-bigram decides the exit status."""
import math
import mmap
import os
import pty
import re
import shutil
import subprocess
import time

import support
from support import ok, skip

WHOLE, REAL, TEXT = int, float, str
STEP = {"type": TEXT, "step": WHOLE, "loss": REAL, "grad_norm": REAL, "time_s": REAL,
        "compute_s": REAL, "exposed_s": REAL, "optimizer_s": REAL, "other_s": REAL,
        "tokens_per_s": REAL, "wire_bytes": WHOLE,
        "disk_read_bytes": WHOLE, "disk_written_bytes": WHOLE}
EVAL = {"type": TEXT, "step": WHOLE, "loss": REAL}
SUMMARY = {"type": TEXT, "weights_hash": TEXT, "stage": WHOLE, "ranks": WHOLE, "comm": TEXT,
           "dtype": TEXT, "parameters": WHOLE, "vocab": WHOLE, "batch": WHOLE, "seq": WHOLE,
           "memory": list, "mapped_bytes": WHOLE, "disk_read_bytes": WHOLE,
           "disk_written_bytes": WHOLE, "disk_direct": bool}
MEMORY = {"class": TEXT, "tier": TEXT, "planned": WHOLE, "reserved": WHOLE, "peak": WHOLE}
OP = {"step": WHOLE, "body": WHOLE, "index": WHOLE, "kind": TEXT, "unit": TEXT, "queue": TEXT,
      "bytes": WHOLE, "start_ns": WHOLE, "end_ns": WHOLE}
CLASSES = ["parameters", "gradients", "accumulators", "master", "momentum", "variance", "gathered",
           "buckets", "activations", "other"]
# Of preset micro: elements of its units, and how often one is gathered in a micro-batch of stage 3.
# The tied embedding is used at both ends.
BLOCK = 12 * 64 * 64 + 13 * 64
UNITS = {"wte": (256 * 64, 3), "wpe": (32 * 64, 2), "h.0": (BLOCK, 2), "h.1": (BLOCK, 2),
         "ln_f": (2 * 64, 2)}
PARAMETERS = sum(elements for elements, _ in UNITS.values())


def shape_wrong(o, shape):
    """Fields and their types, in this order; a number that JSON has no word for is null."""
    if list(o) != list(shape):
        return f"fields {list(o)}, {list(shape)} are wanted"
    wrong = [name for name, kind in shape.items() if type(o[name]) is not kind and
             not (kind is REAL and o[name] is None)]
    return f"{wrong} of the wrong type in {o}" if wrong else ""


def step_wrong(o, tokens):
    parts = [o["compute_s"], o["exposed_s"], o["optimizer_s"], o["other_s"]]
    if abs(o["time_s"] - math.fsum(parts)) > 1e-9 or min(parts) < 0:
        return f"parts {parts} of {o['time_s']} s"
    if abs(o["tokens_per_s"] * o["time_s"] / tokens - 1) > 1e-6:
        return f"{o['tokens_per_s']} tokens/s, {tokens} in {o['time_s']} s"
    if not 1 < o["loss"] < 8 or not 0 < o["grad_norm"] < 100:
        return f"loss {o['loss']}, norm {o['grad_norm']}"
    return ""


def memory_wrong(rows, stage, ranks, accum, size):
    names = [row["class"] for row in rows]
    wrong = [shape_wrong(row, MEMORY) for row in rows]
    wrong += [f"class {n} out of order or unknown" for n, m in zip(names, names[1:])
              if CLASSES.index(n) > CLASSES.index(m)] + [n for n in names if n not in CLASSES]
    for row in rows:
        if row["tier"] not in ("device", "cpu") or not row["peak"] <= row["planned"] or \
                row["reserved"] < 0:
            wrong.append(str(row))

    def planned(name):
        return sum(row["planned"] for row in rows if row["class"] == name)
    wanted = {"parameters": (3, size), "gradients": (2, size if accum == 1 else 0),
              "accumulators": (2, 0 if accum == 1 else 4), "master": (1, 4 if size == 2 else 0),
              "momentum": (1, 4), "variance": (1, 4)}
    for name, (least, each) in wanted.items():
        want = PARAMETERS * each / (ranks if stage >= least else 1)
        if not want <= planned(name) <= want * 1.15:  # a tiny model has much padding
            wrong.append(f"{name}: {planned(name)} bytes, by formula {want:.0f}")
    return [w for w in wrong if w]


def padded(elements, ranks, size):
    """A unit's shards are whole pages where that costs less than 0.8 %, else multiples of 64."""
    pages = -elements % (ranks * 4096 // size)
    return elements + (pages if pages < elements / 125 else -elements % (ranks * 64))


def mapped_bytes(elements, ranks, size):
    """What a rank sees of the others' shards where it maps the unit, which takes whole pages."""
    shard = padded(elements, ranks, size) // ranks * size
    return shard * (ranks - 1) if shard % mmap.PAGESIZE == 0 else 0


def wire_wanted(stage, ranks, accum, size, maps):
    """What a rank sends in a step, to the byte: gradients, parameters, and its sum for the norm."""
    total = 8 * (ranks - 1)
    for elements, gathers in UNITS.values():
        shard = padded(elements, ranks, size) // ranks
        if stage < 2 and accum > 1:  # sums are fp32, and reduced once; stage 0 publishes them
            each = 4 + (size if stage else 4)
        elif stage < 3:
            each = (accum + 1) * size
        else:
            gathered = not (maps and mapped_bytes(elements, ranks, size))
            each = accum * size * (1 + gathered * gathers)
        total += shard * (ranks - 1) * each
    return total


def ops_wrong(file, stage, ranks, accum, maps):
    """Every op of the training bodies once for each time it ran, with times that can be true."""
    lines = support.objects(file)
    wrong = [w for o in lines if (w := shape_wrong(o, OP))]
    wrong += [str(o) for o in lines if not 0 < o["start_ns"] <= o["end_ns"]]
    if wrong:
        return wrong, len(lines)
    ordered = sorted(lines, key=lambda o: (o["body"], o["index"], o["start_ns"]))
    wrong += [f"{o} runs twice at once" for o, p in zip(ordered, ordered[1:])
              if (o["body"], o["index"]) == (p["body"], p["index"]) and o["end_ns"] > p["start_ns"]]
    times = {}
    for o in lines:
        times[o["body"], o["index"]] = times.get((o["body"], o["index"]), 0) + 1
    for (body, index), n in times.items():
        if body < 3 and n != 6 * (accum - 1 if body == 0 else 1):
            wrong.append(f"op {index} of body {body} ran {n} times in 6 steps")
    want = {"compute", "scalars", "update"} | ({"reduce", "norm"} if ranks > 1 else set()) | \
        ({"gather"} if stage == 3 and ranks > 1 else {"publish"} if ranks > 1 else set()) | \
        ({"map"} if maps else set())
    if missing := want - {o["kind"] for o in lines}:
        wrong.append(f"no op of kind {missing}")
    return wrong, len(lines)


def log(stage, ranks, dtype, accum, maps=0):
    what = f"stage {stage}, {ranks} ranks, {dtype}, {accum} micro-batches{', mapped' * maps}"
    ops, batch, size = support.path("ops"), 2, 4 if dtype == "fp32" else 2
    job = support.train(["--preset", "micro", "--data", support.TEXT, "--batch", batch,
                         "--steps", 6, "--eval-every", 2, "--stage", stage, "--dtype", dtype,
                         "--accum", accum, "--ops", ops], ranks, {"ZERO_MAP": str(maps)})
    if not ok(job.status == 0, what + ": it runs", job.story()):
        return
    kinds = [o["type"] for o in job.log]
    ok(kinds == ["step", "step", "eval"] * 3 + ["summary"] and
       [o["step"] for o in job.log[:-1]] == [1, 2, 2, 3, 4, 4, 5, 6, 6],
       what + ": steps and evaluations in turn, then a summary", kinds)
    shapes = {"step": STEP, "eval": EVAL, "summary": SUMMARY}
    wrong = [w for o in job.log if (w := shape_wrong(o, shapes[o["type"]]))]
    ok(not wrong, what + ": fields and types", *wrong)
    wrong = [w for o in job.steps if (w := step_wrong(o, 32 * batch * ranks * accum))]
    ok(not wrong, what + ": the parts of a step's time are its time", *wrong)
    sent = [o["wire_bytes"] for o in job.steps]
    want = wire_wanted(stage, ranks, accum, size, maps)
    ok(set(sent) == {want}, what + ": bytes on the wire", sent, want)
    s = job.log[-1]
    ok((s["stage"], s["ranks"], s["comm"], s["dtype"], s["parameters"], s["vocab"],
        s["batch"], s["seq"]) ==
       (stage, ranks, "shm" if ranks > 1 else "self", dtype, PARAMETERS, 256, batch, 32) and
       re.fullmatch("[0-9a-f]{16}", s["weights_hash"]), what + ": the summary", s)
    want = maps * sum(mapped_bytes(elements, ranks, size) for elements, _ in UNITS.values())
    ok(s["mapped_bytes"] == want and (want > 0) == (maps == 1), what + ": what is mapped",
       s["mapped_bytes"], want)
    wrong = memory_wrong(s["memory"], stage, ranks, accum, size)
    ok(not wrong, what + ": its memory", *wrong)
    wrong, lines = ops_wrong(ops, stage, ranks, accum, maps)
    ok(not wrong, f"{what}: {lines} ops of its steps", *wrong[:5])


# ---- Progress ------------------------------------------------------------------------------------

def on_terminal(ranks):
    """What a terminal shows."""
    master, slave = pty.openpty()
    job = support.Job([support.GPT2, "--preset", "micro", "--data", support.TEXT, "--steps", 300,
                       "--batch", 2, "--eval-every", 150], ranks, stdin=slave, stdout=slave)
    os.close(slave)
    shown = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # the last one has closed it
            break
        if not part:
            break
        shown += part
    os.close(master)
    job.end()
    return job, shown.decode(errors="replace")


def progress(ranks):
    where = f"{ranks or 'one'} rank{'s' * (ranks > 1)}"
    job, shown = on_terminal(ranks)
    pattern = r"step \d+/300  loss \d\.\d{4}  \d+ tokens/s  \d+:\d\d min left"
    updates = re.findall(r"\r\x1b\[K" + pattern, shown)
    ok(job.status == 0 and len(updates) >= 2 and f"step 300/300" in updates[-1],
       f"on a terminal {where} update{'s' * (not ranks)} one line in place", repr(shown),
       job.story())
    after = shown[shown.find(updates[0]):] if updates else ""
    ok(updates and re.search(pattern + r"\r\nstep 150  held-out loss [0-9.]+\r\n", after) and
       re.search(pattern + r"\r\nHeld-out loss", after),
       f"on a terminal {where} end{'s' * (not ranks)} that line before other text", repr(after))
    job = support.Job([support.GPT2, "--preset", "micro", "--data", support.TEXT, "--steps", 300,
                       "--batch", 2], ranks).end()
    lines = [re.sub(r"^\[0\] ", "", line) for line in job.text("out").split("\n")]
    steps = [line for line in lines if line.startswith("step ")]
    ok(job.status == 0 and "\r" not in job.out and "\x1b" not in job.out and
       all(re.fullmatch(pattern, line) for line in steps) and steps[0].startswith("step 1/300") and
       steps[-1].startswith("step 300/300") and len(steps) < 100,
       f"elsewhere {where} write{'s' * (not ranks)} plain lines, now and then", job.story())


def bigram():
    """A model that has learned beats pairs of bytes, one that has not does not."""
    text = support.path("rhyme.txt")
    with open(text, "w", encoding="ascii") as file:
        for i in range(3000):  # what follows "x" depends on the byte before it
            file.write("ax1 bx2 " if i * i % 7 < 3 else "bx2 ax1 ")
    base = ["--preset", "micro", "--data", text, "--beat-bigram", "--batch", 4, "--lr", "3e-3"]
    job = support.train(base + ["--steps", 200], 2)
    ok(job.status == 0, "a model that has learned beats counting pairs of bytes", job.story())
    job = support.train(base + ["--steps", 1], 2)
    ok(job.status == 3 and "not better than counting pairs" in job.err,
       "one that has not ends with status 3 and says why", job.story())


NODES = "/sys/devices/system/node"


def by_nodes():
    """Where ranks may run on several memory nodes, parameters are copied unless somebody
    wants else. Halves of this machine's processors are a and b: which are on each node, which
    each rank has."""
    cores = sorted(os.sched_getaffinity(0))
    half = len(cores) // 2
    parts = {key: ",".join(map(str, part)) for key, part in
             (("-", []), ("a", cores[:half]), ("b", cores[half:]), ("ab", cores))}
    for nodes, bound, env, maps in (
            (["ab"], ["ab", "ab"], {}, True), (["a", "b"], ["ab", "ab"], {}, False),
            (["a", "b"], ["ab", "ab"], {"ZERO_MAP": "1"}, True),
            (["ab", "-"], ["ab", "ab"], {}, True), (["a", "b"], ["b", "b"], {}, True),
            (["a", "b"], ["a", "b"], {}, False), (["a", "b"], ["a", "ab"], {}, False)):
        what = f"memory nodes {' '.join(nodes)}, ranks on {' '.join(bound)}" \
               f"{', ZERO_MAP=1' * bool(env)}: {'' if maps else 'not '}mapped"
        folder, log_file = support.path("nodes"), support.path("nodes.json")
        shutil.rmtree(folder, ignore_errors=True)
        for name, text in [("has_memory", f"0-{len(nodes) - 1}"),
                           *((f"node{i}/cpulist", parts[n]) for i, n in enumerate(nodes))]:
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text + "\n")
        if not (shutil.which("unshare") and os.path.exists(NODES)):
            skip(what, "this system has no memory nodes to be seen, or no unshare")
            continue
        if not half:
            skip(what, "this system has one processor")
            continue
        mount = ["unshare", "-m", "sh", "-c", f'mount --bind "$0" {NODES} && exec "$@"', folder]
        if subprocess.run([*mount, "true"], capture_output=True, check=False).returncode:
            skip(what, "this user may not mount a file system")
            continue
        bind = ["sh", "-c", 'eval "cores=\\$CORES$RANK"; exec taskset -c "$cores" "$@"', "sh"]
        job = support.Job([*mount, support.ZERO, "run", "-n", 2, "--", *bind, support.GPT2,
                           "--preset", "micro", "--stage", 3, "--data", support.TEXT, "--steps", 1,
                           "--val", 0, "--json", log_file],
                          env={"ZERO_LOG": "info", "CORES0": parts[bound[0]],
                               "CORES1": parts[bound[1]], **env}).end()
        if ok(job.status == 0, what + ": it runs", job.err):
            ok((support.objects(log_file)[-1]["mapped_bytes"] > 0) == maps and
               ("several memory nodes; 1 maps all the same" in job.err) != maps, what, job.err)


def asked_in_vain():
    """Who asks for mapped parameters and cannot have them is told why, nobody else."""
    if not os.path.exists(os.path.join(support.BUILD, ".libs", "zero-comm-ucx.so")):
        skip("ZERO_MAP=1 over ucx", "ucx was not built: its library is missing")
        return
    for wanted in ("1", "auto"):
        job = support.train(["--preset", "micro", "--data", support.TEXT, "--stage", 3,
                             "--steps", 1], 2, {"ZERO_COMM": "ucx", "ZERO_MAP": wanted})
        ok(job.status == 0 and ("gathered and not mapped (ZERO_MAP): the comm plugin cannot map"
                                in job.err) == (wanted == "1"), f"ucx, ZERO_MAP={wanted}",
           job.story())


def main():
    log(0, 2, "fp32", 1)
    log(1, 3, "bf16", 3)
    log(2, 2, "bf16", 3)
    log(3, 2, "fp16", 1)
    log(3, 2, "fp32", 1, 1)
    log(3, 2, "bf16", 2, 1)
    log(3, 1, "fp32", 2)
    progress(0)
    progress(2)
    by_nodes()
    asked_in_vain()
    bigram()
    support.done()


main()
