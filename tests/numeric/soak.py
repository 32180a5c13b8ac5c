# SPDX-License-Identifier: Apache-2.0
"""No false alarm: eight ranks train while other programs take the cores, minutes long, over every
transport, and three hosts for a minute; then floods of strangers at the port of rank 0; then random
extents of a disk, each written and then read and compared (so many bytes are written). Not a part
of `make check`:

    make check-soak                      ten minutes each, 10,000 and 100,000 strangers, 100 GB
    make check-soak SOAK='0.5 10000 2G'  minutes, numbers of strangers, 10^9 bytes (0G: none)

The disk is that of ZERO_NVME_PATH, else of the folder for temporary files.
"""
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

import namespaces
import support
from support import GPT2, TEXT, Job, ok

RANKS = 8
CORES = ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))
SILENT_S = 30  # without a step: it hangs
FLOOD = os.path.join(support.BUILD, "tests", "rank", "job_flood")


def burners():
    """Twice as many as there are cores."""
    return [subprocess.Popen([sys.executable, "-c", "while True: pass"])
            for _ in range(2 * len(os.sched_getaffinity(0)))]


def lines_of(job, seconds):
    """How many steps it said within that time, the longest time without one, and
    whether it ended."""
    until = time.monotonic() + seconds
    steps, grown, longest = 0, time.monotonic(), 0
    while time.monotonic() < until and job.process.poll() is None:
        time.sleep(0.2)
        now = job.text("out").count("step ")
        if now > steps:
            steps, grown = now, time.monotonic()
        longest = max(longest, time.monotonic() - grown)
    return steps, longest, job.process.poll() is not None


def trains_on(name, minutes):
    """A job that ends before it is stopped has seen an error where there is none."""
    job = Job(["taskset", "-c", CORES, GPT2, "--preset", "micro", "--data", TEXT, "--batch", 1,
               "--val", 0, "--steps", 100000000], RANKS,
              {"ZERO_COMM": name, "ZERO_THREADS": "1", "ZERO_TIMEOUT": "60"})
    steps, longest, early = lines_of(job, 60 * minutes)
    if not early:
        job.process.send_signal(signal.SIGINT)
    job.end(60)
    ok(not early and steps > 0 and longest < SILENT_S and not job.left_behind(),
       f"{RANKS} ranks over {name} train on 2 cores for {minutes:g} minutes under load, {steps} "
       f"lines of steps, {longest:.0f} s at most without one", job.story())


def trains_between_hosts(name, minutes):
    """No link is cut there, however late an answer comes."""
    with namespaces.Hosts(3) as hosts:
        jobs = hosts.start(["--preset", "micro", "--data", TEXT, "--batch", 1, "--val", 0,
                            "--steps", 100000000], {"ZERO_COMM": name, "ZERO_THREADS": "1"})
        steps, longest, early = lines_of(jobs[0], 60 * minutes)
        early = early or any(job.process.poll() is not None for job in jobs)
        for job in jobs:
            job.kill()
        ended = [job.end(60) for job in jobs]
    ok(not early and steps > 0 and longest < SILENT_S,
       f"three hosts over {name} train for {minutes:g} minutes under load, {steps} lines of steps, "
       f"{longest:.0f} s at most without one", *namespaces.stories(ended))


def flooded(strangers):
    start = time.monotonic()
    run = subprocess.run([FLOOD, str(strangers)], env=support.environment(), check=False,
                         capture_output=True, text=True, timeout=900)
    for line in run.stdout.splitlines():
        if line.startswith("#"):
            support.diag(line[2:])
    ok(run.returncode == 0, f"{strangers} strangers in {time.monotonic() - start:.0f} s",
       run.stdout, run.stderr)


def disk_bytes():
    """What the children that have ended had written to disks, and read, as the kernel counts."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 512 * used.ru_oublock, 512 * used.ru_inblock


def extents(gigabytes):
    """Random sizes at random places, each byte compared; only what reached the disk counts."""
    if not os.path.exists(os.path.join(support.BUILD, ".libs", "zero-offload-nvme.so")):
        support.skip("random extents", "the plugin was not built: liburing is missing")
        return
    folder = os.environ.get("ZERO_NVME_PATH", support.FOLDER)
    second = tempfile.TemporaryDirectory(dir=folder.split(":")[0])
    ways = [support.environment({"ZERO_NVME_PATH": path, "ZERO_NVME_ENGINE": engine})
            for path in (folder, f"{folder}:{second.name}") for engine in ("auto", "threads")]
    start, before, seed, good = time.monotonic(), disk_bytes(), 1, True
    while good and disk_bytes()[0] - before[0] < 1e9 * gigabytes:
        env = ways[seed // 20 % len(ways)]
        run = subprocess.run([support.ZERO, "check", "offload", "--case", "random extents",
                              "--bytes", "512M", "--seed", str(seed), "--repeat", "20", "nvme"],
                             env=env, check=False, capture_output=True, text=True, timeout=900)
        good = run.returncode == 0 and len(re.findall("^ok", run.stdout, re.M)) == 20
        if good and disk_bytes()[0] == before[0]:
            support.skip("random extents", "nothing of the folder is on a disk")
            return
        seed += 20
    written, read = (now - then for now, then in zip(disk_bytes(), before))
    # Pages that are dirtied count as written, but what is read from them was not read from a disk.
    ok(good and read >= 0.95 * written, f"{written / 1e9:.1f} GB of random extents written, "
       f"{read / 1e9:.1f} read and compared, in {time.monotonic() - start:.0f} s, seeds 1 to "
       f"{seed - 1}",
       run.stdout, run.stderr)


def main():
    words = sys.argv[1:]
    gigabytes = [float(word[:-1]) for word in words if word.endswith("G")] or [100]
    words = [word for word in words if not word.endswith("G")]
    minutes = float(words[0]) if words else 10
    load = burners()
    try:
        for name in ("shm", "ucx", "ofi"):
            if os.path.exists(os.path.join(support.BUILD, ".libs", f"zero-comm-{name}.so")):
                trains_on(name, minutes)
            else:
                support.skip(name, "the plugin was not built: its library is missing")
        for name in ("ucx", "ofi"):
            if not os.path.exists(os.path.join(support.BUILD, ".libs", f"zero-comm-{name}.so")):
                continue
            if namespaces.can():
                trains_between_hosts(name, min(minutes, 1))
            else:
                support.skip(f"three hosts over {name}", namespaces.CANNOT)
    finally:
        for process in load:
            process.kill()
            process.wait()
    for strangers in map(int, words[1:] or ("10000", "100000")):
        flooded(strangers)
    if gigabytes[-1] > 0:
        extents(gigabytes[-1])
    support.done()


main()
