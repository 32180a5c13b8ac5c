/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of this plugin share, and how they sleep and wake each other. */
#define _GNU_SOURCE
#include "comm.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- Time, sleeping, waking ------------------------------------------------------------------ */

int64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t deadline_ns(int64_t timeout_ns)
{
    int64_t t;
    return __builtin_add_overflow(clock_ns(), timeout_ns, &t) ? INT64_MAX : t;
}

/*
 * Waking without losing a wake: who has news counts `events` up and then wakes sleepers; who wants
 * to sleep reads `events` first, looks for news, and sleeps only if the number is still the same.
 * A transport with a completion channel or an eventfd would arm that instead.
 */
void seat_ring(struct zero_comm_ctx *ctx, int32_t rank)
{
    atomic_fetch_add(&ctx->seats[rank].events, 1);
    syscall(SYS_futex, &ctx->seats[rank].events, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void seat_sleep(struct seat *seat, uint32_t seen, int64_t until)
{
    int64_t left = until - clock_ns();
    struct timespec t = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};

    if (left > 0)
        syscall(SYS_futex, &seat->events, FUTEX_WAIT, seen, &t, NULL, 0);
}

/* ---- Shared memory ----------------------------------------------------------------------------
 *
 * A memfd has no name: nothing of it remains when the processes are gone, however they went. Peers
 * open it through /proc. Sealed, it cannot shrink under anybody's feet.
 */

void segment_leave(struct segment *s)
{
    if (s->base)
        munmap(s->base, s->bytes);
    if (s->fd >= 0)
        close(s->fd);
    *s = (struct segment){.fd = -1};
}

static int segment_map(const struct zero_host *host, struct segment *s, int fd)
{
    void *p = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (p == MAP_FAILED)
        return say(host, -errno, "cannot map %llu bytes of shared memory: %m",
                   (unsigned long long)s->bytes);
    s->base = p;
    return 0;
}

int segment_create(const struct zero_host *host, uint64_t bytes, struct segment *s,
                   struct address *where)
{
    struct stat st;
    int err;

    *s = (struct segment){.bytes = bytes};
    s->fd = memfd_create("zero-" NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (s->fd < 0 || fallocate(s->fd, 0, 0, (off_t)bytes) ||
        fcntl(s->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) || fstat(s->fd, &st))
        err = say(host, -errno, "cannot make %llu bytes of shared memory: %m",
                  (unsigned long long)bytes);
    else
        err = segment_map(host, s, s->fd);
    if (err) {
        segment_leave(s);
        return err;
    }
    *where = (struct address){(uint64_t)getpid(), (uint64_t)s->fd, bytes, st.st_dev, st.st_ino};
    return 0;
}

/* What comes from a peer is checked: that it is the file which was announced, and large enough. */
int segment_join(const struct zero_host *host, int32_t rank, const struct address *where,
                 uint64_t bytes, struct segment *s)
{
    struct stat st;
    char path[64];
    int err;

    *s = (struct segment){.fd = -1, .bytes = bytes};
    snprintf(path, sizeof path, "/proc/%llu/fd/%llu", (unsigned long long)where->pid,
             (unsigned long long)where->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return say(host, -errno,
                   "cannot open the memory of rank %d (%s): %m; the ranks of this plugin run on "
                   "one machine, as one user",
                   rank, path);
    if (fstat(fd, &st) || st.st_dev != where->device || st.st_ino != where->inode ||
        where->bytes != bytes || (uint64_t)st.st_size != bytes)
        err = say(host, -EPROTO, "%s is not the memory that rank %d announced", path, rank);
    else
        err = segment_map(host, s, fd);
    close(fd);
    return err;
}
