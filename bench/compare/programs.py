# SPDX-License-Identifier: Apache-2.0
"""Programs and how they are run; parts.py has all parts.

A part is a set of programs that do the same work; they are run in turn. Running a program gives
seconds by key; a key is what one row of a table is about, such as "f32 4096". A program that
cannot do something gives the reason instead of seconds.
"""
import json
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
           if not re.match(r"ZERO_(?!PLUGIN_PATH|NVME_PATH)|OMP_|MKL_|OPENBLAS_|OMPI_|MPIR_|UCX_|"
                           r"FI_|TORCH_|GLOO_|DS_|DNNL_|ONEDNN_", k)}
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


def records_of(command, limit_s, env=None, cpus=None):
    """What one program says, bound to all cores that are compared, or to `cpus`."""
    return records(run([(pinned(cpus or cores(), command), env or environment())], limit_s))


def checked(record):
    """Its time, if its result was right; a peer's program that checks nothing says nothing."""
    if record.get("check", "ok") != "ok":
        keys = [key for key in ("comm", "op", "dtype", "bytes") if key in record]
        what = " ".join(str(record[key]) for key in keys)
        raise Failed(f"{what}: check {record['check']}")
    return record["median_s"]


def barrier_s():
    """Of two ranks in shared memory, each on a core."""
    command = ["./zero", "bench", "coll", "--comm", "shm", "-n", 2, "--op", "barrier", "--reps", 21,
               "--no-limit", "--json"]
    return checked(records(run([(pinned(cores(), command), environment())], 20))[0])


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
    ranks: int = 2


# ---- Programs of Python --------------------------------------------------------------------------


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


# ---- Limits as programs --------------------------------------------------------------------------

WAYS = ("plain", "plain by four", "stream", "stream by four",  # loops; tools/bench/measure/loops.c
        "stream asking ahead", "memcpy", "each sums all", "stream the copy",
        "stream the copy by four")


ALSO = {"percent_beside_computing": "% beside computing", "wire_bytes": "bytes sent",
        "mapped_bytes": "bytes mapped",
        "huge_pages_percent": "% in huge pages", "limit_huge_pages_percent": "% in huge pages"}


def measured_of(record):
    """Its seconds, with what else it says that tables have."""
    seconds, also = checked(record), {k: record[k] for k in record.get("also", ())}
    return {"seconds": seconds, "also": also} if also else seconds


def limit_of(record):
    """Its seconds; where loops took turns, a dict with these, what the best one is called, and the
    seconds of each."""
    ways = {way: record[key] for way in WAYS
            if (key := f"{way.replace(' ', '_')}_s") in record}
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
