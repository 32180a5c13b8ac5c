/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank of a benchmark or a check: the job, and a comm plugin used through its ABI as the engine
 * uses it, but from one thread. Functions return 0 or a negative errno with a sentence
 * (base/status.h).
 */
#ifndef ZERO_TOOLS_COMMON_COMM_H
#define ZERO_TOOLS_COMMON_COMM_H

#include <stdint.h>

#include "base/log.h"
#include "base/options.h"
#include "job/job.h"
#include "plugin/loader.h"

#define TOOL_COMM_NAME 4096 /* bytes of a plugin's name or path */

struct tool_comm {
    const char *who; /* speaks on standard error: "zero bench" */
    struct zero__options *options;
    struct zero__log log;
    struct zero__loader *loader;
    struct zero__job *job;
    struct zero_comm_ops ops;
    struct zero_comm_caps caps;
    struct zero_comm_ctx *ctx;
    struct zero_comm *comm;
    int rank, ranks;
    int64_t timeout_ns; /* ZERO_TIMEOUT, of every wait */
    uint64_t sequence;
    struct tool_region *regions; /* made and not freed */
};

/* Memory that collectives work on, the same size on all ranks. It stays where it is. */
struct tool_region {
    struct tool_region *next; /* of the rank's */
    struct zero_mr *mr;
    char *base;
    uint64_t bytes;
    int registered; /* the memory is ours, the plugin has none to give */
};

/*
 * For the process that starts the ranks: may `ranks` ranks use the plugin? *name becomes the choice
 * where it is NULL or empty; NULL is what the options name, which is kept in `room`,
 * of TOOL_COMM_NAME bytes.
 */
int tool_comm_probe(const char **name, int ranks, char *room, struct zero_comm_caps *caps);

/*
 * Collective: the job and the plugin, without a context. *b must be ended with tool_comm_close()
 * in any case.
 */
int tool_comm_join(struct tool_comm *b, const char *name);
/* Collective: all of it. *b must be ended with tool_comm_close() in any case. */
int tool_comm_open(struct tool_comm *b, const char *name);
/*
 * Ends the rank; `err` is what went wrong before, 0: nothing. A rank that was not merely carried
 * along by another's failure says its sentence on standard error. Frees the regions, which no peer
 * reads any more. Returns the exit status.
 */
int tool_comm_close(struct tool_comm *b, int err);

/* Collective: zeroed memory, made visible to all ranks. */
int tool_region_create(struct tool_comm *b, uint64_t bytes, struct tool_region *out);
void tool_region_free(struct tool_comm *b, struct tool_region *r);

/* One collective from post to completion; fills the fingerprint. */
int tool_comm_run(struct tool_comm *b, struct zero_coll *c);
int tool_comm_barrier(struct tool_comm *b);
/* Values of all ranks, over the control channel; at most 64 KiB per rank. */
int tool_comm_gather(struct tool_comm *b, const void *src, uint32_t bytes, void *dst);

#endif
