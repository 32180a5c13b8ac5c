/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives in steps, where sums may be added in another order (way.c, leg.c). All ranks take the
 * same steps in the same order: those of a collective after those of the one before; of a
 * collective P2P_LANES chunks of every shard side by side, all their steps, then the next chunks.
 *
 * A window of steps is under way; a step is granted to those who send to it when its receives have
 * begun, and leaves the window when its messages have ended. What a step passes on belongs to a
 * step of the receiver that comes at most P2P_LANES later. So nobody waits for ever: of all ranks
 * take one whose window begins at the earliest step. What that one needs comes from earlier steps,
 * which the others have left, and the window of whom it sends to reaches beyond P2P_LANES steps.
 */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

_Static_assert(P2P_WINDOW > P2P_LANES, "a step waits for one P2P_LANES after it");

int zero__p2p_steps_make(struct zero_comm *comm)
{
    size_t locals = (size_t)comm->way.locals;
    uint64_t n = zero__p2p_step_buffers(comm) / P2P_WINDOW;

    comm->legs = calloc(P2P_WINDOW * P2P_LEG_KINDS * locals, sizeof *comm->legs);
    if (!comm->legs)
        return zero__say(&comm->ctx->voice, -ENOMEM, "no memory for the messages of %d ranks",
                         comm->ranks);
    for (unsigned i = 0; i < P2P_WINDOW; i++) {
        comm->steps[i].buffers = comm->chunks + i * n * comm->chunk_bytes;
        for (unsigned k = 0; k < P2P_LEG_KINDS; k++)
            comm->steps[i].legs[k] = comm->legs + (i * P2P_LEG_KINDS + k) * locals;
    }
    return 0;
}

/* One for what each local sends, one for what comes round; a ring has its sum in another one. */
uint64_t zero__p2p_step_buffers(const struct zero_comm *comm)
{
    return P2P_WINDOW * (comm->way.locals > 1 ? (uint64_t)comm->way.locals : 2);
}

bool zero__p2p_is_stepped(const struct zero_comm *comm, const struct zero_coll *c)
{
    return comm->way.hosts && (c->kind == ZERO_ALL_GATHER || zero__coll_reduces(c->kind));
}

/* How many steps there are, and who sends to this rank in them. */
void zero__p2p_steps_fill(struct zero_comm *comm, struct p2p_run *run)
{
    const struct zero_coll *c = &run->coll->c;
    const struct p2p_way *w = &comm->way;
    uint64_t first, count, piece = 2 * P2P_CHUNK_MOST; /* of a gather, needs no buffer */

    piece = comm->piece < piece ? comm->piece : piece;
    run->chunk = zero__coll_reduces(c->kind) ? comm->chunk_bytes / zero__p2p_wide(c)
                                             : piece / zero_dtype_bytes(c->src_dtype);
    run->sums = zero__coll_reduces(c->kind) ? w->hosts : 1;
    run->gathers = c->kind == ZERO_REDUCE_SCATTER ? 0 : w->hosts;
    zero__p2p_shard(c, 0, comm->ranks, &first, &count); /* no other is longer */
    run->steps =
        (count / run->chunk + (count % run->chunk != 0)) * (uint64_t)(run->sums + run->gathers);
    for (int32_t p = 0; p < comm->ranks; p++)
        run->parts[p].feeds = false;
    for (int32_t x = 0; x < w->locals; x++)
        run->parts[w->grid[w->host * w->locals + x]].feeds = true;
    run->parts[w->grid[(w->host + w->hosts - 1) % w->hosts * w->locals + w->local]].feeds = true;
}

static bool is_absent(const struct zero_comm *comm, const struct p2p_step *step,
                      enum p2p_leg_kind kind, int32_t x)
{
    return zero__p2p_load(comm, step, kind, x).bytes == 0;
}

/* Takes the next step; false when there is none. */
static bool step_begin(struct zero_comm *comm, struct p2p_step *step)
{
    uint64_t index, per_chunk, block, at, lanes = P2P_LANES;
    struct p2p_run *run = zero__p2p_next(comm, &index);

    if (!run)
        return false;
    per_chunk = (uint64_t)(run->sums + run->gathers);
    block = index / (P2P_LANES * per_chunk);
    at = index % (P2P_LANES * per_chunk);
    if ((block + 1) * lanes * per_chunk > run->steps) /* the last chunk may be alone */
        lanes = run->steps / per_chunk - block * P2P_LANES;
    step->run = run;
    step->index = index;
    step->next = index + lanes;
    step->chunk = block * P2P_LANES + at % lanes;
    step->t = (int32_t)(at / lanes);
    step->asked = 0;
    step->summed = false;
    for (unsigned k = 0; k < P2P_LEG_KINDS; k++)
        for (int32_t x = 0; x < comm->way.locals; x++) {
            struct p2p_leg *leg = &step->legs[k][x];
            leg->begun = leg->ended = is_absent(comm, step, (enum p2p_leg_kind)k, x);
            leg->op = (struct zero__p2p_op){0};
        }
    return true;
}

/* Begins its receives; false when not all could begin. */
static bool step_ask(struct zero_comm *comm, struct p2p_step *step)
{
    for (; step->asked < comm->way.locals; step->asked++) {
        struct p2p_leg *leg = &step->legs[P2P_IN][step->asked];
        if (leg->begun)
            continue;
        struct p2p_load l = zero__p2p_load(comm, step, P2P_IN, step->asked);
        if (zero__p2p_recv(comm, l.peer,
                           zero__p2p_data_tag(comm, l.peer, step->run->index, l.step, true), l.at,
                           l.bytes, l.handle, &leg->op))
            return false;
        leg->begun = true;
    }
    return true;
}

static void grant(struct zero_comm *comm)
{
    while (comm->steps_begun - comm->steps_gone < P2P_WINDOW && !comm->err) {
        struct p2p_step *step = &comm->steps[comm->steps_begun % P2P_WINDOW];
        if ((!step->run && !step_begin(comm, step)) || !step_ask(comm, step))
            return;
        step->run->granted = step->index + 1;
        comm->steps_begun++;
        comm->stirred = true;
    }
}

/* Has the message ended as it should? */
static void leg_look(struct zero_comm *comm, struct p2p_step *step, enum p2p_leg_kind kind,
                     int32_t x)
{
    struct p2p_leg *leg = &step->legs[kind][x];

    if (!leg->begun || leg->ended || leg->op.busy || comm->err)
        return;
    struct p2p_load l = zero__p2p_load(comm, step, kind, x);
    if (!zero__p2p_arrived(comm, l.peer, &leg->op, l.bytes, "a chunk"))
        return;
    leg->ended = true;
    comm->stirred = true;
}

/* Sends it when its receiver waits for it. */
static void leg_send(struct zero_comm *comm, struct p2p_step *step, enum p2p_leg_kind kind,
                     int32_t x)
{
    struct p2p_leg *leg = &step->legs[kind][x];
    struct p2p_run *run = step->run;

    if (leg->begun || comm->err)
        return;
    struct p2p_load l = zero__p2p_load(comm, step, kind, x);
    const struct p2p_inbox *box = &comm->peers[l.peer].inbox[run->index % P2P_INBOX];
    if (!run->parts[l.peer].agreed || box->granted <= l.step)
        return;
    if (zero__p2p_send(comm, l.peer, zero__p2p_data_tag(comm, comm->rank, run->index, l.step, true),
                       l.at, l.bytes, l.handle, &leg->op))
        return;
    leg->begun = true;
}

static bool all_ended(const struct zero_comm *comm, const struct p2p_step *step,
                      enum p2p_leg_kind kind)
{
    for (int32_t x = 0; x < comm->way.locals; x++)
        if (!step->legs[kind][x].ended)
            return false;
    return true;
}

static void step_move(struct zero_comm *comm, struct p2p_step *step, uint64_t *budget)
{
    int32_t locals = comm->way.locals, local = comm->way.local;

    for (int32_t x = 0; x < locals; x++) {
        leg_look(comm, step, P2P_IN, x);
        leg_look(comm, step, P2P_GIVE, x);
        leg_look(comm, step, P2P_PASS, x);
    }
    for (int32_t i = 1; i < locals; i++) /* not all to one at a time */
        leg_send(comm, step, P2P_GIVE, (local + i) % locals);
    if (!step->summed && *budget && !comm->err && all_ended(comm, step, P2P_IN)) {
        uint64_t bytes = zero__p2p_step_sum(comm, step);
        *budget -= bytes < *budget ? bytes : *budget;
        step->summed = true;
        comm->stirred = true;
    }
    /* What is only passed on need not wait for the locals. */
    if (step->summed || (step->t >= step->run->sums && step->legs[P2P_IN][local].ended))
        for (int32_t i = 0; i < locals; i++)
            leg_send(comm, step, P2P_PASS, (local + i) % locals);
}

static bool step_over(const struct zero_comm *comm, const struct p2p_step *step)
{
    return step->summed && all_ended(comm, step, P2P_GIVE) && all_ended(comm, step, P2P_PASS);
}

void zero__p2p_steps(struct zero_comm *comm, uint64_t *budget)
{
    grant(comm);
    for (uint64_t i = comm->steps_gone; i < comm->steps_begun && !comm->err; i++)
        step_move(comm, &comm->steps[i % P2P_WINDOW], budget);
    while (comm->steps_gone < comm->steps_begun && !comm->err) {
        struct p2p_step *step = &comm->steps[comm->steps_gone % P2P_WINDOW];
        if (!step_over(comm, step))
            return;
        step->run->steps_gone++;
        step->run = NULL;
        comm->steps_gone++;
        comm->stirred = true;
    }
}

bool zero__p2p_step_waits_for(const struct zero_comm *comm, const struct p2p_run *run, int32_t p)
{
    for (uint64_t i = comm->steps_gone; i < comm->steps_begun; i++) {
        const struct p2p_step *step = &comm->steps[i % P2P_WINDOW];
        for (unsigned k = 0; k < P2P_LEG_KINDS && step->run == run; k++)
            for (int32_t x = 0; x < comm->way.locals; x++)
                if (!step->legs[k][x].ended &&
                    zero__p2p_load(comm, step, (enum p2p_leg_kind)k, x).peer == p)
                    return true;
    }
    return false;
}

static uint64_t n_legs(const struct zero_comm *comm)
{
    return comm->legs ? (uint64_t)comm->way.locals * P2P_LEG_KINDS * P2P_WINDOW : 0;
}

bool zero__p2p_steps_busy(const struct zero_comm *comm, bool receives)
{
    for (uint64_t i = 0; i < n_legs(comm); i++)
        if (comm->legs[i].op.busy && (comm->legs[i].op.receives || !receives))
            return true;
    return false;
}

static bool step_is_busy(const struct zero_comm *comm, const struct p2p_step *step)
{
    for (int k = 0; k < P2P_LEG_KINDS; k++)
        for (int32_t x = 0; x < comm->way.locals; x++)
            if (step->legs[k][x].op.busy)
                return true;
    return false;
}

bool zero__p2p_steps_use(const struct zero_comm *comm, const struct zero_mr *mr)
{
    for (uint32_t i = 0; comm->legs && i < P2P_WINDOW; i++)
        if (step_is_busy(comm, &comm->steps[i]) &&
            zero__p2p_coll_uses(comm->steps[i].run->coll, mr))
            return true;
    return false;
}

void zero__p2p_steps_cancel(struct zero_comm *comm)
{
    for (uint64_t i = 0; i < n_legs(comm); i++)
        if (comm->legs[i].op.receives)
            zero__p2p_cancel(comm, &comm->legs[i].op);
}
