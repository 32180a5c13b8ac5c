/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the ranks of a communicator share, threads or processes: what would be its wires. */
#ifndef ZERO_TESTS_FAKE_SEGMENT_H
#define ZERO_TESTS_FAKE_SEGMENT_H

#include "fake.h"

struct fake_segment {
    atomic_int joined, gone;           /* gone: a rank has ended before all had joined */
    _Atomic uint64_t turn[FAKE_RANKS]; /* meetings that each has come to */
    struct {
        int color, key;
    } wish[FAKE_RANKS];
    uint64_t host[FAKE_RANKS]; /* of NCCL_HOSTID */
    char slot[FAKE_RANKS][FAKE_CHUNK];
};

/* NULL: there is no memory. The last that leaves, or that joins, takes its name away. */
struct fake_segment *fake_segment_open(const char *name);
void fake_segment_close(struct fake_segment *s);
void fake_segment_unlink(const char *name);

#endif
