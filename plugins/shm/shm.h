/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The comm plugin of ranks on one machine. A rank's memory lies in memfd segments that its peers
 * map, so that a collective reads its sources where they are: one copy, or one pass of sums.
 *
 * Memory of a device that can share it lies at addresses of that device which peers attach. What is
 * done with it is put on a stream of the device, and counts as executed when that has got there.
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
#include "../common/fingerprint.h"
#include "../common/idle.h"
#include "machine/cores.h"
#include "machine/isa.h"

#include <zero/device.h>

#ifndef SHM_NAME /* a test compiles it under another name */
#define SHM_NAME "shm"
#endif
#define SHM_SLOTS 64u      /* posted and not completed; a power of two */
#define SHM_MAX_RANKS 1024 /* the control block grows with them */
#define SHM_PIECE (UINT64_C(256) << 10)
/* From here on a part of the sources is worth waking for. */
#define SHM_EAGER (UINT64_C(64) << 10)
#define SHM_WHY 512      /* of an error's sentence */
#define SHM_NOTICE_BYTES 128
#define SHM_SOCKET_NAME 16 /* bytes of the address that the kernel gives a socket, and room */
#define SHM_LINE 128       /* two cache lines: neighbours are fetched in pairs */

/* ---- What lies in shared memory -------------------------------------------------------------- */

/*
 * Where a segment can be found. `object`, a pointer, is for threads of the same process only, and
 * is used where `proof` says that this process has written all of this.
 */
struct shm_address {
    uint64_t pid, fd, device, inode, bytes, object, proof;
};

/* What a rank says in a collective call that is not a collective of comm.h. */
struct shm_notice {
    uint32_t call;  /* enum shm_call */
    int32_t status; /* 0 or what failed there */
    struct shm_address memory;
    uint64_t off, bytes;
    int32_t color, key;
    uint32_t mem; /* enum zero_mem, of `bytes` */
    uint32_t reserved;
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
 * bytes; the last one to leave unmaps it. Peers' processes have their own. Or memory of a device,
 * which every rank attaches for itself: `base` is an address of that device.
 */
struct shm_segment {
    _Atomic uint32_t users;
    int fd;
    uint64_t bytes;
    char *base;
    struct shm_device *device; /* NULL: a memfd */
    bool attached;             /* a peer's, of a device */
};

/* Zeroed, really there, and never smaller. */
int zero__segment_create(const struct zero__voice *v, uint64_t bytes, struct shm_segment **segment);
void zero__segment_leave(struct shm_segment *segment);
int zero__segment_address(const struct shm_segment *segment, struct shm_address *address);
/* Joins the segment of `rank`; writable or not. Its size is at least `least`. */
int zero__segment_join(const struct zero__voice *v, int32_t rank, const struct shm_address *address,
                       uint64_t least, bool writable, struct shm_segment **segment);
/* An object for `bytes` that somebody else makes; NULL: no memory. */
struct shm_segment *zero__segment_new(uint64_t bytes);

/* ---- device.c: memory of a device ------------------------------------------------------------ */

/* Of another rank: its process, and the address of its socket, beside the family. */
struct shm_correspondent {
    int32_t pid;
    uint32_t name_bytes; /* 0: it has none */
    char name[SHM_SOCKET_NAME];
};

struct shm_device {
    const struct zero_device_ops *ops; /* NULL: there is none that could share its memory */
    struct zero_device *dev;
    uint32_t mem; /* kind of its memory; 0: there is none to be shared */
    bool wanted;  /* ZERO_SHM_DEVICE */
    bool takes;   /* it can be shared among all ranks, so collectives take it */
    bool stuck;   /* a stream does not end: what it works on stays until the device closes */
    int socket;   /* where what finds memory arrives; -1: none */
    struct shm_correspondent *ranks;
};

/* What ZERO_SHM_DEVICE says. */
int zero__shm_device_wish(const struct zero__voice *v, bool *wanted);
/* The device of open(), if its memory could be shared; a socket then. Says in *self who this is. */
void zero__shm_device_find(struct zero_comm_ctx *ctx, const struct zero_comm_open *params,
                           struct shm_correspondent *self);
/* Collective, with the ranks told: whether it can, found out by doing it. */
int zero__shm_device_try(struct zero_comm_ctx *ctx);
void zero__shm_device_leave(struct zero_comm_ctx *ctx);
int zero__shm_memory(struct zero_comm_ctx *ctx, uint32_t *mem);

int zero__device_segment_create(struct zero_comm_ctx *ctx, uint64_t bytes,
                                struct shm_segment **segment);
/* The memory of `rank`, at least `least` bytes. */
int zero__device_segment_join(struct zero_comm_ctx *ctx, int32_t rank,
                              const struct zero_device_share *share, uint64_t least,
                              struct shm_segment **segment);
void zero__device_segment_end(struct shm_segment *segment);

/* parcel.c */
int zero__parcels_open(const struct zero__voice *v, int *socket, struct shm_correspondent *self);
/*
 * Collective: gives `mine` to all peers and fills theirs in `all`, whose descriptors are then the
 * caller's. `serial` is the same on all ranks, and another one each time.
 */
int zero__parcels_swap(struct zero_comm_ctx *ctx, uint64_t serial,
                       const struct zero_device_share *mine, struct zero_device_share *all);
/* Closes what descriptors there are. */
void zero__parcels_close(struct zero_device_share *all, int32_t n);

/* ---- Contexts -------------------------------------------------------------------------------- */

/* The parts of a region side by side. */
struct shm_map {
    struct shm_map *next;
    void *base;
    uint64_t bytes;
};

struct zero_mr {
    struct zero_mr *next;
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
    enum zero__isa isa;
    struct zero__caches caches;
    int32_t rank, ranks;
    int64_t timeout_ns;
    struct shm_segment *control;
    struct shm_seat *seats;
    struct shm_table table;
    struct shm_notice *notices; /* of all ranks; a rank without memory has to take part, too */
    _Atomic uint32_t woken, aborted;
    struct zero__idle idle; /* of progress */
    struct shm_device device;
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
/* Is the region of the other kind of memory, the device's or the host's? */
bool zero__region_is_elsewhere(const struct zero_comm_ctx *ctx, uint32_t region, bool on_device);

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
    char *src, *dst;  /* this rank's */
    unsigned streams; /* past the caches, enum zero__streams */
    bool on_device;   /* src and dst are its addresses */
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
    /*
     * Counts of this rank's collectives. Of those begun and not executed, everything that is to be
     * done is on the stream; without a device there are none.
     */
    uint64_t posted, begun, executed, completed;
    struct shm_op ops[SHM_SLOTS];
    uint64_t wire;
    struct shm_queue *queue; /* NULL: no memory of a device */

    /* Of collective `begun`: */
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

/* For enqueue.c, of the collective `begun`: whether every rank sums all of it for itself; */
bool zero__shm_sums_all(const struct zero_comm *comm, const struct shm_op *op);
/* the next rank to copy from, -1 when none is ready; what is to be copied from it, and where to; */
int32_t zero__shm_next_copy(struct zero_comm *comm, const struct shm_op *op);
void zero__shm_copy_of(const struct zero_comm *comm, const struct shm_op *op, int32_t p,
                       const char **src, char **dst, uint64_t *bytes);
/* the elements that this rank sums, from where in the sources, and to where in the destination. */
void zero__shm_sum_of(const struct zero_comm *comm, const struct shm_op *op, uint64_t *first,
                      uint64_t *count, uint64_t *to);
/* The sum of an all_reduce is through: peers may copy it. */
void zero__shm_publish_sum(struct zero_comm *comm);
/* Goes on to the next one. */
void zero__shm_begin_next(struct zero_comm *comm);
/* The oldest that is begun is executed. */
void zero__shm_executed(struct zero_comm *comm);

/* enqueue.c: collectives on memory of the device. Of a context without one there is no queue. */
int zero__shm_queue_open(struct zero_comm *comm);
/* Waits for what is on the stream, within the context's deadline. */
void zero__shm_queue_close(struct zero_comm *comm);
/* The same of all communicators: memory that they work on goes. */
void zero__shm_queues_drain(struct zero_comm_ctx *ctx);
/* Puts on the stream what can be done of the collective `begun`; true when it could do something.
 */
bool zero__shm_enqueue(struct zero_comm *comm);
/* Looks how far the stream has got; likewise. */
bool zero__shm_queue_look(struct zero_comm *comm);

/* progress.c */
int zero__shm_progress(struct zero_comm_ctx *ctx, struct zero_cqe *cqes, uint32_t max,
                       int64_t timeout_ns);
/* Ends the communicator; the first error stays. Returns err. */
int zero__comm_fail(struct zero_comm *comm, int err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/*
 * The same after an error of the device, whose sentence is what this rank says. Peers end with
 * -ECANCELED: what happened is reported here.
 */
void zero__comm_fail_device(struct zero_comm *comm, int err);
/* Ends the communicator if this rank or a peer has aborted, or a peer has ended it. */
void zero__comm_look(struct zero_comm *comm);
/*
 * Wakes the other ranks of the communicator after this rank raised a counter from `old`; where they
 * all wait for the slowest, only if that was this one.
 */
enum shm_ring { SHM_RING_NOW, SHM_RING_IF_LAST_POST, SHM_RING_IF_LAST_STEP };
void zero__comm_ring(struct zero_comm *comm, enum shm_ring when, uint64_t old);

#endif
