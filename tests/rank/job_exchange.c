/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges over the control channel, ranks as threads and as processes. */
#include "job.h"

static unsigned char byte_of(int rank, unsigned i, unsigned seed)
{
    return (unsigned char)(seed * 131u + (unsigned)rank * 31u + i * 7u + (i >> 8));
}

static void gather_one(struct rank *r, struct zero__job *job, uint32_t len, unsigned seed, bool oob)
{
    unsigned char *src = malloc(len + 1), *dst = malloc((size_t)len * (size_t)r->ranks + 1);
    const struct zero_oob *o = zero__job_oob(job);
    bool same = true;
    int e;

    for (uint32_t i = 0; i < len; i++)
        src[i] = byte_of(r->rank, i, seed);
    if (oob) {
        e = o->post(o->ctx, src, len);
        memset(src, 0xee, len); /* post has taken it */
        while (!e && (e = o->test(o->ctx, dst)) == -EINPROGRESS) {
            sleep_ms(1);
            e = 0;
        }
    } else {
        e = zero__job_allgather(job, src, len, dst);
    }
    want(r, !e, "gather of %u: %s", len, zero_last_error());
    for (int k = 0; !e && k < r->ranks; k++)
        for (uint32_t i = 0; i < len; i++)
            same &= dst[(size_t)k * len + i] == byte_of(k, i, seed);
    want(r, same, "gather of %u: wrong bytes", len);
    free(src);
    free(dst);
}

static void exchanges(struct rank *r)
{
    static const uint32_t lens[] = {8, 0, 1, 4096, 65536, 0, 3};
    struct zero__job *job = job_of(r);

    if (!job)
        return;
    want(r, zero__job_rank(job) == r->rank && zero__job_ranks(job) == r->ranks, "rank or size");
    for (unsigned i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        gather_one(r, job, lens[i], i, false);
        gather_one(r, job, lens[i], i + 100, true);
    }
    for (unsigned i = 0; i < 50; i++)
        gather_one(r, job, 16, i, i & 1);
    want(r, zero__job_error(job, NULL) == 0, "an error without cause");
    want(r, zero__job_allgather(job, NULL, 65537, NULL) == -EMSGSIZE, "too big a part");
    want(r, zero__job_allgather(job, NULL, 8, NULL) == -EINVAL, "a part that is nowhere");
    /* Ranks go at different times; nobody is taken for dead. */
    sleep_ms(r->rank * 20);
    want(r, zero__job_close(job, 1) == 0, "close: %s", zero_last_error());
}

/* Opens and closes the same job again and again: the next attempt may not meet the last one. */
static void reopen(struct rank *r)
{
    for (unsigned i = 0; i < 25; i++) {
        struct zero__job *job = job_of(r);
        if (!job)
            return;
        gather_one(r, job, 8, i, false);
        want(r, zero__job_close(job, 1) == 0, "close %u: %s", i, zero_last_error());
    }
}

/* Two models of one job live side by side, opened in any order. */
static void two_models(struct rank *r)
{
    struct zero__job *job[2] = {0};

    for (int k = 0; k < 2; k++) {
        struct zero__job_params p = job_params(r->rank, r->ranks, r->arg, 20000, 20000);
        snprintf(p.model, sizeof p.model, "model-%d", k);
        int e = zero__job_open(&p, &job[k]);
        if (!want(r, !e, "open %d: %s", k, zero_last_error()))
            return;
    }
    gather_one(r, job[1], 100, 1, false);
    gather_one(r, job[0], 50, 2, false);
    want(r, zero__job_close(job[0], 1) == 0, "close: %s", zero_last_error());
    gather_one(r, job[1], 10, 3, false);
    want(r, zero__job_close(job[1], 1) == 0, "close: %s", zero_last_error());
}

/* A fast rank is a whole round ahead of rank 0's own thread. */
static void slow_zero(struct rank *r)
{
    struct zero__job *job = job_of(r);

    for (unsigned i = 0; job && i < 20; i++) {
        if (r->rank == 0)
            sleep_ms(2);
        gather_one(r, job, i % 2 ? 60000 : 8, i, true);
    }
    if (job)
        want(r, zero__job_close(job, 1) == 0, "close: %s", zero_last_error());
}

int main(void)
{
    static const int sizes[] = {1, 2, 3, 8};

    for (int how = AS_THREADS; how <= AS_PROCESSES; how++) {
        for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            ranks_good(ranks_run(sizes[i], how, exchanges, (void *)(uintptr_t)job_name()), sizes[i],
                       "exchanges of %d ranks as %s", sizes[i], ranks_how_name[how]);
        ranks_good(ranks_run(4, how, reopen, (void *)(uintptr_t)job_name()), 4,
                   "25 jobs in a row as %s", ranks_how_name[how]);
        ranks_good(ranks_run(3, how, two_models, (void *)(uintptr_t)job_name()), 3,
                   "two models at once as %s", ranks_how_name[how]);
        ranks_good(ranks_run(4, how, slow_zero, (void *)(uintptr_t)job_name()), 4,
                   "rank 0 slower than the others as %s", ranks_how_name[how]);
    }
    done();
}
