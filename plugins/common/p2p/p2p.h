/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives over messages: everything of comm.h for a transport that can send and receive.
 *
 * A plugin makes a transport in its open(), hands it to zero__p2p_open(), and puts the functions
 * below into its table. All reductions are direct exchange, unless ZERO_NUMERICS=relaxed (way.c):
 * the owner of a part receives the other ranks' sources in chunks, through buffers whose size does
 * not grow with the message, and adds them in rank order, so that the sums are those of every other
 * plugin, bit by bit.
 *
 * The protocol, per communicator: a rank *starts* collective s by receiving into all places that
 * belong to it, then sends its fingerprint of s to every peer. A peer's fingerprint that agrees
 * means that the peer is ready, so every message of data meets a receive that waits for it. Chunks
 * of a sum come when the receiver has granted them, in the fingerprint or in a credit after it.
 * Messages carry all that tells them apart in their tag, so none has to arrive in order. No message
 * is longer than the least of what the ranks' transports carry: what is, goes in pieces.
 *
 * Where the receiver copies a large message, inside progress(), a receive that waits for it makes
 * ranks take turns: who hears the peer's word and its message at once copies before its own message
 * is out, and the peer idles meanwhile. For such transports (late_bytes) a large receive begins
 * when this rank has tried to send its own part, or could not. So that no rank waits in a circle, a
 * large message then goes only after the word that lets its receiver do the same: this rank's POST,
 * and for a chunk of a sum the credit for the peer's chunk of that number.
 */
#ifndef ZERO_PLUGINS_COMMON_P2P_H
#define ZERO_PLUGINS_COMMON_P2P_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "../coll.h"

#define ZERO__P2P_MAX_RANKS 4096            /* what a tag has room for */
#define ZERO__P2P_TAG_BITS 48               /* of a tag; all that some adapters have */
#define ZERO__P2P_LATE (UINT64_C(64) << 10) /* late_bytes: above what transports buffer */

struct zero__p2p;

/* A message under way. It belongs to the library; `own` is for the transport. */
struct zero__p2p_op {
    struct zero__p2p *t;
    uint64_t bytes; /* of the send, or at most of the receive */
    int64_t res;    /* when it is not busy any more: bytes, or a negative errno */
    bool busy, receives;
    void *own[8];
};

/* A transport. Calls come from one thread at a time. */
struct zero__p2p_ops {
    /*
     * Start a message; it ends with zero__p2p_end(), during the call or later. -EAGAIN: no room
     * now. `handle` is that of reg() for the memory. A message longer than the receive ends with
     * -EMSGSIZE there. A send has ended when its memory may be written again.
     */
    int (*send)(struct zero__p2p *t, int32_t peer, uint64_t tag, const void *data, uint64_t bytes,
                void *handle, struct zero__p2p_op *op);
    int (*recv)(struct zero__p2p *t, int32_t peer, uint64_t tag, void *data, uint64_t bytes,
                void *handle, struct zero__p2p_op *op);
    /* Asks for a receive to end, with -ECANCELED if nothing has come. */
    void (*cancel)(struct zero__p2p *t, struct zero__p2p_op *op);
    /*
     * Moves messages on. Returns a negative errno when the transport is broken, which it may have
     * explained, else whether something moved, as far as it knows.
     */
    int (*progress)(struct zero__p2p *t);
    /* How the connection to a peer broke, 0: it did not. NULL where n_lost stays 0. */
    int (*lost)(const struct zero__p2p *t, int32_t peer);
    /* Sleeps until there may be something for progress(), or wake_fd was rung (wake.h). */
    void (*wait)(struct zero__p2p *t, int64_t timeout_ns);
    int (*reg)(struct zero__p2p *t, void *base, uint64_t bytes, void **handle);
    void (*unreg)(struct zero__p2p *t, void *handle);
    /*
     * After it no message touches memory any more; only lost(), unreg() and close() follow.
     * Not aborted: what was sent still arrives; peers that are gone are not waited for. Aborted: it
     * may come with messages under way, and long before close().
     */
    void (*stop)(struct zero__p2p *t, bool aborted);
    void (*close)(struct zero__p2p *t); /* after stop() and unreg() of everything */
};

/* First member of the transport's own structure. */
struct zero__p2p {
    const struct zero__p2p_ops *ops;
    /* Of the context to be. */
    struct zero__voice voice;
    int32_t rank, ranks;
    int64_t timeout_ns;
    int wake_fd;          /* of wake.h; -1 until zero__p2p_open() makes it */
    uint64_t max_message; /* bytes of the longest one that it carries, 0: no limit */
    uint64_t late_bytes;  /* receives of as many begin after own sends, 0: none; see above */
    uint64_t n_ended;     /* messages, ever; only zero__p2p_end() counts */
    int32_t n_lost;       /* peers whose connection broke; lost() says which */
    int explained;        /* the error that `why` belongs to, 0: none */
    char why[160];
    char way[96];         /* of the data, and what chooses another one; for people, may be empty */
};

/*
 * For an error that errno names badly: the transport's own words, which are said in the place of
 * errno's as long as no later error is explained. Returns err.
 */
__attribute__((format(printf, 3, 4))) static inline int zero__p2p_explain(struct zero__p2p *t,
                                                                          int err, const char *fmt,
                                                                          ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(t->why, sizeof t->why, fmt, ap);
    va_end(ap);
    t->explained = err;
    return err;
}

static inline void zero__p2p_end(struct zero__p2p_op *op, int64_t res)
{
    op->res = res;
    op->busy = false;
    op->t->n_ended++;
}

/*
 * A transport's own structure, of `bytes` bytes, with its first member filled in, and zeros behind
 * that. It is closed and freed by the transport's close(), or by free() where nothing is in it yet.
 * `voice` is kept, with the strings in it.
 */
int zero__p2p_new(const struct zero__voice *voice, const struct zero_comm_open *params,
                  const struct zero__p2p_ops *ops, size_t bytes, struct zero__p2p **t);

/*
 * The context of transport `t`, which it closes with the context, also when this fails: on all
 * ranks, when it does on one.
 */
int zero__p2p_open(const struct zero_comm_open *params, struct zero__p2p *t,
                   struct zero_comm_ctx **ctx);

/* What such a plugin can do, but for `note`. */
int zero__p2p_caps(const struct zero__voice *voice, struct zero_comm_caps *caps);

/* Entries of the table. */
int zero__p2p_close(struct zero_comm_ctx *ctx);
int zero__p2p_reg(struct zero_comm_ctx *ctx, void *base, uint64_t bytes, uint32_t mem,
                  struct zero_mr **mr);
int zero__p2p_unreg(struct zero_comm_ctx *ctx, struct zero_mr *mr);
int zero__p2p_exchange(struct zero_comm_ctx *ctx, struct zero_mr *mr);
int zero__p2p_progress(struct zero_comm_ctx *ctx, struct zero_cqe *cqes, uint32_t max,
                       int64_t timeout_ns);
int zero__p2p_wake(struct zero_comm_ctx *ctx);
int zero__p2p_abort(struct zero_comm_ctx *ctx);
int zero__p2p_split(struct zero_comm_ctx *ctx, struct zero_comm *parent, int32_t color, int32_t key,
                    struct zero_comm **comm);
int zero__p2p_post(struct zero_comm *comm, const struct zero_coll *colls, uint32_t n, void *stream);
int zero__p2p_error(struct zero_comm *comm);
int zero__p2p_missing(struct zero_comm *comm, int32_t *ranks, uint32_t max);
int zero__p2p_wire_bytes(struct zero_comm *comm, uint64_t *bytes);
int zero__p2p_comm_close(struct zero_comm *comm);

#define ZERO__P2P_ENTRIES                                                                       \
    .close = zero__p2p_close, .reg = zero__p2p_reg, .unreg = zero__p2p_unreg,                   \
    .exchange = zero__p2p_exchange, .progress = zero__p2p_progress, .wake = zero__p2p_wake,     \
    .abort = zero__p2p_abort, .split = zero__p2p_split, .post = zero__p2p_post,                 \
    .error = zero__p2p_error, .missing = zero__p2p_missing, .wire_bytes = zero__p2p_wire_bytes, \
    .comm_close = zero__p2p_comm_close

#endif
