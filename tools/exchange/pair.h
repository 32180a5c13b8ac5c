/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ranks that send to each other and receive from each other at once, from private buffers, with
 * nothing but a transport's own calls: what a plugin over the same transport can reach at most. The
 * including file has the transport: transport_open(), transport_exchange(), transport_close().
 *
 *     PROGRAM [CPU0,CPU1]     for `zero bench p2p`: see serve() below
 *
 * The program forks; addresses pass through a pair of sockets. Its ranks are bound to the
 * processors that are named, else to none.
 */
#ifndef ZERO_TOOLS_EXCHANGE_PAIR_H
#define ZERO_TOOLS_EXCHANGE_PAIR_H

#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ADDRESS_MOST 8192
#define BYTES_MOST (UINT64_C(1) << 32)
#define HUGE_PAGE ((size_t)2 << 20)
#define PATIENCE 1000u /* polls, before others may have the processor */

static void transport_open(int peer_fd);
static void transport_exchange(const char *out, char *in, size_t bytes);
static void transport_close(void);

/* A rank of the exchange. */
struct side {
    int rank, fd; /* fd: to the other one */
    size_t bytes; /* of the buffers */
    char *out, *in;
};

static int answers = -1; /* what libraries print goes elsewhere */

/* Whoever asked hears it as an answer. */
static void fail(const char *what, const char *why)
{
    dprintf(answers, "error %s: %s\n", what, why);
    _exit(1);
}

static void say(int fd, const void *data, size_t bytes)
{
    if (send(fd, data, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
        fail("the other rank", "it does not listen");
}

static void hear(int fd, void *data, size_t bytes)
{
    if (recv(fd, data, bytes, MSG_WAITALL) != (ssize_t)bytes)
        fail("the other rank", "it has ended");
}

/* Each side's address to the other; returns the length of the peer's. */
static size_t swap_addresses(int fd, const void *mine, size_t bytes, void *theirs)
{
    uint64_t n = bytes, m;

    if (bytes > ADDRESS_MOST)
        fail("the address", "it is too long");
    say(fd, &n, sizeof n);
    say(fd, mine, bytes);
    hear(fd, &m, sizeof m);
    if (m > ADDRESS_MOST)
        fail("the address", "it is too long");
    hear(fd, theirs, m);
    return m;
}

/* In a poll that has found nothing so often. Ranks may share a processor with others. */
static void give_way(unsigned turn)
{
    if (turn >= PATIENCE)
        sched_yield();
}

/*
 * Both are there, and awake: who slept until the other one came would begin later than that one, as
 * no rank of libzero's does, whose barrier polls. The end of the other one is noticed here.
 */
static void meet(int fd)
{
    char byte = 0;
    ssize_t n;

    say(fd, &byte, 1);
    for (unsigned turn = 0; (n = recv(fd, &byte, 1, MSG_DONTWAIT)) < 0; turn++) {
        if (errno != EAGAIN && errno != EINTR)
            break;
        give_way(turn);
    }
    if (n != 1)
        fail("the other rank", "it has ended");
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* In huge pages where the system has them, as libzero's are. */
static char *buffer(size_t bytes)
{
    const size_t whole = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    void *p = NULL;

    if (posix_memalign(&p, HUGE_PAGE, whole))
        fail("memory", "there is not enough");
    madvise(p, whole, MADV_HUGEPAGE);
    memset(p, 0, bytes);
    return p;
}

/* Buffers of that size; what the other side sends into them is right. */
static void side_resize(struct side *s, size_t bytes)
{
    if (s->bytes) {
        free(s->out);
        free(s->in);
    }
    s->bytes = bytes;
    s->out = buffer(bytes);
    s->in = buffer(bytes);
    memset(s->out, 'a' + s->rank, bytes);
    for (int i = 0; i < 3; i++)
        transport_exchange(s->out, s->in, bytes);
    for (size_t i = 0; i < bytes; i++)
        if (s->in[i] != 'a' + !s->rank)
            fail("the data", "it is wrong");
}

/*
 * n exchanges that begin on both sides at once; on rank 0 the seconds of the slower side. What they
 * begin behind goes the same way, as libzero's barrier does.
 */
static double side_sample(const struct side *s, unsigned n)
{
    double start, mine, theirs;
    char out = 0, in;

    meet(s->fd);
    transport_exchange(&out, &in, 1);
    start = seconds();
    for (unsigned k = 0; k < n; k++)
        transport_exchange(s->out, s->in, s->bytes);
    mine = theirs = seconds() - start;
    if (s->rank)
        say(s->fd, &mine, sizeof mine);
    else
        hear(s->fd, &theirs, sizeof theirs);
    return mine > theirs ? mine : theirs;
}

/* What is asked of both ranks. */
struct request {
    uint64_t bytes;
    unsigned n, warm; /* exchanges that are timed, and before those */
};

/*
 * Rank 0 reads lines "BYTES N WARM", and answers each with the seconds of N exchanges, or with
 * "error …" and ends, as it does when there are no more lines. Who waits for one sleeps.
 */
static bool request_read(const struct side *s, struct request *r)
{
    unsigned long long bytes;
    char line[128];

    *r = (struct request){0};
    if (s->rank) {
        hear(s->fd, r, sizeof *r);
        return r->n > 0;
    }
    if (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "%llu %u %u", &bytes, &r->n, &r->warm) != 3 || r->n < 1 || bytes < 1 ||
            bytes > BYTES_MOST)
            fail("a request", "BYTES N WARM are wanted");
        r->bytes = bytes;
    }
    say(s->fd, r, sizeof *r);
    return r->n > 0;
}

static void serve(struct side *s)
{
    struct request r;

    if (s->rank == 0)
        dprintf(answers, "ready\n");
    while (request_read(s, &r)) {
        if (r.bytes != s->bytes)
            side_resize(s, r.bytes);
        for (unsigned i = 0; i < r.warm; i++)
            transport_exchange(s->out, s->in, s->bytes);
        double taken = side_sample(s, r.n);
        if (s->rank == 0)
            dprintf(answers, "%.9g\n", taken);
    }
}

static bool cpus_read(const char *text, int cpus[2])
{
    return sscanf(text, "%d,%d", &cpus[0], &cpus[1]) == 2 && cpus[0] >= 0 &&
           cpus[0] < CPU_SETSIZE && cpus[1] >= 0 && cpus[1] < CPU_SETSIZE;
}

static void bind_to(int cpu)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

int main(int argc, char **argv)
{
    int fds[2], status = 0, cpus[2];
    struct side s = {0};
    pid_t child;

    if (argc > 2 || (argc == 2 && !cpus_read(argv[1], cpus))) {
        fprintf(stderr, "usage: %s [CPU0,CPU1]\n", argv[0]);
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    answers = dup(STDOUT_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
        fail("a pair of sockets", "there is none");
    child = fork();
    if (child < 0)
        fail("fork", "no process");
    s.rank = child == 0;
    s.fd = fds[s.rank];
    if (s.rank)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(fds[!s.rank]);
    if (argc == 2)
        bind_to(cpus[s.rank]);
    transport_open(s.fd);
    serve(&s);
    meet(s.fd);
    transport_close();
    if (s.rank)
        _exit(0);
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}

#endif
