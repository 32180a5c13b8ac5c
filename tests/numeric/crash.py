# SPDX-License-Identifier: Apache-2.0
"""When a rank is killed or stopped, the others write their last operations to ZERO_CRASH_DIR, and
`zero report crash` names it, whichever transport moves the data. Damaged reports are refused."""
import json
import os
import re
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


def report(folder):
    run = subprocess.run([ZERO, "report", "crash", folder], capture_output=True, text=True,
                         env=support.environment(), check=False)
    return run.returncode, run.stdout + run.stderr


def crash(comm, number, victim):
    """The folder of the reports of a job whose rank `victim` got the signal in the middle of work."""
    folder = support.path(f"crash-{comm}-{number}-{victim}")
    os.mkdir(folder)
    job = Job([GPT2, *FOR_EVER], RANKS, {"ZERO_COMM": comm, "ZERO_CRASH_DIR": folder})
    until = time.monotonic() + 60
    while job.text("out").count("step ") < 2 and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.2)
    for pid in job.ranks():
        if rank_of(pid) == victim:
            os.kill(pid, number)
    until = time.monotonic() + 20
    while len(os.listdir(folder)) < RANKS - 1 and time.monotonic() < until:
        time.sleep(0.05)
    job.end(30)
    return folder, job


def check(comm, number, victim):
    folder, job = crash(comm, number, victim)
    what = f"{comm}, rank {victim} gets {signal.Signals(number).name}"
    files = sorted(os.listdir(folder))
    status, text = report(folder)
    others = [f"zero-crash-{r:04}.jsonl" for r in range(RANKS) if r != victim]
    ok(all(f in files for f in others) and status == 0 and
       text.rstrip().endswith(f"culprit: rank {victim}"), f"{what}: the reports name it",
       f"files {files}, status {status}", text, job.story())
    lines = [json.loads(line) for line in open(os.path.join(folder, others[0]), encoding="utf-8")]
    ops = [o for o in lines if o["type"] == "op" and o["state"] == "done"]
    ok(lines[0]["type"] == "crash" and 10 < len(ops) <= 1024 and
       os.stat(os.path.join(folder, others[0])).st_mode & 0o777 == 0o600,
       f"{what}: the last operations, for this user only", f"{len(ops)} operations")
    return os.path.join(folder, others[0])


def damaged(good):
    with open(good, encoding="utf-8") as file:
        content = file.read()
    for what, text in (("empty", ""), ("cut", content[: content.index("\n", len(content) // 3) - 9]), ("garbage", "\0\1{[" * 999),
                       ("a huge rank", content.replace('"rank": ', '"rank": 99999', 1)),
                       ("no object", "[1, 2]\n")):
        folder = support.path(f"damaged-{what.replace(' ', '-')}")
        os.mkdir(folder)
        with open(os.path.join(folder, "zero-crash-0000.jsonl"), "w", encoding="utf-8") as file:
            file.write(text)
        status, said = report(folder)
        ok(status == 1 and "zero report: " in said and "damaged" in said, f"a damaged report, {what}",
           f"status {status}", said)
    status, said = report(support.path("nowhere"))
    ok(status == 1 and "ZERO_CRASH_DIR" in said, "no reports: the variable is named", said)


last = None
for name in ("shm",) if os.environ.get("ZERO_TEST_SHORT") else ("shm", "ucx", "ofi"):
    if not os.path.exists(os.path.join(support.BUILD, ".libs", f"zero-comm-{name}.so")):
        skip(f"crashes over {name}", "the plugin was not built: its library is missing")
        continue
    last = check(name, signal.SIGKILL, 1)
    check(name, signal.SIGSTOP if name == "shm" else signal.SIGKILL, 2 if name == "shm" else 0)
damaged(last)
support.done()
