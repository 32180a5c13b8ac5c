# SPDX-License-Identifier: Apache-2.0
"""Collectives of PyTorch's gloo back end, in the same way and with the same output as mpi_coll.c.

    gloo_coll.py OP DTYPES BYTES REPS SECONDS CORES

One process per rank, RANK etc. in the environment; with COMPARE_SPOIL=1 there the last rank changes
an element of each result, to see the check fail.
"""
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

MOST_IN_A_ROW = 256
BYTES_IN_A_ROW = 16 << 20
LEAST_REPS = 7
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def operation(op, size, dtype, out_of_place):
    """The buffer to fill, where the result appears, and what does it."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    full = torch.zeros(size, dtype=dtype)
    mine = full.chunk(ranks)[rank]
    if op == "all_gather":
        shard = mine.clone() if out_of_place else mine
        return shard, full, lambda: dist.all_gather_into_tensor(full, shard)
    if op == "reduce_scatter":
        shard = torch.zeros_like(mine) if out_of_place else mine
        return full, shard, lambda: dist.reduce_scatter_tensor(shard, full)
    return full, full, lambda: dist.all_reduce(full)


def values(rank, first, n, dtype):
    return ((torch.arange(first, first + n) + rank) % 5).to(dtype)


def correct(op, size, dtype, source, result, operate):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    shard = size // ranks
    if op == "all_gather":
        source.copy_(values(rank, rank * shard, shard, dtype))
        want = torch.cat([values(k, k * shard, shard, dtype) for k in range(ranks)])
    else:
        source.copy_(values(rank, 0, size, dtype))
        want = sum(values(k, 0, size, dtype) for k in range(ranks))
        if op == "reduce_scatter":
            want = want.chunk(ranks)[rank]
    operate()
    if os.environ.get("COMPARE_SPOIL") == "1" and rank == ranks - 1:
        result[0] += 1
    good = torch.tensor([int(torch.equal(result, want))])
    dist.all_reduce(good, dist.ReduceOp.MIN)
    return bool(good.item())


def sample(operate, in_a_row):
    dist.barrier()
    start = time.monotonic()
    for _ in range(in_a_row):
        operate()
    return start, time.monotonic()


def durations(samples, in_a_row, cores):
    """Seconds of an operation in each sample; ranks that share cores begin late."""
    start, end = torch.tensor(samples, dtype=torch.float64).unbind(1)
    longest = end - start
    dist.all_reduce(longest, dist.ReduceOp.MAX)
    if dist.get_world_size() > cores:
        start, end = start.contiguous(), end.contiguous()
        dist.all_reduce(start, dist.ReduceOp.MIN)
        dist.all_reduce(end, dist.ReduceOp.MAX)
        longest = end - start
    return (longest / in_a_row).tolist()


def measure(op, name, size, reps, seconds, cores, out_of_place):
    dtype = DTYPES[name]
    source, result, operate = operation(op, size, dtype, out_of_place)
    good = correct(op, size, dtype, source, result, operate)
    # Numbers, some machines move zeros faster; so small ones that sums in place stay finite.
    for tensor in (source, result):
        tensor.copy_((torch.rand(tensor.numel()) + 1) * 2.0**-100)
    sample(operate, 2)
    rows = seconds / durations([sample(operate, 2)], 2, cores)[0]
    most = min(rows / reps, BYTES_IN_A_ROW // (size * dtype.itemsize), MOST_IN_A_ROW)
    in_a_row = max(int(most), 1)
    n = max(min(int(rows / in_a_row), reps), LEAST_REPS)
    n -= 1 - n % 2  # one is the median
    times = sorted(durations([sample(operate, in_a_row) for _ in range(n)], in_a_row, cores))
    tenths = statistics.quantiles(times, n=10, method="inclusive")
    return {
        "samples": n,
        "median_s": tenths[4],
        "spread": (tenths[8] - tenths[0]) / tenths[4],
        "check": "ok" if good else "wrong",
    }


def main():
    op, dtypes, sizes, reps, seconds, cores = sys.argv[1:]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for name in dtypes.split(","):
        for size in map(int, sizes.split(",")):
            for out_of_place in (False, True) if op != "all_reduce" else (False,):
                record = {"bench": "coll", "op": op, "comm": "gloo", "dtype": name, "bytes": size,
                          "ranks": dist.get_world_size(), "place": "out" if out_of_place else "in"}
                try:
                    record |= measure(op, name, size // DTYPES[name].itemsize, int(reps),
                                      float(seconds), int(cores), out_of_place)
                    record["bandwidth_GBps"] = size / record["median_s"] * 1e-9
                except (RuntimeError, ValueError) as error:
                    record["missing"] = str(error).splitlines()[0][:200]
                if dist.get_rank() == 0:
                    print(json.dumps(record), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
