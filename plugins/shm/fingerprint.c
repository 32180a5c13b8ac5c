/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every rank compares what it posted with what each other rank posted at the same place, before the
 * collective can complete anywhere. A rank that finds a difference ends the communicator and says
 * both sides, so a program whose ranks went apart never computes with mixed-up numbers.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "shm.h"

void zero__post_make(const struct zero_coll *c, uint64_t index, struct shm_post *post)
{
    *post = (struct shm_post){
        .index = index,
        .count = c->count,
        .sequence = c->sequence,
        .kind = c->kind,
        .flags = c->flags,
        .src_dtype = c->src_dtype,
        .dst_dtype = c->dst_dtype,
        .redop = c->redop,
        .scale_bits = zero_bits_of_float(c->scale),
        .group = c->group,
        .epoch = c->epoch,
        .root = c->root,
        .src_region = c->src.len ? c->src.mr->region : SHM_NO_REGION,
        .dst_region = c->dst.len ? c->dst.mr->region : SHM_NO_REGION,
        .src_off = c->src.off,
        .dst_off = c->dst.off,
    };
}

/* "all_gather of 64 bf16 to bf16" */
static const char *describe(const struct shm_post *p, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s of %" PRIu64 " %s to %s", zero__coll_name(p->kind), p->count,
             zero_dtype_name(p->src_dtype), zero_dtype_name(p->dst_dtype));
    return text;
}

#define DIFFERENCE(x, a, ax, y, b, by)                                                            \
    "ranks %d and %d posted different collectives at place %" PRIu64 " of a communicator: %s is " \
    "%s on rank %d, %s on rank %d (%s against %s)",                                               \
        x, y, (a)->index, what, ax, x, by, y, describe(a, one, sizeof one),                       \
        describe(b, two, sizeof two)

/* All ranks say it with the same words, whoever finds it. */
static int differs(struct zero_comm *comm, const struct shm_post *a, int32_t p,
                   const struct shm_post *b, const char *what, const char *mine, const char *theirs)
{
    int32_t x = comm->world[comm->rank], y = comm->world[p];
    char one[128], two[128];

    if (x > y)
        return zero__comm_fail(comm, -EPROTO, DIFFERENCE(y, b, theirs, x, a, mine));
    return zero__comm_fail(comm, -EPROTO, DIFFERENCE(x, a, mine, y, b, theirs));
}

int zero__post_compare(struct zero_comm *comm, const struct shm_post *a, int32_t p,
                       const struct shm_post *b)
{
    const struct {
        const char *name;
        uint64_t mine, theirs;
    } fields[] = {
        {"count", a->count, b->count},
        {"root", (uint32_t)a->root, (uint32_t)b->root},
        {"the reduction", a->redop, b->redop},
        {"flags", a->flags, b->flags},
        {"the group", a->group, b->group},
        {"the epoch", a->epoch, b->epoch},
        {"the sequence", a->sequence, b->sequence},
    };
    char x[32], y[32];

    if (b->index != a->index)
        return zero__comm_fail(comm, -EPROTO,
                               "rank %d overwrote its slot: %" PRIu64 " instead of %" PRIu64,
                               comm->world[p], b->index, a->index);
    if (a->kind != b->kind)
        return differs(comm, a, p, b, "the kind", zero__coll_name(a->kind),
                       zero__coll_name(b->kind));
    if (a->src_dtype != b->src_dtype)
        return differs(comm, a, p, b, "the source type", zero_dtype_name(a->src_dtype),
                       zero_dtype_name(b->src_dtype));
    if (a->dst_dtype != b->dst_dtype)
        return differs(comm, a, p, b, "the destination type", zero_dtype_name(a->dst_dtype),
                       zero_dtype_name(b->dst_dtype));
    for (unsigned i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].mine != fields[i].theirs) {
            snprintf(x, sizeof x, "%" PRIu64, fields[i].mine);
            snprintf(y, sizeof y, "%" PRIu64, fields[i].theirs);
            return differs(comm, a, p, b, fields[i].name, x, y);
        }
    if (a->scale_bits != b->scale_bits) {
        snprintf(x, sizeof x, "%.9g", (double)zero_float_of_bits(a->scale_bits));
        snprintf(y, sizeof y, "%.9g", (double)zero_float_of_bits(b->scale_bits));
        return differs(comm, a, p, b, "the scale", x, y);
    }
    return 0;
}
