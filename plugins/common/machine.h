/* SPDX-License-Identifier: Apache-2.0 */
/* Where a rank runs, as its peers want to know it. */
#ifndef ZERO_PLUGINS_COMMON_MACHINE_H
#define ZERO_PLUGINS_COMMON_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

/* `network` is the network namespace: processes of one kernel in two of them may not meet. */
struct zero__machine {
    uint64_t network;
    char boot_id[40]; /* of the running kernel; empty: not known */
};

void zero__machine_here(struct zero__machine *m);
bool zero__machine_same(const struct zero__machine *a, const struct zero__machine *b);
bool zero__machine_same_kernel(const struct zero__machine *a, const struct zero__machine *b);

#endif
