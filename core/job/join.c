/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's way to rank 0: connect (again and again until the deadline, for rank 0 may start later),
 * by TCP pass the challenge, say HELLO, and wait until rank 0 says that all are there. Runs in the
 * caller of open, before the control thread exists.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "job/internal.h"
#include "machine/clock.h"
#include "machine/heard.h"
#include "machine/text.h"

#define GRACE_NS (2 * ZERO_SECOND)       /* for rank 0 to say who is missing */
#define LONGEST_NS (86400 * ZERO_SECOND) /* what is believed of its announcement */
#define UNANSWERED 3                     /* times ZERO_HEARTBEAT: for rank 0 to answer HELLO, */
#define UNANSWERED_NS (5 * ZERO_SECOND)  /* at least */

/* The search for rank 0; one attempt after the other. */
struct search {
    struct zero__job *job;
    enum zero__endpoint by;
    uint32_t attempts;
    char where[100]; /* rank 0 of this attempt: "process 12", "10.0.0.1:29500" */
    char last[160];  /* why the last attempt was in vain; empty: nobody was there */
};

__attribute__((format(printf, 2, 3))) static int again(struct search *s, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(s->last, sizeof s->last, fmt, ap);
    va_end(ap);
    return -EAGAIN;
}

static int another_protocol(const struct search *s)
{
    const struct zero__job_params *p = &s->job->params;

    if (s->by == ZERO__TCP)
        return zero__fail(-EPROTO,
                          "job %s: what answers at %s is no rank 0 of libzero %s: start all ranks "
                          "with the same library; if another program holds the port, choose "
                          "another one with ZERO_PORT",
                          p->key, s->where, p->version);
    return zero__fail(-EPROTO,
                      "job %s: %s, which answers for rank 0, speaks another protocol than libzero "
                      "%s: start all ranks with the same library",
                      p->key, s->where, p->version);
}

static int take_welcome(struct search *s, const struct zero__wire_welcome *w)
{
    struct zero__job *job = s->job;
    int32_t n = job->params.ranks;

    if (w->local_ranks < 1 || w->local_ranks > n || w->local_rank < 0 ||
        w->local_rank >= w->local_ranks || w->n_hosts < 1 || w->n_hosts > n || w->host < 0 ||
        w->host >= w->n_hosts)
        return another_protocol(s);
    job->params.heartbeat_ns = w->heartbeat_ns > 0 ? w->heartbeat_ns : 0;
    job->params.local_rank = w->local_rank;
    job->params.local_ranks = w->local_ranks;
    job->n_hosts = w->n_hosts;
    job->host = w->host;
    zero__hosts_interface(job, w->interface, job->peers[0].link.fd);
    job->peers[0].process = w->process;
    zero__process_clean(&job->peers[0].process);
    return 0;
}

/*
 * Receives a frame that is no sign of life. -ETIME: nothing has come for silence_ns (0: that is no
 * error). Silence is counted in looks, as in beat.c: a rank that was stopped itself has not
 * listened.
 */
static int listen_to(struct zero__link *link, void *body, uint32_t room, int64_t silence_ns,
                     int64_t deadline_ns)
{
    int looks = 0;

    while (!silence_ns || looks < ZERO__JOB_BEATS) {
        int64_t until = silence_ns ? zero__deadline_ns(silence_ns / ZERO__JOB_BEATS) : deadline_ns;
        until = until < deadline_ns ? until : deadline_ns;
        int e = zero__link_receive(link, body, room, until);
        bool beat = !e && link->in.type == ZERO__WIRE_BEAT && !link->in.bytes;
        if (!beat && e != -ETIMEDOUT)
            return e;
        if (zero__now_ns() >= deadline_ns)
            return -ETIMEDOUT;
        looks = beat ? 0 : looks + 1;
    }
    return -ETIME;
}

/* Rank 0 has answered HELLO with JOINED, or not yet; how long may it be silent? */
static int64_t silence_of(const struct zero__job *job, const struct zero__wire_header *joined)
{
    int64_t ns = job->params.heartbeat_ns;

    if (joined)
        return joined->seq * (ZERO_SECOND / 1000);
    if (!ns || ns > LONGEST_NS)
        return 0;
    return UNANSWERED * ns > UNANSWERED_NS ? UNANSWERED * ns : UNANSWERED_NS;
}

/* Waits for WELCOME. -EAGAIN: come again. */
static int wait_welcome(struct search *s, struct zero__link *link, int64_t deadline_ns)
{
    int64_t silence_ns = silence_of(s->job, NULL);
    const struct zero__job *job = s->job;
    const char *key = job->params.key;
    union {
        struct zero__wire_refused no;
        struct zero__wire_welcome yes;
    } body;
    bool joined = false;

    for (;;) {
        int e = listen_to(link, &body, sizeof body, silence_ns, deadline_ns);
        const struct zero__wire_header *h = &link->in;
        if (e == -EPIPE && !joined) /* it went before it looked at us, or had too many guests */
            return again(s, "it hung up");
        if (e == -EPIPE)
            return zero__fail(-ECONNRESET,
                              "job %s: rank 0 (%s) has ended while the ranks were joining, or the "
                              "network to it was cut: look at its output",
                              key, s->where);
        if (e == -ETIME)
            return zero__fail(
                -ETIMEDOUT,
                "job %s: rank 0 (%s) does not answer rank %d while the ranks are "
                "joining: no sign of life for %.3g s (ZERO_HEARTBEAT); it is stopped%s",
                key, s->where, job->params.rank, (double)silence_ns / 1e9,
                s->by == ZERO__TCP ? ", its machine hangs, or the network is cut"
                                   : " or its machine hangs");
        if (e == -ETIMEDOUT)
            return zero__fail(e, "job %s: rank 0 (%s) does not answer rank %d: is it stopped?", key,
                              s->where, job->params.rank);
        if (e && e != -EPROTO)
            return zero__fail(e, "job %s: reading from rank 0 (%s): %s", key, s->where,
                              strerror(-e));
        if (!e && h->type == ZERO__WIRE_WELCOME && h->bytes == sizeof body.yes)
            return take_welcome(s, &body.yes);
        if (!e && h->type == ZERO__WIRE_JOINED && !h->bytes) {
            joined = true;
            silence_ns = silence_of(job, h);
            s->job->params.number = h->offset;
            deadline_ns =
                zero__deadline_ns((h->len < LONGEST_NS ? (int64_t)h->len : LONGEST_NS) + GRACE_NS);
        } else if (!e && h->type == ZERO__WIRE_REFUSED && h->bytes == sizeof body.no) {
            zero__text_clean(body.no.text, sizeof body.no.text);
            if (body.no.again)
                return again(s, "%s", body.no.text);
            return zero__fail(zero__errno_heard(body.no.err, -EPROTO), "%s", body.no.text);
        } else {
            return another_protocol(s);
        }
    }
}

/* Receives one frame of the challenge; -EAGAIN: come again. */
static int receive(struct search *s, struct zero__link *link, void *body, uint32_t room,
                   int64_t deadline_ns)
{
    int e = zero__link_receive(link, body, room, deadline_ns);

    if (e == -EPIPE)
        return again(s, "it hung up");
    if (e == -ETIMEDOUT)
        return again(s, "what listens there does not answer");
    if (e == -EPROTO)
        return another_protocol(s);
    return e ? zero__fail(e, "job %s: reading from rank 0 at %s: %s", s->job->params.key, s->where,
                          strerror(-e))
             : 0;
}

/* Do both sides want the same: a challenge, or none? */
static int compare_wishes(const struct search *s, struct zero__link *link, bool theirs,
                          int64_t deadline_ns)
{
    const struct zero__job_params *p = &s->job->params;
    const struct zero__wire_header h = {.type = ZERO__WIRE_DENIED};

    if (theirs == p->secret.known)
        return 0;
    zero__link_send(link, &h, NULL, deadline_ns); /* so that rank 0 can say it, too */
    return zero__fail(-EACCES,
                      "job %s: rank 0 at %s has %s secret, rank %d has %s: give all ranks the same "
                      "(ZERO_SECRET_FILE), or none of them",
                      p->key, s->where, theirs ? "a" : "no", p->rank, theirs ? "none" : "one");
}

/* See auth.h. Nothing that comes before rank 0's proof is believed. */
static int challenge(struct search *s, struct zero__link *link)
{
    int64_t deadline = zero__deadline_ns(ZERO__JOB_GUEST_NS), join = s->job->join_deadline_ns;
    const struct zero__job_params *p = &s->job->params;
    struct zero__wire_header h = {.type = ZERO__WIRE_PROOF,
                                  .bytes = sizeof(struct zero__wire_proof)};
    struct zero__auth_nonces nonces;
    struct zero__wire_proof proof;

    deadline = join < deadline ? join : deadline;
    int e = receive(s, link, nonces.zero, sizeof nonces.zero, deadline);
    if (e)
        return e;
    if (link->in.type != ZERO__WIRE_CHALLENGE || link->in.bytes != sizeof nonces.zero)
        return another_protocol(s);
    if ((e = compare_wishes(s, link, link->in.kind != 0, deadline)) || !p->secret.known)
        return e;
    zero__auth_nonce(nonces.guest);
    memcpy(proof.nonce, nonces.guest, sizeof proof.nonce);
    zero__auth_prove(s->job->secret, p->key, ZERO__AUTH_GUEST, &nonces, proof.proof);
    if (zero__link_send(link, &h, &proof, deadline))
        return again(s, "it hung up");
    if ((e = receive(s, link, &proof, sizeof proof, deadline)))
        return e;
    if (link->in.type == ZERO__WIRE_DENIED)
        return zero__fail(-EACCES,
                          "job %s: rank 0 at %s turns rank %d away: give all ranks the same secret "
                          "(ZERO_SECRET_FILE), MASTER_ADDR, MASTER_PORT and ZERO_JOB",
                          p->key, s->where, p->rank);
    if (link->in.type != ZERO__WIRE_PROOF || link->in.bytes != sizeof proof)
        return another_protocol(s);
    if (!zero__auth_check(s->job->secret, p->key, ZERO__AUTH_ZERO, &nonces, proof.proof))
        return zero__fail(-EACCES,
                          "job %s: what answers at %s for rank 0 does not know the secret of rank "
                          "%d: another program holds the port, or the secrets differ",
                          p->key, s->where, p->rank);
    return 0;
}

static int connect_unix(struct search *s, struct zero__link *link)
{
    int64_t pid;
    int fd, e = zero__unix_connect(&s->job->params, &fd, &pid);

    if (e)
        return e;
    snprintf(s->where, sizeof s->where, "process %" PRId64, pid);
    zero__link_init(link, fd, pid);
    return 0;
}

static int connect_tcp(struct search *s, struct zero__link *link)
{
    const struct zero__addresses *all = &s->job->meet.at;
    const struct zero__address *a = &all->at[s->attempts % all->n];
    char text[ZERO__ADDRESS_TEXT];
    int fd, e = zero__tcp_connect(a, s->job->join_deadline_ns, &fd);

    zero__address_text(a, text);
    snprintf(s->where, sizeof s->where, "%s", text);
    if (e == -EMFILE || e == -ENFILE || e == -ENOMEM || e == -ENOBUFS)
        return zero__fail(e, "job %s: cannot connect to rank 0 at %s: %s", s->job->params.key, text,
                          strerror(-e));
    if (e)
        return again(s, "%s", strerror(-e));
    zero__link_init(link, fd, 0);
    if ((e = challenge(s, link)))
        zero__link_close(link);
    return e;
}

static int attempt(struct search *s)
{
    struct zero__job *job = s->job;
    struct zero__wire_header h = {.type = ZERO__WIRE_HELLO, .bytes = sizeof job->hello};
    struct zero__link *link = &job->peers[0].link;
    int e = s->by == ZERO__TCP ? connect_tcp(s, link) : connect_unix(s, link);

    s->attempts++;
    if (e)
        return e;
    e = zero__link_send(link, &h, &job->hello, job->join_deadline_ns);
    e = e ? again(s, "it hung up") : wait_welcome(s, link, job->join_deadline_ns);
    if (e)
        zero__link_close(link);
    return e;
}

static int not_found(const struct search *s)
{
    const struct zero__job_params *p = &s->job->params;
    double seconds = (double)p->join_ns / 1e9;
    char how[ZERO__RENDEZVOUS_TEXT];

    zero__rendezvous_text(s->job, how, sizeof how);
    if (s->by == ZERO__TCP)
        return zero__fail(
            -ETIMEDOUT,
            "job %s: rank %d found no rank 0 at %s within %.3g s (%s): rank 0 was not "
            "started or has ended, a firewall is between, or MASTER_ADDR, MASTER_PORT "
            "or ZERO_PORT differ; rank 0 says where it listens with ZERO_LOG=info",
            p->key, p->rank, s->where, seconds, s->last);
    return zero__fail(-ETIMEDOUT,
                      "job %s: rank %d found no rank 0 within %.3g s: rank 0 was not started, has "
                      "ended, or spells MASTER_ADDR in another way, or has another MASTER_PORT, "
                      "ZERO_JOB, job name or model name; %s",
                      p->key, p->rank, seconds, how);
}

int zero__job_join(struct zero__job *job)
{
    struct search s = {.job = job, .by = job->meet.by};

    for (int pause_ms = 1;; pause_ms = pause_ms < 25 ? 2 * pause_ms : 50) {
        int e = attempt(&s);
        if (e != -EAGAIN) {
            job->peers[0].state = e ? ZERO__PEER_ABSENT : ZERO__PEER_HERE;
            return e;
        }
        if (zero__now_ns() >= job->join_deadline_ns)
            return not_found(&s);
        poll(NULL, 0, pause_ms);
    }
}

int zero__job_ask(struct zero__job *job)
{
    struct search s = {.job = job, .by = ZERO__UNIX};
    int e = attempt(&s);

    if (e)
        return e;
    zero__link_close(&job->peers[0].link);
    return zero__fail(-EPROTO, "job %s: the process that holds its socket let a second rank 0 in",
                      job->params.key);
}
