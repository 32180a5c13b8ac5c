# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's asynchronous I/O (libaio) on a file past the page cache; one JSON record.

    aio.py read|write FOLDER BYTES BLOCK DEPTH SECONDS

One thread moves the whole file from and to locked memory, in blocks, so many under way; `median_s`
is the time of a block. What is read is compared with what was written.
"""
import json
import os
import statistics
import sys
import tempfile
import time

import torch
from deepspeed.ops.op_builder import AsyncIOBuilder


PIECE = 16 << 20  # of what is written, made at a time


def main():
    op, folder = sys.argv[1], sys.argv[2]
    size, block, depth = map(int, sys.argv[3:6])
    seconds = float(sys.argv[6])
    handle = AsyncIOBuilder().load().aio_handle(block, depth, False, True, 1)
    data, wanted = (handle.new_cpu_locked_tensor(size, torch.empty(0, dtype=torch.uint8))
                    for _ in range(2))
    pattern = (torch.arange(PIECE, dtype=torch.int64) * 2654435761 >> 7).to(torch.uint8)
    for at in range(0, size, PIECE):
        data[at:at + PIECE] = pattern[:size - at] + at // PIECE
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        good = handle.sync_pwrite(data, file.name) >= 0
        os.fsync(file.fileno())
        times = []
        wanted.copy_(data)  # locked too: other memory would go through a buffer of the handle
        data.zero_()
        until = time.perf_counter() + seconds
        while not times or time.perf_counter() < until:
            start = time.perf_counter()
            done = handle.sync_pread(data, file.name) if op == "read" else \
                handle.sync_pwrite(wanted, file.name)
            times.append(time.perf_counter() - start)
            good = good and done >= 0
        if op == "write":
            good = good and handle.sync_pread(data, file.name) >= 0
        good = good and torch.equal(data, wanted)
    print(json.dumps({"bench": "offload", "op": op, "bytes": block, "depth": depth,
                      "median_s": statistics.median(times) * block / size,
                      "check": "ok" if good else "wrong"}))


if __name__ == "__main__":
    main()
