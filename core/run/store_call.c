/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of the disk's store that the system may keep: a file server that is gone, a disk that is
 * stuck. Steps have the storage thread for them. At commit, where a store is opened, grows or is
 * measured, a thread of its own makes them, and who waits for it leaves it to itself when one of
 * them lasts longer than ZERO_TIMEOUT; then nothing is freed that it may come back to.
 */
#include <errno.h>

#include "base/call_within.h"
#include "base/status.h"
#include "machine/clock.h"
#include "run/runner.h"

#define MOST_GAP_NS (ZERO_SECOND / 2) /* between two looks */

/* Around a call of a plugin that the system may keep; `name`: the plugin's, as long as `run`. */
static void enter(struct zero__runner *run, const char *name)
{
    atomic_store(&run->store_name, name);
    atomic_store(&run->store_since_ns, zero__now_ns());
}

static void leave(struct zero__runner *run)
{
    atomic_store(&run->store_since_ns, 0);
}

int zero__store_submit(struct zero__runner *run, const struct zero__tier_store *t,
                       const struct zero_io *ios, uint32_t n)
{
    enter(run, t->name);
    int k = t->ops.submit(t->store, ios, n);
    leave(run);
    if (k > 0 && (uint32_t)k > n)
        return zero__fail(-EPROTO,
                          "%s says that it took %d requests of %u: try it with zero check "
                          "offload",
                          t->name, k, n);
    return k;
}

int zero__store_poll(struct zero__runner *run, const struct zero__tier_store *t,
                     struct zero_cqe *cqes, uint32_t max, int64_t wait_ns)
{
    enter(run, t->name);
    int k = t->ops.poll(t->store, cqes, max, wait_ns);
    leave(run);
    return k;
}

/*
 * What counts is the time in which somebody has looked: a process that was stopped, or whose
 * machine was, finds its calls old and about to return. A call may wait by itself for a moment.
 */
int zero__store_stuck(struct zero__runner *run, struct zero__store_watch *w)
{
    int64_t since = atomic_load(&run->store_since_ns), now = zero__now_ns();
    int64_t gap = now - w->looked_ns;

    gap = gap < MOST_GAP_NS ? gap : MOST_GAP_NS;
    w->seen_ns = since && since == w->since_ns ? w->seen_ns + gap : 0;
    w->since_ns = since;
    w->looked_ns = now;
    if (w->seen_ns < zero__deadline_after(run->site->timeout_ns, 2 * ZERO__STORE_POLL_NS))
        return 0;
    return zero__fail(-ETIMEDOUT,
                      "%s has not come back from a call for %g s (ZERO_TIMEOUT): is the disk "
                      "alive, or the server behind it? A slow one needs a larger ZERO_TIMEOUT",
                      atomic_load(&run->store_name), (double)run->site->timeout_ns / 1e9);
}

struct asked {
    struct zero__runner *run;
    struct zero__store_watch watch;
    bool is_stuck;
};

static bool is_stuck(void *ask)
{
    struct asked *a = ask;

    a->is_stuck = zero__store_stuck(a->run, &a->watch) != 0;
    return a->is_stuck;
}

int zero__store_call(struct zero__runner *run, int (*fn)(void *arg), void *arg, size_t bytes)
{
    struct asked a = {.run = run};
    int err = zero__call_unless(INT64_MAX, is_stuck, &a, fn, arg, bytes);

    if (a.is_stuck)
        run->left = 1;
    return err;
}

/* One call of a plugin that asks the system. */
struct call {
    struct zero__runner *run;
    const char *name;
    struct zero_offload_ops ops;
    enum { PROBE, OPEN, RESIZE } what;
    struct zero_store_info info;
    struct zero_store_open params;
    struct zero_store *store;
    uint64_t bytes;
};

static int call_run(void *arg)
{
    struct call *c = arg;
    int err;

    zero__unsay();
    enter(c->run, c->name);
    if (c->what == PROBE)
        err = c->ops.probe(zero__loader_host(c->run->site->loader), &c->info);
    else if (c->what == OPEN)
        err = c->ops.open(&c->params, &c->store);
    else
        err = c->ops.resize(c->store, c->bytes);
    leave(c->run);
    return err ? zero__unsaid(err, c->name) : 0;
}

int zero__store_probe(struct zero__runner *run, const char *name,
                      const struct zero_offload_ops *ops, struct zero_store_info *info)
{
    struct call c = {.run = run, .name = name, .ops = *ops, .what = PROBE, .info = *info};
    int err = zero__store_call(run, call_run, &c, sizeof c);

    if (!err)
        *info = c.info;
    return err;
}

int zero__store_make(struct zero__runner *run, struct zero__tier_store *t,
                     const struct zero_store_open *params)
{
    struct call c = {.run = run, .name = t->name, .ops = t->ops, .what = OPEN, .params = *params};
    int err;

    if (t->info.flags & ZERO_STORE_MAPPED) { /* filling and locking takes what it takes */
        zero__unsay();
        err = t->ops.open(params, &t->store);
        return err ? zero__unsaid(err, t->name) : 0;
    }
    err = zero__store_call(run, call_run, &c, sizeof c);
    if (!err)
        t->store = c.store;
    return err;
}

int zero__store_resize(struct zero__runner *run, struct zero__tier_store *t, uint64_t bytes)
{
    struct call c = {.run = run,
                     .name = t->name,
                     .ops = t->ops,
                     .what = RESIZE,
                     .store = t->store,
                     .bytes = bytes};
    int err = zero__store_call(run, call_run, &c, sizeof c);

    if (run->left)
        t->store = NULL;
    return err;
}
