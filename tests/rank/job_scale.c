/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs of many ranks, all threads of this process: that they start, exchange and end, and what each
 * rank costs in time and memory, threads of the test included.
 */
#include "tcp.h"

#include <sys/resource.h>

#define MOST ZERO__JOB_MAX_RANKS

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SIZES \
    {         \
        64    \
    }
#else
#define SIZES         \
    {                 \
        64, 256, 1024 \
    }
#endif

struct seat {
    struct rank r;
    struct tcp_job *job;
    bool tcp;
    int64_t open_ms, gather_us;
    pthread_t thread;
};

static pthread_barrier_t start, opened;

static long resident_kib(void)
{
    char line[128];
    long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmRSS: %ld", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib;
}

static void *run_rank(void *arg)
{
    struct seat *s = arg;
    struct rank *r = &s->r;
    struct zero__job_params p = tcp_params(r, s->job, 120000, 120000);
    struct zero__job *job = NULL;
    int32_t x = r->rank, *all = calloc((size_t)r->ranks, sizeof *all);
    bool same = true;

    if (!s->tcp)
        p.how = ZERO__RENDEZVOUS_UNIX;
    p.heartbeat_ns = 3 * ZERO_SECOND;
    pthread_barrier_wait(&start);
    int64_t t = now_ms();
    int e = zero__job_open(&p, &job);
    s->open_ms = now_ms() - t;
    want(r, !e, "open: %s", zero_last_error());
    pthread_barrier_wait(&opened); /* the memory of all is measured */
    pthread_barrier_wait(&opened);
    if (e) {
        free(all);
        return NULL;
    }
    t = zero__now_ns();
    want(r, !zero__job_allgather(job, &x, sizeof x, all), "gather: %s", zero_last_error());
    s->gather_us = (zero__now_ns() - t) / 1000;
    for (int i = 0; i < r->ranks; i++)
        same &= all[i] == i;
    want(r, same && zero__job_one_host(job) && zero__job_local_ranks(job) == r->ranks,
         "wrong numbers");
    want(r, !zero__job_close(job, 1), "close: %s", zero_last_error());
    free(all);
    return NULL;
}

static void job_of_many(int n, bool tcp)
{
    struct seat *seats = calloc((size_t)n, sizeof *seats);
    struct tcp_job *job = tcp_job("127.0.0.1");
    int64_t open_ms = 0, gather_us = 0;
    pthread_attr_t attr;
    int bad = 0;

    pthread_barrier_init(&start, NULL, (unsigned)n + 1);
    pthread_barrier_init(&opened, NULL, (unsigned)n + 1);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 512u << 10);
    for (int i = 0; i < n; i++) {
        seats[i] = (struct seat){.r = {.rank = i, .ranks = n}, .job = job, .tcp = tcp};
        if (pthread_create(&seats[i].thread, &attr, run_rank, &seats[i]))
            bail("cannot start a thread");
    }
    long before = resident_kib();
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
    pthread_attr_destroy(&attr);
    pthread_barrier_destroy(&start);
    pthread_barrier_destroy(&opened);
    free(seats);
}

int main(void)
{
    static const int sizes[] = SIZES;
    rlim_t wanted = 4 * MOST;
    struct rlimit limit;

    if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < wanted) {
        limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
        if (setrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur < wanted)
            skip_all("fewer than 4096 descriptors are allowed (ulimit -n)");
    }
    alarm(RANKS_SECONDS);
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int tcp = 0; tcp < 2; tcp++)
            job_of_many(sizes[i], tcp);
    done();
}
