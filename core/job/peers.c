/* SPDX-License-Identifier: Apache-2.0 */
/* What the control thread does with the ranks that are here: their messages, and their end. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "job/internal.h"
#include "machine/clock.h"
#include "machine/heard.h"
#include "machine/text.h"

static void hang_up(struct zero__job *job, struct zero__peer *peer, enum zero__peer_state state)
{
    zero__link_close(&peer->link);
    peer->link.sending = false;
    peer->say_joined = peer->say_welcome = peer->say_refused = peer->say_error = false;
    peer->say_part = peer->say_result = peer->say_bye = peer->say_beat = false;
    peer->state = state;
    pthread_cond_broadcast(&job->changed);
}

void zero__peer_gone(struct zero__job *job, int32_t rank)
{
    struct zero__peer *peer = &job->peers[rank];
    struct zero__job_error e;
    char cause[240], who[100];
    int cut = peer->link.error;

    hang_up(job, peer, ZERO__PEER_LOST);
    zero__process_text(job, &peer->process, who, sizeof who);
    if (cut && cut != EPIPE && cut != ENOTCONN && cut != ECONNRESET)
        snprintf(cause, sizeof cause, "the network to its %s is cut (%s)", who, strerror(cut));
    else
        snprintf(cause, sizeof cause, "its %s has ended without leaving the job%s", who,
                 job->state == ZERO__JOB_OPEN ? ": it was killed, or did not call zero_destroy()"
                                              : "");
    if (job->state == ZERO__JOB_JOINING) {
        zero__job_refuse(job, -ECONNRESET,
                         "job %s: rank %d: %s while the ranks were joining: look "
                         "at its output",
                         job->params.key, rank, cause);
    } else if (job->state == ZERO__JOB_OPEN) {
        zero__error_lost(job, &e, rank, -ECONNRESET, cause);
        if (rank == 0)
            zero__error_decide(job, &e);
        else
            zero__error_propose(job, &e);
    }
}

static void left(struct zero__job *job, int32_t rank)
{
    hang_up(job, &job->peers[rank], ZERO__PEER_LEFT);
    zero__round_left(job, rank);
}

static void broken(struct zero__job *job, int32_t rank)
{
    job->peers[rank].mute = true;
    zero__error_failf(job, rank, -EPROTO, "", "it sent a malformed message");
}

/* Checks a header; the place of its body (anything for none), or NULL when it cannot be. */
static void *place(struct zero__job *job, int32_t rank)
{
    struct zero__peer *peer = &job->peers[rank];
    const struct zero__wire_header *h = &peer->link.in;
    bool first = job->params.rank == 0;

    switch (h->type) {
    case ZERO__WIRE_PART:
        return first ? zero__round_place(job, rank, h) : NULL;
    case ZERO__WIRE_RESULT:
        return first ? NULL : zero__round_place(job, rank, h);
    case ZERO__WIRE_FAIL:
    case ZERO__WIRE_ERROR:
        if (first != (h->type == ZERO__WIRE_FAIL) || h->bytes != sizeof peer->heard)
            return NULL;
        return &peer->heard;
    case ZERO__WIRE_BYE:
    case ZERO__WIRE_BEAT:
        return h->bytes ? NULL : peer;
    default:
        return NULL;
    }
}

static void take_error(struct zero__job *job, int32_t from, struct zero__job_error *e,
                       bool decided)
{
    zero__text_clean(e->op, sizeof e->op);
    zero__text_clean(e->cause, sizeof e->cause);
    if (e->culprit < -1 || e->culprit >= job->params.ranks)
        e->culprit = -1;
    if (e->reporter < -1 || e->reporter >= job->params.ranks)
        e->reporter = -1;
    e->err = zero__errno_heard(e->err, -EIO);
    if (decided) {
        zero__error_decide(job, e);
        return;
    }
    e->reporter = from;
    if (e->culprit < 0 && e->err == -ETIMEDOUT && e->place == ZERO__PLACE_LAST)
        zero__round_blame(job, e);
    zero__error_propose(job, e);
}

static void message(struct zero__job *job, int32_t rank)
{
    struct zero__peer *peer = &job->peers[rank];
    const struct zero__wire_header *h = &peer->link.in;

    switch (h->type) {
    case ZERO__WIRE_PART:
    case ZERO__WIRE_RESULT:
        zero__round_message(job, rank, h);
        break;
    case ZERO__WIRE_FAIL:
    case ZERO__WIRE_ERROR:
        take_error(job, rank, &peer->heard, h->type == ZERO__WIRE_ERROR);
        break;
    case ZERO__WIRE_BYE:
        left(job, rank);
        break;
    case ZERO__WIRE_BEAT:
        zero__beat_message(job, peer, h->len);
        if (job->params.rank == 0)
            zero__probe_heard(job, rank, h);
        break;
    default:
        break;
    }
}

void zero__peer_read(struct zero__job *job, int32_t rank)
{
    struct zero__peer *peer = &job->peers[rank];

    while (peer->state == ZERO__PEER_HERE && !peer->mute) {
        int e = zero__link_read(&peer->link);
        bool bare = e == ZERO__LINK_MESSAGE && peer->link.in.bytes == 0;
        if (e == ZERO__LINK_WAIT)
            return;
        if (e == -EPIPE) {
            zero__peer_gone(job, rank);
        } else if (e < 0) {
            broken(job, rank);
        } else if (e == ZERO__LINK_HEADER || bare) {
            peer->link.in_body = place(job, rank);
            if (!peer->link.in_body)
                broken(job, rank);
            else if (bare)
                message(job, rank);
        } else {
            message(job, rank);
        }
    }
}

bool zero__peer_has_words(const struct zero__peer *peer)
{
    return peer->state == ZERO__PEER_HERE &&
           (peer->link.sending || peer->say_joined || peer->say_welcome || peer->say_refused ||
            peer->say_error || peer->say_part || peer->say_result || peer->say_bye ||
            peer->say_beat);
}

/* Starts the most urgent frame. */
static void next(struct zero__job *job, struct zero__peer *peer)
{
    struct zero__wire_header h = {0};
    const void *body = NULL;

    if (peer->say_refused) {
        h.type = ZERO__WIRE_REFUSED;
        h.bytes = sizeof job->refusal;
        body = &job->refusal;
        peer->say_refused = false;
    } else if (peer->say_joined) {
        int64_t left_ns = job->join_deadline_ns - zero__now_ns();
        h.type = ZERO__WIRE_JOINED;
        h.len = left_ns > 0 ? (uint64_t)left_ns : 0;
        h.offset = job->params.number;
        h.seq = zero__beat_ms(job);
        peer->say_joined = false;
    } else if (peer->say_welcome) {
        h.type = ZERO__WIRE_WELCOME;
        h.bytes = sizeof peer->welcome;
        body = &peer->welcome;
        peer->say_welcome = false;
    } else if (peer->say_error) {
        bool first = job->params.rank == 0;
        h.type = first ? ZERO__WIRE_ERROR : ZERO__WIRE_FAIL;
        h.bytes = sizeof job->error;
        body = first ? &job->error : &job->proposal;
        peer->say_error = false;
    } else if (peer->say_part) {
        zero__round_part(job, &h, &body);
        peer->say_part = false;
    } else if (peer->say_result) {
        zero__round_result(job, peer, &h, &body);
    } else if (peer->say_bye) {
        h.type = ZERO__WIRE_BYE;
        peer->say_bye = peer->say_beat = false;
    } else {
        h.type = ZERO__WIRE_BEAT;
        h.len = zero__beat_work(job, peer);
        zero__probe_say(job, &h);
        peer->say_beat = false;
    }
    zero__link_put(&peer->link, &h, body);
}

void zero__peer_write(struct zero__job *job, int32_t rank)
{
    struct zero__peer *peer = &job->peers[rank];

    while (zero__peer_has_words(peer)) {
        if (!peer->link.sending)
            next(job, peer);
        int e = zero__link_flush(&peer->link);
        if (e == -EAGAIN)
            return;
        if (e)
            peer->link.sending = false; /* reading will tell that the peer is gone */
    }
}
