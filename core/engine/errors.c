/* SPDX-License-Identifier: Apache-2.0 */
/* How a runtime fails: once, for the first reason, on all ranks with the same record. */
#include <errno.h>
#include <stdio.h>

#include "base/status.h"
#include "engine/runtime.h"

int zero__runtime_fail_at(struct zero_runtime *rt, int culprit, int err, uint32_t place,
                          const char *op, const char *cause)
{
    /* The job first: who wakes up below reports what the job decides. */
    if (rt->job)
        zero__job_fail_at(rt->job, culprit, err, place, op, cause);
    pthread_mutex_lock(&rt->lock);
    if (!rt->err) {
        snprintf(rt->err_text, sizeof rt->err_text, "%s%s%s", op, *op ? ": " : "", cause);
        rt->err = err;
    }
    pthread_cond_broadcast(&rt->moved);
    pthread_mutex_unlock(&rt->lock);
    /*
     * Whose deadline has passed does not end what others wait for: their deadlines tell rank 0 who
     * is to blame, and what it decides aborts on all ranks, job_failed() of create.c.
     */
    if (rt->ctx && !(rt->job && err == -ETIMEDOUT))
        rt->comm_ops.abort(rt->ctx);
    return err;
}

int zero__runtime_fail(struct zero_runtime *rt, int culprit, int err, const char *op,
                       const char *cause)
{
    return zero__runtime_fail_at(rt, culprit, err, 0, op, cause);
}

int zero__runtime_fail_alone(struct zero_runtime *rt, int err, const char *op)
{
    if (err && !zero__runtime_over(rt))
        zero__runtime_fail(rt, rt->rank, err, op, zero__error_text());
    return err;
}

int zero__runtime_error(struct zero_runtime *rt)
{
    int err = 0;

    if (zero__runtime_over(rt))
        err = zero__job_report(rt->job); /* the job's decision goes before this rank's view */
    if (!err && rt->err)
        err = zero__fail(rt->err, "%s", rt->err_text);
    if (err) {
        rt->phase = PHASE_FAILED;
        zero__crash_report(rt);
    }
    return err;
}

int zero__runtime_cause(struct zero_runtime *rt, int err)
{
    int cause = 0;

    if (rt->job && zero__job_follows(err))
        cause = zero__job_report_soon(rt->job);
    /* A rank that has waited too long for the others hears whose part is missing. */
    if (rt->job && rt->ranks > 1 && err == -ETIMEDOUT) {
        zero__job_fail(rt->job, -1, err, "", zero__error_text());
        cause = zero__job_report(rt->job);
    }
    return cause ? cause : err;
}

int zero__runtime_phase(struct zero_runtime *rt, uint32_t phases, const char *what)
{
    int err = zero__runtime_error(rt);

    if (err || phases & IN(rt->phase))
        return err;
    if (rt->phase == PHASE_SETUP)
        return zero__fail(-EINVAL, "%s: the model is not committed: call zero_commit() first",
                          what);
    if (phases == IN(PHASE_SETUP))
        return zero__fail(-EINVAL, "%s: the model is committed already: make this call before "
                          "zero_commit()", what);
    if (rt->phase == PHASE_IDLE)
        return zero__fail(-EINVAL, "%s: no step is open: call zero_begin() first", what);
    if (rt->micro < rt->recipe.accum)
        return zero__fail(-EINVAL, "%s: micro-batch %u of %u (ZERO_ACCUM) is open: finish the step "
                          "and call zero_update() first", what, rt->micro, rt->recipe.accum);
    return zero__fail(-EINVAL, "%s: a training micro-step is open: end the step with zero_update() "
                      "first", what);
}
