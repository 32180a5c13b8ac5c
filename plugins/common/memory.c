/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "memory.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "machine/left.h"
#include "machine/pages.h"

#define PIECE (UINT64_C(64) << 20)
#define RESERVE (UINT64_C(32) << 20) /* left to everybody else */

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

void *zero__memory_map(uint64_t bytes, int prot, int fd)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
    void *base;

    if (bytes < ZERO__HUGE_BYTES || bytes > INT64_MAX - ZERO__HUGE_BYTES)
        return mmap(NULL, bytes, prot, MAP_SHARED, fd, 0);
    base = zero__addresses_take(whole);
    if (!base)
        return MAP_FAILED;
    if (mmap(base, bytes, prot, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
        int err = errno;
        munmap(base, whole);
        errno = err;
        return MAP_FAILED;
    }
    madvise(base, bytes, MADV_HUGEPAGE); /* a wish; what is never read costs no page table */
    return base;
}

/*
 * Pages of files in memory are huge where an administrator has set shmem_enabled, as few have, or
 * where each is asked for when there is a first small page. What the system refuses stays small.
 */
static int collapse(char *base, uint64_t bytes, int fd, uint64_t off)
{
    const uint64_t huge = ZERO__HUGE_BYTES, page = (uint64_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t)base, from = (start + huge - 1) / huge * huge;
    uintptr_t to = (start + bytes) / huge * huge;
    int err = 0;

    for (uintptr_t at = from; at < to && !err; at += huge)
        err = zero__pages_fill((void *)at, page, fd, off + at - start);
    if (!err && from < to)
        madvise((void *)from, to - from, MADV_COLLAPSE);
    return err;
}

int zero__memory_fill(void *base, uint64_t bytes, int fd, uint64_t off)
{
    madvise(base, bytes, MADV_HUGEPAGE); /* a wish */
    for (uint64_t done = 0, n; done < bytes; done += n) {
        uint64_t room = zero__memory_left(NULL, 0);
        int err;

        n = bytes - done < PIECE ? bytes - done : PIECE;
        if (room < bytes - done || room - (bytes - done) < RESERVE)
            return -ENOMEM;
        err = fd >= 0 ? collapse((char *)base + done, n, fd, off + done) : 0;
        if (!err)
            err = zero__pages_fill((char *)base + done, n, fd, off + done);
        if (err)
            return err;
    }
    return 0;
}
