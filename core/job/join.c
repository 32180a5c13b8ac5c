/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's way to rank 0: connect (again and again until the deadline, for rank 0 may start later),
 * say HELLO, and wait until rank 0 says that all are there. Runs in the caller of open, before the
 * control thread exists.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "job/endpoint.h"
#include "job/internal.h"

#define GRACE_NS (2 * ZERO_SECOND)       /* for rank 0 to say who is missing */
#define LONGEST_NS (86400 * ZERO_SECOND) /* what is believed of its announcement */

/* Waits for WELCOME. -EAGAIN: come again. */
static int wait_welcome(struct zero__job *job, struct zero__link *link, int64_t deadline_ns)
{
    const char *key = job->params.key;
    struct zero__wire_refused no;
    bool joined = false;

    for (;;) {
        int e = zero__link_receive(link, &no, sizeof no, deadline_ns);
        const struct zero__wire_header *h = &link->in;
        if (e == -EPIPE && !joined)
            return -EAGAIN; /* it went before it looked at us */
        if (e == -EPIPE)
            return zero__fail(-ECONNRESET,
                              "job %s: rank 0 (process %" PRId64 ") has ended while "
                              "the ranks were joining: look at its output",
                              key, link->pid);
        if (e == -ETIMEDOUT)
            return zero__fail(e,
                              "job %s: rank 0 (process %" PRId64 ") does not answer rank %d: is "
                              "it stopped?",
                              key, link->pid, job->params.rank);
        if (e && e != -EPROTO)
            return zero__fail(e, "job %s: reading from rank 0: %s", key, strerror(-e));
        if (!e && h->type == ZERO__WIRE_WELCOME && !h->bytes) {
            job->params.heartbeat_ns = h->len < INT64_MAX ? (int64_t)h->len : 0;
            return 0;
        }
        if (!e && h->type == ZERO__WIRE_JOINED && !h->bytes) {
            joined = true;
            deadline_ns =
                zero__deadline_ns((h->len < LONGEST_NS ? (int64_t)h->len : LONGEST_NS) + GRACE_NS);
        } else if (!e && h->type == ZERO__WIRE_REFUSED && h->bytes == sizeof no) {
            no.text[sizeof no.text - 1] = 0;
            return no.again ? -EAGAIN : zero__fail(no.err < 0 ? no.err : -EPROTO, "%s", no.text);
        } else {
            return zero__fail(-EPROTO,
                              "job %s: process %" PRId64 ", which answers for rank 0, "
                              "speaks another protocol than libzero %s: start all ranks with the "
                              "same library",
                              key, link->pid, job->params.version);
        }
    }
}

static int attempt(struct zero__job *job, int64_t deadline_ns)
{
    struct zero__wire_header h = {.type = ZERO__WIRE_HELLO, .bytes = sizeof job->hello};
    struct zero__link *link = &job->peers[0].link;
    int64_t pid;
    int fd, e = zero__endpoint_connect(&job->params, &fd, &pid);

    if (e)
        return e;
    zero__link_init(link, fd, pid);
    e = zero__link_send(link, &h, &job->hello, deadline_ns);
    e = e ? -EAGAIN : wait_welcome(job, link, deadline_ns);
    if (e)
        zero__link_close(link);
    return e;
}

int zero__job_join(struct zero__job *job)
{
    for (int pause_ms = 1;; pause_ms = pause_ms < 25 ? 2 * pause_ms : 50) {
        int e = attempt(job, job->join_deadline_ns);
        if (e != -EAGAIN) {
            job->peers[0].state = e ? ZERO__PEER_ABSENT : ZERO__PEER_HERE;
            return e;
        }
        if (zero__now_ns() >= job->join_deadline_ns)
            return zero__fail(
                -ETIMEDOUT,
                "job %s: rank %d found no rank 0 within %.3g s: rank 0 "
                "was not started, has ended, or has another MASTER_ADDR, MASTER_PORT, "
                "ZERO_JOB, job name or model name",
                job->params.key, job->params.rank, (double)job->params.join_ns / 1e9);
        poll(NULL, 0, pause_ms);
    }
}

int zero__job_ask(struct zero__job *job)
{
    int e = attempt(job, job->join_deadline_ns);
    if (e)
        return e;
    zero__link_close(&job->peers[0].link);
    return zero__fail(-EPROTO, "job %s: the process that holds its socket let a second rank 0 in",
                      job->params.key);
}
