# SPDX-License-Identifier: Apache-2.0
"""Training steps with optimizer states elsewhere: the disk's part of them beside fio, in turn.

A round runs fio (as many jobs as ranks, reads and writes mixed, blocks of a tile, as many under way
as the plugin has, the bytes of an update after as long a pause as a step's passes take: a disk that
has rested is faster) before and after zero-gpt2 with its states on the disk, and zero-gpt2 with
them on the device and in the host's memory. fio's buffers have huge pages, as the plugin's have,
where the system gives them to who asks: its C library (glibc from 2.35 on) does. Printed are
medians of the rounds, and of ratios within a round, with the bound of each:

    disk      bytes of an update, both ways, in the time from its first request to the end of its
              last one (from --ops of rank 0); in percent of fio's: at least 90
    update    that time to the longer one of its bytes at fio's speed and its own kernels: at most
              1.10
    host      a step with states in the host's memory to one on the device: at most 1.05
    forecast  what zero-gpt2 foretold of a step to the five that followed: within 20 percent

There are more rounds, up to --most, until the rounds next to the median, a quarter of them on
either side, are less than 10 % apart for every ratio. A bound is judged by the median. The exit
status is 1 where a bound is missed, 2 where the rounds did not come together, and 3 where nothing
can be measured: zero-gpt2 fails, the kernel has seen less than 95 % of the bytes that the tier says
it moved, or the tier goes through the page cache.

Run in the build folder: make bench-offload, or

    python3 bench/offload.py [--preset 124M] [--ranks 2] [--stage 1] [--rounds 5] [--folder DIR]
"""
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import gpt2_job

MIB = 1 << 20


def arguments():
    p = gpt2_job.options(__doc__)
    p.add_argument("--most", type=int, default=15, help="rounds, on a disk that others use")
    p.add_argument("--bursts", type=int, default=3, help="of fio, twice in each round")
    p.add_argument("--tile", default="2M", help="ZERO_TILE_BYTES, and fio's blocks")
    p.add_argument("--depth", type=int, default=16, help="ZERO_NVME_DEPTH, and fio's")
    return p.parse_args()


def give_up(why):
    print(f"bench/offload.py: {why}", file=sys.stderr)
    sys.exit(3)


def fio_files(o):
    """Files without names, written, since what never was is not read from a disk."""
    piece, fds = os.urandom(4 * MIB), []
    for _ in range(o.ranks):
        fd = os.open(o.folder, os.O_TMPFILE | os.O_RDWR, 0o600)
        for at in range(0, o.fio_bytes, len(piece)):
            os.pwrite(fd, piece, at)
        os.fsync(fd)
        fds.append(fd)
    return fds


HUGE = {**os.environ, "GLIBC_TUNABLES": ":".join(  # fio's C library asks for them
    [*filter(None, [os.environ.get("GLIBC_TUNABLES")]), "glibc.malloc.hugetlb=1"])}


def huge_bytes(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("AnonHugePages"))


def fio(o, fds):
    """Bytes a second, both ways together."""
    command = ["fio", "--output-format=json", "--ioengine=io_uring", "--direct=1", "--thread",
               "--rw=rw", "--rwmixread=50", f"--bs={o.tile}", f"--iodepth={o.depth}",
               f"--size={o.fio_bytes}", f"--io_size={2 * o.fio_bytes}", "--fallocate=none",
               "--invalidate=0", "--randrepeat=0", "--norandommap", "--scramble_buffers=0",
               "--gtod_reduce=1", "--fixedbufs", "--registerfiles", "--group_reporting"]
    for i, fd in enumerate(fds):
        command += [f"--name=rank{i}", f"--filename=/proc/self/fd/{fd}"]
    blocks = o.depth * o.tile_bytes * len(fds)
    rates = []
    for _ in range(o.bursts):
        time.sleep(o.pause)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, pass_fds=fds,
                              env=HUGE) as run:
            most = 0
            while most < blocks * 7 / 8 and run.poll() is None:
                with contextlib.suppress(OSError):
                    most = max(most, huge_bytes(run.pid))
                time.sleep(0.02)
            out = run.stdout.read()
        if run.returncode:
            give_up(f"fio has failed, with status {run.returncode}")
        if most < blocks * 7 / 8:
            give_up(f"fio has {most} bytes of its {blocks} in huge pages, for which the job asks, "
                    "too")
        job = json.loads(out[out.index("{"):])["jobs"][0]
        rates.append(job["read"]["bw_bytes"] + job["write"]["bw_bytes"])
    return statistics.median(rates)


def disk_s(ops, step):
    """From the start of the first request of a step's update to the end of its last. What it writes
    last ends beside the step that follows, and has that one's number, like what begins there."""
    first = {s: min(op["start_ns"] for op in ops if op["kind"] == "fetch" and op["step"] == s)
             for s in (step, step + 1)}
    mine = [op for op in ops if op["kind"] in ("fetch", "writeback") and
            first[step] <= op["start_ns"] < first[step + 1]]
    return (max(op["end_ns"] for op in mine) - first[step]) / 1e9


def train(o, offload):
    """Medians of the steps: whole, update; its kernels; bytes of a rank's disk in an update."""
    # What was measured on other days says nothing about this one.
    env = {**os.environ, "ZERO_OFFLOAD": offload, "ZERO_TILE_BYTES": o.tile,
           "XDG_CACHE_HOME": o.cache}
    for name in ("ZERO_NVME_PATH", "ZERO_NVME_DEPTH"):
        env.pop(name, None)
    if "nvme" in offload:
        env |= {"ZERO_NVME_PATH": o.folder, "ZERO_NVME_DEPTH": str(o.depth)}
    done, records, times = gpt2_job.train(o, env)
    if done.returncode:
        give_up(f"zero-gpt2 with ZERO_OFFLOAD={offload} has failed:\n{done.stderr}")
    steps = [r for r in records if r["type"] == "step"][2:]
    found = {"step": statistics.median(s["time_s"] for s in steps)}
    if "nvme" not in offload:
        return found
    last = {r["type"]: r for r in records}
    if "forecast" not in last:
        give_up(f"zero-gpt2 has foretold no step: --preset {o.preset} is too small for that")
    forecast = last["forecast"]
    if why := gpt2_job.no_disk(o, done, records):
        give_up(why)
    return {**found, "update": statistics.median(disk_s(times, s["step"]) for s in steps[:-1]),
            "kernels": forecast["update_s"], "forecast": forecast["step_s"],
            "bytes": steps[-1]["disk_read_bytes"] + steps[-1]["disk_written_bytes"]}


BOUNDS = (("of_fio", "disk, of fio's bandwidth", lambda x: x >= 0.90, ">= 0.90"),
          ("over", "update, to the longer of disk and kernels", lambda x: x <= 1.10, "<= 1.10"),
          ("cpu_over", "step in the host's memory, to one on the device", lambda x: x <= 1.05,
           "<= 1.05"),
          ("foretold", "forecast, to the steps after it", lambda x: abs(x - 1) <= 0.20,
           "0.80 to 1.20"))


def measure(o, fds):
    """One round."""
    here, cpu = train(o, ""), train(o, "optimizer:cpu")
    before = fio(o, fds)
    disk = train(o, "optimizer:nvme")
    rate = (before + fio(o, fds)) / 2
    moved = disk["bytes"] * o.ranks
    return {"fio": rate, "disk": moved / disk["update"], "of_fio": moved / disk["update"] / rate,
            "update": disk["update"], "kernels": disk["kernels"], "disk_s": moved / rate,
            "over": disk["update"] / max(moved / rate, disk["kernels"]),
            "here": here["step"], "cpu": cpu["step"], "cpu_over": cpu["step"] / here["step"],
            "nvme": disk["step"], "foretold": disk["forecast"] / disk["step"],
            "bytes": disk["bytes"]}


def say(number, r):
    print(f"  round {number}: fio {r['fio'] / 1e9:.3f} GB/s, disk {r['disk'] / 1e9:.3f} GB/s "
          f"({100 * r['of_fio']:.0f} %); update {r['update']:.3f} s, at fio's speed "
          f"{r['disk_s']:.3f}, kernels {r['kernels']:.3f} ({r['over']:.3f}x); step on the "
          f"device {r['here']:.3f} s, host {r['cpu']:.3f} ({r['cpu_over']:.3f}x), disk "
          f"{r['nvme']:.3f} (forecast {r['foretold']:.2f}x)", flush=True)


def middle(rounds, key):
    """The half of the rounds around the median: its ends."""
    values = sorted(r[key] for r in rounds)
    cut = len(values) // 4
    return values[cut], values[-1 - cut]


def settled(rounds):
    return all(high - low < 0.10 * statistics.median(r[key] for r in rounds)
               for key, *_ in BOUNDS for low, high in [middle(rounds, key)])


def main():
    o = arguments()
    if not shutil.which("fio"):
        give_up("fio is not installed")
    cache = tempfile.TemporaryDirectory()
    o.cache = cache.name
    judge(measure_all(o))


def measure_all(o):
    first = train(o, "optimizer:nvme")
    o.tile_bytes = tile = int(o.tile[:-1]) << {"K": 10, "M": 20}[o.tile[-1]]
    o.fio_bytes = -(-first["bytes"] // 2 // tile) * tile  # an update reads and writes them
    o.pause = max(first["step"] - first["update"], 0)
    fds, rounds = fio_files(o), []
    print(f"GPT-2 {o.preset}, stage {o.stage}, {o.ranks} ranks, {o.dtype}, sequence {o.seq}, "
          f"tiles of {o.tile}, {o.folder}; fio and the job ask for huge pages; fio moves "
          f"{2 * o.fio_bytes * o.ranks / 1e6:.0f} MB after {o.pause:.2f} s", flush=True)
    while len(rounds) < o.rounds or (len(rounds) < o.most and not settled(rounds)):
        rounds.append(measure(o, fds))
        say(len(rounds), rounds[-1])
    return rounds


def judge(rounds):
    """Prints the medians; the exit status."""
    m = {k: statistics.median(r[k] for r in rounds) for k in rounds[0]}
    print(f"medians of {len(rounds)}{'' if settled(rounds) else ', which are apart'}; fio "
          f"{m['fio'] / 1e9:.3f} GB/s, {m['bytes'] / 1e6:.1f} MB of a rank's disk in a step:")
    missed = 0
    for key, what, good, text in BOUNDS:
        missed += not good(m[key])
        low, high = middle(rounds, key)
        print(f"  {what:<50} {m[key]:.3f}  ({low:.3f} to {high:.3f})  {text}"
              f"{'' if good(m[key]) else '  MISSED'}")
    if not settled(rounds):
        print(f"  The rounds are apart: on a disk that others use, {len(rounds)} of them prove "
              "nothing")
    sys.exit(1 if missed else 0 if settled(rounds) else 2)


if __name__ == "__main__":
    main()
