/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin `fault`; see fault.h. */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "fault.h"

/* ---- Contexts -------------------------------------------------------------------------------- */

static void set_free(struct fault_set *set)
{
    if (set)
        free(set->batch);
    free(set);
}

static int fault_begin(struct zero_comm_ctx *ctx)
{
    struct fault_set *set = calloc(1, sizeof *set);
    int err;

    if (set)
        set->batch = calloc((size_t)ctx->inflight + 1, sizeof *set->batch);
    err = set && set->batch ? zero__fault_parse(&ctx->voice, set)
                            : zero__say(&ctx->voice, -ENOMEM, "no memory for a context");
    if (!err)
        err = zero__fault_choose(&ctx->voice, set, ctx->ranks);
    if (err)
        set_free(set);
    else
        ctx->own = set;
    return err;
}

/* A test whose fault never happened has shown nothing, so this is said, too. */
static void fault_end(struct zero_comm_ctx *ctx)
{
    struct fault_set *set = ctx->own;

    for (uint32_t i = 0; i < set->n; i++) {
        const struct fault *f = &set->faults[i];
        if (f->fired == 0 && (f->rank == ctx->rank || f->rank == FAULT_ALL_RANKS))
            zero__tell(&ctx->voice, ZERO_LOG_WARN,
                       "%s did not happen: %s came %" PRIu64 " times, and number %" PRIu64
                       " was meant",
                       f->text, zero__fault_place_name(f->place), f->seen, f->first);
    }
    set_free(set);
}

static int fault_before(struct zero_comm_ctx *ctx, enum zero__wrap_call call)
{
    switch (call) {
    case ZERO__CALL_OPEN:
        return zero__fault_act(ctx, FAULT_AT_OPEN, NULL, NULL);
    case ZERO__CALL_CLOSE:
        return zero__fault_act(ctx, FAULT_AT_CLOSE, NULL, NULL);
    case ZERO__CALL_ALLOC:
    case ZERO__CALL_REG: /* what stands for it where there is no alloc */
        return zero__fault_act(ctx, FAULT_AT_ALLOC, NULL, NULL);
    case ZERO__CALL_EXCHANGE:
        return zero__fault_act(ctx, FAULT_AT_EXCHANGE, NULL, NULL);
    case ZERO__CALL_SPLIT:
        return zero__fault_act(ctx, FAULT_AT_SPLIT, NULL, NULL);
    default:
        return 0;
    }
}

static const struct zero__wrapper wrapper = {
    .name = FAULT_NAME,
    .option = "fault_comm",
    .begin = fault_begin,
    .end = fault_end,
    .before = fault_before,
};

static int fault_probe(const struct zero_host *host, struct zero_comm_caps *caps)
{
    const struct zero__voice v = {host, FAULT_NAME};
    struct fault_set set = {.n = 0};
    int err = zero__fault_parse(&v, &set);

    return err ? err : zero__wrap_probe(&wrapper, host, caps);
}

static int fault_open(const struct zero_comm_open *params, struct zero_comm_ctx **ctx)
{
    return zero__wrap_open(&wrapper, params, ctx);
}

/* ---- Posts ----------------------------------------------------------------------------------- */

/* What becomes of a batch, until it is known whether the plugin below has room for it. */
struct plan {
    uint64_t ahead[FAULT_MOST]; /* of each fault: collectives of the batch that count */
    uint32_t n_out;             /* collectives in set->batch */
    struct zero__wrap_record *skipped, **end, *held;
};

/* All faults of one collective. q is what will be posted. */
static int befall(struct zero_comm *comm, struct plan *plan, struct zero_coll *q, bool *skip,
                  bool *hold)
{
    struct fault_set *set = comm->ctx->own;
    int err = 0;

    for (uint32_t i = 0; i < set->n && !err; i++) {
        struct fault *f = &set->faults[i];
        uint64_t number = f->seen + plan->ahead[i] + 1;
        bool fits, again = number <= f->fired; /* there was no room for it the last time */
        if (f->place != FAULT_AT_POST)
            continue;
        bool hits = zero__fault_hits(f, comm->ctx, comm, q, plan->ahead[i], &fits);
        plan->ahead[i] += fits;
        if (!hits)
            continue;
        zero__fault_note(comm->ctx, f, number, q);
        *skip |= f->action == FAULT_SKIP;
        *hold |= f->action == FAULT_ORDER;
        if (f->action == FAULT_SIZE)
            zero__fault_resize(q);
        else if (f->action == FAULT_DTYPE)
            zero__fault_retype(q);
        else if (!again)
            err = zero__fault_happen(comm->ctx, f);
    }
    return err;
}

static int plan_make(struct zero_comm *comm, uint32_t n, struct plan *plan)
{
    struct fault_set *set = comm->ctx->own;

    *plan = (struct plan){.held = comm->held};
    plan->end = &plan->skipped;
    for (uint32_t i = 0; i < n; i++) {
        struct zero_coll q = comm->batch[i];
        struct zero__wrap_record *r = zero__wrap_taken(comm, q.user);
        bool skip = false, hold = false;
        int err = befall(comm, plan, &q, &skip, &hold);
        if (err)
            return err;
        if (skip) {
            *plan->end = r;
            plan->end = &r->next;
        } else if (hold && !plan->held) {
            plan->held = r;
        } else {
            set->batch[plan->n_out++] = q;
            if (plan->held) {
                q = plan->held->coll;
                q.user = plan->held->tag;
                set->batch[plan->n_out++] = q;
                plan->held = NULL;
            }
        }
    }
    return 0;
}

static void plan_commit(struct zero_comm *comm, uint32_t n, const struct plan *plan)
{
    struct fault_set *set = comm->ctx->own;
    struct zero__wrap_record **end = &comm->kept;

    while (*end)
        end = &(*end)->next;
    *end = plan->skipped;
    comm->held = plan->held;
    comm->posted += n;
    for (uint32_t i = 0; i < set->n; i++)
        set->faults[i].seen += plan->ahead[i];
}

static int fault_post(struct zero_comm *comm, const struct zero_coll *colls, uint32_t n,
                      void *stream)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    struct fault_set *set = ctx->own;
    struct plan plan;
    int err;

    if (stream)
        return zero__say(&ctx->voice, -ENOTSUP, "post: there are no faults in streams");
    if (comm->err)
        return zero__wrap_error(comm);
    err = zero__wrap_take(comm, colls, n);
    if (err)
        return err;
    err = plan_make(comm, n, &plan);
    if (!err)
        err = plan.n_out ? ctx->below.post(comm->inner, set->batch, plan.n_out, NULL)
                         : ctx->below.error(comm->inner);
    if (err)
        zero__wrap_give_batch(comm, n);
    else
        plan_commit(comm, n, &plan);
    return err;
}

/* ---- Completions ----------------------------------------------------------------------------- */

/*
 * Of what never went below: a skipped collective looks complete when all before it are; one that is
 * still held back ends with its communicator.
 */
static uint32_t own_completions(struct zero_comm_ctx *ctx, struct zero_cqe *cqes, uint32_t max)
{
    uint32_t n = 0;

    for (struct zero_comm *comm = ctx->comms; comm; comm = comm->next) {
        struct zero__wrap_record **end = &comm->kept, *r;
        if (!comm->kept && !comm->held)
            continue;
        int err = zero__wrap_error(comm);
        while (*end)
            end = &(*end)->next;
        if (err && comm->held) {
            comm->held->next = NULL;
            *end = comm->held;
            comm->held = NULL;
        }
        while (n < max && (r = comm->kept) && (err || comm->completed >= r->place)) {
            comm->kept = r->next;
            cqes[n++] = zero__wrap_complete(r, err ? err : (int64_t)r->coll.dst.len);
        }
    }
    return n;
}

static int finish(struct zero_comm_ctx *ctx, struct zero_cqe *cqe)
{
    struct zero__wrap_record *r = zero__wrap_ended(ctx, cqe->user);

    if (!r)
        return -EPROTO;
    struct zero_comm *comm = r->comm;
    int err = zero__fault_act(ctx, FAULT_AT_DONE, comm, &r->coll);
    if (err && !comm->err) {
        comm->err = err;
        errno = -err;
        snprintf(comm->why, sizeof comm->why,
                 "%s number %" PRIu64
                 " of a communicator fails on rank %d, as ZERO_FAULT wants: %m",
                 zero_coll_name(r->coll.kind), r->place, ctx->rank);
    }
    *cqe = zero__wrap_complete(r, comm->err ? zero__wrap_error(comm) : cqe->res);
    return 0;
}

static int fault_progress(struct zero_comm_ctx *ctx, struct zero_cqe *cqes, uint32_t max,
                          int64_t timeout_ns)
{
    int err = zero__fault_act(ctx, FAULT_AT_PROGRESS, NULL, NULL), n;

    if (err)
        return err;
    n = (int)own_completions(ctx, cqes, max);
    if (n)
        return n;
    n = ctx->below.progress(ctx->inner, cqes, max, timeout_ns);
    if (n < 0) { /* the end of the context is the end of what is held back */
        uint32_t own = own_completions(ctx, cqes, max);
        return own ? (int)own : n;
    }
    for (int i = 0; i < n; i++) {
        err = finish(ctx, &cqes[i]);
        if (err)
            return err;
    }
    return n;
}

/* ---- The entry ------------------------------------------------------------------------------- */

ZERO__WRAP_PLUGIN(FAULT_NAME, &wrapper, fault_probe, fault_open, fault_post, fault_progress)
