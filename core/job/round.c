/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exchanges, numbered from 1 on every rank: all ranks send their part to rank 0, which sends the
 * result to all when the last part is there. A rank can be at most one round ahead of rank 0's
 * own thread (it needs the result of round k to start k + 1), so two places are enough.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/internal.h"
#include "machine/clock.h"

#define USUAL_BYTES 512u /* of a rank's part */
_Static_assert(ZERO__JOB_EXCHANGE_BYTES == ZERO__WIRE_BODY_BYTES, "a part is a message's body");
#define SAME "all ranks must make the same calls in the same order"

struct zero__round *zero__round_of(struct zero__job *job, uint32_t seq)
{
    return &job->rounds[job->params.rank == 0 ? seq & 1 : 0];
}

static bool is_left(struct zero__job *job, int32_t rank)
{
    return rank < job->n_peers && job->peers[rank].state == ZERO__PEER_LEFT;
}

static void cannot_end(struct zero__job *job, int32_t rank)
{
    zero__error_failf(job, rank, -ESHUTDOWN, "exchange",
                      "it has left the job while another rank still exchanges: %s", SAME);
}

/* Makes the place of `seq` ready. Records the error when that cannot be. */
static int start(struct zero__job *job, uint32_t seq, uint64_t len, int32_t first)
{
    struct zero__round *r = zero__round_of(job, seq);
    uint64_t total = len * (uint64_t)job->params.ranks;

    if (total > r->capacity) {
        /* Room for zero_sum() from the start: a training loop calls it. */
        uint64_t least = USUAL_BYTES * (uint64_t)job->params.ranks;
        uint64_t capacity = total > least ? total : least;
        char *data = realloc(r->data, capacity);
        if (!data) {
            zero__error_failf(job, job->params.rank, -ENOMEM, "exchange",
                              "no memory for %" PRIu64 " bytes", total);
            return -ENOMEM;
        }
        r->data = data;
        r->capacity = capacity;
    }
    r->seq = seq;
    r->len = len;
    r->total = total;
    r->got = 0;
    r->first = first;
    r->n_parts = 0;
    r->done = false;
    for (int32_t p = 0; p < job->n_peers; p++)
        if (is_left(job, p)) {
            cannot_end(job, p);
            return -ESHUTDOWN;
        }
    return 0;
}

static void finish(struct zero__job *job, struct zero__round *r)
{
    r->done = true;
    for (int32_t p = 1; p < job->n_peers; p++) {
        job->peers[p].say_result = job->peers[p].state == ZERO__PEER_HERE;
        job->peers[p].result_seq = r->seq;
        job->peers[p].result_sent = 0;
    }
    pthread_cond_broadcast(&job->changed);
    zero__job_wake(job);
}

static void count_part(struct zero__job *job, struct zero__round *r)
{
    if (++r->n_parts == (uint32_t)job->params.ranks)
        finish(job, r);
}

/* Compares a rank's part with what the round is; records who differs. */
static bool agrees(struct zero__job *job, struct zero__round *r, int32_t rank, uint64_t len)
{
    if (r->len == len)
        return true;
    zero__error_failf(job, rank, -EPROTO, "exchange",
                      "it gathers %" PRIu64 " bytes where rank %d gathers %" PRIu64 ": %s", len,
                      r->first, r->len, SAME);
    return false;
}

static void *malformed(struct zero__job *job, int32_t rank)
{
    job->peers[rank].mute = true;
    zero__error_failf(job, rank, -EPROTO, "exchange", "it sent a malformed message");
    return NULL;
}

/*
 * Who sends its part of a round has the whole result of the one before. So that one's place, which
 * the round after the next takes, is not being sent from any more.
 */
static bool has_last_result(const struct zero__peer *peer, uint32_t seq)
{
    bool sending = peer->link.sending && peer->link.out.type == ZERO__WIRE_RESULT;

    return peer->result_seq == seq - 1 && !peer->say_result && !sending;
}

static void *place_part(struct zero__job *job, int32_t rank, const struct zero__wire_header *h)
{
    struct zero__round *r = zero__round_of(job, h->seq);

    /* While a deadline is weighed parts are taken as ever: who is late is no stranger. */
    if (zero__error_state(job) == ZERO__ERROR_DECIDED)
        return NULL;
    if (job->state != ZERO__JOB_OPEN || h->seq != job->peers[rank].part_seq + 1 ||
        !has_last_result(&job->peers[rank], h->seq) || h->bytes != h->len)
        return malformed(job, rank);
    if (job->clean) { /* rank 0 is about to go */
        cannot_end(job, 0);
        return NULL;
    }
    if (r->seq != h->seq) {
        if (h->seq != job->seq + 1)
            return malformed(job, rank);
        if (start(job, h->seq, h->len, rank))
            return NULL;
    }
    if (!agrees(job, r, rank, h->len))
        return NULL;
    return r->total ? r->data + (uint64_t)rank * r->len : (char *)r;
}

static void *place_result(struct zero__job *job, const struct zero__wire_header *h)
{
    struct zero__round *r = zero__round_of(job, h->seq);

    if (!job->posted || r->done || h->seq != r->seq || h->len != r->len ||
        h->offset != r->got || h->bytes > r->total - r->got || (!h->bytes && r->total))
        return malformed(job, 0);
    return r->total ? r->data + r->got : (char *)r; /* not NULL; nothing is written for 0 bytes */
}

void *zero__round_place(struct zero__job *job, int32_t rank, const struct zero__wire_header *h)
{
    return h->type == ZERO__WIRE_PART ? place_part(job, rank, h) : place_result(job, h);
}

void zero__round_message(struct zero__job *job, int32_t rank, const struct zero__wire_header *h)
{
    struct zero__round *r = zero__round_of(job, h->seq);

    if (h->type == ZERO__WIRE_PART) {
        job->peers[rank].part_seq = h->seq;
        count_part(job, r);
        return;
    }
    r->got += h->bytes;
    if (r->got == r->total) {
        r->done = true;
        pthread_cond_broadcast(&job->changed);
    }
}

void zero__round_left(struct zero__job *job, int32_t rank)
{
    for (int i = 0; i < 2; i++) {
        struct zero__round *r = &job->rounds[i];
        if (r->seq && !r->done && (job->params.rank || job->peers[rank].part_seq != r->seq))
            cannot_end(job, rank);
    }
}

void zero__round_part(struct zero__job *job, struct zero__wire_header *h, const void **body)
{
    struct zero__round *r = zero__round_of(job, job->seq);

    *h = (struct zero__wire_header){
        .type = ZERO__WIRE_PART,
        .bytes = (uint32_t)r->len,
        .seq = r->seq,
        .len = r->len,
    };
    *body = r->len ? r->data + (uint64_t)job->params.rank * r->len : NULL;
}

void zero__round_result(struct zero__job *job, struct zero__peer *peer, struct zero__wire_header *h,
                        const void **body)
{
    struct zero__round *r = zero__round_of(job, peer->result_seq);
    uint64_t at = peer->result_sent, left = r->total - at;
    uint32_t n = left < ZERO__WIRE_BODY_BYTES ? (uint32_t)left : ZERO__WIRE_BODY_BYTES;

    *h = (struct zero__wire_header){
        .type = ZERO__WIRE_RESULT,
        .bytes = n,
        .seq = r->seq,
        .len = r->len,
        .offset = at,
    };
    *body = n ? r->data + at : NULL;
    peer->result_sent += n;
    peer->say_result = peer->result_sent < r->total;
}

/* Of the round that is open: those whose part has not come. */
static bool is_missing(struct zero__job *job, int32_t rank)
{
    uint32_t seq = 0;
    for (int i = 0; i < 2; i++)
        if (job->rounds[i].seq && !job->rounds[i].done)
            seq = job->rounds[i].seq;
    if (!seq)
        return false;
    return rank ? job->peers[rank].part_seq < seq : job->seq < seq;
}

void zero__round_blame(struct zero__job *job, struct zero__job_error *e)
{
    char ranks[160];

    if (job->params.rank || !job->n_peers)
        return;
    int first = zero__ranks_text(job, is_missing, ranks, sizeof ranks);
    if (first < 0)
        return;
    e->culprit = first;
    snprintf(e->cause, sizeof e->cause,
             "no part of rank %s after %.3g s (ZERO_TIMEOUT): look at its output; who is only slow "
             "needs a larger ZERO_TIMEOUT; %s",
             ranks, (double)job->params.timeout_ns / 1e9, SAME);
}

void zero__round_post(struct zero__job *job, uint32_t seq, const void *src, uint64_t len)
{
    struct zero__round *r = zero__round_of(job, seq);
    int32_t rank = job->params.rank;

    if (r->seq != seq ? start(job, seq, len, rank) != 0 : !agrees(job, r, rank, len))
        return;
    if (len)
        memcpy(r->data + (uint64_t)rank * len, src, len);
    job->seq = seq;
    job->posted = true;
    if (rank == 0)
        count_part(job, r);
    else
        job->peers[0].say_part = true;
    zero__job_wake(job);
}
