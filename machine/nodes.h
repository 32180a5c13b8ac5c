/* SPDX-License-Identifier: Apache-2.0 */
/* On which memory nodes processors are, by the kernel's lists. */
#ifndef ZERO_MACHINE_NODES_H
#define ZERO_MACHINE_NODES_H

#include "machine/cores.h"

/*
 * The nodes that have memory and any of these processors, a bit each; those from 31 on share one. 0
 * when the system does not tell. `root`: where the lists are, NULL: /sys/devices/system/node.
 */
uint32_t zero__memory_nodes(const struct zero__cores *cores, const char *root);

#endif
