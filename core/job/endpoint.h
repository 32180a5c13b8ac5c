/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How ranks reach rank 0: the only place that knows the kind of socket.
 *
 * Unix: an abstract socket, for ranks on the host of rank 0. Its name is derived from the user and
 * the job's key, it vanishes with its owner, and both sides check the other's user.
 * TCP: one address and port of rank 0's host, for ranks on several. Who connects is not known; see
 * auth.h. A link that is cut in silence ends after some seconds.
 */
#ifndef ZERO_JOB_ENDPOINT_H
#define ZERO_JOB_ENDPOINT_H

#include "job/address.h"
#include "job/job.h"

enum zero__endpoint { ZERO__UNIX = 0, ZERO__TCP, ZERO__N_ENDPOINTS };

/* Rank 0: a non-blocking listening socket; -EADDRINUSE (no sentence) when another one holds it. */
int zero__unix_listen(const struct zero__job_params *params, int *fd);

/*
 * One attempt to reach rank 0; never blocks. -EAGAIN (no sentence): nobody there yet. -EACCES: the
 * name is held by another user.
 */
int zero__unix_connect(const struct zero__job_params *params, int *fd, int64_t *pid);

/* One waiting connection of the same user; others are hung up on. -EAGAIN: none (no sentence). */
int zero__unix_accept(int listen_fd, int *fd, int64_t *pid);

/* The same for an address of this machine; one that is in use is tried until the deadline. */
int zero__tcp_listen(const struct zero__address *address, int64_t deadline_ns, int *fd);

/* One attempt, until the deadline. No sentence; all but a lack of descriptors may pass by itself.
 */
int zero__tcp_connect(const struct zero__address *address, int64_t deadline_ns, int *fd);

/*
 * The same without waiting, from an address of this machine, to see whether anything answers: 0
 * when the attempt is under way. Then 0: connected, -EINPROGRESS: no answer yet, else why not.
 */
int zero__tcp_begin(const struct zero__address *own, const struct zero__address *address, int *fd);
int zero__tcp_begun(int fd);

/* One waiting connection of anybody. -EAGAIN: none (no sentence). */
int zero__tcp_accept(int listen_fd, int *fd);

/*
 * Holds a port of the address, 0: any, and puts it there; nobody listens at it, so the kernel
 * refuses whoever connects. No sentence.
 */
int zero__tcp_hold(struct zero__address *address, int *fd);

/* A port of the address that nobody holds at this moment. */
int zero__tcp_free_port(const struct zero__address *address, uint16_t *port);

#endif
