/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The homes: which states a rank keeps for each segment, whole or as its shard, and where they lie.
 * They are stacked class by class; they live as long as the runtime, so there is nothing to search.
 *
 *   stage 0  everything whole
 *   stage 1  master copy and moments as shards
 *   stage 2  gradients too
 *   stage 3  parameters too (but persistent segments)
 *
 * With one rank there is nothing to shard, and gradients need no bucket.
 */
#include "schedule/program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/grow.h"
#include "base/status.h"

static int home_add(struct zero__states *s, uint32_t tier, uint32_t memory_class, uint32_t segment,
                    uint64_t bytes, uint32_t *id)
{
    uint64_t end;

    if (zero__grow(&s->buffers, &s->cap_buffers, s->n_buffers, sizeof *s->buffers))
        return -ENOMEM;
    if (zero__round_up(bytes, ZERO_BUFFER_ALIGN, &bytes) || zero__add(s->bytes[tier], bytes, &end))
        return -EOVERFLOW;
    s->buffers[s->n_buffers] = (struct zero__buffer){.memory_class = (uint8_t)memory_class,
                                                     .tier = (uint8_t)tier,
                                                     .segment = segment,
                                                     .declared = ZERO_NONE,
                                                     .bytes = bytes,
                                                     .offset = s->bytes[tier]};
    s->bytes[tier] = end;
    *id = s->n_buffers++;
    return 0;
}

/* Elements of a segment that a rank keeps when a state is whole or not. */
static uint64_t kept(const struct zero__segment *s, uint32_t whole)
{
    return whole ? s->padded : s->shard;
}

static void home_shape(const struct zero__recipe *r, const struct zero__segment *s,
                       struct zero__home *h)
{
    uint32_t alone = r->ranks == 1;

    *h = (struct zero__home){.param = ZERO_NONE,
                             .grad = ZERO_NONE,
                             .master = ZERO_NONE,
                             .momentum = ZERO_NONE,
                             .variance = ZERO_NONE,
                             .master_bytes = 4};
    h->param_whole = !zero__recipe_shards(r, s);
    h->grad_whole = alone || r->stage < 2 || (r->accum > 1 && r->boundary);
    h->state_whole = alone || r->stage < 1;
}

uint32_t zero__placed_of(uint32_t memory_class)
{
    switch (memory_class) {
    case ZERO_CLASS_PARAMETERS:
        return ZERO__P_PARAMETERS;
    case ZERO_CLASS_GRADIENTS:
    case ZERO_CLASS_ACCUMULATORS:
        return ZERO__P_GRADIENTS;
    default:
        return ZERO__P_OPTIMIZER;
    }
}

/* Frozen segments are parameters, and nothing else. */
static uint64_t elements(const struct zero__segment *g, uint32_t memory_class)
{
    return g->trainable || memory_class == ZERO_CLASS_PARAMETERS ? g->shard : 0;
}

static uint64_t elements_of_all(const struct zero__model *m, uint32_t memory_class)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < m->n_segments; i++)
        n += elements(&m->segments[i], memory_class);
    return n;
}

/* A segment's share of a class. */
struct portion {
    uint64_t elements;
    uint32_t segment;
};

static int by_size(const void *a, const void *b)
{
    const struct portion *x = a, *y = b;

    if (x->elements != y->elements)
        return x->elements < y->elements ? 1 : -1;
    return x->segment < y->segment ? -1 : 1;
}

/*
 * Gives a tier what comes nearest to `wanted` elements of what no tier has, the largest that fit
 * first.
 */
static void tier_choose(const struct portion *portions, uint32_t n, uint32_t tier, double wanted,
                        uint8_t *tiers)
{
    uint32_t least = n;

    for (uint32_t i = 0; i < n; i++) {
        if (tiers[portions[i].segment] != ZERO__N_TIERS)
            continue;
        if ((double)portions[i].elements > wanted) {
            least = i;
            continue;
        }
        wanted -= (double)portions[i].elements;
        tiers[portions[i].segment] = (uint8_t)tier;
    }
    if (least < n && (double)portions[least].elements < 2 * wanted)
        tiers[portions[least].segment] = (uint8_t)tier;
}

/*
 * The tier of every segment in a class: the parts of the device first, which do not depend on the
 * others', and the rest in the last tier that has a part. An optimizer's states have as many
 * elements each, so those of a segment stay together. The caller frees *tiers, one a segment.
 */
static int tiers_choose(const struct zero__model *m, const struct zero__recipe *r,
                        uint32_t memory_class, uint8_t **tiers)
{
    const uint16_t *parts = r->placed[zero__placed_of(memory_class)];
    const double all = (double)elements_of_all(m, memory_class);
    struct portion *portions = calloc(m->n_segments + 1, sizeof *portions);
    uint32_t last = ZERO__T_DEVICE; /* where nothing is said of the class */

    *tiers = malloc(m->n_segments + 1);
    if (!portions || !*tiers) {
        free(portions);
        free(*tiers);
        *tiers = NULL;
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < m->n_segments; i++)
        portions[i] = (struct portion){elements(&m->segments[i], memory_class), i};
    qsort(portions, m->n_segments, sizeof *portions, by_size);
    memset(*tiers, ZERO__N_TIERS, m->n_segments + 1);
    for (uint32_t t = 0; t < ZERO__N_TIERS; t++)
        last = parts[t] ? t : last;
    for (uint32_t t = 0; t < last; t++)
        if (parts[t])
            tier_choose(portions, m->n_segments, t, all * parts[t] / ZERO__PLACE_PARTS, *tiers);
    for (uint32_t i = 0; i < m->n_segments; i++)
        if ((*tiers)[i] == ZERO__N_TIERS)
            (*tiers)[i] = (uint8_t)last;
    free(portions);
    return 0;
}

/*
 * States outside the device, if there are any. Whole parameters on a disk are the exception: a
 * rank's part of them does not begin at a page, so the update body brings them to the device.
 */
static int early_choose(const struct zero__model *m, const struct zero__recipe *r,
                        struct zero__states *s)
{
    uint8_t *tiers;
    int err = r->early ? tiers_choose(m, r, ZERO_CLASS_MASTER, &tiers) : 0;

    if (!r->early || err)
        return err;
    for (uint32_t i = 0; i < m->n_segments; i++) {
        const struct zero__segment *g = &m->segments[i];
        struct zero__home *h = &s->homes[i];
        int published = h->param_whole && !h->state_whole;
        if (!g->trainable)
            continue;
        h->early = (g->dtype != ZERO_F32 || r->n_moments > 0) &&
                   tiers[i] != ZERO__T_DEVICE &&
                   !(published && s->buffers[h->param].tier == ZERO__T_DISK);
    }
    free(tiers);
    return 0;
}

/* One class of all segments, in these tiers. */
static int homes_add(const struct zero__model *m, const struct zero__recipe *r,
                     struct zero__states *s, uint32_t memory_class, const uint8_t *tiers)
{
    for (uint32_t i = 0; i < m->n_segments; i++) {
        const struct zero__segment *g = &m->segments[i];
        struct zero__home *h = &s->homes[i];
        uint32_t *id, whole, bytes = 4, tier = tiers[i];

        if (!elements(g, memory_class))
            continue;
        switch (memory_class) {
        case ZERO_CLASS_PARAMETERS:
            id = &h->param, whole = h->param_whole, bytes = zero_dtype_bytes(g->dtype);
            h->param_mapped = tier == ZERO__T_DEVICE && zero__recipe_maps(r, g);
            break;
        case ZERO_CLASS_GRADIENTS:
            if (h->early || tier != ZERO__T_DEVICE) /* nobody writes it there */
                h->grad_whole = h->state_whole;
            if (h->early) /* it is read where it has been reduced */
                continue;
            id = &h->grad, whole = h->grad_whole, bytes = zero_dtype_bytes(g->dtype);
            break;
        case ZERO_CLASS_ACCUMULATORS:
            if (tier != ZERO__T_DEVICE)
                h->grad_whole = h->state_whole || r->boundary;
            id = &h->grad, whole = h->grad_whole;
            break;
        case ZERO_CLASS_MASTER:
            id = &h->master, whole = h->state_whole;
            if (g->dtype == ZERO_F32)
                continue; /* the parameter is its own master copy */
            if (r->halves && g->dtype == ZERO_BF16 && tier != ZERO__T_DEVICE)
                h->master_bytes = 2;
            bytes = h->master_bytes;
            break;
        case ZERO_CLASS_MOMENTUM:
            id = &h->momentum, whole = h->state_whole, bytes = (uint32_t)zero__moment_bytes(r);
            break;
        default:
            id = &h->variance, whole = h->state_whole, bytes = (uint32_t)zero__moment_bytes(r);
        }
        int err = home_add(s, tier, memory_class, i, kept(g, whole) * bytes, id);
        if (err)
            return err;
    }
    return 0;
}

static int class_add(const struct zero__model *m, const struct zero__recipe *r,
                     struct zero__states *s, uint32_t memory_class)
{
    uint8_t *tiers;
    int err = tiers_choose(m, r, memory_class, &tiers);

    if (!err)
        err = homes_add(m, r, s, memory_class, tiers);
    free(tiers);
    return err;
}

/* At most a hundredth of the states of a model in 16 bits. */
static uint64_t staging_bytes(const struct zero__model *m)
{
    uint64_t states = elements_of_all(m, ZERO_CLASS_PARAMETERS) * 16, bytes = ZERO_STAGING_LEAST;

    while (bytes < ZERO_STAGING_MOST && bytes * 2 <= states / 128)
        bytes *= 2;
    return bytes;
}

static int own_add(const struct zero__model *m, const struct zero__recipe *r,
                   struct zero__states *s)
{
    int err;

    s->staging_bytes = staging_bytes(m);
    for (uint32_t i = 0; i < m->n_segments; i++) {
        s->homes[i].partials = s->n_partials;
        if (m->segments[i].trainable)
            s->n_partials += zero__sumsq_blocks(&m->segments[i]);
    }
    err = home_add(s, ZERO__T_DEVICE, ZERO_CLASS_OTHER, ZERO_NONE, s->n_partials * sizeof(double),
                   &s->partials);
    if (!err)
        err = home_add(s, ZERO__T_DEVICE, ZERO_CLASS_OTHER, ZERO_NONE, r->ranks * sizeof(double),
                       &s->sums);
    if (!err)
        err = home_add(s, ZERO__T_DEVICE, ZERO_CLASS_OTHER, ZERO_NONE, sizeof(struct zero_scalars),
                       &s->scalars);
    if (!err)
        err = home_add(s, ZERO__T_DEVICE, ZERO_CLASS_OTHER, ZERO_NONE, s->staging_bytes,
                       &s->staging);
    s->bounce = ZERO_NONE;
    if (!err && (s->bytes[ZERO__T_DISK] || r->placed[ZERO__P_ACTIVATIONS][ZERO__T_DISK]))
        err = home_add(s, ZERO__T_CPU, ZERO_CLASS_OTHER, ZERO_NONE,
                       s->staging_bytes + 2 * ZERO_BUFFER_ALIGN, &s->bounce);
    return err;
}

int zero__states_build(const struct zero__model *m, const struct zero__recipe *r,
                       struct zero__states *s)
{
    int err = -ENOMEM;

    *s = (struct zero__states){0};
    s->homes = calloc(m->n_segments + 1, sizeof *s->homes);
    if (!s->homes)
        goto out;
    for (uint32_t i = 0; i < m->n_segments; i++)
        home_shape(r, &m->segments[i], &s->homes[i]);
    err = class_add(m, r, s, ZERO_CLASS_PARAMETERS);
    if (!err)
        err = early_choose(m, r, s);
    if (!err)
        err = class_add(m, r, s, r->accum > 1 ? ZERO_CLASS_ACCUMULATORS : ZERO_CLASS_GRADIENTS);
    if (!err)
        err = class_add(m, r, s, ZERO_CLASS_MASTER);
    if (!err && r->n_moments > 0)
        err = class_add(m, r, s, ZERO_CLASS_MOMENTUM);
    if (!err && r->n_moments > 1)
        err = class_add(m, r, s, ZERO_CLASS_VARIANCE);
    if (!err)
        err = own_add(m, r, s);
out:
    if (err) {
        zero__states_free(s);
        return zero__fail(err, "%s",
                          err == -ENOMEM ? "no memory to lay out the model's states"
                                         : "the model's states exceed 2^64 bytes");
    }
    return 0;
}

struct zero__part zero__parameter_of(const struct zero__model *m, const struct zero__recipe *r,
                                     const struct zero__states *s, uint32_t segment)
{
    const struct zero__segment *g = &m->segments[segment];
    const struct zero__home *h = &s->homes[segment];
    uint64_t size = zero_dtype_bytes(g->dtype);
    int sliced = h->param_whole && !h->state_whole;

    return (struct zero__part){.home = h->param,
                               .bytes = kept(g, h->param_whole) * size,
                               .own_off = sliced ? g->shard * size * r->rank : 0,
                               .own_bytes = kept(g, h->state_whole) * size};
}

struct zero__gradient zero__gradient_of(const struct zero__model *m, const struct zero__recipe *r,
                                        const struct zero__states *s, uint32_t segment)
{
    const struct zero__segment *g = &m->segments[segment];
    const struct zero__home *h = &s->homes[segment];
    const uint32_t dtype = r->accum > 1 ? (uint32_t)ZERO_F32 : g->dtype;
    uint64_t size = zero_dtype_bytes(dtype), shard = g->shard * size;
    uint64_t own_off = h->grad_whole ? shard * r->rank : 0;

    return (struct zero__gradient){.home = h->grad,
                                   .tier = zero__tier_of(s, h->grad),
                                   .dtype = dtype,
                                   .size = size,
                                   .bytes = h->grad_whole ? g->padded * size : shard,
                                   .own_off = own_off,
                                   .own_bytes = shard,
                                   .used_off = h->state_whole ? 0 : own_off,
                                   .used_bytes = h->state_whole ? g->padded * size : shard};
}

void zero__states_free(struct zero__states *s)
{
    free(s->buffers);
    free(s->homes);
    *s = (struct zero__states){0};
}
