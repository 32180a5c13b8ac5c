/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Not a test: a rank for scripts. Finds its job in the environment, exchanges its rank, prints what
 * it got and leaves; "where": prints its place on its host, too; "twice": does it all again;
 * "wait": exchanges until the job fails and prints the error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zero/zero.h>

#include "base/log.h"
#include "base/options.h"
#include "job/job.h"
#include "machine/clock.h"

static int run(int argc, char **argv)
{
    struct zero__options *options = NULL;
    struct zero__job_params p;
    struct zero__log log = {.rank = -1, .level = ZERO_LOG_WARN};
    struct zero__job *job;
    int32_t all[ZERO__JOB_MAX_RANKS];

    int e = zero__options_load(NULL, 0, &options);
    if (!e)
        e = zero__job_params_from(NULL, options, &p);
    zero__options_free(options);
    if (!e) {
        const char *level = getenv("ZERO_LOG");
        if (level && !strcmp(level, "info"))
            log.level = ZERO_LOG_INFO;
        p.log = &log;
        e = zero__job_open(&p, &job);
    }
    if (e) {
        fprintf(stderr, "probe: %s\n", zero_last_error());
        return 3;
    }
    if (argc > 1 && !strcmp(argv[1], "where"))
        printf("rank %d: %d of %d here, %s\n", p.rank, zero__job_local_rank(job),
               zero__job_local_ranks(job), zero__job_one_host(job) ? "one host" : "several hosts");
    e = zero__job_allgather(job, &p.rank, sizeof p.rank, all);
    if (argc > 1 && !strcmp(argv[1], "wait")) {
        printf("ready\n");
        while (!e)
            e = zero__job_allgather(job, &p.rank, sizeof p.rank, all);
    }
    if (e) {
        fprintf(stderr, "probe: %s\n", zero_last_error());
        zero__job_close(job, 0);
        return 4;
    }
    printf("ranks");
    for (int32_t r = 0; r < p.ranks; r++)
        printf(" %d", all[r]);
    printf("\n");
    return zero__job_close(job, 1) ? 5 : 0;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    int e = run(argc, argv);
    return e || argc < 2 || strcmp(argv[1], "twice") ? e : run(argc, argv);
}
