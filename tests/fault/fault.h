/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The comm plugin `fault` stands on another one (ZERO_FAULT_COMM) and does what ZERO_FAULT says, so
 * that tests see how a job bears it: ranks that go apart, that die, that stand still, that are
 * late, that get errors. Without ZERO_FAULT it changes nothing.
 *
 *     ZERO_FAULT = FAULT[,FAULT]…          FAULT = ACTION[:KEY=VALUE]…
 *
 *     delay=MS     the call takes so much longer
 *     error=ERRNO  it fails, by name (EIO) or number
 *     kill, stop   the process gets SIGKILL, SIGSTOP
 *     skip         the collective is dropped: not posted below; here it looks as if it were
 *     size, dtype  it is posted with one element less, with another type
 *     order        it is reordered: posted after the next one of its communicator
 *
 *     at=PLACE     open, split, alloc, exchange, post (the default), progress, done (a completion),
 *                  close; skip, size, dtype and order are for post
 *     rank=R       of the context; any (the default): one that ZERO_FAULT_SEED chooses; all
 *     n=N, n=A-B   the N-th time that the rank comes there (1), or one chosen from A to B
 *     times=K      and as often again (1)
 *     kind=NAME    only collectives of that kind (post, done)
 *     comm=C       only on the C-th communicator of the rank (post, done)
 *
 * What cannot befall a collective does not count: a barrier has no size. Faults of one place happen
 * in the order in which they are written. Everything that happens is a warning in the log.
 */
#ifndef ZERO_TESTS_FAULT_H
#define ZERO_TESTS_FAULT_H

#include <stdbool.h>

#include "plugins/common/wrap.h"
#include "words.h"

#ifndef FAULT_NAME /* a test compiles it under another name */
#define FAULT_NAME "fault"
#endif

enum fault_action {
    FAULT_DELAY,
    FAULT_ERROR,
    FAULT_KILL,
    FAULT_STOP,
    FAULT_SKIP,
    FAULT_SIZE,
    FAULT_DTYPE,
    FAULT_ORDER,
    FAULT_N_ACTIONS
};

enum fault_place {
    FAULT_AT_OPEN,
    FAULT_AT_SPLIT,
    FAULT_AT_ALLOC,
    FAULT_AT_EXCHANGE,
    FAULT_AT_POST,
    FAULT_AT_PROGRESS,
    FAULT_AT_DONE,
    FAULT_AT_CLOSE,
    FAULT_N_PLACES
};

#define FAULT_ALL_RANKS (-1)
#define FAULT_ANY_RANK (-2) /* until it is chosen */

struct fault {
    char text[FAULT_TEXT]; /* as it was written */
    enum fault_action action;
    enum fault_place place;
    int32_t rank;
    uint64_t first, last; /* the time at which it happens is chosen from them; then equal */
    uint64_t times;
    uint32_t kinds, comm; /* masks of kinds; 0: every communicator */
    int64_t delay_ns;
    int err; /* negative */

    uint64_t seen;  /* times that the rank was there */
    uint64_t fired; /* the last of them at which it happened */
};

struct fault_set {
    struct fault faults[FAULT_MOST];
    uint32_t n;
    uint64_t seed;           /* of what the texts leave open */
    struct zero_coll *batch; /* what goes below, and room for one that was held back */
};

/* Does the action change what is posted? */
static inline bool fault_changes(enum fault_action action)
{
    return action >= FAULT_SKIP;
}

/* parse.c: both variables; 0, or -EINVAL with a sentence that quotes and shows the grammar. */
int zero__fault_parse(const struct zero__voice *voice, struct fault_set *set);
/* parse.c: chooses what the seed chooses; -EINVAL for a rank that there is not. */
int zero__fault_choose(const struct zero__voice *voice, struct fault_set *set, int32_t ranks);
const char *zero__fault_place_name(enum fault_place place);

/* change.c: makes c another collective, still a legal one; false when that cannot be. */
bool zero__fault_resize(struct zero_coll *c);
bool zero__fault_retype(struct zero_coll *c);

/* inject.c */

/*
 * Does fault f happen the next time but `ahead` that this rank is at its place? *fits: does this
 * time count? comm and coll: of a post or a completion.
 */
bool zero__fault_hits(const struct fault *f, const struct zero_comm_ctx *ctx,
                      const struct zero_comm *comm, const struct zero_coll *coll, uint64_t ahead,
                      bool *fits);
/* A warning that it happens, the first time that it does so at that number. */
void zero__fault_note(struct zero_comm_ctx *ctx, struct fault *f, uint64_t number,
                      const struct zero_coll *coll);
/* Delays, dies, or returns the error that is to be, with its sentence. */
int zero__fault_happen(struct zero_comm_ctx *ctx, const struct fault *f);
/* All that for every fault of a place other than post. */
int zero__fault_act(struct zero_comm_ctx *ctx, enum fault_place place, const struct zero_comm *comm,
                    const struct zero_coll *coll);

#endif
