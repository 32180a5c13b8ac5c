/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The comm plugin `nccl`: memory of NVIDIA GPUs, collectives ordered in their streams.
 *
 * Libraries are loaded when a context opens, nothing is linked: libnccl, and of the driver the few
 * calls that make the device's CUDA context current. Streams, events, kernels and memory come from
 * the device that open() is given.
 *
 * NCCL's communicators are non-blocking: a call may go on in a thread of NCCL's, and the next one
 * on that communicator waits until it is over (`launching`). A stream has a collective only then,
 * so post() with a stream is -EAGAIN meanwhile, and is made again with the same batch.
 *
 * Sums of bf16 and fp16 are made in fp32: NCCL would round after each addition. Pieces of them are
 * widened into a buffer of fixed size, added, and narrowed (sums.c).
 *
 * Communicators of NCCL's end in threads of the context's (end.c): that may take its time, frees
 * the handle, and must not meet another call on it. `lock` guards the handles: whoever calls NCCL
 * with one holds it, and has seen that it is still there.
 */
#ifndef ZERO_PLUGINS_NCCL_H
#define ZERO_PLUGINS_NCCL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <zero/comm.h>
#include <zero/device.h>

#include "../common/bell.h"
#include "../common/coll.h"
#include "../common/members.h"
#include "api.h"

#define NCCL_NAME "nccl"
#define NCCL_RANKS 4096
#define NCCL_INFLIGHT 64u /* without a stream, per communicator; a power of two */
#define NCCL_TEXT 512
#define NCCL_WORDS 128u /* of a rank to all others, at once */
#define NCCL_FACTORS 4u /* operations with a factor that a communicator keeps */
#define NCCL_LAUNCHES 128u /* between two marks of a communicator's, see nccl_room() */
#ifndef NCCL_MEMORY
#define NCCL_MEMORY ZERO_MEM_CUDA /* what NCCL works on; a test has another library */
#endif

/* A registration with one of NCCL's communicators. */
struct nccl_handle {
    struct nccl_handle *next;
    struct zero_comm *comm;
    void *handle;
};

struct zero_mr {
    struct zero_mr *next;
    char *base;
    uint64_t bytes;
    bool exchanged;
    struct nccl_handle *handles;
};

/* A handle that ends; from the beginning there is one for each communicator. */
struct nccl_end {
    struct nccl_end *next;
    struct zero_comm_ctx *ctx;
    nccl_comm nccl;
    bool broken, finalizing, over; /* broken: aborted instead */
    bool orphan;                   /* nobody looks at it any more */
    bool called, returned;         /* the call that frees the handle, in a thread of its own: */
    pthread_t thread;
    bool threaded;
    int64_t until;
};

/* A collective without a stream of the caller's. */
struct nccl_entry {
    struct zero_coll coll;
    void *event;
};

/* How far the batch has come that is being put on a stream. */
struct nccl_work {
    bool active;
    uint32_t n, at;   /* collectives; of them are on it */
    uint64_t through; /* elements of the next one that are, where it goes in pieces */
    uint64_t widened; /* blocks of the piece behind them that are */
    bool added;       /* that piece is added, and not yet narrowed */
    void *stream;
    const struct zero_coll *colls; /* during a call; the same ones in the next */
};

struct nccl_factor {
    bool made;
    float scale;
    int type, op;
};

struct zero_comm {
    struct zero_comm_ctx *ctx;
    struct zero_comm *next;
    nccl_comm nccl; /* NULL: its end has begun */
    nccl_comm part; /* where NCCL's thread puts the handle of a part, before it is `nccl` */
    struct nccl_end *end;
    int32_t rank, ranks;
    bool launching; /* NCCL's thread works for the last call, until then at most: */
    int64_t until;
    struct nccl_work work;
    struct nccl_factor factors[NCCL_FACTORS];
    uint32_t next_factor;
    void *token; /* a barrier's memory */

    char *staging;            /* two buffers, of which any sum may be in need */
    void *staged, *staged_in; /* event behind the last use of them, the stream of it */

    void *marks[2]; /* events, the older one first where n_marks is even */
    uint32_t n_marks, launched; /* launched: since the newer one */

    void *stream; /* own one, for collectives without; NULL: there were none yet */
    struct nccl_entry *ring;
    uint64_t posted, begun, completed; /* of these */

    uint64_t wire;
    _Atomic int err;   /* sticky; `why` is written before it */
    const char *doing; /* what NCCL was last called for */
    char why[NCCL_TEXT];
};

/* What a rank calls, and has to say: as many bytes in every call, so that others are understood. */
struct nccl_meeting {
    char call[16];
    int32_t err, reserved;
    char why[300];
    char words[NCCL_WORDS];
};

struct zero_comm_ctx {
    struct zero__voice voice;
    struct nccl_library nccl;
    struct cuda_library cuda;
    const struct zero_oob *oob;
    int32_t rank, ranks;
    struct nccl_meeting *meetings; /* of each rank; during a call, like the next: */
    struct zero__member *members;  /* in a split */
    int64_t timeout_ns, until; /* until: of the entry that blocks; 0: of none */
    const struct zero_device_ops *ops;
    struct zero_device *dev;
    int device;
    cuda_context context; /* its primary one, held */
    bool retained, registers;
    uint64_t staging_bytes; /* of each of the two buffers */
    struct zero_mr *mrs;
    struct zero__bell bell;
    _Atomic uint32_t woken, aborted;
    pthread_mutex_t lock;
    pthread_cond_t work, moved; /* for the thread that sees to ends; it has seen one end */
    pthread_t ender;
    bool ender_runs, closing, ender_left;
    struct nccl_end *ends;
    struct zero_comm *comms;
    char said[NCCL_TEXT]; /* what this rank tells the others of an error of the call */
};

/* What begins now has time until then. */
static inline int64_t nccl_until(const struct zero_comm_ctx *ctx)
{
    return ctx->until ? ctx->until : zero__deadline_ns(ctx->timeout_ns);
}

/* ---- library.c */

/* ZERO_NCCL_LIBRARY, ZERO_CUDA_LIBRARY. */
const char *nccl_path(const struct zero_host *host);
const char *cuda_path(const struct zero_host *host);
int nccl_load(const struct zero_host *host, struct nccl_library *nccl);
/* "2.18.3"; up to 2.8 there was one digit less for the minor version. */
void nccl_version_print(int version, char text[40]);
/* Loads the driver and sees that there is a GPU. */
int cuda_load(const struct zero_host *host, struct cuda_library *cuda);
/* "WHAT: unhandled system error: …", with the remedy where one is known; returns the errno. */
int nccl_describe(struct zero_comm_ctx *ctx, nccl_comm comm, int result, const char *what,
                  char text[NCCL_TEXT]);
/* The same, recorded. */
int nccl_fail(struct zero_comm_ctx *ctx, nccl_comm comm, int result, const char *what);
int cuda_fail(const struct zero__voice *voice, const struct cuda_library *cuda, int result,
              const char *what);

/* ---- context.c */

/* What else the plugin's options say; all are asked for, also where one is wrong. */
int nccl_settings(const struct zero__voice *v, bool *registers, uint64_t *staging_bytes);
int nccl_open(const struct zero_comm_open *params, struct zero_comm_ctx **ctx);
int nccl_close(struct zero_comm_ctx *ctx);
int nccl_wake(struct zero_comm_ctx *ctx);
/* Around calls of NCCL: the lock, and the device's CUDA context as this thread's. */
int nccl_enter(struct zero_comm_ctx *ctx);
void nccl_leave(struct zero_comm_ctx *ctx);
/*
 * All ranks make this call, or hear what others made instead; `err` is this rank's own result.
 * `bytes` of `mine`, at most NCCL_WORDS, go to all; none: NULL. A rank without memory can take
 * part, too: nothing is allocated.
 */
int nccl_meet(struct zero_comm_ctx *ctx, const char *call, int err, const void *mine,
              uint32_t bytes);
/* The first `bytes` of what rank p said in the last meeting, which was a success. */
void nccl_heard(const struct zero_comm_ctx *ctx, int32_t p, void *words, uint32_t bytes);

/* ---- memory.c */

int nccl_reg(struct zero_comm_ctx *ctx, void *base, uint64_t bytes, uint32_t mem,
             struct zero_mr **mr);
int nccl_unreg(struct zero_comm_ctx *ctx, struct zero_mr *mr);
int nccl_exchange(struct zero_comm_ctx *ctx, struct zero_mr *mr);
/* Within enter: all exchanged memory with a new communicator; all registrations of one end. */
int nccl_register_all(struct zero_comm *comm);
void nccl_deregister_all(struct zero_comm *comm);

/* ---- communicator.c */

int nccl_split(struct zero_comm_ctx *ctx, struct zero_comm *parent, int32_t color, int32_t key,
               struct zero_comm **comm);
int nccl_comm_close(struct zero_comm *comm);
int nccl_error(struct zero_comm *comm);
int nccl_wire_bytes(struct zero_comm *comm, uint64_t *bytes);
/*
 * Within enter. What NCCL's thread does for the communicator: 0 it is idle, -EAGAIN still at work,
 * or the error that it ends with.
 */
int nccl_settle(struct zero_comm *comm);
/* Waits until NCCL's thread is through with the last call; of all communicators. */
int nccl_wait(struct zero_comm *comm);
void nccl_wait_all(struct zero_comm_ctx *ctx);
/* Within enter: the result of a call, which may go on in NCCL's thread; `doing` is a literal. */
int nccl_called(struct zero_comm *comm, int result, const char *doing);

/* ---- end.c */

int nccl_abort(struct zero_comm_ctx *ctx);
int nccl_ender_start(struct zero_comm_ctx *ctx);
/* False: a communicator does not end; its memory and the context's must stay. */
bool nccl_ender_stop(struct zero_comm_ctx *ctx);
/* The communicator fails, unless it has; records why, and returns that error. */
int nccl_comm_fail(struct zero_comm *comm, int err, const char *why);
/* Where it has failed, or after an abort: waits until NCCL is through with it. */
bool nccl_end_wait(struct zero_comm *comm);
/* Forgets the communicator; false: NCCL may still work for it, and its memory must stay. */
bool nccl_comm_end(struct zero_comm *comm);

/* ---- post.c, sums.c, progress.c */

int nccl_post(struct zero_comm *comm, const struct zero_coll *colls, uint32_t n, void *stream);
/* Puts what waits for the own stream on it, as far as that goes. */
int nccl_begin(struct zero_comm *comm);
/*
 * Within enter. Before 2.27 a call that goes on is its thread's, and one with another communicator
 * meanwhile spoils what it works on: does none go on?
 */
bool nccl_turn(struct zero_comm *comm);
/*
 * Within enter: -EAGAIN while the older mark is not reached and as much as between two marks has
 * been launched since the newer one. A stream that is full would hold whoever posts, with the lock,
 * and no abort could come: streams hold about a thousand launches.
 */
int nccl_room(struct zero_comm *comm);
/* The buffers of sums. They come with the communicator: a post that found none would fail alone. */
int nccl_staging_make(struct zero_comm *comm);
/* Within enter: does the sum go through the buffers: in pieces, in fp32? */
bool nccl_sum_is_staged(const struct zero_coll *c);
/* Within enter: one more step of it; 1 when all of it is on the stream. */
int nccl_sum_step(struct zero_comm *comm, const struct zero_coll *c);
/* Within enter and a group: c's sum of n elements of NCCL's type, on the stream. */
int nccl_sum(struct zero_comm *comm, const struct zero_coll *c, int type, const char *src,
             char *dst, uint64_t n, void *stream);
void nccl_redops_end(struct zero_comm *comm);
static inline char *nccl_at(const struct zero_slice *s)
{
    return s->len ? s->mr->base + s->off : NULL;
}
int nccl_progress(struct zero_comm_ctx *ctx, struct zero_cqe *cqes, uint32_t max,
                  int64_t timeout_ns);

#endif
