/* SPDX-License-Identifier: Apache-2.0 */
/* The limit of locked memory (RLIMIT_MEMLOCK), and what to do about it. */
#ifndef ZERO_PLUGINS_COMMON_LOCKED_H
#define ZERO_PLUGINS_COMMON_LOCKED_H

#include <stdbool.h>
#include <stdint.h>

#define ZERO__LOCKED_REMEDY 192

/* Bytes; UINT64_MAX where there is none, or none for this process. */
uint64_t zero__locked_limit(void);

/* Of this process, as the kernel counts: what mlock() and its like have locked. */
uint64_t zero__locked_now(void);

/* Where a limit of so many bytes is set. */
const char *zero__locked_remedy(uint64_t bytes, char text[ZERO__LOCKED_REMEDY]);

/* May the system swap anything at all? */
bool zero__swap_is_there(void);

#endif
