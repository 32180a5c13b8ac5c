/* SPDX-License-Identifier: Apache-2.0 */
/* On which memory nodes processors are, by the kernel's lists. */
#ifndef ZERO_MEMORY_NODES_H
#define ZERO_MEMORY_NODES_H

#include <sched.h>
#include <stdint.h>

/*
 * The nodes that have memory and any of these processors, a bit each; those from 31 on share one. 0
 * when the system does not tell. `root`: where the lists are, NULL: /sys/devices/system/node.
 */
uint32_t zero__memory_nodes(const cpu_set_t *cores, const char *root);

/* The numbers of a list such as "0-1,4"; how many, 0: it is none. */
uint32_t zero__list_read(const char *list, cpu_set_t *set);

#endif
