/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that went apart, for transports that do not compare what ranks post (no FINGERPRINT): every
 * collective of the program goes into a hash per queue. Before each update the ranks compare their
 * hashes over the control channel, so that what was gathered or summed wrongly changes no
 * parameter; and where an evaluation ends, which is where the next step or update begins: what the
 * application has made of a wrong one until then, it has. With them they compare orders that are
 * about to be compiled, and the micro-batches of the step, which no collective need show. If they
 * differ, the last collectives are
 * exchanged and the first difference is named. A rank that waits for a collective that another one
 * does not post is the business of deadlines.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/status.h"
#include "run/runner.h"

#define KEPT 32u
static const uint32_t queues[] = {ZERO__Q_GATHER, ZERO__Q_REDUCE};
#define N_QUEUES 2u

struct history {
    struct past {
        struct {
            uint64_t hash, n;
        } sides[N_QUEUES];
        uint64_t orders;       /* a hash of those that wait to be compiled */
        uint32_t micro, ended; /* as in struct zero__issuing */
    } past;
    struct zero__flight_coll ring[N_QUEUES][KEPT];
};

struct zero__histories {
    struct history mine;
    struct past *all; /* by rank */
};

int zero__history_create(struct zero__runner *run)
{
    if (run->site->ranks == 1 || run->site->caps.flags & ZERO_COMM_FINGERPRINT)
        return 0;
    run->history = calloc(1, sizeof *run->history);
    if (run->history)
        run->history->all = calloc((size_t)run->site->ranks, sizeof *run->history->all);
    return run->history && run->history->all ? 0
                                             : zero__fail(-ENOMEM, "no memory for what ranks post");
}

void zero__history_free(struct zero__runner *run)
{
    if (run->history)
        free(run->history->all);
    free(run->history);
}

void zero__history_note(struct zero__runner *run, const struct zero__flight_coll *c)
{
    uint32_t q = c->queue == queues[0] ? 0 : 1;

    if (!run->history)
        return;
    struct history *h = &run->history->mine;
    h->ring[q][h->past.sides[q].n++ % KEPT] = *c;
    h->past.sides[q].hash = XXH3_64bits_withSeed(c, sizeof *c, h->past.sides[q].hash);
}

/* "all_gather of 640 bf16 of unit layer2", or that there was none. */
static const char *describe(const struct zero__runner *run, const struct zero__flight_coll *p,
                            char text[160])
{
    const char *kind = p ? zero_coll_name(p->kind) : "";

    if (!p)
        snprintf(text, 160, "nothing");
    else if (p->epoch && p->epoch <= run->site->model.n_segments)
        snprintf(text, 160, "%s of %" PRIu64 " %s of unit %.60s", kind, p->count,
                 zero_dtype_name(p->src_dtype),
                 run->site->model.units[run->site->model.segments[p->epoch - 1].unit].name);
    else
        snprintf(text, 160, "%s of %" PRIu64 " %s", kind, p->count, zero_dtype_name(p->src_dtype));
    return text;
}

static const struct zero__flight_coll *find(const struct history *h, uint32_t q, uint64_t i)
{
    const uint64_t n = h->past.sides[q].n;

    return i < n && n - i <= KEPT ? &h->ring[q][i % KEPT] : NULL;
}

/* Rank x has had other micro-batches than rank 0. */
static int micro_batches_differ(const struct past *a, const struct past *b, int x)
{
    return zero__fail(-EPROTO,
                      "ranks went apart: this step has had %u micro-batches on rank 0, with the "
                      "last one %s, and %u on rank %d, with the last one %s; zero_begin() must be "
                      "given the same last_micro by all ranks",
                      a->micro, a->ended ? "among them" : "still to come", b->micro, x,
                      b->ended ? "among them" : "still to come");
}

/* How rank x differs from rank 0. */
static int difference(struct zero__runner *run, const struct history *a, const struct history *b,
                      int x)
{
    if (a->past.micro != b->past.micro || a->past.ended != b->past.ended)
        return micro_batches_differ(&a->past, &b->past, x);
    for (uint32_t q = 0; q < N_QUEUES; q++) {
        const uint64_t na = a->past.sides[q].n, nb = b->past.sides[q].n, n = na > nb ? na : nb;
        for (uint64_t i = n > KEPT ? n - KEPT : 0; i < n; i++) {
            const struct zero__flight_coll *p = find(a, q, i), *r = find(b, q, i);
            char one[160], two[160];
            if (p && r && memcmp(p, r, sizeof *p) == 0)
                continue;
            return zero__fail(-EPROTO,
                              "ranks went apart: as number %" PRIu64
                              " of the queue %s rank 0 posted "
                              "%s and rank %d %s; all ranks must use the same units in the same "
                              "order",
                              i + 1, zero__queue_name(queues[q]), describe(run, p, one), x,
                              describe(run, r, two));
        }
    }
    if (a->past.orders != b->past.orders)
        return zero__fail(-EPROTO,
                          "ranks went apart: rank %d has used units in another order than rank 0; "
                          "all ranks must use the same units in the same order",
                          x);
    return zero__fail(
        -EPROTO,
        "ranks went apart: rank %d has posted other collectives than rank 0, more than "
        "%u ago; all ranks must use the same units in the same order",
        x, KEPT);
}

static int explain(struct zero__runner *run, int x)
{
    struct history *all = calloc((size_t)run->site->ranks, sizeof *all);
    int err = all ? 0 : zero__fail(-ENOMEM, "ranks went apart, and there is no memory to say how");

    if (!err)
        err = zero__job_allgather(run->site->job, &run->history->mine, sizeof *all, all);
    if (!err)
        err = difference(run, &all[0], &all[x], x);
    free(all);
    return zero__run_fail(run, -1, err, "", zero__error_text());
}

int zero__history_compare(struct zero__runner *run, const struct zero__issuing *now,
                          uint64_t orders)
{
    struct zero__histories *h = run->history;

    if (!h)
        return 0;
    h->mine.past.orders = orders;
    h->mine.past.micro = now->micro;
    h->mine.past.ended = (uint32_t)now->ended;
    int err = zero__job_allgather(run->site->job, &h->mine.past, sizeof h->mine.past, h->all);
    for (int i = 1; i < run->site->ranks && !err; i++)
        if (memcmp(&h->all[0], &h->all[i], sizeof h->all[0]) != 0)
            err = explain(run, i);
    return err;
}
