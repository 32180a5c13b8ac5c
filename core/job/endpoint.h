/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How ranks reach rank 0: the only place that knows the kind of socket. Now: an abstract Unix
 * socket, for ranks on one host. Its name is derived from the user and the job's key, it vanishes
 * with its owner, and both sides check the other's user.
 */
#ifndef ZERO_JOB_ENDPOINT_H
#define ZERO_JOB_ENDPOINT_H

#include "job/job.h"

/* Rank 0: a non-blocking listening socket; -EADDRINUSE (no sentence) when another one holds it. */
int zero__endpoint_listen(const struct zero__job_params *params, int *fd);

/*
 * One attempt to reach rank 0; never blocks. -EAGAIN (no sentence): nobody there yet. -EACCES: the
 * name is held by another user.
 */
int zero__endpoint_connect(const struct zero__job_params *params, int *fd, int64_t *pid);

/* One waiting connection of the same user; others are hung up on. -EAGAIN: none (no sentence). */
int zero__endpoint_accept(int listen_fd, int *fd, int64_t *pid);

#endif
