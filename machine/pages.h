/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses and the pages behind them: where huge ones can lie, and that all are there. */
#ifndef ZERO_MACHINE_PAGES_H
#define ZERO_MACHINE_PAGES_H

#include <stdint.h>

#define ZERO__HUGE_BYTES (UINT64_C(2) << 20) /* a huge page, of most machines */
#define ZERO__HUGE_ENABLED "/sys/kernel/mm/transparent_hugepage/enabled"
/* Since Linux 6.8, of this size: it goes before the other one, unless it is inherit. */
#define ZERO__HUGE_ENABLED_2M "/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled"

/* The file in which this system says that it gives programs no huge pages; NULL: none says so. */
const char *zero__pages_refused_by(void);

/*
 * Addresses for `bytes`, whole pages, that nothing lies at yet and that cannot be used so far, at a
 * multiple of a huge page: only such become huge pages. NULL with errno.
 */
void *zero__addresses_take(uint64_t bytes);

/*
 * Puts pages behind a mapping from the start of one on; what they hold stays. 0, -ENOMEM, -EINVAL
 * of a kernel before 5.14, which cannot, or another errno of the system.
 */
int zero__pages_populate(void *base, uint64_t bytes);

/* The same on any kernel for a fresh mapping, whose content is zeros: of fd at off, or fd is -1. */
int zero__pages_fill(void *base, uint64_t bytes, int fd, uint64_t off);

#endif
