/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making and ending communicators, and what can be asked of them. The ranks of a new one share a
 * control block that the first of them makes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../common/list.h"
#include "../common/members.h"
#include "shm.h"

static void comm_free(struct zero_comm *comm)
{
    if (!comm)
        return;
    zero__shm_queue_close(comm);
    zero__segment_leave(comm->control);
    free(comm->world);
    free(comm->parts);
    free(comm->sources);
    free(comm);
}

static struct zero_comm *comm_new(struct zero_comm_ctx *ctx, int32_t ranks)
{
    struct zero_comm *comm = calloc(1, sizeof *comm);

    if (!comm)
        return NULL;
    comm->ctx = ctx;
    comm->ranks = comm->table.ranks = ranks;
    comm->at = -1;
    comm->world = calloc((size_t)ranks, sizeof *comm->world);
    comm->parts = calloc((size_t)ranks, sizeof *comm->parts);
    comm->sources = calloc((size_t)ranks, sizeof *comm->sources);
    if (comm->world && comm->parts && comm->sources)
        return comm;
    comm_free(comm);
    return NULL;
}

/* The communicator of this rank's color, without its control block; *first is its rank 0. */
static int comm_form(struct zero_comm_ctx *ctx, const struct shm_table *t,
                     const struct shm_notice *all, struct zero_comm **out, int32_t *first)
{
    struct zero__member *members = calloc((size_t)t->ranks, sizeof *members);
    struct zero_comm *comm;
    int32_t n = 0, rank = 0;

    for (int32_t p = 0; members && p < t->ranks; p++)
        members[p] = (struct zero__member){.color = all[p].color, .key = all[p].key};
    if (members)
        n = zero__members_choose(members, t->ranks, t->rank, &rank);
    comm = members ? comm_new(ctx, n) : NULL;
    if (!comm) {
        free(members);
        return zero__say(&ctx->voice, -ENOMEM, "no memory for a communicator of %d ranks", n);
    }
    comm->rank = comm->table.rank = rank;
    for (int32_t i = 0; i < n; i++)
        comm->world[i] = t->world ? t->world[members[i].parent] : members[i].parent;
    comm->table.world = comm->world;
    *first = members[0].parent;
    *out = comm;
    free(members);
    return zero__shm_queue_open(comm);
}

/* Two rounds on the parent's boards: the first ranks make the control blocks, the others join. */
static int comm_join(struct zero_comm_ctx *ctx, struct shm_table *t, struct zero_comm *comm,
                     int32_t first, int status, struct shm_notice *all)
{
    struct shm_notice mine = {.call = SHM_CALL_SPLIT, .status = status};
    uint64_t bytes = comm ? (uint64_t)comm->ranks * sizeof(struct shm_lane) : 0;
    int err;

    if (!status && comm && comm->rank == 0) {
        mine.status = zero__segment_create(&ctx->voice, bytes, &comm->control);
        if (!mine.status)
            mine.status = zero__segment_address(comm->control, &mine.memory);
    }
    err = zero__board_gather(ctx, t, &mine, all);
    if (err)
        return err;
    if (comm && comm->rank != 0)
        mine.status = zero__segment_join(&ctx->voice, comm->world[0], &all[first].memory, bytes,
                                         true, &comm->control);
    return zero__board_gather(ctx, t, &mine, all);
}

int zero__shm_split(struct zero_comm_ctx *ctx, struct zero_comm *parent, int32_t color, int32_t key,
                    struct zero_comm **out)
{
    struct shm_table *t = parent ? &parent->table : &ctx->table;
    struct shm_notice mine = {.call = SHM_CALL_SPLIT, .color = color, .key = key};
    struct shm_notice *all = ctx->notices; /* a parent has no more ranks than the context */
    struct zero_comm *comm = NULL;
    int32_t first = 0;
    int err;

    if (color < -1)
        mine.status = zero__say(&ctx->voice, -EINVAL, "split: color %d is negative", color);
    err = zero__board_gather(ctx, t, &mine, all);
    if (err)
        goto end;
    if (color >= 0)
        err = comm_form(ctx, t, all, &comm, &first);
    err = comm_join(ctx, t, comm, first, err, all);
    if (err || !comm)
        goto end;
    comm->lanes = (struct shm_lane *)comm->control->base;
    comm->table.first = (char *)&comm->lanes[0].board;
    comm->table.stride = sizeof(struct shm_lane);
    comm->next = ctx->comms;
    ctx->comms = comm;
end:
    if (err)
        comm_free(comm);
    else
        *out = comm;
    return err;
}

int zero__shm_comm_close(struct zero_comm *comm)
{
    ZERO__UNLINK(&comm->ctx->comms, comm);
    comm_free(comm);
    return 0;
}

int zero__shm_error(struct zero_comm *comm)
{
    zero__comm_look(comm);
    return comm->err ? zero__say(&comm->ctx->voice, comm->err, "%s", comm->why) : 0;
}

int zero__shm_missing(struct zero_comm *comm, int32_t *ranks, uint32_t max)
{
    uint64_t s = comm->completed;
    uint32_t n = 0, first = 0;

    if (s == comm->posted)
        return 0;
    for (int32_t p = 0; p < comm->ranks && n < max; p++)
        if (atomic_load(&comm->lanes[p].posted) <= s)
            ranks[n++] = comm->world[p];
    if (n)
        return (int)n;
    /* First whose sum of an all_reduce is not there: the others may wait for that, too. */
    for (int32_t p = 0; p < comm->ranks; p++) {
        uint64_t steps = atomic_load(&comm->lanes[p].steps);
        if (p != comm->rank && steps < 2 * s + 2)
            n = zero__members_insert(ranks, n, max, steps < 2 * s + 1 ? first++ : n,
                                     comm->world[p]);
    }
    if (n == 0 && max > 0 && comm->executed != comm->begun) /* its own device does not get on */
        ranks[n++] = comm->world[comm->rank];
    return (int)n;
}

int zero__shm_wire_bytes(struct zero_comm *comm, uint64_t *bytes)
{
    *bytes = comm->wire;
    return 0;
}
