/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collectives over messages with one peer that says nothing but the input: records of a byte,
 * then twice as many bytes as it says. The transport's only receive that ever ends is the last one
 * of a word. In the library's exchange the peer says what this rank does, unless `hears` says
 * otherwise.
 */
#ifndef ZERO_TESTS_FUZZ_MESSAGES_H
#define ZERO_TESTS_FUZZ_MESSAGES_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/common/p2p/internal.h"

struct fake {
    struct zero__p2p p2p; /* first */
    struct zero__p2p_op *word;
    void *place;
    const uint8_t *data; /* what is left of the input */
    size_t size;
    bool flows;   /* progress() takes the next record, and fails after the last */
    bool relaxed; /* ZERO_NUMERICS */
    void (*hears)(struct fake *f, void *said, uint32_t bytes);
    unsigned char said[4096]; /* by this rank, in the exchange */
    uint32_t said_bytes;
};

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

/* The peer's next word; false when there is none, or nobody listens. */
static bool fake_say(struct fake *f)
{
    struct zero__p2p_op *op = f->word;

    if (!f->size || !op)
        return false;
    f->word = NULL;
    zero__p2p_end(op, (int64_t)fake_record(f, f->place, (size_t)op->bytes));
    return true;
}

static int fake_send(struct zero__p2p *t, int32_t peer, uint64_t tag, const void *data,
                     uint64_t bytes, void *handle, struct zero__p2p_op *op)
{
    (void)t, (void)peer, (void)tag, (void)data, (void)handle;
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
    }
    return 0;
}

static void fake_cancel(struct zero__p2p *t, struct zero__p2p_op *op)
{
    struct fake *f = (struct fake *)(void *)t;

    if (f->word == op)
        f->word = NULL;
    zero__p2p_end(op, -ECANCELED);
}

static int fake_progress(struct zero__p2p *t)
{
    struct fake *f = (struct fake *)(void *)t;

    return !f->flows ? 0 : fake_say(f) ? 1 : -EIO;
}

static void fake_wait(struct zero__p2p *t, int64_t timeout_ns)
{
    (void)t, (void)timeout_ns;
}

static void fake_wake(struct zero__p2p *t)
{
    (void)t;
}

static int fake_reg(struct zero__p2p *t, void *base, uint64_t bytes, uint32_t mem, void **handle)
{
    (void)t, (void)bytes, (void)mem;
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
                                              .wake = fake_wake,
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

#define FAKE_MEMORY 8192

/* A context of two ranks; the exchange and the host live as long as it. */
struct fake_rank {
    struct zero_host host;
    struct zero_oob oob;
    struct zero__voice voice;
    struct zero_comm_ctx *ctx;
    struct zero_mr *mr;
};

/* most: bytes of a message; few make small buffers. */
static bool fake_open(struct fake *f, uint64_t most, struct fake_rank *r)
{
    static char memory[FAKE_MEMORY];

    f->p2p = (struct zero__p2p){.ops = &fake_ops, .max_message = most};
    r->host = (struct zero_host){
        .size = sizeof r->host, .ctx = f, .fail = fake_fail, .param = fake_param};
    r->oob = (struct zero_oob){.size = sizeof r->oob,
                               .ctx = f,
                               .rank = 0,
                               .ranks = 2,
                               .post = fake_post,
                               .test = fake_test};
    r->voice = (struct zero__voice){&r->host, "fuzz"};
    const struct zero_comm_open params = {.size = sizeof params,
                                          .host = &r->host,
                                          .oob = &r->oob,
                                          .device = -1,
                                          .timeout_ns = 1000000000};
    r->ctx = NULL;
    return !zero__p2p_open(&r->voice, &params, &f->p2p, &r->ctx) &&
           !zero__p2p_reg(r->ctx, memory, sizeof memory, ZERO_MEM_HOST, &r->mr);
}

static void fake_collective(struct zero_comm *comm, struct zero_mr *mr, uint32_t kind)
{
    struct zero_coll q = {.kind = kind, .src_dtype = ZERO_F32, .dst_dtype = ZERO_F32, .scale = 1};

    if (kind != ZERO_BARRIER) {
        q.count = 64;
        q.src = (struct zero_slice){mr, 0, 256};
        q.dst = (struct zero_slice){mr, FAKE_MEMORY / 2, kind == ZERO_ALL_GATHER ? 512 : 256};
    }
    zero__p2p_post(comm, &q, 1, NULL);
}

static void fake_turn(struct zero_comm_ctx *ctx)
{
    struct zero_cqe cqes[4];

    zero__p2p_progress(ctx, cqes, 4, 0);
    zero__p2p_progress(ctx, cqes, 4, 0);
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

#endif
