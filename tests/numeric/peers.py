# SPDX-License-Identifier: Apache-2.0
"""The programs of bench/compare at their smallest: each gives a time for everything that it is
asked for. libzero's own and the bare exchanges always run, a peer where it is installed: Open MPI
and MPICH where their compilers are, Python's where bench/compare/setup has put them."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import support
from support import diag, ok, skip

os.environ.setdefault("ZERO_TEST_BUILD", support.BUILD)
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(support.TOP, "bench", "compare"))
import programs  # noqa: E402
import report  # noqa: E402
import training  # noqa: E402
from parts import all_parts  # noqa: E402

ONE = ["all_gather-2", "reduce_scatter-2-fresh", "all_reduce-2", "transport-ucx-shm",
       "transport-ofi-tcp", "adamw-1-bf16",
       f"step-{training.step_kinds()[0][0]}-batch1-stage3",
       f"step-{training.step_kinds()[0][0]}-batch1-alone", "offload-step-cpu",
       "limits-coll-2", "limits-coll-2-fresh", "limits-optimizer-1", "limits-step", "limits-arena"]
SCALE = programs.Scale(**{**vars(programs.QUICK), "sizes": (4096, 65536), "params": 100_000,
                          "arena": (100,), "limit_s": 120})

RINGS = {"ucp_ring": "zero-exchange-ucx", "ofi_ring": "zero-exchange-ofi"}


def install():
    """What is there, in the place where setup would put it."""
    installed = programs.OUT
    programs.OUT = pathlib.Path(support.path("compare"))
    peers = programs.OUT / "peers"
    peers.mkdir(parents=True)
    source = os.path.join(support.TOP, "bench", "compare", "mpi_coll.c")
    for name in ("openmpi", "mpich"):
        compiler = f"mpicc.{name}"
        if not shutil.which(compiler) or not shutil.which(f"mpirun.{name}"):
            continue
        # Debian's compiler comes with mpirun, what it compiles with is a package of its own.
        header = subprocess.run([compiler, "-E", "-x", "c", "-"], input="#include <mpi.h>\n",
                                capture_output=True, text=True)
        if header.returncode:
            diag(f"{name}: {header.stderr.strip()}")
            continue
        command = [compiler, "-std=gnu11", "-O2", "-Wall", "-Werror", "-o",
                   str(programs.OUT / f"mpi_coll.{name}"), source]
        made = subprocess.run(command, capture_output=True, text=True)
        ok(made.returncode == 0, f"mpi_coll.c with {name}", made.stderr)
        (peers / name).write_text("here")
    for name, program in RINGS.items():
        if (programs.BUILD / program).exists():
            (peers / name).write_text("here")
    if (installed / "venv").exists():
        for name in ("venv", "extensions"):
            (programs.OUT / name).symlink_to(installed / name)
        for name in ("pytorch", "deepspeed", "aio"):
            if (installed / "peers" / name).exists():
                shutil.copy(installed / "peers" / name, peers / name)


def missing_of(part, program):
    """What it needs and this machine or this build does not have."""
    if not programs.installed(program.peer):
        return program.peer
    wire = part.name.split("-")[1] if part.kind == "transports" else ""
    if wire and not (programs.BUILD / ".libs" / f"zero-comm-{wire}.so").exists():
        return f"the library of {wire}"
    return ""


def run(part, program):
    what = f"{part.name}: {program.label}"
    if lacks := missing_of(part, program):
        skip(what, f"{lacks} is not installed")
        return
    try:
        found = program.run()
    except programs.Failed as error:
        ok(False, what, error)
        return
    bad = {key: value for key, value in found.items()
           if not isinstance(value, str) and not report.seconds(value) > 0}
    for key, value in found.items():
        if isinstance(value, str):
            diag(f"{what}: {key}: {value}")
    ok(found and not bad and any(not isinstance(v, str) for v in found.values()),
       f"{what}: {len(found)} times", found)


def spoiled(part, program):
    """Every result of it, however it was called and wherever it went, can be found wrong."""
    what = f"{part.name}: {program.label}: wrong results"
    if lacks := missing_of(part, program):
        skip(what, f"{lacks} is not installed")
        return
    seen, checked = [], programs.checked
    programs.checked = lambda record: seen.append(record["check"]) or record["median_s"]
    os.environ["COMPARE_SPOIL"] = "1"
    try:
        program.run()
    except programs.Failed as error:
        diag(error)
    del os.environ["COMPARE_SPOIL"]
    programs.checked = checked
    ok(seen and set(seen) == {"wrong"}, what, seen)


for tool in ("lscpu", "taskset"):
    if not shutil.which(tool):
        support.skip_all(f"{tool} is not installed")
install()
parts = {part.name: part for part in all_parts(SCALE)}
few = len(programs.cores()) < training.RANKS  # then no steps are compared
missing = [name for name in ONE if name not in parts and not (few and "step" in name)]
ok(not missing, "every kind has its parts", missing)
for name in ONE:
    for one in parts[name].programs if name in parts else ():
        run(parts[name], one)
        if parts[name].kind in ("collectives", "optimizer") and one.peer:
            spoiled(parts[name], one)
support.done()
