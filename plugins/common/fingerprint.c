/* SPDX-License-Identifier: Apache-2.0 */
#include "fingerprint.h"

#include <inttypes.h>
#include <stdio.h>

#include "coll.h"

void zero__fingerprint_make(const struct zero_coll *c, uint64_t index, struct zero__fingerprint *f)
{
    *f = (struct zero__fingerprint){
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
    };
}

/* "all_gather of 64 bf16 to bf16", "barrier" */
static const char *describe(const struct zero__fingerprint *f, char *text, size_t room)
{
    if (f->kind == ZERO_BARRIER)
        return zero_coll_name(f->kind);
    snprintf(text, room, "%s of %" PRIu64 " %s to %s", zero_coll_name(f->kind), f->count,
             zero_dtype_name(f->src_dtype), zero_dtype_name(f->dst_dtype));
    return text;
}

static const char *number(uint64_t x, char *text, size_t room)
{
    snprintf(text, room, "%" PRIu64, x);
    return text;
}

static const char *factor(uint32_t bits, char *text, size_t room)
{
    snprintf(text, room, "%.9g", (double)zero_float_of_bits(bits));
    return text;
}

bool zero__fingerprint_differs(int32_t x, const struct zero__fingerprint *a, int32_t y,
                               const struct zero__fingerprint *b, char *why, size_t room)
{
    const struct {
        const char *name;
        uint64_t a, b;
    } fields[] = {
        {"count", a->count, b->count},
        {"root", (uint32_t)a->root, (uint32_t)b->root},
        {"the reduction", a->redop, b->redop},
        {"flags", a->flags, b->flags},
        {"the group", a->group, b->group},
        {"the epoch", a->epoch, b->epoch},
        {"the sequence", a->sequence, b->sequence},
    };
    const char *what = NULL, *p = NULL, *q = NULL;
    char one[128], two[128], s[32], t[32];

    if (x > y)
        return zero__fingerprint_differs(y, b, x, a, why, room);
    if (a->kind != b->kind) {
        what = "the kind";
        p = zero_coll_name(a->kind);
        q = zero_coll_name(b->kind);
    } else if (a->src_dtype != b->src_dtype) {
        what = "the source type";
        p = zero_dtype_name(a->src_dtype);
        q = zero_dtype_name(b->src_dtype);
    } else if (a->dst_dtype != b->dst_dtype) {
        what = "the destination type";
        p = zero_dtype_name(a->dst_dtype);
        q = zero_dtype_name(b->dst_dtype);
    }
    for (unsigned i = 0; !what && i < sizeof fields / sizeof *fields; i++)
        if (fields[i].a != fields[i].b) {
            what = fields[i].name;
            p = number(fields[i].a, s, sizeof s);
            q = number(fields[i].b, t, sizeof t);
        }
    if (!what && a->scale_bits != b->scale_bits) {
        what = "the scale";
        p = factor(a->scale_bits, s, sizeof s);
        q = factor(b->scale_bits, t, sizeof t);
    }
    if (!what)
        return false;
    snprintf(why, room,
             "ranks %d and %d posted different collectives at place %" PRIu64
             " of a communicator: %s is %s on rank %d, %s on rank %d (%s against %s)",
             x, y, a->index, what, p, x, q, y, describe(a, one, sizeof one),
             describe(b, two, sizeof two));
    return true;
}
