/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words between ranks over messages. The other rank of two says nothing but the input: lengths,
 * each followed by so many bytes of a word. This rank has an all_reduce, a gather and a barrier
 * under way.
 */
#include "fuzz.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/common/p2p/internal.h"

static const struct {
    unsigned char bytes;
    struct {
        uint32_t word;
        int32_t err;
        uint64_t index, granted;
        struct zero__fingerprint print;
    } __attribute__((packed)) post;
    unsigned char more;
    struct {
        uint32_t word;
        int32_t err;
        uint64_t index, granted;
    } __attribute__((packed)) credit;
} __attribute__((packed)) good = {sizeof good.post,
                                  {P2P_POST, 0, 0, 1, {.count = 64}},
                                  sizeof good.credit,
                                  {P2P_CREDIT, 0, 0, 2}};

const struct fuzz_seed fuzz_seeds[] = {
    {&good, sizeof good},
    FUZZ_TEXT("\x30\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0 a reason for an end"),
    FUZZ_TEXT("\x38\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0"),
    {NULL, 0},
};

/* ---- A transport whose only receive that ever ends is that of words -------------------------- */

struct fake {
    struct zero__p2p p2p; /* first */
    struct zero__p2p_op *word;
    void *place;
};

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
    if (tag >> 54) {
        f->word = op;
        f->place = data;
    }
    return 0;
}

static void fake_cancel(struct zero__p2p *t, struct zero__p2p_op *op)
{
    (void)t;
    zero__p2p_end(op, -ECANCELED);
}

static int fake_progress(struct zero__p2p *t)
{
    (void)t;
    return 0;
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

static const struct zero__p2p_ops ops = {.send = fake_send,
                                         .recv = fake_recv,
                                         .cancel = fake_cancel,
                                         .progress = fake_progress,
                                         .wait = fake_wait,
                                         .wake = fake_wake,
                                         .reg = fake_reg,
                                         .unreg = fake_unreg,
                                         .stop = fake_stop,
                                         .close = fake_close};

/* ---- The library, as far as the plugin sees it: the other rank says what this one does ------- */

static unsigned char said[65536];
static uint32_t said_bytes;

static int oob_post(void *ctx, const void *src, uint32_t len)
{
    (void)ctx;
    memcpy(said, src, len);
    said_bytes = len;
    return 0;
}

static int oob_test(void *ctx, void *dst)
{
    (void)ctx;
    memcpy(dst, said, said_bytes);
    memcpy((char *)dst + said_bytes, said, said_bytes);
    return 0;
}

static int host_fail(void *ctx, const char *plugin, int err, const char *fmt, ...)
{
    (void)ctx, (void)plugin, (void)fmt;
    return err;
}

static const char *host_param(void *ctx, const char *plugin, const char *key, const char *dflt,
                              const char *help)
{
    (void)ctx, (void)plugin, (void)key, (void)help;
    return dflt;
}

static void post(struct zero_comm *comm, struct zero_mr *mr, uint32_t kind)
{
    struct zero_coll q = {.kind = kind, .src_dtype = ZERO_F32, .dst_dtype = ZERO_F32, .scale = 1};

    if (kind != ZERO_BARRIER) {
        q.count = 64;
        q.src = (struct zero_slice){mr, 0, 256};
        q.dst = (struct zero_slice){mr, 4096, kind == ZERO_ALL_GATHER ? 512 : 256};
    }
    zero__p2p_post(comm, &q, 1, NULL);
}

static void feed(struct fake *f, struct zero_comm_ctx *ctx, const uint8_t *data, size_t size)
{
    struct zero_cqe cqes[4];

    while (size > 1 && f->word) {
        size_t n = data[0] * 2u < size - 1 ? data[0] * 2u : size - 1;
        struct zero__p2p_op *op = f->word;
        n = n < op->bytes ? n : (size_t)op->bytes;
        memcpy(f->place, data + 1, n);
        f->word = NULL;
        zero__p2p_end(op, (int64_t)n);
        zero__p2p_progress(ctx, cqes, 4, 0);
        zero__p2p_progress(ctx, cqes, 4, 0);
        data += 1 + n;
        size -= 1 + n;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct zero_host host = {.size = sizeof host, .fail = host_fail, .param = host_param};
    const struct zero__voice voice = {&host, "fuzz"};
    const struct zero_oob oob = {
        .size = sizeof oob, .rank = 0, .ranks = 2, .post = oob_post, .test = oob_test};
    const struct zero_comm_open params = {
        .size = sizeof params, .host = &host, .oob = &oob, .device = -1, .timeout_ns = 1000000000};
    struct fake fake = {.p2p = {.ops = &ops, .max_message = 1 << 20}};
    static char memory[8192];
    struct zero_comm_ctx *ctx;
    struct zero_comm *comm;
    struct zero_mr *mr;

    if (zero__p2p_open(&voice, &params, &fake.p2p, &ctx))
        return 0;
    if (!zero__p2p_split(ctx, NULL, 0, 0, &comm) &&
        !zero__p2p_reg(ctx, memory, sizeof memory, ZERO_MEM_HOST, &mr) &&
        !zero__p2p_exchange(ctx, mr)) {
        post(comm, mr, ZERO_ALL_REDUCE);
        post(comm, mr, ZERO_ALL_GATHER);
        post(comm, mr, ZERO_BARRIER);
        feed(&fake, ctx, data, size);
    }
    zero__p2p_abort(ctx);
    zero__p2p_close(ctx);
    return 0;
}
