/* SPDX-License-Identifier: Apache-2.0 */
/* zero bench p2p: two ranks, beside what their transport does by itself and what memory does. */
#include "config.h"

#include "command.h"

#include <stdio.h>

#include "case.h"

static void help(FILE *f)
{
    fputs("usage: zero bench p2p [OPTION]...\n"
          "Times two ranks of this machine that use a comm plugin.\n"
          "\n"
          "exchange: each rank sends half of the bytes to the other one and gets the other\n"
          "half, as the plugin's all_gather in place; and in turn with it, in the same run,\n"
          "a bare exchange of the same halves, with nothing but the calls of the library\n"
          "that the plugin stands on, polling, from private buffers. The ratio says how\n"
          "much of the transport's own speed the plugin keeps. ucx and ofi have a bare\n"
          "exchange, over the transport that their settings (UCX_TLS,\n"
          "ZERO_OFI_PROVIDER ...) name; where it was not built, a line above the table\n"
          "says so. shm stands on no library: there the limit takes its place.\n"
          "\n"
          "ping_pong: a message from rank 0 to rank 1 and back, as broadcasts, half of the\n"
          "time: latency where it is small.\n"
          "\n"
          "  --comm NAME        plugin, by name or path (ZERO_COMM, else shm)\n"
          "  --op LIST          of exchange and ping_pong (both)\n"
          "  --bytes LOW:HIGH   sizes (8,64,512,4K:64M): of ping_pong the message, of\n"
          "                     exchange what each rank has in the end, as in\n"
          "                     zero bench coll; or a list: 1M,64M\n"
          "  --factor F         from one size to the next (4)\n"
          "  --dtype TYPE       f32, bf16 or f16 (bf16)\n"
          "  --cold             every message in other memory than the last one (of the\n"
          "                     plugin: the bare exchange always uses the same buffers)\n"
          "  --fresh            a message is written before it is sent, not timed\n"
          "                     (likewise)\n"
          "  --reps N           repetitions (21)\n"
          "  --warmup N         repetitions before those (3)\n"
          "  --no-bind          do not bind ranks to cores of their own\n"
          "  --no-check         do not check results; --check, the default, does\n"
          "  --no-limit         the operation alone; faster where its data stay in the\n"
          "                     caches\n"
          "  --json             records, an object a line, instead of the table\n"
          "\n"
          "The limit (max GB/s) is what the two processes reach in the same run with\n"
          "nothing but memory. Of ping_pong: in memory that both have mapped a flag, a copy\n"
          "by the one that gets the message, the same back. Of exchange: a flag that both\n"
          "raise, and a copy by both at once of the half that each gets. The copy is tried\n"
          "in several ways, see zero(1); the best one counts. An exchange of few bytes is\n"
          "nothing but meetings, of which the limit has one and a collective two. Small\n"
          "messages are sent many times in a repetition, up to 16 MiB. Figures are medians;\n"
          "spread is (90 % - 10 % quantile) / median. A record has ratio_to_bare, of the\n"
          "medians, and ratio_low and ratio_high, quantiles of the single repetitions.\n"
          "\n"
          "Exit status: 0, also without a bare exchange; 1 if a result is wrong, or a rank\n"
          "or the bare exchange failed; 2 for bad use.\n",
          f);
}

int bench_p2p(int argc, char **argv)
{
    struct coll_options o = {.bench = "p2p",
                             .tool = "bench p2p",
                             .ranks = 2,
                             .ops = {COLL_EXCHANGE, COLL_PING_PONG},
                             .n_ops = 2,
                             .bytes = "8,64,512,4K:64M",
                             .factor = 4,
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
