/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls into a transport from the application's thread, while the job may still fail. Another
 * thread makes the call; when the job has failed and the call computes without an end (inside.c) or
 * sleeps for too long, that thread is abandoned and the application's thread returns.
 */
#include <errno.h>

#include "base/call_within.h"
#include "base/status.h"
#include "machine/clock.h"
#include "run/runner.h"

#define END_S 10 /* for a call that sleeps, after the job's failure */

struct asked {
    struct zero__runner *run;
    struct zero__inside_watch watch;
    int64_t until_ns; /* 0: the job has not failed */
};

static bool is_over(void *ask)
{
    struct asked *a = ask;

    if (!zero__job_error(a->run->site->job, NULL))
        return false;
    if (!a->until_ns)
        a->until_ns = zero__deadline_ns(END_S * ZERO_SECOND);
    return zero__inside_is_stuck(&a->watch) || zero__now_ns() >= a->until_ns;
}

struct call {
    struct zero__runner *run;
    const char *who;
    int (*fn)(void *owner, void *arg);
    void *owner, *arg;
    int returned;
};

/* On this thread, whose last sentence may be of another call. */
static int call_here(const struct call *c)
{
    zero__unsay();
    int err = c->fn(c->owner, c->arg);
    return err ? zero__unsaid(err, c->who) : 0;
}

static int call_run(void *arg)
{
    struct call *c = arg;

    int before = zero__inside_begin(c->run->inside, 0);
    int err = call_here(c);
    zero__inside_end(c->run->inside, before);
    c->returned = 1;
    return err;
}

int zero__inside_call(struct zero__runner *run, const char *who, int (*fn)(void *owner, void *arg),
                      void *owner, void *arg)
{
    struct call c = {run, who, fn, owner, arg, 0};
    struct asked a = {.run = run};

    if (run->site->ranks == 1)
        return call_here(&c);
    zero__inside_watch(&a.watch, run->inside, false);
    int err = zero__call_unless(INT64_MAX, is_over, &a, call_run, &c, sizeof c);
    if (c.returned)
        return err;
    if (err != -ETIMEDOUT) /* no thread could be created */
        return call_here(&c);
    run->left = 1;
    err = zero__job_report(run->site->job);
    zero__log(&run->site->log, ZERO_LOG_WARN, "engine",
              "the transport does not return after an error; what it holds is left to the end of "
              "the process");
    return err;
}
