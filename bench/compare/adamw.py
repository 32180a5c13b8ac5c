# SPDX-License-Identifier: Apache-2.0
"""AdamW steps of PyTorch and DeepSpeed on the processor; one JSON record.

    adamw.py VARIANT PARAMS TENSORS GRADIENT THREADS REPS

With COMPARE_SPOIL=1 in its environment one parameter is changed before the check.

VARIANT is torch, torch-fused, deepspeed or deepspeed-direct; GRADIENT is fp32 or bf16. All but
deepspeed-direct have what libzero has: bf16 parameters, and an fp32 master copy, momentum and
variance. A step turns the gradients into fp32 where they are not, updates the master copy and
rounds it to bf16. deepspeed-direct keeps no master copy: it updates bf16 parameters in place from
gradients in bf16, with fp32 momentum and variance, and moves fewer bytes for less precise results.
"""
import json
import os
import statistics
import sys
import time

import torch

HYPER = {"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}


def optimizer_of(variant, tensors):
    if variant.startswith("deepspeed"):
        from deepspeed.ops.adam import DeepSpeedCPUAdam
        return DeepSpeedCPUAdam(tensors, adamw_mode=True, fp32_optimizer_states=True, **HYPER)
    return torch.optim.AdamW(tensors, fused=variant == "torch-fused", **HYPER)


def values(n):
    return torch.linspace(-1, 1, n)


def gradient(n):
    return torch.linspace(0.5, -0.25, n)


class Bench:
    def __init__(self, variant, params, n_tensors, grad_dtype):
        self.size = params // n_tensors
        self.direct = variant == "deepspeed-direct"
        self.params = [values(self.size).bfloat16() for _ in range(n_tensors)]
        self.grads = [gradient(self.size).to(grad_dtype) for _ in range(n_tensors)]
        self.masters = self.params if self.direct else [values(self.size)
                                                        for _ in range(n_tensors)]
        for master in self.masters:
            master.requires_grad_()
        self.convert = not self.direct and grad_dtype != torch.float32
        for master, grad in zip(self.masters, self.grads):
            master.grad = torch.zeros_like(master) if self.convert else grad
        self.optimizer = optimizer_of(variant, self.masters)

    def step(self):
        with torch.no_grad():
            if self.convert:
                for master, grad in zip(self.masters, self.grads):
                    master.grad.copy_(grad)
            self.optimizer.step()
            if not self.direct:
                for param, master in zip(self.params, self.masters):
                    param.copy_(master)

    def correct(self):
        """After one step from zero states Adam has moved by lr in the direction of the gradient,
        which is a thousand times more than the errors that are let pass."""
        n, lr = self.size, HYPER["lr"]
        before = values(n).bfloat16().double() if self.direct else values(n).double()
        grad = self.grads[0].double()  # alike in all tensors
        want = before * (1 - lr * HYPER["weight_decay"]) - lr * grad / (grad.abs() + HYPER["eps"])
        return all(self.is_near(want, master.detach(), param.detach())
                   for master, param in zip(self.masters, self.params))

    def is_near(self, want, master, param):
        if self.direct:
            # One unit in the last place; near 0 that is less than the step.
            return bool(((param.double() - want).abs() <= want.abs() * 2**-7 + 1e-6).all())
        error = (master.double() - want).abs().max().item()
        return error <= 1e-6 and bool(torch.equal(param, master.bfloat16()))


def main():
    variant, params, n_tensors, grad, threads, reps = sys.argv[1:]
    torch.set_num_threads(int(threads))
    dtypes = {"fp32": torch.float32, "bf16": torch.bfloat16}
    bench = Bench(variant, int(params), int(n_tensors), dtypes[grad])
    bench.step()
    if os.environ.get("COMPARE_SPOIL") == "1":
        with torch.no_grad():
            bench.params[0][-1] += 1
    good = bench.correct()
    bench.step()
    times = []
    for _ in range(int(reps)):
        start = time.perf_counter()
        bench.step()
        times.append(time.perf_counter() - start)
    median = statistics.median(times)
    n = bench.size * int(n_tensors)
    print(json.dumps({
        "bench": "optimizer", "op": "adamw", "variant": variant, "params": n, "grad_dtype": grad,
        "threads": int(threads), "median_s": median, "ns_per_param": median / n * 1e9,
        "check": "ok" if good else "wrong",
    }))


if __name__ == "__main__":
    main()
