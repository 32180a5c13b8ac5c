/* SPDX-License-Identifier: Apache-2.0 */
/* The other end of a connection of the control channel: frames as inputs, and what is answered. */
#ifndef ZERO_TESTS_FUZZ_CONTROL_H
#define ZERO_TESTS_FUZZ_CONTROL_H

#include <errno.h>
#include <string.h>

#include "job/internal.h"
#include "machine/clock.h"

#define FRAME(kind_, ...)                                                  \
    {                                                                      \
        .magic = ZERO__WIRE_MAGIC, .type = ZERO__WIRE_##kind_, __VA_ARGS__ \
    }

/* What an input reaches: frames of these types that the job has sent, and how it ended. */
#define SAYS(kind) (1u << ZERO__WIRE_##kind)
enum {
    IS_OVER = 1u << 16,    /* an error is decided */
    IS_CUT = 1u << 17,     /* for a link between two others */
    HAS_LEFT = 1u << 18,   /* the other end, in peace */
    IS_LOST = 1u << 19,    /* or not */
    IS_PENDING = 1u << 20, /* a deadline has passed somewhere */
    IS_UNLIKE = 1u << 21,  /* one side has a secret and the other none */
    EXCHANGED = 1u << 22,  /* a round is complete */
    WORKED = 1u << 23,     /* a sign of life told of it */
};

static unsigned frames_said(int fd)
{
    static char body[ZERO__WIRE_BODY_BYTES];
    struct zero__link link;
    unsigned said = 0;
    int e;

    zero__link_init(&link, fd, 0);
    do {
        e = zero__link_read(&link);
        link.in_body = body;
        if (e == ZERO__LINK_MESSAGE)
            said |= 1u << link.in.type;
    } while (e > 0);
    if (e == -EPROTO) /* what this side says is well-formed, whatever it hears */
        abort();
    return said;
}

/* Of the lock nothing is known; an error is an errno, and its texts end. */
static unsigned job_reached(struct zero__job *job, const struct zero__peer *peer)
{
    const struct zero__job_error *e = &job->error;
    int state = atomic_load(&job->error_state);
    unsigned reached = 0;

    if (state == ZERO__ERROR_DECIDED) {
        if (e->err >= 0 || e->err < -4095 || e->culprit < -1 || e->culprit >= job->params.ranks ||
            e->reporter < -1 || e->reporter >= job->params.ranks ||
            !memchr(e->op, 0, sizeof e->op) || !memchr(e->cause, 0, sizeof e->cause))
            abort();
        reached |= strstr(e->cause, "is cut: both") ? IS_OVER | IS_CUT : IS_OVER;
    } else if (state == ZERO__ERROR_PENDING) {
        reached |= IS_PENDING;
    }
    if (peer->state == ZERO__PEER_LEFT)
        reached |= HAS_LEFT;
    else if (peer->state == ZERO__PEER_LOST)
        reached |= IS_LOST;
    if (job->n_unlike)
        reached |= IS_UNLIKE;
    if (job->rounds[0].done || job->rounds[1].done)
        reached |= EXCHANGED;
    if (atomic_load(&job->others_worked_ns))
        reached |= WORKED;
    return reached;
}

static void job_free(struct zero__job *job)
{
    free(job->rounds[0].data);
    free(job->rounds[1].data);
    pthread_cond_destroy(&job->changed);
    pthread_mutex_destroy(&job->lock);
}

#endif
