/* SPDX-License-Identifier: Apache-2.0 */
/* Calls with a deadline; see patient.h. Whoever is the last to need the copy frees it. */
#include "job/patient.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "base/status.h"
#include "machine/clock.h"
#include "machine/thread.h"

#define LOOK_NS (ZERO_SECOND / 50) /* between two questions whether it is over */

struct call {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done, left; /* the call has returned; the caller has gone */
    int result;
    int (*fn)(void *arg);
    size_t bytes;
    char sentence[ZERO_ERROR_BYTES];
    _Alignas(16) unsigned char arg[];
};

static void call_free(struct call *c)
{
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    sodium_memzero(c->arg, c->bytes); /* it may hold a secret */
    free(c);
}

static void *call_run(void *arg)
{
    struct call *c = arg;
    int result = c->fn(c->arg);

    pthread_mutex_lock(&c->lock);
    c->result = result;
    snprintf(c->sentence, sizeof c->sentence, "%s", zero__error_text());
    c->done = true;
    bool left = c->left;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
    if (left)
        call_free(c);
    return NULL;
}

static struct call *call_create(int (*fn)(void *arg), const void *arg, size_t bytes)
{
    struct call *c = calloc(1, sizeof *c + bytes);

    if (!c)
        return NULL;
    c->fn = fn;
    c->bytes = bytes;
    memcpy(c->arg, arg, bytes);
    pthread_mutex_init(&c->lock, NULL);
    zero__cond_init(&c->changed);
    return c;
}

static int call_start(struct call *c, pthread_t *thread)
{
    int e = zero__thread_create(thread, NULL, call_run, c);

    return e ? zero__fail(-e, "job: cannot start a thread: %s", strerror(e)) : 0;
}

/* Waits for the call, with its lock held; false: it is too late. */
static bool call_wait(struct call *c, int64_t deadline_ns, bool (*over)(void *ask), void *ask)
{
    while (!c->done) {
        int64_t until = over ? zero__deadline_ns(LOOK_NS) : deadline_ns;
        until = until < deadline_ns ? until : deadline_ns;
        if (zero__cond_until(&c->changed, &c->lock, until) != ETIMEDOUT || c->done)
            continue;
        if (until == deadline_ns || over(ask))
            return false;
    }
    return true;
}

int zero__call_unless(int64_t deadline_ns, bool (*over)(void *ask), void *ask,
                      int (*fn)(void *arg), void *arg, size_t bytes)
{
    struct call *c = call_create(fn, arg, bytes);
    pthread_t thread;

    if (!c)
        return zero__fail(-ENOMEM, "job: no memory for a call");
    int e = call_start(c, &thread);
    if (e) {
        call_free(c);
        return e;
    }
    pthread_mutex_lock(&c->lock);
    bool done = call_wait(c, deadline_ns, over, ask);
    c->left = !done;
    pthread_mutex_unlock(&c->lock);
    if (!done) {
        pthread_detach(thread); /* it frees c */
        return -ETIMEDOUT;
    }
    pthread_join(thread, NULL); /* who forks next has no thread left over */
    memcpy(arg, c->arg, bytes);
    e = c->result ? zero__fail(c->result, "%s", c->sentence) : 0;
    call_free(c);
    return e;
}

int zero__call_within(int64_t deadline_ns, int (*fn)(void *arg), void *arg, size_t bytes)
{
    return zero__call_unless(deadline_ns, NULL, NULL, fn, arg, bytes);
}
