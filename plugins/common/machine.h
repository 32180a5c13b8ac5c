/* SPDX-License-Identifier: Apache-2.0 */
/* Where a rank runs, as its peers want to know it. */
#ifndef ZERO_PLUGINS_COMMON_MACHINE_H
#define ZERO_PLUGINS_COMMON_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `network` is the network namespace: processes of one kernel in two of them may not meet. */
struct zero__machine {
    uint64_t network;
    char boot_id[40]; /* of the running kernel; empty: not known */
};

void zero__machine_here(struct zero__machine *m);
bool zero__machine_same(const struct zero__machine *a, const struct zero__machine *b);
bool zero__machine_same_kernel(const struct zero__machine *a, const struct zero__machine *b);

/*
 * The speed of a network device as the system has it, " 10 Gb/s", of an interface (eth0) or a port
 * of an adapter (mlx5_0:1); empty where nobody knows, as for the loopback.
 */
void zero__machine_link(const char *device, char *text, size_t room);

#endif
