# SPDX-License-Identifier: Apache-2.0
"""No false alarm: eight ranks train while other programs take the cores, minutes long, over every
transport; then floods of strangers at the port of rank 0. Not a part of `make check`:

    make check-soak                   ten minutes each, 10,000 and 100,000 strangers
    make check-soak SOAK='0.5 10000'  minutes, numbers of strangers
"""
import os
import signal
import subprocess
import sys
import time

import support
from support import GPT2, TEXT, Job, ok

RANKS = 8
FLOOD = os.path.join(support.BUILD, "tests", "rank", "job_flood")


def burners():
    """Twice as many as there are cores."""
    return [subprocess.Popen([sys.executable, "-c", "while True: pass"])
            for _ in range(2 * len(os.sched_getaffinity(0)))]


def trains_on(name, minutes):
    """A job that ends before it is stopped has seen an error where there is none."""
    job = Job([GPT2, "--preset", "micro", "--data", TEXT, "--batch", 1, "--val", 0, "--steps",
               100000000], RANKS, {"ZERO_COMM": name, "ZERO_THREADS": "1"})
    until = time.monotonic() + 60 * minutes
    while time.monotonic() < until and job.process.poll() is None:
        time.sleep(0.2)
    early = job.process.poll() is not None
    steps = job.text("out").count("step ")
    if not early:
        job.process.send_signal(signal.SIGINT)
    job.end(60)
    ok(not early and steps > 0 and not job.left_behind(),
       f"{RANKS} ranks over {name} train for {minutes:g} minutes under load, {steps} lines of steps",
       job.story())


def flooded(strangers):
    start = time.monotonic()
    run = subprocess.run([FLOOD, str(strangers)], env=support.environment(), check=False,
                         capture_output=True, text=True, timeout=900)
    for line in run.stdout.splitlines():
        if line.startswith("#"):
            support.diag(line[2:])
    ok(run.returncode == 0, f"{strangers} strangers in {time.monotonic() - start:.0f} s", run.stdout,
       run.stderr)


def main():
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 10
    load = burners()
    try:
        for name in ("shm", "ucx", "ofi"):
            if os.path.exists(os.path.join(support.BUILD, ".libs", f"zero-comm-{name}.so")):
                trains_on(name, minutes)
            else:
                support.skip(name, "the plugin was not built: its library is missing")
    finally:
        for process in load:
            process.kill()
            process.wait()
    for strangers in map(int, sys.argv[2:] or ("10000", "100000")):
        flooded(strangers)
    support.done()


main()
