/* SPDX-License-Identifier: Apache-2.0 */
/* Wakes the control thread from any thread. */
#include <unistd.h>

#include "job/internal.h"

void zero__job_wake(struct zero__job *job)
{
    uint64_t one = 1;
    if (job->wake_fd >= 0 && write(job->wake_fd, &one, sizeof one) < 0)
        return; /* the counter is full: the control thread wakes all the same */
}
