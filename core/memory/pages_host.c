/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory behind the paged region: a memory file, whose pages exist from commit on (so that
 * touching them cannot fail later), mapped piecewise over a range of addresses without access.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/status.h"
#include "machine/pages.h"
#include "memory/limits.h"
#include "memory/pages.h"

struct host {
    int fd;
};

_Static_assert(ZERO__HUGE_BYTES % ZERO__PAGE_BYTES == 0, "addresses are aligned to a page");

static int host_reserve(void *self, uint64_t bytes, uint8_t **base)
{
    void *at = zero__addresses_take(bytes);

    (void)self;
    if (!at)
        return zero__fail(-errno,
                          "paged memory: cannot reserve %" PRIu64 " bytes of addresses: %s; lower "
                          "the limit, or raise the one of the shell (ulimit -v)",
                          bytes, strerror(errno));
    *base = at;
    return 0;
}

static int host_commit(void *self, uint32_t page)
{
    struct host *h = self;
    off_t at = (off_t)(page * ZERO__PAGE_BYTES);
    char source[256];
    uint64_t left = zero__memory_left(source, sizeof source);
    int rc;

    /* A group's limit is not an error to the kernel: it kills. */
    if (left < ZERO__PAGE_BYTES + ZERO__MEMORY_MARGIN)
        return zero__fail(-ENOMEM,
                          "paged memory: %s has %" PRIu64 " bytes left, too few for a further "
                          "2 MiB and what programs need besides; %" PRIu32 " pages are in use",
                          source, left, page);
    do
        rc = fallocate(h->fd, 0, at, (off_t)ZERO__PAGE_BYTES);
    while (rc && errno == EINTR);
    if (rc)
        return zero__fail(errno == ENOSPC ? -ENOMEM : -errno,
                          "paged memory: the machine has no further 2 MiB: %s; %" PRIu32
                          " pages are in use",
                          strerror(errno), page);
    return 0;
}

static int host_map(void *self, uint8_t *at, uint32_t page, uint32_t n)
{
    struct host *h = self;
    void *got = mmap(at, n * ZERO__PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                     h->fd, (off_t)(page * ZERO__PAGE_BYTES));

    if (got == MAP_FAILED)
        return zero__fail(-errno,
                          "paged memory: cannot map %" PRIu32 " pages of 2 MiB: %s; sysctl "
                          "vm.max_map_count limits how many pieces can be mapped",
                          n, strerror(errno));
    return 0;
}

static int host_unmap(void *self, uint8_t *at, uint32_t n)
{
    (void)self;
    void *got = mmap(at, n * ZERO__PAGE_BYTES, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);

    if (got == MAP_FAILED)
        return zero__fail(-errno, "paged memory: cannot unmap %" PRIu32 " pages of 2 MiB: %s", n,
                          strerror(errno));
    return 0;
}

static void host_close(void *self, uint8_t *base, uint64_t bytes)
{
    struct host *h = self;
    if (base)
        munmap(base, bytes);
    close(h->fd);
    free(h);
}

int zero__pages_host(uint64_t limit_bytes, struct zero__pages_backing *out)
{
    struct host *h = calloc(1, sizeof *h);
    int err;

    if (!h)
        return zero__fail(-ENOMEM, "paged memory: no memory for its description");
    h->fd = memfd_create("zero-pages", MFD_CLOEXEC);
    if (h->fd < 0) {
        err = zero__fail(-errno, "paged memory: cannot make a memory file: %s", strerror(errno));
        goto err_free;
    }
    if (limit_bytes > zero__file_most()) {
        err = zero__fail(-EFBIG,
                         "paged memory of %" PRIu64 " bytes (ZERO_DYNAMIC_BYTES) is a file, "
                         "and this process may make files of %" PRIu64 " bytes at most: raise "
                         "that (ulimit -f), or lower ZERO_DYNAMIC_BYTES",
                         limit_bytes, zero__file_most());
        goto err_close;
    }
    if (limit_bytes > INT64_MAX || ftruncate(h->fd, (off_t)limit_bytes)) {
        err = zero__fail(-EFBIG, "paged memory: a limit of %" PRIu64 " bytes is too large",
                         limit_bytes);
        goto err_close;
    }
    *out = (struct zero__pages_backing){
        .self = h,
        .reserve = host_reserve,
        .commit = host_commit,
        .map = host_map,
        .unmap = host_unmap,
        .close = host_close,
    };
    return 0;
err_close:
    close(h->fd);
err_free:
    free(h);
    return err;
}
