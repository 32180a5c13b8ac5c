/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes on the wire: what the transport counted in every step is what the program's ops say, on
 * every rank, whatever is still in flight when a step ends; so are the bytes of the initial values
 * and of reads; and for a model whose parameters need no padding the totals are the closed forms.
 */
#include "../tap.h"

#include <stdatomic.h>

#include "engine/runtime.h"
#include "run/runner.h"
#include "ranks.h"
#include "toy.h"

#define STEPS 5
#define LAYERS 4

struct seen {
    atomic_int bad;
    struct {
        uint64_t step, init, end; /* as the program says; counted after commit; after the steps */
        char why[256];
    } rank[4];
    int evaluates;
    uint64_t elements, size; /* without padding, of an element; 0: no closed form */
};

static uint64_t counted(struct zero_runtime *rt)
{
    uint64_t all = 0, bytes;

    if (zero_param_read(rt, 0, 0, 0, NULL)) /* nothing to read: all that was issued is done */
        return 0;
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        if (rt->run->lanes[q].comm && !rt->site.comm_ops.wire_bytes(rt->run->lanes[q].comm, &bytes))
            all += bytes;
    return all;
}

/* The initial values: whole copies come from the owners of their parts. */
static uint64_t init_bytes(const struct zero_runtime *rt)
{
    uint64_t all = 0;

    for (uint32_t i = 0; i < rt->site.model.n_segments && rt->site.ranks > 1; i++) {
        const struct zero__segment *s = &rt->site.model.segments[i];
        const struct zero__home *h = &rt->site.states.homes[i];
        uint64_t sent = s->shard * (uint64_t)(rt->site.ranks - 1);
        if (h->param_whole)
            all += sent * zero_dtype_bytes(s->dtype);
        if (h->master != ZERO_NONE && h->state_whole)
            all += sent * 4;
    }
    return all;
}

static uint64_t step_bytes(const struct zero_runtime *rt)
{
    const struct zero__body *b = rt->site.programs[0]->bodies;
    uint64_t all = 0;

    for (uint32_t body = 0; body < ZERO__N_BODIES; body++) {
        uint64_t ops = 0, times = body == ZERO__MICRO ? rt->site.recipe.accum - 1 : 1;
        for (uint32_t i = 0; i < b[body].n_ops; i++)
            ops += b[body].ops[i].wire_bytes;
        all += body == ZERO__EVALUATION ? 0 : ops * times;
    }
    return all;
}

static void complain(struct seen *x, int rank, const char *what, uint64_t got, uint64_t want)
{
    if (got == want || atomic_fetch_add(&x->bad, 1))
        return;
    snprintf(x->rank[rank].why, sizeof x->rank[rank].why, "rank %d, %s: %" PRIu64 ", not %" PRIu64,
             rank, what, got, want);
}

/* Elements sent by one rank: gradients and parameters, (ranks - 1) / ranks of the model each. */
static void closed_form(struct zero_runtime *rt, int rank, struct seen *x)
{
    const struct zero__recipe *r = &rt->site.recipe;
    uint64_t part = x->elements / r->ranks * (r->ranks - 1), A = r->accum, want;
    uint64_t norm = 8 * (uint64_t)(r->ranks - 1);

    if (A == 1 && r->stage < 3)
        want = 2 * part * x->size;
    else if (r->map_bytes && r->stage == 3) /* parameters are read where they are */
        want = r->boundary ? part * 4 : A * part * x->size;
    else if (r->stage == 3 && !r->boundary)
        want = 3 * A * part * x->size;
    else if (r->stage == 3) /* gathered twice a micro-batch, reduced once as fp32 */
        want = 2 * A * part * x->size + part * 4;
    else if (!r->boundary) /* stage 0 publishes the sums, the others the parameters */
        want = A * part * x->size + part * (r->stage == 0 ? 4 : x->size);
    else
        want = part * 4 + part * (r->stage == 0 ? 4 : x->size);
    complain(x, rank, "the closed form", x->rank[rank].step, want + norm);
}

static void committed(struct zero_runtime *rt, int rank, void *arg)
{
    struct seen *x = arg;

    x->rank[rank].step = step_bytes(rt);
    x->rank[rank].init = counted(rt);
    complain(x, rank, "the initial values", x->rank[rank].init, init_bytes(rt));
    if (x->size)
        closed_form(rt, rank, x);
}

static void stepped(struct zero_runtime *rt, int rank, int step, const struct zero_step_info *info,
                    void *arg)
{
    struct seen *x = arg;
    uint64_t between = x->evaluates ? rt->site.programs[0]->bodies[ZERO__EVALUATION].wire_bytes : 0;

    complain(x, rank, "a step", info->wire_bytes, x->rank[rank].step);
    if (step != STEPS - 1)
        return;
    uint64_t all = x->rank[rank].init + STEPS * x->rank[rank].step + (STEPS - 1) * between;
    x->rank[rank].end = counted(rt);
    complain(x, rank, "all steps", x->rank[rank].end, all);
}

/* Between the last step and this, the weights were hashed: each part came from its owner. */
static void finished(struct zero_runtime *rt, int rank, void *arg)
{
    struct seen *x = arg;
    uint64_t sent = x->evaluates ? rt->site.programs[0]->bodies[ZERO__EVALUATION].wire_bytes : 0;

    for (uint32_t i = 0; i < rt->site.model.n_params; i++) {
        const struct zero__param *p = &rt->site.model.params[i];
        const struct zero__segment *s = &rt->site.model.segments[p->segment];
        const struct zero__home *h = &rt->site.states.homes[p->segment];
        uint64_t first = s->shard * (uint64_t)rank, end = first + s->shard;
        if (h->master != ZERO_NONE ? h->state_whole : h->param_whole)
            continue;
        first = first > p->offset ? first : p->offset;
        end = end < p->offset + p->count ? end : p->offset + p->count;
        sent += first < end ? (end - first) * 4 * (uint64_t)(rt->site.ranks - 1) : 0;
    }
    complain(x, rank, "the hash", counted(rt) - x->rank[rank].end, sent);
}

static void one(const char *stage, int ranks, uint32_t dtype, const char *accum,
                const char *reduce_at, uint32_t flags, int even, const char *map)
{
    struct zero_setting s[] = {{"stage", stage},   {"accum", accum},         {"timeout", "20"},
                               {"comm", "shm"},    {"retain_bytes", "-1"},   {"clip", "1"},
                               {"bucket_bytes", "8K"}, {"reduce_at", reduce_at},
                               {"map", map}};
    uint64_t width = even ? 4096 * (uint64_t)ranks : 1500;
    struct seen x = {.evaluates = (flags & TOY_EVAL) != 0,
                     .elements = LAYERS * 2 * width,
                     .size = even ? zero_dtype_bytes(dtype) : 0};
    struct toy t = {.ranks = ranks, .layers = LAYERS, .steps = STEPS, .dtype = dtype,
                    .flags = flags, .width = width, .settings = s, .n_settings = 9, .seed = 1,
                    .committed = committed, .stepped = stepped, .finished = finished, .arg = &x};
    struct toy_result r;

    if (toy_train(&t, &r))
        diag("%s", r.error);
    ok(!r.err && !x.bad, "stage %s, %d ranks, %s, %s micro-batches, reduce at %s%s%s: %"
       PRIu64 " bytes a step", stage, ranks, zero_dtype_name(dtype), accum, reduce_at,
       *map == '1' ? ", mapped" : "", even ? ", closed form" : "", x.rank[0].step);
    for (int i = 0; i < ranks; i++)
        if (x.rank[i].why[0])
            diag("%s", x.rank[i].why);
}

int main(void)
{
    static const char *const stages[] = {"0", "1", "2", "3"};

    alarm(100);
    for (int i = 0; i < 4; i++) {
        one(stages[i], 2, ZERO_BF16, "1", "auto", 0, 1, "0");
        one(stages[i], 3, ZERO_F32, "1", "auto", 0, 1, "0");
        one(stages[i], 2, ZERO_BF16, "3", "micro", 0, 1, "0");
        one(stages[i], 4, ZERO_F16, "2", "boundary", 0, 1, "0");
        one(stages[i], 1, ZERO_BF16, "1", "auto", 0, 0, "0");
        one(stages[i], 3, ZERO_BF16, "1", "auto", TOY_TIED | TOY_EVAL, 0, "0");
        one(stages[i], 2, ZERO_F32, "3", "auto", TOY_PERSISTENT | TOY_FROZEN | TOY_UNUSED, 0, "0");
        one(stages[i], 2, ZERO_BF16, "1", "auto", TOY_RECOMPUTE | TOY_STREAM, 0, "0");
    }
    one("3", 2, ZERO_BF16, "1", "auto", 0, 1, "1");
    one("3", 3, ZERO_F32, "1", "auto", 0, 1, "1");
    one("3", 2, ZERO_BF16, "3", "micro", 0, 1, "1");
    one("3", 4, ZERO_F16, "2", "boundary", 0, 1, "1");
    one("3", 3, ZERO_BF16, "1", "auto", TOY_TIED | TOY_EVAL, 0, "1");
    one("3", 2, ZERO_F32, "3", "auto", TOY_PERSISTENT | TOY_FROZEN | TOY_UNUSED, 0, "1");
    done();
}
