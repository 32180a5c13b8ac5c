/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that fail. None does by itself: the plugin fault makes them, above the one to be tried.
 */
#include <string.h>

#include "tier.h"

enum { N = 16, TRIES = 1000 };

struct batch {
    struct check_store s;
    struct zero_io ios[N];
    int64_t res[N];
    uint32_t ends[N]; /* how often each has ended */
    uint32_t ended, failed;
};

/* Each end once, whole or with an error that is said. */
static void take(struct batch *b, const struct zero_cqe *c)
{
    struct check_rank *r = &b->s.t->verdict;

    if (!want(r, c->user < N && !b->ends[c->user], "tag %" PRIu64 " ends twice, or is of nobody",
              c->user))
        return;
    b->ends[c->user]++;
    b->ended++;
    b->res[c->user] = c->res;
    if (c->res >= 0) {
        want(r, c->res == (int64_t)b->ios[c->user].buf.len,
             "a request of %" PRIu64 " bytes ends well after %" PRIi64, b->ios[c->user].buf.len,
             c->res);
        return;
    }
    b->failed++;
    want(r, check_said(), "a request fails and nothing is said");
}

static void run_all(struct batch *b)
{
    int64_t until = check_now_ms() + CHECK_WAIT_NS / 1000000; /* unless something ends */
    struct check_rank *r = &b->s.t->verdict;
    const struct zero_host *host = b->s.t->host;
    uint32_t submitted = 0;

    b->ended = b->failed = 0;
    memset(b->ends, 0, sizeof b->ends);
    while (b->ended < N && check_now_ms() < until && !r->n_bad) {
        struct zero_cqe cqes[N];
        check_mark(host);
        int k = submitted < N ? b->s.ops->submit(b->s.store, b->ios + submitted, N - submitted) : 0;
        if (!want(r, check_ended(r, "submit gives", k) >= 0, "where requests fail %s", r->ended))
            break;
        submitted += (uint32_t)k;
        check_mark(host);
        k = b->s.ops->poll(b->s.store, cqes, N, submitted < N ? 1000000 : 100000000);
        want(r, check_ended(r, "poll gives", k) >= 0, "where requests fail %s", r->ended);
        if (k > 0)
            until = check_now_ms() + CHECK_WAIT_NS / 1000000;
        for (int i = 0; i < k; i++) {
            take(b, &cqes[i]);
            want(r, cqes[i].res >= 0 || i == k - 1,
                 "more completions follow one that failed: its sentence is lost");
        }
    }
    want(r, b->ended == N || r->n_bad, "%u of %u requests have ended, none within the last %d s",
         b->ended, (unsigned)N, (int)(CHECK_WAIT_NS / 1000000000));
}

/* One request until it ends well. */
static bool insist(struct batch *b, const struct zero_io *io)
{
    for (int i = 0; i < TRIES; i++)
        if (!check_store_run(&b->s, io, 1))
            return true;
    return want(&b->s.t->verdict, false, "after requests that failed none ends well: %s",
                b->s.t->verdict.ended);
}

void check_store_failures(struct check_tier *t)
{
    struct check_rank *r = &t->verdict;
    struct batch b = {0};

    if (check_store_open(t, &b.s, t->bytes)) {
        uint64_t part = t->bytes / N / b.s.info.offset_align * b.s.info.offset_align;
        uint64_t most = check_store_most(&b.s);
        part = part < most ? part : most;
        for (uint32_t i = 0; i < N; i++) {
            b.ios[i] = check_store_io(&b.s, ZERO_IO_WRITE, i * part, i * part, part);
            b.ios[i].user = i;
        }
        check_store_fill(b.s.memory, part * N, r->seed);
        run_all(&b);
        if (!b.failed)
            t->skipped = "no request fails: the plugin fault makes some (--help), but has its own "
                         "sentences: those of yours are not tried";
        for (uint32_t i = 0; i < N && !r->n_bad; i++)
            if (b.res[i] < 0)
                insist(&b, &b.ios[i]);
        memset(b.s.memory, 0, t->bytes);
        for (uint32_t i = 0; i < N && !r->n_bad; i++) {
            struct zero_io io = check_store_io(&b.s, ZERO_IO_READ, i * part, i * part, part);
            insist(&b, &io);
        }
        want(r, check_store_is(b.s.memory, part * N, r->seed), "other bytes come back");
    }
    check_store_close(&b.s);
}
