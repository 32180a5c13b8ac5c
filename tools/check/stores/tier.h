/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an offload plugin must do, as cases that run one after another in one process, each with
 * stores of its own. `zero check offload` runs them; the project's tests as well.
 */
#ifndef ZERO_TOOLS_CHECK_STORES_TIER_H
#define ZERO_TOOLS_CHECK_STORES_TIER_H

#include <zero/offload.h>

#include "tools/check/cases/rank.h"

#define CHECK_BLOCKS 16u /* of offset_align that a store has at least */
#define CHECK_PAGE 4096u /* what the library asks of a store begins and ends with multiples of it */

/* The plugin, and what is wrong with it. */
struct check_tier {
    const struct zero_offload_ops *ops;
    const struct zero_host *host;
    struct zero_store_info caps; /* of its probe */
    struct check_rank verdict;   /* complaints and the seed; of rank 0 */
    const char *skipped;         /* why a case has shown nothing; NULL: it has */
    uint64_t bytes;              /* of a store, whole blocks as the probe has them */
    bool huge;                   /* all that can be had may be asked for, however much it is */
};

struct check_store_case {
    const char *name;
    uint32_t needs; /* enum zero_store_flags */
    void (*run)(struct check_tier *t);
};

/* Ends with a case without a name. */
extern const struct check_store_case check_offload_cases[];

/* One store, and memory of as many bytes registered with it. */
struct check_store {
    struct check_tier *t;
    const struct zero_offload_ops *ops;
    struct zero_store *store;
    struct zero_store_info info;
    struct zero_mr *mr;
    char *memory;
    uint64_t bytes; /* of the memory; the store has t->bytes */
};

/* A size rounded up to what requests must be multiples of. */
uint64_t check_store_round(const struct check_store *s, uint64_t bytes);

bool check_store_open(struct check_tier *t, struct check_store *s, uint64_t memory_bytes);
void check_store_close(struct check_store *s);

/* Bytes that one request may have. */
uint64_t check_store_most(const struct check_store *s);

/* A request between the store and the memory. */
struct zero_io check_store_io(const struct check_store *s, uint32_t op, uint64_t store_off,
                              uint64_t memory_off, uint64_t bytes);
/* Submits until some are accepted, or an error; 0: none for CHECK_WAIT_NS. Nothing is under way. */
int check_store_submit(struct check_store *s, const struct zero_io *ios, uint32_t n);
/* Waits for a completion: 1, 0: none for CHECK_WAIT_NS, or an error. poll() may give 0 before. */
int check_store_poll_one(struct check_store *s, struct zero_cqe *cqe);
/*
 * Submits all, with tags of its own and cut to what one request may have, and waits until all have
 * ended, each once and whole: the first error, or 0; CHECK_NOTHING: one of the check's own. With an
 * error verdict.ended says what it is.
 */
int64_t check_store_run(struct check_store *s, const struct zero_io *ios, uint32_t n);
/* The same with one. */
int64_t check_store_one(struct check_store *s, uint32_t op, uint64_t store_off, uint64_t memory_off,
                        uint64_t bytes);

/* Values that depend on the key and on their place. */
void check_store_fill(char *at, uint64_t bytes, uint64_t key);
bool check_store_is(const char *at, uint64_t bytes, uint64_t key);
bool check_store_zero(const char *at, uint64_t bytes);

/* extents.c */
void check_store_extents(struct check_tier *t);
void check_store_beside(struct check_tier *t);
/* transfers.c */
void check_store_fresh(struct check_tier *t);
void check_store_large(struct check_tier *t);
void check_store_many(struct check_tier *t);
void check_store_counts(struct check_tier *t);
void check_store_two(struct check_tier *t);
void check_store_sync(struct check_tier *t);
void check_store_map(struct check_tier *t);
/* refuse.c */
void check_store_info_sane(struct check_tier *t);
void check_store_refusals(struct check_tier *t);
void check_store_no_room(struct check_tier *t);
void check_store_capacity(struct check_tier *t);
void check_store_memory_kinds(struct check_tier *t);
/* fail.c */
void check_store_failures(struct check_tier *t);
/* life.c */
void check_store_resize(struct check_tier *t);
void check_store_regions(struct check_tier *t);
void check_store_wakes(struct check_tier *t);
void check_store_close_busy(struct check_tier *t);
void check_store_leaves_nothing(struct check_tier *t);

#endif
