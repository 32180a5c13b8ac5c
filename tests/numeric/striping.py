# SPDX-License-Identifier: Apache-2.0
"""Striping over two disks: loop devices with file systems of their own, which only root may make.
Data lies on both and comes back as it was written, and only what is on one disk is warned about:
two folders of it, or two of its partitions.

    make bench-striping    two disks of 100 MB/s each, in a control group that says so: moved is
                           1.8 times what one of them moves, or more, by the store alone and by
                           training steps of GPT-2 124M with its optimizer there
"""
import argparse
import json
import os
import re
import stat
import statistics
import subprocess
import time

import support
from support import GPT2, TEXT, Job, diag, ok, skip

MIB = 1 << 20
GROUPS = "/sys/fs/cgroup"
SPEED = 100 * 10 ** 6  # bytes a second of a disk, each way


def done(*command):
    """A program that is not installed fails as a shell would say it."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 127, "", f"{command[0]} is not installed")


class Disk:
    """An image as a loop device; file systems on it, or on partitions of it. `why`: it is not
    there. What open() has made when it fails is gone after end(), too."""

    def __init__(self, name, size, partitions=0):
        self.mounts, self.device, self.why, self.number = [], None, None, None
        self.name, self.size, self.parts, self.told = name, size, partitions, []
        self.image = support.path(f"{name}.img")

    def open(self):
        with open(self.image, "wb") as f:
            f.truncate(self.size)
        if os.geteuid():
            self.why = "only root may make a loop device"
            return
        made = done("losetup", "-f", "--show", self.image)
        if made.returncode:
            self.why = f"no loop device: {made.stderr.strip()}"
            return
        self.device = made.stdout.strip()
        self.number = self.number_of(os.path.basename(self.device))
        for i in range(max(self.parts, 1)):
            self.mount(f"{self.name}{i}", self.partition(i, self.size // self.parts // 512)
                       if self.parts else self.device)

    @staticmethod
    def number_of(name):
        with open(f"/sys/class/block/{name}/dev", encoding="ascii") as f:
            return f.read().strip()

    def partition(self, i, sectors):
        """Told to the kernel, which may know no tables; with a node where nothing makes them."""
        name = f"{os.path.basename(self.device)}p{i + 1}"
        if done("addpart", self.device, str(i + 1), str(i * sectors), str(sectors)).returncode:
            return None
        self.told.append(str(i + 1))
        major, minor = self.number_of(name).split(":")
        os.mknod(support.path(name), 0o600 | stat.S_IFBLK, os.makedev(int(major), int(minor)))
        return support.path(name)

    def mount(self, name, node):
        folder = support.path(name)
        os.mkdir(folder)
        if not node:
            self.why = "this kernel has no partitions of a loop device"
            return
        # Its tables are written now: later, the kernel would write them beside what is counted.
        whole = "lazy_itable_init=0,lazy_journal_init=0"
        for command in (("mkfs.ext4", "-q", "-F", "-E", whole, node),
                        ("mount", "-t", "ext4", node, folder)):
            made = done(*command)
            if made.returncode:
                self.why = f"{command[0]}: {made.stderr.strip()}"
                return
        self.mounts.append(folder)

    def written(self):
        """Bytes, since it is there."""
        with open(f"/sys/dev/block/{self.number}/stat", encoding="ascii") as f:
            return 512 * int(f.read().split()[6])

    def end(self):
        for folder in self.mounts:
            for _ in range(50):  # what a job had open there may be closed late
                if not done("umount", folder).returncode:
                    break
                time.sleep(0.1)
            else:
                done("umount", "-l", folder)
        for i in self.told:
            done("delpart", self.device, i)
        if self.device:
            done("losetup", "-d", self.device)
        self.mounts, self.told, self.device = [], [], None


def train(offload, paths):
    job = Job([GPT2, "--preset", "micro", "--data", TEXT, "--batch", 2, "--steps", 3,
               "--eval-windows", 1], 1,
              {"ZERO_OFFLOAD": offload, "ZERO_TILE_BYTES": "64K",
               **({"ZERO_NVME_PATH": ":".join(paths)} if paths else {})})
    return job.end(60)


def weights(job):
    found = re.search(r"^Weights ([0-9a-f]{16})", job.out, re.M)
    return found.group(1) if job.status == 0 and found else None


def is_told(job):
    return "lie on one disk" in job.err


def one_disk(plain, paths, what):
    job = train("optimizer:nvme", paths)
    ok(weights(job) == plain and job.err.count("lie on one disk") == 1, f"{what}: one warning",
       job.story())


def two_disks(a, b):
    plain = weights(train("", []))
    before = [d.written() for d in (a, b)]
    job = train("optimizer:nvme,gradients:nvme,parameters:nvme", [a.mounts[0], b.mounts[0]])
    os.sync()
    moved = [d.written() - n for d, n in zip((a, b), before)]
    ok(plain and weights(job) == plain and "zero: " not in job.err,
       "two disks: the same bits, no warning", job.story())
    ok(min(moved) > MIB and max(moved) < 2 * min(moved), "both disks have been written to", moved)
    job = Job([os.path.join(support.BUILD, "zero"), "check", "offload", "--seed", 7, "nvme"], 0,
              {"ZERO_NVME_PATH": f"{a.mounts[0]}:{b.mounts[0]}"}).end(120)
    cases = re.search(r"^1\.\.(\d+)$", job.out, re.M)
    ok(job.status == 0 and cases and f"\nok {cases.group(1)} " in job.out
       and "not ok" not in job.out and not is_told(job),
       "what is striped comes back as it was written", job.story())
    folders = [os.path.join(a.mounts[0], name) for name in ("x", "y")]
    for folder in folders:
        os.mkdir(folder)
    one_disk(plain, folders, "two folders of one of them")
    return plain


def check():
    a, b = Disk("a", 128 * MIB), Disk("b", 128 * MIB)
    parts = Disk("parts", 256 * MIB, 2)
    try:
        for disk in (a, b, parts):
            disk.open()
        if a.why or b.why:
            support.skip_all(a.why or b.why)
        plain = two_disks(a, b)
        if parts.why:
            skip("two partitions of one disk", parts.why)
        else:
            one_disk(plain, parts.mounts, "two partitions of one disk")
    finally:
        for disk in (a, b, parts):
            disk.end()


# ---- How fast ------------------------------------------------------------------------------------

class Throttle:
    """A control group that gives its processes so many bytes a second of each disk."""

    def __init__(self, disks):
        old = os.path.isdir(f"{GROUPS}/blkio")
        self.folder = f"{GROUPS}{'/blkio' if old else ''}/zero-striping-{os.getpid()}"
        self.why = None
        limits = [(f"blkio.throttle.{way}_bps_device", str(SPEED)) for way in ("read", "write")] \
            if old else [("io.max", f"rbps={SPEED} wbps={SPEED}")]
        try:
            os.mkdir(self.folder)
            for name, limit in limits:
                for disk in disks:
                    with open(f"{self.folder}/{name}", "w", encoding="ascii") as f:
                        f.write(f"{disk.number} {limit}")
        except OSError as error:
            self.why = f"no control group for disks: {error}"

    def enter(self):
        with open(f"{self.folder}/cgroup.procs", "w", encoding="ascii") as f:
            f.write(str(os.getpid()))

    def end(self):
        for _ in range(50):
            try:
                os.rmdir(self.folder)
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.1)


def rates(group, paths):
    """Bytes a second of reading and writing, of the store alone, checked."""
    job = Job([os.path.join(support.BUILD, "zero"), "bench", "offload", "--no-fio", "--beside", "",
               "--bytes", "4M", "--depth", 8, "--size", "256M", "--seconds", 3, "--reps", 3,
               "--op", "read,write", "--json"], 0,
              {"ZERO_NVME_PATH": ":".join(paths)}, preexec_fn=group.enter).end(300)
    if job.status != 0:
        support.bail(job.story())
    return {r["op"]: r for r in map(json.loads, job.out.splitlines())}


def steps(group, paths):
    """Medians of training steps that the disk holds up: seconds, of them the update's, bytes."""
    log = support.path("steps.json")
    if os.path.exists(log):
        os.unlink(log)
    job = Job([GPT2, "--preset", "124M", "--seq", 256, "--batch", 1, "--steps", 6, "--val", 0,
               "--data", TEXT, "--json", log], 1,
              {"ZERO_OFFLOAD": "optimizer:nvme", "ZERO_NVME_PATH": ":".join(paths),
               "XDG_CACHE_HOME": support.path(f"cache{len(paths)}")},
              preexec_fn=group.enter).end(400)
    if job.status != 0 or "zero: " in job.err:
        support.bail(job.story())
    took = [r for r in support.objects(log) if r["type"] == "step"][2:]
    found = {key: statistics.median(s[key] for s in took)
             for key in ("time_s", "optimizer_s", "disk_read_bytes", "disk_written_bytes")}
    return {**found, "weights": weights(job)}


def training(group, a, b):
    one, two = steps(group, a.mounts), steps(group, a.mounts + b.mounts)
    for x, what in ((one, "one disk"), (two, "two")):
        diag(f"124M, optimizer on {what}: a step {x['time_s']:.2f} s, of it update "
             f"{x['optimizer_s']:.2f}; {x['disk_read_bytes'] / 1e9:.3f} GB read, "
             f"{x['disk_written_bytes'] / 1e9:.3f} written")
    for key, what in (("time_s", "a training step"), ("optimizer_s", "its update")):
        ratio = one[key] / two[key]
        ok(ratio >= 1.8, f"{what}: two disks are {ratio:.2f} times as fast as one")
    ok(one["weights"] and one["weights"] == two["weights"], "the same bits on one disk and on two",
       one, two)


def measure():
    a, b = Disk("a", 2048 * MIB), Disk("b", 2048 * MIB)
    group = None
    try:
        for disk in (a, b):
            disk.open()
        if a.why or b.why:
            support.skip_all(a.why or b.why)
        group = Throttle([a, b])
        if group.why:
            support.skip_all(group.why)
        one, two = rates(group, a.mounts), rates(group, a.mounts + b.mounts)
        for op in ("read", "write"):
            x, y = (1e9 * r[op]["bandwidth_GBps"] for r in (one, two))
            diag(f"{op}: one disk {x / 1e6:.1f} MB/s, two {y / 1e6:.1f}")
            ok(y >= 1.8 * x, f"{op}: two disks are {y / x:.2f} times as fast as one")
        training(group, a, b)
    finally:
        if group:
            group.end()
        for disk in (a, b):
            disk.end()


p = argparse.ArgumentParser(description=__doc__,
                            formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("--speed", action="store_true", help="measure")
if p.parse_args().speed:
    measure()
else:
    check()
support.done()
