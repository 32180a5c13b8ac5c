/* SPDX-License-Identifier: Apache-2.0 */
/* zero bench p2p: a message from one rank to another and back, and what bare memory does. */
#include "config.h"

#include <stdio.h>

#include "bench.h"
#include "bench_coll.h"

static void help(FILE *f)
{
    fputs(
        "usage: zero bench p2p [OPTION]...\n"
        "Sends messages from rank 0 to rank 1 and back with a comm plugin, as broadcasts between\n"
        "two ranks, and shows half of the time: latency where they are small, bandwidth where\n"
        "they are large.\n"
        "\n"
        "  --comm NAME        plugin, by name or path (ZERO_COMM, else shm)\n"
        "  --bytes LOW:HIGH   sizes of a message (8:16M); also a list: 8,4K,1M\n"
        "  --factor F         from one size to the next (8)\n"
        "  --dtype TYPE       f32, bf16 or f16 (bf16)\n"
        "  --cold             every message in other memory than the last one\n"
        "  --fresh            a message is written before it is sent, which is not timed\n"
        "  --reps N           repetitions (21)\n"
        "  --warmup N         repetitions before those (3)\n"
        "  --no-bind          do not bind ranks to cores of their own\n"
        "  --no-check         do not check results\n"
        "  --no-limit         do not measure the limit in turn, which leaves other caches behind\n"
        "  --spoil            change a byte of every result, to see the check fail\n"
        "  --json             records, an object a line, instead of the table\n"
        "\n"
        "The limit is what the two processes reach in the same run with nothing but memory that\n"
        "both have mapped: a flag, a copy by the one that gets the message, the same back. The\n"
        "copy is tried in several ways, see zero bench coll --help; the best one counts. Small\n"
        "messages are sent many times in a repetition, up to 16 MiB. Spread is (90 % - 10 %\n"
        "quantile) / median.\n"
        "\n"
        "Exit status: 0; 1 if a result is wrong or a rank failed; 2 for bad use.\n",
        f);
}

int bench_p2p(int argc, char **argv)
{
    struct coll_options o = {.bench = "p2p",
                             .tool = "bench p2p",
                             .ranks = 2,
                             .ops = {COLL_PING_PONG},
                             .n_ops = 1,
                             .bytes = "8:16M",
                             .factor = 8,
                             .dtype = ZERO_BF16,
                             .reps = 21,
                             .warmup = 3,
                             .check = true,
                             .bind = true};
    int status = coll_parse(&o, help, argc, argv);

    if (status >= 0)
        return status;
    return o.is_rank ? coll_rank(&o) : coll_start(&o, argc, argv);
}
