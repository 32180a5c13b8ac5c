/* SPDX-License-Identifier: Apache-2.0 */
/* Pages are there before they are needed: a write that finds no memory is a signal, no error. */
#define _GNU_SOURCE
#include "machine/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "machine/line.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

const char *zero__pages_refused_by(void)
{
    const char *path = ZERO__HUGE_ENABLED_2M;
    char text[128];

    if (!zero__line_read(path, "", text, sizeof text) || strstr(text, "[inherit]")) {
        path = ZERO__HUGE_ENABLED;
        zero__line_read(path, "", text, sizeof text);
    }
    return strstr(text, "[never]") ? path : NULL;
}

void *zero__addresses_take(uint64_t bytes)
{
    uint64_t before;
    char *all;

    if (bytes > PTRDIFF_MAX - ZERO__HUGE_BYTES) {
        errno = ENOMEM;
        return NULL;
    }
    all = mmap(NULL, bytes + ZERO__HUGE_BYTES, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED)
        return NULL;
    before = -(uintptr_t)all % ZERO__HUGE_BYTES;
    if (before)
        munmap(all, before);
    munmap(all + before + bytes, ZERO__HUGE_BYTES - before);
    return all + before;
}

int zero__pages_populate(void *base, uint64_t bytes)
{
    while (madvise(base, bytes, MADV_POPULATE_WRITE))
        if (errno != EINTR && errno != EAGAIN)
            return errno == EFAULT ? -ENOMEM : -errno;
    return 0;
}

int zero__pages_fill(void *base, uint64_t bytes, int fd, uint64_t off)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    int err = zero__pages_populate(base, bytes);

    if (err != -EINVAL)
        return err;
    /* Written to, once the file has them: a page that it cannot have would be a signal. */
    while (fd >= 0 && fallocate(fd, 0, (off_t)off, (off_t)bytes))
        if (errno != EINTR)
            return errno == ENOSPC ? -ENOMEM : -errno;
    for (uint64_t at = 0; at < bytes; at += page)
        ((volatile char *)base)[at] = 0;
    return 0;
}
