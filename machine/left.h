/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that can still be had here, and how large files may be. */
#ifndef ZERO_MACHINE_LEFT_H
#define ZERO_MACHINE_LEFT_H

#include <stdint.h>

/*
 * Bytes without swapping: the least that the machine and every control group leave, the page cache
 * of a group being free. In source[bytes] what says so ("the machine", "control group
 * /sys/fs/cgroup/…"); NULL: nobody asks. UINT64_MAX when the system does not tell.
 */
uint64_t zero__memory_left(char *source, uint32_t bytes);

/*
 * The largest file that this process may make (ulimit -f), also in memory; UINT64_MAX: any. A
 * signal ends a process that makes a larger one.
 */
uint64_t zero__file_most(void);

#endif
