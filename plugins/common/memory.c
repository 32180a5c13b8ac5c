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

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

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

int zero__memory_fill(void *base, uint64_t bytes, int fd)
{
    madvise(base, bytes, MADV_HUGEPAGE); /* a wish */
    for (uint64_t done = 0, n; done < bytes; done += n) {
        uint64_t room = zero__memory_left(NULL, 0);
        int err;

        n = bytes - done < PIECE ? bytes - done : PIECE;
        if (room < bytes - done || room - (bytes - done) < RESERVE)
            return -ENOMEM;
        err = fill_piece(base, done, n, fd);
        if (err)
            return err;
    }
    return 0;
}
