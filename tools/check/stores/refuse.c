/* SPDX-License-Identifier: Apache-2.0 */
/* What cannot be done is said, and nothing has happened. */
#include <string.h>

#include "tier.h"

#define LITTLE (UINT64_C(64) << 30) /* that a plugin may be asked to take too much of */

static bool is_power(uint64_t x)
{
    return x && !(x & (x - 1));
}

static void judge_align(struct check_rank *r, const char *of, const char *what, uint32_t align)
{
    want(r, is_power(align) && align <= CHECK_PAGE,
         "%s: %s is %u: a power of two that is at most %u is due", of, what, align, CHECK_PAGE);
}

static void judge(struct check_rank *r, const char *of, const struct zero_store_info *i)
{
    judge_align(r, of, "offset_align", i->offset_align);
    judge_align(r, of, "buffer_align", i->buffer_align);
    want(r, i->mem & ZERO_MEM_HOST,
         "%s: the memory kinds 0x%x lack host memory, ZERO_MEM_HOST (0x%x)", of, i->mem,
         (unsigned)ZERO_MEM_HOST);
    want(r, i->best_io && i->max_io >= i->best_io, "%s: best_io %" PRIu64 ", max_io %" PRIu64, of,
         i->best_io, i->max_io);
    want(r, i->flags & ZERO_STORE_MAPPED || i->max_io >= CHECK_PAGE,
         "%s: max_io is %" PRIu64 ": of a disk %u at least are due", of, i->max_io, CHECK_PAGE);
    want(r, i->depth >= 1, "%s: depth is 0", of);
    want(r, memchr(i->note, 0, sizeof i->note), "%s: the note does not end", of);
}

void check_store_info_sane(struct check_tier *t)
{
    struct check_rank *r = &t->verdict;
    struct zero_store_info brief;
    struct check_store s;

    judge(r, "probe", &t->caps);
    if (check_store_open(t, &s, 4096)) {
        judge(r, "info", &s.info);
        want(r, s.info.capacity >= t->bytes, "a store of %" PRIu64 " bytes holds %" PRIu64,
             t->bytes, s.info.capacity);
        want(r, t->ops->map || !(s.info.flags & ZERO_STORE_MAPPED), "MAPPED, but no map()");
        /* A caller from before a field was added has room for less. */
        memset(&brief, 0x5a, sizeof brief);
        brief.size = offsetof(struct zero_store_info, capacity);
        want(r, !t->ops->info(s.store, &brief), "info: %s", check_error());
        want(r, brief.capacity == UINT64_C(0x5a5a5a5a5a5a5a5a), "info writes past the size");
    }
    check_store_close(&s);
}

/* Refused, with a sentence; or, as a request among others, not accepted. */
static void refused(struct check_store *s, struct zero_io io, const char *what)
{
    struct check_rank *r = &s->t->verdict;

    check_mark(s->t->host);
    int err = check_store_submit(s, &io, 1);
    want(r, err < 0, "%s: submit gives %d, want an error", what, err);
    want(r, err >= 0 || check_said(), "%s: nothing is said", what);
}

void check_store_refusals(struct check_tier *t)
{
    struct check_rank *r = &t->verdict;
    struct zero_cqe cqe = {0};
    struct check_store s;

    if (check_store_open(t, &s, t->bytes)) {
        uint64_t a = s.info.offset_align;
        struct zero_io good = check_store_io(&s, ZERO_IO_WRITE, 0, 0, a), io;

        io = good, io.op = 77;
        refused(&s, io, "an unknown operation");
        io = good, io.flags = 0x80000000u;
        refused(&s, io, "unknown flags");
        io = good, io.reserved[1] = 1;
        refused(&s, io, "a reserved field that is not 0");
        io = good, io.buf.len = 0;
        refused(&s, io, "no bytes");
        io = good, io.store_off = (t->bytes + a - 1) / a * a + a;
        refused(&s, io, "past the end");
        io = good, io.store_off = UINT64_MAX / a * a;
        refused(&s, io, "an offset that wraps around");
        io = good, io.buf.len = UINT64_MAX / a * a;
        refused(&s, io, "a length that wraps around");
        io = good, io.buf.off = (s.bytes + a - 1) / a * a;
        refused(&s, io, "past the end of the memory");
        io = good, io.buf.mr = NULL;
        refused(&s, io, "no memory");
        if (a > 1) {
            io = good, io.store_off = 1;
            refused(&s, io, "an offset that is not aligned");
            io = good, io.buf.len = a + 1;
            refused(&s, io, "a length that is not aligned");
        }
        if (s.info.buffer_align > 1) {
            io = good, io.buf.off = 1;
            refused(&s, io, "memory that is not aligned");
        }
        struct zero_io two[2] = {good, good};
        two[1].op = 77;
        int n = check_store_submit(&s, two, 2);
        want(r, n == 1, "one good request and a wrong one: submit gives %s, want 1",
             check_value(r, n));
        n = check_store_poll_one(&s, &cqe);
        want(r, n == 1 && cqe.res == (int64_t)a,
             "the good one of %" PRIu64 " bytes: poll gives %s, with %s", a, check_value(r, n),
             check_value(r, cqe.res));
    }
    check_store_close(&s);
}

/*
 * What the probe says could be had is what can be; other users take and give little meanwhile. A
 * plugin that finds out by taking fills the disk for that moment, and a large one for a long one.
 */
void check_store_capacity(struct check_tier *t)
{
    struct zero_store_open open = {
        .size = sizeof open, .host = t->host, .device = -1, .timeout_ns = CHECK_WAIT_NS};
    struct zero_store_info now = {.size = sizeof now};
    struct check_rank *r = &t->verdict;
    struct zero_store *store = NULL;

    if (!want(r, !t->ops->probe(t->host, &now), "probe: %s", check_error()))
        return;
    want(r, now.capacity >= t->bytes,
         "the probe says that %" PRIu64 " bytes could be had, and %" PRIu64 " can", now.capacity,
         t->bytes);
    if (now.capacity > UINT64_C(1) << 58) /* the exabyte has been refused */
        return;
    if (now.capacity > LITTLE && !t->huge) {
        t->skipped = "more than 64 GiB could be had: --huge";
        return;
    }
    open.bytes = now.capacity + now.capacity / 2 + (UINT64_C(1) << 30);
    if (!want(r, t->ops->open(&open, &store) < 0,
              "the probe says that %" PRIu64 " bytes could be had, and %" PRIu64 " can",
              now.capacity, open.bytes))
        t->ops->close(store);
}

void check_store_no_room(struct check_tier *t)
{
    struct zero_store_open open = {.size = sizeof open,
                                   .host = t->host,
                                   .bytes = UINT64_C(1) << 60,
                                   .device = -1,
                                   .timeout_ns = CHECK_WAIT_NS};
    struct check_rank *r = &t->verdict;
    struct zero_store *store = NULL;
    struct check_store s;

    check_mark(t->host);
    if (want(r, t->ops->open(&open, &store) < 0, "a store of an exabyte is given")) {
        want(r, check_said(), "open: nothing is said");
        want(r, !store, "a store comes with the error");
    } else {
        t->ops->close(store);
    }
    open.bytes = UINT64_MAX;
    if (!want(r, t->ops->open(&open, &store) < 0, "a store of 2^64 - 1 bytes is given"))
        t->ops->close(store);
    open.bytes = UINT64_MAX / 65536 * 65536; /* a sum that rounds it up wraps around */
    if (!want(r, t->ops->open(&open, &store) < 0, "a store of 2^64 - 65536 bytes is given"))
        t->ops->close(store);
    if (check_store_open(t, &s, t->bytes)) {
        uint64_t bytes = check_store_round(&s, t->bytes / 2);
        check_store_fill(s.memory, bytes, r->seed);
        want(r, !check_store_one(&s, ZERO_IO_WRITE, 0, 0, bytes), "write: %s", r->ended);
        want(r, t->ops->resize(s.store, UINT64_C(1) << 60) < 0, "it grows to an exabyte");
        memset(s.memory, 0, bytes);
        want(r, !check_store_one(&s, ZERO_IO_READ, 0, 0, bytes), "read after that: %s",
             r->ended);
        want(r, check_store_is(s.memory, bytes, r->seed), "growing in vain loses what was stored");
    }
    check_store_close(&s);
}

void check_store_memory_kinds(struct check_tier *t)
{
    struct check_rank *r = &t->verdict;
    struct zero_mr *mr = NULL;
    struct check_store s;

    if (check_store_open(t, &s, 8192))
        for (uint32_t kind = 1; kind; kind <<= 1)
            if (!(s.info.mem & kind) && !want(r, s.ops->reg(s.store, s.memory, 8192, kind, &mr) < 0,
                                              "memory kind 0x%x is not declared, but taken", kind))
                s.ops->unreg(s.store, mr);
    check_store_close(&s);
}
