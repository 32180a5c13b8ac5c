# SPDX-License-Identifier: Apache-2.0
"""Tokens a second of GPT-2's training steps with PyTorch on one GPU, beside zero-gpt2's.

    torch_step.py FOLDER PRESET BATCH SEQ STEPS HOW...     (FOLDER: where gpt2.py is)

bf16 by autocast, fused AdamW, clipped gradients; HOW: eager, compiled. Prints NAME TOKENS_PER_S, or
a reason that starts with "no".
"""
import os
import statistics
import sys

# The compiler's cache is of no use to anybody later.
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", "/tmp/zero-torch-cache")


def measure(torch, model, batch, seq, steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), fused=True)
    tokens = torch.randint(0, 256, (batch, seq))
    targets = torch.randint(0, 256, (batch, seq))
    times = []
    for step in range(steps + 5):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        end.record()
        torch.cuda.synchronize()
        if step >= 5:
            times.append(start.elapsed_time(end) * 1e-3)
    return batch * seq / statistics.median(times)


def main():
    folder, preset, batch, seq, steps = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
    sys.path.insert(0, folder)
    try:
        import torch
    except ImportError as e:
        print(f"no PyTorch: {e}")
        return
    if not torch.cuda.is_available():
        print("no GPU that PyTorch can use")
        return
    import gpt2

    torch.set_default_device("cuda")
    torch.manual_seed(1)
    model = gpt2.GPT2(preset)
    print(f"version {torch.__version__}", flush=True)
    for how in sys.argv[6:]:
        step = torch.compile(model) if how == "compiled" else model
        print(f"{how} {measure(torch, step, batch, seq, steps):.0f}", flush=True)


if __name__ == "__main__":
    main()
