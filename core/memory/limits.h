/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine and this process's control group still have. */
#ifndef ZERO_MEMORY_LIMITS_H
#define ZERO_MEMORY_LIMITS_H

#include <stdint.h>

/* Bytes that stay free for what is not ours: stacks, libraries, page tables. */
#define ZERO__MEMORY_MARGIN (UINT64_C(64) << 20)

/*
 * Bytes that can be had without swapping, and in source[64] what says so ("the machine",
 * "control group /sys/fs/cgroup/…"). UINT64_MAX when the system does not tell.
 */
uint64_t zero__memory_left(char *source, uint32_t source_bytes);

/* Memory nodes of the machine; 1 when the system does not tell. */
uint32_t zero__memory_nodes(void);
/* How many numbers a list such as "0-1,4" has; 0: it is none. */
uint32_t zero__node_list_count(const char *list);

#endif
