/* SPDX-License-Identifier: Apache-2.0 */
/* zero bench coll: how fast a comm plugin's collectives are, and how fast they could be. */
#include "config.h"

#include "command.h"

#include <stdio.h>

#include "case.h"

static void help(FILE *f)
{
    fputs("usage: zero bench coll [OPTION]...\n"
          "Times collectives of a comm plugin between processes of this machine, checks\n"
          "what they bring, and measures in the same run what limits them; zero(1) says\n"
          "how. 100 % of the limit is as fast as plain loops that move the same bytes.\n"
          "Below 64 KiB less is usual, as ranks wait for each other there: 4 KiB at 30 % of\n"
          "the limit is no defect.\n"
          "\n"
          "  --comm NAME        plugin, by name or path (ZERO_COMM, else self or shm)\n"
          "  -n, --ranks N      processes (2)\n"
          "  --op LIST          of all_gather, reduce_scatter, all_reduce (these three\n"
          "                     without it), broadcast, barrier, map\n"
          "  --bytes LOW:HIGH   sizes of the full, unsharded message (4K:64M); also a list:\n"
          "                     4K,1M\n"
          "  --factor F         from one size to the next (4)\n"
          "  --dtype TYPE       f32, bf16 or f16 (f32)\n"
          "  --in-place         source and destination overlap, as MPI_IN_PLACE has them\n"
          "  --cold             every operation on other memory than the last one\n"
          "  --fresh            each rank writes its part before each operation, not timed\n"
          "  --reps N           repetitions (21)\n"
          "  --warmup N         repetitions before those (3)\n"
          "  --no-bind          do not bind ranks to cores of their own\n"
          "  --no-check         do not check results; --check, the default, does\n"
          "  --no-limit         the operation alone; faster where its data stay in the\n"
          "                     caches\n"
          "  --json             records, an object a line, instead of the table\n"
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
