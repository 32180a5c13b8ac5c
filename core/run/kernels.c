/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes of kernels: launches on a stream of the device, or of the host for tiles that lie there. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/status.h"
#include "run/callback.h"
#include "run/runner.h"

#define MAX_RUNS 64u

static int launch(struct zero__runner *run, uint32_t queue, uint32_t kernel, const void *args,
                  uint64_t bytes)
{
    const struct zero__lane *l = &run->lanes[queue];
    struct zero_launch what = {kernel, 0, args, bytes};
    return l->ops->launch(l->dev, &what, l->stream);
}

static void *at(struct zero__runner *run, const struct zero__slot *s, const struct zero__access *x)
{
    return zero__address(run->site, s->body, x->buffer, x->off);
}

int zero__zeros_launch(struct zero__runner *run, uint32_t segment, void *p, uint64_t n)
{
    static const uint64_t first = 0;

    run->zero_count[segment] = n;
    struct zero_fill_args args = {p, ZERO_F32, 1, &first, &run->zero_count[segment]};
    return launch(run, ZERO__Q_CPU, ZERO_KERNEL_FILL, &args, sizeof args);
}

static int fill(struct zero__runner *run, const struct zero__op *op, const struct zero__slot *s)
{
    for (uint32_t a = op->first_access; a < op->first_access + op->n_accesses; a++) {
        const struct zero__access *x = &s->body->accesses[a];
        const struct zero__gaps *g = &run->site->model.segments[x->segment].gaps;
        if (x->role != ZERO__R_DST) /* waited for, and left alone */
            continue;
        if (op->flags & ZERO__OP_WHOLE) {
            int err = zero__zeros_launch(run, x->segment, at(run, s, x), x->bytes / sizeof(float));
            if (err)
                return err;
            continue;
        }
        struct zero_fill_args args = {at(run, s, x), run->site->model.segments[x->segment].dtype,
                                      g->n, g->first, g->count};
        int err = launch(run, ZERO__Q_CPU, ZERO_KERNEL_FILL, &args, sizeof args);
        if (err)
            return err;
    }
    return 0;
}

static int accumulate(struct zero__runner *run, const struct zero__op *op,
                      const struct zero__slot *s)
{
    const struct zero__access *x = &s->body->accesses[op->first_access];

    for (uint32_t i = 0; i + 1 < op->n_accesses; i += 2) {
        const struct zero__segment *g = &run->site->model.segments[x[i].segment];
        struct zero_accumulate_args args = {at(run, s, &x[i + 1]), at(run, s, &x[i]), g->padded,
                                            g->dtype, (uint32_t)s->accumulate};
        int err = launch(run, ZERO__Q_CPU, ZERO_KERNEL_ACCUMULATE, &args, sizeof args);
        if (err)
            return err;
    }
    return 0;
}

static uint32_t grad_dtype(const struct zero__runner *run, uint32_t segment)
{
    return zero__gradient_of(&run->site->model, &run->site->recipe, &run->site->states, segment)
        .dtype;
}

static int sumsq(struct zero__runner *run, const struct zero__op *op, const struct zero__slot *s)
{
    const struct zero__access *x = &s->body->accesses[op->first_access];

    for (uint32_t i = 0; i + 1 < op->n_accesses; i += 2) {
        const uint32_t segment = x[i].segment;
        struct zero_sumsq_args args = {at(run, s, &x[i + 1]), at(run, s, &x[i]),
                                       run->site->model.segments[segment].shard,
                                       grad_dtype(run, segment), 0};
        int err = launch(run, op->queue, ZERO_KERNEL_SUMSQ, &args, sizeof args);
        if (err)
            return err;
    }
    return 0;
}

static int total(struct zero__runner *run, const struct zero__op *op, const struct zero__slot *s)
{
    const struct zero__access *x = &s->body->accesses[op->first_access];
    struct zero_total_args args = {at(run, s, &x[1]), at(run, s, &x[0]),
                                   run->site->states.n_partials};

    return launch(run, ZERO__Q_CPU, ZERO_KERNEL_TOTAL, &args, sizeof args);
}

static int scalars(struct zero__runner *run, const struct zero__op *op, const struct zero__slot *s)
{
    const struct zero__access *x = &s->body->accesses[op->first_access];
    int with_sums = op->n_accesses > 1; /* else the updates do not wait for them */
    int dynamic = run->site->model.train_dtype == ZERO_F16 &&
                  zero__option_real(run->site->options, ZERO__OPT_LOSS_SCALE) == 0;
    struct zero_scalars_args args = {
        .scalars = at(run, s, &x[with_sums]),
        .sums = at(run, s, &x[0]),
        .ranks = with_sums ? (uint32_t)run->site->ranks : 0,
        .window = (uint32_t)zero__option_int(run->site->options, ZERO__OPT_LOSS_SCALE_WINDOW),
        .inverse = 1.0f / (float)s->micro,
        .clip = (float)zero__option_real(run->site->options, ZERO__OPT_CLIP),
        .growth = dynamic ? 2.0f : 0.0f,
        .backoff = 0.5f,
        .min_scale = 1.0f, /* as what ZERO_LOSS_SCALE_INIT may be */
        .max_scale = 16777216.0f};

    int err = launch(run, ZERO__Q_CPU, ZERO_KERNEL_SCALARS, &args, sizeof args);
    return err ? err : zero__reach_follow(run, args.scalars, run->lanes[ZERO__Q_CPU].stream);
}

/* The op's access to a segment in a role, or NULL. */
static const struct zero__access *access_find(const struct zero__body *b, const struct zero__op *op,
                                              uint32_t segment, uint32_t role)
{
    for (uint32_t a = op->first_access; a < op->first_access + op->n_accesses; a++)
        if (b->accesses[a].segment == segment && b->accesses[a].role == role)
            return &b->accesses[a];
    return NULL;
}

static int operands_find(struct zero__runner *run, const struct zero__op *op,
                         const struct zero__slot *s, uint32_t segment, struct zero__operands *o)
{
    const struct zero__access *grad = access_find(s->body, op, segment, ZERO__R_GRAD);
    const struct zero__access *param = access_find(s->body, op, segment, ZERO__R_PARAM);
    const struct zero__access *x;
    const struct zero__segment *g = &run->site->model.segments[segment];

    if (!grad || !param)
        return 0;
    *o = (struct zero__operands){
        .segment = segment, .grad = at(run, s, grad), .param = at(run, s, param)};
    o->grad_dtype = grad_dtype(run, segment);
    o->count = param->bytes / zero_dtype_bytes(g->dtype);
    o->first =
        op->first +
        (run->site->states.homes[segment].state_whole ? 0 : g->shard * run->site->recipe.rank);
    x = access_find(s->body, op, segment, ZERO__R_MASTER);
    if (x && run->site->states.homes[segment].master_bytes == 2)
        o->low = (void *)at(run, s, x);
    else
        o->master = x ? (void *)at(run, s, x) : (void *)o->param;
    x = access_find(s->body, op, segment, ZERO__R_MOMENTUM);
    o->m = x ? at(run, s, x) : NULL;
    x = access_find(s->body, op, segment, ZERO__R_VARIANCE);
    o->v = x ? at(run, s, x) : NULL;
    return 1;
}

/* Updates that no other work is to come between, on their way to the device of a queue. */
struct updates {
    struct zero_update_args args[ZERO_UPDATES_MOST];
    uint32_t queue, kernel, n;
};

static int updates_launch(struct zero__runner *run, struct updates *u)
{
    const struct zero_updates_args all = {u->args, u->kernel, u->n};
    const bool together = run->lanes[u->queue].dev == run->site->dev &&
                          run->site->device_kernels & 1u << ZERO_KERNEL_UPDATES;
    int err = 0;

    if (together && u->n > 1)
        err = launch(run, u->queue, ZERO_KERNEL_UPDATES, &all, sizeof all);
    else
        for (uint32_t i = 0; i < u->n && !err; i++)
            err = launch(run, u->queue, u->kernel, &u->args[i], sizeof u->args[i]);
    u->n = 0;
    return err;
}

static int updates_add(struct zero__runner *run, struct updates *u,
                       const struct zero_update_args *a)
{
    u->args[u->n++] = *a;
    return u->n == ZERO_UPDATES_MOST ? updates_launch(run, u) : 0;
}

static int update_runs(struct zero__runner *run, struct updates *u, const struct zero__operands *o,
                       const struct zero_scalars *step)
{
    struct zero__run runs[MAX_RUNS];
    uint32_t dtype = run->site->model.segments[o->segment].dtype;
    uint32_t size = zero_dtype_bytes(dtype), gsize = zero_dtype_bytes(o->grad_dtype);
    uint64_t msize = zero__moment_bytes(&run->site->recipe);
    uint64_t first = o->first, end = o->first + o->count;

    while (first < end) {
        uint32_t n =
            zero__segment_runs(&run->site->model, o->segment, first, end - first, runs, MAX_RUNS);
        for (uint32_t i = 0; i < n; i++) {
            uint64_t k = runs[i].first - o->first;
            struct zero_update_args args = {.p = o->master ? o->master + k : NULL,
                                            .low = o->low ? o->low + k : NULL,
                                            .m = o->m ? o->m + k * msize : NULL,
                                            .v = o->v ? o->v + k * msize : NULL,
                                            .state_dtype = run->site->recipe.state_dtype,
                                            .first = runs[i].first,
                                            .grad = o->grad + k * gsize,
                                            .out = dtype == ZERO_F32 ? NULL : o->param + k * size,
                                            .count = runs[i].count,
                                            .grad_dtype = o->grad_dtype,
                                            .out_dtype = dtype,
                                            .scalars = step,
                                            .hyper = run->site->model.groups[runs[i].group].hyper};
            if (run->site->optimizer != ZERO__ADAMW)
                args.hyper.flags |= ZERO_HYPER_COUPLED;
            int err = updates_add(run, u, &args);
            if (err)
                return err;
            first = runs[i].first + runs[i].count;
        }
        if (n == 0)
            return zero__fail(-EFAULT,
                              "segment %u has elements of no group: a defect of libzero, "
                              "to be reported with the job's options",
                              o->segment);
    }
    return 0;
}

static int update(struct zero__runner *run, const struct zero__op *op, const struct zero__slot *s)
{
    const struct zero_scalars *step = at(run, s, &s->body->accesses[op->first_access]);
    struct updates u;
    struct zero__operands o;
    int err = 0;

    u.queue = op->queue;
    u.kernel = run->site->optimizer == ZERO__SGD ? ZERO_KERNEL_SGD : ZERO_KERNEL_ADAMW;
    u.n = 0;
    FOR_SEGMENTS (&run->site->model, op->unit, i)
        if (!err && operands_find(run, op, s, i, &o))
            err = run->site->optimizer == ZERO__CALLBACK ? zero__callback_launch(run, op->queue, &o)
                                                         : update_runs(run, &u, &o, step);
    return err ? err : updates_launch(run, &u);
}

static int execute(struct zero__runner *run, const struct zero__op *op, const struct zero__slot *s)
{
    switch (op->kind) {
    case ZERO__FILL:
        return fill(run, op, s);
    case ZERO__ACCUMULATE:
        return accumulate(run, op, s);
    case ZERO__SUMSQ:
        return sumsq(run, op, s);
    case ZERO__TOTAL:
        return total(run, op, s);
    case ZERO__SCALARS:
        return scalars(run, op, s);
    case ZERO__UPDATE:
        return update(run, op, s);
    default:
        return zero__fail(-EFAULT,
                          "op %s is not a kernel: a defect of libzero, to be reported "
                          "with the job's options",
                          zero__op_name(op->kind));
    }
}

static int kernels_start(struct zero__runner *run, uint32_t queue, struct zero__slot *s)
{
    const struct zero__lane *l = &run->lanes[queue];
    int err = l->started - l->done < ZERO__LAUNCHED_MOST ? zero__op_begin(run, queue, s) : -EAGAIN;

    if (!err)
        err = execute(run, &s->body->ops[s->op], s);
    return err ? err : l->ops->event_record(l->dev, s->event, l->stream);
}

const struct zero__lane_kind zero__kind_kernels = {
    .server = ZERO__PROGRESS, .by_event = 1, .start = kernels_start, .poll = zero__stream_poll};
