/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Not a test: a rank for run.sh. Finds its job in the environment, exchanges its rank, prints what
 * it got and leaves; "wait": exchanges until the job fails and prints the error.
 */
#include <stdio.h>
#include <string.h>

#include <zero/zero.h>

#include "job/job.h"

int main(int argc, char **argv)
{
    struct zero__job_params p;
    struct zero__job *job;
    int32_t all[ZERO__JOB_MAX_RANKS];

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (zero__job_params_from(NULL, &p) || zero__job_open(&p, &job)) {
        fprintf(stderr, "probe: %s\n", zero_last_error());
        return 3;
    }
    int e = zero__job_allgather(job, &p.rank, sizeof p.rank, all);
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
