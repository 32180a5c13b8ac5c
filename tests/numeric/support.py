# SPDX-License-Identifier: Apache-2.0
"""What the tests of whole programs share: TAP output, and jobs of zero-gpt2 with their log."""
import atexit
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

TOP = os.path.abspath(os.environ.get("ZERO_TEST_TOP", "."))
BUILD = os.path.abspath(os.environ.get("ZERO_TEST_BUILD", "."))
SANITIZED = bool(os.environ.get("SANITIZE_CFLAGS", "").strip())
# How much of what repeats itself is run, as in tests/tap.h.
WHOLE = bool(os.environ.get("ZERO_TEST_WHOLE"))
SHORT = bool(os.environ.get("ZERO_TEST_SHORT")) and not WHOLE
ZERO = os.path.join(BUILD, "zero")
# A text that every tree has: 11 KB, enough to train `micro` on.
TEXT = os.path.join(TOP, "LICENSE")


def program(name):
    """The program itself, not libtool's script around it: its process is the rank."""
    path = os.path.join(BUILD, ".libs", name)
    return path if os.path.exists(path) else os.path.join(BUILD, name)


GPT2 = program("zero-gpt2")


def has_pmix():
    with open(os.path.join(BUILD, "config.h"), encoding="utf-8") as file:
        return "#define HAVE_PMIX 1\n" in file


# ---- TAP -----------------------------------------------------------------------------------------

_run = 0
_failed = 0


def diag(*lines):
    for line in lines:
        for part in str(line).split("\n"):
            print("#", part, flush=True)


def ok(good, what, *details):
    """One test; the details are shown when it fails."""
    global _run, _failed
    _run += 1
    print("ok" if good else "not ok", _run, "-", what, flush=True)
    if not good:
        _failed += 1
        diag(*details)
    return good


def skip(what, reason):
    global _run
    _run += 1
    print("ok", _run, "-", what, "# SKIP", reason, flush=True)


def skip_all(reason):
    print("1..0 # SKIP", reason)
    sys.exit(0)


def bail(reason):
    print("Bail out!", reason)
    sys.exit(99)


def done():
    print(f"1..{_run}")
    sys.exit(1 if _failed else 0)


# ---- Jobs ----------------------------------------------------------------------------------------

FOLDER = tempfile.mkdtemp(prefix="zero-test-")
atexit.register(shutil.rmtree, FOLDER, True)
JOBS = []
atexit.register(lambda: [job.kill() for job in JOBS])
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
             "TORCHELASTIC_RUN_ID")


def environment(more=None):
    """A clean one: no options of the person who tests, plugins of this build, BLAS
    on one thread."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith("ZERO_") and k not in LAUNCHERS}
    libs = os.path.join(BUILD, ".libs")
    env["ZERO_PLUGIN_PATH"] = libs
    env["LD_LIBRARY_PATH"] = ":".join(x for x in (libs, env.get("LD_LIBRARY_PATH")) if x)
    env["XDG_CACHE_HOME"] = os.path.join(FOLDER, "cache")
    env["OMP_NUM_THREADS"] = env["OPENBLAS_NUM_THREADS"] = "1"
    env.update(more or {})
    return env


def path(name):
    """A place for a file, gone when the test ends."""
    return os.path.join(FOLDER, name)


def objects(file):
    """The objects of a JSON log, one a line."""
    with open(file, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


class Job:
    """A program on some ranks (0: without `zero run`), started at once. Its output goes to files,
    which .text() reads at any time. Every process of it carries a mark in its environment, so that
    none can hide."""

    def __init__(self, command, ranks=0, env=None, **how):
        self.mark = uuid.uuid4().hex
        full = environment(env)
        full["TEST_JOB"] = self.mark
        # A test that runs in the background of a shell has these ignored; a job's ranks must not.
        how.setdefault("preexec_fn", lambda: [signal.signal(s, signal.SIG_DFL)
                                              for s in (signal.SIGINT, signal.SIGQUIT)])
        how.setdefault("stdin", subprocess.DEVNULL)
        if ranks:
            command = [ZERO, "run", "-n", str(ranks), "--"] + command
        self.command = [str(word) for word in command]
        self.status, self.written = None, {}
        self.start = time.monotonic()
        with open(self.file("out"), "wb") as out, open(self.file("err"), "wb") as err:
            how.setdefault("stdout", out)
            how.setdefault("stderr", err)
            self.process = subprocess.Popen(self.command, env=full, **how)
        JOBS.append(self)

    def file(self, which):
        return path(f"{self.mark}.{which}")

    def text(self, which):
        """What was written so far to "out" or "err"."""
        if which in self.written:
            return self.written[which]
        with open(self.file(which), encoding="utf-8", errors="replace") as file:
            return file.read()

    def processes(self):
        """Those that live; a zombie does not."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if self.mark.encode() not in file.read():
                        continue
                with open(f"/proc/{pid}/stat", encoding="latin-1") as file:
                    if file.read().rsplit(")", 1)[1].split()[0] not in "ZX":
                        found.append(int(pid))
            except OSError:
                pass
        return found

    def ranks(self):
        """The processes of zero-gpt2."""
        found = []
        for pid in self.processes():
            try:
                if os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith("zero-gpt2"):
                    found.append(pid)
            except OSError:
                pass
        return found

    def end(self, timeout=120):
        """Waits; after the timeout everything is killed and the status is None."""
        try:
            self.status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            self.process.wait()
        self.seconds = time.monotonic() - self.start
        JOBS.remove(self)
        self.written = {which: self.text(which) for which in ("out", "err")}
        self.out, self.err = self.written["out"], self.written["err"]
        for which in self.written:
            os.unlink(self.file(which))
        return self

    def kill(self):
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass

    def left_behind(self, seconds=1.0):
        """Processes that still live so long after the end; they are killed."""
        until = time.monotonic() + seconds
        while (pids := self.processes()) and time.monotonic() < until:
            time.sleep(0.02)
        self.kill()
        return pids

    def story(self):
        """For the details of a failed test."""
        return (f"{' '.join(self.command)}\nstatus {self.status}\n"
                f"{self.text('out')[-1500:]}{self.text('err')[-3000:]}")


def left_in(folder, seconds=1.0):
    """What is in a folder so long after a job's end: names, and files without one that are open."""
    until, folder = time.monotonic() + seconds, os.path.realpath(folder)
    while True:
        left = os.listdir(folder)
        for link in glob.glob("/proc/[0-9]*/fd/*"):
            try:
                name = os.readlink(link)
            except OSError:
                continue
            if name.startswith(folder + "/") and name.endswith(" (deleted)"):
                left.append(f"{link}: {name}")
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.02)


def train(options, ranks=1, env=None, timeout=120):
    """zero-gpt2 to its end: the job, with .log = the objects of its JSON log ([] without one)."""
    log = path("log.json")
    if os.path.exists(log):
        os.unlink(log)
    job = Job([GPT2, "--json", log, *options], ranks, env).end(timeout)
    job.log = objects(log) if os.path.exists(log) else []
    job.steps = [o for o in job.log if o["type"] == "step"]
    job.summary = job.log[-1] if job.log and job.log[-1]["type"] == "summary" else None
    return job


class MemoryGroup:
    """A control group for memory below this process's own; .folder is None where none can be."""

    def __init__(self):
        self.folder, self.names = None, None
        with open("/proc/self/cgroup", encoding="ascii") as file:
            lines = file.read().split("\n")
        for line in lines:
            _, controllers, group = (line.split(":", 2) + ["", ""])[:3]
            old = controllers == "memory"
            root = "/sys/fs/cgroup/memory" if old else "/sys/fs/cgroup"
            names = ("memory.limit_in_bytes", "memory.max_usage_in_bytes") if old else \
                ("memory.max", "memory.peak")
            if not (old or not controllers) or not os.path.exists(root + group + "/cgroup.procs"):
                continue
            folder = root + group + f"/zero-test-{os.getpid()}"
            try:
                os.mkdir(folder)
            except OSError:
                continue
            if os.path.exists(os.path.join(folder, names[0])):
                self.folder, self.names = folder, names
                return
            os.rmdir(folder)

    def write(self, name, value):
        with open(os.path.join(self.folder, name), "w", encoding="ascii") as file:
            file.write(str(value))

    def limit(self, limit_bytes):
        """Of memory, and of memory with swap, which is never below it."""
        both, swap = "memory.memsw.limit_in_bytes", "memory.swap.max"
        counts = os.path.exists(os.path.join(self.folder, both))
        if counts:
            self.write(both, -1)
        self.write(self.names[0], limit_bytes)
        if counts:
            self.write(both, limit_bytes)
        elif os.path.exists(os.path.join(self.folder, swap)):
            self.write(swap, 0)

    def peak(self):
        """Most bytes it ever had, with what of files the system keeps for it; 0: not known."""
        try:
            with open(os.path.join(self.folder, self.names[1]), encoding="ascii") as file:
                return int(file.read())
        except OSError:
            return 0

    def enter(self):
        self.write("cgroup.procs", os.getpid())

    def end(self):
        for _ in range(50):
            try:
                os.rmdir(self.folder)
                return
            except OSError:
                time.sleep(0.1)


for needed in (ZERO, GPT2):
    if not os.access(needed, os.X_OK):
        bail(f"{needed} is not built")
