# SPDX-License-Identifier: Apache-2.0
"""Updates by AdamW, beside those of DeepSpeed and PyTorch."""
import programs

GRADIENTS = {"bf16": "bf16", "fp32": "f32"}  # as the peers' programs and as zero calls them


def zero_optimizer(scale, threads, grad):
    command = ["./zero", "bench", "optimizer", "--params", scale.params, "--dtype", "bf16",
               "--grad-dtype", GRADIENTS[grad], "--threads", threads, "--reps", 7, "--json"]
    env = programs.environment(ZERO_THREADS=str(threads))
    found = programs.records_of(command, scale.limit_s, env, programs.cores()[:threads])
    # Of its records the one that does what the peers do: no norm of the gradient.
    return {"": next(r for r in found if r["op"] == "adamw")}


def peer_optimizer(scale, threads, grad, variant):
    command = ["python", programs.HERE / "adamw.py", variant, scale.params, scale.tensors, grad,
               threads, 7]
    env = programs.python_environment(OMP_NUM_THREADS=str(threads))
    found = programs.records_of(command, scale.limit_s, env, programs.cores()[:threads])
    return {"": programs.checked(found[0])}


def optimizer(scale):
    peers = (
        ("deepspeed", "DeepSpeed CPUAdam, fp32 master copy", "deepspeed"),
        ("deepspeed-direct", "DeepSpeed CPUAdam, no master copy", "deepspeed"),
        ("torch-fused", "PyTorch AdamW, fused", "pytorch"),
        ("torch", "PyTorch AdamW", "pytorch"),
    )
    for threads in range(1, len(programs.cores()) + 1):
        for grad in GRADIENTS:
            work = (scale, threads, grad)
            measured = programs.Measured(lambda w=work: zero_optimizer(*w))
            part = programs.Part(
                f"adamw-{threads}-{grad}", "optimizer",
                f"AdamW, gradients in {grad}, {threads} thread{'s' * (threads > 1)}",
                [programs.Program("zero", "libzero", run=measured.zero),
                 programs.Program("limit", "a plain loop, in turn with libzero",
                                  run=measured.limit)])
            for variant, label, peer in peers:
                if variant != "deepspeed-direct" or grad == "bf16":
                    part.programs.append(programs.Program(
                        variant, label, peer, lambda w=work, v=variant: peer_optimizer(*w, v)))
            yield part
