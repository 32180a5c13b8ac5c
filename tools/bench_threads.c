/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that start together; see bench_threads.h. */
#include "config.h"

#include "bench_threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"

struct team {
    void (*fn)(void *arg, unsigned i, unsigned n);
    void *arg;
    unsigned n;
    _Atomic unsigned here; /* threads that wait for the start; at n it is given */
};

struct member {
    struct team *team;
    unsigned i;
    pthread_t thread;
    int64_t start_ns, end_ns;
};

static void *member_main(void *arg)
{
    struct member *m = arg;
    struct team *t = m->team;

    atomic_fetch_add(&t->here, 1);
    while (atomic_load(&t->here) < t->n) /* until all were created, or one could not be */
        sched_yield();
    m->start_ns = zero__now_ns();
    if (atomic_load(&t->here) == t->n)
        t->fn(t->arg, m->i, t->n);
    m->end_ns = zero__now_ns();
    return NULL;
}

int bench_threads_run(unsigned n, void (*fn)(void *arg, unsigned i, unsigned n), void *arg,
                      int64_t *ns)
{
    struct team team = {.fn = fn, .arg = arg, .n = n};
    struct member *m = calloc(n, sizeof *m);
    int64_t first = INT64_MAX, last = 0;
    unsigned started = 0;
    int err = 0;

    if (!m)
        return zero__fail(-ENOMEM, "no memory for %u threads", n);
    for (; started < n; started++) {
        m[started] = (struct member){.team = &team, .i = started};
        err = pthread_create(&m[started].thread, NULL, member_main, &m[started]);
        if (err)
            break;
    }
    if (err)
        atomic_fetch_add(&team.here, 2 * n); /* those that wait go home */
    for (unsigned i = 0; i < started; i++) {
        pthread_join(m[i].thread, NULL);
        first = m[i].start_ns < first ? m[i].start_ns : first;
        last = m[i].end_ns > last ? m[i].end_ns : last;
    }
    free(m);
    if (err)
        return zero__fail(-err, "cannot start thread %u: %s: lower --threads", started,
                          strerror(err));
    *ns = last - first;
    return 0;
}
