/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a descriptor until a deadline of the clock (clock.h). */
#ifndef ZERO_MACHINE_WAIT_H
#define ZERO_MACHINE_WAIT_H

#include <stdint.h>

/* Milliseconds for poll() until the deadline, rounded up; 0 when it has passed. */
int zero__poll_ms(int64_t deadline_ns);
/* Waits until there is one of the events of poll(): 0, -ETIMEDOUT, or another errno of poll(). */
int zero__fd_wait(int fd, short events, int64_t deadline_ns);

#endif
