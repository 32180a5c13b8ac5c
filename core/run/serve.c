/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of a thread that serves lanes: starts ops whose waits are over, notes what has ended,
 * sleeps until more ends. Two threads run it, with lanes of their own: the progress thread sleeps
 * in the transport (progress.c), the storage thread in the disk's store (storage.c).
 */
#define _GNU_SOURCE
#include "run/serve.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "machine/thread.h"
#include "run/runner.h"

#define N_CQES 16

/* Ops that a turn of the loop has moved. */
struct turn {
    int started, ended;
    bool full; /* an op has no room, and nothing tells when it has */
};

/* Notes an op that has started, and its end if it consists of nothing. */
static void op_started(struct zero__runner *run, uint32_t queue, const struct zero__slot *s,
                       struct turn *t)
{
    struct zero__lane *l = &run->lanes[queue];

    l->started++;
    run->n_begun += s->place != 0;
    t->started++;
    if (!l->kind->by_event && !s->pending) {
        zero__lane_settle(run, queue);
        t->ended++;
    }
}

static int lane_start(struct zero__server *v, uint32_t queue, struct turn *t,
                      struct zero__blame *blame)
{
    struct zero__runner *run = v->run;
    struct zero__lane *l = &run->lanes[queue];

    while (l->started < l->issued) {
        struct zero__slot *s = zero__lane_slot(l, l->started + 1);
        const bool is_ready = run->order->is_ready(run, queue, s);
        int err = is_ready ? l->kind->start(run, queue, s) : -EAGAIN;
        if (err == -EAGAIN || err == -EBUSY) {
            atomic_store(&v->waits, 1);
            t->full |= err == -EBUSY;
            return 0;
        }
        if (err == -EINPROGRESS)
            return 0;
        if (err) {
            blame->heard = l->kind->collective;
            return err;
        }
        op_started(run, queue, s, t);
    }
    return 0;
}

static int lanes_start(struct zero__server *v, struct turn *t, struct zero__blame *blame)
{
    int err = 0;

    for (uint32_t q = 0; q < ZERO__N_QUEUES && !err; q++)
        if (v->run->lanes[q].kind->server == v->id && !zero__is_over(v->run))
            err = lane_start(v, q, t, blame);
    return err;
}

/* Starts and polls until neither moves anything more; lock held. */
static int lanes_move(struct zero__server *v, struct turn *t, struct zero__blame *blame)
{
    struct zero__runner *run = v->run;
    int err, before, ended;

    do {
        do {
            before = t->started;
            err = lanes_start(v, t, blame);
        } while (!err && run->order->cascades && t->started > before);
        ended = err ? err : v->kind->look ? v->kind->look(run, &blame->heard) : 0;
        err = ended < 0 ? ended : 0;
        t->ended += ended > 0 ? ended : 0;
    } while (!err && ended > 0);
    return err;
}

static int complete(struct zero__server *v, const struct zero_cqe *c)
{
    const uint64_t queue = zero__user_queue(c->user), ordinal = zero__user_ordinal(c->user);
    const struct zero__lane *l = queue < ZERO__N_QUEUES ? &v->run->lanes[queue] : NULL;

    if (!l || l->kind->server != v->id || !l->kind->complete || ordinal <= l->done ||
        ordinal > l->issued)
        return v->kind->stray(v->run, c);
    return l->kind->complete(v->run, (uint32_t)queue, c);
}

static int completions(struct zero__server *v, const struct zero_cqe *cqes, int n,
                       struct zero__blame *blame)
{
    struct zero__runner *run = v->run;
    int err = 0;

    pthread_mutex_lock(&run->lock);
    for (int i = 0; i < n && !err; i++)
        err = complete(v, &cqes[i]);
    blame->heard = err != 0;
    if (!err)
        err = v->kind->account(run);
    pthread_cond_broadcast(&run->moved);
    pthread_mutex_unlock(&run->lock);
    zero__servers_wake(run);
    return err;
}

static int turn(struct zero__server *v, struct zero__blame *blame)
{
    struct zero__runner *run = v->run;
    struct zero_cqe cqes[N_CQES];
    struct turn t = {0};

    atomic_store(&v->waits, 0);
    pthread_mutex_lock(&run->lock);
    int err = lanes_move(v, &t, blame);
    if (!err)
        err = v->kind->prepare(run, t.started);
    if (t.ended)
        pthread_cond_broadcast(&run->moved);
    pthread_mutex_unlock(&run->lock);
    if (t.ended)
        zero__servers_wake(run);
    if (err)
        return err;
    /* A wake that comes between the look at the lanes and the sleep is remembered. */
    int64_t wait_ns = t.started || t.ended ? 0
                      : t.full             ? ZERO__STORE_FULL_NS
                                           : v->kind->idle_ns(run);
    int n = v->kind->sleep(run, cqes, N_CQES, wait_ns);
    if (n < 0) {
        blame->heard = true;
        return n;
    }
    err = n ? completions(v, cqes, n, blame) : v->kind->late(run, blame);
    v->kind->rest(run, n > 0 || t.ended);
    return err;
}

/* After an error the thread has nothing more to do than to be joined. */
static int is_stopped(struct zero__server *v)
{
    struct zero__runner *run = v->run;

    pthread_mutex_lock(&run->lock);
    while (!v->stops && run->err)
        pthread_cond_wait(&run->moved, &run->lock);
    int stops = v->stops;
    pthread_mutex_unlock(&run->lock);
    return stops;
}

static void *server_main(void *arg)
{
    struct zero__server *v = arg;

    atomic_store(&v->number, (int)gettid());
    zero__unsay();
    while (!is_stopped(v)) {
        struct zero__blame blame = {.culprit = v->run->site->rank};
        if (v->kind->is_over(v->run))
            continue;
        int err = turn(v, &blame);
        if (err)
            v->kind->fail(v->run, err, &blame);
    }
    return NULL;
}

int zero__server_start(struct zero__runner *run, enum zero__server_id id)
{
    struct zero__server *v = &run->servers[id];

    v->stops = 0;
    atomic_store(&v->is_on, 1);
    int err = zero__thread_create(&v->thread, NULL, server_main, v);
    if (!err)
        return 0;
    atomic_store(&v->is_on, 0);
    return zero__fail(-err, "cannot start the %s thread: %s" ZERO__THREAD_LIMITS, v->kind->name,
                      strerror(err));
}

void zero__server_stop(struct zero__runner *run, enum zero__server_id id)
{
    struct zero__server *v = &run->servers[id];

    if (!atomic_load(&v->is_on))
        return;
    pthread_mutex_lock(&run->lock);
    v->stops = 1;
    pthread_cond_broadcast(&run->moved);
    pthread_mutex_unlock(&run->lock);
    v->kind->wake(run);
    if (v->kind->in_transport) {
        int before = zero__inside_begin(run->inside, atomic_load(&v->number));
        pthread_join(v->thread, NULL);
        zero__inside_end(run->inside, before);
    } else {
        pthread_join(v->thread, NULL);
    }
    atomic_store(&v->is_on, 0);
}

void zero__server_wake(struct zero__runner *run, enum zero__server_id id)
{
    struct zero__server *v = &run->servers[id];

    if (atomic_load(&v->is_on))
        v->kind->wake(run);
}

void zero__servers_wake(struct zero__runner *run)
{
    for (uint32_t i = 0; i < ZERO__N_SERVERS; i++)
        if (atomic_exchange(&run->servers[i].waits, 0))
            zero__server_wake(run, i);
}
