/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The comm plugin of ranks on one machine. A rank's memory lies in memfd segments that its peers
 * map, so that a collective reads its sources where they are: one copy, or one pass of sums.
 *
 * The protocol, per communicator: a rank *posts* collective s by writing it into slot s of its ring
 * and raising `posted`. Every rank executes its own part of s as soon as the ranks it reads from
 * have posted s, and raises `steps` to 2s + 2 when that is through and it has compared s with what
 * all others posted (2s + 1: its part of an all_reduce can be read). s is complete, and its slot
 * free, when all have done so. Ranks execute in order.
 *
 * Nothing that is read from shared memory is trusted: it is copied, then checked, then used.
 */
#ifndef ZERO_PLUGINS_SHM_H
#define ZERO_PLUGINS_SHM_H

#include <stdatomic.h>
#include <stdbool.h>

#include "../common/bell.h"
#include "../common/coll.h"
#include "../common/cores.h"
#include "../common/fingerprint.h"
#include "../common/idle.h"

#ifndef SHM_NAME /* a test compiles it under another name */
#define SHM_NAME "shm"
#endif
#define SHM_SLOTS 64u      /* posted and not completed; a power of two */
#define SHM_MAX_RANKS 1024 /* the control block grows with them */
#define SHM_PIECE (UINT64_C(256) << 10)
#define SHM_EAGER                                                                  \
    (UINT64_C(64) << 10) /* from here on a part of the sources is worth waking for \
                          */
#define SHM_WHY 512      /* of an error's sentence */
#define SHM_NOTICE_BYTES 128
#define SHM_LINE 128 /* two cache lines: neighbours are fetched in pairs */

/* ---- What lies in shared memory -------------------------------------------------------------- */

/* Where a segment can be found; `object` is for threads of the same process only. */
struct shm_address {
    uint64_t pid, fd, device, inode, bytes, object;
};

/* What a rank says in a collective call that is not a collective of comm.h. */
struct shm_notice {
    uint32_t call;  /* enum shm_call */
    int32_t status; /* 0 or what failed there */
    struct shm_address memory;
    uint64_t off, bytes;
    int32_t color, key;
};

enum shm_call {
    SHM_CALL_OPEN = 1,
    SHM_CALL_EXCHANGE,
    SHM_CALL_MAP,
    SHM_CALL_SPLIT,
};

/* Two notices: a rank writes the next one while others still read the last one. */
struct shm_board {
    _Atomic uint64_t turn;
    unsigned char notice[2][SHM_NOTICE_BYTES];
};

/* A rank of a context. */
struct shm_seat {
    _Alignas(SHM_LINE) struct zero__bell bell;
    _Alignas(SHM_LINE) _Atomic uint32_t aborted;
    struct shm_board board;
};

/* A posted collective: its fingerprint, and where its bytes are. */
struct shm_post {
    struct zero__fingerprint print;
    uint32_t src_region, dst_region;
    uint64_t src_off, dst_off;
};

/* A rank of a communicator. */
struct shm_lane {
    _Alignas(SHM_LINE) _Atomic uint64_t posted;
    _Atomic uint64_t steps;
    _Atomic int32_t failed; /* 0 or the error that ended the communicator on this rank */
    char why[SHM_WHY];      /* its sentence */
    _Alignas(SHM_LINE) struct shm_board board;
    struct {
        _Alignas(SHM_LINE) struct shm_post post;
    } ring[SHM_SLOTS];
};

/* ---- segment.c: shared memory ---------------------------------------------------------------- */

/*
 * A memfd and its mapping. Threads of a process share one object, so that they address the same
 * bytes; the last one to leave unmaps it. Peers' processes have their own.
 */
struct shm_segment {
    _Atomic uint32_t users;
    int fd;
    uint64_t bytes;
    char *base;
};

/* Zeroed, really there, and never smaller. */
int zero__segment_create(const struct zero__voice *v, uint64_t bytes, struct shm_segment **segment);
void zero__segment_leave(struct shm_segment *segment);
int zero__segment_address(const struct shm_segment *segment, struct shm_address *address);
/* Joins the segment of `rank`; writable or not. Its size is at least `least`. */
int zero__segment_join(const struct zero__voice *v, int32_t rank, const struct shm_address *address,
                       uint64_t least, bool writable, struct shm_segment **segment);

/* ---- Contexts -------------------------------------------------------------------------------- */

/* The parts of a region side by side. */
struct shm_map {
    struct shm_map *next;
    void *base;
    uint64_t bytes;
};

struct zero_mr {
    struct zero_mr *prev, *next;
    struct shm_segment *segment; /* this rank's */
    uint64_t off, bytes;         /* in the segment */
    uint32_t region;             /* number of its exchange; SHM_NO_REGION before */
    bool owns;                   /* from alloc, not from reg */
    struct shm_map *maps;        /* from map(), the latest first */
    /* Of all ranks, after the exchange: */
    struct shm_peer {
        struct shm_segment *segment;
        uint64_t off, bytes;
    } * peers;
};
#define SHM_NO_REGION UINT32_MAX

/* A table of boards that ranks write their notices on. */
struct shm_table {
    char *first; /* the board of rank 0 */
    size_t stride;
    int32_t rank, ranks;
    const int32_t *world; /* ranks of the context, NULL: the same numbers */
    uint64_t turn;
};

struct zero_comm_ctx {
    struct zero__voice voice;
    int isa;
    struct zero__caches caches;
    int32_t rank, ranks;
    int64_t timeout_ns;
    struct shm_segment *control;
    struct shm_seat *seats;
    struct shm_table table;
    struct shm_notice *notices; /* of all ranks; a rank without memory has to take part, too */
    _Atomic uint32_t woken, aborted;
    struct zero__idle idle; /* of progress */
    struct zero_mr *mrs;
    struct zero_mr **regions; /* by number; NULL where one was freed */
    uint32_t n_regions;
    struct zero_comm *comms; /* the first one gets the next turn */
};

/*
 * board.c: gathers the notices of all ranks of the table, in `all`, at most within the context's
 * deadline. Fails alike on all ranks when one has something else to say than `mine->call`, or a
 * status other than 0.
 */
int zero__board_gather(struct zero_comm_ctx *ctx, struct shm_table *table,
                       const struct shm_notice *mine, struct shm_notice *all);
/* The same judgement on notices that came another way. */
int zero__notices_check(struct zero_comm_ctx *ctx, const struct shm_table *table,
                        const struct shm_notice *all, const char *doing);
const char *zero__call_name(uint32_t call);

/* region.c */
int zero__shm_alloc(struct zero_comm_ctx *ctx, uint64_t bytes, uint32_t mem, void **base,
                    struct zero_mr **mr);
int zero__shm_reg(struct zero_comm_ctx *ctx, void *base, uint64_t bytes, uint32_t mem,
                  struct zero_mr **mr);
int zero__shm_unreg(struct zero_comm_ctx *ctx, struct zero_mr *mr);
int zero__shm_exchange(struct zero_comm_ctx *ctx, struct zero_mr *mr);
int zero__shm_map(struct zero_comm_ctx *ctx, struct zero_mr *mr, uint64_t off, uint64_t len,
                  void **base);
/*
 * Address of bytes off … off + len of region `region` of context rank `rank`; NULL when there is no
 * such region or they lie outside.
 */
char *zero__region_at(const struct zero_comm_ctx *ctx, uint32_t region, int32_t rank, uint64_t off,
                      uint64_t len);

/* context.c */
int zero__shm_probe(const struct zero_host *host, struct zero_comm_caps *caps);
int zero__shm_open(const struct zero_comm_open *params, struct zero_comm_ctx **ctx);
int zero__shm_close(struct zero_comm_ctx *ctx);
int zero__shm_wake(struct zero_comm_ctx *ctx);
int zero__shm_abort(struct zero_comm_ctx *ctx);

/* ---- Communicators --------------------------------------------------------------------------- */

/* A collective of this rank, posted and not yet completed. */
struct shm_op {
    struct zero_coll coll;
    char *src, *dst; /* this rank's */
    unsigned streams; /* past the caches, enum zero__streams */
};

/* What is known of a peer for the collective that is executed. */
struct shm_part {
    bool checked; /* it has posted, and the same; src and dst are set */
    bool copied;  /* nothing more to read from it */
    char *src, *dst;
};

struct zero_comm {
    struct zero_comm_ctx *ctx;
    struct zero_comm *next;
    struct shm_segment *control;
    struct shm_lane *lanes;
    int32_t rank, ranks;
    int32_t *world; /* ranks of the context */
    struct shm_table table;
    uint64_t posted, executed, completed; /* counts of this rank's collectives */
    struct shm_op ops[SHM_SLOTS];
    uint64_t wire;

    /* Of collective `executed`: */
    struct shm_part *parts; /* one per rank */
    const void **sources;
    int32_t n_checked, n_copied;
    int32_t at;    /* the rank being copied from, -1: none */
    uint64_t done; /* bytes or elements of the current copy or sum */
    bool reduced;  /* all_reduce: own part is through */

    int err; /* sticky */
    char why[SHM_WHY];
};

/* communicator.c */
int zero__shm_split(struct zero_comm_ctx *ctx, struct zero_comm *parent, int32_t color, int32_t key,
                    struct zero_comm **comm);
int zero__shm_comm_close(struct zero_comm *comm);
int zero__shm_error(struct zero_comm *comm);
int zero__shm_missing(struct zero_comm *comm, int32_t *ranks, uint32_t max);
int zero__shm_wire_bytes(struct zero_comm *comm, uint64_t *bytes);

/* post.c */
int zero__shm_post(struct zero_comm *comm, const struct zero_coll *colls, uint32_t n, void *stream);

/*
 * execute.c: works on the oldest collective that is not executed, reading at most about *budget
 * bytes; true when it could do something.
 */
bool zero__shm_execute(struct zero_comm *comm, uint64_t *budget);

/* progress.c */
int zero__shm_progress(struct zero_comm_ctx *ctx, struct zero_cqe *cqes, uint32_t max,
                       int64_t timeout_ns);
/* Ends the communicator; the first error stays. Returns err. */
int zero__comm_fail(struct zero_comm *comm, int err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Ends the communicator if this rank or a peer has aborted, or a peer has ended it. */
void zero__comm_look(struct zero_comm *comm);
/*
 * Wakes the other ranks of the communicator after this rank raised a counter from `old`; where they
 * all wait for the slowest, only if that was this one.
 */
enum shm_ring { SHM_RING_NOW, SHM_RING_IF_LAST_POST, SHM_RING_IF_LAST_STEP };
void zero__comm_ring(struct zero_comm *comm, enum shm_ring when, uint64_t old);

#endif
