/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A comm plugin to start from: small, complete, and slow. Ranks of one machine share a few pages;
 * what one rank sends it copies into its *stage* there, a buffer of constant size, and the others
 * copy or add it from there. A real transport replaces the stages by messages; all around them
 * (checks, order, completions, waking, aborting) stays as it is.
 *
 * What the library promises:
 *   - It makes one call at a time to a context and its communicators, but for wake() and abort(),
 *     which come from any thread at any time. So there is no lock in here: what those two touch is
 *     atomic, the rest belongs to whoever calls.
 *   - Every rank posts the same collectives on a communicator in the same order, and makes the
 *     same collective calls (open, exchange, split). Programs have faults, so this is checked.
 * What the plugin promises:
 *   - post() and progress(ctx, …, 0) never wait for another rank. Progress is a state machine: each
 *     call does what can be done now and remembers where it was.
 *   - A collective that waits does not keep those of other communicators from moving.
 *   - Nobody waits for ever: what may block has a deadline, and looks for aborts while it waits.
 *   - What it cannot do it refuses, with a reason, before anything has happened.
 *
 * The protocol of a communicator, counters of each rank in its struct lane:
 *   posted   collectives posted; collective s is described in ring[s % SLOTS]
 *   filled   rounds that this rank has put into its stage
 *   drained  rounds that this rank has read from all stages
 *   done     collectives in which this rank's part is through
 * A rank fills round k+1 when all have drained round k, and reads it when all have filled it. It
 * starts a collective when all have posted it and their descriptions agree. A collective is
 * complete when all ranks are done with it; only then is its slot used again.
 */
#ifndef TEMPLATE_COMM_H
#define TEMPLATE_COMM_H

#include <stdatomic.h>
#include <stdbool.h>

#include <zero/comm.h>

#ifndef NAME /* must be that of the file zero-comm-NAME.so; "template" */
#error "the Makefile says what the plugins are called: -DNAME"
#endif
/*
 * Declared by probe(), and all that post() takes: leave out what is not written yet. REDOPS and
 * DTYPES are of reductions; what is moved may have any type.
 */
#define FLAGS (ZERO_COMM_ORDERED | ZERO_COMM_ACCUMULATE | ZERO_COMM_FINGERPRINT)
#define KINDS                                                                                      \
    (1u << ZERO_ALL_GATHER | 1u << ZERO_REDUCE_SCATTER | 1u << ZERO_ALL_REDUCE |                   \
     1u << ZERO_BROADCAST | 1u << ZERO_BARRIER)
#define REDOPS (1u << ZERO_SUM | 1u << ZERO_MAX)
#define DTYPES (1u << ZERO_F32 | 1u << ZERO_BF16 | 1u << ZERO_F16 | 1u << ZERO_I32)
#define RANKS_MOST 64
#define SLOTS 16u          /* collectives posted and not completed, per communicator */
#define STAGE (64u * 1024) /* bytes of a round; no buffer grows with the message */
#define WHY 640            /* of an error's sentence */
#define LINE 64            /* of a cache: counters of different ranks do not share one */

/* Records the sentence that the application reads, and is the (negative) error. */
#define say(host, err, ...) ((host)->fail((host)->ctx, NAME, (err), __VA_ARGS__))

/* ---- What lies in shared memory: fixed sizes, no pointers ------------------------------------ */

/* Where a rank's memory can be found; an address book of a network would look the same. */
struct address {
    uint64_t pid, fd, bytes, device, inode;
};

/* What a rank says in a collective call, other than a collective of comm.h. */
struct notice {
    uint32_t call;  /* enum call */
    int32_t status; /* 0, or what failed on this rank: then the call fails on all */
    int32_t color, key;
    struct address where;
};

enum call { CALL_EXCHANGE = 1, CALL_SPLIT };

/* Two notices: a rank writes its next one while others may still read the last. */
struct board {
    _Atomic uint64_t turn;
    struct notice notice[2];
};

/* A rank of the context. */
struct seat {
    _Alignas(LINE) _Atomic uint32_t events; /* grows when something happened; slept upon */
    _Atomic uint32_t aborted;
    struct board board;
};

/* The description of a posted collective, which must be the same on all ranks. */
struct print {
    uint64_t count, sequence;
    uint32_t kind, flags, src_dtype, dst_dtype, redop, scale_bits, group, epoch;
    int32_t root;
    uint32_t unused;
};

/* A rank of a communicator. */
struct lane {
    _Alignas(LINE) _Atomic uint64_t posted, filled, drained, done;
    _Atomic int32_t failed; /* the error that ended the communicator on this rank, 0: none */
    char why[WHY];          /* its sentence */
    struct board board;
    struct print ring[SLOTS];
    _Alignas(LINE) char stage[STAGE];
};

/* ---- What belongs to this rank --------------------------------------------------------------- */

struct segment {
    int fd; /* of who made it, until all have joined; else -1 */
    void *base;
    uint64_t bytes;
};

/* Some ranks, and where their boards are. */
struct group {
    int32_t rank, ranks;
    int32_t world[RANKS_MOST]; /* their ranks in the context */
    char *boards;              /* of rank 0; the others `stride` bytes apart */
    size_t stride;
    uint64_t turn;
};

/* The types that zero/plugin.h and zero/comm.h leave open are ours to define. */
struct zero_mr {
    struct zero_mr *next;
    char *base;
    uint64_t bytes;
    bool exchanged;
};

struct zero_comm_ctx {
    const struct zero_host *host;
    int64_t timeout_ns;
    struct segment control;
    struct seat *seats;
    struct group all;
    _Atomic uint32_t woken, aborted;
    struct zero_mr *mrs;
    struct zero_comm *comms;
    union { /* of as many elements as fit into a stage */
        float f[STAGE / 2];
        int32_t i[STAGE / 2];
    } sums;
};

/* A collective of this rank, checked, with its memory found. */
struct op {
    struct zero_coll c;
    char *src, *dst;
};

struct zero_comm {
    struct zero_comm_ctx *ctx;
    struct zero_comm *next;
    struct group group;
    struct segment memory;
    struct lane *lanes;
    struct op ops[SLOTS];
    uint64_t posted, executed, completed; /* collectives of this rank */
    uint64_t wire;

    /* Of collective `executed`: */
    bool agreed;    /* all have posted the same */
    bool is_filled; /* the next thing to do with the round is to read it */
    uint64_t round, rounds;
    uint64_t total_rounds; /* that this rank has drained, ever */

    int err; /* sticky */
    char why[WHY];
};

/* shared.c */
int64_t clock_ns(void);
int64_t deadline_ns(int64_t timeout_ns);
int segment_create(const struct zero_host *host, uint64_t bytes, struct segment *s,
                   struct address *where);
int segment_join(const struct zero_host *host, int32_t rank, const struct address *where,
                 uint64_t bytes, struct segment *s);
void segment_leave(struct segment *s);
/* Something happened that the rank (of the context) may wait for. From any thread. */
void seat_ring(struct zero_comm_ctx *ctx, int32_t rank);
void seat_sleep(struct seat *seat, uint32_t seen, int64_t until);

/* post.c */
int template_post(struct zero_comm *comm, const struct zero_coll *colls, uint32_t n, void *stream);

/* collective.c */
int template_progress(struct zero_comm_ctx *ctx, struct zero_cqe *cqes, uint32_t max,
                      int64_t timeout_ns);
int template_error(struct zero_comm *comm);
/* Tells the other ranks of the communicator that a counter of this rank has moved. */
void comm_ring(struct zero_comm *comm);

#endif
