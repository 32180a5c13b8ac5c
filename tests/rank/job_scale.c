/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs of many ranks, all threads of this process: that they start, exchange and end, and what each
 * rank costs in time and memory, threads of the test included. Each rank gathers an address of
 * every rank; beyond 1,024 ranks all map one table for that, as a table for each would be what is
 * measured.
 *
 *     job_scale [BYTES]    of an address (64); those of UCX on a machine of many adapters have
 * hundreds
 */
#define _GNU_SOURCE
#include "tcp.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include "machine/line.h"

#define MOST ZERO__JOB_MAX_RANKS
#define OWN_TABLE 1024     /* ranks that have a table each */
#define STACK_BYTES 65536u /* of a rank */
#define ADDRESS_MOST 1024

static size_t address_bytes = 64; /* begins with the rank */

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SIZES \
    {         \
        64    \
    }
#else
#define SIZES               \
    {                       \
        64, 256, 1024, 4096 \
    }
#endif

struct seat {
    struct rank r;
    struct tcp_job *job;
    bool tcp;
    int table; /* a file for it, -1: memory of the rank's own */
    int64_t open_ms, gather_us;
    pthread_t thread;
};

static pthread_barrier_t start, opened;

static long resident_kib(void)
{
    uint64_t kib = 0;

    zero__number_read("/proc/self/status", "VmRSS:", &kib);
    return (long)kib;
}

static void *run_rank(void *arg)
{
    struct seat *s = arg;
    struct rank *r = &s->r;
    struct zero__job_params p = tcp_params(r, s->job, 120000, 120000);
    struct zero__job *job = NULL;
    char x[ADDRESS_MOST] = {0}, *all;
    size_t bytes = (size_t)r->ranks * address_bytes;
    bool same = true;

    memcpy(x, &r->rank, sizeof r->rank);

    all = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
               s->table < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, s->table, 0);
    if (all == MAP_FAILED)
        bail("no memory for a table");

    if (!s->tcp)
        p.how = ZERO__RENDEZVOUS_UNIX;
    p.heartbeat_ns = 60 * ZERO_SECOND; /* thousands of ranks take turns on a few cores */
    pthread_barrier_wait(&start);
    int64_t t = now_ms();
    int e = zero__job_open(&p, &job);
    s->open_ms = now_ms() - t;
    want(r, !e, "open: %s", zero_last_error());
    pthread_barrier_wait(&opened); /* the memory of all is measured */
    pthread_barrier_wait(&opened);
    if (e) {
        munmap(all, bytes);
        return NULL;
    }
    t = zero__now_ns();
    want(r, !zero__job_allgather(job, x, (uint32_t)address_bytes, all), "gather: %s",
         zero_last_error());
    s->gather_us = (zero__now_ns() - t) / 1000;
    for (int i = 0; i < r->ranks; i++)
        same &= memcmp(all + (size_t)i * address_bytes, &(int32_t){i}, sizeof(int32_t)) == 0;
    want(r, same && zero__job_one_host(job) && zero__job_local_ranks(job) == r->ranks,
         "wrong numbers");
    want(r, !zero__job_close(job, 1), "close: %s", zero_last_error());
    munmap(all, bytes);
    return NULL;
}

static void job_of_many(int n, bool tcp)
{
    struct seat *seats = calloc((size_t)n, sizeof *seats);
    struct tcp_job *job = tcp_job("127.0.0.1");
    int64_t open_ms = 0, gather_us = 0;
    pthread_attr_t attr;
    int bad = 0, table = -1;

    pthread_barrier_init(&start, NULL, (unsigned)n + 1);
    pthread_barrier_init(&opened, NULL, (unsigned)n + 1);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    if (n > OWN_TABLE) {
        table = memfd_create("addresses", MFD_CLOEXEC);
        if (table < 0 || ftruncate(table, n * (off_t)address_bytes))
            bail("no file for a table");
    }
    long before = resident_kib();
    for (int i = 0; i < n; i++) {
        seats[i] =
            (struct seat){.r = {.rank = i, .ranks = n}, .job = job, .tcp = tcp, .table = table};
        if (pthread_create(&seats[i].thread, &attr, run_rank, &seats[i]))
            bail("cannot start a thread");
    }
    pthread_barrier_wait(&start);
    pthread_barrier_wait(&opened);
    long after = resident_kib();
    pthread_barrier_wait(&opened);
    int64_t t = now_ms();
    for (int i = 0; i < n; i++) {
        struct seat *s = &seats[i];
        pthread_join(s->thread, NULL);
        open_ms = s->open_ms > open_ms ? s->open_ms : open_ms;
        gather_us = s->gather_us > gather_us ? s->gather_us : gather_us;
        if (s->r.bad && bad++ < 3)
            diag("%s", s->r.text[0]);
    }
    ok(!bad, "%d ranks by %s start, exchange and end", n, tcp ? "TCP" : "Unix sockets");
    diag("%4d ranks, %-4s: open %5d ms, gather %6.1f ms, close %5d ms, %6.1f MiB (%.0f KiB a rank)",
         n, tcp ? "TCP" : "Unix", (int)open_ms, (double)gather_us / 1e3, (int)(now_ms() - t),
         (double)(after - before) / 1024, (double)(after - before) / n);
    if (table >= 0)
        close(table);
    pthread_attr_destroy(&attr);
    pthread_barrier_destroy(&start);
    pthread_barrier_destroy(&opened);
    free(seats);
}

int main(int argc, char **argv)
{
    static const int sizes[] = SIZES;
    rlim_t wanted = 4 * MOST;
    struct rlimit limit = {wanted, wanted};

    if (argc > 1)
        address_bytes = strtoul(argv[1], NULL, 10);
    if (address_bytes < sizeof(int32_t) || address_bytes > ADDRESS_MOST)
        bail("an address has 4 to 1024 bytes");
    if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < wanted) {
        limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
        setrlimit(RLIMIT_NOFILE, &limit);
        getrlimit(RLIMIT_NOFILE, &limit);
    }
    alarm(RANKS_SECONDS);
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int tcp = 0; tcp < 2; tcp++) {
            char what[40];
            snprintf(what, sizeof what, "%d ranks by %s", sizes[i], tcp ? "TCP" : "Unix sockets");
            if (limit.rlim_cur < 4 * (rlim_t)sizes[i])
                skip(what, "fewer descriptors are allowed than they need (ulimit -n)");
            else
                job_of_many(sizes[i], tcp);
        }
    done();
}
