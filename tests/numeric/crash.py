# SPDX-License-Identifier: Apache-2.0
"""When a rank is killed or stopped, all others say who it was and write their last operations to
ZERO_CRASH_DIR before `zero run` ends them, also one that is slow to notice, and `zero report crash`
names it, whichever transport moves the data and whatever jobs used the folder before. So they do
when a rank is missing at the start. Damaged reports are refused."""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time

import support
from support import GPT2, TEXT, ZERO, Job, ok, skip

FOR_EVER = ["--preset", "micro", "--data", TEXT, "--batch", 2, "--steps", 1000000, "--val", 0]
RANKS = 3


def rank_of(pid):
    with open(f"/proc/{pid}/environ", "rb") as file:
        return int(re.search(rb"(?:^|\0)RANK=(\d+)", file.read())[1])


def report(folder, *how):
    run = subprocess.run([ZERO, "report", "crash", *how, folder], capture_output=True, text=True,
                         env=support.environment(), check=False)
    return run.returncode, run.stdout + run.stderr


def files_of(folder):
    """The files by number of the job, then by rank."""
    jobs = {}
    for name in os.listdir(folder):
        found = re.fullmatch(r"zero-crash-([0-9a-f]{16})-model-(\d{4})\.jsonl", name)
        jobs.setdefault(found[1], {})[int(found[2])] = os.path.join(folder, name)
    return jobs


def started(env):
    """A job in the middle of work, with more operations behind it than a report has, and its
    processes by rank."""
    job = Job([GPT2, *FOR_EVER], RANKS, env)
    until = time.monotonic() + 60
    while not re.search(r"step \d{3}", job.text("out")) and time.monotonic() < until:
        time.sleep(0.05)
    if time.monotonic() >= until:
        support.bail("in 60 s no hundred steps: " + job.text("err"))
    time.sleep(0.2)
    return job, {rank_of(pid): pid for pid in job.ranks()}


def crash(comm, number, victim, folder):
    """A job whose rank `victim` gets the signal in the middle of work."""
    before = len(os.listdir(folder))
    job, pids = started({"ZERO_COMM": comm, "ZERO_CRASH_DIR": folder})
    os.kill(pids[victim], number)
    until = time.monotonic() + 20
    while len(os.listdir(folder)) < before + RANKS - 1 and time.monotonic() < until:
        time.sleep(0.05)
    if number == signal.SIGSTOP:  # else `zero run` gives it time to end by itself
        time.sleep(1)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pids[victim], signal.SIGKILL)
    job.end(30)
    return job


def silent(job, victim):
    """The other ranks that have not said who failed."""
    return [r for r in range(RANKS) if r != victim and
            not re.search(rf"^\[{r}\] zero-gpt2: .*rank {victim}\b", job.err, re.MULTILINE)]


def check(comm, number, victim, folder):
    """One more job in the folder; its number, and a report."""
    old = files_of(folder)
    job = crash(comm, number, victim, folder)
    what = f"{comm}, rank {victim} gets {signal.Signals(number).name}"
    files = files_of(folder)
    new = [n for n in files if n not in old]
    others = [r for r in range(RANKS) if r != victim]
    status, text = report(folder)
    if not ok(len(new) == 1 and all(r in files[new[0]] for r in others) and status == 0 and
              text.rstrip().endswith(f"culprit: rank {victim}") and f"job {new[0]}" in text and
              (not victim or "; rank 0 waited in " in text),
              f"{what}: the reports name it, and what rank 0 waited in",
              f"files {files}, status {status}", text, job.story()):
        support.done()
    first = files[new[0]][others[0]]
    with open(first, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    ops = [o for o in lines if o["type"] == "op" and o["state"] == "done"]
    ok(lines[0]["type"] == "crash" and len(ops) == 1024 and
       os.stat(first).st_mode & 0o777 == 0o600,
       f"{what}: the last 1,024 operations, for this user only", f"{len(ops)} operations")
    ok(not silent(job, victim), f"{what}: every other rank says so", silent(job, victim),
       job.story())
    return new[0], first


def slow():
    """A rank that notices a second and a half later than the others has its time, too."""
    folder = support.path("slow")
    os.mkdir(folder)
    job, pids = started({"ZERO_COMM": "shm", "ZERO_CRASH_DIR": folder, "ZERO_HEARTBEAT": "60"})
    os.kill(pids[2], signal.SIGSTOP)
    os.kill(pids[1], signal.SIGKILL)
    time.sleep(1.5)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pids[2], signal.SIGCONT)
    job.end(30)
    ranks = [sorted(found) for found in files_of(folder).values()]
    ok(ranks == [[0, 2]] and not silent(job, 1) and job.status == 137,
       "a rank is killed, another one is slow to notice: all say so and leave reports",
       f"reports of {ranks}, silent: {silent(job, 1)}, status {job.status}", job.story())


def removed():
    """A folder that is gone meanwhile takes the report, not the reason."""
    folder = support.path("removed")
    os.mkdir(folder)
    job, pids = started({"ZERO_COMM": "shm", "ZERO_CRASH_DIR": folder})
    os.rmdir(folder)
    os.kill(pids[2], signal.SIGKILL)
    job.end(30)
    ok(not silent(job, 2) and "cannot write" in job.err,
       "the folder is removed, then a rank killed: all name it", silent(job, 2), job.story())


def repeated(folder, numbers):
    """A folder keeps the reports of all jobs; each can be looked at."""
    for number, victim in numbers:
        status, text = report(folder, "--job", number[:12])
        ok(status == 0 and text.rstrip().endswith(f"culprit: rank {victim}") and
           all(n in text for n, _ in numbers), f"the job of rank {victim} among {len(numbers)}",
           f"status {status}", text)
    status, said = report(folder, "--job", "xyz")
    ok(status == 1 and "xyz" in said, "a number that no job has", said)


def early():
    """Failures before the first step leave reports, too."""
    base = ["--preset", "micro", "--data", TEXT, "--batch", 2, "--steps", 1, "--val", 0]
    alone = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "ZERO_TIMEOUT": "1",
             "MASTER_PORT": str(20000 + os.getpid() % 10000), "LOCAL_WORLD_SIZE": "2"}
    for what, ranks, env, culprit, word in (
            ("rank 1 never comes", 0, {**alone, "RANK": "0"}, 1, "did not come"),
            ("rank 0 never comes", 0, {**alone, "RANK": "1"}, 0, "found no rank 0"),
            ("a transport that does not exist", 2, {"ZERO_COMM": "nothing"}, None, "nothing"),
            ("too little memory", 2, {"ZERO_MEMORY_LIMIT": "device:1000"}, None, "memory")):
        folder = support.path(f"early-{what.replace(' ', '-')}")
        os.mkdir(folder)
        job = Job([GPT2, *base], ranks, {**env, "ZERO_CRASH_DIR": folder})
        job.end(30)
        status, text = report(folder)
        ok(job.status != 0 and sum(map(len, files_of(folder).values())) == max(ranks, 1) and
           len(files_of(folder)) == 1 and word in text and
           (culprit is None or text.rstrip().endswith(f"culprit: rank {culprit}")),
           f"{what}: there are reports", os.listdir(folder), f"status {status}", text, job.story())
    # The second attempt with the same name is a job of its own, also where nobody has numbered it.
    folder = support.path("early-rank-0-never-comes")
    Job([GPT2, *base], 0, {**alone, "RANK": "1", "ZERO_CRASH_DIR": folder}).end(30)
    status, text = report(folder)
    ok(status == 0 and len(files_of(folder)) == 2 and "other jobs" in text and ", 1 report" in text,
       "two attempts to join are two jobs", os.listdir(folder), text)
    for folder in (support.path("not-there"), TEXT):
        job = Job([GPT2, *base], 2, {"ZERO_CRASH_DIR": folder})
        job.end(30)
        ok(job.status != 0 and f"ZERO_CRASH_DIR is {folder}" in job.text("err"),
           f"a folder that cannot be used is refused at the start: {os.path.basename(folder)}",
           job.story())
    job = Job([GPT2, *base], 0, {**alone, "RANK": "0", "ZERO_CRASH_DIR": support.path("not-there")})
    job.end(30)
    ok(job.status != 0 and "did not come" in job.err and "cannot write" in job.err,
       "a rank does not come, and the folder is not there: both are said", job.story())


def changed_below():
    """The plugin `fault` changes what a rank posts below the library: all reports have the same
    collectives, of which some ranks have more than others. Nobody is blamed for that."""
    for ranks in (2, 3):
        for how in ("size", "dtype", "order", "skip"):
            folder = support.path(f"below-{ranks}-{how}")
            os.mkdir(folder)
            fault = f"{how}:rank={ranks - 1}:kind=all_gather:n=9"
            job = Job([GPT2, *FOR_EVER, "--stage", 3], ranks,
                      {"ZERO_COMM": "fault", "ZERO_FAULT": fault, "ZERO_FAULT_COMM": "shm",
                       "ZERO_TIMEOUT": "5", "ZERO_CRASH_DIR": folder})
            job.end(60)
            status, text = report(folder)
            mismatch = "posted different collectives" in text
            ok(job.status != 0 and files_of(folder) and
               (not mismatch or (text.rstrip().endswith("culprit: the reports do not tell") and
                                 "no two reports have different collectives" in text)) and
               (mismatch or how in ("order", "skip")),
               f"{ranks} ranks, {how} below the library: nobody is blamed without a reason",
               f"status {status}", text, job.story())


def damaged(good):
    with open(good, encoding="utf-8") as file:
        content = file.read()
    for what, text in (("empty", ""),
                       ("cut", content[: content.index("\n", len(content) // 3) - 9]),
                       ("garbage", "\0\1{[" * 999),
                       ("a huge rank", content.replace('"rank": ', '"rank": 99999', 1)),
                       ("no object", "[1, 2]\n")):
        folder = support.path(f"damaged-{what.replace(' ', '-')}")
        os.mkdir(folder)
        with open(os.path.join(folder, "zero-crash-0000.jsonl"), "w", encoding="utf-8") as file:
            file.write(text)
        status, said = report(folder)
        ok(status == 1 and "zero report: " in said and "damaged" in said,
           f"a damaged report, {what}", f"status {status}", said)
    status, said = report(support.path("nowhere"))
    ok(status == 1 and "ZERO_CRASH_DIR" in said and "No such file or directory" in said,
       "no folder: why, and the variable is named", said)
    folder = support.path("[a-z]*")
    os.mkdir(folder)
    status, said = report(folder)
    ok(status == 1 and "there are no reports" in said and "ZERO_CRASH_DIR" in said,
       "no reports: the variable is named", said)
    shutil.copy(good, folder)
    status, said = report(folder)
    number = os.path.basename(good).split("-")[2]
    ok("zero report: " not in said and said.startswith(f"job {number},") and "1 report" in said,
       "a folder is a name, and no pattern", f"status {status}", said)


last = None
shared = support.path("shared")
os.mkdir(shared)
seen = []
for name in ("shm",) if support.SHORT else ("shm", "ucx", "ofi"):
    if not os.path.exists(os.path.join(support.BUILD, ".libs", f"zero-comm-{name}.so")):
        skip(f"crashes over {name}", "the plugin was not built: its library is missing")
        continue
    second = (signal.SIGSTOP, 2) if name == "shm" else (signal.SIGKILL, 0)
    for how, who in ((signal.SIGKILL, 1), second):
        found, last = check(name, how, who, shared)
        seen.append((found, who))
repeated(shared, seen)
slow()
removed()
early()
changed_below()
damaged(last)
support.done()
