/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of a job for tests: a key that no other run on this machine has. */
#ifndef ZERO_TESTS_RANK_JOB_H
#define ZERO_TESTS_RANK_JOB_H

#include "ranks.h"

#include <zero/zero.h>

#include "base/options.h"
#include "base/status.h"
#include "job/job.h"
#include "machine/clock.h"

#define MS INT64_C(1000000)

__attribute__((unused)) static struct zero__job_params
job_params(int rank, int ranks, const char *name, int64_t join_ms, int64_t timeout_ms)
{
    struct zero_config config = ZERO_CONFIG_INIT;
    struct zero__options *options;
    struct zero__job_params p;

    config.rank = rank;
    config.ranks = ranks;
    config.job = name;
    if (zero__options_load(NULL, 0, &options) || zero__job_params_from(&config, options, &p))
        bail(zero_last_error());
    zero__options_free(options);
    p.join_ns = join_ms * MS;
    p.timeout_ns = timeout_ms * MS;
    p.heartbeat_ns = 0;
    return p;
}

/* A fresh name for every call of the parent. */
__attribute__((unused)) static const char *job_name(void)
{
    static char name[64];
    static unsigned n;
    snprintf(name, sizeof name, "test-%d-%u", getpid(), n++);
    return name;
}

/* Opens the job that ranks_run() was given the name of. */
__attribute__((unused)) static struct zero__job *job_of(struct rank *r)
{
    struct zero__job_params p = job_params(r->rank, r->ranks, r->arg, 20000, 20000);
    struct zero__job *job = NULL;
    int e = zero__job_open(&p, &job);
    want(r, !e, "open: %d %s", e, zero_last_error());
    return e ? NULL : job;
}

#endif
