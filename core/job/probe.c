/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links between hosts of which none is that of rank 0. The control channel does not use them, so
 * nothing falls silent there when one is cut; and a collective that does not move proves nothing: a
 * rank may compute, a large one may be slow. So where there is a doubt the link itself is asked.
 *
 * - Ports: every host holds one that refuses whoever connects (port.c). An all-gather as the job
 *   opens tells all of them.
 * - Visits: every rank connects to every other host once, to some dozens at a time: 1,000 hosts are
 *   seen within 20 looks. Where it does not come through (a firewall, an address that is
 *   translated) nothing is ever concluded.
 * - Doubts: who has waited in a collective for a moment connects to the hosts of those that it
 *   waits for, in turn. The kernel's refusal is an answer, also for a rank that computes, starves
 *   or is stopped. That ends the doubt.
 * - Claims: where no answer comes for ZERO_HEARTBEAT, LEAST_NS at least, the signs of life of the
 *   rank that asked say to whom there is no way any more, until there is one or it waits no longer.
 * - The verdict is that of rank 0. It hears both ranks several times after that, and both wait: in
 *   a collective, or in an exchange. So who still computes is not accused, and a host that is cut
 *   off from all falls silent and is named for that (beat.c).
 *
 * Time is counted in looks, one in every period of the heartbeat, as there: who was stopped has not
 * waited for an answer. Jobs on one host or without a heartbeat do none of this.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "job/internal.h"
#include "machine/clock.h"

#define LEAST_NS (7 * ZERO_SECOND / 2) /* the kernel tries at 0, 1 and 3 s: any may be lost */
#define DOUBT_NS (ZERO_SECOND / 4)     /* at least */
#define AGAIN 2                        /* signs of life after the first that makes a claim */

static const struct zero__ask nobody = {.fd = -1, .host = -1, .rank = -1};

static bool is_on(const struct zero__job *job)
{
    return job->n_hosts > 1 && job->params.heartbeat_ns > 0;
}

/* ---- Ports ----------------------------------------------------------------------------------- */

/* Which rank is on which host, and the port that its first one holds. */
static void ports_keep(struct zero__job *job, const struct zero__port *all)
{
    struct zero__probe *probe = &job->probe;

    for (int32_t r = job->params.ranks - 1; r >= 0; r--) {
        uint32_t host = all[r].host;
        probe->host_of[r] = host < (uint32_t)job->n_hosts ? (int32_t)host : job->host;
        if (all[r].family)
            probe->hosts[probe->host_of[r]] = all[r];
    }
}

void zero__probe_init(struct zero__job *job)
{
    struct zero__probe *probe = &job->probe;

    probe->held_fd = -1;
    probe->doubt = nobody;
    for (int i = 0; i < ZERO__JOB_VISITS; i++)
        probe->visits[i] = nobody;
}

int zero__probe_open(struct zero__job *job)
{
    struct zero__port mine = {.host = (uint32_t)job->host}, *all;
    struct zero__probe *probe = &job->probe;

    if (!is_on(job))
        return 0;
    all = calloc((size_t)job->params.ranks, sizeof *all);
    probe->hosts = calloc((size_t)job->n_hosts, sizeof *probe->hosts);
    probe->reached = calloc((size_t)job->n_hosts, sizeof *probe->reached);
    probe->host_of = calloc((size_t)job->params.ranks, sizeof *probe->host_of);
    int e =
        all && probe->hosts && probe->reached && probe->host_of
            ? 0
            : zero__fail(-ENOMEM, "job: no memory for the places of %d ranks", job->params.ranks);
    if (!e && job->params.local_rank == 0)
        zero__port_hold(job, &mine);
    if (!e)
        e = zero__job_allgather(job, &mine, sizeof mine, all);
    if (!e) {
        pthread_mutex_lock(&job->lock);
        ports_keep(job, all);
        probe->on = true; /* the control thread looks at the rest from now on */
        pthread_mutex_unlock(&job->lock);
    }
    free(all);
    return e;
}

static void stop(struct zero__ask *ask)
{
    if (ask->fd >= 0)
        close(ask->fd);
    *ask = nobody;
}

void zero__probe_hang_up(struct zero__job *job)
{
    struct zero__probe *probe = &job->probe;

    if (probe->held_fd >= 0)
        close(probe->held_fd);
    probe->held_fd = -1;
    stop(&probe->doubt);
    for (int i = 0; i < ZERO__JOB_VISITS; i++)
        stop(&probe->visits[i]);
}

void zero__probe_close(struct zero__job *job)
{
    zero__probe_hang_up(job);
    free(job->probe.hosts);
    free(job->probe.reached);
    free(job->probe.host_of);
}

/* ---- Doubts ---------------------------------------------------------------------------------- */

int64_t zero__job_doubt_ns(const struct zero__job *job)
{
    int64_t ns = 2 * job->params.heartbeat_ns / ZERO__JOB_BEATS;

    if (!is_on(job))
        return ZERO_NEVER;
    return ns > DOUBT_NS ? ns : DOUBT_NS;
}

void zero__job_waits(struct zero__job *job, const int32_t *ranks, int n)
{
    struct zero__probe *probe = &job->probe;

    pthread_mutex_lock(&job->lock);
    probe->waits = n >= 0;
    probe->n_whom = 0;
    for (int i = 0; i < n && i < ZERO__JOB_WHOM; i++)
        if (ranks[i] >= 0 && ranks[i] < job->params.ranks)
            probe->whom[probe->n_whom++] = ranks[i];
    pthread_mutex_unlock(&job->lock);
}

static bool waits_for(const struct zero__probe *probe, int32_t rank)
{
    for (int i = 0; i < probe->n_whom; i++)
        if (probe->whom[i] == rank)
            return true;
    return false;
}

static bool may_ask(const struct zero__job *job, int32_t host)
{
    return host != job->host && job->probe.hosts[host].number;
}

static int connect_to(struct zero__job *job, struct zero__ask *ask)
{
    struct zero__probe *probe = &job->probe;
    const struct zero__port *from = &probe->hosts[job->host], *to = &probe->hosts[ask->host];
    struct zero__address a, own;

    if (!zero__port_address(from, 0, from->scope, &own) ||
        !zero__port_address(to, to->number, from->scope, &a))
        return -EINVAL;
    int e = zero__tcp_begin(&own, &a, &ask->fd);
    return e ? e : zero__tcp_begun(ask->fd);
}

/* Does anything come from there? -EINPROGRESS: nothing yet; else it is over, 0: with an answer. */
static int look(struct zero__job *job, struct zero__ask *ask, int64_t period_ns)
{
    int e = ask->fd >= 0 ? zero__tcp_begun(ask->fd) : connect_to(job, ask);

    switch (e) {
    case 0:
    case -ECONNREFUSED:
    case -ECONNRESET:
        job->probe.reached[ask->host] = true;
        stop(ask);
        return 0;
    case -EINPROGRESS:
        break;
    case -ETIMEDOUT:
    case -EHOSTUNREACH:
    case -ENETUNREACH:
    case -EHOSTDOWN:
    case -ENETDOWN: /* what the own machine says of a host that is silent */
        if (ask->fd >= 0)
            close(ask->fd);
        ask->fd = -1;
        break;
    default: /* no port or descriptor is left here: that says nothing about the link */
        stop(ask);
        return e;
    }
    ask->silent_ns += period_ns;
    return -EINPROGRESS;
}

/* Has it been silent for so long that there is no way? */
static bool is_silent(const struct zero__job *job, const struct zero__ask *ask, int64_t period_ns)
{
    int64_t most = job->params.heartbeat_ns > LEAST_NS ? job->params.heartbeat_ns : LEAST_NS;

    return ask->silent_ns - period_ns >= most;
}

/* From the next host on: not all go to one at a time. */
static void visit(struct zero__job *job, int64_t period_ns)
{
    struct zero__probe *probe = &job->probe;

    for (int i = 0; i < ZERO__JOB_VISITS; i++) {
        struct zero__ask *ask = &probe->visits[i];
        bool begins = ask->host < 0;
        if (begins && probe->n_visited + 1 >= job->n_hosts)
            continue;
        if (begins)
            ask->host = (job->host + ++probe->n_visited) % job->n_hosts;
        if (!may_ask(job, ask->host)) {
            stop(ask);
            continue;
        }
        int e = look(job, ask, period_ns);
        if (e == -EINPROGRESS && is_silent(job, ask, period_ns))
            stop(ask);
        if (begins && (e == -EMFILE || e == -ENFILE)) { /* again in the next look */
            probe->n_visited--;
            return;
        }
    }
}

/* All who are waited for in turn, then a pause. */
static void choose(struct zero__job *job, int64_t now_ns)
{
    struct zero__probe *probe = &job->probe;

    if (!probe->n_whom || now_ns < probe->next_ns)
        return;
    int32_t rank = probe->whom[probe->turn % (uint32_t)probe->n_whom];
    if (++probe->turn % (uint32_t)probe->n_whom == 0)
        probe->next_ns = now_ns + job->params.heartbeat_ns / 2;
    if (may_ask(job, probe->host_of[rank]))
        probe->doubt = (struct zero__ask){.fd = -1, .host = probe->host_of[rank], .rank = rank};
}

static void doubt(struct zero__job *job, int64_t now_ns, int64_t period_ns)
{
    struct zero__probe *probe = &job->probe;
    struct zero__ask *ask = &probe->doubt;

    if (ask->host >= 0 && !waits_for(probe, ask->rank))
        stop(ask);
    int e = ask->host >= 0 ? look(job, ask, period_ns) : 0;
    if (ask->host < 0) {
        choose(job, now_ns);
        e = ask->host >= 0 ? look(job, ask, period_ns) : 0;
    }
    probe->cut = e == -EINPROGRESS && is_silent(job, ask, period_ns);
    if (probe->cut && !probe->reached[ask->host]) {
        stop(ask);
        probe->cut = false;
    }
}

/* ---- Claims ---------------------------------------------------------------------------------- */

void zero__probe_say(const struct zero__job *job, struct zero__wire_header *h)
{
    const struct zero__probe *probe = &job->probe;

    h->kind = probe->on && (probe->waits || job->posted);
    h->seq = probe->on && probe->cut ? (uint32_t)probe->doubt.rank + 1 : 0;
}

void zero__probe_heard(struct zero__job *job, int32_t rank, const struct zero__wire_header *h)
{
    struct zero__peer *peer = &job->peers[rank];
    uint32_t to = h->seq <= (uint32_t)job->params.ranks ? h->seq : 0;

    peer->beats++;
    peer->waits = h->kind ? peer->waits + 1 : 0;
    if (to == peer->no_way) {
        peer->claims += to != 0;
        return;
    }
    peer->no_way = to;
    peer->claims = 0;
    if (to)
        peer->since = job->peers[to - 1].beats;
}

/* The job is not over for it: what it said last still holds. */
static bool is_here(const struct zero__job *job, int32_t rank)
{
    return rank == job->params.rank || job->peers[rank].state == ZERO__PEER_HERE;
}

/* Rank 0: two ranks without a way between them, which both answer and wait. */
static bool find_cut(const struct zero__job *job, int32_t *a, int32_t *b)
{
    for (int32_t r = 0; r < job->n_peers; r++) {
        const struct zero__peer *p = &job->peers[r];
        if (!p->no_way || p->claims < AGAIN || !p->waits || !is_here(job, r))
            continue;
        *a = r;
        *b = (int32_t)p->no_way - 1;
        const struct zero__peer *q = &job->peers[*b]; /* what it said before does not count */
        if (q->waits > AGAIN && q->beats - p->since > AGAIN && is_here(job, *b))
            return true;
    }
    return false;
}

static void judge(struct zero__job *job)
{
    struct zero__wire_header own = {0};
    struct zero__job_error e;
    char who[2][90], doing[70], cause[sizeof e.cause]; /* which has room for all */
    int32_t a, b;

    zero__probe_say(job, &own);
    zero__probe_heard(job, 0, &own);
    if (!find_cut(job, &a, &b))
        return;
    zero__process_text(job, &job->peers[a].process, who[0], sizeof who[0]);
    zero__process_text(job, &job->peers[b].process, who[1], sizeof who[1]);
    zero__error_doing(job, doing, sizeof doing);
    snprintf(cause, sizeof cause,
             "the network between rank %d (%s) and rank %d (%s) is cut: both answer rank 0 and "
             "wait, and the host of rank %d answers rank %d no more; rank 0 waited in %s",
             a, who[0], b, who[1], b, a, doing);
    zero__error_make(&e, -1, -EHOSTUNREACH, 0, "", cause);
    zero__error_propose(job, &e);
}

void zero__probe(struct zero__job *job, int64_t now_ns, int64_t period_ns)
{
    struct zero__probe *probe = &job->probe;

    if (!probe->on)
        return;
    visit(job, period_ns);
    doubt(job, now_ns, period_ns);
    if (job->params.rank == 0)
        judge(job);
}
