# SPDX-License-Identifier: Apache-2.0
"""Training steps with optimizer states elsewhere: the disk's part of them beside fio, in turn.

A round runs fio (as many jobs as ranks, reads and writes mixed, blocks of a tile) and zero-gpt2
with its states on the device, in the host's memory and on the disk. Printed are medians of the
rounds, and of ratios within a round:

    disk      bytes of an update, both ways, in its time; and that in percent of fio's
    update    on the disk, to the longer one of its bytes at fio's speed and its own kernels
    step      in the host's memory, to one on the device

Run in the build folder: make bench-offload, or

    python3 bench/offload.py [--preset 124M] [--ranks 2] [--stage 1] [--rounds 5] [--folder DIR]
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

BUILD = os.environ.get("ZERO_TEST_BUILD", os.getcwd())
MIB = 1 << 20


def arguments():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--preset", default="124M")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--stage", type=int, default=1)
    p.add_argument("--dtype", default="bf16")
    p.add_argument("--seq", type=int, default=256)
    p.add_argument("--steps", type=int, default=6, help="the first two do not count")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=4, help="of fio in each round")
    p.add_argument("--tile", default="4M", help="ZERO_TILE_BYTES, and fio's blocks")
    p.add_argument("--fio-bytes", type=int, default=1 << 30, help="file of each of fio's jobs")
    p.add_argument("--folder", default=os.environ.get("ZERO_NVME_PATH", "/var/tmp"))
    return p.parse_args()


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


def fio(o, fds):
    """Bytes a second, both ways together."""
    command = ["fio", "--output-format=json", "--ioengine=io_uring", "--direct=1", "--thread",
               "--rw=rw", "--rwmixread=50", f"--bs={o.tile}", "--iodepth=8", "--time_based",
               f"--runtime={o.seconds}", f"--size={o.fio_bytes}", "--fallocate=none",
               "--invalidate=0", "--randrepeat=0", "--norandommap", "--scramble_buffers=0",
               "--gtod_reduce=1", "--fixedbufs", "--registerfiles", "--group_reporting"]
    for i, fd in enumerate(fds):
        command += [f"--name=rank{i}", f"--filename=/proc/self/fd/{fd}"]
    out = subprocess.run(command, capture_output=True, text=True, pass_fds=fds, check=True).stdout
    job = json.loads(out[out.index("{"):])["jobs"][0]
    return job["read"]["bw_bytes"] + job["write"]["bw_bytes"]


def train(o, offload):
    """Medians of the steps: whole, update; its kernels; bytes of a rank's disk in an update."""
    with tempfile.TemporaryDirectory() as folder:
        log, text = os.path.join(folder, "log"), os.path.join(folder, "text")
        with open(text, "wb") as f:
            f.write(os.urandom(64 * o.seq).hex().encode())
        env = {**os.environ, "ZERO_OFFLOAD": offload, "ZERO_TILE_BYTES": o.tile,
               "ZERO_STAGE": str(o.stage), "ZERO_PLUGIN_PATH": os.path.join(BUILD, ".libs")}
        env.pop("ZERO_NVME_PATH", None)
        if "nvme" in offload:
            env["ZERO_NVME_PATH"] = o.folder
        subprocess.run([os.path.join(BUILD, "zero"), "run", "-n", str(o.ranks), "--bind", "--",
                        os.path.join(BUILD, "zero-gpt2"), "--preset", o.preset, "--dtype", o.dtype,
                        "--seq", str(o.seq), "--batch", "1", "--steps", str(o.steps), "--val", "0",
                        "--data", text, "--json", log], env=env, check=True,
                       stdout=subprocess.DEVNULL)
        with open(log) as f:
            records = [json.loads(line) for line in f]
    steps = [r for r in records if r["type"] == "step"][2:]
    kernels = [r["update_s"] for r in records if r["type"] == "forecast"]
    return {"step": statistics.median(s["time_s"] for s in steps),
            "update": statistics.median(s["optimizer_s"] for s in steps),
            "kernels": kernels[0] if kernels else 0,
            "bytes": steps[-1]["disk_read_bytes"] + steps[-1]["disk_written_bytes"]}


def main():
    o = arguments()
    if not shutil.which("fio"):
        sys.exit("bench/offload.py: fio is not installed")
    fds, rounds = fio_files(o), []
    print(f"GPT-2 {o.preset}, stage {o.stage}, {o.ranks} ranks, {o.dtype}, sequence {o.seq}, "
          f"tiles of {o.tile}, {o.folder}")
    for number in range(o.rounds):
        rate = fio(o, fds)
        here, cpu, disk = (train(o, w) for w in ("", "optimizer:cpu", "optimizer:nvme"))
        moved = disk["bytes"] * o.ranks
        r = {"fio": rate, "disk": moved / disk["update"], "of_fio": moved / disk["update"] / rate,
             "update": disk["update"], "kernels": disk["kernels"], "disk_s": moved / rate,
             "over": disk["update"] / max(moved / rate, disk["kernels"]),
             "here": here["step"], "cpu": cpu["step"], "cpu_over": cpu["step"] / here["step"],
             "nvme": disk["step"], "bytes": disk["bytes"]}
        rounds.append(r)
        print(f"  round {number + 1}: fio {rate / 1e9:.3f} GB/s, disk {r['disk'] / 1e9:.3f} GB/s "
              f"({100 * r['of_fio']:.0f} %); update {r['update']:.3f} s, at fio's speed "
              f"{r['disk_s']:.3f}, kernels {r['kernels']:.3f} ({r['over']:.3f}x); step on the "
              f"device {r['here']:.3f} s, host {r['cpu']:.3f} ({r['cpu_over']:.3f}x), disk "
              f"{r['nvme']:.3f}", flush=True)
    m = {k: statistics.median(r[k] for r in rounds) for k in rounds[0]}
    print(f"medians of {len(rounds)}: disk {100 * m['of_fio']:.1f} % of fio's {m['fio'] / 1e9:.3f} "
          f"GB/s; update {m['over']:.3f} x the longer of disk and kernels; step in the host's "
          f"memory {m['cpu_over']:.3f} x one on the device; {m['bytes'] / 1e6:.1f} MB of a rank's "
          "disk in a step")


if __name__ == "__main__":
    main()
