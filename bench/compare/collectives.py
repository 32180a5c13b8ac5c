# SPDX-License-Identifier: Apache-2.0
"""Collectives in shared memory and over networks, beside those of MPI and gloo."""
import itertools
import math
import os

import programs


DTYPES = {"again": ("f32", "bf16"), "fresh": ("f32",)}  # by what is in the memory


def placed(record):
    """Its time, with where the result went and how the operation was called."""
    place = record.get("place") or ("in" if record["in_place"] else "out")
    seconds = programs.checked(record)
    call = {"call": record["call"]} if record.get("call") else {}
    return {"seconds": seconds, "place": place, **call, "places": {place: seconds}}


def fastest(scale, found):
    """Of all placements and calls the fastest one, by size and dtype, and the least time of each
    placement; where there is none, the reason."""
    best = {}
    for record in found:
        for size in [record["bytes"]] if "bytes" in record else scale.sizes:
            key = f"{record['dtype']} {size}"
            value, old = record.get("missing") or placed(record), best.get(key)
            if isinstance(value, str) or not isinstance(old, dict):
                best[key] = old if isinstance(old, dict) else value
                continue
            both = old["places"], value["places"]
            places = {p: min(b[p] for b in both if p in b) for p in both[0] | both[1]}
            best[key] = min(old, value, key=lambda x: x["seconds"]) | {"places": places}
    return best


def zero_coll(scale, op, ranks, memory):
    """A virtual machine's processors may lie far apart for the time of a start, and what one rank
    has just written then reaches the other several times later (bench/NOTES.md): so of several
    starts the fastest one counts, of libzero as of MPI, each with one placement: another start may
    be of other processors."""
    found = []
    for dtype in scale.starts * DTYPES[memory]:
        for place in ([], ["--in-place"]):
            command = ["./zero", "bench", "coll", "--comm", "shm", "-n", ranks, "--op", op,
                       "--bytes", f"{scale.sizes[0]}:{scale.sizes[-1]}", "--factor",
                       scale.sizes[1] // scale.sizes[0], "--dtype", dtype, "--reps",
                       scale.samples, "--no-limit", "--json", *place,
                       *(["--fresh"] if memory == "fresh" else [])]
            found += programs.records_of(command, scale.limit_s)
    return fastest(scale, found)


def peer_arguments(scale, op, memory, samples, sample_s):
    return [op, ",".join(DTYPES[memory]), ",".join(map(str, scale.sizes)), samples, sample_s,
            len(programs.cores())]


YIELD = ["--mca", "mpi_yield_when_idle", "1"]
SHARED = [["--oversubscribe", *YIELD, "--bind-to", "none"],  # Open MPI's ranks, more than cores
          ["--map-by", "core:OVERSUBSCRIBE", *YIELD, "--bind-to", "core:overload-allowed"]]


def mpi_coll(scale, op, ranks, memory, name, mca=()):
    shared = ranks > len(programs.cores())
    if name == "openmpi":
        ways = [["--bind-to", "core"]]
        if shared:  # bound to cores it would take others than these, too
            ways = SHARED if os.cpu_count() == len(programs.cores()) else SHARED[:1]
        start = ["mpirun.openmpi", "-n", ranks,
                 *(word for pair in mca for word in ("--mca", *pair))]
    else:
        ways = [[] if shared else ["-bind-to", "core"]]
        start = ["mpirun.mpich", "-n", ranks]
    program = [programs.OUT / f"mpi_coll.{name}", name, *peer_arguments(
        scale, op, memory, scale.samples, scale.sample_s / scale.starts), memory]
    env = programs.environment(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    found = []
    for way, place in itertools.product(scale.starts * ways, ("out", "in")):
        command = [*start, *way, *program, place]
        some = programs.records_of(command, scale.limit_s, env)
        if shared and len(ways) > 1:
            bound = "not bound" if way is ways[0] else "bound"
            some = [r | {"call": ", ".join(filter(None, (r.get("call"), bound)))} for r in some]
        found += some
    return fastest(scale, found)


def gloo_coll(scale, op, ranks, memory):
    arguments = [programs.HERE / "gloo_coll.py",
                 *peer_arguments(scale, op, memory, scale.slow_samples, scale.slow_sample_s)]
    return fastest(scale, programs.records(programs.torch_ranks(scale, ranks, arguments)))


def collectives(scale):
    """Four ranks share two cores where there are no more: MPICH's poll there and do not yield, gloo
    takes half a minute to a minute a round."""
    three = ("all_gather", "reduce_scatter", "all_reduce")
    for ranks, memory, ops in ((2, "again", three), (2, "fresh", three), (4, "again", three[:2])):
        for op in ops:
            work = (scale, op, ranks, memory)
            n_cores = min(ranks, len(programs.cores()))
            name, title = f"{op}-{ranks}", f"{op}, {ranks} ranks on {n_cores} cores"
            if memory == "fresh":
                name, title = f"{name}-fresh", f"{title}, what is sent was just written"
            part = programs.Part(name, "collectives", title, [
                programs.Program("zero", "libzero shm", run=lambda w=work: zero_coll(*w)),
                programs.Program("openmpi", "Open MPI", "openmpi",
                                 lambda w=work: mpi_coll(*w, "openmpi")),
            ], ranks)
            if ranks == 2:
                part.programs.append(programs.Program("mpich", "MPICH", "mpich",
                                                      lambda w=work: mpi_coll(*w, "mpich")))
            if ranks == 2 and memory == "again":
                part.programs.append(programs.Program("gloo", "PyTorch gloo", "pytorch",
                                                      lambda w=work: gloo_coll(*w)))
            yield part


# ---- Networks ------------------------------------------------------------------------------------

TRANSPORTS = {  # variables of libzero; the bare exchange's peer; Open MPI's components
    "ucx-shm": ({"UCX_TLS": "posix,cma,self"}, "ucp_ring", "self,vader"),
    "ucx-tcp": ({"UCX_TLS": "tcp,self"}, "ucp_ring", "self,tcp"),
    "ofi-shm": ({"ZERO_OFI_PROVIDER": "shm"}, "ofi_ring", "self,vader"),
    "ofi-tcp": ({"ZERO_OFI_PROVIDER": "tcp"}, "ofi_ring", "self,tcp"),
}
GATHERS = ("all_gather", "reduce_scatter")


def zero_over(scale, plugin, env):
    command = ["./zero", "bench", "coll", "--comm", plugin, "-n", 2, "--op", ",".join(GATHERS),
               "--in-place", "--bytes", ",".join(map(str, scale.sizes)), "--dtype", "f32", "--reps",
               scale.samples, "--no-limit", "--json"]
    found = {}
    for _ in range(scale.starts):
        for r in programs.records_of(command, scale.limit_s, programs.environment(**env)):
            key = f"{r['op']} {r['bytes']}"
            found[key] = min(programs.checked(r), found.get(key, math.inf))
    return found


def exchanges(scale, plugin, env):
    """The gather once more, each sample in turn with one of the bare exchange's, of as many."""
    command = ["./zero", "bench", "p2p", "--comm", plugin, "--op", "exchange", "--bytes",
               ",".join(map(str, scale.sizes)), "--dtype", "f32", "--reps", scale.samples,
               "--no-limit", "--json"]
    found = programs.records_of(command, scale.limit_s, programs.environment(**env))
    return {f"exchange {r['bytes']}": {**r, "limit_s": r["bare_s"]} for r in found if "bare_s" in r}


def mpi_over(scale, btl):
    found = {}
    for op in GATHERS:
        times = mpi_coll(scale, op, 2, "again", "openmpi", (("pml", "ob1"), ("btl", btl)))
        found |= {f"{op} {key.split()[1]}": v for key, v in times.items() if key.startswith("f32")}
    return found


def transports(scale):
    for name, (env, ring, btl) in TRANSPORTS.items():
        plugin, wire = name.split("-")
        work = (scale, plugin, env)
        measured = programs.Measured(lambda w=work: exchanges(*w))
        yield programs.Part(f"transport-{name}", "transports", f"{plugin} over {wire}, 2 ranks", [
            programs.Program("zero", f"libzero {plugin}",
                             run=lambda w=work, m=measured: zero_over(*w) | m.zero()),
            programs.Program("ring", "bare exchange", ring, measured.limit),
            programs.Program("openmpi", f"Open MPI, btl {btl}", "openmpi",
                             lambda b=btl: mpi_over(scale, b)),
        ])
