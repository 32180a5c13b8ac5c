/* SPDX-License-Identifier: Apache-2.0 */
#include "toy.h"
#include "../threads.h"
#include "try.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_LAYERS 32

struct rank;

/* What one use computes; on a stream it runs later, so each use of a micro-step has its own. */
struct work {
    struct rank *r;
    uint64_t input;  /* first layer: seed of its input, else 0 */
    int spoil, loss; /* a gradient that is not finite; last layer */
    int carry;       /* what comes out goes into the next step */
    const void *w, *b, *table;
    void *dw, *db, *dtable;
    float beta, scale, *x, *y, *skip; /* skip: where y goes too */
    float *keep;                      /* where x goes too */
};

struct rank {
    const struct toy *t;
    int rank;
    char job[64];
    struct toy_result out;

    struct zero_runtime *rt;
    void *stream;
    uint32_t units[MAX_LAYERS], w[MAX_LAYERS], b[MAX_LAYERS], x[MAX_LAYERS + 2];
    uint32_t tables[MAX_LAYERS];
    uint32_t kept[MAX_LAYERS]; /* activations: each layer's input */
    uint64_t n;
    int step, micro, accum, carries, back; /* back: in the backward pass */
    uint64_t carried;
    float *dx;
    struct work works[4 * MAX_LAYERS];
    uint32_t n_works;
};

/* The model computes on the host whatever the device: `p` may be NULL. */
static void *reach(const struct rank *r, const void *p)
{
    return r->t->reach && p ? r->t->reach(p) : (void *)(uintptr_t)p;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static float noise(uint64_t a, uint64_t b)
{
    return (float)((double)(mix(mix(a) + b) >> 40) / (1 << 24) - 0.5);
}

static float get(const void *p, uint64_t i, uint32_t dtype)
{
    return dtype == ZERO_F32    ? ((const float *)p)[i]
           : dtype == ZERO_BF16 ? zero_float_from_bf16(((const uint16_t *)p)[i])
                                : zero_float_from_fp16(((const uint16_t *)p)[i]);
}

static void put(void *p, uint64_t i, uint32_t dtype, float beta, float x)
{
    if (beta != 0)
        x += get(p, i, dtype);
    if (dtype == ZERO_F32)
        ((float *)p)[i] = x;
    else
        ((uint16_t *)p)[i] = dtype == ZERO_BF16 ? zero_bf16_from_float(x) : zero_fp16_from_float(x);
}

static int last_layer(const struct rank *r)
{
    return r->t->layers + (r->t->flags & TOY_TIED ? 1 : 0);
}

/* The unit of the i-th layer; a tied model ends with its first unit. */
static int unit_of(const struct rank *r, int layer)
{
    return layer == r->t->layers ? 0 : layer;
}

/* The k-th layer to visit going forward: odd steps of a reordering model swap neighbours. */
static int visit(const struct rank *r, int k)
{
    if ((r->t->flags & TOY_APART) && r->rank != 1)
        return k;
    if ((r->t->flags & TOY_FORTH) && r->back)
        return k;
    if ((r->t->flags & TOY_REORDER) && r->step % 2 == 1 && k / 2 * 2 + 1 < r->t->layers)
        return k ^ 1;
    return k;
}

static int left_out(const struct rank *r, int layer)
{
    int skips = r->t->flags & TOY_SKIP || (r->t->flags & TOY_EARLY && r->micro + 1 == r->accum);

    return skips && r->step == 1 && layer == 1;
}

static int has_table(const struct rank *r, int u)
{
    return r->t->table && u % 2 == 1;
}

static void pretend(const struct rank *r)
{
    uint32_t ms = r->t->compute_ms + (r->rank == r->t->late ? r->t->late_ms : 0);
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};

    if (ms)
        nanosleep(&t, NULL);
}

static void layer_forward(void *arg)
{
    const struct work *k = arg;
    struct rank *r = k->r;

    pretend(r);
    for (uint64_t i = 0; i < r->n && k->input; i++)
        k->x[i] = noise(k->input - 1, i);
    for (uint64_t i = 0; i < r->n; i++)
        k->y[i] = get(k->w, i, r->t->dtype) * k->x[i] + get(k->b, i, r->t->dtype);
    for (uint64_t i = 0; k->table && i < r->t->table; i++)
        k->y[i % r->n] += get(k->table, i, r->t->dtype);
    if (k->keep)
        memcpy(k->keep, k->x, r->n * sizeof *k->x);
    if (k->skip)
        memcpy(k->skip, k->y, r->n * sizeof *k->y);
    for (uint64_t i = 0; i < r->n && k->carry; i++) {
        uint32_t bits;
        memcpy(&bits, &k->y[i], sizeof bits);
        r->carried = mix(r->carried + bits);
    }
}

static void layer_backward(void *arg)
{
    const struct work *k = arg;
    struct rank *r = k->r;
    float *dx = r->dx;

    pretend(r);
    for (uint64_t i = 0; i < r->n && k->loss; i++) {
        float d = k->y[i] - noise(99, i);
        r->out.loss += d * d;
        dx[i] = 2 * d * k->scale / (float)r->n;
    }
    for (uint64_t i = 0; k->dtable && i < r->t->table; i++)
        put(k->dtable, i, r->t->dtype, k->beta, dx[i % r->n]);
    for (uint64_t i = 0; i < r->n; i++) {
        float g = k->spoil && i == 5 ? NAN : dx[i] * k->x[i];
        if (k->dw)
            put(k->dw, i, r->t->dtype, k->beta, g);
        if (k->db)
            put(k->db, i, r->t->dtype, k->beta, dx[i]);
        dx[i] *= get(k->w, i, r->t->dtype);
    }
}

/* Does layer `layer` keep its input as an activation? A tied unit is used twice, and so does not */
static int keeps(const struct rank *r, int layer)
{
    int twice = (r->t->flags & TOY_TIED) && layer % r->t->layers == 0;

    return (r->t->flags & TOY_ACTIVATIONS) && !twice;
}

/* The k-th visit: the unit's pointers, and the vectors x[k] and x[k + 1]. */
static struct work *work_new(struct rank *r, int k, int u)
{
    struct work *w = &r->works[r->n_works++];

    *w = (struct work){.r = r,
                       .w = reach(r, zero_param(r->rt, r->w[u])),
                       .b = reach(r, zero_param(r->rt, r->b[u])),
                       .x = reach(r, zero_buffer(r->rt, r->x[k])),
                       .y = reach(r, zero_buffer(r->rt, r->x[k + 1]))};
    if (has_table(r, u))
        w->table = reach(r, zero_param(r->rt, r->tables[u]));
    return w;
}

static int work_do(struct rank *r, void (*fn)(void *), struct work *w)
{
    if (r->stream)
        return zero_stream_call(r->rt, r->stream, fn, w);
    fn(w);
    return 0;
}

static int use_forward(struct rank *r, int k, int again)
{
    int L = last_layer(r), layer = visit(r, k), u = unit_of(r, layer);

    TRY(zero_acquire(r->rt, r->units[u], ZERO_FORWARD, r->stream));
    struct work *w = work_new(r, k, u);
    if (k == 0 && !again)
        w->input = (uint64_t)(r->step * 64 + r->micro * 16 + r->rank) + 1 + r->carried;
    w->carry = r->carries && k == L - 1;
    if (left_out(r, layer + 1) && k + 2 <= L)
        w->skip = reach(r, zero_buffer(r->rt, r->x[k + 2]));
    if (keeps(r, layer) && !again && layer % 2 == 0) {
        w->keep = reach(r, zero_activation(r->rt, r->kept[u]));
        if (!w->keep)
            return -EFAULT;
    }
    TRY(work_do(r, layer_forward, w));
    if (keeps(r, layer) && !again)
        TRY(zero_activation_save(r->rt, r->kept[u],
                                 layer % 2 ? zero_buffer(r->rt, r->x[k]) : NULL,
                                 r->n * sizeof *w->x, r->stream));
    return zero_release(r->rt, r->units[u], ZERO_FORWARD, r->stream);
}

static int forward(struct rank *r)
{
    r->n_works = 0;
    r->back = 0;
    for (int k = 0; k < last_layer(r); k++)
        if (!left_out(r, visit(r, k)))
            TRY(use_forward(r, k, 0));
    return 0;
}

static int use_backward(struct rank *r, int k, float scale)
{
    int u = unit_of(r, visit(r, k));

    TRY(zero_acquire(r->rt, r->units[u], ZERO_BACKWARD, r->stream));
    struct work *w = work_new(r, k, u);
    w->dw = reach(r, zero_grad(r->rt, r->w[u], &w->beta));
    w->db = reach(r, zero_grad(r->rt, r->b[u], &w->beta));
    if (has_table(r, u))
        w->dtable = reach(r, zero_grad(r->rt, r->tables[u], &w->beta));
    w->spoil = (r->t->flags & TOY_NAN) && r->step == 2 && r->rank == 1 && u == 1;
    w->loss = k == last_layer(r) - 1;
    w->scale = scale;
    if (keeps(r, visit(r, k))) {
        void *kept;
        TRY(zero_activation_restore(r->rt, r->kept[u], &kept, NULL));
        if (r->t->flags & TOY_RECOMPUTE) /* the input has been there all the time */
            w->spoil |= memcmp(reach(r, kept), w->x, r->n * sizeof *w->x) != 0;
        w->x = reach(r, kept);
    }
    TRY(work_do(r, layer_backward, w));
    return zero_release(r->rt, r->units[u], ZERO_BACKWARD, r->stream);
}

static int backward(struct rank *r)
{
    float scale = zero_loss_scale(r->rt);

    r->out.loss = 0;
    r->back = 1;
    for (int k = last_layer(r); k-- > 0;) {
        if (left_out(r, visit(r, k)) || (r->t->flags & TOY_SHORT && r->step == 1 && k == 0))
            continue;
        if (r->t->flags & TOY_RECOMPUTE)
            TRY(use_forward(r, k, 1));
        TRY(use_backward(r, k, scale));
    }
    return 0;
}

static uint32_t order_make(const struct rank *r, struct zero_use *uses, int training)
{
    int L = last_layer(r);
    uint32_t n = 0;

    for (int k = 0; k < L; k++)
        uses[n++] = (struct zero_use){r->units[unit_of(r, visit(r, k))], ZERO_FORWARD};
    for (int k = L; k-- > 0 && training;) {
        uint32_t unit = r->units[unit_of(r, visit(r, k))];
        if (r->t->flags & TOY_RECOMPUTE)
            uses[n++] = (struct zero_use){unit, ZERO_FORWARD};
        uses[n++] = (struct zero_use){unit, ZERO_BACKWARD};
    }
    return n;
}

static int announce(struct rank *r)
{
    struct zero_use uses[4 * MAX_LAYERS];
    uint32_t n = order_make(r, uses, 1);

    TRY(zero_set_order(r->rt, ZERO_TRAIN, uses, n));
    n = order_make(r, uses, 0);
    return zero_set_order(r->rt, ZERO_EVAL, uses, n);
}

static int params_add(struct rank *r, int u)
{
    char name[32];
    struct zero_param_desc d = {.size = sizeof d, .name = name, .dtype = r->t->dtype, .n_dims = 1};

    snprintf(name, sizeof name, "layer%d", u);
    TRY(zero_unit_add(r->rt, name, &r->units[u]));
    d.dims[0] = r->n;
    d.init = (struct zero_init){.kind = ZERO_INIT_NORMAL, .a = 1, .b = 0.05f,
                                .seed = r->t->seed + (uint64_t)u};
    d.flags = (r->t->flags & TOY_STILL) && u == 2 ? ZERO_PARAM_FROZEN : 0;
    snprintf(name, sizeof name, "layer%d.w", u);
    TRY(zero_param_add(r->rt, r->units[u], &d, &r->w[u]));
    d.init.a = 0;
    d.init.seed += 1000;
    if ((r->t->flags & TOY_FROZEN) && u % 3 == 1)
        d.flags |= ZERO_PARAM_FROZEN;
    if ((r->t->flags & TOY_PERSISTENT) && u % 2 == 0)
        d.flags |= ZERO_PARAM_PERSISTENT;
    snprintf(name, sizeof name, "layer%d.b", u);
    TRY(zero_param_add(r->rt, r->units[u], &d, &r->b[u]));
    if (!has_table(r, u))
        return 0;
    d.dims[0] = r->t->table;
    d.init.b = 0.002f; /* each of y is a sum of many */
    d.init.seed += 1000;
    d.flags = 0;
    snprintf(name, sizeof name, "layer%d.table", u);
    return zero_param_add(r->rt, r->units[u], &d, &r->tables[u]);
}

static int model_add(struct rank *r)
{
    int L = last_layer(r), extra = r->t->flags & TOY_UNUSED ? 1 : 0;

    for (int u = 0; u < r->t->layers + extra; u++)
        TRY(params_add(r, u));
    for (int k = 0; k <= L; k++) {
        char name[32];
        /* Reordered models visit in any order: their vectors live through the whole step. */
        int loose = (r->t->flags & (TOY_REORDER | TOY_SKIP | TOY_EARLY | TOY_SHORT)) != 0;
        /* The layer before writes its result again when it is computed again. */
        int before = k == 0 ? 0 : k - 1, again = (r->t->flags & TOY_RECOMPUTE) != 0;
        int from = before, to = k == L || again ? before : k;
        /* What is kept as an activation need not be here. */
        int forward = k > 0 && k < L && keeps(r, k) && keeps(r, k - 1) && !again;
        struct zero_buffer_desc d = {.size = sizeof d,
                                     .name = name,
                                     .memory_class = ZERO_CLASS_ACTIVATIONS,
                                     .bytes = r->n * sizeof(float),
                                     .from_unit = loose ? ZERO_WHOLE_STEP
                                                        : r->units[unit_of(r, from)],
                                     .to_unit = loose ? ZERO_WHOLE_STEP
                                                      : r->units[unit_of(r, to)],
                                     .to_pass = forward ? ZERO_FORWARD : ZERO_BACKWARD};
        snprintf(name, sizeof name, "x%d", k);
        TRY(zero_buffer_add(r->rt, &d, &r->x[k]));
    }
    for (int u = 0; u < r->t->layers; u++) {
        char name[32];
        struct zero_activation_desc d = {.size = sizeof d,
                                         .name = name,
                                         .bytes = r->n * sizeof(float),
                                         .from_unit = r->units[u],
                                         .to_unit = r->units[u],
                                         .to_pass = ZERO_BACKWARD};
        snprintf(name, sizeof name, "kept%d", u);
        if (keeps(r, u))
            TRY(zero_activation_add(r->rt, &d, &r->kept[u]));
    }
    if (r->t->flags & (TOY_TIED | TOY_RECOMPUTE | TOY_UNUSED))
        TRY(announce(r));
    return 0;
}

static int train(struct rank *r)
{
    r->accum = atoi(zero_option(r->rt, "accum"));

    for (r->step = 0; r->step < r->t->steps; r->step++) {
        const int *micros =
            r->rank == 1 && r->t->odd_micros ? r->t->odd_micros : r->t->micros;
        if (micros)
            r->accum = micros[r->step % r->t->n_micros];
        if (r->t->flags & TOY_ANNOUNCE)
            TRY(announce(r));
        for (r->micro = 0; r->micro < r->accum; r->micro++) {
            TRY(zero_begin(r->rt, ZERO_TRAIN, r->micro + 1 == r->accum));
            TRY(forward(r));
            TRY(backward(r));
            if (r->t->flags & TOY_BETWEEN && r->micro + 1 < r->accum) {
                TRY(zero_begin(r->rt, ZERO_EVAL, 0));
                TRY(forward(r));
            }
        }
        if (r->t->flags & TOY_BEFORE) {
            TRY(zero_begin(r->rt, ZERO_EVAL, 0));
            r->carries = 1;
            TRY(forward(r));
            r->carries = 0;
        }
        TRY(zero_update(r->rt, &r->out.info));
        if (r->t->stepped)
            r->t->stepped(r->rt, r->rank, r->step, &r->out.info, r->t->arg);
        if (r->t->flags & TOY_EVAL) {
            TRY(zero_begin(r->rt, ZERO_EVAL, 0));
            TRY(forward(r));
        }
    }
    return 0;
}

static int rank_run(struct rank *r)
{
    struct zero_config cfg = ZERO_CONFIG_INIT;

    cfg.settings = r->t->settings;
    cfg.n_settings = r->t->n_settings - (r->rank ? 0 : r->t->n_other);
    cfg.rank = r->rank;
    cfg.ranks = cfg.local_ranks = r->t->ranks;
    cfg.job = r->job;
    cfg.model = r->t->model;
    cfg.log = r->t->log;
    cfg.log_arg = r->t->arg;
    r->n = r->t->width;
    r->dx = calloc(r->n, sizeof *r->dx);
    TRY(zero_create(&cfg, &r->rt));
    TRY(model_add(r));
    if (r->t->registered)
        r->t->registered(r->rt, r->rank, r->t->arg);
    TRY(zero_commit(r->rt));
    if (r->t->flags & TOY_STREAM)
        TRY(zero_stream_create(r->rt, &r->stream));
    if (r->t->committed)
        r->t->committed(r->rt, r->rank, r->t->arg);
    TRY(train(r));
    TRY(zero_weights_hash(r->rt, &r->out.hash));
    if (r->t->finished)
        r->t->finished(r->rt, r->rank, r->t->arg);
    r->out.memory.size = sizeof r->out.memory;
    TRY(zero_memory_report(r->rt, &r->out.memory));
    return r->stream ? zero_stream_destroy(r->rt, r->stream) : 0;
}

static void *rank_main(void *arg)
{
    struct rank *r = arg;

    r->out.err = rank_run(r);
    if (r->out.err) {
        snprintf(r->out.error, sizeof r->out.error, "%s", zero_last_error());
        if (r->t->failed)
            r->t->failed(r->rank, r->out.err, r->out.error, r->t->arg);
        if (r->rt && r->t->lost)
            r->t->lost(r->rt, r->rank, r->out.err, r->out.error, r->t->arg);
        if (r->rt)
            zero_abort(r->rt, r->out.error);
    }
    zero_destroy(r->rt);
    free(r->dx);
    return NULL;
}

int toy_train(const struct toy *t, struct toy_result *result)
{
    static atomic_int n_jobs;
    struct rank *ranks = calloc((size_t)t->ranks, sizeof *ranks);
    int job = atomic_fetch_add(&n_jobs, 1), agree = 1, first = -1;

    for (int i = 0; i < t->ranks; i++) {
        ranks[i].t = t;
        ranks[i].rank = i;
        if (t->job)
            snprintf(ranks[i].job, sizeof ranks[i].job, "%s", t->job);
        else
            snprintf(ranks[i].job, sizeof ranks[i].job, "toy-%d-%d", (int)getpid(), job);
    }
    in_threads(rank_main, ranks, t->ranks);
    for (int i = 0; i < t->ranks; i++) {
        if (ranks[i].out.err && first < 0)
            first = i;
        agree &= ranks[i].out.hash == ranks[0].out.hash;
    }
    *result = ranks[0].out;
    result->agree = agree;
    result->err = first < 0 ? 0 : ranks[first].out.err;
    if (first > 0)
        memcpy(result->error, ranks[first].out.error, sizeof result->error);
    free(ranks);
    return result->err;
}

uint64_t toy_planned(const struct toy_result *r, const char *tier, const char *class_name)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < r->memory.n_rows; i++)
        if (!strcmp(r->memory.rows[i].tier, tier) &&
            (!class_name || !strcmp(r->memory.rows[i].class_name, class_name)))
            bytes += r->memory.rows[i].planned;
    return bytes;
}

int toy_rank(const struct toy *t, int rank, const char *job, struct toy_result *result)
{
    struct rank *r = calloc(1, sizeof *r);

    r->t = t;
    r->rank = rank;
    snprintf(r->job, sizeof r->job, "%s", job);
    rank_main(r);
    *result = r->out;
    free(r);
    return result->err;
}
