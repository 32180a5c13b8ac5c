/* SPDX-License-Identifier: Apache-2.0 */
/* Calls with a deadline; see patient.h. Whoever is the last to need the copy frees it. */
#include "machine/patient.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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
    _Alignas(16) unsigned char arg[];
};

static void call_free(struct call *c)
{
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    explicit_bzero(c->arg, c->bytes); /* it may hold a secret */
    free(c);
}

static void *call_run(void *arg)
{
    struct call *c = arg;
    int result = c->fn(c->arg);

    pthread_mutex_lock(&c->lock);
    c->result = result;
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

enum zero__patient zero__patient_call(int64_t deadline_ns, bool (*over)(void *ask), void *ask,
                                      int (*fn)(void *arg), void *arg, size_t bytes, int *result)
{
    struct call *c = call_create(fn, arg, bytes);
    pthread_t thread;

    *result = -ENOMEM;
    if (!c)
        return ZERO__PATIENT_IMPOSSIBLE;
    int e = zero__thread_create(&thread, NULL, call_run, c);
    if (e) {
        call_free(c);
        *result = -e;
        return ZERO__PATIENT_IMPOSSIBLE;
    }
    pthread_mutex_lock(&c->lock);
    bool done = call_wait(c, deadline_ns, over, ask);
    c->left = !done;
    pthread_mutex_unlock(&c->lock);
    if (!done) {
        pthread_detach(thread); /* it frees c */
        *result = -ETIMEDOUT;
        return ZERO__PATIENT_LATE;
    }
    pthread_join(thread, NULL); /* who forks next has no thread left over */
    memcpy(arg, c->arg, bytes);
    *result = c->result;
    call_free(c);
    return ZERO__PATIENT_DONE;
}
