# SPDX-License-Identifier: Apache-2.0
"""What benchmarks of whole jobs share: their options, and zero-gpt2 with its logs."""
import argparse
import json
import os
import resource
import subprocess
import tempfile

BUILD = os.environ.get("ZERO_TEST_BUILD", os.getcwd())


def options(doc, **defaults):
    """A parser with the options of a job; `defaults`: of dtype, seq, batch, rounds…"""
    p = argparse.ArgumentParser(description=doc,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--preset", default="124M")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--stage", type=int, default=1)
    p.add_argument("--dtype", default="bf16")
    p.add_argument("--seq", type=int, default=256)
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--steps", type=int, default=8, help="the first two do not count")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--folder", default=os.environ.get("ZERO_NVME_PATH", "/var/tmp"))
    p.set_defaults(**defaults)
    return p


def train(o, env, *more):
    """With more options. The process that has ended, and if it did well the objects of its --json
    and of its --ops. done.kernel_bytes: what the kernel has seen of its disks."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        log, ops, text = (os.path.join(folder, name) for name in ("log", "ops", "text"))
        with open(text, "wb") as f:
            f.write(os.urandom(64 * o.seq).hex().encode())
        done = subprocess.run(
            [os.path.join(BUILD, "zero"), "run", "-n", str(o.ranks), "--bind", "--",
             os.path.join(BUILD, "zero-gpt2"), "--preset", o.preset, "--dtype", o.dtype,
             "--seq", str(o.seq), "--batch", str(o.batch), "--steps", str(o.steps), "--val", "0",
             "--data", text, "--json", log, "--ops", ops, *more],
            env={**env, "ZERO_STAGE": str(o.stage),
                 "ZERO_PLUGIN_PATH": os.path.join(BUILD, ".libs")},
            capture_output=True, text=True, check=False)
        found = []
        for path in (log, ops) if not done.returncode else ():
            with open(path, encoding="utf-8") as f:
                found.append([json.loads(line) for line in f])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    done.kernel_bytes = 512 * (after.ru_inblock - before.ru_inblock
                               + after.ru_oublock - before.ru_oublock)
    return (done, *found) if found else (done, None, None)


def no_disk(o, done, records):
    """Why the tier nvme of a job was none that is reached past the page cache; "": it was, or had
    no part in the job."""
    summary = next(r for r in records if r["type"] == "summary")
    # What the first step reads has never been written, which costs a file system no reading.
    unwritten = next(r for r in records if r["type"] == "step")["disk_read_bytes"]
    moved = o.ranks * (summary["disk_read_bytes"] - unwritten + summary["disk_written_bytes"])
    if moved and (done.kernel_bytes < 0.95 * moved or not summary["disk_direct"]):
        return f"{o.folder} is no disk that is reached past the page cache: the kernel has seen " \
               f"{done.kernel_bytes} of {moved} bytes\n{done.stderr}"
    return ""
