# SPDX-License-Identifier: Apache-2.0
"""Steps of GPT-2, and the disk, beside PyTorch and DeepSpeed."""
import os
import re
import statistics
import tempfile
from pathlib import Path

import programs

RANKS = 2


def plausible(losses, preset):
    """Fresh weights know nothing, so the first loss is close to the logarithm of the vocabulary."""
    first = 10.8 if preset == "124M" else 5.5
    if not abs(losses[0] - first) < 0.5 or not losses[-1] < losses[0]:
        raise programs.Failed(f"losses are {losses}")


def zero_step(scale, dtype, batch, stage, ranks=RANKS, **env):
    with tempfile.NamedTemporaryFile(suffix=".json") as log:
        command = ["./zero", "run", "-n", ranks, "--bind", "--", "./zero-gpt2", "--preset",
                   scale.preset, "--stage", stage, "--dtype", dtype, "--seq", scale.seq,
                   "--batch", batch, "--clip", 1, "--lr", "3e-4", "--warmup", 0, "--val", 0,
                   "--data", programs.TOP / "LICENSE", "--steps", scale.warmup + scale.steps,
                   "--json", log.name]
        before = programs.kernel_bytes()
        cpus = programs.cores()[:ranks]
        programs.run([(programs.pinned(cpus, command), programs.environment(**env))], scale.limit_s)
        seen = programs.kernel_bytes() - before
        found = programs.records(Path(log.name).read_text())
    steps = [r for r in found if r["type"] == "step"]
    # What the first step reads was never written, and costs a file system no reading.
    moved = ranks * (found[-1]["disk_read_bytes"] - steps[0]["disk_read_bytes"]
                     + found[-1]["disk_written_bytes"])
    if moved and (seen < 0.95 * moved or not found[-1]["disk_direct"]):
        raise programs.Failed(f"{env}: of {moved} bytes the kernel has seen {seen} at its disks: "
                              "that is the page cache, and no disk")
    plausible([s["loss"] for s in steps], scale.preset)
    seconds = statistics.median(s["time_s"] for s in steps[scale.warmup:])
    return {"": {"seconds": seconds, "also": {"wire_bytes": steps[-1]["wire_bytes"],
                                              "mapped_bytes": found[-1]["mapped_bytes"]}}}


def peer_step(scale, dtype, batch, how, ranks=RANKS):
    arguments = [programs.HERE / "step.py", "--how", how, "--text", programs.TOP / "LICENSE",
                 "--preset", scale.preset, "--dtype", dtype, "--seq", scale.seq, "--batch", batch,
                 "--warmup", scale.warmup, "--steps", scale.steps]
    found = programs.records(programs.torch_ranks(scale, ranks, arguments))[-1]
    plausible(found["losses"], scale.preset)
    return {"": found["median_s"]}


def has_bf16_products():
    """PyTorch's products in bf16 take three to fifty times as long as in fp32 where the processor
    has no instructions for them (Zen 3, 256 x 768 by 768 x 768: 6.6, 0.8 and 10.9 GFLOP/s forward
    and for both gradients, in fp32 54, 41 and 34), so nobody would train in bf16 there."""
    with open("/proc/cpuinfo", encoding="ascii") as file:
        return bool(re.search(r"\b(avx512_bf16|amx_bf16)\b", file.read()))


def step_kinds():
    """(dtype, batch, stages) of the steps that are compared."""
    if has_bf16_products():
        return ("bf16", 1, range(4)), ("bf16", 4, range(4)), ("fp32", 1, (3,))
    return ("fp32", 1, range(4)), ("fp32", 4, range(4))


def alone(scale, dtype, batch):
    """One rank, which shards nothing and sends nothing: how much of the others is computing."""
    return programs.Part(
        f"step-{dtype}-batch{batch}-alone", "steps",
        f"GPT-2 {scale.preset}, {dtype}, batch {batch}, one rank alone",
        [programs.Program("zero", "libzero", run=lambda: zero_step(scale, dtype, batch, 0, 1)),
         programs.Program("alone", "PyTorch", "pytorch",
                          lambda: peer_step(scale, dtype, batch, "alone", 1))])


def steps(scale):
    """Beside those of the same stage the fastest way to train what fits: DDP is in all parts."""
    peers = {
        0: [("ddp-autocast", "PyTorch DDP, fp32 parameters, autocast", "pytorch")],
        1: [("zero-redundancy", "PyTorch DDP + ZeroRedundancyOptimizer", "pytorch"),
            ("deepspeed-1", "DeepSpeed stage 1", "deepspeed")],
        2: [("fsdp2-keep", "PyTorch FSDP2, parameters kept", "pytorch"),
            ("deepspeed-2", "DeepSpeed stage 2", "deepspeed")],
        3: [("fsdp2", "PyTorch FSDP2", "pytorch"),
            ("deepspeed-3", "DeepSpeed stage 3", "deepspeed")],
    }
    if len(programs.cores()) < RANKS:
        return
    for dtype, batch, stages in step_kinds():
        yield alone(scale, dtype, batch)
        for stage in stages:
            others = [("ddp", "PyTorch DDP", "pytorch"),
                      *(p for p in peers[stage] if dtype == "bf16" or p[0] != "ddp-autocast")]
            work = (scale, dtype, batch)
            part = programs.Part(
                f"step-{dtype}-batch{batch}-stage{stage}", "steps",
                f"GPT-2 {scale.preset}, {dtype}, batch {batch}, stage {stage}",
                [programs.Program("zero", f"libzero stage {stage}",
                                  run=lambda w=work, s=stage: zero_step(*w, s))])
            for how, label, peer in others:
                part.programs.append(programs.Program(how, label, peer,
                                                      lambda w=work, h=how: peer_step(*w, h)))
            if stage == 3:
                part.programs.append(programs.Program(
                    "copied", "libzero stage 3, ZERO_MAP=0",
                    run=lambda w=work: zero_step(*w, 3, ZERO_MAP="0")))
            yield part


# ---- Outside the device --------------------------------------------------------------------------

BLOCK, DEPTH = 2 << 20, 16  # of a tile; ZERO_NVME_DEPTH's default; DeepSpeed has as many


def folder():
    """On a disk; of ZERO_NVME_PATH the first one."""
    return os.environ.get("ZERO_NVME_PATH", "/var/tmp").split(":")[0]


def zero_store(scale, op):
    """libzero's, fio's, and without checksums, in turn."""
    command = ["./zero", "bench", "offload", "--tier", "nvme", "--op", op, "--bytes", BLOCK,
               "--depth", DEPTH, "--size", scale.store, "--seconds", scale.store_s, "--reps", 3,
               "--warmup", 1, "--json"]
    env = programs.environment(ZERO_NVME_PATH=folder())
    found = programs.records_of(command, scale.limit_s, env)[0]
    if found["pages"] != found.get("limit_pages", found["pages"]):  # there may be no fio
        raise programs.Failed(f"fio's blocks lie in {found['limit_pages']} pages, ours in "
                              f"{found['pages']} ones")
    return found


def without_checksums(record):
    return {"": record["bytes"] / record["beside_GBps"] * 1e-9}


def peer_store(scale, op):
    """Its memory in huge pages, as the others' is."""
    command = ["python", programs.HERE / "aio.py", op, folder(), scale.store, BLOCK, DEPTH,
               3 * scale.store_s]
    env = programs.python_environment() | {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    found = programs.records_of(command, scale.limit_s, env)
    return {"": programs.checked(found[0])}


def offload(scale):
    """A disk's reads, writes, and both by turns; then steps with states elsewhere."""
    for op in ("read", "write", "mixed"):
        measured = programs.Measured(lambda op=op: {"": zero_store(scale, op)})
        title = f"a disk, {op}, blocks of {BLOCK >> 20} MiB, {DEPTH} under way"
        part = programs.Part(f"offload-{op}", "offload", title, [
            programs.Program("zero", "libzero nvme, with checksums", run=measured.zero),
            programs.Program("fio", "fio, io_uring", "fio", measured.limit),
            programs.Program("unsummed", "libzero nvme, without checksums",
                             run=lambda m=measured: without_checksums(m.run("beside")[""])),
        ])
        if op != "mixed":  # which DeepSpeed has no call for
            part.programs.append(programs.Program("aio", "DeepSpeed async_io (libaio)", "aio",
                                                  lambda op=op: peer_store(scale, op)))
        yield part
    if len(programs.cores()) < RANKS:
        return
    everything = "optimizer:cpu,gradients:cpu,parameters:cpu"
    for name, where, peers in (
            ("cpu", everything, [("fsdp2-cpu", "PyTorch FSDP2, CPUOffloadPolicy", "pytorch"),
                                 ("deepspeed-cpu", "DeepSpeed, optimizer and parameters on cpu",
                                  "deepspeed")]),
            ("nvme", "optimizer:nvme",
             [("deepspeed-nvme", "DeepSpeed, optimizer on nvme", "aio")])):
        env = {"ZERO_OFFLOAD": where}
        if name == "nvme":
            env["ZERO_NVME_PATH"] = folder()
        dtype = step_kinds()[0][0]
        part = programs.Part(
            f"offload-step-{name}", "offload",
            f"GPT-2 {scale.preset}, {dtype}, batch 1, stage 3, {name}",
            [programs.Program("zero", f"libzero, {where}",
                              run=lambda e=env, d=dtype: zero_step(scale, d, 1, 3, **e))])
        for how, label, peer in peers:
            part.programs.append(programs.Program(how, label, peer,
                                         lambda h=how, d=dtype: peer_step(scale, d, 1, h)))
        yield part
