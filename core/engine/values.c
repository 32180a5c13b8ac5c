/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of parameters from outside: initialisers, reading, writing, hashing. Always in pieces of
 * bounded size; the owner of a shard is the one who has its fp32 values.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/checked.h"
#include "base/elements.h"
#include "base/status.h"
#include "engine/runtime.h"

/* The elements of a home: [first, first + count) of the segment lie at its start. */
struct window {
    uint64_t first, count;
};

static struct window window_of(const struct zero_runtime *rt, uint32_t segment, int whole)
{
    const struct zero__segment *s = &rt->site.model.segments[segment];
    return whole ? (struct window){0, s->padded}
                 : (struct window){s->shard * rt->site.recipe.rank, s->shard};
}

static void clip(struct window *w, uint64_t first, uint64_t end)
{
    uint64_t last = w->first + w->count;
    w->first = w->first > first ? w->first : first;
    last = last < end ? last : end;
    w->count = last > w->first ? last - w->first : 0;
}

static uint32_t master_code(const struct zero__home *h)
{
    return h->master_bytes == 2 ? ZERO__LOW_HALF : (uint32_t)ZERO_F32;
}

/* Stores values of elements first … of the segment, as far as this rank keeps them. */
static int values_put(struct zero_runtime *rt, uint32_t segment, uint64_t first, uint64_t count,
                      const float *values)
{
    const struct zero__home *h = &rt->site.states.homes[segment];
    uint32_t dtype = rt->site.model.segments[segment].dtype;
    struct window home = window_of(rt, segment, (int)h->param_whole), w = home;

    clip(&w, first, first + count);
    int err = 0;
    if (w.count)
        err = zero__elements_store(rt->run, h->param, dtype, w.first - home.first, w.count,
                                   values + (w.first - first));
    if (err || h->master == ZERO_NONE)
        return err;
    w = home = window_of(rt, segment, (int)h->state_whole);
    clip(&w, first, first + count);
    return w.count ? zero__elements_store(rt->run, h->master, master_code(h), w.first - home.first,
                                          w.count, values + (w.first - first))
                   : 0;
}

/* fp32 values of elements that this rank owns: from the master copy where there is one. */
static int values_get(struct zero_runtime *rt, uint32_t segment, uint64_t first, uint64_t count,
                      float *values)
{
    const struct zero__home *h = &rt->site.states.homes[segment];
    struct window param = window_of(rt, segment, (int)h->param_whole);
    struct window master = window_of(rt, segment, (int)h->state_whole);
    int err = 0;

    if (h->master == ZERO_NONE || h->master_bytes == 2)
        err = zero__elements_load(rt->run, h->param, rt->site.model.segments[segment].dtype,
                                  first - param.first, count, values);
    if (!err && h->master != ZERO_NONE)
        err = zero__elements_load(rt->run, h->master, master_code(h), first - master.first, count,
                                  values);
    return err;
}

/* Begins to copy this rank's part of a whole home to the others. */
static int home_share(struct zero_runtime *rt, uint32_t segment, uint32_t id, uint32_t dtype)
{
    uint64_t off = rt->site.states.buffers[id].offset;
    uint64_t shard = rt->site.model.segments[segment].shard * zero_dtype_bytes(dtype);
    struct zero_coll c = {
        .kind = ZERO_ALL_GATHER,
        .flags = ZERO_COLL_INPLACE,
        .src_dtype = dtype,
        .dst_dtype = dtype,
        .scale = 1,
        .count = rt->site.model.segments[segment].shard,
        .src = zero__slice(&rt->site, ZERO__SLAB_STATES, off + shard * rt->site.recipe.rank, shard),
        .dst = zero__slice(&rt->site, ZERO__SLAB_STATES, off, shard * (uint64_t)rt->site.ranks)};
    return zero__coll_add(rt->run, ZERO__Q_GATHER, &c);
}

/* Waits until all ranks are here, if some parameter is mapped. */
static int everyone(struct zero_runtime *rt)
{
    struct zero_coll c = {.kind = ZERO_BARRIER, .scale = 1};

    if (rt->site.recipe.stage < 3 || !rt->site.recipe.map_bytes)
        return 0;
    for (uint32_t i = 0; i < rt->site.model.n_segments; i++)
        if (rt->site.mapped[i])
            return zero__coll_run(rt->run, ZERO__Q_GATHER, &c);
    return 0;
}

/* A whole master copy whose parts the ranks gather from each other. */
static int shares_master(const struct zero_runtime *rt, uint32_t segment)
{
    const struct zero__home *h = &rt->site.states.homes[segment];

    return h->master == ZERO_NONE || !h->state_whole ||
           rt->site.states.buffers[h->master].tier == ZERO__T_DEVICE;
}

/* The same of parameters. */
static int shares_param(const struct zero_runtime *rt, uint32_t segment)
{
    const struct zero__home *h = &rt->site.states.homes[segment];

    return !h->param_whole || rt->site.states.buffers[h->param].tier == ZERO__T_DEVICE;
}

/*
 * Fills `piece` with the initial values of elements first … first + count - 1 of a segment; gaps
 * between parameters are zero. *next: number, within the segment, of the first parameter that may
 * have elements there; it advances for the piece that follows.
 */
static int piece_init(const struct zero__model *m, const struct zero__segment *s, uint64_t first,
                      uint64_t count, uint32_t *next, float *piece)
{
    memset(piece, 0, count * sizeof *piece);
    for (; *next < s->n_params; ++*next) {
        const struct zero__param *p = &m->params[m->by_segment[s->first_param + *next]];
        struct window w = {first, count};
        clip(&w, p->offset, p->offset + p->count);
        int err = w.count ? zero__init_values(p, w.first - p->offset, w.count,
                                              piece + (w.first - first))
                          : 0;
        if (err)
            return err;
        if (p->offset + p->count > first + count)
            break;
    }
    return 0;
}

/* Whole pieces are stored: on a disk a piece costs no more than one small parameter. */
static int segment_init(struct zero_runtime *rt, uint32_t segment, float *piece)
{
    const struct zero__segment *s = &rt->site.model.segments[segment];
    const uint64_t most = zero__elements_piece(rt->run);
    /* A tier beside the device takes no copies from other ranks: this rank makes all of it. */
    struct window w = window_of(rt, segment, rt->site.ranks == 1 || !shares_master(rt, segment) ||
                                                 !shares_param(rt, segment));
    uint32_t next = 0;

    clip(&w, 0, s->used);
    for (uint64_t at = w.first; at < w.first + w.count; at += most) {
        uint64_t n = zero__least(w.first + w.count - at, most);
        int err = piece_init(&rt->site.model, s, at, n, &next, piece);
        if (!err)
            err = values_put(rt, segment, at, n, piece);
        if (err)
            return err;
    }
    return 0;
}

/* Each rank makes its own part; whole copies then come from the owners. */
int zero__values_init(struct zero_runtime *rt)
{
    float *piece = malloc(rt->site.states.staging_bytes);
    int err = piece ? 0 : zero__fail(-ENOMEM, "no memory to initialise parameters");

    for (uint32_t i = 0; i < rt->site.model.n_segments && !err; i++)
        err = segment_init(rt, i, piece);
    free(piece);
    for (uint32_t i = 0; i < rt->site.model.n_segments && !err && rt->site.ranks > 1; i++) {
        const struct zero__home *h = &rt->site.states.homes[i];
        if (h->param_whole && shares_param(rt, i))
            err = home_share(rt, i, h->param, rt->site.model.segments[i].dtype);
        if (!err && h->master != ZERO_NONE && h->state_whole && shares_master(rt, i))
            err = home_share(rt, i, h->master, ZERO_F32);
    }
    if (!err)
        err = zero__colls_await(rt->run, ZERO__Q_GATHER);
    return err ? err : everyone(rt); /* peers read mapped shards without a gather */
}

/* What is refused leaves an evaluation open; otherwise it ends here, and all ranks meet. */
static int values_begin(struct zero_runtime *rt, uint32_t param, uint64_t first, uint64_t count,
                        const char *what)
{
    int err = zero__step_phase(rt->step, ZERO__IN(IDLE) | ZERO__IN(EVAL), what);

    if (err)
        return err;
    if (param >= rt->site.model.n_params)
        return zero__fail(-EINVAL, "parameter %u is not registered (%u are)", param,
                          rt->site.model.n_params);
    const struct zero__param *p = &rt->site.model.params[param];
    if (first > p->count || count > p->count - first)
        return zero__fail(-ERANGE,
                          "parameter %s has %llu elements, numbered from 0: %llu from %llu on go "
                          "beyond them",
                          p->name, (unsigned long long)p->count, (unsigned long long)count,
                          (unsigned long long)first);
    err = zero__step_close(rt->step);
    return err ? err : zero__step_settle(rt->step, what);
}

/* One piece of one shard, from its owner to all; the staging buffer is where it travels. */
static int piece_read(struct zero_runtime *rt, uint32_t segment, uint32_t owner, uint64_t first,
                      uint64_t count, float *values)
{
    const struct zero__buffer *f = &rt->site.states.buffers[rt->site.states.staging];
    uint64_t bytes = count * sizeof(float);
    struct zero_coll c = {.kind = ZERO_BROADCAST,
                          .src_dtype = ZERO_F32,
                          .dst_dtype = ZERO_F32,
                          .scale = 1,
                          .root = (int32_t)owner,
                          .count = count};
    void *staging = zero__home_address(&rt->site, rt->site.states.staging, 0);

    *(owner == rt->site.recipe.rank ? &c.src : &c.dst) =
        zero__slice(&rt->site, ZERO__SLAB_STATES, f->offset, bytes);
    int mine = owner == rt->site.recipe.rank;
    int err = mine ? values_get(rt, segment, first, count, values) : 0;
    if (!err && mine)
        err = zero__device_write(rt->run, staging, values, bytes);
    if (!err)
        err = zero__coll_run(rt->run, ZERO__Q_REDUCE, &c);
    return err || mine ? err : zero__device_read(rt->run, values, staging, bytes);
}

static int values_read(struct zero_runtime *rt, const struct zero__param *p, uint64_t first,
                       uint64_t count, float *values)
{
    const struct zero__segment *s = &rt->site.model.segments[p->segment];
    const struct zero__home *h = &rt->site.states.homes[p->segment];
    int local = h->master != ZERO_NONE ? (int)h->state_whole : (int)h->param_whole;
    uint64_t at = p->offset + first, end = at + count;

    if (local)
        return values_get(rt, p->segment, at, count, values);
    while (at < end) {
        uint32_t owner = (uint32_t)(at / s->shard);
        uint64_t n = (owner + 1) * s->shard - at;
        n = n < end - at ? n : end - at;
        n = zero__least(n, zero__elements_piece(rt->run));
        int err = piece_read(rt, p->segment, owner, at, n, values);
        if (err)
            return err;
        values += n;
        at += n;
    }
    return 0;
}

int zero_param_read(struct zero_runtime *rt, uint32_t param, uint64_t first, uint64_t count,
                    float *values)
{
    int err = values_begin(rt, param, first, count, "zero_param_read()");

    if (err || !count)
        return err;
    err = values_read(rt, &rt->site.model.params[param], first, count, values);
    return zero__run_fail_alone(rt->run, err, "zero_param_read");
}

int zero_param_write(struct zero_runtime *rt, uint32_t param, uint64_t first, uint64_t count,
                     const float *values)
{
    int err = values_begin(rt, param, first, count, "zero_param_write()");

    if (err)
        return err;
    const struct zero__param *p = &rt->site.model.params[param];
    err = everyone(rt); /* is done with reading the old values */
    if (err)
        return err;
    err = values_put(rt, p->segment, p->offset + first, count, values);
    if (!err)
        err = everyone(rt);
    return zero__run_fail_alone(rt->run, err, "zero_param_write");
}

/* The ranks have met: whatever one of them lacks, the others wait for what it has. */
static int values_hash(struct zero_runtime *rt, uint64_t *hash)
{
    float *piece = malloc(rt->site.states.staging_bytes);
    XXH3_state_t *h = XXH3_createState();
    int err = piece && h ? 0 : zero__fail(-ENOMEM, "no memory to hash parameters");

    if (!err)
        XXH3_64bits_reset(h);
    for (uint32_t i = 0; i < rt->site.model.n_params && !err; i++) {
        const struct zero__param *p = &rt->site.model.params[i];
        for (uint64_t at = 0; at < p->count && !err; at += zero__elements_piece(rt->run)) {
            uint64_t n = zero__least(p->count - at, zero__elements_piece(rt->run));
            err = values_read(rt, p, at, n, piece);
            if (!err)
                XXH3_64bits_update(h, piece, n * sizeof *piece);
        }
    }
    if (!err)
        *hash = XXH3_64bits_digest(h);
    if (h)
        XXH3_freeState(h);
    free(piece);
    return err;
}

int zero_weights_hash(struct zero_runtime *rt, uint64_t *hash)
{
    int err = values_begin(rt, 0, 0, 0, "zero_weights_hash()");

    return err ? err : zero__run_fail_alone(rt->run, values_hash(rt, hash), "zero_weights_hash");
}
