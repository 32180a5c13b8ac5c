/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "machine/left.h"

#define PIECE (UINT64_C(64) << 20)
#define RESERVE (UINT64_C(32) << 20) /* left to everybody else */
#define HUGE (UINT64_C(2) << 20)     /* a huge page, of most machines */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

void *zero__memory_map(uint64_t bytes, int prot, int fd)
{
    uint64_t room = bytes + HUGE;
    char *range, *base;

    if (bytes < HUGE || bytes > INT64_MAX - HUGE)
        return mmap(NULL, bytes, prot, MAP_SHARED, fd, 0);
    range = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED)
        return MAP_FAILED;
    base = range + (HUGE - (uintptr_t)range % HUGE) % HUGE;
    if (mmap(base, bytes, prot, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
        int err = errno;
        munmap(range, room);
        errno = err;
        return MAP_FAILED;
    }
    if (base > range)
        munmap(range, (uint64_t)(base - range));
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), end = (bytes + page - 1) / page * page;
    munmap(base + end, (uint64_t)(range + room - (base + end)));
    madvise(base, bytes, MADV_HUGEPAGE); /* a wish; what is never read costs no page table */
    return base;
}

/* Writes to every page, after the file has them: for kernels before 5.14. */
static int touch(char *base, uint64_t off, uint64_t bytes, int fd)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    while (fd >= 0 && fallocate(fd, 0, (off_t)off, (off_t)bytes))
        if (errno != EINTR)
            return errno == ENOSPC ? -ENOMEM : -errno;
    for (uint64_t i = off; i < off + bytes; i += page)
        ((volatile char *)base)[i] = 0;
    return 0;
}

static int fill_piece(char *base, uint64_t off, uint64_t bytes, int fd)
{
    while (madvise(base + off, bytes, MADV_POPULATE_WRITE)) {
        if (errno == EINVAL)
            return touch(base, off, bytes, fd);
        if (errno != EINTR && errno != EAGAIN)
            return errno == EFAULT ? -ENOMEM : -errno;
    }
    return 0;
}

/*
 * Pages of files in memory are huge where an administrator has set shmem_enabled, as few have, or
 * where each is asked for when there is a first small page. What the system refuses stays small.
 */
static int collapse(char *base, uint64_t off, uint64_t bytes, int fd)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t)base, from = (start + off + HUGE - 1) / HUGE * HUGE;
    uintptr_t to = (start + off + bytes) / HUGE * HUGE;
    int err = 0;

    for (uintptr_t at = from; at < to && !err; at += HUGE)
        err = fill_piece(base, at - start, page, fd);
    if (!err && from < to)
        madvise((void *)from, to - from, MADV_COLLAPSE);
    return err;
}

int zero__memory_fill(void *base, uint64_t bytes, int fd)
{
    madvise(base, bytes, MADV_HUGEPAGE); /* a wish */
    for (uint64_t done = 0, n; done < bytes; done += n) {
        uint64_t room = zero__memory_left(NULL, 0);
        int err;

        n = bytes - done < PIECE ? bytes - done : PIECE;
        if (room < bytes - done || room - (bytes - done) < RESERVE)
            return -ENOMEM;
        err = fd >= 0 ? collapse(base, done, n, fd) : 0;
        if (!err)
            err = fill_piece(base, done, n, fd);
        if (err)
            return err;
    }
    return 0;
}
