/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that mpirun, srun or another launcher with PMIx has started. Its library is loaded when it
 * is needed, so that libzero runs without it, and left as soon as it has said who this rank is.
 */
#ifndef ZERO_JOB_PMIX_H
#define ZERO_JOB_PMIX_H

#include "job/job.h"

/*
 * Fills in rank, ranks, local ones and the key. Ranks on several hosts also agree, by what rank 0
 * publishes, on its address and port, unless MASTER_ADDR and a port are set, and on a secret,
 * unless they have one. Collective; the whole must not take longer than timeout_ns.
 */
int zero__pmix_find(struct zero__job_params *p, int64_t timeout_ns);

#endif
