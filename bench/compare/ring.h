/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ranks that send to each other and receive from each other at once, from private buffers, with
 * nothing but a transport's own calls: what a plugin over the same transport can reach at most. The
 * including file has the transport: ring_open(), ring_exchange(), ring_close() and RING_NAME.
 *
 * The program forks; addresses pass through a pair of sockets; each rank is bound to a processor of
 * its own of those that the program may use. Prints one JSON object per size.
 */
#ifndef RING_H
#define RING_H

#define _GNU_SOURCE
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
#define SAMPLES_MOST 1001

static void ring_open(int rank, int peer_fd);
static void ring_exchange(const char *out, char *in, size_t bytes);
static void ring_close(void);

static void fail(const char *what, const char *why)
{
    fprintf(stderr, RING_NAME ": %s: %s\n", what, why);
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
__attribute__((unused)) static size_t swap_addresses(int fd, const void *mine, size_t bytes,
                                                     void *theirs)
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

static void meet(int fd)
{
    char byte = 0;

    say(fd, &byte, 1);
    hear(fd, &byte, 1);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void bind_to(int rank)
{
    cpu_set_t may, one;
    int seen = 0;

    if (sched_getaffinity(0, sizeof may, &may))
        return;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &may) && seen++ == rank % CPU_COUNT(&may)) {
            CPU_SET(cpu, &one);
            break;
        }
    sched_setaffinity(0, sizeof one, &one);
}

static char *buffer(size_t bytes)
{
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
                   -1, 0);
    if (p == MAP_FAILED)
        fail("memory", "there is not enough");
    return p;
}

/* A sample is as many exchanges as take about a tenth of a second, at most 1,000. */
static void measure(int rank, int fd, size_t bytes, int samples)
{
    char *out = buffer(bytes), *in = buffer(bytes);
    double times[SAMPLES_MOST], start;
    unsigned n;

    memset(out, 'a' + rank, bytes);
    for (int i = 0; i < 3; i++)
        ring_exchange(out, in, bytes);
    if (in[0] != 'a' + !rank || in[bytes - 1] != 'a' + !rank)
        fail("the data", "it is wrong");
    meet(fd);
    start = seconds();
    ring_exchange(out, in, bytes);
    n = (unsigned)(0.1 / (seconds() - start + 1e-7) + 1);
    n = n > 1000 ? 1000 : n;
    if (rank == 0)
        say(fd, &n, sizeof n); /* both do the same number */
    else
        hear(fd, &n, sizeof n);
    for (int i = 0; i < samples; i++) {
        meet(fd);
        start = seconds();
        for (unsigned k = 0; k < n; k++)
            ring_exchange(out, in, bytes);
        times[i] = (seconds() - start) / n;
    }
    qsort(times, (size_t)samples, sizeof *times, by_size);
    if (rank == 0) {
        printf("{\"op\": \"exchange\", \"comm\": \"" RING_NAME
               "\", \"bytes\": %zu, \"median_s\": %.9g, \"check\": \"ok\"}\n",
               bytes, times[samples / 2]);
        fflush(stdout);
    }
    munmap(out, bytes);
    munmap(in, bytes);
}

int main(int argc, char **argv)
{
    int fds[2], status = 0, samples = argc > 1 ? atoi(argv[1]) : 0;
    pid_t child;
    int rank;

    if (argc < 3 || samples < 1 || samples > SAMPLES_MOST) {
        fprintf(stderr, "usage: %s SAMPLES BYTES...\n", argv[0]);
        return 2;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
        fail("a pair of sockets", "there is none");
    child = fork();
    if (child < 0)
        fail("fork", "no process");
    rank = child == 0;
    if (rank)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(fds[!rank]);
    bind_to(rank);
    ring_open(rank, fds[rank]);
    for (int i = 2; i < argc; i++) {
        long long bytes = atoll(argv[i]);
        if (bytes < 1 || bytes > INT64_C(1) << 32)
            fail(argv[i], "no size from 1 to 4 GiB");
        measure(rank, fds[rank], (size_t)bytes, samples);
    }
    meet(fds[rank]);
    ring_close();
    if (rank)
        _exit(0);
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}

#endif
