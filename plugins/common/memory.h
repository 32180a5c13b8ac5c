/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is really there when a function returns: no later SIGBUS, and the machine and its
 * control group are asked first, so that the OOM killer is not the one who answers.
 */
#ifndef ZERO_PLUGINS_COMMON_MEMORY_H
#define ZERO_PLUGINS_COMMON_MEMORY_H

#include <stdint.h>

/*
 * Maps bytes of a file from its start, shared, at an address where huge pages of the file can be
 * huge in the page table, too. MAP_FAILED with errno.
 */
void *zero__memory_map(uint64_t bytes, int prot, int fd);

/*
 * Puts pages behind base … base + bytes, a fresh mapping; huge ones where the system allows. Fills
 * piece by piece and looks at what is left before each, because other ranks do the same. 0,
 * -ENOMEM, or another errno of the system; what was filled stays with the mapping. fd is the file
 * that is mapped there from off on, or -1.
 */
int zero__memory_fill(void *base, uint64_t bytes, int fd, uint64_t off);

#endif
