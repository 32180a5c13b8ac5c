/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The comm plugin `trace` stands on another one and writes down what is asked of it: each call and
 * each collective at log level trace, sums of them at level info when the context closes. The
 * plugin below is ZERO_TRACE_COMM.
 *
 * The time of a collective runs from its post to its completion, and so includes waiting for the
 * other ranks; its bytes are those of the longer of source and destination.
 */
#ifndef ZERO_PLUGINS_TRACE_H
#define ZERO_PLUGINS_TRACE_H

#include "../common/wrap.h"
#include "tally.h"

#define TRACE_NAME "trace"

struct trace {
    struct trace_tally calls[ZERO__N_CALLS];
    struct trace_tally colls[ZERO_BARRIER + 1];
    struct trace_tally progress;
    uint64_t full; /* posts for which there was no room */
};

/* report.c: the table. */
void zero__trace_report(struct zero_comm_ctx *ctx);

#endif
