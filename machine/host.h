/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which host this is: a kernel since its last boot and a network namespace. Names do not tell:
 * several machines may be called localhost, and a container like its host.
 */
#ifndef ZERO_MACHINE_HOST_H
#define ZERO_MACHINE_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of a fixed size and without pointers: ranks tell it each other. */
struct zero__host {
    uint64_t network; /* processes of one kernel in two of them may not meet; 0: not known */
    char boot[40];    /* behind its end zeros; empty: not known */
};

void zero__host_here(struct zero__host *h);
/* Both are known, and the same. */
bool zero__host_same(const struct zero__host *a, const struct zero__host *b);
bool zero__host_same_kernel(const struct zero__host *a, const struct zero__host *b);

/*
 * What tells a machine from others, also tomorrow: its name and architecture, its number in
 * /etc/machine-id, and which processors it has, as far as it says so. `root`: in front of /etc and
 * /proc, NULL: nothing.
 */
void zero__host_tell(const char *root, char *text, size_t room);

#endif
