/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The offload plugin `trace` stands on another one (ZERO_TRACE_OFFLOAD) and writes down what is
 * asked of it: every request when it ends (ZERO_LOG=trace:trace), and a table when the store is
 * closed (trace:info). Requests below are numbered, and the number says where their record is: so
 * an end finds its beginning, and one that has none is noticed.
 */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include <zero/offload.h>

#include "../common/below.h"
#include "../common/entry.h"
#include "../common/io.h"
#include "machine/clock.h"
#include "tally.h"

#define NAME "trace"
#define BELOW "trace_offload" /* the option */
#define REQUESTS 512u

struct record {
    struct zero_io io;
    uint64_t tag; /* below; 0: nothing is under way here */
    int64_t start_ns;
};

struct zero_store {
    struct zero__voice voice;
    struct zero_offload_ops ops;
    struct zero_store *inner;
    const char *below; /* its name */
    struct record records[REQUESTS]; /* of a tag: number tag % REQUESTS */
    uint64_t last_tag;
    uint32_t n_under_way, most_under_way;
    struct trace_tally sums[ZERO_IO_SYNC + 1]; /* of requests */
    int64_t open_ns, busy_ns, busy_since_ns;   /* while something was under way */
};

static int trace_probe(const struct zero_host *host, struct zero_store_info *info)
{
    const struct zero__voice v = {host, NAME};

    return zero__below_probe(&v, BELOW, true, info);
}

static int trace_open(const struct zero_store_open *params, struct zero_store **out)
{
    const struct zero__voice v = {params->host, NAME};
    struct zero_store *s = calloc(1, sizeof *s);
    int64_t start = zero__now_ns();
    int err;

    if (!s)
        return zero__say(&v, -ENOMEM, "no memory for a store");
    s->voice = v;
    s->open_ns = start;
    s->below = zero__below_name(&v, ZERO_IFACE_OFFLOAD, BELOW);
    err = zero__below_store(&v, BELOW, &s->ops);
    if (!err)
        err = s->ops.open(params, &s->inner);
    zero__tell(&v, ZERO_LOG_TRACE, "open of %" PRIu64 " bytes = %d in %.3f ms", params->bytes, err,
               (double)(zero__now_ns() - start) / 1e6);
    if (err)
        free(s);
    else
        *out = s;
    return err;
}

static int trace_info(struct zero_store *s, struct zero_store_info *info)
{
    struct zero_store_info full = {.size = sizeof full};
    int err = s->ops.info(s->inner, &full);

    if (err)
        return err;
    zero__below_describe(&s->voice, &full);
    zero__store_info_give(&full, info);
    return 0;
}

static int trace_resize(struct zero_store *s, uint64_t bytes)
{
    int err = s->ops.resize(s->inner, bytes);

    zero__tell(&s->voice, ZERO_LOG_TRACE, "resize to %" PRIu64 " bytes = %d", bytes, err);
    return err;
}

static int trace_reg(struct zero_store *s, void *base, uint64_t bytes, uint32_t mem,
                     struct zero_mr **mr)
{
    int err = s->ops.reg(s->inner, base, bytes, mem, mr);

    zero__tell(&s->voice, ZERO_LOG_TRACE, "reg of %" PRIu64 " bytes = %d", bytes, err);
    return err;
}

static int trace_unreg(struct zero_store *s, struct zero_mr *mr)
{
    return s->ops.unreg(s->inner, mr);
}

static int trace_map(struct zero_store *s, void **base)
{
    return s->ops.map ? s->ops.map(s->inner, base)
                      : zero__say(&s->voice, -ENOTSUP, "the store below cannot be mapped");
}

static struct record *place(struct zero_store *s, uint64_t tag)
{
    return &s->records[tag % REQUESTS];
}

static int trace_submit(struct zero_store *s, const struct zero_io *ios, uint32_t n)
{
    uint64_t first = s->last_tag + 1;
    struct zero_io own[16];
    uint32_t m = 0;

    for (; m < n && m < 16 && !place(s, first + m)->tag; m++) {
        *place(s, first + m) = (struct record){ios[m], first + m, zero__now_ns()};
        own[m] = ios[m];
        own[m].user = first + m;
    }
    int k = m ? s->ops.submit(s->inner, own, m) : 0;
    for (uint32_t i = k > 0 ? (uint32_t)k : 0; i < m; i++)
        place(s, first + i)->tag = 0;
    s->last_tag += k > 0 ? (uint64_t)k : 0;
    if (k > 0 && !s->n_under_way)
        s->busy_since_ns = zero__now_ns();
    s->n_under_way += k > 0 ? (uint32_t)k : 0;
    if (s->n_under_way > s->most_under_way)
        s->most_under_way = s->n_under_way;
    return k;
}

static struct zero_cqe note_end(struct zero_store *s, struct record *r, const struct zero_cqe *c)
{
    int64_t now = zero__now_ns(), ns = now - r->start_ns;
    struct zero_cqe out = {r->io.user, c->res};

    zero__trace_count(&s->sums[r->io.op <= ZERO_IO_SYNC ? r->io.op : 0], c->res, (uint64_t)c->res,
                      ns);
    zero__tell(&s->voice, ZERO_LOG_TRACE,
               "%s of %" PRIu64 " bytes at %" PRIu64 " = %" PRIi64 " in %.3f ms",
               zero__io_name(r->io.op), r->io.buf.len, r->io.store_off, c->res, (double)ns / 1e6);
    r->tag = 0;
    if (!--s->n_under_way)
        s->busy_ns += now - s->busy_since_ns;
    return out;
}

static int trace_poll(struct zero_store *s, struct zero_cqe *cqes, uint32_t max, int64_t timeout_ns)
{
    int n = s->ops.poll(s->inner, cqes, max, timeout_ns);

    for (int i = 0; i < n; i++) {
        struct record *r = place(s, cqes[i].user);
        if (!cqes[i].user || r->tag != cqes[i].user)
            return zero__below_strange(&s->voice, ZERO_IFACE_OFFLOAD, s->below, cqes[i].user);
        cqes[i] = note_end(s, r, &cqes[i]);
    }
    return n;
}

static int trace_wake(struct zero_store *s)
{
    return s->ops.wake(s->inner);
}

static void report(struct zero_store *s)
{
    for (uint32_t op = ZERO_IO_READ; op <= ZERO_IO_SYNC; op++) {
        const struct trace_tally *x = &s->sums[op];
        if (x->n)
            zero__tell(&s->voice, ZERO_LOG_INFO,
                       "%-5s %8" PRIu64 " requests, %" PRIu64 " failed, %.3f GB, %.3f ms each, the "
                       "longest %.3f ms",
                       zero__io_name(op), x->n, x->n_bad, (double)x->bytes / 1e9,
                       (double)x->total_ns / 1e6 / (double)x->n, (double)x->most_ns / 1e6);
    }
    zero__tell(&s->voice, ZERO_LOG_INFO,
               "%.3f s with something under way of %.3f s, at most %u requests at a time",
               (double)s->busy_ns / 1e9, (double)(zero__now_ns() - s->open_ns) / 1e9,
               s->most_under_way);
}

static int trace_close(struct zero_store *s)
{
    int err = s->ops.close(s->inner);

    report(s);
    if (!err) /* else what is under way still ends in records of this store */
        free(s);
    return err;
}

static const struct zero_offload_ops ops = {
    .size = sizeof(struct zero_offload_ops),
    .probe = trace_probe,
    .open = trace_open,
    .info = trace_info,
    .resize = trace_resize,
    .reg = trace_reg,
    .unreg = trace_unreg,
    .map = trace_map,
    .submit = trace_submit,
    .poll = trace_poll,
    .wake = trace_wake,
    .close = trace_close,
};

ZERO__PLUGIN(NAME, OFFLOAD, &ops, __VERSION__)
