/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of collectives over messages. Nothing is allocated after a communicator is made: every
 * message has its own place here, at most one of a kind under way for a collective and a peer.
 *
 * A rank has collectives `completed` … `started` - 1 under way, at most P2P_RUNS, and `started` …
 * `posted` - 1 waiting. A peer cannot complete what this rank has not started, so it is never more
 * than P2P_RUNS ahead of `started`, and its words fit into an inbox of twice as many places.
 */
#ifndef ZERO_PLUGINS_P2P_INTERNAL_H
#define ZERO_PLUGINS_P2P_INTERNAL_H

#include <stdatomic.h>

#include "../fingerprint.h"
#include "../idle.h"
#include "machine/cores.h"
#include "machine/isa.h"
#include "p2p.h"

#define P2P_SLOTS 64u /* posted and not completed; a power of two */
#define P2P_RUNS 8u   /* of them under way; a power of two */
#define P2P_INBOX (2 * P2P_RUNS)
#define P2P_DEPTH 3u /* chunks of sums that are received at the same time */
#define P2P_WHY 400
#define P2P_MESSAGE_MOST (UINT64_C(1) << 30) /* well within what every transport takes */
#define P2P_CHUNK_LEAST (UINT64_C(4) << 10)
#define P2P_CHUNK_MOST (UINT64_C(512) << 10)
#define P2P_BUFFER (UINT64_C(4) << 20) /* for chunks of a communicator, if that is enough */
#define P2P_PIECE (UINT64_C(1) << 20)  /* of work in a turn of progress */
#define P2P_LANES 2u                   /* chunks of every shard that go round side by side */
#define P2P_WINDOW 4u                  /* steps that are under way; more than P2P_LANES */
#define P2P_IDS (1u << 14)
#define P2P_QUIET_NS (INT64_C(1000000000)) /* for receives to end after an error */

/* ---- Words: small messages about collectives ------------------------------------------------- */

enum p2p_word {
    P2P_POST = 1, /* this rank has started collective `index` */
    P2P_CREDIT,   /* chunks of it that the peer may send now: all below `granted` */
    P2P_FAIL,     /* the communicator is over: err, why */
    P2P_ABORT,    /* the same, and so is the whole context of rank `index` of the context */
    P2P_BYE,      /* this rank has closed the communicator after `index` words */
    P2P_NOTICE,   /* a part of a split; index: its turn */
};

enum p2p_call { P2P_CALL_SPLIT = 1, P2P_CALL_EXCHANGE };

/* What a rank says in a collective call that is not a collective of comm.h. */
struct p2p_notice {
    uint32_t call; /* enum p2p_call */
    int32_t status, color, key;
    uint32_t next_id;
};

struct p2p_message {
    uint32_t word; /* enum p2p_word */
    int32_t err;
    uint64_t index, granted;
    union {
        struct zero__fingerprint print;
        struct p2p_notice notice;
        char why[P2P_WHY];
    };
};

/* ---- Communicators --------------------------------------------------------------------------- */

/* What a peer has said about a collective. */
struct p2p_inbox {
    bool posted;
    uint64_t index, granted;
    struct zero__fingerprint print;
};

struct p2p_peer {
    struct zero__p2p_op word_in, last, notice;
    struct p2p_message *message_in;
    struct p2p_inbox inbox[P2P_INBOX];
    struct p2p_notice notices[2]; /* of its last two turns, which may come in any order */
    uint64_t notice_turns[2];     /* 1 + the turn that is there */
    bool say_last;                /* it has not been told yet that the communicator is over */
    uint64_t n_said, n_heard;     /* words to it and from it, but for BYE */
    bool bye;                     /* it has closed the communicator, */
    uint64_t last_word;           /* after so many words; some may still be on their way */
};

/* What goes on with one peer for a collective under way. */
struct p2p_part {
    bool agreed;   /* it has started, and the same */
    bool feeds;    /* it sends chunks that this rank grants */
    bool said;     /* it was sent this rank's POST */
    bool refused;  /* the transport had no room for a message to it: no receive is late any more */
    uint64_t told; /* chunks granted to it in the last word */
    struct p2p_message *message;
    struct zero__p2p_op word;

    struct zero__p2p_op chunk[P2P_DEPTH]; /* of its sum */
    uint64_t chunks, chunks_sent, chunks_gone;

    /* Bytes that go to it as they are, and that come so. */
    struct zero__p2p_op out, in;
    const char *out_at;
    char *in_at;
    uint64_t out_bytes, out_sent, out_gone;
    uint64_t in_bytes, in_asked, in_got;
};

/* A collective that was posted. */
struct p2p_coll {
    struct zero_coll c;
    char *src, *dst; /* this rank's */
    void *src_handle, *dst_handle;
};

/* A collective under way. */
struct p2p_run {
    struct p2p_coll *coll;
    uint64_t index;
    struct zero__fingerprint print;
    struct p2p_part *parts;
    int32_t asked; /* ranks before it: receives were begun */
    int32_t n_agreed;
    uint64_t copied; /* of this rank's own part of a gather */
    uint64_t own_bytes;
    uint64_t wire; /* bytes of data that were handed to the transport */
    /* Of a reduction: */
    uint64_t chunk; /* elements */
    uint64_t first, count, chunks, granted, summed;
    unsigned streams; /* past the caches, enum zero__streams */
    /* Of one that goes in steps: */
    int32_t sums, gathers; /* steps of a chunk */
    uint64_t steps, steps_gone;
};

/* Buffers of one chunk, one from each peer. */
struct p2p_slot {
    struct p2p_run *run;
    uint32_t place; /* of its buffers */
    uint64_t chunk;
    int32_t asked;            /* receives that were begun */
    struct zero__p2p_op *ops; /* t NULL: not begun */
};

/* The ranks as hosts x locals, see way.c. hosts 0: direct exchange, in which nothing is a step. */
struct p2p_way {
    int32_t hosts, locals, host, local; /* the latter two: this rank's place */
    int32_t *grid;                      /* rank of [host * locals + local] */
};

/* A message of a step; one that the step does not have counts as ended. */
struct p2p_leg {
    struct zero__p2p_op op;
    bool begun, ended;
};

enum p2p_leg_kind { P2P_IN, P2P_GIVE, P2P_PASS, P2P_LEG_KINDS };

/* What a leg carries; bytes 0: there is none. */
struct p2p_load {
    int32_t peer;
    char *at;
    void *handle;
    uint64_t bytes;
    uint64_t step; /* of the receiver */
};

/* A step under way. Of its legs of a kind, one for each local: own index, the leg between hosts. */
struct p2p_step {
    struct p2p_run *run;
    uint64_t index, next; /* this step, and the one of the same chunk after it */
    uint64_t chunk;
    int32_t t; /* how many of its chunk were before it */
    int32_t asked;
    bool summed;
    char *buffers;
    struct p2p_leg *legs[P2P_LEG_KINDS];
};

struct zero_comm {
    struct zero_comm_ctx *ctx;
    struct zero_comm *next;
    uint32_t id;
    int32_t rank, ranks;
    int32_t *world; /* ranks of the context */
    uint64_t piece; /* bytes of the longest message */
    uint64_t posted, started, completed;
    uint64_t seen; /* n_ended of the transport when all was looked at last */
    bool stirred;  /* there may be something to do although no message has ended since */
    struct p2p_coll colls[P2P_SLOTS];
    struct p2p_run runs[P2P_RUNS];
    struct p2p_peer *peers;
    uint64_t wire;

    char *buffers; /* words and chunks, registered as one */
    uint64_t buffer_bytes;
    void *handle;
    struct p2p_message *last, *notice[2];
    uint64_t n_notices;

    char *chunks; /* P2P_DEPTH * ranks * chunk_bytes */
    uint64_t chunk_bytes;
    struct p2p_slot slots[P2P_DEPTH];
    uint64_t given, summed;           /* chunks: receives begun, added up */
    uint64_t next_index, next_number; /* the collective and chunk, or step, to be taken next */
    const void **sources;

    struct p2p_way way;
    struct p2p_leg *legs; /* of all steps */
    struct p2p_step steps[P2P_WINDOW];
    uint64_t steps_begun, steps_gone; /* those between are under way */

    int err;          /* sticky */
    int64_t quiet_ns; /* then completions come even if receives have not ended */
    char why[P2P_WHY];
};

struct zero_mr {
    struct zero_mr *next;
    char *base;
    uint64_t bytes;
    void *handle;
    bool exchanged;
};

struct zero_comm_ctx {
    struct zero__voice voice;
    struct zero__p2p *t;
    const struct zero_oob *oob;
    enum zero__isa isa;
    struct zero__caches caches;
    bool relaxed;
    int32_t group; /* of relaxed sums: 0: the ranks of a host */
    int32_t rank, ranks;
    int32_t *hosts; /* of each rank: the first one of its machine */
    uint64_t most;  /* bytes of the longest message: the least of what the ranks can */
    int64_t timeout_ns;
    uint32_t next_id;
    atomic_bool aborted, woken;
    struct zero__idle idle; /* of progress */
    int32_t left;           /* a rank that aborted, -1: none */
    int broken;             /* an error of the transport */
    bool stopped;           /* it was: no message is under way, whatever its op says */
    struct p2p_notice *notices; /* of all ranks of the call that is being made */
    struct zero_mr *mrs;
    struct zero_comm *comms;  /* the first one gets the next turn */
    struct zero_comm *closed; /* whose messages have not ended yet */
};

/* communicator.c: of one of n chunks: what the buffer has room for, within bounds. */
uint64_t zero__p2p_chunk_bytes(const struct zero_comm *comm, uint64_t n);
void zero__p2p_comm_free(struct zero_comm *comm);
/* Ends the communicator; the first error stays. Returns err. */
int zero__p2p_fail(struct zero_comm *comm, int err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Ends every communicator after abort(). */
void zero__p2p_abort_all(struct zero_comm_ctx *ctx);
/* Has every receive into the application's memory ended? */
bool zero__p2p_is_quiet(const struct zero_comm *comm);

/* closing.c: tells those who do not know yet; false when somebody could not be told now. */
bool zero__p2p_say_last(struct zero_comm *comm);
/* Frees closed communicators that nothing is under way for. */
void zero__p2p_sweep(struct zero_comm_ctx *ctx);
/*
 * After an error collectives end before their messages do. Waits for those that use this memory of
 * the application, for a moment; if some still do, or if the transport is broken, it is stopped
 * while the memory is there: nothing that moves it later may touch what is gone.
 */
void zero__p2p_let_go(struct zero_comm_ctx *ctx, const struct zero_mr *mr);
/* The same as the sweep, waiting for a while. */
void zero__p2p_linger(struct zero_comm_ctx *ctx, bool failed);

/* context.c: stops the transport, once. */
void zero__p2p_stop(struct zero_comm_ctx *ctx, bool aborted);
/* 0, or the error that keeps the context from doing anything new, and its sentence. */
int zero__p2p_usable(struct zero_comm_ctx *ctx);
/* Says that the transport is broken; returns how. */
int zero__p2p_broken(const struct zero_comm_ctx *ctx);

/* gather.c: all-gathers notices of the parent, NULL: of the context, and judges them. */
int zero__p2p_gather(struct zero_comm_ctx *ctx, struct zero_comm *parent,
                     const struct p2p_notice *mine, struct p2p_notice *all);

/* words.c: receives what peers say, sends what they are to know. */
void zero__p2p_listen(struct zero_comm *comm);
void zero__p2p_talk(struct zero_comm *comm);
uint64_t zero__p2p_data_tag(const struct zero_comm *comm, int32_t from, uint64_t index,
                            uint64_t chunk, bool of_sum);
/* Is it the tag of a word? Else it is one of data. */
static inline bool zero__p2p_tag_is_word(uint64_t tag)
{
    return tag >> (ZERO__P2P_TAG_BITS - 1);
}
/* The collective under way that a tag of data belongs to. */
struct p2p_run *zero__p2p_tag_run(struct zero_comm *comm, uint64_t tag);
int zero__p2p_word_send(struct zero_comm *comm, int32_t p, struct p2p_message *m,
                        struct zero__p2p_op *op);

/*
 * message.c: begins a message; 0, or -EAGAIN when there is no room now, or another error, after
 * which the communicator is over. p: rank of the communicator. What is sent as data counts in the
 * collective of its tag.
 */
int zero__p2p_send(struct zero_comm *comm, int32_t p, uint64_t tag, const void *data,
                   uint64_t bytes, void *handle, struct zero__p2p_op *op);
int zero__p2p_recv(struct zero_comm *comm, int32_t p, uint64_t tag, void *data, uint64_t bytes,
                   void *handle, struct zero__p2p_op *op);
/* The transport's own words for the error, if it has any; errno's else. */
const char *zero__p2p_words(const struct zero__p2p *t, int err);
/* Asks for a receive to end, if it is under way. */
void zero__p2p_cancel(struct zero_comm *comm, struct zero__p2p_op *op);
/* Did the message that has ended do so with `bytes` bytes? Else the communicator is over. */
bool zero__p2p_arrived(struct zero_comm *comm, int32_t p, const struct zero__p2p_op *op,
                       uint64_t bytes, const char *what);

/* run.c: starts what was posted; moves it on; says whether it is through. */
void zero__p2p_start(struct zero_comm *comm);
/* The collective of the next chunk, or step where there are such; NULL: none is left under way. */
struct p2p_run *zero__p2p_next(struct zero_comm *comm, uint64_t *number);
void zero__p2p_run(struct zero_comm *comm, struct p2p_run *run, uint64_t *budget);
bool zero__p2p_is_done(const struct zero_comm *comm, const struct p2p_run *run);

/* sum.c: begins receives of chunks; adds up those that are there. */
void zero__p2p_grant(struct zero_comm *comm);
void zero__p2p_sum(struct zero_comm *comm, uint64_t *budget);
/* Elements that rank p sums in a reduction. */
void zero__p2p_sum_range(const struct zero_coll *c, int32_t p, int32_t ranks, uint64_t *first,
                         uint64_t *count);

/* way.c: what the options say about sums; who goes with whom in a communicator that was formed. */
int zero__p2p_numerics(const struct zero__voice *voice, bool *relaxed, int32_t *group);
int zero__p2p_way_make(struct zero_comm *comm);

/* steps.c */
int zero__p2p_steps_make(struct zero_comm *comm);
/* How many buffers the steps have. */
uint64_t zero__p2p_step_buffers(const struct zero_comm *comm);
bool zero__p2p_is_stepped(const struct zero_comm *comm, const struct zero_coll *c);
void zero__p2p_steps_fill(struct zero_comm *comm, struct p2p_run *run);
void zero__p2p_steps(struct zero_comm *comm, uint64_t *budget);
bool zero__p2p_step_waits_for(const struct zero_comm *comm, const struct p2p_run *run, int32_t p);
/* Is a leg of any step, or of those that receive, under way? */
bool zero__p2p_steps_busy(const struct zero_comm *comm, bool receives);
/* Is one under way for a collective of this memory? */
bool zero__p2p_steps_use(const struct zero_comm *comm, const struct zero_mr *mr);
void zero__p2p_steps_cancel(struct zero_comm *comm);

/* leg.c: what leg x of a step carries; adds up what has come. */
struct p2p_load zero__p2p_load(const struct zero_comm *comm, const struct p2p_step *step,
                               enum p2p_leg_kind kind, int32_t x);
/* Returns the bytes that it went through. */
uint64_t zero__p2p_step_sum(struct zero_comm *comm, const struct p2p_step *step);
/* Elements of the shard that rank p owns, of a collective that goes in steps. */
void zero__p2p_shard(const struct zero_coll *c, int32_t p, int32_t ranks, uint64_t *first,
                     uint64_t *count);
/* Bytes of an element of a sum that is not finished. */
uint64_t zero__p2p_wide(const struct zero_coll *c);

/* progress.c: one round over everything; the number of completions. */
uint32_t zero__p2p_turn(struct zero_comm_ctx *ctx, struct zero_cqe *cqes, uint32_t max, bool *news);

static inline struct p2p_run *zero__p2p_run_at(struct zero_comm *comm, uint64_t index)
{
    return &comm->runs[index % P2P_RUNS];
}

static inline int zero__p2p_lost(const struct zero__p2p *t, int32_t peer)
{
    return t->n_lost ? t->ops->lost(t, peer) : 0;
}

/* It has closed the communicator, and all it said before was heard. */
static inline bool zero__p2p_has_left(const struct p2p_peer *peer)
{
    return peer->bye && peer->n_heard >= peer->last_word;
}

/* Does a receive of so many bytes begin after own sends? */
static inline bool zero__p2p_is_late(const struct zero_comm *comm, uint64_t bytes)
{
    uint64_t least = comm->ctx->t->late_bytes;
    return least != 0 && bytes >= least;
}

static inline bool zero__p2p_coll_uses(const struct p2p_coll *coll, const struct zero_mr *mr)
{
    return coll->c.src.mr == mr || coll->c.dst.mr == mr;
}

static inline bool zero__p2p_gathers(const struct zero_coll *c)
{
    return c->kind == ZERO_ALL_REDUCE && !(c->flags & ZERO_COLL_ACCUMULATE);
}

#endif
