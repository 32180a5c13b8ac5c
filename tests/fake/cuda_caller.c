/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who calls the functions of the host that streams come to: each stream's own thread, or with the
 * setting one_caller one thread for all of the process, one function after another. The driver of a
 * machine may do either, so a function must not wait for what another one does.
 */
#include "config.h"

#include "cuda_inside.h"

#include <unistd.h>

struct call {
    struct call *next;
    void (*fn)(void *arg);
    void *arg;
    bool done;
};

/* Guarded by the lock. */
static struct {
    pid_t process; /* that its thread is in: a fork has none */
    struct call *first, **last;
} caller;

/* Lock held; given back meanwhile. */
static void function_call(void (*fn)(void *arg), void *arg)
{
    pthread_mutex_unlock(&fake.lock);
    fake_in_function = true;
    fn(arg);
    fake_in_function = false;
    pthread_mutex_lock(&fake.lock);
}

static void *caller_main(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&fake.lock);
    for (;;) {
        struct call *c = caller.first;
        if (!c) {
            pthread_cond_wait(&fake.moved, &fake.lock);
            continue;
        }
        function_call(c->fn, c->arg);
        caller.first = c->next;
        if (!caller.first)
            caller.last = &caller.first;
        c->done = true; /* it is gone when the lock is */
        pthread_cond_broadcast(&fake.moved);
    }
    return NULL;
}

/* Lock held. */
static bool caller_is_there(void)
{
    pthread_t thread;

    if (caller.process == getpid())
        return true;
    if (pthread_create(&thread, NULL, caller_main, NULL))
        return false;
    pthread_detach(thread);
    caller.process = getpid();
    caller.first = NULL;
    caller.last = &caller.first;
    return true;
}

void fake_function_run(void (*fn)(void *arg), void *arg)
{
    struct call c = {.fn = fn, .arg = arg};

    if (!fake.settings.one_caller || !caller_is_there()) {
        function_call(fn, arg);
        return;
    }
    *caller.last = &c;
    caller.last = &c.next;
    pthread_cond_broadcast(&fake.moved);
    while (!c.done)
        pthread_cond_wait(&fake.moved, &fake.lock);
}
