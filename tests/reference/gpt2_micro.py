#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reference run of the GPT-2 example's preset `micro`, by PyTorch on the CPU.

    gpt2_micro.py DATA > gpt2_micro.json

Trains 100 steps in float64 and in float32 from the weights and on the samples that zero-gpt2 takes
for the settings below (its generators are written down here once more), and prints the losses and
final weights in float64 and how far PyTorch's own float32 run is away. Weights are given as 64
values and four sums with random signs of each tensor. The biases of the keys are left out: their
gradients are zero in exact arithmetic, so they follow rounding errors.

The batch is large enough to be well conditioned: with 4 or 8 sequences a step, some seeds meet a
sample (a row of blanks) at which any float32 run, PyTorch's too, moves away by 1e-5 in one step.
"""
import json
import math
import sys

import numpy
import torch
import torch.nn.functional as F

SETTINGS = {"layers": 2, "heads": 2, "width": 64, "context": 32, "vocab": 256, "batch": 16,
            "seq": 32, "steps": 100, "lr": 1e-3, "warmup": 10, "beta1": 0.9, "beta2": 0.95,
            "eps": 1e-8, "weight_decay": 0.1, "clip": 1.0, "seed": 1}
S = type("S", (), SETTINGS)
N_VALUES, N_SUMS = 64, 4

# ---- The generators of examples/gpt2/random.h ----------------------------------------------------

U = numpy.uint64
GOLDEN = 0x9e3779b97f4a7c15
MASK = 2**64 - 1
STREAM_DATA, STREAM_WEIGHTS, STREAM_SIGNS = 1, 1000, 2000


def mix(z):
    z = (z ^ (z >> U(30))) * U(0xbf58476d1ce4e5b9)
    z = (z ^ (z >> U(27))) * U(0x94d049bb133111eb)
    return z ^ (z >> U(31))


def mix_int(z):
    return int(mix(numpy.array([z & MASK], dtype=U))[0])


def key(seed, stream):
    return mix_int(mix_int(seed + GOLDEN) + stream * 0xd1342543de82ef95)


def random(k, n):
    counters = numpy.arange(n, dtype=U)
    return mix(U(k) + counters * U(GOLDEN))


def below(k, counter, n):
    return (mix_int(k + counter * GOLDEN) * n) >> 64


def horner(coefficients, x):
    y = numpy.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        y = y * x + c
    return y


def logarithm(x):
    m, e = numpy.frexp(x)
    low = m < 0.70710678118654752
    m = numpy.where(low, m * 2, m)
    e = numpy.where(low, e - 1, e)
    s = (m - 1) / (m + 1)
    total = numpy.zeros_like(x)
    for k in range(21, 0, -2):
        total = total * (s * s) + 1.0 / k
    return 2 * s * total + e * 0.69314718055994531


def normal(k, n):
    u = ((random(k, n) >> U(12)).astype(numpy.float64) + 0.5) * 2.0**-52
    q = u - 0.5
    a = horner([-3.969683028665376e+01, 2.209460984245205e+02, -2.759285104469687e+02,
                1.383577518672690e+02, -3.066479806614716e+01, 2.506628277459239e+00], q * q)
    b = horner([-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02,
                6.680131188771972e+01, -1.328068155288572e+01, 1.0], q * q)
    x = a * q / b
    tail = (u < 0.02425) | (u > 1 - 0.02425)
    t = numpy.sqrt(-2 * logarithm(numpy.where(u < 0.5, u, 1 - u)[tail]))
    a = horner([-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                -2.549732539343734e+00, 4.374664141464968e+00, 2.938163982698783e+00], t)
    b = horner([7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                3.754408661907416e+00, 1.0], t)
    x[tail] = numpy.where(u[tail] < 0.5, a / b, -(a / b))
    return x


# ---- The model -----------------------------------------------------------------------------------

def shapes():
    w = S.width
    yield "wte.weight", (S.vocab, w), 0.02
    yield "wpe.weight", (S.context, w), 0.02
    residual = float(numpy.float32(0.02) / numpy.sqrt(numpy.float32(2 * S.layers)))
    for i in range(S.layers):
        h = f"h.{i}."
        yield h + "ln_1.weight", (w,), None
        yield h + "ln_1.bias", (w,), 0
        yield h + "attn.c_attn.weight", (3 * w, w), 0.02
        yield h + "attn.c_attn.bias", (3 * w,), 0
        yield h + "attn.c_proj.weight", (w, w), residual
        yield h + "attn.c_proj.bias", (w,), 0
        yield h + "ln_2.weight", (w,), None
        yield h + "ln_2.bias", (w,), 0
        yield h + "mlp.c_fc.weight", (4 * w, w), 0.02
        yield h + "mlp.c_fc.bias", (4 * w,), 0
        yield h + "mlp.c_proj.weight", (w, 4 * w), residual
        yield h + "mlp.c_proj.bias", (w,), 0
    yield "ln_f.weight", (w,), None
    yield "ln_f.bias", (w,), 0


def initial(dtype):
    parameters = {}
    for index, (name, shape, deviation) in enumerate(shapes()):
        n = math.prod(shape)
        if deviation is None:
            values = numpy.ones(n)
        elif deviation == 0:
            values = numpy.zeros(n)
        else:
            values = (normal(key(S.seed, STREAM_WEIGHTS + index), n)
                      * float(numpy.float32(deviation)))
        values = values.astype(numpy.float32).reshape(shape)
        parameters[name] = torch.tensor(values, dtype=dtype, requires_grad=True)
    return parameters


def loss_of(p, tokens, targets):
    w, n = S.width, tokens.shape[1]
    x = p["wte.weight"][tokens] + p["wpe.weight"][:n]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    for i in range(S.layers):
        def t(name):
            return p[f"h.{i}.{name}"]
        y = F.layer_norm(x, (w,), t("ln_1.weight"), t("ln_1.bias"), 1e-5)
        q, k, v = F.linear(y, t("attn.c_attn.weight"), t("attn.c_attn.bias")).split(w, dim=2)
        q, k, v = (z.view(-1, n, S.heads, w // S.heads).transpose(1, 2) for z in (q, k, v))
        a = (q @ k.transpose(2, 3)) / math.sqrt(w // S.heads)
        y = a.masked_fill(~mask, float("-inf")).softmax(dim=3) @ v
        y = y.transpose(1, 2).reshape(-1, n, w)
        x = x + F.linear(y, t("attn.c_proj.weight"), t("attn.c_proj.bias"))
        y = F.layer_norm(x, (w,), t("ln_2.weight"), t("ln_2.bias"), 1e-5)
        y = F.gelu(F.linear(y, t("mlp.c_fc.weight"), t("mlp.c_fc.bias")), approximate="tanh")
        x = x + F.linear(y, t("mlp.c_proj.weight"), t("mlp.c_proj.bias"))
    x = F.layer_norm(x, (w,), p["ln_f.weight"], p["ln_f.bias"], 1e-5)
    logits = F.linear(x, p["wte.weight"])
    return F.cross_entropy(logits.view(-1, S.vocab), targets.reshape(-1))


def learning_rate(step):
    if step < S.warmup:
        return S.lr * (step + 1) / S.warmup
    done = (step - S.warmup) / (S.steps - S.warmup)
    return 0.1 * S.lr + 0.45 * S.lr * (1 + math.cos(math.pi * done))


def train(data, dtype):
    p = initial(dtype)
    optimizer = torch.optim.AdamW(
        [{"params": [x for x in p.values() if x.dim() == 2], "weight_decay": S.weight_decay},
         {"params": [x for x in p.values() if x.dim() == 1], "weight_decay": 0.0}],
        betas=(S.beta1, S.beta2), eps=S.eps, foreach=False)
    k = key(S.seed, STREAM_DATA)
    losses = []
    for step in range(S.steps):
        starts = [below(k, step * S.batch + i, len(data) - S.seq) for i in range(S.batch)]
        rows = torch.tensor([list(data[s:s + S.seq + 1]) for s in starts])
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        optimizer.zero_grad()
        loss = loss_of(p, rows[:, :-1], rows[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(p.values(), S.clip)
        optimizer.step()
        losses.append(loss.item())
    return losses, {name: x.detach().double().reshape(-1).numpy() for name, x in p.items()}


def without_key_bias(name, x):
    if name.endswith("c_attn.bias"):
        x = x.copy()
        x[S.width:2 * S.width] = 0
    return x


def sums(index, x):
    bits = random(key(S.seed, STREAM_SIGNS + index), len(x))
    return [float((numpy.where((bits >> U(k)) & U(1), 1.0, -1.0) * x).sum()) for k in range(N_SUMS)]


def main():
    torch.set_num_threads(1)
    data = open(sys.argv[1], "rb").read()
    losses, weights = train(data, torch.float64)
    losses32, weights32 = train(data, torch.float32)
    tensors = []
    for index, (name, shape, _) in enumerate(shapes()):
        x, y = (without_key_bias(name, w[name]) for w in (weights, weights32))
        at = [i * len(x) // N_VALUES for i in range(N_VALUES)]
        tensors.append({
            "name": name, "elements": len(x),
            "values": [float(f"{x[i]:.12g}") for i in at],
            "sums": [float(f"{v:.12g}") for v in sums(index, x)],
            "fp32_value_error": float(f"{numpy.abs(x - y).max():.3g}"),
            "fp32_sum_error": float(
                f"{max(abs(a - b) for a, b in zip(sums(index, x), sums(index, y))):.3g}"),
        })
    json.dump({"made_by": f"tests/reference/gpt2_micro.py, PyTorch {torch.__version__}",
               "data_bytes": len(data), "settings": SETTINGS,
               "losses": [float(f"{x:.12g}") for x in losses],
               "fp32_loss_errors": [float(f"{abs(a - b):.3g}") for a, b in zip(losses, losses32)],
               "tensors": tensors}, sys.stdout, indent=0)
    print()


main()
