/* SPDX-License-Identifier: Apache-2.0 */
/* What is written is what is read. */
#include <stdlib.h>
#include <string.h>

#include "tier.h"
#include "tools/common/values.h"

void check_store_fresh(struct check_tier *t)
{
    struct check_rank *r = &t->verdict;
    struct check_store s;

    if (check_store_open(t, &s, 2 * t->bytes)) {
        uint64_t bytes = check_store_round(&s, t->bytes);
        memset(s.memory, 0x5a, 2 * bytes);
        want(r, !check_store_one(&s, ZERO_IO_READ, 0, 0, bytes), "read: %s", r->ended);
        want(r, check_store_zero(s.memory, bytes), "a fresh store has other bytes than zeros");
        want(r, !s.ops->resize(s.store, 2 * bytes), "resize to twice: %s", check_error());
        want(r, !check_store_one(&s, ZERO_IO_READ, bytes, bytes, bytes), "read: %s", r->ended);
        want(r, check_store_zero(s.memory + bytes, bytes),
             "a store grows by other bytes than zeros");
    }
    check_store_close(&s);
}

/* A request of more than one may have is refused, or done. */
static void too_large(struct check_store *s, uint64_t bytes)
{
    struct zero_io io = check_store_io(s, ZERO_IO_WRITE, 0, 0, bytes);
    struct check_rank *r = &s->t->verdict;
    struct zero_cqe cqe = {0};

    check_mark(s->t->host);
    check_store_fill(s->memory, bytes, r->seed + 1);
    int n = check_store_submit(s, &io, 1);
    if (n > 0) {
        n = check_store_poll_one(s, &cqe);
        want(r, n == 1 && (cqe.res < 0 || cqe.res == (int64_t)bytes),
             "%" PRIu64 " bytes, of which max_io is less, are taken: poll gives %s, with %s",
             bytes, check_value(r, n), check_value(r, cqe.res));
        n = cqe.res < 0 ? -1 : 1;
    }
    want(r, n, "%" PRIu64 " bytes, of which max_io is less, are never taken and not refused",
         bytes);
    want(r, n >= 0 || check_said(),
         "%" PRIu64 " bytes, of which max_io is less: refused, and nothing is said", bytes);
    if (n < 0) /* the store goes on */
        want(r, !check_store_one(s, ZERO_IO_WRITE, 0, 0, bytes), "write: %s", r->ended);
    memset(s->memory, 0, bytes);
    want(r, !check_store_one(s, ZERO_IO_READ, 0, 0, bytes), "read: %s", r->ended);
    want(r, check_store_is(s->memory, bytes, r->seed + 1), "other bytes come back");
}

void check_store_large(struct check_tier *t)
{
    struct check_rank *r = &t->verdict;
    struct check_store s;

    if (check_store_open(t, &s, t->bytes)) {
        uint64_t most = check_store_most(&s), bytes = most < t->bytes ? most : t->bytes;
        check_store_fill(s.memory, bytes, r->seed);
        want(r, !check_store_one(&s, ZERO_IO_WRITE, 0, 0, bytes),
             "write of %" PRIu64 " bytes, max_io %" PRIu64 ": %s", bytes, s.info.max_io,
             r->ended);
        memset(s.memory, 0, bytes);
        want(r, !check_store_one(&s, ZERO_IO_READ, 0, 0, bytes),
             "read of %" PRIu64 " bytes, max_io %" PRIu64 ": %s", bytes, s.info.max_io,
             r->ended);
        want(r, check_store_is(s.memory, bytes, r->seed), "other bytes come back");
        if (!r->n_bad && t->bytes - bytes >= s.info.offset_align)
            too_large(&s, bytes + s.info.offset_align);
    }
    check_store_close(&s);
}

/* The counters are a sign of life: they stand still where nothing moves. */
void check_store_counts(struct check_tier *t)
{
    struct zero_store_info now = {.size = sizeof now};
    struct check_rank *r = &t->verdict;
    struct check_store s;

    if (check_store_open(t, &s, t->bytes)) {
        uint64_t part = check_store_round(&s, t->bytes / 4), read = s.info.bytes_read,
                 written = s.info.bytes_written;
        struct zero_io ios[3];
        for (uint32_t i = 0; i < 3; i++)
            ios[i] = check_store_io(&s, ZERO_IO_WRITE, i * part, i * part, part);
        want(r, !check_store_run(&s, ios, 3), "write: %s", r->ended);
        want(r, !check_store_one(&s, ZERO_IO_READ, 0, 0, part), "read: %s", r->ended);
        want(r, !s.ops->info(s.store, &now), "info: %s", check_error());
        if (!r->n_bad && !now.bytes_read && !now.bytes_written)
            t->skipped = "the plugin counts nothing";
        else
            want(r, now.bytes_written - written == 3 * part && now.bytes_read - read == part,
                 "of %" PRIu64 " bytes written %" PRIu64 " count, of %" PRIu64 " read %" PRIu64,
                 3 * part, now.bytes_written - written, part, now.bytes_read - read);
    }
    check_store_close(&s);
}

/* Every request ends once, with its own tag and all of its bytes. */
void check_store_many(struct check_tier *t)
{
    enum { N = 2000 };
    int64_t until = check_now_ms() + CHECK_WAIT_NS / 1000000; /* unless something ends */
    struct check_rank *r = &t->verdict;
    uint32_t submitted = 0, ended = 0;
    static unsigned char seen[N];
    struct check_store s;
    static struct zero_io ios[N];

    memset(seen, 0, sizeof seen);
    if (check_store_open(t, &s, t->bytes)) {
        uint64_t block = s.info.offset_align, n_blocks = t->bytes / block;
        for (uint32_t i = 0; i < N; i++) {
            ios[i] = check_store_io(&s, ZERO_IO_WRITE, i % n_blocks * block, i % n_blocks * block,
                                    block);
            ios[i].user = i;
        }
        uint32_t n = n_blocks < N ? (uint32_t)n_blocks : N;
        while (ended < n && check_now_ms() < until && !r->n_bad) {
            struct zero_cqe cqes[3];
            check_mark(t->host);
            int got = s.ops->submit(s.store, ios + submitted, n - submitted);
            check_ended(r, "submit gives", got);
            if (!want(r, got >= 0 && got <= (int)(n - submitted), "%s, of %u requests", r->ended,
                      n - submitted))
                break;
            submitted += (uint32_t)got;
            got = s.ops->poll(s.store, cqes, 3, 100000000);
            check_ended(r, "poll of 3 gives", got);
            want(r, got >= 0 && got <= 3, "%s", r->ended);
            if (got > 0)
                until = check_now_ms() + CHECK_WAIT_NS / 1000000;
            for (int i = 0; i < got && i < 3; i++) {
                want(r, cqes[i].res == (int64_t)block, "result %s, want %" PRIu64,
                     check_value(r, cqes[i].res), block);
                want(r, cqes[i].user < n && !seen[cqes[i].user],
                     "tag %" PRIu64 " ends twice, or is of nobody", cqes[i].user);
                if (cqes[i].user < n)
                    seen[cqes[i].user] = 1;
                ended++;
            }
        }
        want(r, ended == n || r->n_bad, "%u of %u requests have ended, none within the last %d s",
             ended, n, (int)(CHECK_WAIT_NS / 1000000000));
    }
    check_store_close(&s);
}

void check_store_two(struct check_tier *t)
{
    struct check_rank *r = &t->verdict;
    struct check_store a, b = {0};

    if (check_store_open(t, &a, t->bytes) && check_store_open(t, &b, t->bytes)) {
        uint64_t bytes = check_store_round(&a, t->bytes / 2);
        check_store_fill(a.memory, bytes, r->seed + 1);
        check_store_fill(b.memory, bytes, r->seed + 2);
        want(r, !check_store_one(&a, ZERO_IO_WRITE, 0, 0, bytes), "write: %s", r->ended);
        want(r, !check_store_one(&b, ZERO_IO_WRITE, 0, 0, bytes), "write: %s", r->ended);
        memset(a.memory, 0, bytes);
        want(r, !check_store_one(&a, ZERO_IO_READ, 0, 0, bytes), "read: %s", r->ended);
        want(r, check_store_is(a.memory, bytes, r->seed + 1), "the first has other bytes");
        struct zero_io io = check_store_io(&a, ZERO_IO_READ, 0, 0, bytes);
        want(r, check_store_submit(&b, &io, 1) < 0, "a region of another store is taken");
    }
    check_store_close(&a);
    if (b.t)
        check_store_close(&b);
}

/*
 * One that does nothing passes, too: what is read comes from the memory of the system, whether it
 * lies on the disk or not. Who sees the calls of the system below can tell.
 */
void check_store_sync(struct check_tier *t)
{
    struct check_rank *r = &t->verdict;
    struct check_store s;

    if (check_store_open(t, &s, t->bytes)) {
        uint64_t bytes = check_store_round(&s, t->bytes / 4);
        struct zero_io io = {.op = ZERO_IO_SYNC, .user = 9};
        want(r, !check_store_run(&s, &io, 1), "sync of nothing: %s", r->ended);
        check_store_fill(s.memory, bytes, r->seed);
        want(r, !check_store_one(&s, ZERO_IO_WRITE, 0, 0, bytes), "write: %s", r->ended);
        want(r, !check_store_run(&s, &io, 1), "sync: %s", r->ended);
        memset(s.memory, 0, bytes);
        want(r, !check_store_one(&s, ZERO_IO_READ, 0, 0, bytes), "read: %s", r->ended);
        want(r, check_store_is(s.memory, bytes, r->seed), "other bytes come back");
    }
    check_store_close(&s);
}

void check_store_map(struct check_tier *t)
{
    struct check_rank *r = &t->verdict;
    struct check_store s;
    void *base = NULL;

    if (check_store_open(t, &s, t->bytes) &&
        want(r, s.ops->map && !s.ops->map(s.store, &base) && base, "map: %s", check_error()) &&
        want(r, (uintptr_t)base % CHECK_PAGE == 0, "map gives %p: a multiple of %u is due", base,
             CHECK_PAGE)) {
        uint64_t off = check_store_round(&s, t->bytes / 3), bytes = off < 70000 ? off : 70000;
        bytes = check_store_round(&s, bytes);
        check_store_fill(base, t->bytes, r->seed);
        want(r, !check_store_one(&s, ZERO_IO_READ, 0, 0, t->bytes), "read: %s", r->ended);
        want(r, check_store_is(s.memory, t->bytes, r->seed), "what was stored there is not read");
        check_store_fill(s.memory, bytes, r->seed + 1);
        want(r, !check_store_one(&s, ZERO_IO_WRITE, off, 0, bytes), "write: %s", r->ended);
        want(r, check_store_is((char *)base + off, bytes, r->seed + 1),
             "what was written is not there");
    }
    check_store_close(&s);
}
