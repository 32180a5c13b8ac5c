# SPDX-License-Identifier: Apache-2.0
"""Training steps of GPT-2 with PyTorch or DeepSpeed on the processor; rank 0 writes a JSON record.

    step.py --how alone|ddp|ddp-autocast|zero-redundancy|fsdp2|fsdp2-keep|fsdp2-cpu|deepspeed-1
                  |deepspeed-2|deepspeed-3|deepspeed-cpu|deepspeed-nvme
            [--preset 124M] [--dtype bf16] [--seq 256] [--batch 1] [--warmup 2] [--steps 3]
            --text FILE

One process per rank, RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in the environment. With bf16
all have bf16 parameters and gradients on the wire and fp32 master copies, momentum and variance,
as zero-gpt2 does; but ddp-autocast, the usual recipe, keeps parameters, gradients and what goes
over the wire in fp32 and multiplies in bf16. `alone` is the bare model on one rank, the group being
that rank. The norm of the gradient is clipped to 1. A step is timed on rank 0 from the tokens to
the end of the update, with the sum of the losses over the ranks. PyTorch runs eagerly, as it does
unless told otherwise: torch.compile() is not tried.
"""
import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist

import gpt2

HYPER = {"lr": 3e-4, "betas": (0.9, 0.95), "eps": 1e-8}
WEIGHT_DECAY = 0.1
CLIP = 1.0


class MasterAdamW(torch.optim.Optimizer):
    """Fused AdamW on fp32 copies of low-precision parameters, which get the rounded results."""

    def __init__(self, params, **hyper):
        super().__init__(params, hyper)
        self.copies = [[(p, p.detach().float()) for p in group["params"]]
                       for group in self.param_groups]
        for copies in self.copies:
            for _, copy in copies:
                copy.grad = torch.zeros_like(copy)  # kept: nothing is allocated in a step
        self.inner = torch.optim.AdamW(
            [{"params": [c for _, c in copies], "weight_decay": group["weight_decay"]}
             for copies, group in zip(self.copies, self.param_groups)], fused=True, **HYPER)

    @torch.no_grad()
    def step(self, closure=None):
        for copies in self.copies:
            for p, copy in copies:
                copy.grad.copy_(p.grad)
        self.inner.step()
        for copies in self.copies:
            for p, copy in copies:
                p.copy_(copy)


def adamw(low_precision):
    if low_precision:
        return MasterAdamW, HYPER
    return torch.optim.AdamW, HYPER | {"fused": True}


class Torch:
    """A model, what clips its gradients, and an optimizer."""

    def __init__(self, model, optimizer, autocast=False):
        self.model, self.optimizer, self.autocast = model, optimizer, autocast

    def step(self, tokens, targets):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            loss = self.model(tokens, targets)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss, norm


def make_alone(model, dtype):
    model = model.to(dtype)
    kind, hyper = adamw(dtype != torch.float32)
    return Torch(model, kind(gpt2.groups(model.parameters(), WEIGHT_DECAY), **hyper))


def make_ddp(model, dtype, sharded_states, autocast=False):
    from torch.nn.parallel import DistributedDataParallel
    dtype = torch.float32 if autocast else dtype
    model = model.to(dtype)
    ddp = DistributedDataParallel(model, gradient_as_bucket_view=True)
    kind, hyper = adamw(dtype != torch.float32)
    params = gpt2.groups(ddp.parameters(), WEIGHT_DECAY)
    if not sharded_states:
        return Torch(ddp, kind(params, **hyper), autocast)
    from torch.distributed.optim import ZeroRedundancyOptimizer
    return Torch(ddp, ZeroRedundancyOptimizer(params, optimizer_class=kind,
                                              parameters_as_bucket_view=True, **hyper))


def make_fsdp2(model, dtype, keep, offload):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import (CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy,
                                        fully_shard)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    where = CPUOffloadPolicy(pin_memory=False) if offload else OffloadPolicy()
    policy = MixedPrecisionPolicy(param_dtype=dtype if dtype != torch.float32 else None)
    for block in model.h:
        fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=not keep,
                    offload_policy=where)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=False,
                offload_policy=where)
    return Torch(model, torch.optim.AdamW(gpt2.groups(model.parameters(), WEIGHT_DECAY),
                                          fused=True, **HYPER))


class DeepSpeed:
    def __init__(self, model, dtype, stage, batch, offload=None):
        import deepspeed
        from deepspeed.ops.adam import DeepSpeedCPUAdam
        config = {"train_micro_batch_size_per_gpu": batch, "gradient_clipping": CLIP,
                  "zero_optimization": {"stage": stage}, "steps_per_print": 1 << 30,
                  "bf16": {"enabled": dtype == torch.bfloat16}}
        if offload == "cpu":
            config["zero_optimization"] |= {"offload_optimizer": {"device": "cpu"},
                                            "offload_param": {"device": "cpu"}}
        elif offload == "nvme":
            folder = os.environ.get("ZERO_NVME_PATH", "/var/tmp").split(":")[0]
            config["zero_optimization"] |= {"offload_optimizer": {
                "device": "nvme", "nvme_path": folder, "pipeline_read": True,
                "pipeline_write": True}}
            config["aio"] = {"block_size": 4 << 20, "queue_depth": 16, "overlap_events": True}
        optimizer = DeepSpeedCPUAdam(gpt2.groups(model.parameters(), WEIGHT_DECAY),
                                     adamw_mode=True, **HYPER)
        self.engine = deepspeed.initialize(model=model, optimizer=optimizer, config=config,
                                           dist_init_required=False)[0]

    def step(self, tokens, targets):
        loss = self.engine(tokens, targets)
        self.engine.backward(loss)
        self.engine.step()
        return loss, self.engine.get_global_grad_norm()


def make(options, dtype):
    torch.manual_seed(1)
    model = gpt2.GPT2(options.preset)
    if options.how == "alone":
        return make_alone(model, dtype)
    if options.how in ("ddp", "ddp-autocast", "zero-redundancy"):
        return make_ddp(model, dtype, options.how == "zero-redundancy",
                        options.how == "ddp-autocast" and dtype != torch.float32)
    if options.how.startswith("fsdp2"):
        return make_fsdp2(model, dtype, options.how == "fsdp2-keep", options.how == "fsdp2-cpu")
    if options.how in ("deepspeed-cpu", "deepspeed-nvme"):
        return DeepSpeed(model, dtype, 3, options.batch, options.how[10:])
    if options.how.startswith("deepspeed-"):
        return DeepSpeed(model, dtype, int(options.how[-1]), options.batch)
    raise SystemExit(f"step.py: --how {options.how} is unknown")


def batches(options):
    """Random windows of a text, a byte a token, different ones on each rank."""
    with open(options.text, "rb") as file:
        text = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
    random = torch.Generator().manual_seed(1 + dist.get_rank())
    while True:
        starts = torch.randint(len(text) - options.seq, (options.batch,), generator=random)
        windows = torch.stack([text[s:s + options.seq + 1] for s in starts])
        yield windows[:, :-1].contiguous(), windows[:, 1:].contiguous()


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--how", required=True)
    p.add_argument("--text", required=True)
    p.add_argument("--preset", default="124M")
    p.add_argument("--dtype", choices=("fp32", "bf16"), default="bf16")
    for name, value in (("seq", 256), ("batch", 1), ("warmup", 2), ("steps", 3)):
        p.add_argument("--" + name, type=int, default=value)
    return p.parse_args()


def main():
    options = arguments()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    trainer = make(options, {"fp32": torch.float32, "bf16": torch.bfloat16}[options.dtype])
    data, times, losses, norms = batches(options), [], [], []
    for _ in range(options.warmup + options.steps):
        tokens, targets = next(data)
        start = time.perf_counter()
        loss, norm = trainer.step(tokens, targets)
        total = loss.detach().double()
        dist.all_reduce(total)
        times.append(time.perf_counter() - start)
        losses.append(total.item() / dist.get_world_size())
        norms.append(float(norm))
    if dist.get_rank() == 0:
        print(json.dumps({
            "bench": "step", "how": options.how, "dtype": options.dtype,
            "ranks": dist.get_world_size(), "batch": options.batch, "seq": options.seq,
            "median_s": statistics.median(times[options.warmup:]),
            "times_s": times, "losses": losses, "norms": norms}), flush=True)
    dist.barrier()
    os._exit(0)  # what a peer does at its end is not measured


if __name__ == "__main__":
    main()
