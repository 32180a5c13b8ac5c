# SPDX-License-Identifier: Apache-2.0
"""What cannot work ends with a status that is not 0, a sentence that names the thing, the value and
the remedy, and nothing left behind: options and files, ranks that do not belong together, too
little memory, and Ctrl-C at any moment."""
import fcntl
import os
import pty
import random
import re
import secrets
import signal
import socket
import struct
import subprocess
import termios
import time

import support
from support import GPT2, TEXT, Job, ok, skip

MICRO = ["--preset", "micro", "--data", TEXT, "--batch", 2, "--steps", 3]
FOR_EVER = MICRO[:-1] + [1000000]


def sentences(text):
    """What zero-gpt2 says, without who says it and who says more."""
    said = re.findall(r"^(?:\[ *\d+\] )?zero-gpt2: (.*)", text, re.M)
    return {re.sub(r"^rank \d+ failed in \w+: | rank \d+ says who needs what$", "", s)
            for s in said}


def refused(what, words, options=(), env=None, ranks=2, status=1, seconds=20):
    """A job that must be refused quickly, in one sentence with these words (regular
    expressions)."""
    job = Job([GPT2, *MICRO, *options], ranks, env).end(seconds + 40)
    said = sentences(job.err)
    left = job.left_behind()
    ok(job.status == status and len(said) == 1 and not left and job.seconds < seconds and
       all(re.search(w, job.err) for w in words), f"{what}: refused in one sentence",
       f"want {words}, left {left}, {job.seconds:.1f} s", job.story())
    return job


# ---- Options and files ---------------------------------------------------------------------------

def options_and_files():
    empty, short = support.path("empty"), support.path("short")
    for name, content in ((empty, ""), (short, "too short")):
        with open(name, "w", encoding="ascii") as file:
            file.write(content)
    refused("a missing data file", ["/no/such/file", "No such file", "check"],
            ["--data", "/no/such/file"])
    refused("an empty data file", [empty + " is empty", "give"], ["--data", empty])
    refused("a short data file", [short, "9 tokens", "33", "longer file"], ["--data", short])
    refused("a sequence longer than the data", ["tokens", "sequence of 300", "shorter --seq"],
            ["--preset", "124M", "--seq", 300, "--data", short])
    refused("a sequence longer than the model", ["--seq 33", "32 positions"], ["--seq", 33])
    refused("batch 0", ["--batch 0", "from 1 to"], ["--batch", 0])
    refused("accumulation 0", ["--accum 0", "from 1 to"], ["--accum", 0])
    refused("a negative learning rate", ["--lr -3", "from 0 to"], ["--lr", -3])
    refused("a clip that is no number", ["--clip x", "from 0 to"], ["--clip", "x"])
    refused("accumulation 0 by variable", ["ZERO_ACCUM=0", "from 1 to"], env={"ZERO_ACCUM": "0"})
    refused("stage 7", ["--stage 7", "from 0 to 3"], ["--stage", 7])
    refused("stage 7 by variable", ["ZERO_STAGE=7", "from 0 to 3"], env={"ZERO_STAGE": "7"})
    refused("an unknown preset", ["--preset huge", "there are micro, tiny"], ["--preset", "huge"])
    refused("an unknown plugin", ["zero-comm-pigeon.so", "`zero info`", "ZERO_PLUGIN_PATH"],
            env={"ZERO_COMM": "pigeon"})
    refused("a plugin for one rank", ["self", "at most 1 rank,", "not 2", "ZERO_COMM"],
            env={"ZERO_COMM": "self"})
    refused("an unknown option", ["--colour", "--help"], ["--colour", "red"])
    refused("weights that are not there", ["--weights-in: cannot open /no/such", "No such file"],
            ["--weights-in", "/no/such"])


def variables():
    job = support.train(MICRO, 2, {"ZERO_STAGE": "2"})
    ok(job.status == 0 and job.summary and job.summary["stage"] == 2 and
       "stage 2" in job.out, "ZERO_STAGE=2 trains stage 2", job.story())
    job = support.train(MICRO, 2, {"ZERO_STAG": "2"})
    warnings = re.findall(r"ZERO_STAG=2 is not known: .*ZERO_STAGE$", job.err, re.M)
    ok(job.status == 0 and job.summary and job.summary["stage"] == 3 and len(warnings) == 1,
       "a misspelt variable is warned about once, with the nearest name", job.story())


# ---- Ranks ---------------------------------------------------------------------------------------

def as_rank(rank, ranks, name, options=MICRO, env=None):
    """A rank as a launcher other than ours starts it."""
    more = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500",
            "ZERO_JOB": name, "ZERO_TIMEOUT": "30"}
    return Job([GPT2, *options], 0, {**more, **(env or {})})


def too_many():
    job = Job([support.ZERO, "run", "-n", "4097", "--", GPT2, *MICRO]).end(20)
    ok(job.status == 2 and re.search(r"4097.*1 to 4096", job.err), "4097 ranks are refused",
       job.story())
    job = as_rank(0, 5000, "many").end(20)
    ok(job.status == 1 and re.search(r'WORLD_SIZE is "5000".*1 to 4096', job.err),
       "so are 5000 of another launcher", job.story())
    job = as_rank(2, 2, "outside").end(20)
    ok(job.status == 1 and re.search(r'RANK is "2".*from 0 to 1', job.err),
       "so is rank 2 of 2", job.story())


def trains(job, seconds=60):
    """Waits until a job tells of its first step."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and job.process.poll() is None:
        if "step 1/" in job.text("out"):
            return True
        time.sleep(0.02)
    return False


def twice():
    first = [as_rank(r, 2, "twice", FOR_EVER) for r in range(2)]
    good = trains(first[0])
    for rank in range(2):
        second = as_rank(rank, 2, "twice").end(30)
        ok(good and second.status == 1 and
           re.search(rf"rank {rank} is there already \(process {first[rank].process.pid}\).*start "
                     "every rank once", second.err), f"a second rank {rank} is refused",
           second.story(), first[0].story())
    before = first[0].text("out")
    time.sleep(2.5)  # plain progress lines come every two seconds
    ok(first[0].process.poll() is None and first[1].process.poll() is None and
       first[0].text("out") != before, "the first ones train on", first[0].story())
    for job in first:
        job.kill()
        job.end(10)


def socket_of(pid):
    """The abstract Unix socket at which rank 0 waits for the others."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            inodes.update(re.findall(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{fd}")))
        except OSError:
            pass
    with open("/proc/net/unix", encoding="latin-1") as file:
        for line in file:
            words = line.split()
            if len(words) == 8 and words[6] in inodes and words[7].startswith("@zero-"):
                return "\0" + words[7][1:]
    return None


def hello(version, magic=0x365a4a7e):
    """The first message of rank 1 of 2: a header, and who it is."""
    body = struct.pack("<32sQii64sq64s56s", version.encode(), 1, 1, 2, b"model", os.getpid(),
                       b"host", b"")
    return struct.pack("<IHHIIQQ", magic, 1, 0, len(body), 0, 0, 0) + body


def stranger(what, message, words):
    """Rank 0 waits; what answers is of another version."""
    job = as_rank(0, 2, "stranger")
    until = time.monotonic() + 20
    while (name := socket_of(job.process.pid)) is None and time.monotonic() < until:
        time.sleep(0.02)
    answer = b""
    if name:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
            s.settimeout(10)
            s.connect(name)
            s.sendall(message)
            try:
                while part := s.recv(4096):
                    answer += part
            except OSError:
                pass
    heard = answer.decode("latin-1")
    if words is None:  # it may not end the job: whoever it was, it was no rank
        ok(name and job.process.poll() is None and "another protocol" in heard,
           f"{what} is turned away, and rank 0 waits on", repr(heard), job.story())
        job.kill()
        job.end(10)
        return
    job.end(20)
    ok(job.status == 1 and all(w in job.err and w in heard for w in words),
       f"{what} is refused, in the same words on both sides", repr(heard), job.story())


def versions():
    stranger("a rank of another version", hello("9.9.9"),
             ["runs libzero 9.9.9", "rank 0 runs", "start all ranks with the same library"])
    stranger("a peer with another protocol", hello("9.9.9", 0x315a4a7f), None)


# ---- Several hosts -------------------------------------------------------------------------------

def secret(name, mode=0o600, text=None):
    file = support.path(name)
    with open(file, "w", encoding="ascii") as f:
        f.write(text or secrets.token_hex(32))
    os.chmod(file, mode)
    return file


MEETINGS = []


def meet(what, words, env=(), ranks=(0, 1)):
    """Ranks that would meet by TCP, all with the same variables but what env(rank) adds.
    Each of them must end in time with one sentence, in which words(rank) are: met() looks,
    for most wait."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    base = {"ZERO_RENDEZVOUS": "tcp", "ZERO_SECRET_FILE": secret(f"secret-{len(MEETINGS)}"),
            "ZERO_TIMEOUT": "3", "MASTER_PORT": str(port)}
    jobs = [as_rank(r, 2, f"meet-{port}", MICRO,
                    {**base, **(env(r) if callable(env) else dict(env))})
            for r in ranks]
    MEETINGS.append((what, words, ranks, jobs))


def met():
    for what, words, ranks, jobs in MEETINGS:
        for r, job in zip(ranks, jobs):
            job.end(60)
            wanted = words(r) if callable(words) else words
            ok(job.status == 1 and job.seconds < 20 and len(sentences(job.err)) == 1 and
               all(re.search(w, job.err) for w in wanted), f"{what}: rank {r} says so",
               f"{job.seconds:.1f} s, want {wanted}", job.story())


def several_hosts():
    meet("an unknown interface",
         lambda r: [r'ZERO_INTERFACE is "none7"', r"which has lo\b(?!.*\blo\b)"] if r == 0
         else [r"found no rank 0 at 127\.0\.0\.1:\d+ within 3 s"],
         lambda r: {} if r else {"ZERO_INTERFACE": "none7"})
    refused("an unknown interface, all ranks on one host",
            [r'ZERO_INTERFACE is "none7"', r"which has lo\b", "name one of them, or leave it out"],
            ["--steps", 1], {"ZERO_INTERFACE": "none7"})
    meet("a name that does not resolve", ['MASTER_ADDR is "no-such-host.invalid"', "not resolve",
                                          "give an IP address"],
         {"MASTER_ADDR": "no-such-host.invalid"})
    meet("an address of another machine", lambda r: [r'MASTER_ADDR is "198.51.100.7"',
                                                     "not this machine", "ZERO_INTERFACE"],
         {"MASTER_ADDR": "198.51.100.7"}, [0])
    meet("half an IPv6 literal", [r'MASTER_ADDR is "\[::1"', "not resolve"],
         {"MASTER_ADDR": "[::1"})
    meet("a secret that others can read", [r"has mode 0644", "chmod 600"],
         {"ZERO_SECRET_FILE": secret("open", 0o644)})
    meet("a short secret", ["holds 3 characters", "64 hex digits", "urandom"],
         {"ZERO_SECRET_FILE": secret("short", 0o600, "abc")})
    meet("no secret",
         ["ZERO_RENDEZVOUS is tcp", "need a secret", "ZERO_SECRET_FILE", "ZERO_INSECURE"],
         {"ZERO_SECRET_FILE": ""})
    meet("another WORLD_SIZE", ["rank 1 .* was started with 3 ranks, rank 0 with 2", "WORLD_SIZE"],
         lambda r: {"WORLD_SIZE": str(2 + r)})
    meet("a rank that does not come", [r"1 of 2 ranks did not come within 3 s \(rank 1\)",
                                       "rank 0 listens at"], (), [0])
    meet("one that does not come in its own time",
         [r"did not come within 0\.7 s", "ZERO_JOIN_TIMEOUT"],
         {"ZERO_JOIN_TIMEOUT": "0.7", "ZERO_TIMEOUT": "600"}, [0])
    meet("a rank 0 that does not come", [r"rank 1 found no rank 0 at 127\.0\.0\.1:\d+ within 3 s",
                                         "Connection refused"], (), [1])
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = str(s.getsockname()[1])
        meet("a port in use",
             lambda r: [f"port {port} of 127.0.0.1 is in use", "ZERO_PORT"] if r == 0
             else [f"found no rank 0 at 127.0.0.1:{port}", "does not answer"],
             {"MASTER_PORT": port})
        met()


def numbers_of_time():
    for name, value, words in (("TIMEOUT", "0", "from 0.1"), ("TIMEOUT", "-1", "from 0.1"),
                               ("TIMEOUT", "soon", "from 0.1"), ("TIMEOUT", "1e-3", "from 0.1"),
                               ("HEARTBEAT", "-1", "0 or a number from 0.1"),
                               ("HEARTBEAT", "0.01", "0 or a number from 0.1"),
                               ("JOIN_TIMEOUT", "0", "auto or a number from 0.1"),
                               ("PORT", "70000", "from 0 to 65535"), ("PORT", "-1", "from 0")):
        refused(f"ZERO_{name}={value}", [f"ZERO_{name}={value}", words],
                env={f"ZERO_{name}": value})
    jobs = [as_rank(r, 2, "times", MICRO,
                    {"ZERO_TIMEOUT": str(20 + r), "ZERO_HEARTBEAT": str(3 * r)})
            for r in range(2)]
    said = [job.end(60).err for job in jobs]
    ok(all(job.status == 0 for job in jobs) and not said[1] and
       "ZERO_TIMEOUT is 20 s on rank 0 and 21 s on rank 1" in said[0] and
       "ZERO_HEARTBEAT is 0 s on rank 0 and 3 s on rank 1" in said[0],
       "ranks whose times differ work, and rank 0 warns", *[job.story() for job in jobs])


def networks():
    for name, env, words in (
            ("ofi", {"ZERO_OFI_PROVIDER": "pigeon"},
             ["ZERO_OFI_PROVIDER=pigeon", "there are .*tcp"]),
            ("ofi", {"ZERO_OFI_DEVICE": "none7", "ZERO_OFI_PROVIDER": "tcp"},
             ["ZERO_OFI_DEVICE=none7; there are"]),
            ("ucx", {"UCX_NET_DEVICES": "none7", "UCX_TLS": "tcp"}, ["UCX", "none7"]),
            ("ucx", {"UCX_TLS": "pigeon"}, ["UCX", "pigeon"])):
        what = " ".join(f"{k}={v}" for k, v in env.items())
        if os.path.exists(os.path.join(support.BUILD, ".libs", f"zero-comm-{name}.so")):
            refused(what, words, env={"ZERO_COMM": name, **env})
        else:
            skip(what, "the plugin was not built: its library is missing")


# ---- Memory --------------------------------------------------------------------------------------

TABLE = [r"the plan needs [0-9.]+ .iB on each of 2 ranks here", r"momentum +device +[0-9.]+ .iB",
         r"what would make it fit: "]


def memory():
    words = r"ZERO_MEMORY_LIMIT \(device\) has 1.0 MiB"
    job = refused("a limit that is too small", TABLE + [words],
                  env={"ZERO_MEMORY_LIMIT": "device:1M"})
    ok(job.err.count("what would make it fit: ") == 1 and
       re.search(rf"^\[1\] .*{words} for each: rank 0 says who needs what$", job.err, re.M),
       "and the table is printed once for the ranks of a host", job.story())
    refused("a limit that is none", ["ZERO_MEMORY_LIMIT=much", "device:BYTES"],
            env={"ZERO_MEMORY_LIMIT": "much"})
    refused("a model that is too large for the machine",
            TABLE + ["the machine has|control group .* has"],
            ["--preset", "1.5B", "--batch", 64, "--seq", 1024, "--stage", 0],
            seconds=10)  # each remedy that is tried is a plan of a large model


def small_group():
    """The nearer the limit, the more can go wrong: a job either trains or is refused."""
    what = "in a small control group a job trains or is refused, and is never killed"
    group = support.MemoryGroup()
    if not group.folder:
        skip(what, "no control group for memory that may be changed")
        return
    seen, bad = {}, []
    for mib in (72, 96, 100, 104, 108, 112, 128, 256):
        group.limit(mib << 20)
        job = Job([GPT2, *MICRO, "--preset", "tiny", "--batch", 2, "--seq", 128], 2,
                  preexec_fn=group.enter).end(120)
        refusal = job.status == 1 and "control group " + group.folder in job.err and \
            all(re.search(w, job.err) for w in TABLE)
        seen[mib] = "refused" if refusal else "trains" if job.status == 0 else "?"
        if seen[mib] == "?" or job.left_behind():
            bad.append(f"{mib} MiB:\n{job.story()}")
    group.end()
    ok(not bad and set(seen.values()) == {"refused", "trains"}, what, seen, *bad)


# ---- Ctrl-C --------------------------------------------------------------------------------------

class Terminal:
    """A job in the foreground of a terminal of its own."""

    def __init__(self, options, ranks):
        self.master, self.slave = pty.openpty()
        self.before = termios.tcgetattr(self.slave)

        def own_terminal():
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            for number in (signal.SIGINT, signal.SIGQUIT):
                signal.signal(number, signal.SIG_DFL)
        self.job = Job([GPT2, *options], ranks, stdin=self.slave, stdout=self.slave,
                       stderr=self.slave, start_new_session=True, preexec_fn=own_terminal)
        self.shown = b""
        os.set_blocking(self.master, False)

    def read(self):
        try:
            while part := os.read(self.master, 65536):
                self.shown += part
        except OSError:
            pass
        return self.shown.decode(errors="replace")

    def wait(self, pattern, seconds=60):
        until = time.monotonic() + seconds
        while not re.search(pattern, self.read()) and time.monotonic() < until and \
                self.job.process.poll() is None:
            time.sleep(0.01)

    def interrupt(self, limit):
        """Ctrl-C; the status as a shell sees it, seconds to the end, what else is wrong."""
        os.write(self.master, b"\003")
        start = time.monotonic()
        while self.job.process.poll() is None and time.monotonic() < start + 30:
            self.read()
            time.sleep(0.01)
        seconds = time.monotonic() - start
        status = self.job.end(1).process.returncode
        status = 128 - status if status < 0 else status
        wrong = [f"status {status}"] if status != 130 else []
        if seconds > limit:
            wrong.append(f"{seconds:.1f} s to the end")
        if left := self.job.left_behind():
            wrong.append(f"processes {left} are left")
        if termios.tcgetattr(self.slave) != self.before:
            wrong.append("the terminal is not as it was")
        shown = self.read()
        if re.search(r"rank \d+ .*(failed|killed)|error|Error", shown):
            wrong.append("it speaks of an error")
        if shown.rfind("\x1b[?25l") > shown.rfind("\x1b[?25h"):
            wrong.append("the cursor is hidden")
        if not re.search(r"(^|\n)(\^C)?(\x1b\[[?0-9]*[a-zA-Z])*$", shown):
            wrong.append("the cursor is left in a line")
        os.close(self.slave)
        os.close(self.master)
        return wrong + ([repr(shown[-800:])] if wrong else [])


def interrupted(what, ranks, options, pattern, least, most, times, rng, limit=10):
    bad = []
    for _ in range(times):
        terminal = Terminal(options, ranks)
        if pattern:
            terminal.wait(pattern)
        delay = rng.uniform(least, most)
        time.sleep(delay)
        if wrong := terminal.interrupt(limit):
            bad += [f"after {delay:.3f} s:"] + wrong
    ok(not bad, f"Ctrl-C {what}, {ranks or 'without `zero run`, 1'} rank{'s' * (ranks > 1)}, "
       f"{times} times", *bad)


def ctrl_c(seed):
    rng = random.Random(seed)
    big = support.path("big.txt")
    with open(TEXT, encoding="utf-8") as file:
        text = file.read()
    with open(big, "w", encoding="utf-8") as file:
        file.write(text * 40)
    evaluates = ["--preset", "micro", "--data", big, "--val", 0.5, "--eval-every", 1,
                 "--eval-windows", 0, "--steps", 100000, "--batch", 1]
    samples = ["--preset", "micro", "--data", TEXT, "--steps", 2, "--val", 0, "--batch", 1,
               "--sample", 1000000]
    large = ["--preset", "124M", "--data", big, "--seq", 64, "--steps", 1000, "--stage", 3]
    # Not even in the middle of it is a rank forgotten, and killed 5 seconds later.
    interrupted("while ranks are started", 3, FOR_EVER, None, 0, 0.006, 12, rng, 4)
    for ranks, times in ((2, 6), (3, 2), (0, 3)):
        interrupted("during the start", ranks, FOR_EVER, None, 0, 0.25, times, rng)
        interrupted("in training", ranks, FOR_EVER, r"step \d", 0, 0.3, times, rng)
    for ranks in (2, 0):
        interrupted("in an evaluation", ranks, evaluates, r"step \d", 0, 0.3, 3, rng)
        interrupted("while text is written", ranks, samples, r"step 2/2", 0.1, 0.4, 3, rng)
    interrupted("while memory is filled", 2, large, None, 0.1, 0.8, 3, rng)


def main():
    seed = int(os.environ.get("TEST_SEED", "1"))
    options_and_files()
    variables()
    too_many()
    twice()
    versions()
    several_hosts()
    numbers_of_time()
    networks()
    memory()
    small_group()
    ctrl_c(seed)
    support.done()


main()
