/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collectives over messages with one peer that says nothing but the input. A record of that is
 * a word, a byte and then twice as many bytes as it says; or the end of a receive of data: a byte
 * of FAKE_DATA and more, which chooses one of those under way, and two that say how many bytes are
 * missing, or, as a negative errno, that it failed. In the library's exchange the peer says what
 * this rank does, unless `hears` says otherwise.
 */
#ifndef ZERO_TESTS_FUZZ_MESSAGES_H
#define ZERO_TESTS_FUZZ_MESSAGES_H

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/common/p2p/internal.h"

#define FAKE_DATA 0xf0u
#define FAKE_MOST 64u /* messages of data under way in a direction */

struct fake_message {
    struct zero__p2p_op *op;
    void *place;
};

struct fake {
    struct zero__p2p p2p; /* first */
    struct zero__p2p_op *word;
    void *place;
    const uint8_t *data; /* what is left of the input */
    size_t size;
    /* Then progress() takes records until its notices are there, and fails after the last one. */
    struct zero_comm *gathers;
    bool relaxed; /* ZERO_NUMERICS */
    bool late;    /* no time is left */
    bool full;    /* every third send has no room at first */
    bool slow;    /* sends end in progress(), the last one first */
    void (*hears)(struct fake *f, void *said, uint32_t bytes);
    unsigned char said[4096]; /* by this rank, in the exchange */
    uint32_t said_bytes;
    struct fake_message receives[FAKE_MOST], sends[FAKE_MOST];
    unsigned n_receives, n_sends, n_tried;
    unsigned done, failed; /* collectives that ended */
};

/* The peer has all said, so nobody else has to run; on a busy machine that would take its time. */
int sched_yield(void)
{
    return 0;
}

static void fake_begin(struct fake_message *list, unsigned *n, struct zero__p2p_op *op, void *place)
{
    if (*n == FAKE_MOST)
        abort();
    list[(*n)++] = (struct fake_message){op, place};
}

static struct zero__p2p_op *fake_take(struct fake_message *list, unsigned *n, unsigned i)
{
    struct zero__p2p_op *op = list[i].op;

    memmove(&list[i], &list[i + 1], (--*n - i) * sizeof *list);
    return op;
}

/* The next record, at most `most` bytes of it. */
static size_t fake_record(struct fake *f, void *to, size_t most)
{
    size_t n = f->size ? f->data[0] * 2u : 0, copied;

    if (!f->size)
        return 0;
    n = n < f->size - 1 ? n : f->size - 1;
    copied = n < most ? n : most;
    memcpy(to, f->data + 1, copied);
    f->data += 1 + n;
    f->size -= 1 + n;
    return copied;
}

/* A receive of data ends, if one is under way. */
static void fake_arrive(struct fake *f)
{
    unsigned which = f->data[0] - FAKE_DATA;
    int16_t missing = 0;

    memcpy(&missing, f->data + 1, f->size > 2 ? 2 : f->size - 1);
    f->data += f->size > 3 ? 3 : f->size;
    f->size -= f->size > 3 ? 3 : f->size;
    if (!f->n_receives)
        return;
    which %= f->n_receives;
    void *place = f->receives[which].place;
    struct zero__p2p_op *op = fake_take(f->receives, &f->n_receives, which);
    int64_t bytes = missing > (int64_t)op->bytes ? 0 : (int64_t)op->bytes - missing;
    if (missing >= 0)
        memset(place, 0x3c, (size_t)bytes);
    zero__p2p_end(op, missing < 0 ? missing : bytes);
}

/* What the peer does next; false when that is nothing, or a word for which nobody listens. */
static bool fake_say(struct fake *f)
{
    struct zero__p2p_op *op = f->word;

    if (f->size && f->data[0] >= FAKE_DATA) {
        fake_arrive(f);
        return true;
    }
    if (!f->size || !op)
        return false;
    f->word = NULL;
    zero__p2p_end(op, (int64_t)fake_record(f, f->place, (size_t)op->bytes));
    return true;
}

static int fake_send(struct zero__p2p *t, int32_t peer, uint64_t tag, const void *data,
                     uint64_t bytes, void *handle, struct zero__p2p_op *op)
{
    struct fake *f = (struct fake *)(void *)t;

    (void)peer, (void)tag, (void)data, (void)handle;
    if (f->full && ++f->n_tried % 3 == 0)
        return -EAGAIN;
    if (f->slow)
        fake_begin(f->sends, &f->n_sends, op, NULL);
    else
        zero__p2p_end(op, (int64_t)bytes);
    return 0;
}

static int fake_recv(struct zero__p2p *t, int32_t peer, uint64_t tag, void *data, uint64_t bytes,
                     void *handle, struct zero__p2p_op *op)
{
    struct fake *f = (struct fake *)(void *)t;

    (void)peer, (void)bytes, (void)handle;
    if (zero__p2p_tag_is_word(tag)) {
        f->word = op;
        f->place = data;
    } else {
        fake_begin(f->receives, &f->n_receives, op, data);
    }
    return 0;
}

static void fake_cancel(struct zero__p2p *t, struct zero__p2p_op *op)
{
    struct fake *f = (struct fake *)(void *)t;

    if (f->word == op)
        f->word = NULL;
    for (unsigned i = 0; i < f->n_receives; i++)
        if (f->receives[i].op == op) {
            fake_take(f->receives, &f->n_receives, i);
            break;
        }
    zero__p2p_end(op, -ECANCELED);
}

/* Of the gather under way: what the peer says after it is for another one. */
static bool fake_has_noticed(const struct zero_comm *comm)
{
    const struct p2p_peer *peer = &comm->peers[1 - comm->rank];

    return peer->notice_turns[(comm->n_notices - 1) % 2] == comm->n_notices;
}

static int fake_progress(struct zero__p2p *t)
{
    struct fake *f = (struct fake *)(void *)t;
    bool sent = f->n_sends;

    if (sent) {
        struct zero__p2p_op *op = fake_take(f->sends, &f->n_sends, f->n_sends - 1);
        zero__p2p_end(op, (int64_t)op->bytes);
    }
    if (f->gathers && !fake_has_noticed(f->gathers))
        return fake_say(f) ? 1 : -EIO;
    return sent;
}

static void fake_wait(struct zero__p2p *t, int64_t timeout_ns)
{
    (void)t, (void)timeout_ns;
}

static int fake_reg(struct zero__p2p *t, void *base, uint64_t bytes, void **handle)
{
    (void)t, (void)bytes;
    *handle = base;
    return 0;
}

static void fake_unreg(struct zero__p2p *t, void *handle)
{
    (void)t, (void)handle;
}

static void fake_stop(struct zero__p2p *t, bool aborted)
{
    (void)t, (void)aborted;
}

static void fake_close(struct zero__p2p *t)
{
    (void)t;
}

static const struct zero__p2p_ops fake_ops = {.send = fake_send,
                                              .recv = fake_recv,
                                              .cancel = fake_cancel,
                                              .progress = fake_progress,
                                              .wait = fake_wait,
                                              .reg = fake_reg,
                                              .unreg = fake_unreg,
                                              .stop = fake_stop,
                                              .close = fake_close};

/* ---- The library, as far as the plugin sees it ----------------------------------------------- */

static int fake_post(void *ctx, const void *src, uint32_t len)
{
    struct fake *f = ctx;

    if (len > sizeof f->said)
        return -EMSGSIZE;
    memcpy(f->said, src, len);
    f->said_bytes = len;
    return 0;
}

static int fake_test(void *ctx, void *dst)
{
    struct fake *f = ctx;

    memcpy(dst, f->said, f->said_bytes);
    if (f->hears)
        f->hears(f, f->said, f->said_bytes);
    memcpy((char *)dst + f->said_bytes, f->said, f->said_bytes);
    return 0;
}

__attribute__((format(printf, 4, 5))) static int fake_fail(void *ctx, const char *plugin, int err,
                                                           const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    (void)ctx, (void)plugin;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err;
}

static const char *fake_param(void *ctx, const char *plugin, const char *key, const char *dflt,
                              const char *help)
{
    const struct fake *f = ctx;

    (void)plugin, (void)help;
    return f->relaxed && strcmp(key, "numerics") == 0 ? "relaxed" : dflt;
}

/* ---- What a target does with it -------------------------------------------------------------- */

#define FAKE_MEMORY 16384

/* A context of two ranks; the exchange and the host live as long as it. */
struct fake_rank {
    struct zero_host host;
    struct zero_oob oob;
    struct zero_comm_ctx *ctx;
    struct zero_mr *mr;
};

/* most: bytes of a message; few make small buffers. */
static bool fake_open(struct fake *f, uint64_t most, struct fake_rank *r)
{
    static char memory[FAKE_MEMORY];

    f->p2p.ops = &fake_ops;
    f->p2p.voice = (struct zero__voice){&r->host, "fuzz"};
    f->p2p.wake_fd = -1;
    f->p2p.max_message = most;
    r->host = (struct zero_host){
        .size = sizeof r->host, .ctx = f, .fail = fake_fail, .param = fake_param};
    r->oob = (struct zero_oob){.size = sizeof r->oob,
                               .ctx = f,
                               .rank = 0,
                               .ranks = 2,
                               .post = fake_post,
                               .test = fake_test};
    const struct zero_comm_open params = {.size = sizeof params,
                                          .host = &r->host,
                                          .oob = &r->oob,
                                          .device = -1,
                                          .timeout_ns = f->late ? 0 : 1000000000};
    r->ctx = NULL;
    return !zero__p2p_open(&params, &f->p2p, &r->ctx) &&
           !zero__p2p_reg(r->ctx, memory, sizeof memory, ZERO_MEM_HOST, &r->mr);
}

/*
 * This rank's collectives. Messages of 512 bytes make five chunks of the longer sum, two more than
 * are received at a time, and three pieces of the gather and the broadcast.
 */
#define FAKE_SUM 128
#define FAKE_PIECES 300
#define FAKE_CHUNKS 640
#define FAKE_COLLECTIVES 5

static void fake_collectives(struct zero_comm *comm, struct zero_mr *mr)
{
    int32_t ranks = comm->ranks, root = ranks - 1 - comm->rank;
    const struct {
        uint32_t kind;
        uint64_t count;
        int32_t from, to; /* times `count` in the source and the destination */
    } all[FAKE_COLLECTIVES] = {
        {ZERO_ALL_REDUCE, FAKE_SUM, 1, 1},
        {ZERO_ALL_GATHER, FAKE_PIECES, 1, ranks},
        {ZERO_REDUCE_SCATTER, FAKE_CHUNKS, ranks, 1},
        {ZERO_BROADCAST, FAKE_PIECES, root == comm->rank, root != comm->rank},
        {ZERO_BARRIER, 0, 0, 0}};

    for (unsigned i = 0; i < FAKE_COLLECTIVES; i++) {
        struct zero_coll q = {
            .kind = all[i].kind, .src_dtype = ZERO_F32, .dst_dtype = ZERO_F32, .scale = 1};
        q.count = all[i].count;
        q.root = q.kind == ZERO_BROADCAST ? root : 0;
        q.src = (struct zero_slice){mr, 0, (uint64_t)all[i].from * q.count * 4};
        q.dst = (struct zero_slice){mr, FAKE_MEMORY / 2, (uint64_t)all[i].to * q.count * 4};
        if (zero__p2p_post(comm, &q, 1, NULL) && !comm->err)
            abort();
    }
}

static void fake_progress_twice(struct fake *f, struct zero_comm_ctx *ctx)
{
    struct zero_cqe cqes[4];

    for (int turn = 0; turn < 2; turn++) {
        int n = zero__p2p_progress(ctx, cqes, 4, 0);
        for (int i = 0; i < n; i++)
            *(cqes[i].res < 0 ? &f->failed : &f->done) += 1;
    }
}

/* All that the peer says, and a while after it. Whom this rank waits for is a rank, too. */
static void fake_converse(struct fake *f, struct zero_comm_ctx *ctx, struct zero_comm *comm)
{
    int32_t missing[2];

    fake_progress_twice(f, ctx);
    while (fake_say(f)) {
        fake_progress_twice(f, ctx);
        int n = zero__p2p_missing(comm, missing, 2);
        if (n > 1 || (n == 1 && missing[0] != 1))
            abort();
    }
    for (int i = 0; i < 8 || (i < 64 && f->n_sends); i++)
        fake_progress_twice(f, ctx);
}

/* Else the input would reach nobody, and no test say so. */
static void fake_must_listen(const struct fake *f)
{
    if (!f->word)
        abort();
}

/* An end is an errno, whatever the peer says of it. */
static void fake_check(int err)
{
    if (err > 0 || err < -4095)
        abort();
}

static void fake_end(struct fake_rank *r)
{
    if (!r->ctx)
        return;
    zero__p2p_abort(r->ctx);
    zero__p2p_close(r->ctx);
}

/* ---- What an input reaches ------------------------------------------------------------------- */

enum {
    FAKE_DONE = 1u << 0,   /* all collectives are complete */
    FAKE_HEARD = 1u << 1,  /* a notice */
    FAKE_BYE = 1u << 2,    /* all that the peer said before it left */
    FAKE_CLOSED = 1u << 3, /* and this rank left in peace, too */
    FAKE_ABORTED = 1u << 4,
    FAKE_DIFFER = 1u << 5, /* and the others: how the communicator failed */
    FAKE_DISORDER = 1u << 6,
    FAKE_SHORT = 1u << 7,
    FAKE_LONG = 1u << 8,
    FAKE_BROKE = 1u << 9,
    FAKE_GONE = 1u << 10,
    FAKE_TOLD = 1u << 11,
    FAKE_SPLIT = 1u << 12, /* notices.c: there is a communicator */
    FAKE_NOT_SPLIT = 1u << 13,
    FAKE_RING = 1u << 14, /* its sums go round */
};

static unsigned fake_error(const struct zero_comm *comm)
{
    static const struct {
        const char *why;
        unsigned bit;
    } ends[] = {{"posted different collectives", FAKE_DIFFER},
                {"broke the protocol", FAKE_DISORDER},
                {"were expected", FAKE_SHORT},
                {"sent more than", FAKE_LONG},
                {"the connection to rank", FAKE_BROKE},
                {"has closed the communicator", FAKE_GONE}};

    for (unsigned i = 0; i < sizeof ends / sizeof *ends; i++)
        if (strstr(comm->why, ends[i].why))
            return ends[i].bit;
    return FAKE_TOLD;
}

static unsigned fake_reached(const struct fake *f, const struct zero_comm *comm)
{
    const struct p2p_peer *peer = &comm->peers[comm->ranks - 1 - comm->rank];
    unsigned reached = comm->err ? fake_error(comm) : 0;

    if (f->done == FAKE_COLLECTIVES)
        reached |= FAKE_DONE;
    if (peer->notice_turns[0])
        reached |= FAKE_HEARD;
    if (peer->bye && zero__p2p_has_left(peer))
        reached |= FAKE_BYE;
    if (comm->ctx->left >= 0)
        reached |= FAKE_ABORTED;
    return reached;
}

/* ---- Records of good inputs ------------------------------------------------------------------ */

struct fake_head {
    uint32_t word;
    int32_t err;
    uint64_t index, granted;
} __attribute__((packed));

struct fake_word {
    unsigned char bytes;
    struct fake_head head;
} __attribute__((packed));

struct fake_post {
    unsigned char bytes;
    struct fake_head head;
    struct zero__fingerprint print;
} __attribute__((packed));

struct fake_notice {
    unsigned char bytes;
    struct fake_head head;
    struct p2p_notice notice;
} __attribute__((packed));

struct fake_data {
    unsigned char which;
    int16_t missing;
} __attribute__((packed));

#define FAKE_WORD(word, index, granted) \
    {                                   \
        sizeof(struct fake_head) / 2,   \
        {                               \
            word, 0, index, granted     \
        }                               \
    }
#define FAKE_POST(place, granted, ...)                                     \
    {                                                                      \
        (sizeof(struct fake_head) + sizeof(struct zero__fingerprint)) / 2, \
            {P2P_POST, 0, place, granted},                                 \
        {                                                                  \
            .index = place, .src_dtype = ZERO_F32, .dst_dtype = ZERO_F32,  \
            .scale_bits = 0x3f800000, __VA_ARGS__                          \
        }                                                                  \
    }
#define FAKE_NOTICE(turn, ...)                                                                \
    {                                                                                         \
        (sizeof(struct fake_head) + sizeof(struct p2p_notice)) / 2, {P2P_NOTICE, 0, turn, 0}, \
        {                                                                                     \
            .next_id = 1, __VA_ARGS__                                                         \
        }                                                                                     \
    }

/* What fake_collectives() posts: root is the peer's rank. */
#define FAKE_POSTS(root_)                                                                   \
    {                                                                                       \
        FAKE_POST(0, 1, .kind = ZERO_ALL_REDUCE, .count = FAKE_SUM),                        \
            FAKE_POST(1, 0, .kind = ZERO_ALL_GATHER, .count = FAKE_PIECES),                 \
            FAKE_POST(2, 3, .kind = ZERO_REDUCE_SCATTER, .count = FAKE_CHUNKS),             \
            FAKE_POST(3, 0, .kind = ZERO_BROADCAST, .count = FAKE_PIECES, .root = (root_)), \
            FAKE_POST(4, 0, .kind = ZERO_BARRIER)                                           \
    }

/* More than there are messages: those that meet no receive are nothing. */
#define FAKE_MESSAGES 48
#define FAKE_ALL_DATA                                \
    {                                                \
        [0 ... FAKE_MESSAGES - 1] = { FAKE_DATA, 0 } \
    }

/* All collectives, without a last word. */
struct fake_good {
    struct fake_post posts[FAKE_COLLECTIVES];
    struct fake_word credits[3];
    struct fake_data data[FAKE_MESSAGES];
} __attribute__((packed));

/* A ring's steps need more than the chunks of a sum. */
#define FAKE_GOOD(root)                                                    \
    {                                                                      \
        FAKE_POSTS(root),                                                  \
            {FAKE_WORD(P2P_CREDIT, 0, 100), FAKE_WORD(P2P_CREDIT, 1, 100), \
             FAKE_WORD(P2P_CREDIT, 2, 100)},                               \
            FAKE_ALL_DATA                                                  \
    }
#define FAKE_GOOD_WORDS (FAKE_COLLECTIVES + 3)

#endif
