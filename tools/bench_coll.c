/* SPDX-License-Identifier: Apache-2.0 */
/* zero bench coll: how fast a comm plugin's collectives are, and how fast they could be. */
#include "config.h"

#include <stdio.h>

#include "bench.h"
#include "bench_coll.h"

static void help(FILE *f)
{
    fputs(
        "usage: zero bench coll [OPTION]...\n"
        "Times collectives of a comm plugin between processes of this machine, checks what they\n"
        "bring, and measures in the same run what limits them.\n"
        "\n"
        "100 % of the limit is as fast as plain loops that move the same bytes. Below 64 KiB\n"
        "less is usual: hardly anything is left there but ranks that wait for each other, and a\n"
        "collective does so more often than its limit. So 4 KiB at 30 % of the limit is no\n"
        "defect.\n"
        "\n"
        "  --comm NAME        plugin, by name or path (ZERO_COMM, else self or shm)\n"
        "  -n, --ranks N      processes (2)\n"
        "  --op LIST          of all_gather, reduce_scatter, all_reduce, broadcast, barrier, map\n"
        "                     (the first three)\n"
        "  --bytes LOW:HIGH   sizes of the full, unsharded message (4K:64M); also a list: 4K,1M;\n"
        "                     rounded up to as many elements for each rank, map: to pages\n"
        "  --factor F         from one size to the next (4)\n"
        "  --dtype TYPE       f32, bf16 or f16 (f32)\n"
        "  --in-place         source and destination overlap, as MPI_IN_PLACE has them\n"
        "  --cold             every operation on other memory than the last one\n"
        "  --fresh            each rank writes its part before each operation, which is not "
        "timed:\n"
        "                     what ranks read lies in the others' caches, as new gradients do\n"
        "  --reps N           repetitions (21)\n"
        "  --warmup N         repetitions before those (3)\n"
        "  --no-bind          do not bind ranks to cores of their own\n"
        "  --no-check         do not check results; --check, the default, does\n"
        "  --no-limit         the operation alone; faster where its data stay in the caches\n"
        "  --spoil            change a byte of every result, to see the check fail\n"
        "  --json             records, an object a line, instead of the table\n"
        "\n"
        "A repetition lasts from a barrier to the end on the slowest rank; small operations are\n"
        "repeated in it one after the other, up to 16 MiB. Figures are medians; spread is (90 % -\n"
        "10 % quantile) / median; above 100 % a line says so, as it does when others took more\n"
        "than a quarter of one of its processors. GB/s is message / time; bus GB/s counts the\n"
        "bytes that have to travel (as nccl-tests do). Operations use the same buffers again and\n"
        "again, as most benchmarks do, so messages that fit into a cache are found there; in\n"
        "training they are not: see --cold, which walks through four times the largest cache.\n"
        "\n"
        "The limit (max GB/s; of what moves nothing, us) is the best of these plain loops. Every\n"
        "rank raises a flag that all wait for, and then moves the bytes it has to read and write\n"
        "in the operation. all_gather and broadcast: a copy; reduce_scatter: the sum of as many\n"
        "inputs as there are ranks; all_reduce: that, another flag, and a copy of the other\n"
        "parts from where the others have summed them up; with --in-place into the memory of the\n"
        "inputs; barrier and map, a gather of memory that all ranks have mapped side by side:\n"
        "the flags alone. What several ranks read, the sums of an all_reduce, and with --fresh\n"
        "everything is memory that they share, to come from where the operation has it; the rest\n"
        "is private. Sums in f16 have no limit: there is no plain loop for them. A loop takes\n"
        "one vector a turn or four, with ordinary or non-temporal stores, of these by four also\n"
        "asking for the next page of what it reads, or is memcpy(). Where the limit has one\n"
        "meeting, of an all_reduce two, a collective has one before it, as its sources have to be\n"
        "there, and one after it, as they may change then. The operation and its loops take\n"
        "turns, five repetitions of each where caches matter, else one; the best median counts.\n"
        "Where they do, for messages of up to twice the largest cache, operations that are not\n"
        "timed come before each repetition (warm in a record: 1, or 4 where a single operation is\n"
        "timed); elsewhere none do, which is a step in a row of sizes. More than 100 % means that\n"
        "the operation found a better way than these loops, or its data in nearer caches: the\n"
        "machine's own limit is higher still.\n"
        "\n"
        "Exit status: 0; 1 if a result is wrong or a rank failed; 2 for bad use.\n",
        f);
}

int bench_coll(int argc, char **argv)
{
    struct coll_options o = {.bench = "coll",
                             .tool = "bench coll",
                             .ranks = 2,
                             .ops = {COLL_ALL_GATHER, COLL_REDUCE_SCATTER, COLL_ALL_REDUCE},
                             .n_ops = 3,
                             .bytes = "4K:64M",
                             .factor = 4,
                             .dtype = ZERO_F32,
                             .reps = 21,
                             .warmup = 3,
                             .check = true,
                             .bind = true};
    int status = coll_parse(&o, help, argc, argv);

    if (status >= 0)
        return status;
    return o.is_rank ? coll_rank(&o) : coll_start(&o, argc, argv);
}
