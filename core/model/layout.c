/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From parameters to segments and shards. Every parameter starts at a multiple of 64 elements; the
 * segment's end is padded so that the ranks' shards are equal multiples of the granule: a page's
 * worth of elements (shards can then be mapped) where that costs less than 0.8 % of the segment or
 * than its equal share of 0.2 % of the model, else 64 elements. Padding elements are zero and stay
 * zero under every optimizer.
 */
#include "model/model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/status.h"

#define MAX_ELEMENTS (UINT64_C(1) << 52) /* of a segment: a unit's bytes are then safe to add up */
#define PAGE_BYTES 4096u

static void persistence_choose(struct zero__model *m, const struct zero__layout_params *p,
                               uint8_t *persistent)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < m->n_params; i++) {
        const struct zero__param *x = &m->params[i];
        uint64_t bytes = x->count * zero_dtype_bytes(x->dtype);
        persistent[i] = 0;
        if (x->flags & ZERO_PARAM_PERSISTENT) {
            persistent[i] = 1;
        } else if (bytes <= p->persistent_bytes && total + bytes <= p->persistent_cap_bytes) {
            persistent[i] = 1;
            total += bytes;
        }
    }
}

/* The segment of a unit that takes the parameter; a new one where none does yet. */
static uint32_t segment_of(struct zero__model *m, uint32_t unit, const struct zero__param *x,
                           uint32_t persistent)
{
    struct zero__unit *u = &m->units[unit];
    uint32_t trainable = !(x->flags & ZERO_PARAM_FROZEN);

    for (uint32_t i = u->first_segment; i < u->first_segment + u->n_segments; i++) {
        const struct zero__segment *s = &m->segments[i];
        if (s->dtype == x->dtype && s->trainable == trainable && s->persistent == persistent)
            return i;
    }
    u->n_segments++;
    m->segments[m->n_segments] = (struct zero__segment){.unit = unit,
                                                        .dtype = x->dtype,
                                                        .trainable = trainable,
                                                        .persistent = persistent};
    return m->n_segments++;
}

/* Lists the parameters unit by unit, in order of registration. */
static void params_by_unit(const struct zero__model *m, uint32_t *first, uint32_t *list)
{
    uint32_t at = 0;

    for (uint32_t u = 0; u < m->n_units; u++) {
        first[u] = at;
        at += m->units[u].n_params;
    }
    for (uint32_t i = 0; i < m->n_params; i++)
        list[first[m->params[i].unit]++] = i;
}

/* `list`: parameters unit by unit. */
static int params_place(struct zero__model *m, const uint8_t *persistent, const uint32_t *list)
{
    for (uint32_t u = 0; u < m->n_units; u++) {
        m->units[u].first_segment = m->n_segments;
        m->units[u].n_segments = 0;
        for (uint32_t k = 0; k < m->units[u].n_params; k++) {
            uint32_t i = *list++;
            struct zero__param *x = &m->params[i];
            x->segment = segment_of(m, u, x, persistent[i]);
            struct zero__segment *s = &m->segments[x->segment];
            if (zero__round_up(s->used, ZERO_ALIGN_ELEMENTS, &x->offset) ||
                zero__add(x->offset, x->count, &s->used) || s->used > MAX_ELEMENTS)
                return zero__fail(-EOVERFLOW, "unit %s has too many elements", m->units[u].name);
            s->n_params++;
        }
    }
    return 0;
}

/* `spare`: bytes that the padding of any segment may take. */
static int segment_pad(struct zero__segment *s, uint32_t ranks, uint64_t spare)
{
    uint32_t granule = PAGE_BYTES / zero_dtype_bytes(s->dtype);
    uint64_t padded;

    if (zero__round_up(s->used, (uint64_t)ranks * granule, &padded))
        return -EOVERFLOW;
    uint64_t gap = padded - s->used;
    if (gap >= s->used / 125.0 && gap * zero_dtype_bytes(s->dtype) > spare) { /* 0.8 % */
        granule = ZERO_ALIGN_ELEMENTS;
        if (zero__round_up(s->used, (uint64_t)ranks * granule, &padded))
            return -EOVERFLOW;
    }
    s->padded = padded;
    s->shard = padded / ranks;
    return 0;
}

/* Gaps lie between parameters and behind the last; segments' parameters are in offset order. */
static int gaps_find(struct zero__model *m, struct zero__segment *s)
{
    uint64_t at = 0;

    s->gaps.first = calloc(s->n_params + 1, sizeof *s->gaps.first);
    s->gaps.count = calloc(s->n_params + 1, sizeof *s->gaps.count);
    if (!s->gaps.first || !s->gaps.count)
        return -ENOMEM;
    for (uint32_t i = 0; i <= s->n_params; i++) {
        const struct zero__param *x =
            i < s->n_params ? &m->params[m->by_segment[s->first_param + i]] : NULL;
        uint64_t next = x ? x->offset : s->padded;
        if (next > at) {
            s->gaps.first[s->gaps.n] = at;
            s->gaps.count[s->gaps.n++] = next - at;
        }
        at = x ? x->offset + x->count : next;
    }
    return 0;
}

/* Lists the parameters segment by segment, in order of registration. */
static void params_by_segment(struct zero__model *m)
{
    uint32_t at = 0;

    for (uint32_t i = 0; i < m->n_segments; i++) {
        m->segments[i].first_param = at;
        at += m->segments[i].n_params;
        m->segments[i].n_params = 0;
    }
    for (uint32_t i = 0; i < m->n_params; i++) {
        struct zero__segment *s = &m->segments[m->params[i].segment];
        m->by_segment[s->first_param + s->n_params++] = i;
    }
}

static uint64_t spare_bytes(const struct zero__model *m)
{
    double bytes = 0;

    for (uint32_t i = 0; i < m->n_params; i++)
        bytes += (double)m->params[i].count * zero_dtype_bytes(m->params[i].dtype);
    return (uint64_t)(bytes * 0.002 / m->n_segments);
}

int zero__layout_build(struct zero__model *m, const struct zero__layout_params *p)
{
    int err = -ENOMEM;
    uint8_t *persistent = calloc(m->n_params + 1, 1);
    uint32_t *first = calloc(m->n_units + 1, sizeof *first);
    uint64_t spare;

    m->n_segments = 0;
    m->segments = calloc(m->n_params + 1, sizeof *m->segments);
    m->by_segment = calloc(m->n_params + 1, sizeof *m->by_segment);
    if (!persistent || !first || !m->segments || !m->by_segment)
        goto out;
    persistence_choose(m, p, persistent);
    params_by_unit(m, first, m->by_segment); /* which segments are built from */
    err = params_place(m, persistent, m->by_segment);
    if (err)
        goto out;
    params_by_segment(m);
    spare = spare_bytes(m);
    for (uint32_t i = 0; i < m->n_segments; i++) {
        struct zero__segment *s = &m->segments[i];
        err = segment_pad(s, p->ranks, spare);
        if (err)
            goto out;
        err = gaps_find(m, s);
        if (err)
            goto out;
    }
out:
    free(persistent);
    free(first);
    return err == -ENOMEM      ? zero__fail(err, "no memory for the layout of %u parameters",
                                            m->n_params)
           : err == -EOVERFLOW ? zero__fail(err, "the model has too many elements")
                               : err;
}

/* The last of the segment's parameters that starts at or before the element; 0: none does. */
static uint32_t param_at(const struct zero__model *m, const struct zero__segment *s,
                         uint64_t element)
{
    uint32_t low = 0, high = s->n_params;

    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (m->params[m->by_segment[s->first_param + middle]].offset <= element)
            low = middle;
        else
            high = middle;
    }
    return low;
}

uint32_t zero__segment_runs(const struct zero__model *m, uint32_t segment, uint64_t first,
                            uint64_t count, struct zero__run *runs, uint32_t max)
{
    const struct zero__segment *s = &m->segments[segment];
    uint64_t at = first, end = first + count;
    uint32_t n = 0;

    for (uint32_t i = param_at(m, s, first); i < s->n_params && at < end; i++) {
        const struct zero__param *x = &m->params[m->by_segment[s->first_param + i]];
        /* A run ends where the next parameter starts: its gap belongs to it. */
        uint64_t stop = i + 1 < s->n_params
                            ? m->params[m->by_segment[s->first_param + i + 1]].offset
                            : s->padded;
        if (stop > end)
            stop = end;
        if (stop <= at)
            continue;
        if (n && runs[n - 1].group == x->group) {
            runs[n - 1].count += stop - at;
        } else if (n < max) {
            runs[n++] = (struct zero__run){at, stop - at, x->group};
        } else {
            break;
        }
        at = stop;
    }
    return n;
}
