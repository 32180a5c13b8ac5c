# SPDX-License-Identifier: Apache-2.0
"""The same bits whichever transport moves the data: stages 0 to 3 on 2, 3 and 4 ranks.

Of UCX and libfabric both shared memory and tcp. A plugin that was not built is left out.
"""
import os

import support
from support import ok, skip

STEPS = 30
TRANSPORTS = {
    "ucx": {"ZERO_COMM": "ucx"},
    "ucx over tcp": {"ZERO_COMM": "ucx", "UCX_TLS": "tcp"},
    "ofi": {"ZERO_COMM": "ofi"},
    "ofi over tcp": {"ZERO_COMM": "ofi", "ZERO_OFI_PROVIDER": "tcp"},
}


def is_built(name):
    return os.path.exists(os.path.join(support.BUILD, ".libs", f"zero-comm-{name}.so"))


def result(stage, ranks, env):
    """Hash of the weights, all losses and norms; or the story of the job."""
    job = support.train(["--preset", "micro", "--data", support.TEXT, "--val", 0, "--batch", 1,
                         "--steps", STEPS, "--clip", 1, "--dtype", "bf16", "--stage", stage],
                        ranks, {"ZERO_TIMEOUT": "60", **env}, 120)
    if job.status != 0 or not job.summary or len(job.steps) != STEPS:
        return job.story()
    return [job.summary["weights_hash"], [(s["loss"], s["grad_norm"]) for s in job.steps]]


for n in (3,) if support.SHORT else (2, 3, 4):
    wanted = [result(stage, n, {"ZERO_COMM": "shm"}) for stage in range(4)]
    ok(isinstance(wanted[0], list) and all(w == wanted[0] for w in wanted),
       f"shm, {n} ranks: the same bits in all stages", *wanted)
    for name, env in TRANSPORTS.items():
        if not is_built(env["ZERO_COMM"]):
            skip(f"{name}, {n} ranks", "the plugin was not built: its library is missing")
            continue
        got = [result(stage, n, env) for stage in range(4)]
        ok(got == wanted, f"{name}, {n} ranks: the same bits as shm in all stages",
           *(f"stage {s}: {g}" for s, g in enumerate(got) if g != wanted[s]))
support.done()
