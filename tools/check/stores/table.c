/* SPDX-License-Identifier: Apache-2.0 */
/* The cases, and one case's use of a store. */
#include "tier.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tools/common/values.h"

const struct check_store_case check_offload_cases[] = {
    {"what is declared makes sense", 0, check_store_info_sane},
    {"a fresh store is zero", 0, check_store_fresh},
    {"random extents come back as written", 0, check_store_extents},
    {"reads beside writes", 0, check_store_beside},
    {"one request of all the store, or of as much as one may have", 0, check_store_large},
    {"more requests than there is room for", 0, check_store_many},
    {"what is moved counts, and once", 0, check_store_counts},
    {"two stores are independent", 0, check_store_two},
    {"sync ends well and loses nothing (whether it reaches the disk is not shown)", 0,
     check_store_sync},
    {"the mapped bytes are the stored ones", ZERO_STORE_MAPPED, check_store_map},
    {"requests that are wrong are refused", 0, check_store_refusals},
    {"a request that fails ends once, others end well, and the store goes on", 0,
     check_store_failures},
    {"more than can be had is refused", 0, check_store_no_room},
    {"what the probe says can be had, and not half as much again", 0, check_store_capacity},
    {"memory kinds that are not declared are refused", 0, check_store_memory_kinds},
    {"a store grows and shrinks", 0, check_store_resize},
    {"many regions of memory", 0, check_store_regions},
    {"waiting ends in time, or by wake()", 0, check_store_wakes},
    {"closing ends what is under way", 0, check_store_close_busy},
    {"nothing stays behind", 0, check_store_leaves_nothing},
    {NULL, 0, NULL},
};

uint64_t check_store_round(const struct check_store *s, uint64_t bytes)
{
    uint64_t a = s->info.offset_align;

    return a ? (bytes + a - 1) / a * a : bytes;
}

uint64_t check_store_most(const struct check_store *s)
{
    uint64_t a = s->info.offset_align, most = a ? s->info.max_io / a * a : s->info.max_io;

    return most ? most : UINT64_MAX;
}

bool check_store_open(struct check_tier *t, struct check_store *s, uint64_t memory_bytes)
{
    struct zero_store_open open = {.size = sizeof open,
                                   .host = t->host,
                                   .bytes = t->bytes,
                                   .device = -1,
                                   .timeout_ns = CHECK_WAIT_NS};
    struct check_rank *r = &t->verdict;

    *s = (struct check_store){.t = t, .ops = t->ops, .bytes = memory_bytes};
    check_mark(t->host);
    s->info.size = sizeof s->info;
    if (!want(r, !t->ops->open(&open, &s->store), "open of %" PRIu64 " bytes: %s", t->bytes,
              check_error()))
        return false;
    s->memory =
        mmap(NULL, memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (s->memory == MAP_FAILED)
        s->memory = NULL;
    return want(r, s->memory, "no memory of %" PRIu64 " bytes", memory_bytes) &&
           want(r, !t->ops->info(s->store, &s->info), "info: %s", check_error()) &&
           want(r, s->info.offset_align && t->bytes % s->info.offset_align == 0,
                "offset_align of the store is %u, the probe said %u", s->info.offset_align,
                t->caps.offset_align) &&
           want(r, !t->ops->reg(s->store, s->memory, memory_bytes, ZERO_MEM_HOST, &s->mr),
                "reg: %s", check_error());
}

void check_store_close(struct check_store *s)
{
    check_mark(s->t->host);
    bool closed = !s->store || want(&s->t->verdict, !s->ops->close(s->store), "close: %s",
                                    check_error());

    if (s->memory && closed) /* what is under way may still write there */
        munmap(s->memory, s->bytes);
}

struct zero_io check_store_io(const struct check_store *s, uint32_t op, uint64_t store_off,
                              uint64_t memory_off, uint64_t bytes)
{
    return (struct zero_io){.op = op, .store_off = store_off, .buf = {s->mr, memory_off, bytes}};
}

int check_store_submit(struct check_store *s, const struct zero_io *ios, uint32_t n)
{
    int64_t until = check_now_ms() + CHECK_WAIT_NS / 1000000;
    struct zero_cqe cqe;
    int k;

    while (!(k = s->ops->submit(s->store, ios, n)) && check_now_ms() < until)
        s->ops->poll(s->store, &cqe, 0, 1000000);
    return k;
}

int check_store_poll_one(struct check_store *s, struct zero_cqe *cqe)
{
    int64_t until = check_now_ms() + CHECK_WAIT_NS / 1000000;
    int n;

    do
        n = s->ops->poll(s->store, cqe, 1, CHECK_WAIT_NS);
    while (n == 0 && check_now_ms() < until);
    return n;
}

/* Of requests with the tags 0 to n-1: whole or with an error, each once; ends: how often so far. */
static int64_t ended_well(struct check_store *s, const struct zero_io *ios, uint32_t n,
                          const struct zero_cqe *c, uint32_t *ends)
{
    struct check_rank *r = &s->t->verdict;

    if (!want(r, c->user < n && !ends[c->user]++, "tag %" PRIu64 " ends twice, or is of nobody",
              c->user))
        return CHECK_NOTHING;
    if (c->res < 0)
        return c->res;
    uint64_t bytes = ios[c->user].buf.len;
    if (ios[c->user].op != ZERO_IO_SYNC &&
        !want(r, (uint64_t)c->res == bytes,
              "a request of %" PRIu64 " bytes ends well after %" PRIi64, bytes, c->res))
        return CHECK_NOTHING;
    return 0;
}

/* Takes in what has ended; the first error, or `first` where there was one before. */
static int64_t take(struct check_store *s, const struct zero_io *ios, uint32_t n,
                    const struct zero_cqe *cqes, int got, uint32_t *ends, int64_t first)
{
    struct check_rank *r = &s->t->verdict;

    for (int i = 0; i < got; i++) {
        int64_t err = ended_well(s, ios, n, &cqes[i], ends);
        if (first || !err)
            continue;
        first = err;
        if (err == CHECK_NOTHING) /* there is a complaint about it */
            snprintf(r->ended, sizeof r->ended, "a completion that is wrong");
        else
            check_ended(r, "result", err);
    }
    return first;
}

/* ends: zeros. */
static int64_t run_all(struct check_store *s, const struct zero_io *ios, uint32_t n, uint32_t *ends)
{
    int64_t until = check_now_ms() + CHECK_WAIT_NS / 1000000, first = 0;
    struct check_rank *r = &s->t->verdict;
    uint32_t submitted = 0, ended = 0;

    while (ended < n && check_now_ms() < until) {
        struct zero_cqe cqes[8];
        int got;
        if (submitted < n) {
            got = s->ops->submit(s->store, ios + submitted, n - submitted);
            if (got < 0)
                return check_ended(r, "submit gives", got);
            submitted += (uint32_t)got;
        }
        got = s->ops->poll(s->store, cqes, 8, submitted < n ? 1000000 : 100000000);
        if (got < 0)
            return check_ended(r, "poll gives", got);
        first = take(s, ios, n, cqes, got, ends, first);
        if (got > 0)
            until = check_now_ms() + CHECK_WAIT_NS / 1000000;
        ended += (uint32_t)got;
    }
    if (ended == n || first)
        return first;
    snprintf(r->ended, sizeof r->ended,
             "%u of %u requests have ended, none within the last %d s", ended, n,
             (int)(CHECK_WAIT_NS / 1000000000));
    return CHECK_NOTHING;
}

/* Into `ios`, unless it is NULL: what has more bytes than one may have in several; how many. */
static uint32_t cut(const struct check_store *s, const struct zero_io *wanted, uint32_t n,
                    struct zero_io *ios)
{
    const uint64_t most = check_store_most(s);
    uint32_t k = 0;

    for (uint32_t i = 0; i < n; i++) {
        const uint64_t bytes = wanted[i].buf.len;
        uint64_t off = 0, part;
        do {
            part = bytes - off < most ? bytes - off : most;
            if (ios) {
                ios[k] = wanted[i];
                ios[k].store_off += off;
                ios[k].buf.off += off;
                ios[k].buf.len = part;
                ios[k].user = k;
            }
            k++;
            off += part;
        } while (off < bytes);
    }
    return k;
}

int64_t check_store_run(struct check_store *s, const struct zero_io *wanted, uint32_t n)
{
    uint32_t all = cut(s, wanted, n, NULL), *ends = calloc(all + 1, sizeof *ends);
    struct zero_io *ios = calloc(all + 1, sizeof *ios);
    struct check_rank *r = &s->t->verdict;
    int64_t err = CHECK_NOTHING;

    snprintf(r->ended, sizeof r->ended, "no memory for %u requests", all);
    if (ios && ends) {
        cut(s, wanted, n, ios);
        check_mark(s->t->host);
        err = run_all(s, ios, all, ends);
    }
    free(ios);
    free(ends);
    return err;
}

int64_t check_store_one(struct check_store *s, uint32_t op, uint64_t store_off, uint64_t memory_off,
                        uint64_t bytes)
{
    struct zero_io io = check_store_io(s, op, store_off, memory_off, bytes);

    return check_store_run(s, &io, 1);
}

void check_store_fill(char *at, uint64_t bytes, uint64_t key)
{
    for (uint64_t i = 0; i < bytes; i += 8) {
        uint64_t x = mix(key, 0, i);
        memcpy(at + i, &x, bytes - i < 8 ? bytes - i : 8);
    }
}

bool check_store_is(const char *at, uint64_t bytes, uint64_t key)
{
    for (uint64_t i = 0; i < bytes; i += 8) {
        uint64_t x = mix(key, 0, i);
        if (memcmp(at + i, &x, bytes - i < 8 ? bytes - i : 8) != 0)
            return false;
    }
    return true;
}

bool check_store_zero(const char *at, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (at[i])
            return false;
    return true;
}
