/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The paged region: sizes around every edge, the bound on reserved memory after every operation of
 * four hostile request sequences, exhaustion, misuse, and a backing that fails at each call in
 * turn. Every byte range carries its owner's mark, verified when it is freed.
 */
#define _GNU_SOURCE
#include "memory/pages.h"

#include <errno.h>
#include <sys/mman.h>

#include "../random.h"
#include "../tap.h"
#include "base/status.h"

#define SEED UINT64_C(77001)
#define PAGE ZERO__PAGE_BYTES
#define MIB (UINT64_C(1) << 20)
#define MOST 8192

/* The region together with what it must look like. */
struct model {
    struct zero__pages *pages;
    struct {
        uint64_t *at;
        uint64_t bytes;
    } live[MOST];
    uint32_t n;
    uint64_t large,
        largest;      /* bytes in whole pages of large requests: now, and with small ones at most */
    unsigned broken;  /* times the bound did not hold exactly */
    unsigned spoiled; /* marks overwritten */
};

static void model_open(struct model *m, uint64_t limit)
{
    struct zero__pages_backing backing;
    memset(m, 0, sizeof *m);
    if (zero__pages_host(limit, &backing) || zero__pages_create(&backing, limit, &m->pages))
        bail(zero__error_text());
}

static void model_verify(struct model *m)
{
    struct zero__pages_stats s;
    zero__pages_stats(m->pages, &s);
    if (m->large + s.small_bytes > m->largest)
        m->largest = m->large + s.small_bytes;
    m->broken += s.reserved_bytes != m->largest || s.reserved_bytes > s.limit_bytes;
}

static uint64_t in_pages(uint64_t bytes)
{
    return bytes < ZERO__PAGES_SLAB_BELOW ? 0 : (bytes + PAGE - 1) / PAGE * PAGE;
}

/* A mark at the start, at every page and at the end. */
static void marks_set(uint64_t *at, uint64_t bytes)
{
    for (uint64_t k = 0; k + 8 <= bytes; k += PAGE)
        at[k / 8] = (uint64_t)(uintptr_t)at ^ k;
    if (bytes >= 8)
        at[(bytes - 8) / 8] = (uint64_t)(uintptr_t)at ^ bytes;
}

static bool marks_good(const uint64_t *at, uint64_t bytes)
{
    uint64_t tail = bytes >= 8 ? (bytes - 8) / 8 : 0;
    for (uint64_t k = 0; k + 8 <= bytes; k += PAGE)
        if (k / 8 != tail && at[k / 8] != ((uint64_t)(uintptr_t)at ^ k))
            return false;
    return bytes < 8 || at[tail] == ((uint64_t)(uintptr_t)at ^ bytes);
}

static bool model_alloc(struct model *m, uint64_t bytes)
{
    void *at;
    if (m->n == MOST || zero__pages_alloc(m->pages, bytes, &at)) {
        model_verify(m);
        return false;
    }
    m->spoiled += (uintptr_t)at % (bytes < ZERO__PAGES_SLAB_BELOW ? 64 : PAGE) != 0;
    marks_set(at, bytes);
    m->live[m->n].at = at;
    m->live[m->n++].bytes = bytes;
    m->large += in_pages(bytes);
    model_verify(m);
    return true;
}

static void model_free(struct model *m, uint32_t k)
{
    m->spoiled += !marks_good(m->live[k].at, m->live[k].bytes);
    m->spoiled += zero__pages_free(m->pages, m->live[k].at) != 0;
    m->large -= in_pages(m->live[k].bytes);
    for (m->n--; k < m->n; k++) /* keeps the order: the sequences depend on it */
        m->live[k] = m->live[k + 1];
    model_verify(m);
}

static void model_close(struct model *m, const char *what)
{
    struct zero__pages_stats s;
    while (m->n)
        model_free(m, m->n - 1);
    zero__pages_stats(m->pages, &s);
    if (m->broken || m->spoiled)
        diag("seed %" PRIu64, SEED);
    is_int(m->broken, 0, "%s: reserved is the bound exactly, at all times (%" PRIu64 " MiB)", what,
           s.reserved_bytes / MIB);
    is_int(m->spoiled, 0, "%s: every request kept its bytes", what);
    is_int(s.live_bytes + s.small_bytes, 0, "%s: all is free at the end", what);
    zero__pages_destroy(m->pages);
}

static void sizes(void)
{
    static const uint64_t edge[] = {0,       1,   64,   512,      4096,    65536,
                                    MIB / 2, MIB, PAGE, 2 * PAGE, 7 * PAGE};
    struct model m;
    unsigned wasteful = 0;

    model_open(&m, 64 * PAGE);
    for (size_t k = 0; k < sizeof edge / sizeof *edge; k++)
        for (int off = -1; off <= 1; off++)
            if (edge[k] || off >= 0)
                if (!model_alloc(&m, edge[k] + (uint64_t)off))
                    m.broken++;
    model_close(&m, "one byte around every edge");

    model_open(&m, 64 * PAGE);
    for (uint64_t bytes = 1; bytes < MIB; bytes += 1 + bytes / 40) {
        struct zero__pages_stats s;
        model_alloc(&m, bytes);
        zero__pages_stats(m.pages, &s);
        uint64_t most = bytes > 512 ? bytes + bytes / 8 : bytes + 63;
        wasteful += s.live_bytes < bytes || s.live_bytes > most;
        model_free(&m, 0);
    }
    is_int(wasteful, 0, "small requests waste at most an eighth");
    model_close(&m, "all small sizes");
}

static uint64_t live_bytes(const struct model *m)
{
    uint64_t sum = 0;
    for (uint32_t k = 0; k < m->n; k++)
        sum += m->live[k].bytes;
    return sum;
}

/* Fills with one size, frees every second one, fills with twice the size, and so on. */
static void checker(void)
{
    struct model m;
    uint64_t total = 256 * MIB;

    model_open(&m, total + 16 * PAGE);
    for (uint64_t bytes = PAGE; bytes <= 64 * MIB; bytes *= 2) {
        while (live_bytes(&m) + bytes <= total && model_alloc(&m, bytes))
            ;
        for (uint32_t k = 0; k < m.n; k++)
            model_free(&m, k);
    }
    model_close(&m, "checker");
}

/* Small pins between large requests, then one request for all that the large ones held. */
static void comb(uint64_t small)
{
    struct model m;
    uint64_t freed = 0;

    model_open(&m, 300 * MIB);
    for (int k = 0; k < 15; k++) {
        model_alloc(&m, 16 * MIB);
        model_alloc(&m, small);
    }
    for (uint32_t k = 0; k < m.n; k++) {
        freed += m.live[k].bytes;
        model_free(&m, k);
    }
    ok(model_alloc(&m, freed), "comb: one request takes all that %d freed", 15);
    model_close(&m, "comb");
}

/* Every step asks for a little more than the step before. */
static void sawtooth(void)
{
    struct model m;

    model_open(&m, 512 * MIB);
    for (uint64_t bytes = MIB; bytes <= 24 * MIB; bytes += MIB / 2 + 1) {
        uint32_t kept = m.n;
        for (uint64_t j = 0; j < 6; j++)
            model_alloc(&m, bytes * (1 + j % 3));
        model_alloc(&m, 1 + bytes / 64);
        while (m.n > kept + 1)
            model_free(&m, kept);
    }
    model_close(&m, "sawtooth");
}

/* Random sizes and deaths at a constant fill, small requests among them. */
static void churn(void)
{
    struct model m;
    uint64_t total = 192 * MIB, seed = SEED;

    model_open(&m, 2 * total);
    for (int k = 0; k < 6000; k++) {
        unsigned shift = (unsigned)(random_next(&seed) % (k % 3 ? 25 : 18));
        uint64_t bytes = 1 + (random_next(&seed) & ((UINT64_C(2) << shift) - 1));
        while (m.n && live_bytes(&m) + bytes > total)
            model_free(&m, (uint32_t)(random_next(&seed) % m.n));
        model_alloc(&m, bytes);
        if (m.n > 300)
            model_free(&m, (uint32_t)(random_next(&seed) % m.n));
    }
    model_close(&m, "churn");
}

static void exhaustion(void)
{
    struct zero__pages_stats s;
    struct model m;
    void *at;

    model_open(&m, 8 * PAGE + PAGE / 2);
    zero__pages_stats(m.pages, &s);
    is_int(s.limit_bytes, 8 * PAGE, "the limit counts whole pages");
    is_int(zero__pages_alloc(m.pages, 8 * PAGE + 1, &at), -ENOMEM, "more than the limit");
    has_str(zero__error_text(), "ZERO_MEMORY_LIMIT", "names the remedy");
    is_int(zero__pages_alloc(m.pages, UINT64_MAX, &at), -ENOMEM, "far more than the limit");
    model_alloc(&m, 5 * PAGE);
    model_alloc(&m, 100);
    is_int(zero__pages_alloc(m.pages, 2 * PAGE + 1, &at), -ENOMEM, "more than what is left");
    has_str(zero__error_text(), "6 of 8", "says what is in use");
    ok(model_alloc(&m, 2 * PAGE), "what is left");
    is_int(zero__pages_alloc(m.pages, 900000, &at), -ENOMEM,
           "no page for a small one of a new size");
    ok(model_alloc(&m, 70), "a small one beside its like");
    model_free(&m, 0);
    ok(model_alloc(&m, 5 * PAGE), "freeing makes room again");
    model_close(&m, "exhaustion");

    model_open(&m, 0);
    is_int(zero__pages_alloc(m.pages, 1, &at), -ENOMEM, "a limit of nothing gives nothing");
    model_close(&m, "no limit");
}

static void misuse(void)
{
    struct model m;
    uint64_t local = 0;
    char *large, *small, *other;
    void *p;

    model_open(&m, 16 * PAGE);
    zero__pages_alloc(m.pages, 3 * PAGE, &p), large = p;
    zero__pages_alloc(m.pages, 1000, &p), small = p;
    zero__pages_alloc(m.pages, 1000, &p), other = p;
    is_int(zero__pages_free(m.pages, NULL), -EINVAL, "NULL is not from here");
    is_int(zero__pages_free(m.pages, &local), -EINVAL, "nor is the stack");
    is_int(zero__pages_free(m.pages, large - PAGE * 1000), -EINVAL, "nor what lies below");
    is_int(zero__pages_free(m.pages, large + 1), -EINVAL, "a byte into a large request");
    is_int(zero__pages_free(m.pages, large + PAGE), -EINVAL, "a page into it");
    is_int(zero__pages_free(m.pages, large + 9 * PAGE), -EINVAL, "addresses never handed out");
    is_int(zero__pages_free(m.pages, small + 8), -EINVAL, "a word into a small one");
    is_int(zero__pages_free(m.pages, small + PAGE - 64), -EINVAL, "the tail of its page");
    is_int(zero__pages_free(m.pages, large), 0, "the large one itself");
    is_int(zero__pages_free(m.pages, large), -EINVAL, "but not twice");
    has_str(zero__error_text(), "free already", "and that is said");
    is_int(zero__pages_free(m.pages, small), 0, "the small one itself");
    is_int(zero__pages_free(m.pages, small), -EINVAL, "but not twice");
    is_int(zero__pages_free(m.pages, other), 0, "its neighbour");
    is_int(zero__pages_free(m.pages, other), -EINVAL, "not twice either, when its page is gone");
    model_close(&m, "misuse");
}

/* A backing that refuses its k-th call and otherwise passes all on. */
struct faulty {
    struct zero__pages_backing real;
    int64_t left; /* calls before the refused one; below 0: none is refused, and it counts down */
};

static int fault(struct faulty *f)
{
    return f->left-- == 0 ? zero__fail(-EIO, "injected") : 0;
}

static int faulty_reserve(void *self, uint64_t bytes, uint8_t **base)
{
    struct faulty *f = self;
    int err = fault(f);
    return err ? err : f->real.reserve(f->real.self, bytes, base);
}

static int faulty_commit(void *self, uint32_t page)
{
    struct faulty *f = self;
    int err = fault(f);
    return err ? err : f->real.commit(f->real.self, page);
}

static int faulty_map(void *self, uint8_t *at, uint32_t page, uint32_t n)
{
    struct faulty *f = self;
    int err = fault(f);
    return err ? err : f->real.map(f->real.self, at, page, n);
}

static int faulty_unmap(void *self, uint8_t *at, uint32_t n)
{
    struct faulty *f = self;
    int err = fault(f);
    return err ? err : f->real.unmap(f->real.self, at, n);
}

static void faulty_close(void *self, uint8_t *base, uint64_t bytes)
{
    struct faulty *f = self;
    f->real.close(f->real.self, base, bytes);
}

/* A region over f: 0, or the error of a refused call. */
static int faulty_open(struct model *m, struct faulty *f, uint64_t limit)
{
    struct zero__pages_backing b = {f,          faulty_reserve, faulty_commit,
                                    faulty_map, faulty_unmap,   faulty_close};

    memset(m, 0, sizeof *m);
    if (zero__pages_host(limit, &f->real))
        bail(zero__error_text());
    return zero__pages_create(&b, limit, &m->pages);
}

static void steady_state(void)
{
    static const uint64_t bytes[] = {3 * PAGE, 100, PAGE + 1, 70000, 9 * PAGE, MIB, 900000, 5};
    struct zero__pages_stats s;
    struct faulty f = {.left = -1};
    struct model m;
    int64_t before = 0;

    if (faulty_open(&m, &f, 64 * PAGE))
        bail(zero__error_text());
    for (int round = 0; round < 20; round++) {
        for (size_t k = 0; k < sizeof bytes / sizeof *bytes; k++)
            model_alloc(&m, bytes[k]);
        zero__pages_stats(m.pages, &s);
        while (m.n)
            model_free(&m, (uint32_t)round % 2 ? m.n - 1 : 0);
        if (round == 3)
            before = f.left;
    }
    is_int(f.left, before, "repeating the same requests makes no call to the backing");
    is_int(s.live_bytes, 13 * PAGE + 1 + MIB + 128 + 73728 + 917504 + 64,
           "small requests count rounded up");
    model_close(&m, "steady state");
}

static void injected_faults(void)
{
    unsigned failed = 0, unclean = 0, broken = 0;

    for (int64_t k = 0; k < 60; k++) {
        static struct model m;
        struct faulty f = {.left = k};
        if (faulty_open(&m, &f, 12 * PAGE)) {
            failed++;
            continue;
        }
        for (uint64_t j = 1; j < 60; j++) {
            if (!model_alloc(&m, j * 977777 % (3 * PAGE)) && m.n) {
                failed += strstr(zero__error_text(), "injected") != NULL;
                model_free(&m, (uint32_t)(j % m.n));
            }
            if (m.n > 6)
                model_free(&m, (uint32_t)(j % m.n));
        }
        /* A refused call may leave a page reserved early, so here only the limit must hold; and
         * all of the memory must be there in one piece afterwards. */
        while (m.n)
            model_free(&m, 0);
        f.left = -1;
        broken += m.spoiled != 0;
        unclean += !model_alloc(&m, 12 * PAGE);
        zero__pages_destroy(m.pages);
    }
    ok(failed >= 20, "a refused call is reported (%u times)", failed);
    is_int(broken, 0, "and spoils nothing");
    is_int(unclean, 0, "and afterwards all memory is usable");
}

int main(void)
{
    sizes();
    checker();
    comb(2 * MIB);
    comb(5000);
    sawtooth();
    churn();
    exhaustion();
    misuse();
    steady_state();
    injected_faults();
    done();
}
