/* SPDX-License-Identifier: Apache-2.0 */
/* What is counted of one kind of thing. */
#ifndef ZERO_PLUGINS_TRACE_TALLY_H
#define ZERO_PLUGINS_TRACE_TALLY_H

#include <stdint.h>

struct trace_tally {
    uint64_t n, n_bad, bytes;
    int64_t total_ns, most_ns; /* also of what ran beside each other */
};

/* One more, whose bytes count if it did not fail. */
static inline void zero__trace_count(struct trace_tally *t, int64_t res, uint64_t bytes, int64_t ns)
{
    t->n++;
    t->n_bad += res < 0;
    t->bytes += res < 0 ? 0 : bytes;
    t->total_ns += ns;
    t->most_ns = ns > t->most_ns ? ns : t->most_ns;
}

#endif
