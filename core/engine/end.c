/* SPDX-License-Identifier: Apache-2.0 */
/* A runtime's end, within a limit in time. */
#include <errno.h>
#include <stdlib.h>

#include "base/call_within.h"
#include "device/host.h"
#include "engine/runtime.h"
#include "machine/clock.h"
#include "run/inside.h"

#define END_S 10      /* for a runtime to end, if no thread spins; more than plugins wait */
#define END_DISK_S 30 /* more for a disk, which may be slow */

/* Ends everything that the runtime holds. */
static void dismantle(struct zero_runtime *rt, int clean)
{
    struct zero__site *site = &rt->site;
    struct zero__inside *inside = zero__runner_inside(rt->run);

    zero__progress_stop(rt->run);
    zero__storage_stop(rt->run);
    zero__lanes_sync(rt->run);
    zero__lanes_disconnect(rt->run);
    /*
     * An application's stream may still work on the slabs, wherever they come from. The host device
     * frees what it gave without a look at its streams; others wait for theirs in release().
     */
    if (site->dev && site->dev_ops.close == zero__host_device_ops.close)
        zero__host_device_stop(site->dev);
    zero__inside_begin(inside, 0);
    zero__memory_release(rt->placer, 1);
    zero__inside_end(inside, 0);
    if (site->dev)
        zero__reach_close(rt->run);
    zero__lanes_close(rt->run);
    /* The job's thread and a device's may still call wake and abort: they end, then the context. */
    if (site->host)
        zero__host_device_ops.close(site->host);
    if (site->dev)
        site->dev_ops.close(site->dev);
    zero__memory_release(rt->placer, 0);
    if (site->job) {
        if (atomic_exchange(&inside->job_ends, 1)) /* too late: zero_destroy() has returned */
            return;
        zero__job_close(site->job, clean);
    }
    zero__runner_end(rt->run);
    zero__inside_begin(inside, 0);
    if (site->ctx)
        site->comm_ops.close(site->ctx);
    zero__inside_end(inside, 0);
    zero__step_free(rt->step);
    zero__loader_free(site->loader);
    zero__program_free(site->programs[0]);
    zero__program_free(site->programs[1]);
    zero__states_free(&site->states);
    zero__model_free(&site->model);
    zero__runner_free(rt->run);
    zero__placer_free(rt->placer);
    zero__options_free(site->options);
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

/* Ends the job of a runtime whose memory stays, so that another job may take its place. */
static void job_quit(struct zero__inside *inside, struct zero__job *job, int clean)
{
    if (job && !atomic_exchange(&inside->job_ends, 1))
        zero__job_quit(job, clean);
}

/*
 * The transport's library may never return, see run/inside.c. So another thread ends the runtime,
 * and what it cannot end in time is left to the end of the process.
 */
static void dismantle_in_time(struct zero_runtime *rt, int clean)
{
    const struct zero__log log = rt->site.log;
    const char *disk =
        rt->site.tiers[ZERO__T_DISK].store ? rt->site.tiers[ZERO__T_DISK].name : NULL;
    int64_t ns = (END_S + (disk ? END_DISK_S : 0)) * ZERO_SECOND;
    int64_t others_ns =
        clean && rt->site.ranks > 1 ? rt->site.timeout_ns : 0; /* rank 0 waits for all */
    struct zero__inside *inside = zero__runner_inside(rt->run);
    struct zero__job *job = rt->site.job;
    struct zero__inside_watch watch;
    struct ending e = {rt, clean};

    zero__inside_watch(&watch, inside, clean);
    int err = zero__call_unless(zero__deadline_after(zero__deadline_ns(others_ns), ns),
                                zero__inside_is_stuck, &watch, dismantle_run, &e, sizeof e);
    if (err && err != -ETIMEDOUT) { /* no thread could be created */
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
    int clean = !zero__run_is_over(rt->run);
    struct zero__inside *inside = zero__runner_inside(rt->run);

    if (!clean && rt->site.options)
        zero__crash_report(rt->run);
    if (clean && zero__progress_is_running(rt->run))
        clean = zero__lanes_drain(rt->run, 0, NULL) == 0;
    /* Nobody leaves while a peer may still read its memory, or ask the transport for it. */
    if (clean && rt->site.job && rt->site.ranks > 1) {
        char all[ZERO__JOB_MAX_RANKS], mine = 0;
        clean = zero__job_allgather(rt->site.job, &mine, 1, all) == 0;
    }
    if (clean)
        zero__past_note(rt->placer);
    if (zero__runner_is_left(rt->run)) { /* a thread that may come back still uses it */
        job_quit(inside, rt->site.job, 0);
        zero__log_shut(&inside->gate);
        return;
    }
    if (!rt->site.ctx || (clean && rt->site.ranks == 1 && !rt->site.tiers[ZERO__T_DISK].store)) {
        dismantle(rt, clean);
        free(inside);
        return;
    }
    if (!clean)
        rt->site.comm_ops.abort(rt->site.ctx);
    dismantle_in_time(rt, clean);
}
