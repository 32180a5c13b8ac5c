# SPDX-License-Identifier: Apache-2.0
"""What is compared: parts, the programs of each part, and how each program is run.

A part is a set of programs that do the same work; they are run in turn. Running a program gives
seconds by key; a key is what one row of a table is about, such as "f32 4096". A program that
cannot do something gives the reason instead of seconds.
"""
import json
import math
import os
import re
import resource
import shlex
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
BUILD = Path(os.environ.get("ZERO_TEST_BUILD") or os.getcwd()).resolve()
OUT = BUILD / "bench" / "compare"
PEERS = ("openmpi", "mpich", "pytorch", "deepspeed", "aio", "fio", "ucp_ring", "ofi_ring")
SIZES = tuple(4096 << shift for shift in range(0, 15, 2))


@dataclass
class Scale:
    """How big the work is; --quick makes it small."""
    sizes: tuple = SIZES
    samples: int = 51  # the first milliseconds are slower: 1 MiB 30 to 39 us of 9, of 51 20 to 23
    sample_s: float = 0.2
    starts: int = 3  # of a program of collectives, of which the fastest counts; see zero_coll()
    slow_samples: int = 9  # of gloo's, which take a hundred times as long
    slow_sample_s: float = 0.1
    limit_samples: int = 9
    params: int = 100_000_000
    tensors: int = 100
    preset: str = "124M"
    seq: int = 256
    warmup: int = 2
    steps: int = 2
    limit_s: int = 300  # no program takes longer, or it has failed
    limit_sizes: tuple = (4 << 10, 64 << 10, *(1 << shift for shift in range(20, 31, 2)))
    limit_ranks: tuple = (2, 4, 8)
    limit_steps: int = 9
    arena: tuple = (100, 1000, 10_000, 100_000)
    store: int = 1 << 30
    store_s: float = 1.0


QUICK = Scale(sizes=(4096, 1 << 20), samples=3, sample_s=0.02, starts=1, slow_samples=3,
              slow_sample_s=0.02, limit_samples=3, params=1_000_000, tensors=10,
              preset="tiny", seq=64, warmup=1, steps=1, limit_sizes=(1 << 20,),
              limit_ranks=(2, 4), limit_steps=2, arena=(100, 1000), store=128 << 20,
              store_s=0.2)


class Failed(Exception):
    """A program did not do its work; the text says why."""


def peer_line(peer):
    """The version of a peer, or "not installed: reason"."""
    try:
        return (OUT / "peers" / peer).read_text().strip()
    except OSError:
        return "not installed: bench/compare/setup was not run"


def installed(peer):
    return not peer or not peer_line(peer).startswith("not installed")


MOST_CORES = 2  # what is compared runs on as many, however many there are


def cores():
    """Processors of different cores, of those that this process may use: the first two."""
    listing = subprocess.run(["lscpu", "-p=CPU,CORE"], capture_output=True, text=True).stdout
    may, seen = os.sched_getaffinity(0), {}
    for line in listing.splitlines():
        if not line.startswith("#"):
            cpu, core = map(int, line.split(","))
            if cpu in may:
                seen.setdefault(core, cpu)
    return (sorted(seen.values()) or sorted(may))[:MOST_CORES]


def pinned(cpus, command):
    return ["taskset", "-c", ",".join(map(str, cpus)), *map(str, command)]


def environment(**more):
    """One thread for everybody, and nobody's settings are the caller's."""
    env = {k: v for k, v in os.environ.items()
           if not re.match(r"ZERO_(?!PLUGIN_PATH)|OMP_|MKL_|OPENBLAS_|OMPI_|MPIR_|UCX_|FI_|TORCH_|"
                           r"GLOO_|DS_|DNNL_|ONEDNN_", k)}
    env.update(OMP_NUM_THREADS="1", ZERO_THREADS="1", OPENBLAS_NUM_THREADS="1")
    env.setdefault("ZERO_PLUGIN_PATH", str(BUILD / ".libs"))
    env.update(more)
    return env


def python_environment(**more):
    """Large pages for large tensors, as libzero asks for them. Extensions that were built under one
    name of a folder are built again under another one."""
    venv, extensions = (OUT / "venv").resolve(), (OUT / "extensions").resolve()
    return environment(PATH=f"{venv / 'bin'}:{os.environ['PATH']}", DS_ACCELERATOR="cpu",
                       THP_MEM_ALLOC_ENABLE="1", CUDA_VISIBLE_DEVICES="",
                       TORCH_EXTENSIONS_DIR=str(extensions),
                       GLOO_SOCKET_IFNAME="lo", PYTHONDONTWRITEBYTECODE="1", **more)


def complaint(text, status):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"error|fail|not |cannot", line, re.I)]
    return (telling or lines or [f"it said nothing (status {status})"])[-1][:200]


COMMANDS = []  # that were run, as a user would write them; the driver empties it


def written(command, env):
    """Without the caller's folders, and with the variables that make a difference."""
    words = [str(word) for word in command]
    at = words.index("--json") + 1 if "--json" in words[:-1] else 0
    if words[at].startswith(tempfile.gettempdir()):
        words[at] = "steps.json"
    telling = [f"{k}={v}" for k, v in sorted(env.items()) if re.match("ZERO_|UCX_", k)
               and k not in ("ZERO_PLUGIN_PATH", "ZERO_NVME_PATH", "ZERO_TEST_BUILD",
                             "ZERO_TEST_TOP") and (k, v) != ("ZERO_THREADS", "1")]
    text = shlex.join([*telling, *words])
    for path, name in ((OUT, "bench/compare"), (BUILD, "."), (TOP, "..")):
        text = text.replace(str(path), name)
    return text


def run(commands, limit_s):
    """Runs commands side by side; the output of the first. All are ended when one fails."""
    started, files = [], []
    COMMANDS.append(written(*commands[0]))
    try:
        for command, env in commands:
            files.append((tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")))
            started.append(subprocess.Popen(command, env=env, cwd=BUILD, stdout=files[-1][0],
                                            stderr=files[-1][1], start_new_session=True))
        until = time.monotonic() + limit_s
        while any(p.poll() is None for p in started) and not any(p.poll() for p in started):
            if time.monotonic() > until:
                raise Failed(f"not done after {limit_s} s")
            time.sleep(0.02)
    except OSError as error:
        raise Failed(str(error)) from None
    finally:
        for process in started:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
    texts = []
    for pair in files:
        for file in pair:
            file.seek(0)
        texts.append([file.read() for file in pair])
    # One that failed by itself says why; the others were ended.
    ended = sorted(zip(started, texts), key=lambda x: x[0].returncode < 0)
    for process, (said, complained) in ended:
        if process.returncode != 0:
            raise Failed(complaint(complained or said, process.returncode))
    return texts[0][0]


def kernel_bytes():
    """What the kernel has seen of the disks of the programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 512 * (used.ru_inblock + used.ru_oublock)


def records(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def checked(record):
    """Its time, if its result was right; a peer's program that checks nothing says nothing."""
    if record.get("check", "ok") != "ok":
        keys = [key for key in ("comm", "op", "dtype", "bytes") if key in record]
        what = " ".join(str(record[key]) for key in keys)
        raise Failed(f"{what}: check {record['check']}")
    return record["median_s"]


@dataclass
class Program:
    name: str
    label: str
    peer: str = ""  # what has to be installed
    run: object = None  # () -> {key: seconds or reason}


@dataclass
class Part:
    name: str
    kind: str
    title: str
    programs: list = field(default_factory=list)  # the first is libzero's


# ---- Collectives ---------------------------------------------------------------------------------


DTYPES = {"again": ("f32", "bf16"), "fresh": ("f32",)}  # by what is in the memory


def placed(record):
    """Its time, with where the result went and how the operation was called."""
    place = record.get("place") or ("in" if record["in_place"] else "out")
    seconds = checked(record)
    call = {"call": record["call"]} if record.get("call") else {}
    return {"seconds": seconds, "place": place, **call, "places": {place: seconds}}


def fastest(scale, found):
    """Of all placements and calls the fastest one, by size and dtype, and the least time of each
    placement; where there is none, the reason."""
    best = {}
    for record in found:
        for size in [record["bytes"]] if "bytes" in record else scale.sizes:
            key = f"{record['dtype']} {size}"
            value, old = record.get("missing") or placed(record), best.get(key)
            if isinstance(value, str) or not isinstance(old, dict):
                best[key] = old if isinstance(old, dict) else value
                continue
            both = [found["places"] for found in (old, value)]
            places = {p: min(b[p] for b in both if p in b) for p in {**both[0], **both[1]}}
            best[key] = min(old, value, key=lambda x: x["seconds"]) | {"places": places}
    return best


def zero_coll(scale, op, ranks, memory):
    """A virtual machine's processors may lie far apart for the time of a start, and what one rank has
    just written then reaches the other several times later (bench/NOTES.md): so of several starts
    the fastest one counts, of libzero as of MPI."""
    found = []
    for dtype in scale.starts * DTYPES[memory]:
        for place in ([], ["--in-place"]):
            command = ["./zero", "bench", "coll", "--comm", "shm", "-n", ranks, "--op", op,
                       "--bytes", f"{scale.sizes[0]}:{scale.sizes[-1]}", "--factor",
                       scale.sizes[1] // scale.sizes[0], "--dtype", dtype, "--reps",
                       scale.samples, "--no-limit", "--json", *place,
                       *(["--fresh"] if memory == "fresh" else [])]
            found += records(run([(pinned(cores(), command), environment())], scale.limit_s))
    return fastest(scale, found)


def peer_arguments(scale, op, memory, samples, sample_s):
    return [op, ",".join(DTYPES[memory]), ",".join(map(str, scale.sizes)), samples, sample_s,
            len(cores())]


YIELD = ["--mca", "mpi_yield_when_idle", "1"]
SHARED = [["--oversubscribe", *YIELD, "--bind-to", "none"],  # Open MPI's ranks, more than cores
          ["--map-by", "core:OVERSUBSCRIBE", *YIELD, "--bind-to", "core:overload-allowed"]]


def mpi_coll(scale, op, ranks, memory, name, mca=()):
    shared = ranks > len(cores())
    if name == "openmpi":
        ways = SHARED if shared else [["--bind-to", "core"]]
        start = ["mpirun.openmpi", "-n", ranks, *(word for pair in mca for word in ("--mca", *pair))]
    else:
        ways = [[] if shared else ["-bind-to", "core"]]
        start = ["mpirun.mpich", "-n", ranks]
    program = [OUT / f"mpi_coll.{name}", name, *peer_arguments(
        scale, op, memory, scale.samples, scale.sample_s / scale.starts), memory]
    env = environment(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    found = []
    for way in scale.starts * ways:
        command = [*start, *way, *program]
        some = records(run([(pinned(cores(), command), env)], scale.limit_s))
        if shared and len(ways) > 1:
            bound = "not bound" if way is ways[0] else "bound"
            some = [r | {"call": ", ".join(filter(None, (r.get("call"), bound)))} for r in some]
        found += some
    return fastest(scale, found)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def torch_ranks(scale, ranks, arguments):
    """A program of PyTorch's on so many ranks, each bound to a core in turn."""
    for lock in (OUT / "extensions").glob("*/lock"):
        lock.unlink()  # of a program that was killed; the next one would wait for it
    port, cpus = str(free_port()), cores()
    return run([(pinned([cpus[rank % len(cpus)]], ["python", *arguments]),
                 python_environment(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks),
                                    MASTER_ADDR="127.0.0.1", MASTER_PORT=port))
                for rank in range(ranks)], scale.limit_s)


def gloo_coll(scale, op, ranks, memory):
    arguments = [HERE / "gloo_coll.py", *peer_arguments(scale, op, memory, scale.slow_samples,
                                                        scale.slow_sample_s)]
    return fastest(scale, records(torch_ranks(scale, ranks, arguments)))


def collectives(scale):
    """Four ranks share two cores where there are no more: MPICH's poll there and do not yield, gloo
    takes half a minute to a minute a round."""
    three = ("all_gather", "reduce_scatter", "all_reduce")
    for ranks, memory, ops in ((2, "again", three), (2, "fresh", three), (4, "again", three[:2])):
        for op in ops:
            work = (scale, op, ranks, memory)
            name, title = f"{op}-{ranks}", f"{op}, {ranks} ranks on {min(ranks, len(cores()))} cores"
            if memory == "fresh":
                name, title = f"{name}-fresh", f"{title}, what is sent was just written"
            part = Part(name, "collectives", title, [
                Program("zero", "libzero shm", run=lambda w=work: zero_coll(*w)),
                Program("openmpi", "Open MPI", "openmpi", lambda w=work: mpi_coll(*w, "openmpi")),
            ])
            if ranks == 2:
                part.programs.append(
                    Program("mpich", "MPICH", "mpich", lambda w=work: mpi_coll(*w, "mpich")))
            if ranks == 2 and memory == "again":
                part.programs.append(
                    Program("gloo", "PyTorch gloo", "pytorch", lambda w=work: gloo_coll(*w)))
            yield part


# ---- Networks ------------------------------------------------------------------------------------

TRANSPORTS = {  # variables of libzero; the bare exchange's peer; Open MPI's components
    "ucx-shm": ({"UCX_TLS": "posix,cma,self"}, "ucp_ring", "self,vader"),
    "ucx-tcp": ({"UCX_TLS": "tcp,self"}, "ucp_ring", "self,tcp"),
    "ofi-shm": ({"ZERO_OFI_PROVIDER": "shm"}, "ofi_ring", "self,vader"),
    "ofi-tcp": ({"ZERO_OFI_PROVIDER": "tcp"}, "ofi_ring", "self,tcp"),
}
GATHERS = ("all_gather", "reduce_scatter")


def zero_over(scale, plugin, env):
    command = ["./zero", "bench", "coll", "--comm", plugin, "-n", 2, "--op", ",".join(GATHERS),
               "--in-place", "--bytes", ",".join(map(str, scale.sizes)), "--dtype", "f32", "--reps",
               scale.samples, "--no-limit", "--json"]
    found = {}
    for _ in range(scale.starts):
        for r in records(run([(pinned(cores(), command), environment(**env))], scale.limit_s)):
            key = f"{r['op']} {r['bytes']}"
            found[key] = min(checked(r), found.get(key, math.inf))
    return found


def exchanges(scale, plugin, env):
    """The gather once more, each sample in turn with one of the bare exchange's, of as many."""
    command = ["./zero", "bench", "p2p", "--comm", plugin, "--op", "exchange", "--bytes",
               ",".join(map(str, scale.sizes)), "--dtype", "f32", "--reps", scale.samples,
               "--no-limit", "--json"]
    found = records(run([(pinned(cores(), command), environment(**env))], scale.limit_s))
    return {f"exchange {r['bytes']}": {**r, "limit_s": r["bare_s"]} for r in found if "bare_s" in r}


def mpi_over(scale, btl):
    found = {}
    for op in GATHERS:
        times = mpi_coll(scale, op, 2, "again", "openmpi", (("pml", "ob1"), ("btl", btl)))
        found |= {f"{op} {key.split()[1]}": v for key, v in times.items() if key.startswith("f32")}
    return found


def transports(scale):
    for name, (env, ring, btl) in TRANSPORTS.items():
        plugin, wire = name.split("-")
        work = (scale, plugin, env)
        measured = Measured(lambda w=work: exchanges(*w))
        yield Part(f"transport-{name}", "transports", f"{plugin} over {wire}, 2 ranks", [
            Program("zero", f"libzero {plugin}",
                    run=lambda w=work, m=measured: zero_over(*w) | m.zero()),
            Program("ring", "bare exchange", ring, measured.limit),
            Program("openmpi", f"Open MPI, btl {btl}", "openmpi",
                    lambda b=btl: mpi_over(scale, b)),
        ])


# ---- Optimizer -----------------------------------------------------------------------------------


GRADIENTS = {"bf16": "bf16", "fp32": "f32"}  # as the peers' programs and as zero calls them


def zero_optimizer(scale, threads, grad):
    command = ["./zero", "bench", "optimizer", "--params", scale.params, "--dtype", "bf16",
               "--grad-dtype", GRADIENTS[grad], "--threads", threads, "--reps", 5, "--json"]
    env = environment(ZERO_THREADS=str(threads))
    found = records(run([(pinned(cores()[:threads], command), env)], scale.limit_s))
    # Of its records the one that does what the peers do: no norm of the gradient.
    return {"": next(r for r in found if r["op"] == "adamw")}


def peer_optimizer(scale, threads, grad, variant):
    command = ["python", HERE / "adamw.py", variant, scale.params, scale.tensors, grad, threads, 5]
    env = python_environment(OMP_NUM_THREADS=str(threads))
    found = records(run([(pinned(cores()[:threads], command), env)], scale.limit_s))
    return {"": checked(found[0])}


def optimizer(scale):
    peers = (
        ("deepspeed", "DeepSpeed CPUAdam, fp32 master copy", "deepspeed"),
        ("deepspeed-direct", "DeepSpeed CPUAdam, no master copy", "deepspeed"),
        ("torch-fused", "PyTorch AdamW, fused", "pytorch"),
        ("torch", "PyTorch AdamW", "pytorch"),
    )
    for threads in range(1, min(2, len(cores())) + 1):
        for grad in GRADIENTS:
            work = (scale, threads, grad)
            measured = Measured(lambda w=work: zero_optimizer(*w))
            part = Part(f"adamw-{threads}-{grad}", "optimizer",
                        f"AdamW, gradients in {grad}, {threads} thread{'s' * (threads > 1)}",
                        [Program("zero", "libzero", run=measured.zero),
                         Program("limit", "a plain loop, in turn with libzero", run=measured.limit)])
            for variant, label, peer in peers:
                if variant != "deepspeed-direct" or grad == "bf16":
                    part.programs.append(Program(
                        variant, label, peer, lambda w=work, v=variant: peer_optimizer(*w, v)))
            yield part


# ---- Steps ---------------------------------------------------------------------------------------

RANKS = 2


def plausible(losses, preset):
    """Fresh weights know nothing, so the first loss is close to the logarithm of the vocabulary."""
    first = 10.8 if preset == "124M" else 5.5
    if not abs(losses[0] - first) < 0.5 or not losses[-1] < losses[0]:
        raise Failed(f"losses are {losses}")


def middle(values):
    values = sorted(values)
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2


def zero_step(scale, dtype, batch, stage, **env):
    with tempfile.NamedTemporaryFile(suffix=".json") as log:
        command = ["./zero", "run", "-n", RANKS, "--bind", "--", "./zero-gpt2", "--preset",
                   scale.preset, "--stage", stage, "--dtype", dtype, "--seq", scale.seq,
                   "--batch", batch, "--clip", 1, "--lr", "3e-4", "--warmup", 0, "--val", 0,
                   "--data", TOP / "LICENSE", "--steps", scale.warmup + scale.steps,
                   "--json", log.name]
        before = kernel_bytes()
        run([(pinned(cores()[:RANKS], command), environment(**env))], scale.limit_s)
        seen = kernel_bytes() - before
        found = records(Path(log.name).read_text())
    steps = [r for r in found if r["type"] == "step"]
    # What the first step reads was never written, and costs a file system no reading.
    moved = RANKS * (found[-1]["disk_read_bytes"] - steps[0]["disk_read_bytes"]
                     + found[-1]["disk_written_bytes"])
    if moved and (seen < 0.95 * moved or not found[-1]["disk_direct"]):
        raise Failed(f"{env}: of {moved} bytes the kernel has seen {seen} at its disks: that is the "
                     "page cache, and no disk")
    plausible([s["loss"] for s in steps], scale.preset)
    return {"": middle([s["time_s"] for s in steps[scale.warmup:]])}


def peer_step(scale, dtype, batch, how):
    arguments = [HERE / "step.py", "--how", how, "--text", TOP / "LICENSE", "--preset",
                 scale.preset, "--dtype", dtype, "--seq", scale.seq, "--batch", batch, "--warmup",
                 scale.warmup, "--steps", scale.steps]
    found = records(torch_ranks(scale, RANKS, arguments))[-1]
    plausible(found["losses"], scale.preset)
    return {"": found["median_s"]}


def has_bf16_products():
    """PyTorch's products in bf16 take three to fifty times as long as in fp32 where the processor has
    no instructions for them (Zen 3, 256 x 768 by 768 x 768: 6.6, 0.8 and 10.9 GFLOP/s forward and for
    both gradients, in fp32 54, 41 and 34), so nobody would train in bf16 there."""
    with open("/proc/cpuinfo", encoding="ascii") as file:
        return bool(re.search(r"\b(avx512_bf16|amx_bf16)\b", file.read()))


def step_kinds():
    """(dtype, batch, stages) of the steps that are compared."""
    if has_bf16_products():
        return ("bf16", 1, range(4)), ("bf16", 4, range(4)), ("fp32", 1, (3,))
    return ("fp32", 1, range(4)), ("fp32", 4, range(4))


def steps(scale):
    peers = {
        0: [("ddp", "PyTorch DDP", "pytorch"),
            ("ddp-autocast", "PyTorch DDP, fp32 parameters, autocast", "pytorch")],
        1: [("zero-redundancy", "PyTorch DDP + ZeroRedundancyOptimizer", "pytorch"),
            ("deepspeed-1", "DeepSpeed stage 1", "deepspeed")],
        2: [("fsdp2-keep", "PyTorch FSDP2, parameters kept", "pytorch"),
            ("deepspeed-2", "DeepSpeed stage 2", "deepspeed")],
        3: [("fsdp2", "PyTorch FSDP2", "pytorch"),
            ("deepspeed-3", "DeepSpeed stage 3", "deepspeed")],
    }
    if len(cores()) < RANKS:
        return
    for dtype, batch, stages in step_kinds():
        for stage in stages:
            others = [p for p in peers[stage] if dtype == "bf16" or p[0] != "ddp-autocast"]
            work = (scale, dtype, batch)
            part = Part(f"step-{dtype}-batch{batch}-stage{stage}", "steps",
                        f"GPT-2 {scale.preset}, {dtype}, batch {batch}, stage {stage}",
                        [Program("zero", f"libzero stage {stage}",
                                 run=lambda w=work, s=stage: zero_step(*w, s))])
            for how, label, peer in others:
                part.programs.append(Program(how, label, peer,
                                             lambda w=work, h=how: peer_step(*w, h)))
            if stage == 3:
                part.programs.append(Program("copied", "libzero stage 3, ZERO_MAP=0",
                                             run=lambda w=work: zero_step(*w, 3, ZERO_MAP="0")))
            yield part


# ---- Outside the device --------------------------------------------------------------------------

BLOCK, DEPTH = 2 << 20, 16  # of a tile; ZERO_NVME_DEPTH's default; DeepSpeed has as many


def folder():
    """On a disk; of ZERO_NVME_PATH the first one."""
    return os.environ.get("ZERO_NVME_PATH", "/var/tmp").split(":")[0]


def zero_store(scale, op):
    """libzero's, fio's, and without checksums, in turn."""
    command = ["./zero", "bench", "offload", "--tier", "nvme", "--op", op, "--bytes", BLOCK,
               "--depth", DEPTH, "--size", scale.store, "--seconds", scale.store_s, "--reps", 3,
               "--warmup", 1, "--json"]
    env = environment(ZERO_NVME_PATH=folder())
    found = records(run([(pinned(cores(), command), env)], scale.limit_s))[0]
    if found["pages"] != found.get("limit_pages", found["pages"]):  # there may be no fio
        raise Failed(f"fio's blocks lie in {found['limit_pages']} pages, ours in {found['pages']} ones")
    return found


def without_checksums(record):
    return {"": record["bytes"] / record["beside_GBps"] * 1e-9}


def peer_store(scale, op):
    """Its memory in huge pages, as the others' is."""
    command = ["python", HERE / "aio.py", op, folder(), scale.store, BLOCK, DEPTH, 3 * scale.store_s]
    env = python_environment() | {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    found = records(run([(pinned(cores(), command), env)], scale.limit_s))
    return {"": checked(found[0])}


def offload(scale):
    """A disk's reads, writes, and both by turns; then steps with states elsewhere."""
    for op in ("read", "write", "mixed"):
        measured = Measured(lambda op=op: {"": zero_store(scale, op)})
        title = f"a disk, {op}, blocks of {BLOCK >> 20} MiB, {DEPTH} under way"
        part = Part(f"offload-{op}", "offload", title, [
            Program("zero", "libzero nvme, with checksums", run=measured.zero),
            Program("fio", "fio, io_uring", "fio", measured.limit),
            Program("unsummed", "libzero nvme, without checksums",
                    run=lambda m=measured: without_checksums(m.run("beside")[""])),
        ])
        if op != "mixed":  # which DeepSpeed has no call for
            part.programs.append(Program("aio", "DeepSpeed async_io (libaio)", "aio",
                                         lambda op=op: peer_store(scale, op)))
        yield part
    if len(cores()) < RANKS:
        return
    everything = "optimizer:cpu,gradients:cpu,parameters:cpu"
    for name, where, peers in (
            ("cpu", everything, [("fsdp2-cpu", "PyTorch FSDP2, CPUOffloadPolicy", "pytorch"),
                                 ("deepspeed-cpu", "DeepSpeed, optimizer and parameters on cpu",
                                  "deepspeed")]),
            ("nvme", "optimizer:nvme",
             [("deepspeed-nvme", "DeepSpeed, optimizer on nvme", "aio")])):
        env = {"ZERO_OFFLOAD": where}
        if name == "nvme":
            env["ZERO_NVME_PATH"] = folder()
        dtype = step_kinds()[0][0]
        part = Part(f"offload-step-{name}", "offload",
                    f"GPT-2 {scale.preset}, {dtype}, batch 1, stage 3, {name}",
                    [Program("zero", f"libzero, {where}",
                             run=lambda e=env, d=dtype: zero_step(scale, d, 1, 3, **e))])
        for how, label, peer in peers:
            part.programs.append(Program(how, label, peer,
                                         lambda h=how, d=dtype: peer_step(scale, d, 1, h)))
        yield part


# ---- Limits --------------------------------------------------------------------------------------

EXPOSED_MOST = 0.05  # of a step, to be waited for with nothing to compute
CACHED_MOST = 64 << 20
GROWTH_LEAST = 16 << 20
TURNS_MOST = 16 << 20
BLOCK_REPS = 5  # that zero bench coll makes of one loop in a row where caches matter
# Times a message, what `zero bench coll` wants of each rank: where operations go, and as much for the
# limits, once in private and once in shared memory; cold twice, and of one operation at a time.
NEEDED = {"limited": 6, "alone": 2, "limited cold": 8, "alone cold": 4}


WAYS = {"plain": "plain_s", "plain by four": "plain_by_four_s", "stream": "stream_s",
        "stream by four": "stream_by_four_s",  # loops; tools/bench_loops.c
        "stream asking ahead": "stream_asking_ahead_s", "memcpy": "memcpy_s",
        "each sums all": "each_sums_all_s",
        "stream the copy": "stream_the_copy_s",
        "stream the copy by four": "stream_the_copy_by_four_s"}


ALSO = {"percent_beside_computing": "% beside computing", "wire_bytes": "bytes sent",
        "huge_pages_percent": "% in huge pages", "limit_huge_pages_percent": "% in huge pages"}


def measured_of(record):
    """Its seconds, with what else it says that tables have."""
    seconds, also = checked(record), {k: record[k] for k in record.get("also", ())}
    return {"seconds": seconds, "also": also} if also else seconds


def limit_of(record):
    """Its seconds; where loops took turns, a dict with these, what the best one is called, and the
    seconds of each."""
    ways = {way: record[key] for way, key in WAYS.items() if key in record}
    also = {key: record[key] for key in ("limit_huge_pages_percent",) if key in record}
    if "limit_loop" not in record:
        return record["limit_s"]
    return {"seconds": record["limit_s"], "what": record["limit_loop"]} | (
        {"ways": ways} if ways else {}) | ({"also": also} if also else {})


class Measured:
    """A benchmark of libzero's, and in the same run what limits it, as if that were a program:
    whichever is asked for first runs it, the others have their figures from there."""

    def __init__(self, find):
        self.find, self.found, self.given_to = find, None, set()

    def run(self, which):
        if self.found is None or which in self.given_to:
            self.found, self.given_to = self.find(), set()
        self.given_to.add(which)
        return self.found

    def zero(self):
        return {key: value if isinstance(value, str) else measured_of(value)
                for key, value in self.run("zero").items()}

    def limit(self):
        return {key: r if isinstance(r, str) else limit_of(r)
                for key, r in self.run("limit").items() if isinstance(r, str) or "limit_s" in r}


def memory_bytes():
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")


def limits_coll(scale, ranks, memory):
    """Each rank has a source and a destination in shared memory, and both again for the limit;
    "map" is the gather that moves nothing. In place and fresh only what may fit into caches
    differs; cold, on other memory each time, shows whether the time of a byte grows with the message
    where no cache helps the small ones, and whether that of plain loops does."""
    moving, alone, sums = ("all_gather", "reduce_scatter"), ("all_gather", "map",
                                                             "reduce_scatter"), ("all_reduce",)
    plans = {"again": [("", [], (alone, sums), 0, max(scale.limit_sizes)),
                       (" in place", ["--in-place"], (moving, sums), 0, CACHED_MOST)],
             "fresh": [("", ["--fresh"], (moving, sums), 0, CACHED_MOST),
                       (" in place", ["--fresh", "--in-place"], (moving, sums), 0, CACHED_MOST)],
             "cold": [("", ["--cold"], tuple((op,) for op in moving), GROWTH_LEAST,
                       max(scale.limit_sizes))]}[memory]
    found = {}
    for where, options, groups, least, largest in plans:
        wanted = [size for size in scale.limit_sizes if least <= size <= largest]
        for some, reps, warmup, more in batches(scale, ranks, wanted, memory == "cold"):
            for ops in groups if some else ():
                command = ["./zero", "bench", "coll", "--comm", "shm", "-n", ranks, "--op",
                           ",".join(ops), "--bytes", ",".join(map(str, some)), "--reps", reps,
                           "--warmup", warmup, "--json", *options, *more]
                text = run([(pinned(cores(), command), environment())], 2 * scale.limit_s)
                for r in records(text):
                    if r["op"] == "map":
                        r |= {"limit_loop": "flags alone", "also": ("wire_bytes",)}
                    elif "huge_pages_percent" in r:
                        r["also"] = ("huge_pages_percent",)
                    found[f"{r['op']}{where} {r.get('wanted_bytes', r['bytes'])}"] = r
        for op in [op for ops in groups for op in ops]:
            for size in wanted:
                found.setdefault(f"{op}{where} {size}", "its memory is more than there is")
    return found


def batches(scale, ranks, sizes, cold):
    """(sizes, repetitions, warm-up, further options): without limits where memory is too little for
    them, in every round alike. Where caches matter operation and loops take turns by several
    repetitions; up to TURNS_MOST there are so many that each of eight comes first once."""
    most = memory_bytes() * 0.75
    fits = {limited: [size for size in sizes if ranks * size * (
        NEEDED[limited + " cold" * cold] + 1 / ranks) < most] for limited in ("limited", "alone")}
    some = fits["limited"]
    blocks = 3 if ranks <= len(cores()) else 2
    yield [s for s in some if s <= TURNS_MOST], 8 * BLOCK_REPS if scale.limit_samples > 3 else 10, 3, []
    yield [s for s in some if TURNS_MOST < s <= CACHED_MOST], blocks * BLOCK_REPS, 1, []
    yield [s for s in some if s > CACHED_MOST], scale.limit_samples // 2 + 1, 1, []
    yield [s for s in fits["alone"] if s not in some], scale.limit_samples // 2 + 1, 1, ["--no-limit"]


def limits_optimizer(scale, threads):
    env, found = environment(ZERO_THREADS=str(threads)), {}
    for grad, name in GRADIENTS.items():
        command = ["./zero", "bench", "optimizer", "--params", scale.params, "--threads", threads,
                   "--grad-dtype", name, "--reps", 5, "--json"]
        for r in records(run([(pinned(cores()[:threads], command), env)], scale.limit_s)):
            found[f"{r['op']}, gradients {grad}"] = r
    return found


def limits_step(scale):
    command = ["./zero", "bench", "step", "--preset", scale.preset, "--stage", 3, "--seq",
               scale.seq, "--batch", 1, "--steps", scale.limit_steps, "--json"]
    found = {}
    for end, env in (("", {}), (", ZERO_MAP=0", {"ZERO_MAP": "0"})):
        some = records(run([(pinned(cores()[:RANKS], command), environment(**env))], scale.limit_s))
        some = {r["op"]: r for r in some}
        some["step"]["limit_loop"] = "without its waits"
        some["collectives"]["also"] = ("percent_beside_computing",)
        norm = some.pop("norm", {"median_s": 0})  # is waited for, too, in the update
        some["exposed"]["median_s"] += norm["median_s"]
        some["exposed"] |= {"limit_s": EXPOSED_MOST * some["step"]["median_s"],
                            "limit_loop": f"wanted: at most {100 * EXPOSED_MOST:.0f} %"}
        found |= {op + end: r for op, r in some.items()}
    return found


def limits_arena(scale):
    command = ["./zero", "bench", "arena", "--step", ",".join(map(str, scale.arena)), "--json"]
    found = records(run([(pinned(cores(), command), environment())], scale.limit_s))
    return {r["task"]: r for r in found}


def limits(scale):
    work = [(f"coll-{n}", f"collectives of {n} ranks", lambda n=n: limits_coll(scale, n, "again"),
             True) for n in scale.limit_ranks]
    work += [("coll-2-fresh", "collectives of 2 ranks, what is sent was just written",
              lambda: limits_coll(scale, 2, "fresh"), True)]
    if max(scale.limit_sizes) > GROWTH_LEAST:
        work.append(("coll-2-cold", "collectives of 2 ranks, other memory each time",
                     lambda: limits_coll(scale, 2, "cold"), True))
    work += [(f"optimizer-{t}", f"AdamW, {t} thread{'s' * (t > 1)}",
              lambda t=t: limits_optimizer(scale, t), True)
             for t in range(1, min(2, len(cores())) + 1)]
    if len(cores()) >= RANKS:
        work.append(("step", f"a step of GPT-2 {scale.preset}, stage 3, {RANKS} ranks",
                     lambda: limits_step(scale), True))
    work.append(("arena", "plans of the buffers of a step", lambda: limits_arena(scale), False))
    for name, title, find, limited in work:
        measured = Measured(find)
        part = Part(f"limits-{name}", "limits", title,
                    [Program("zero", "libzero", run=measured.zero)])
        if limited:
            part.programs.append(Program("limit", "limit", run=measured.limit))
        yield part


def all_parts(scale):
    return [*collectives(scale), *transports(scale), *optimizer(scale), *steps(scale),
            *offload(scale), *limits(scale)]
