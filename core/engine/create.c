/* SPDX-License-Identifier: Apache-2.0 */
/* A runtime's beginning and end: options, ranks, plugins. */
#define _GNU_SOURCE
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/call_within.h"
#include "base/input.h"
#include "base/status.h"
#include "device/host.h"
#include "engine/callback.h"
#include "engine/inside.h"
#include "engine/places.h"
#include "engine/runtime.h"
#include "machine/clock.h"

#define END_S 10      /* for a runtime to end, where nothing spins; more than plugins wait */
#define END_DISK_S 30 /* more for a disk, which may be slow */

/* What of the options is kept at hand. */
static void options_read(struct zero_runtime *rt, const struct zero_config *cfg)
{
    rt->log.sink = cfg ? cfg->log : NULL;
    rt->log.sink_arg = cfg ? cfg->log_arg : NULL;
    rt->log.gate = &rt->inside->gate;
    rt->log.rank = -1;
    zero__option_levels(rt->options, &rt->log);
    rt->timeout_ns = zero__option_ns(rt->options, ZERO__OPT_TIMEOUT);
    zero__option_limit(rt->options, &rt->limit);
}

/*
 * Waiters leave although the progress thread may be stuck in the transport's progress(). Whoever
 * holds the lock may be stuck, too, or get little of the machine, and the job's thread has
 * heartbeats to send: it does not wait for the lock for long. One who is just about to sleep does
 * not hear it then, but looks for himself, see zero__lanes_wait().
 */
static void waiters_wake(struct zero_runtime *rt)
{
    const struct timespec pause = {0, 1000000};
    int held = !pthread_mutex_trylock(&rt->lock);

    for (int i = 0; i < 10 && !held; i++) {
        nanosleep(&pause, NULL);
        held = !pthread_mutex_trylock(&rt->lock);
    }
    pthread_cond_broadcast(&rt->moved);
    if (held)
        pthread_mutex_unlock(&rt->lock);
}

static void job_failed(void *arg)
{
    struct zero_runtime *rt = arg;

    atomic_store_explicit(&rt->job_failed, 1, memory_order_release);
    waiters_wake(rt);
    if (rt->ctx) {
        rt->comm_ops.abort(rt->ctx);
        rt->comm_ops.wake(rt->ctx);
    }
}

static int job_open(struct zero_runtime *rt, const struct zero_config *cfg)
{
    struct zero__job_params p;
    int err = zero__job_params_from(cfg, rt->options, &p);

    if (err)
        return err;
    p.log = &rt->log;
    rt->rank = p.rank;
    rt->ranks = p.ranks;
    zero__crash_begin(rt, &p);
    err = zero__job_open(&p, &rt->job);
    zero__crash_number(rt, p.number);
    if (err)
        return err;
    rt->local_ranks = p.local_ranks > 0 ? p.local_ranks : 1;
    if (rt->ranks > 1)
        rt->log.rank = rt->rank;
    rt->sum_parts = malloc((size_t)rt->ranks * ZERO__SUM_MOST * sizeof *rt->sum_parts);
    return rt->sum_parts ? 0 : zero__fail(-ENOMEM, "no memory for the sums of %d ranks", rt->ranks);
}

static int lane_split(struct zero_runtime *rt, void *lane)
{
    return rt->comm_ops.split(rt->ctx, NULL, 0, rt->rank, &((struct lane *)lane)->comm);
}

/* The device is open: the transport may work in its streams. */
static int comm_open(struct zero_runtime *rt)
{
    int err = zero__transport_open(rt);

    if (err)
        return err;
    /* From here on ranks wait for each other in the transport: a death must end that. */
    zero__job_on_error(rt->job, job_failed, rt);
    zero__job_on_lost(rt->job, zero__flight_say, rt);
    zero__doubt_begin(rt);
    for (int q = 0; !err && q < 2; q++)
        err = zero__inside_call(rt, rt->comm_name, lane_split,
                                &rt->lanes[q ? ZERO__Q_REDUCE : ZERO__Q_GATHER]);
    return err;
}

static int group_default(struct zero_runtime *rt)
{
    const struct zero__options *o = rt->options;
    uint32_t id;
    struct zero_group_desc d = {
        .size = sizeof d,
        .name = "default",
        .lr = (float)zero__option_real(o, ZERO__OPT_LR),
        .weight_decay = (float)zero__option_real(o, ZERO__OPT_WEIGHT_DECAY),
        .beta1 = (float)zero__option_real(o, ZERO__OPT_BETA1),
        .beta2 = (float)zero__option_real(o, ZERO__OPT_BETA2),
        .eps = (float)zero__option_real(o, ZERO__OPT_EPS),
        .momentum = (float)zero__option_real(o, ZERO__OPT_MOMENTUM)};

    rt->optimizer = (uint32_t)zero__option_int(o, ZERO__OPT_OPTIMIZER);
    return zero__model_add_group(&rt->model, &d, &id);
}

/* May a plugin still ask for that option? After a failure also what is loaded. */
struct questions {
    const struct zero__loader *loader;
    bool all_asked;
};

static bool may_ask(void *arg, const char *option)
{
    const struct questions *q = arg;

    return zero__loader_may_ask(q->loader, option, q->all_asked);
}

int zero_create(const struct zero_config *config, struct zero_runtime **out)
{
    static const struct zero_plugin *const builtins[] = {&zero__host_device_plugin};
    struct zero_runtime *rt = calloc(1, sizeof *rt);
    char said[ZERO_ERROR_BYTES];
    int err = config ? zero__input_check("zero_config", config, sizeof *config) : 0;

    if (rt && !err)
        rt->inside = calloc(1, sizeof *rt->inside);
    if (err || !rt || !rt->inside) {
        free(rt);
        return err ? err : zero__fail(-ENOMEM, "no memory for a runtime");
    }
    zero__lanes_create(rt);
    err = zero__options_load(config ? config->settings : NULL, config ? config->n_settings : 0,
                             &rt->options);
    if (!err) {
        options_read(rt, config);
        err = job_open(rt, config);
    }
    if (!err)
        err = zero__crash_check(rt);
    if (!err)
        err = zero__loader_create(rt->options, &rt->log, builtins, 1, &rt->loader);
    if (!err)
        err = zero__device_open(rt);
    if (!err)
        err = comm_open(rt);
    if (!err)
        err = zero__streams_create(rt);
    if (!err)
        err = zero__tiers_load(rt);
    if (!err)
        err = group_default(rt);
    if (rt->options && err != -EINVAL) {
        struct questions questions = {rt->loader, !err};
        const struct zero__option_others others = {may_ask, &questions};
        int warned = zero__options_finish(rt->options, &rt->log, !err, rt->loader ? &others : NULL);
        err = err ? err : warned;
    }
    if (err) {
        err = zero__runtime_cause(rt, err);
        snprintf(said, sizeof said, "%s", zero__error_text());
        zero__runtime_fail(rt, rt->rank, err, "zero_create", said);
        zero_destroy(rt);
        return zero__fail(err, "%s", said);
    }
    *out = rt;
    return 0;
}

static void arrays_free(struct zero_runtime *rt)
{
    zero__flight_free(rt);
    zero__history_free(rt);
    free(rt->sum_parts);
    zero__times_free(rt);
    free(rt->contributed);
    free(rt->activations);
    free(rt->scratch);
    free(rt->param_now);
    free(rt->grad_now);
    free(rt->zero_count);
}

/* Ends all that the runtime holds. */
static void dismantle(struct zero_runtime *rt, int clean)
{
    zero__progress_stop(rt);
    zero__storage_stop(rt);
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        if (rt->lanes[q].stream)
            rt->lanes[q].ops->stream_sync(rt->lanes[q].dev, rt->lanes[q].stream, rt->timeout_ns);
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        if (rt->lanes[q].comm) {
            zero__inside_begin(rt->inside, 0);
            rt->comm_ops.comm_close(rt->lanes[q].comm);
            zero__inside_end(rt->inside, 0);
        }
    /*
     * An application's stream may still work on the slabs, wherever they come from. The host device
     * frees what it gave without a look at its streams; others wait for theirs in release().
     */
    if (rt->dev && rt->dev_ops.close == zero__host_device_ops.close)
        zero__host_device_stop(rt->dev);
    zero__inside_begin(rt->inside, 0);
    zero__memory_release(rt, 1);
    zero__inside_end(rt->inside, 0);
    if (rt->dev)
        zero__reach_close(rt);
    zero__track_free(rt);
    zero__lanes_free(rt);
    /* The job's thread and a device's may still call wake and abort: they end, then the context. */
    if (rt->host)
        zero__host_device_ops.close(rt->host);
    if (rt->dev)
        rt->dev_ops.close(rt->dev);
    zero__memory_release(rt, 0);
    if (rt->job) {
        if (atomic_exchange(&rt->inside->job_ends, 1)) /* too late: zero_destroy() has returned */
            return;
        zero__job_close(rt->job, clean);
    }
    zero__lanes_end(rt);
    zero__inside_begin(rt->inside, 0);
    if (rt->ctx)
        rt->comm_ops.close(rt->ctx);
    zero__inside_end(rt->inside, 0);
    zero__callback_free(rt);
    zero__deviate_free(rt);
    zero__loader_free(rt->loader);
    zero__program_free(rt->programs[0]);
    zero__program_free(rt->programs[1]);
    zero__states_free(&rt->states);
    zero__model_free(&rt->model);
    arrays_free(rt);
    zero__options_free(rt->options);
    free(rt);
}

struct ending {
    struct zero_runtime *rt;
    int clean;
};

static int dismantle_run(void *arg)
{
    struct ending *e = arg;

    dismantle(e->rt, e->clean);
    return 0;
}

/* Of a runtime whose memory stays: another job may take its place. */
static void job_quit(struct zero__inside *inside, struct zero__job *job, int clean)
{
    if (job && !atomic_exchange(&inside->job_ends, 1))
        zero__job_quit(job, clean);
}

/*
 * The transport's library may never return, see inside.c, nor may what sleeps in it. So another
 * thread ends the runtime; what it cannot end stays until the process ends.
 */
static void dismantle_in_time(struct zero_runtime *rt, int clean)
{
    const struct zero__log log = rt->log;
    const char *disk = rt->tiers[ZERO__T_DISK].store ? rt->tiers[ZERO__T_DISK].name : NULL;
    int64_t ns = (END_S + (disk ? END_DISK_S : 0)) * ZERO_SECOND;
    int64_t others_ns = clean && rt->ranks > 1 ? rt->timeout_ns : 0; /* rank 0 waits for all */
    struct zero__inside *inside = rt->inside;
    struct zero__job *job = rt->job;
    struct zero__inside_watch watch;
    struct ending e = {rt, clean};

    zero__inside_watch(&watch, inside, clean);
    int err = zero__call_unless(zero__deadline_after(zero__deadline_ns(others_ns), ns),
                                zero__inside_is_stuck, &watch, dismantle_run, &e, sizeof e);
    if (err && err != -ETIMEDOUT) { /* no thread to be had */
        dismantle(rt, clean);
        err = 0;
    }
    if (!err) {
        free(inside);
        return;
    }
    job_quit(inside, job, clean);
    zero__log(&log, ZERO_LOG_WARN, "engine",
              "the transport%s%s does not end%s; what it holds is left to the end of the process",
              disk ? " or the tier " : "", disk ? disk : "", clean ? "" : " after an error");
    zero__log_shut(&inside->gate);
}

void zero_destroy(struct zero_runtime *rt)
{
    if (!rt)
        return;
    int clean = !rt->err && !atomic_load(&rt->job_failed);

    if (!clean && rt->options)
        zero__crash_report(rt);
    if (clean && rt->progress_runs)
        clean = zero__lanes_drain(rt, 0, NULL) == 0;
    /* Nobody leaves while a peer may still read its memory, or ask the transport for it. */
    if (clean && rt->job && rt->ranks > 1) {
        char all[ZERO__JOB_MAX_RANKS], mine = 0;
        clean = zero__job_allgather(rt->job, &mine, 1, all) == 0;
    }
    if (clean)
        zero__past_note(rt);
    if (rt->left) { /* a thread that may come back still uses it */
        job_quit(rt->inside, rt->job, 0);
        zero__log_shut(&rt->inside->gate);
        return;
    }
    if (!rt->ctx || (clean && rt->ranks == 1 && !rt->tiers[ZERO__T_DISK].store)) {
        struct zero__inside *inside = rt->inside;
        dismantle(rt, clean);
        free(inside);
        return;
    }
    if (!clean)
        rt->comm_ops.abort(rt->ctx);
    dismantle_in_time(rt, clean);
}
