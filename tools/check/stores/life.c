/* SPDX-License-Identifier: Apache-2.0 */
/* Stores over time: other sizes, more memory, waiting, the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/line.h"
#include "tier.h"

#define MUCH (UINT64_C(16) << 20) /* that libraries may keep of what they have got */
#define AGAIN 16                   /* stores after the first: each may leave a part of that */

void check_store_resize(struct check_tier *t)
{
    struct check_rank *r = &t->verdict;
    struct check_store s;

    if (check_store_open(t, &s, 2 * t->bytes)) {
        uint64_t bytes = check_store_round(&s, t->bytes);
        check_store_fill(s.memory, bytes, r->seed);
        want(r, !check_store_one(&s, ZERO_IO_WRITE, 0, 0, bytes), "write: %s", r->ended);
        if (want(r, !s.ops->resize(s.store, 2 * bytes), "resize to twice: %s", check_error())) {
            check_store_fill(s.memory, bytes, r->seed + 1);
            want(r, !check_store_one(&s, ZERO_IO_WRITE, bytes, 0, bytes),
                 "write past the old end: %s", r->ended);
        }
        memset(s.memory, 0, 2 * bytes);
        want(r, !check_store_one(&s, ZERO_IO_READ, 0, 0, 2 * bytes), "read: %s", r->ended);
        want(r,
             check_store_is(s.memory, bytes, r->seed) &&
                 check_store_is(s.memory + bytes, bytes, r->seed + 1),
             "growing changes what is stored");
        uint64_t half = check_store_round(&s, bytes / 2 + 12345), rest = bytes - half;
        want(r, !s.ops->resize(s.store, half), "resize to half: %s", check_error());
        memset(s.memory, 0, half);
        want(r, !check_store_one(&s, ZERO_IO_READ, 0, 0, half), "read: %s", r->ended);
        want(r, check_store_is(s.memory, half, r->seed), "shrinking changes what is left");
        want(r, check_store_one(&s, ZERO_IO_READ, bytes, 0, half) < 0,
             "what lies past the new end is read");
        want(r, !s.ops->resize(s.store, bytes), "resize to the whole: %s", check_error());
        memset(s.memory, 1, rest);
        want(r, !check_store_one(&s, ZERO_IO_READ, half, 0, rest), "read: %s", r->ended);
        for (uint64_t i = 0; i < rest && !r->n_bad; i++)
            want(r, s.memory[i] == 0, "byte %llu behind what was left is not zero",
                 (unsigned long long)(half + i));
    }
    check_store_close(&s);
}

/*
 * Registered and given back in another order, with data moving in between: more at a time than a
 * system may have places for.
 */
void check_store_regions(struct check_tier *t)
{
    enum { N = 100 };
    struct check_rank *r = &t->verdict;
    struct zero_mr *mrs[N] = {0};
    struct check_store s;

    if (check_store_open(t, &s, t->bytes)) {
        uint64_t align =
            s.info.offset_align > s.info.buffer_align ? s.info.offset_align : s.info.buffer_align;
        uint64_t part = t->bytes / N / align * align;
        for (int i = 0; i < N && part; i++) {
            want(r,
                 !s.ops->reg(s.store, s.memory + (uint64_t)i * part, part, ZERO_MEM_HOST, &mrs[i]),
                 "region %d: %s", i, check_error());
            check_store_fill(s.memory + (uint64_t)i * part, part, r->seed + (uint64_t)i);
        }
        for (int i = 0; i < N && part && !r->n_bad; i++) {
            int k = i * 7 % N; /* N and 7 have no common divisor: every one, in another order */
            struct zero_io io = {
                .op = ZERO_IO_WRITE, .store_off = (uint64_t)k * part, .buf = {mrs[k], 0, part}};
            want(r, !check_store_run(&s, &io, 1), "write from region %d: %s", k, r->ended);
            want(r, !s.ops->unreg(s.store, mrs[k]), "unreg: %s", check_error());
        }
        memset(s.memory, 0, t->bytes);
        if (part)
            want(r, !check_store_one(&s, ZERO_IO_READ, 0, 0, part * N), "read: %s", r->ended);
        else
            t->skipped = "100 regions do not fit into the store: more --bytes";
        for (int i = 0; i < N && part; i++)
            want(r, check_store_is(s.memory + (uint64_t)i * part, part, r->seed + (uint64_t)i),
                 "region %d arrives changed", i);
    }
    check_store_close(&s);
}

static void *wake_later(void *arg)
{
    struct check_store *s = arg;

    check_sleep_ms(50);
    s->ops->wake(s->store);
    return NULL;
}

/* How long poll() takes where nothing is under way. */
static int idle_ms(struct check_store *s, int64_t timeout_ns)
{
    int64_t start = check_now_ms();
    struct zero_cqe cqe;
    int n = s->ops->poll(s->store, &cqe, 1, timeout_ns);

    want(&s->t->verdict, n == 0, "poll gives %s where nothing is under way, want 0",
         check_value(&s->t->verdict, n));
    return (int)(check_now_ms() - start);
}

/* What ends wakes who waits for it. */
static void ends_waiting(struct check_store *s)
{
    struct zero_io io = check_store_io(s, ZERO_IO_READ, 0, 0, s->info.offset_align);
    struct check_rank *r = &s->t->verdict;
    struct zero_cqe cqe;

    check_mark(s->t->host);
    int n = check_store_submit(s, &io, 1);
    if (!want(r, check_ended(r, "submit gives", n) == 1, "%s, want 1", r->ended))
        return;
    int64_t start = check_now_ms();
    n = check_store_poll_one(s, &cqe);
    int ms = (int)(check_now_ms() - start);
    want(r, check_ended(r, "poll gives", n) == 1 && ms < 5000,
         "one request is under way: %s after %d ms, want 1 as soon as it ends", r->ended, ms);
}

void check_store_wakes(struct check_tier *t)
{
    struct check_rank *r = &t->verdict;
    struct check_store s;
    pthread_t thread;
    int ms;

    if (check_store_open(t, &s, 4096)) {
        idle_ms(&s, 0);
        ms = idle_ms(&s, 30000000);
        want(r, ms >= 25, "poll with a timeout of 30 ms came back after %d ms", ms);
        want(r, !s.ops->wake(s.store), "wake: %s", check_error());
        ms = idle_ms(&s, CHECK_WAIT_NS);
        want(r, ms < 5000, "poll took %d ms after a wake() that came before it", ms);
        ends_waiting(&s);
        if (check_thread(r, &thread, wake_later, &s)) {
            ms = idle_ms(&s, CHECK_WAIT_NS);
            want(r, ms < 5000, "poll took %d ms, with a wake() after 50 ms", ms);
            pthread_join(thread, NULL);
        }
    }
    check_store_close(&s);
}

/* After close() nobody writes to the memory any more. */
void check_store_close_busy(struct check_tier *t)
{
    struct check_rank *r = &t->verdict;
    struct check_store s;

    if (check_store_open(t, &s, t->bytes)) {
        struct zero_io ios[16];
        uint64_t part = t->bytes / 16 / s.info.offset_align * s.info.offset_align;
        uint64_t most = check_store_most(&s);
        part = part < most ? part : most;
        for (unsigned i = 0; i < 16; i++)
            ios[i] = check_store_io(&s, ZERO_IO_READ, i * part, i * part, part);
        want(r, check_store_submit(&s, ios, 16) > 0, "submit: %s", check_error());
        int64_t start = check_now_ms();
        bool closed = want(r, !s.ops->close(s.store), "close: %s", check_error());
        int ms = (int)(check_now_ms() - start);
        want(r, ms < CHECK_WAIT_NS / 1000000, "close took %d ms", ms);
        s.store = NULL;
        check_store_fill(s.memory, t->bytes, r->seed);
        check_sleep_ms(20);
        want(r, check_store_is(s.memory, t->bytes, r->seed), "after close() memory is written to");
        if (!closed)
            s.memory = NULL; /* what is under way may still write there */
    }
    check_store_close(&s);
}

/* Of this process, as the system counts it: resident, locked. */
static uint64_t status_bytes(const char *what)
{
    uint64_t kib = 0;

    zero__number_read("/proc/self/status", what, &kib);
    return kib << 10;
}

void check_store_leaves_nothing(struct check_tier *t)
{
    struct check_rank *r = &t->verdict;
    struct check_store s;
    int descriptors = 0, threads = 0;
    uint64_t memory[2] = {0, 0}, locked[2] = {0, 0}; /* after the first, and at the end */

    for (int i = 0; i <= AGAIN; i++) { /* what libraries keep for good they keep after the first */
        if (check_store_open(t, &s, t->bytes))
            want(r, !check_store_one(&s, ZERO_IO_WRITE, 0, 0, check_store_round(&s, 5000)),
                 "write: %s", r->ended);
        check_store_close(&s);
        if (i == 0) {
            descriptors = check_descriptors();
            threads = check_threads();
        }
        memory[i > 0] = status_bytes("VmRSS:");
        locked[i > 0] = status_bytes("VmLck:");
    }
    check_left(r, check_descriptors, "descriptors are open", descriptors, 0, 1 + AGAIN, "stores");
    check_left(r, check_threads, "threads run", threads, AGAIN / 2, 1 + AGAIN, "stores");
    want(r, locked[1] <= locked[0], "%" PRIu64 " bytes are locked after %d stores, %" PRIu64
                                    " after one", locked[1], 1 + AGAIN, locked[0]);
    want(r, memory[1] < memory[0] + MUCH,
         "%" PRIu64 " bytes are resident after %d stores of %" PRIu64 ", %" PRIu64 " after one",
         memory[1], 1 + AGAIN, t->bytes, memory[0]);
}
