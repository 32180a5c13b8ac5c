/* SPDX-License-Identifier: Apache-2.0 */
/* In which pages memory lies: figures from small and from huge ones differ by a tenth and more. */
#ifndef ZERO_TOOLS_BENCH_MEASURE_PAGES_H
#define ZERO_TOOLS_BENCH_MEASURE_PAGES_H

#include <stdint.h>

/* Of the mappings around some memory, in KiB; 0: not known. */
struct bench_pages {
    uint64_t all, present; /* with and without what was never touched */
    uint64_t huge;         /* in huge pages */
};

void bench_pages_read(const void *base, uint64_t bytes, struct bench_pages *pages);
/* Percent of the mapping's bytes around this memory that huge pages have; -1: not known. */
int bench_pages_huge(const void *base, uint64_t bytes);
/* The same in words: "huge", "small", "35 % huge", "unknown". */
const char *bench_pages_text(int percent, char text[32]);

#endif
