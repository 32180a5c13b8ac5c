/* SPDX-License-Identifier: Apache-2.0 */
/* From the command line to ranks, and what a rank does: every operation at every size. */
#include "config.h"

#include "bench_coll.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/status.h"
#include "bench_loops.h"
#include "bench_ranks.h"
#include "memory/limits.h"

/* Refuses what would end in swapping or in a kill. */
static int memory_check(const struct coll_options *o)
{
    char source[128];
    uint64_t left = zero__memory_left(source, sizeof source), need = coll_memory(o), all;

    if (!__builtin_mul_overflow(need, 2 * (uint64_t)o->ranks, &all) &&
        all + ZERO__MEMORY_MARGIN <= left)
        return 0;
    fprintf(stderr,
            "zero bench %s: %d ranks need %" PRIu64 " MiB each, but %s has %" PRIu64
            " MiB left: lower the largest size of --bytes\n",
            o->bench, o->ranks, 2 * need >> 20, source, left >> 20);
    return 2;
}

int coll_start(struct coll_options *o, int argc, char **argv)
{
    struct zero_comm_caps caps;
    char tool[32];

    snprintf(tool, sizeof tool, "bench %s", o->bench);
    if (!bench_ranks_may_start(tool))
        return 2;
    if (bench_comm_probe(o->comm, o->ranks, &o->comm, &caps)) {
        fprintf(stderr, "zero bench %s: %s\n", o->bench, zero__error_text());
        return 2;
    }
    for (unsigned i = 0; i < o->n_ops; i++) {
        bool map = o->ops[i] == COLL_MAP;
        unsigned kind = o->ops[i] == COLL_PING_PONG ? ZERO_BROADCAST : (unsigned)o->ops[i];
        if (map ? caps.flags & ZERO_COMM_MAP : caps.kinds & 1u << kind)
            continue;
        fprintf(stderr, "zero bench %s: comm plugin %s has no %s: leave it out of --op\n", o->bench,
                o->comm, coll_name(o->ops[i]));
        return 2;
    }
    int status = memory_check(o);
    if (status)
        return status;
    if (o->ops[0] == COLL_PING_PONG && p2p_board_create(coll_memory(o), &o->board_fd)) {
        fprintf(stderr, "zero bench %s: %s\n", o->bench, zero__error_text());
        return 1;
    }
    return bench_ranks_run("bench", o->ranks, o->bind, o->board_fd, argc, argv);
}

/* Sizes that are rounded to the same one are measured once. */
static bool is_double(const struct coll_options *o, enum coll_op op, unsigned i)
{
    for (unsigned k = 0; k < i; k++)
        if (coll_bytes(o, op, o->sizes[k]) == coll_bytes(o, op, o->sizes[i]))
            return true;
    return false;
}

static int measure_all(struct bench_comm *b, const struct coll_options *o,
                       struct bench_region *region, char *plain, struct p2p_board *board, bool *ok)
{
    int err = 0;

    for (unsigned k = 0; k < o->n_ops; k++)
        for (unsigned i = 0; !err && i < o->n_sizes; i++) {
            if (is_double(o, o->ops[k], i))
                continue;
            struct coll_case c = {.b = b,
                                  .o = o,
                                  .op = o->ops[k],
                                  .wanted = o->sizes[i],
                                  .region = region,
                                  .plain = plain,
                                  .board = board};
            err = coll_case_open(&c);
            if (!err)
                err = coll_measure(&c, ok);
            coll_case_close(&c);
        }
    return err;
}

int coll_rank(const struct coll_options *given)
{
    struct coll_options o = *given;
    struct bench_region region = {0};
    struct bench_comm b;
    uint64_t bytes = 0;
    char *plain = NULL;
    struct p2p_board *board = NULL;
    struct zero_comm_caps caps;
    bool ok = true;

    int err = bench_comm_probe(o.comm, o.ranks, &o.comm, &caps);
    if (err)
        b = (struct bench_comm){0};
    else
        err = bench_comm_open(&b, o.comm);
    if (!err && b.ranks != o.ranks)
        err = zero__fail(-EINVAL, "%d ranks were started, not %d", b.ranks, o.ranks);
    if (!err) {
        bytes = coll_memory(&o);
        err = bench_region_create(&b, bytes, &region);
    }
    if (!err && !(plain = bench_memory(bytes)))
        err = zero__fail(-ENOMEM, "no memory for %" PRIu64 " bytes: lower --bytes", bytes);
    if (!err && o.board_fd >= 0)
        err = p2p_board_map(o.board_fd, bytes, &board);
    if (!err && b.rank == 0)
        coll_head(&o);
    if (!err)
        err = measure_all(&b, &o, &region, plain, board, &ok);
    int status = bench_comm_close(&b, err);
    bench_memory_free(plain, bytes);
    p2p_board_unmap(board);
    return status ? status : !ok;
}
