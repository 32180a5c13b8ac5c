# SPDX-License-Identifier: Apache-2.0
"""Optimizer states outside the device, as a user has them: what cannot be is refused in one
sentence, what a system forbids is done without, with one warning and the same bits, and nothing
stays on the disk when a job is killed."""
import ctypes
import functools
import errno
import mmap
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import time

import support
from support import GPT2, TEXT, Job, ok, skip

MICRO = ["--preset", "micro", "--data", TEXT, "--batch", 2, "--steps", 3, "--eval-windows", 1]
DISK = os.path.abspath(support.path("disk"))
os.mkdir(DISK)
NVME = {"ZERO_OFFLOAD": "optimizer:nvme", "ZERO_NVME_PATH": DISK, "ZERO_TILE_BYTES": "32K"}
# Of one rank, some of what fills tiers comes to lie on the disk, which is measured before.
FILLS = {**NVME, "ZERO_OFFLOAD": "optimizer:cpu+nvme", "ZERO_MEMORY_LIMIT": "cpu:900K"}
SHAKY = {**NVME, "ZERO_OFFLOAD": "optimizer:shaky,gradients:shaky,parameters:shaky",  # see shaky.h
         "ZERO_PLUGIN_PATH": ":".join(os.path.abspath(os.path.join(support.BUILD, f))
                                      for f in (".libs", "tests/plugin/.libs"))}


def run(env, options=(), ranks=2, **how):
    job = Job([GPT2, *MICRO, *options], ranks, env, **how)
    job.end(60)
    return job


def weights(job):
    found = re.search(r"^(?:\[0\] )?Weights ([0-9a-f]{16})", job.out, re.M)
    return found.group(1) if job.status == 0 and found else None


def warnings(job):
    return [line for line in job.err.splitlines() if "zero: " in line]


# ---- Bad input -----------------------------------------------------------------------------------

def refused(what, words, env, options=()):
    job = run(env, options)
    ok(job.status not in (0, None) and job.seconds < 20
       and all(re.search(w, job.err) for w in words),
       f"{what}: refused", f"want {words}", job.story())
    ok(not (left := support.left_in(DISK)), f"{what}: nothing stays on the disk", left)


def bad_input():
    refused("an unknown tier",
            ["ZERO_OFFLOAD names the tier tape", "zero-offload-tape.so", "check the name"],
            {"ZERO_OFFLOAD": "optimizer:tape"})
    refused("what cannot be placed", ['"weights:cpu" is not one of parameters'],
            {"ZERO_OFFLOAD": "weights:cpu"})
    refused("fractions that are no whole", ["add up to 0.9, not to 1"],
            {"ZERO_OFFLOAD": "optimizer:cpu:0.5+nvme:0.4"})
    config = support.path("empty.conf")
    with open(config, "w", encoding="ascii") as file:
        file.write("nvme_path =\n")
    refused("no folder", ["no place for the tier nvme: ZERO_NVME_PATH is empty"],
            {"ZERO_OFFLOAD": "optimizer:nvme", "ZERO_CONFIG": config})
    refused("a relative path", ['names "scratch"', "beginning with '/'"],
            {**NVME, "ZERO_NVME_PATH": "scratch"})
    refused("a missing folder",
            ["/no/such/folder .ZERO_NVME_PATH.: No such file or directory; make it"],
            {**NVME, "ZERO_NVME_PATH": "/no/such/folder"})
    refused("a file instead of a folder",
            [TEXT, "Not a directory; take the folder that it lies in"],
            {**NVME, "ZERO_NVME_PATH": TEXT})
    refused("a folder that cannot be written to",
            ["/proc", "Permission|Operation|Read-only|No such"],
            {**NVME, "ZERO_NVME_PATH": "/proc"})
    refused("a folder twice", [f"names {DISK} twice"],
            {**NVME, "ZERO_NVME_PATH": f"{DISK}:{DISK}"})
    refused("a depth of 0", ['ZERO_NVME_DEPTH is "0"', "from 1 to 256"],
            {**NVME, "ZERO_NVME_DEPTH": "0"})
    refused("an unknown engine", ['ZERO_NVME_ENGINE is "fast"', "io_uring or threads"],
            {**NVME, "ZERO_NVME_ENGINE": "fast"})
    auto = {**NVME, "ZERO_OFFLOAD": "auto"}
    for what, name, value, words in (("a depth of 0", "NVME_DEPTH", "0", "from 1 to 256"),
                                     ("a relative path", "NVME_PATH", "scratch",
                                      "beginning with '/'"),
                                     ("locked maybe", "CPU_LOCK", "maybe", "auto, 0 or 1")):
        refused(f"auto with {what}", [f'ZERO_OFFLOAD=auto: .*ZERO_{name} \\S+ "{value}".*{words}'],
                {**auto, f"ZERO_{name}": value})
    job = run({**auto, "ZERO_NVME_PATH": "/no/such/folder"})
    ok(weights(job) and [re.search(
        r"auto goes without nvme: .*/no/such/folder \(ZERO_NVME_PATH\): No such "
        "file or directory; make it", w) is not None for w in warnings(job)] == [True],
       "auto with a missing folder: without a disk, one warning for all ranks", job.story())
    refused("memory that nobody can reach",
            [r"bad_map says that its bytes are memory .*and has no map\(\)"],
            {**SHAKY, "ZERO_OFFLOAD": "optimizer:bad_map"})
    refused("two plugins that are disks",
            ["names nvme and shaky, which are both disks: one of them at a time",
             "ZERO_NVME_PATH=/a:/b"],
            {**SHAKY, "ZERO_OFFLOAD": "optimizer:nvme,parameters:shaky"})
    refused("too little memory of the host",
            [r"ZERO_MEMORY_LIMIT \(cpu\) has 64.0 KiB", "fit: ZERO_OFFLOAD=auto"],
            {"ZERO_OFFLOAD": "optimizer:cpu", "ZERO_MEMORY_LIMIT": "cpu:64K"})


class Mount:
    """A file system in memory, where this user may mount one."""

    def __init__(self, name, options):
        self.folder = os.path.abspath(support.path(name))
        os.mkdir(self.folder)
        self.there = os.geteuid() == 0 and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "none", self.folder],
            capture_output=True).returncode

    def end(self):
        while self.there and not subprocess.run(["umount", "-l", self.folder],
                                                capture_output=True).returncode:
            pass


class Image:
    """A file system of such a kind and size in a file, where this user may mount one."""

    def __init__(self, name, kind, mib):
        image, self.folder = support.path(f"image-{name}"), os.path.abspath(support.path(name))
        os.mkdir(self.folder)
        with open(image, "wb") as file:
            file.truncate(mib << 20)
        self.there = os.geteuid() == 0 and not subprocess.run(
            ["sh", "-c", f"mkfs.{kind} -q {image} && mount -o loop {image} {self.folder}"],
            capture_output=True).returncode

    def end(self):
        if self.there:
            subprocess.run(["umount", "-l", self.folder], check=False)


def not_writable():
    """Read-only for everybody, or for this user."""
    mount = Mount("read-only", "ro,size=1m")
    if mount.there:
        refused("a disk that is mounted read-only",
                [re.escape(mount.folder) + r" \(ZERO_NVME_PATH\): Read-only file system; .*mount "
                 "-o remount,rw.*, or name another folder"],
                {**NVME, "ZERO_NVME_PATH": mount.folder})
    else:
        skip("a disk that is mounted read-only", "this user may not mount a file system")
    mount.end()
    folder = os.path.abspath(support.path("others"))
    os.mkdir(folder, 0o555)
    os.chmod(support.FOLDER, 0o755)
    if not others_run():
        skip("a folder of somebody else", "another user cannot run what this one has built")
        return
    how = {"preexec_fn": another_user(64)} if os.geteuid() == 0 else {}
    job = run({**NVME, "ZERO_NVME_PATH": folder}, ranks=1, **how)
    ok(job.status not in (0, None) and re.search(
        re.escape(folder) + r" \(ZERO_NVME_PATH\): Permission denied; .*\(chown, chmod\), or name "
        "another folder", job.err),
       "a folder of somebody else: refused, with the remedy", job.story())


def remedies(job):
    """What the refusal says would make it fit: the settings of each."""
    told = re.search("what would make it fit: (ZERO_.*)", job.err)
    return [dict(setting.split("=", 1) for setting in remedy.split())
            for remedy in told[1].split("; or ")] if told else []


# ---- What a small disk, a small device and a system without io_uring do --------------------------

def small_disk():
    """A file system of a few pages, in memory."""
    folder = support.path("small")
    os.mkdir(folder)
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", folder],
                                      capture_output=True).returncode:
        skip("a disk that is too small", "this user may not mount a file system")
        return
    try:
        job = run({**NVME, "ZERO_NVME_PATH": os.path.abspath(folder)})
        ok(job.status not in (0, None) and re.search(
            r"the plan needs .*\n?.* tier nvme \([^)]*" + re.escape(folder) +
            r"\) has 12[0-9.]+ KiB( for each)?:\n\[0\] +\w+ ", job.err)
           and "more room (of several" in job.err,
           "a disk that is too small: who needs what, and how much there is", job.story())
        subprocess.run(["mount", "-o", "remount,size=64m", folder], check=True)
        job = run({**NVME, "ZERO_NVME_PATH": os.path.abspath(folder)})
        ok(weights(job) and weights(job) == weights(run({})), "a folder in memory: the same bits",
           job.story())
        ok([("is memory, no disk" in w) for w in warnings(job)] == [True],
           "a folder in memory: one warning for all ranks", *warnings(job))
    finally:
        subprocess.run(["umount", "-l", folder], check=False)


def small_files():
    """A limit of files' sizes, which a signal would enforce."""
    def limit(most=1 << 18):
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    for most in (1024, 1 << 18):  # below a block not even a probe may be written
        job = run(NVME, ranks=1, preexec_fn=functools.partial(limit, most))
        ok(job.status not in (0, None) and re.search(
            rf"bytes in \S+ \(ZERO_NVME_PATH\): this process may write files of {most} bytes at "
            r"most: raise that \(ulimit -f\), or name more folders", job.err)
           and "promises a way" not in job.err,
           f"files of at most {most} bytes: refused, with the remedy", job.story())
    job = run({}, ranks=2, preexec_fn=limit)
    ok(job.status not in (0, None) and re.search(
        r"bytes of shared memory.* file, and this process may make files of 262144 bytes at most: "
        r"raise that \(ulimit -f\)", job.err),
       "more bytes of shared memory than a file may have: refused", job.story())


def folders():
    """Where the disk is none, or one twice."""
    second = support.path("second")
    os.mkdir(second)
    job = run({**NVME, "ZERO_NVME_PATH": f"{DISK}:{os.path.abspath(second)}"})
    ok(weights(job) and [("lie on one disk" in w) for w in warnings(job)] == [True],
       "two folders of one disk: one warning for all ranks", job.story())
    job = run({**FILLS, "ZERO_NVME_PATH": f"{DISK}:{os.path.abspath(second)}"}, ranks=1)
    ok(weights(job) and [("lie on one disk" in w) for w in warnings(job)] == [True],
       "and one where they are measured before anything lies there", job.story())


def tight_disk(plain):
    """With room for what comes to lie there, and not for everything that might."""
    what, mount = ("a disk with room for a part: it is measured by a part",
                   Mount("tight", "size=1200k"))
    if not mount.there:
        skip(what, "this user may not mount a file system")
        return
    job = run({**FILLS, "ZERO_NVME_PATH": mount.folder, "ZERO_LOG": "info",
               "ZERO_OFFLOAD": "optimizer:cpu+nvme,gradients:device+nvme,"
               "parameters:device+nvme,activations:device+nvme"},
              ranks=1)
    ok(weights(job) == plain and "measuring how fast nvme is" in job.err and "+nvme" in job.out,
       what, job.story())
    mount.end()


def shared():
    """Two folders of one file system have no more room than it has."""
    what, mount = "two folders of one disk that is too small", Mount("shared", "size=64k")
    if not mount.there:
        skip(what, "this user may not mount a file system")
        return
    two = [os.path.join(mount.folder, name) for name in ("a", "b")]
    for folder in two:
        os.mkdir(folder)
    env = {**NVME, "ZERO_NVME_PATH": ":".join(two)}
    needs = re.compile(
        r"the plan needs ([\d.]+) ([KM])iB on each of 2 ranks here, but tier nvme \([^)]*" +
        re.escape(two[0]) + r" and more\) has ([\d.]+) ([KM])iB for each:\n\[0\] +\w+ ")
    job = run(env)
    need = needs.search(job.err)
    kib = int(float(need[1]) * (1024 if need[2] == "M" else 1)) if need else 0
    # Enough for one of the ranks, or if it were there twice.
    subprocess.run(["mount", "-o", f"remount,size={kib * 3 // 2}k", mount.folder], check=kib > 0)
    job = run(env)
    ok(kib and job.status not in (0, None) and needs.search(job.err),
       f"{what}: who needs what, and how much there is", job.story())
    subprocess.run(["mount", "-o", "remount,size=64m", mount.folder], check=True)
    job = run(env)
    ok(weights(job) and weights(job) == weights(run({})),
       "two folders of one disk with room: the same bits", job.story())
    mount.end()


def subvolumes():
    """Each has a device number of its own, and what one of them takes the others lack."""
    what = "two subvolumes of one btrfs"
    if not shutil.which("mkfs.btrfs"):
        skip(what, "mkfs.btrfs is not installed")
        return
    image = Image("volumes", "btrfs", 128)
    if not image.there:
        skip(what, "this user may not mount a file system")
        return
    try:
        two = [os.path.join(image.folder, name) for name in ("a", "b")]
        for folder in two:
            subprocess.run(["btrfs", "subvolume", "create", folder], check=True,
                           capture_output=True)
        job = run({**NVME, "ZERO_NVME_PATH": ":".join(two)})
        ok(os.stat(two[0]).st_dev != os.stat(two[1]).st_dev and weights(job)
           and [("lie on one disk" in w) for w in warnings(job)] == [True],
           f"{what}: one warning for all ranks", job.story())
    finally:
        image.end()


def coarse():
    """What a unit has lies in one tier: a model of few units does not reach every fraction."""
    job = run({**NVME, "ZERO_OFFLOAD": "optimizer:cpu:0.3+nvme:0.7"})
    told = [re.search(r"(0\.\d+) of the bytes of \"optimizer\" lie in cpu where 0\.300", w)
            for w in warnings(job)]
    ok(weights(job) and len(told) == 1 and told[0] and abs(float(told[0].group(1)) - 0.3) > 0.05,
       "a fraction that the units are too large for: one warning for all ranks", job.story())


def device_limit(plain):
    """What does not fit the device alone trains with states elsewhere."""
    reserved = float(re.search(r"^  all +\S+ +(\S+)", plain.out, re.M).group(1))
    limit = {"ZERO_MEMORY_LIMIT": f"device:{int((reserved - 0.5) * 1024)}K"}
    alone = run(limit, ranks=1)
    told = remedies(alone)
    ok(alone.status not in (0, None) and any("ZERO_OFFLOAD" in env for env in told),
       "a device that is too small: offload is among the remedies", alone.story())
    for env in told:
        helped = run({**limit, "ZERO_NVME_PATH": DISK, **env}, ranks=1)
        ok(weights(helped) == weights(plain), f"{env}, which was told, is enough: the same bits",
           helped.story())
    for env in ({"ZERO_OFFLOAD": "optimizer:cpu"}, NVME, {**NVME, "ZERO_OFFLOAD": "auto"}):
        helped = run({**limit, **env}, ranks=1)
        ok(weights(helped) == weights(plain), f"{env['ZERO_OFFLOAD']}: fits, the same bits",
           helped.story())


def reserved_in(job, tier):
    """In KiB, and what the three digits of a MiB leave open."""
    return int(float(re.search(rf"^(?:\[0\] )?  all +{tier} +(\S+)", job.out, re.M).group(1))
               * 1024) + 1


def tight():
    """What fits by hand fits by auto, too; and limits that are told are enough, and
    not much more."""
    for split in ("optimizer:device:0.1+cpu:0.9", "optimizer:device:0.5+cpu:0.5"):
        hand = run({"ZERO_OFFLOAD": split})
        device, cpu = (reserved_in(hand, tier) for tier in ("device", "cpu"))
        limit = {"ZERO_MEMORY_LIMIT": f"device:{device}K,cpu:{cpu}K", "ZERO_NVME_PATH": DISK,
                 "ZERO_TILE_BYTES": "32K", "ZERO_OFFLOAD_MEASURE": "0"}
        for offload in (split, "auto", "optimizer:device+cpu"):
            job = run({**limit, "ZERO_OFFLOAD": offload})
            ok(weights(job) and weights(job) == weights(hand),
               f"{limit['ZERO_MEMORY_LIMIT']}, what {split} needs: {offload} fits, too",
               job.story())
        limit["ZERO_MEMORY_LIMIT"] = f"device:{device}K,cpu:{cpu // 2}K"
        job = run({**limit, "ZERO_OFFLOAD": "optimizer:device+cpu"})
        told = [env for env in remedies(job) if "ZERO_MEMORY_LIMIT" in env]
        # Larger limits, and the least that other settings come to.
        ok(job.status not in (0, None) and len(told) in (1, 2) and len(told[0]) == 1,
           "with half of the host's memory it does not", job.story())
        for env in told:
            more = re.search(r"cpu:(\d+)([KM])", env["ZERO_MEMORY_LIMIT"])
            more = int(more[1]) << (10 if more[2] == "M" else 0)
            helped = run({**limit, "ZERO_OFFLOAD": "optimizer:device+cpu", **env})
            # told in steps of 64 KiB
            ok(weights(helped) == weights(hand) and more < 1.5 * cpu + 64,
               f"{env}, which was told, is enough and not much more than {cpu}K", helped.story())


def deep():
    """Threads do a transfer each: as many as are asked for, or it is told how many."""
    job = started({**NVME, "ZERO_NVME_ENGINE": "threads", "ZERO_NVME_DEPTH": "40"}, 100000)
    threads = [len(os.listdir(f"/proc/{pid}/task")) for pid in job.ranks()]
    job.kill()
    job.end(20)
    ok(len(threads) == 1 and threads[0] > 40 and not warnings(job), "a depth of 40 by threads",
       threads, job.story())
    job = run({**NVME, "ZERO_NVME_ENGINE": "threads", "ZERO_NVME_DEPTH": "200"})
    told = [w for w in warnings(job)
            if "200 transfers at a time in 1 folder (ZERO_NVME_DEPTH) are 64" in w]
    ok(weights(job) and len(told) == 1, "a depth of 200 by threads: one warning for all ranks",
       job.story())


SETUP, ENTER, REGISTER = 425, 426, 427


def deny(number):
    """As seccomp profiles of containers do: a call of io_uring, by its number, gives EPERM."""
    # load the number of the call; equal: EPERM, else allow
    code = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050001),
            (0x06, 0, 0, 0x7fff0000)]

    def deny_it():
        filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *c) for c in code))
        program = struct.pack("HL", len(code), ctypes.addressof(filters))
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):
            os._exit(99)
    return deny_it


def without_uring(plain):
    for number, what, env in ((SETUP, "io_uring is forbidden", NVME),
                              (SETUP, "io_uring is forbidden where a disk is measured first",
                               FILLS),
                              (ENTER, "io_uring may be set up and not be entered", NVME)):
        job = run(env, ranks=1, preexec_fn=deny(number))
        if job.status == 99:
            skip("io_uring is forbidden", "seccomp cannot be used here")
            return
        ok(weights(job) == plain and len(warnings(job)) == 1 and
           "io_uring: Operation not permitted; threads read and write instead" in warnings(job)[0],
           f"{what}: the same bits, one warning", job.story())
        named = run({**env, "ZERO_NVME_ENGINE": "io_uring"}, ranks=1, preexec_fn=deny(number))
        ok(named.status not in (0, None) and "ZERO_NVME_ENGINE=threads" in named.err,
           f"{what}, and asked for: refused, with the remedy", named.story())
    job = run({**NVME, "ZERO_NVME_ENGINE": "io_uring"}, ranks=2, preexec_fn=deny(REGISTER))
    ok(weights(job) == weights(run({})) and len(warnings(job)) == 1 and
       re.search(r"bytes cannot be registered with io_uring: Operation not permitted; the kernel "
                 r"looks each of their pages up for every transfer, which takes more of a "
                 r"processor$",
                 warnings(job)[0]),
       "io_uring may be used and nothing be registered: the same bits, one warning for all ranks",
       job.story())
    job = run({**SHAKY, "ZERO_SHAKY_OLD": "1"}, ranks=1)
    ok(weights(job) == plain and len([
        w for w in warnings(job)
        if "io_uring: Function not implemented; threads read and write instead" in w]) == 1,
       "an io_uring that does not know reads and writes: the same bits, one warning", job.story())


def another_user(kib):
    """To be a user of this test's own who may lock so many KiB: all he has registered
    counts as one."""
    user = 1 << 16 | os.getpid() & 0xffff

    def become():
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (kib * 1024, kib * 1024))
        if os.geteuid() == 0:
            ctypes.CDLL(None).prctl(24, 14, 0, 0, 0)  # the bounding set loses CAP_IPC_LOCK ...
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)  # ... and no user but root has it
    return become


def others_run():
    """May another user enter the folders above this build? Not where that is root's home."""
    try:
        return os.geteuid() != 0 or subprocess.run(
            [support.ZERO, "--version"], preexec_fn=another_user(64), capture_output=True,
            check=False).returncode == 0
    except PermissionError:
        return False


REMEDY = r"Raise it: ulimit -l (?P<kib>\d+) in the shell, memlock (?P=kib) in " \
         r"/etc/security/limits\.conf, LimitMEMLOCK=(?P=kib)K in a service of systemd"


def little_locked_memory(plain):
    """What a user is told who may not lock enough has the need, who shares it, the limit and the
    remedy; the bits are the same."""
    os.chmod(DISK, 0o777)
    env = {**NVME, "ZERO_NVME_PATH": "/var/tmp"}
    if not others_run():
        skip("64 KiB of locked memory", "another user cannot run what this one has built")
        return
    job = run(env, ranks=1, preexec_fn=another_user(64))
    ok(weights(job) == plain, "64 KiB of locked memory: the same bits", job.story())
    if "threads read and write instead" in job.err:
        skip("memory that is registered", "this system forbids io_uring")
    else:
        for ranks in (1, 2, 4):
            registered(ranks, env)
        registered(1, {**FILLS, "ZERO_NVME_PATH": "/var/tmp"})
        states_beside(env)
    job = run(env, ranks=2, preexec_fn=another_user(0))
    ok(weights(job) == weights(run({}, ranks=2)) and of_nvme(job) == 1 and
       "limit of locked memory is 0 bytes" in job.err,
       "no locked memory at all, not even for a ring: the same bits, one warning", job.story())
    locked(plain)


def states_beside(env):
    """Of the host's memory, what the disk moves is registered, and not the states
    that stay there."""
    need = {}
    for offload in ("optimizer:nvme", "optimizer:cpu:0.5+nvme:0.5"):
        job = run({**env, "ZERO_OFFLOAD": offload}, ranks=1, preexec_fn=another_user(64))
        told = re.search(r"nvme: (\d+) bytes cannot be registered", job.err)
        need[offload] = int(told[1]) if told else None
    whole, part = need.values()
    ok(whole and part and part <= whole * 1.05,
       "states in the host's memory need no locked memory for the disk", need)


def of_nvme(job):
    """Warnings; where there is swap, cpu has one of its own."""
    return len([w for w in warnings(job) if "nvme: " in w])


def registered(ranks, env):
    """The limit is for all ranks of the user."""
    what = f"{env['ZERO_OFFLOAD']}, {ranks} ranks, 64 KiB of locked memory"
    right = weights(run({}, ranks=ranks))
    job = run(env, ranks=ranks, preexec_fn=another_user(64))
    told = re.search(r"nvme: (?P<need>\d+) bytes cannot be registered with io_uring: it is more "
                     r"than a rank's part .*The limit of locked memory is 65536 bytes for all that "
                     rf"processes of this user register, and {ranks} ranks? of this host shares? "
                     "it. " + REMEDY, job.err)
    if not ok(weights(job) == right and of_nvme(job) == 1 and told and
              int(told["kib"]) * 1024 >= int(told["need"]) * ranks > 65536,
              f"{what}: the same bits, one warning with the need, the limit and the remedy",
              job.story()):
        return
    need, all_need = int(told["need"]), int(told["kib"])
    if ranks > 1:
        limit = need * 3 // 2 // 1024
        job = run(env, ranks=ranks, preexec_fn=another_user(limit))
        ok(weights(job) == right and of_nvme(job) == 1 and
           f"limit of locked memory is {limit * 1024} bytes" in job.err and
           re.search(f"ulimit -l {all_need} ", job.err),
           f"{ranks} ranks, locked memory for one of them: the same bits, one warning", job.story())
    deadline = time.monotonic() + 20
    while True:  # what the job before has registered is given back a moment after its end
        job = run(env, ranks=ranks, preexec_fn=another_user(all_need))
        if "Cannot allocate memory" not in job.err or time.monotonic() > deadline:
            break
    ok(weights(job) == right and not warnings(job),
       f"{ranks} ranks, as much as was said: no warning", all_need, job.story())


def locked(plain):
    """The limit is for each process."""
    env = {"ZERO_OFFLOAD": "optimizer:cpu"}
    refusal = (r"the limit is 65536 bytes for each process, of which this one has locked \d+, and "
               r"this rank needs \d+ more, as each of the host's (?P<ranks>\d) does\. " + REMEDY)
    job = run({**env, "ZERO_CPU_LOCK": "1"}, ranks=1, preexec_fn=another_user(64))
    told = re.search(r"cpu: (?P<need>\d+) bytes cannot be locked \(ZERO_CPU_LOCK=1\): .*"
                     + refusal + ".*or set ZERO_CPU_LOCK=auto", job.err)
    enough = int(told["kib"]) if told else 0
    ok(job.status not in (0, None) and told and weights(job) is None
       and enough * 1024 >= int(told["need"]) > 65536,
       "64 KiB of locked memory and ZERO_CPU_LOCK=1: refused, with the need, the limit and the "
       "remedy", job.story())
    job = run({**env, "ZERO_CPU_LOCK": "1"}, ranks=1, preexec_fn=another_user(enough))
    ok(weights(job) == plain,
       "as much locked memory as was said, and ZERO_CPU_LOCK=1: it is enough",
       enough, job.story())
    job = run({**env, "ZERO_LOG": "info"}, ranks=1, preexec_fn=another_user(64))
    ok(weights(job) == plain and re.search(r"cpu: \d+ bytes are not locked, .*" + refusal, job.err),
       "64 KiB of locked memory: without being locked, the same bits, and told of", job.story())
    with open("/proc/meminfo", encoding="ascii") as file:
        swap = re.search(r"^SwapTotal: +[1-9]", file.read(), re.M) is not None
    for ranks in (2, 4):
        job = run(env, ranks=ranks, preexec_fn=another_user(64))
        told = [re.search(refusal, w) for w in warnings(job)]
        ok(weights(job) == weights(run({}, ranks=ranks)) and len(told) == swap and
           all(t and int(t["ranks"]) == ranks for t in told),
           f"{ranks} ranks, 64 KiB of locked memory: one warning where there is swap, else none",
           job.story())


# ---- Killed --------------------------------------------------------------------------------------

def killed():
    job = Job([GPT2, *MICRO[:-4], "--steps", 100000], 2, NVME)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and "step 1/" not in job.text("out"):
        time.sleep(0.05)
    processes = job.ranks()
    for pid in processes[:1]:
        os.kill(pid, signal.SIGKILL)
    job.end(30)
    ok(processes and job.status not in (0, None), "a rank is killed: the job ends", job.story())
    ok(not (left := support.left_in(DISK)), "a rank is killed: nothing stays on the disk", left)


def killed_alone():
    """Files without names are not seen in their folder: whether they are gone the
    file system says."""
    what, folder = ("all ranks are killed: what they had on the disk is free again",
                    support.path("own"))
    os.mkdir(folder)
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", folder],
                                      capture_output=True).returncode:
        skip(what, "this user may not mount a file system")
        return
    try:
        job = started({**NVME, "ZERO_NVME_PATH": os.path.abspath(folder)}, 100000)
        held = 64 * 2**20 - os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
        for pid in job.ranks():
            os.kill(pid, signal.SIGKILL)
        job.end(30)
        deadline = time.monotonic() + 10  # the kernel ends an io_uring a moment after its process
        while True:
            left = 64 * 2**20 - os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
            if left < 2**15 or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        ok(held > 2**19 and left < 2**15, what, held, left, job.story())
    finally:
        subprocess.run(["umount", "-l", folder], check=False)


# ---- What befalls a disk while a job runs --------------------------------------------------------

def started(env, steps, **how):
    """A job of one rank, in the middle of its training."""
    job = Job([GPT2, *MICRO[:-4], "--steps", steps, "--eval-windows", 1], 1, env, **how)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and job.process.poll() is None \
            and "step 1/" not in job.text("out"):
        time.sleep(0.02)
    return job


def scratch(job):
    """The nameless files of a job's tier, opened through its descriptors."""
    found = []
    for pid in job.ranks():
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                name = os.readlink(f"/proc/{pid}/fd/{fd}")
                if name.startswith(DISK) and name.endswith(" (deleted)"):
                    found.append(os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR))
            except OSError:
                pass
    return found


def flipped_bits():
    job = started(NVME, 100000)
    files = scratch(job)
    modes = {os.fstat(fd).st_mode & 0o777 for fd in files}
    ok(files and modes == {0o600}, "the files are their user's alone",
       *(f"mode {mode:o}" for mode in modes))
    deadline = time.monotonic() + 20
    while files and job.process.poll() is None and time.monotonic() < deadline:
        for fd in files:
            for at in range(100, os.fstat(fd).st_size, 65536):
                byte = os.pread(fd, 1, at)
                os.pwrite(fd, bytes([byte[0] ^ 1]) if byte else b"1", at)
    for fd in files:
        os.close(fd)
    job.end(20)
    ok(files and job.status not in (0, None) and weights(job) is None
       and re.search(r"nvme: read of \d+ bytes at \d+ of the file in " + re.escape(DISK) +
                     r": the 4096 bytes at \d+ are not what was written there \(checksum\)",
                     job.err),
       "bits that flip on the disk: found, and where they lie", job.story())


def cut_file():
    """The kernel then has nothing to read, or less than a block."""
    for size in (8192, 8192 + 100):
        job = started({**NVME, "ZERO_NVME_CHECKSUM": "0"}, 100000)
        files = scratch(job)
        deadline = time.monotonic() + 20
        while files and job.process.poll() is None and time.monotonic() < deadline:
            for fd in files:
                os.ftruncate(fd, size)
            time.sleep(0.01)
        for fd in files:
            os.close(fd)
        job.end(20)
        ok(files and job.status not in (0, None) and weights(job) is None
           and re.search(r"nvme: read of \d+ bytes at \d+ of the file in " + re.escape(DISK) +
                         r": .*has (something )?cut", job.err),
           f"the file is cut to {size} bytes: found, and where", job.story())


def wrong_ends():
    """A store that tells of its requests what is not so."""
    known = {**SHAKY, "ZERO_OFFLOAD_MEASURE": "0"}
    measured = {**SHAKY, "XDG_CACHE_HOME": support.path("nothing-measured")}
    less, twice = r"after \d+ bytes of \d+, without an error", "twice"
    for what, env, told in (
            ("by a block less than it has, in a step", {**known, "ZERO_SHAKY_LESS": "200"},
             r"request \d of \d of the (fetch|writeback) of \S+ " + less),
            ("by a block less than it has, before the first one", {**known, "ZERO_SHAKY_LESS": "1"},
             r"request 1 of 1 of the fetch of the runtime " + less),
        ("by a block less than it has, while it is measured",
         {**measured, "ZERO_SHAKY_LESS": "1"},
             "a request " + less),
            ("for another one, in a step", {**known, "ZERO_SHAKY_TWICE": "200"},
             r"request \d of \d of the (fetch|writeback) of \S+ " + twice),
            ("for another one, while it is measured", {**measured, "ZERO_SHAKY_TWICE": "1"},
             r"a request that is not under way, tag \d+")):
        job = run(env, ranks=1)
        ok(job.status not in (0, None) and job.seconds < 20 and weights(job) is None and re.search(
            "shaky ended " + told + ": try it with zero check offload", job.err),
           f"a request that ends {what}: an error", job.story())


def disturbed(fault, plain):
    """Transfers in parts, late and in another order. Returned are the weights of two ranks."""
    job = run({**fault, "ZERO_FAULT_IO": "cut=4096:n=1:times=0"}, ranks=1)
    ok(weights(job) == plain, "every transfer is cut short: the same bits", job.story())
    job = run({**fault, "ZERO_FAULT_IO": "busy:n=3:every=2:times=0"}, ranks=1)
    ok(weights(job) == plain, "a disk that is busy: the same bits", job.story())
    both = weights(run({}))  # of two ranks, which train on other data than one
    reorder = "reorder:times=0,cut=8192:every=3:times=0,delay=1:every=7:times=0"
    for ranks, wanted in ((1, plain), (2, both)):
        job = run({**fault, "ZERO_FAULT_IO": reorder}, ranks=ranks)
        ok(weights(job) == wanted, f"transfers in another order, {ranks} ranks: the same bits",
           job.story())
    return both


def lost_writes(fault, plain):
    # Above the checksums of nvme nobody knows that a write is missing, below them they do.
    job = run({**fault, "ZERO_FAULT_IO": "drop:n=16:every=3:times=0"}, ranks=1)
    ok(weights(job) not in (None, plain)
       and any("acknowledged and not done" in w for w in warnings(job)),
       "writes that are lost above the checksums: other bits", job.story())
    # A write may bring what is there already, such as gradients of what no token
    # needed: then another.
    for engine in ("io_uring", "threads"):
        for number in (30, 50, 70):
            job = run({**SHAKY, "ZERO_NVME_ENGINE": engine, "ZERO_OFFLOAD_MEASURE": "0",
                       "ZERO_SHAKY_DROP": str(number)}, ranks=1)
            if job.status != 0:
                break
        ok(job.status not in (0, None) and weights(job) is None and re.search(
            r"shaky: read of \d+ bytes at \d+ of the file in " + re.escape(DISK) +
            r": the 4096 bytes at \d+ are not what was written there \(checksum\)", job.err),
           f"a write that is lost below {engine}: found, and where", job.story())


def file_server(plain, both):
    """A file system far away, which does not answer, or other than a disk does."""
    began = time.monotonic()
    job = run({**SHAKY, "ZERO_SHAKY_ASLEEP": "1"}, ranks=2)
    ok(job.status not in (0, None) and time.monotonic() - began < 20
       and "has not answered within 1 s" in job.err,
       "a file system that does not answer: an error, in time", job.story())
    for engine in ("io_uring", "threads"):
        job = run({**SHAKY, "ZERO_NVME_ENGINE": engine}, ranks=1)
        ok(weights(job) == plain, f"a system below {engine} that does a part, is interrupted and "
           "wants to be asked again: the same bits", job.story())
        ok(all(any(text in w for w in warnings(job)) for text in (
            "is no local disk (NFS)", "where several hosts share it, each counts all of its room "
            "for its own ranks", "cannot reserve room")) and len(warnings(job)) == 2,
           "a folder of a file server without reserved room: a warning for each", *warnings(job))
        job = run({**SHAKY, "ZERO_NVME_ENGINE": engine, "ZERO_SHAKY_DIRECT": "1"}, ranks=2)
        told = [w for w in warnings(job) if "past the page cache" in w]
        ok(weights(job) and weights(job) == both and len(told) == 1,
           f"a file system that takes O_DIRECT and refuses {engine} the transfers: the page "
           "cache, one warning for all ranks, the same bits", job.story())
        for number, text in ((11, "Resource temporarily unavailable"),
                             (4, "Interrupted system call")):
            job = run({**SHAKY, "ZERO_NVME_ENGINE": engine, "ZERO_TIMEOUT": "3",
                       "ZERO_SHAKY_ENDS": f"-{number}", "ZERO_SHAKY_FROM": "200"}, ranks=1)
            # The store counts from its first refusal, the step from its wait: under load
            # within a tick.
            store = (r"shaky: (read|write) of \d+ bytes at \d+ of the file in " + re.escape(DISK) +
                     r": the system has refused it again and again for [23]\.\d s "
                     r"\(ZERO_TIMEOUT\): " + text)
            step = (r"waited 3 s \(ZERO_TIMEOUT\) for shaky, .* \(the system refuses \d+ transfers "
                    f"again and again: {text}; in {re.escape(DISK)}\\)")
            ok(job.status not in (0, None) and job.seconds < 20 and weights(job) is None and
               (re.search(store, job.err) or re.search(step, job.err)),
               f"a system below {engine} that says \"{text}\" for ever: an error, in time",
               job.story())


def odd_disks(plain, both):
    for align, wanted in (("512", []),
                          ("8192", ["wants multiples of 8192 bytes past the page cache, more "
                                    "than 4096: the page cache is used"])):
        job = run({**SHAKY, "ZERO_SHAKY_ALIGN": align}, ranks=2)
        told = [w for w in warnings(job) if "past the page cache" in w]
        ok(weights(job) == both and len(told) == len(wanted) and all(w in told[0] for w in wanted),
           f"a disk that wants multiples of {align} bytes: the same bits", job.story())
    job = run({**SHAKY, "ZERO_SHAKY_FULL": "1"}, ranks=1)
    ok(weights(job) == plain,
       "an io_uring that mostly has no room for what it is handed: the same bits", job.story())


def hanging():
    """A call does not return."""
    # Only one rank's disk: the other one does not take the blame.
    alone = 'if [ "$RANK" = 1 ]; then export ZERO_SHAKY_HANGS=200; fi; exec "$0" "$@"'
    job = Job(["sh", "-c", alone, GPT2, *MICRO], 2,
              {**SHAKY, "ZERO_NVME_ENGINE": "io_uring", "ZERO_OFFLOAD_MEASURE": "0",
               "ZERO_TIMEOUT": "3"}).end(60)
    ok(job.status not in (0, None) and job.seconds < 40 and weights(job) is None and len(re.findall(
        r"^\[[01]\] .*rank 1 failed: .*shaky has not come back from a call for 3 s "
        r"\(ZERO_TIMEOUT\)", job.err, re.M)) >= 2,
       "a call that hands transfers to io_uring does not return: all say whose disk it is",
       job.story())
    # Before the first step: when the plugin is asked, in the job's own store, and in one
    # to be measured.
    for number, placed in ((1, SHAKY["ZERO_OFFLOAD"]), (12, SHAKY["ZERO_OFFLOAD"]),
                           (12, "optimizer:cpu+shaky")):
        job = run({**SHAKY, "ZERO_OFFLOAD": placed, "ZERO_NVME_ENGINE": "io_uring",
                   "ZERO_MEMORY_LIMIT": "cpu:900K" if "cpu" in placed else "", "ZERO_TIMEOUT": "3",
                   "XDG_CACHE_HOME": support.path("never-measured"),
                   "ZERO_SHAKY_HANGS": str(number)}, ranks=1)
        ok(job.status not in (0, None) and job.seconds < 40 and "step " not in job.out and
           "shaky has not come back from a call for 3 s (ZERO_TIMEOUT)" in job.err,
           f"{placed}, call {number} does not return before the first step: an error, in time",
           job.story())


def parts_of_requests(plain):
    for most in (4096, 20480):  # more parts than are under way at once, and ends that are smaller
        job = run({**SHAKY, "ZERO_SHAKY_MOST": str(most)}, ranks=1)
        ok(weights(job) == plain, f"a store that takes {most} bytes in a request: the same bits",
           job.story())
    job = run({**SHAKY, "ZERO_SHAKY_MOST": "2048"}, ranks=1)
    ok(job.status not in (0, None) and "offload plugin shaky moves 2048 bytes in one request "
       "(max_io); 4096 have to be possible" in job.err,
       "one that takes less than a page: refused", job.story())


def failing(fault):
    """Requests that do not end, or with an error."""
    job = run({**fault, "ZERO_TIMEOUT": "2", "ZERO_FAULT_IO": "delay=60000:n=60"}, ranks=1)
    ok(job.status not in (0, None) and re.search(
        r"waited 2 s \(ZERO_TIMEOUT\) for fault, which has not ended it: .*\(fault over (io_uring|"
        r"threads), past the page cache, .*\)", job.err),
       "a request that does not end: the sentence says what the store is", job.story())
    for error, op, text in (("ENOSPC", "write", "No space left"), ("EIO", "read", "Input/output")):
        job = run({**fault, "ZERO_FAULT_IO": f"error={error}:op={op}:n=20"}, ranks=2)
        ok(job.status not in (0, None) and job.seconds < 30 and text in job.err
           and weights(job) is None, f"{error} in the middle of a step: the job ends with it, no "
           "weights are shown", job.story())
    alone = 'if [ "$RANK" = 1 ]; then export ZERO_FAULT_IO="$FAULT"; fi; exec "$0" "$@"'
    for n in (4, 20):
        job = Job(["sh", "-c", alone, GPT2, *MICRO], 2,
                  {**fault, "FAULT": f"error=ENOSPC:op=write:n={n}"}).end(60)
        ok(job.status not in (0, None) and "Weights" not in job.out and len(re.findall(
            r"^\[[01]\] .*rank 1 failed: .*No space left on device", job.err, re.M)) >= 2,
           f"ENOSPC on one rank, write {n}: both ranks say so, no weights are shown", job.story())
    ok(not (left := support.left_in(DISK)), "errors: nothing stays on the disk", left)


def injected(plain):
    fault = {**NVME, "ZERO_OFFLOAD": "optimizer:fault", "ZERO_FAULT_OFFLOAD": "nvme"}
    both = disturbed(fault, plain)
    lost_writes(fault, plain)
    file_server(plain, both)
    odd_disks(plain, both)
    hanging()
    parts_of_requests(plain)
    wrong_ends()
    failing(fault)


def copies_on_write(plain):
    """File systems on which room does not stay reserved; that of the folder is none of them, and
    cannot be asked to write in place."""
    for name, number in (("btrfs", "9123683e"), ("ZFS", "2fc12fc1"), ("bcachefs", "ca451a4e")):
        job = run({**SHAKY, "ZERO_SHAKY_TYPE": number}, ranks=1)
        told = [w for w in warnings(job) if "shaky: " in w]
        ok(weights(job) == plain and len(told) == 1 and re.search(
            re.escape(DISK) + rf" \(ZERO_NVME_PATH\) is {name}, which writes every block to a new "
            "place: no room stays reserved there; .*Leave as much free as the tier has", told[0]),
           f"a folder of {name}: the same bits, one warning", job.story())


def small_pages():
    """A system that gives no huge pages says so in a file, which another one lies over here."""
    what, enabled = "no huge pages", "/sys/kernel/mm/transparent_hugepage/enabled"
    says = support.path("enabled")
    with open(says, "w", encoding="ascii") as file:
        file.write("always madvise [never]\n")
    mount = ["unshare", "-m", "sh", "-c", f'mount --bind "$0" {enabled} && exec "$@"', says]
    if os.path.exists(enabled):
        with open(enabled, encoding="ascii") as file:
            if "[never]" in file.read():
                skip(what, "this system gives none anyway")
                return
    if not shutil.which("unshare") or not os.path.exists(enabled) or \
            subprocess.run([*mount, "true"], capture_output=True, check=False).returncode:
        skip(what, "this user may not mount a file system")
        return
    command = [support.ZERO, "run", "-n", 2, "--", GPT2, "--preset", "tiny", "--vocab", 50304,
               "--data", TEXT, "--seq", 16, "--batch", 1, "--steps", 1, "--val", 0]
    env = {"ZERO_OFFLOAD": "optimizer:nvme", "ZERO_NVME_PATH": DISK, "ZERO_OFFLOAD_MEASURE": "0"}
    plain = Job(command, env=env).end(60)
    job = Job([*mount, *command], env=env).end(60)
    told = [line for line in warnings(job) if "no huge pages" in line]
    ok(weights(job) == weights(plain) is not None and len(told) == 1
       and re.search(rf"\d+ MiB by which nvme is read .* echo madvise > {enabled} \(root\)",
                     told[0])
       and not any("no huge pages" in line for line in warnings(plain)),
       f"{what}: one warning with the remedy, the same bits", job.story(), plain.story())


def bytes_moved():
    """What a job says it moved is what the kernel counted for its processes."""
    what = "the bytes of a job are on the disk"
    if subprocess.run(["stat", "-f", "-c", "%T", DISK], capture_output=True,
                      text=True).stdout.strip() in ("tmpfs", "ramfs", "overlayfs"):
        skip(what, "the folder for temporary files is not on a disk")
        return
    # So that the program itself is read from memory: that would count, too.
    support.train([*MICRO[:-4], "--steps", 1, "--val", 0], 1, NVME)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    job = support.train([*MICRO[:-4], "--steps", 60, "--val", 0], 1, NVME)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    read = sum(step["disk_read_bytes"] for step in job.steps)
    written = sum(step["disk_written_bytes"] for step in job.steps)
    counted = (512 * (after.ru_inblock - before.ru_inblock),
               512 * (after.ru_oublock - before.ru_oublock))
    ok(read > 0 and counted[0] >= 0.95 * read and counted[1] >= 0.95 * written, what, read, written,
       counted, job.story())
    found = re.search(
        r"^Disk of this rank: ([\d.]+) bytes read and ([\d.]+) written for each of its parameters "
        r"and step; ([\d.]+) MiB written in all, first values included$", job.out, re.M)
    # two fp32 moments, and padding, which a tiny model has much of
    ok(found and all(8 <= float(x) < 9 for x in found.groups()[:2])
       and abs(float(found.group(3)) - job.summary["disk_written_bytes"] / 2**20) < 0.001,
       "bytes for each parameter and step are told", job.story())
    wear = [job.summary["disk_read_bytes"], job.summary["disk_written_bytes"]]
    ok(wear[0] >= read and wear[1] >= written
       and all(0.95 * n <= c <= 1.1 * n for n, c in zip(wear, counted)),
       "so is what the disk has borne, and the kernel has counted as much", wear, counted)


def fewer_bytes():
    """Masters in halves are the same masters; moments in bf16 are the same in every tier."""
    for states, least in (("fp32", 10), ("bf16", 6)):
        options = ["--preset", "tiny", "--dtype", "bf16"]
        here, there = (run({"ZERO_STATE_DTYPE": states, **env}, options, 1) for env in ({}, NVME))
        found = re.search(r"([\d.]+) bytes read and ([\d.]+) written for each", there.out)
        ok(found and all(least <= float(x) < least + 0.5 for x in found.groups()),
           f"moments in {states}: {least} bytes each way for each parameter", there.story())
        ok(weights(here) and weights(here) == weights(there),
           f"moments in {states}: the same bits on a disk", here.story(), there.story())


class SlowDisk:
    """A control group in which the disk of a folder moves so many bytes a second, each way."""

    def __init__(self, rate, folder):
        device = os.stat(folder).st_dev
        # Of a partition the whole disk is throttled.
        block = os.path.realpath(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
        if os.path.exists(os.path.join(block, "partition")):
            block = os.path.dirname(block)
        self.folder, self.old = None, os.path.isdir("/sys/fs/cgroup/blkio")
        root = "/sys/fs/cgroup/blkio" if self.old else "/sys/fs/cgroup"
        folder = os.path.join(root, f"zero-test-{os.getpid()}")
        try:
            with open(os.path.join(block, "dev"), encoding="ascii") as file:
                number = file.read().strip()
            os.mkdir(folder)
            self.folder = folder
            limits = {f"blkio.throttle.{way}_bps_device": f"{number} {rate}"
                      for way in ("read", "write")} if self.old else \
                {"io.max": f"{number} rbps={rate} wbps={rate}"}
            for name, text in limits.items():
                with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                    file.write(text)
        except OSError:
            self.end()

    def enter(self):
        with open(os.path.join(self.folder, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write(str(os.getpid()))

    def end(self):
        for _ in range(50 if self.folder else 0):
            try:
                os.rmdir(self.folder)
                break
            except OSError:
                time.sleep(0.1)
        self.folder = None


def one_after_another():
    """What moves is waited for: requests that were submitted together end long after the last of
    them had its turn, and one request takes longer than ZERO_TIMEOUT by itself."""
    plain = weights(run({}, ["--steps", 1], 1))
    env = {**NVME, "ZERO_OFFLOAD": "optimizer:fault", "ZERO_FAULT_OFFLOAD": "nvme",
           "ZERO_TIMEOUT": "1", "ZERO_OFFLOAD_MEASURE": "0",
           "ZERO_FAULT_IO": "slow=300000:times=0"}
    for what, tile in (("serves many requests one after another", "64K"),
                       ("is at one request for longer than ZERO_TIMEOUT", "4M")):
        job = run({**env, "ZERO_TILE_BYTES": tile}, ["--steps", 1], 1)
        ok(weights(job) and weights(job) == plain and job.seconds > 3,
           f"a disk that {what}: the same bits", job.seconds, job.story())


def slow_disk(plain):
    """Everything waits, nothing is lost, and nobody takes it for a failure. The disk is one of its
    own: page-ins of the program would stand before its transfers, for as long as they take."""
    what, rate = "a disk of 1 MB/s", 1000000
    image = Image("slow", "ext4", 32)
    disk = SlowDisk(rate, image.folder) if image.there else None
    if not disk or not disk.folder:
        image.end()
        skip(what, "no disk, or no control group for disks, that may be changed")
        return
    everything = {**NVME, "ZERO_OFFLOAD": "optimizer:nvme,gradients:nvme,parameters:nvme",
                  "ZERO_NVME_PATH": image.folder, "ZERO_TIMEOUT": "3",
                  "XDG_CACHE_HOME": support.path("slow-cache")}  # it is measured, too
    log = support.path("slow.json")
    job = run(everything, ["--json", log], 1, preexec_fn=disk.enter)
    disk.end()
    image.end()
    moved = sum(o["disk_read_bytes"] for o in support.objects(log) if o["type"] == "step") \
        if os.path.exists(log) else 0
    ok(weights(job) == plain and job.seconds > moved / rate,
       f"{what}: the same bits, when it is done",
       f"{job.seconds:.1f} s, {moved} bytes read", job.story())


def two_jobs(plain):
    jobs = [Job([GPT2, *MICRO], 1, NVME) for _ in range(2)]
    ok(all(weights(job.end(60)) == plain for job in jobs), "two jobs in one folder: the same bits",
       *[job.story() for job in jobs])


def vanishing(steps, plain):
    """Its scratch has no name, so that the folder is of no use to a job any more."""
    job = started(NVME, steps)
    os.rmdir(DISK)
    running = job.process.poll() is None
    job.end(60)
    ok(running and weights(job) == plain, "the folder vanishes while a job runs: the same bits",
       running, job.story())
    os.mkdir(DISK)


def unmounted(steps, plain):
    """Likewise, where the whole file system leaves its place."""
    what, mount = "the disk is taken from its place while a job runs: the same bits", \
        Mount("unmounted", "size=64m")
    if not mount.there:
        skip(what, "this user may not mount a file system")
        return
    job = started({**NVME, "ZERO_NVME_PATH": mount.folder}, steps)
    mount.end()
    running = job.process.poll() is None
    job.end(60)
    ok(running and weights(job) == plain, what, running, job.story())
    job = run({**NVME, "ZERO_NVME_PATH": mount.folder + "/gone"})
    ok(job.status not in (0, None)
       and f"{mount.folder}/gone (ZERO_NVME_PATH): No such file" in job.err
       and "mount what should be there" in job.err,
       "and the next one, which looks for a folder there, is refused with the remedy", job.story())


class Preallocated:
    """A file as the plugin's are: without a name, all of its blocks written, past
    the page cache."""
    def __init__(self, folder):
        self.fd = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_DIRECT, 0o600)
        self.page = mmap.mmap(-1, 4096)
        os.posix_fallocate(self.fd, 0, 4096)
        os.pwrite(self.fd, self.page, 0)
        os.fsync(self.fd)

    def takes_writes(self):
        try:
            return os.pwrite(self.fd, self.page, 0) == 4096
        except OSError:
            return False
        finally:
            os.close(self.fd)


def turned_read_only(steps, plain):
    """As a file system does by itself after an error of its disk. What has its blocks may still be
    written, by some kernels: a file like the plugin's tells."""
    what = "the disk becomes read-only while a job runs"
    image, folder = support.path("image-ro"), os.path.abspath(support.path("turned"))
    os.mkdir(folder)
    with open(image, "wb") as file:
        file.truncate(32 << 20)
    if os.geteuid() or not shutil.which("mkfs.ext4") or subprocess.run(
            ["sh", "-c",
             f"mkfs.ext4 -q {image} && mount -o loop,errors=remount-ro {image} {folder}"],
            capture_output=True).returncode:
        skip(what, "this user may not mount a file system")
        return
    try:
        device = os.stat(folder).st_dev
        name = os.path.basename(os.path.realpath(
            f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"))
        job = started({**NVME, "ZERO_NVME_PATH": folder}, steps)
        own = Preallocated(folder)
        running = job.process.poll() is None
        with open(f"/sys/fs/ext4/{name}/trigger_fs_error", "w", encoding="ascii") as file:
            file.write("1")
        goes_on = own.takes_writes()
        job.end(60)
        if goes_on:
            ok(running and weights(job) == plain,
               f"{what}, which this system's files survive: the same bits", running, job.story())
        else:
            ok(running and job.status not in (0, None) and weights(job) is None and re.search(
                r"nvme: (read|write|sync) of \d+ bytes at \d+ of the file in " +
                re.escape(folder) + ": ", job.err),
               f"{what}: it says where it was", running, job.story())
        job = run({**NVME, "ZERO_NVME_PATH": folder}, ranks=1)
        ok(job.status not in (0, None)
           and f"{folder} (ZERO_NVME_PATH): Read-only file system" in job.err
           and "remount,rw" in job.err,
           "and the next one is refused with the remedy", job.story())
    finally:
        subprocess.run(["umount", "-l", folder], check=False)


def filling(steps, plain, kind, mib):
    """Somebody else fills the disk: what a tier needs is reserved, for all of its writes."""
    what = f"a disk of {kind} is filled while a job runs: the same bits"
    if not shutil.which(f"mkfs.{kind}"):
        skip(what, f"mkfs.{kind} is not installed")
        return
    image = Image(f"filled-{kind}", kind, mib)
    if not image.there:
        skip(what, "this user may not mount a file system")
        return
    try:
        job = started({**NVME, "ZERO_NVME_PATH": image.folder}, steps)
        with open(os.path.join(image.folder, "rest"), "wb", buffering=0) as rest:
            try:
                while rest.write(b"x" * 65536):
                    pass
            except OSError as error:
                full = error.errno == errno.ENOSPC
        running = job.process.poll() is None
        job.end(60)
        ok(full and running and weights(job) == plain and not warnings(job), what, full, running,
           job.story())
    finally:
        image.end()


def main():
    bad_input()
    not_writable()
    job = run({}, ranks=1)
    plain = weights(job)
    ok(plain, "the example trains on the device", job.story())
    device_limit(job)
    tight()
    for tier in ("optimizer:cpu", "optimizer:nvme", "optimizer:device:0.2+cpu:0.4+nvme:0.4",
                 "parameters:cpu", "optimizer:nvme,gradients:nvme,parameters:nvme", "auto"):
        job = run({**NVME, "ZERO_OFFLOAD": tier} if "nvme" in tier else {"ZERO_OFFLOAD": tier},
                  ranks=1)
        told = [w for w in warnings(job) if "were asked for" not in w or ":0." not in tier]
        ok(weights(job) == plain and not told, f"{tier}: the same bits, no warning", job.story())
    job = run({"ZERO_OFFLOAD": "auto"}, ranks=1)
    ok("nothing, all of it fits there" in job.out and "A step should take" in job.out,
       "auto leaves all on the device, and foretells a step", job.story())
    job = run({**NVME, "ZERO_OFFLOAD_MEASURE": "0",
               "XDG_CACHE_HOME": support.path("no-cache")}, ranks=1)
    ok(weights(job) == plain and re.search(
        r"^There is no forecast of a step: .*ZERO_OFFLOAD_MEASURE is 0", job.out, re.M),
       "why there is no forecast is told", job.story())
    coarse()
    job = run({"ZERO_OFFLOAD": "optimizer:nvme"}, ranks=1)
    ok(weights(job) == plain, "a disk that nobody has named: the same bits", job.story())
    small_disk()
    small_files()
    folders()
    tight_disk(plain)
    shared()
    subvolumes()
    deep()
    without_uring(plain)
    little_locked_memory(plain)
    killed()
    killed_alone()
    injected(plain)
    copies_on_write(plain)
    two_jobs(plain)
    one_after_another()
    slow_disk(plain)
    small_pages()
    bytes_moved()
    fewer_bytes()
    flipped_bits()
    cut_file()
    long = 1000
    plain = weights(Job([GPT2, *MICRO[:-4], "--steps", long, "--eval-windows", 1], 1).end(60))
    vanishing(long, plain)
    unmounted(long, plain)
    turned_read_only(long, plain)
    filling(long, plain, "ext4", 32)
    filling(long, plain, "btrfs", 128)


main()
support.done()
