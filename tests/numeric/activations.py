# SPDX-License-Identifier: Apache-2.0
"""zero-gpt2 with its blocks' activations outside the device: the same bits in every tier and stage,
with recomputation and without, with micro-batches and evaluations; and how much less the device
needs at its fullest point, by the plan."""
import os

import support
from support import TEXT, ok

LAYERS = 4  # of the preset
BASE = ["--preset", "tiny", "--data", TEXT, "--batch", 4, "--steps", 2, "--eval-windows", 4]
DISK = os.path.abspath(support.path("disk"))
os.mkdir(DISK)
TIERS = ("cpu", "nvme", "device:0.25+cpu:0.5+nvme:0.25")


def train(tier, ranks=1, options=(), prefetch="64K"):
    env = {"ZERO_PREFETCH_BYTES": prefetch}
    if tier:
        env["ZERO_OFFLOAD"] = f"activations:{tier}"
    if tier and "nvme" in tier:
        env["ZERO_NVME_PATH"] = DISK
    return support.train([*BASE, *options], ranks, env)


def result(job):
    """The weights and what was said of losses."""
    if job.status != 0 or not job.summary:
        return None
    return job.summary["weights_hash"], [(s["loss"], s["grad_norm"]) for s in job.steps]


def planned(job, tier):
    """Bytes of activations in a tier at its fullest point, by the plan."""
    return sum(row["planned"] for row in job.summary["memory"]
               if row["class"] == "activations" and row["tier"] == tier)


def bits(what, ranks, options, prefetch="64K"):
    plain = train(None, ranks, options, prefetch)
    want = result(plain)
    if not ok(want, f"{what}: it trains", plain.story()):
        return
    for tier in TIERS:
        job = train(tier, ranks, options, prefetch)
        ok(result(job) == want, f"{what}, activations:{tier}: the same bits", job.story(), want,
           result(job))


def peak(what, options):
    """Two blocks' activations are on the device at a time: the one that is in use, and one that
    leaves or comes back."""
    plain, cpu, nvme = (train(tier, 1, options) for tier in (None, "cpu", "nvme"))
    if not ok(result(plain) and result(plain) == result(cpu) == result(nvme),
              f"{what}: the same bits in every tier", plain.story(), cpu.story(), nvme.story()):
        return
    away = planned(cpu, "cpu")
    here, there = planned(plain, "device"), planned(cpu, "device")
    ok(away > 0 and away == planned(nvme, "nvme") and not planned(plain, "cpu"),
       f"{what}: {away} bytes of activations leave the device")
    ok(here - there >= away * (LAYERS - 2) // LAYERS and planned(nvme, "device") == there,
       f"{what}: at most {there} bytes of activations are on the device at once instead of {here}",
       f"a block has {away // LAYERS}")
    ok(planned(nvme, "cpu") <= 2 * away // LAYERS,
       f"{what}: a disk needs {planned(nvme, 'cpu')} bytes of the host's memory")


def main():
    peak("saved", [])
    peak("recomputed", ["--recompute"])
    bits("stage 0, 1 rank", 1, ["--stage", 0, "--accum", 3])
    bits("stage 1, 2 ranks", 2, ["--stage", 1, "--recompute"])
    bits("stage 2, 2 ranks, micro-batches", 2, ["--stage", 2, "--accum", 3])
    bits("stage 3, 2 ranks, nothing ahead", 2, ["--stage", 3, "--eval-every", 1], "0")
    bits("stage 3, 2 ranks, bf16, much ahead", 2, ["--stage", 3, "--dtype", "bf16"], "128M")
    ok(not (left := support.left_in(DISK)), "nothing stays on the disk", left)


main()
support.done()
