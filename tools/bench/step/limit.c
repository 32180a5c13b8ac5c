/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What limits the optimizer of a step: plain loops over the memory of one rank's shard, as `zero
 * bench optimizer` has them, on all ranks at once. The ranks are processes of their own, started
 * when the training has ended, and leave their times in memory that they share.
 */
#include "config.h"

#include "log.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/options.h"
#include "base/status.h"
#include "tools/bench/measure/board.h"
#include "tools/bench/optimizer/states.h"
#include "tools/common/cores.h"
#include "tools/run/itself.h"

#define UNIT UINT64_C(8000000)
#define WARMUP 1u
#define MOST_REPS 15u
#define N_LOOPS (N_OPTIMIZER_SERIES - OPTIMIZER_READ)

/* A rank's memory on the board. */
struct times {
    double seconds[N_LOOPS][MOST_REPS];
};

/* ---- A rank ---------------------------------------------------------------------------------- */

static int loops_measure(struct optimizer *x, struct bench_board *board, int rank)
{
    struct times *t = (struct times *)(void *)bench_board_memory(board, rank);
    unsigned reps = x->o->reps;
    double warm;
    int err = 0;

    for (unsigned k = 0; !err && k < WARMUP + reps; k++)
        for (unsigned j = 0; !err && j < N_LOOPS; j++) {
            unsigned s = (k + j) % N_LOOPS; /* another one comes first each time */
            err = bench_board_meet(board, x->timeout_ns);
            if (!err)
                err = optimizer_sample(x, (int)(OPTIMIZER_READ + s),
                                       k < WARMUP ? &warm : &t->seconds[s][k - WARMUP]);
        }
    return err;
}

static unsigned threads_of(const struct zero__options *options, int ranks, int cores)
{
    int64_t wanted = zero__option_int(options, ZERO__OPT_THREADS);
    int mine = tool_cores();

    if (wanted)
        return (unsigned)wanted;
    if (mine == cores) /* not bound */
        mine /= ranks;
    return mine > 1 ? (unsigned)mine : 1;
}

/* PARAMETERS DTYPE OF-GRADIENTS REPS; see step_limit(). */
int step_limit_rank(char **argv, int cores, int fd)
{
    struct optimizer_options o = {.params = strtoull(argv[1], NULL, 10),
                                  .unit = UNIT,
                                  .dtype = (uint32_t)strtoul(argv[2], NULL, 10),
                                  .grad_dtype = (uint32_t)strtoul(argv[3], NULL, 10),
                                  .reps = (unsigned)strtoul(argv[4], NULL, 10)};
    int rank = atoi(getenv("RANK")), ranks = atoi(getenv("WORLD_SIZE"));
    struct zero__options *options = NULL;
    struct bench_board *board = NULL;
    struct optimizer x = {.o = &o};

    int err = zero__options_load(NULL, 0, &options);
    if (!err) {
        o.threads = threads_of(options, ranks, cores);
        err = optimizer_open(&x, &o);
    }
    if (!err)
        err = bench_board_open(fd, rank, ranks, sizeof(struct times), ranks > cores, &board);
    if (!err) {
        optimizer_fill(&x);
        err = loops_measure(&x, board, rank);
    }
    if (err)
        fprintf(stderr, "zero bench step: limit of the optimizer: %s\n", zero__error_text());
    bench_board_close(board);
    optimizer_close(&x);
    zero__options_free(options);
    return err != 0;
}

/* ---- The launcher ---------------------------------------------------------------------------- */

/* Of each repetition the time of the slowest rank, as the ranks wait for each other in a step. */
static struct bench_stats loop_stats(const struct bench_board *board, unsigned loop, int ranks,
                                     unsigned reps)
{
    double slowest[MOST_REPS];

    for (unsigned k = 0; k < reps; k++) {
        slowest[k] = 0;
        for (int r = 0; r < ranks; r++) {
            const struct times *t = (const struct times *)(void *)bench_board_memory(board, r);
            slowest[k] = t->seconds[loop][k] > slowest[k] ? t->seconds[loop][k] : slowest[k];
        }
    }
    return bench_stats_of(slowest, reps);
}

static void stats_take(const struct bench_board *board, int ranks, unsigned reps,
                       struct step_limit *out)
{
    for (unsigned w = 0; w < N_BENCH_UPDATES; w++) {
        double s = loop_stats(board, OPTIMIZER_MOVE - OPTIMIZER_READ + w, ranks, reps).median;
        if (w && s >= out->move_s)
            continue;
        out->move_s = s;
        out->loop = bench_update_name(w);
    }
    double read = loop_stats(board, 0, ranks, reps).median;
    for (unsigned w = 1; w < OPTIMIZER_MOVE - OPTIMIZER_READ; w++)
        read = fmin(read, loop_stats(board, w, ranks, reps).median);
    out->seconds = out->move_s + read;
}

static bool on_host(void)
{
    struct zero__options *options = NULL;
    bool host = !zero__options_load(NULL, 0, &options) &&
                !strcmp(zero__option_text(options, ZERO__OPT_DEVICE), "host");

    zero__options_free(options);
    return host;
}

int step_limit(const struct step_options *o, const struct step_log *log, struct step_limit *out)
{
    unsigned reps = o->steps < MOST_REPS ? (unsigned)o->steps : MOST_REPS;
    uint32_t dtype = !strcmp(log->dtype, "fp32")   ? ZERO_F32
                     : !strcmp(log->dtype, "fp16") ? ZERO_F16
                                                   : ZERO_BF16;
    char words[4][24];
    char *args[] = {(char *)"step", words[0], words[1], words[2], words[3], NULL};
    struct bench_board *board = NULL;
    int fd = -1;

    *out = (struct step_limit){0};
    if (!log->updated || !on_host())
        return 0;
    snprintf(words[0], sizeof words[0], "%" PRIu64, log->updated);
    snprintf(words[1], sizeof words[1], "%" PRIu32, dtype);
    snprintf(words[2], sizeof words[2], "%" PRIu32, log->wide_grad ? ZERO_F32 : dtype);
    snprintf(words[3], sizeof words[3], "%u", reps);
    int err = bench_board_create(log->ranks, sizeof(struct times), &fd);
    if (!err && run_itself("bench", log->ranks, o->bind, fd, 5, args))
        err = zero__fail(-EIO, "the limit of the optimizer could not be measured");
    if (!err)
        err = bench_board_open(fd, 0, log->ranks, sizeof(struct times), false, &board);
    if (!err)
        stats_take(board, log->ranks, reps, out);
    bench_board_close(board);
    if (fd >= 0)
        close(fd);
    return err;
}
