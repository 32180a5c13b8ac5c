/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the host device: anonymous pages that are there before alloc() returns, in huge pages
 * where the system grants them, so that no step pays for a page fault.
 */
#include "device/host_types.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/status.h"
#include "device/host_race.h"
#include "machine/left.h"
#include "machine/pages.h"

static uint64_t page_bytes(void)
{
    long n = sysconf(_SC_PAGESIZE);
    return n > 0 ? (uint64_t)n : 4096;
}

/* Maps size bytes, whole pages, where huge ones can lie; NULL if there is no room. */
static char *map(uint64_t size)
{
    void *at = size < ZERO__HUGE_BYTES ? NULL : zero__addresses_take(size);
    char *p;

    if (!at && size >= ZERO__HUGE_BYTES)
        return NULL;
    p = mmap(at, size, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
    if (p != MAP_FAILED)
        return p;
    if (at)
        munmap(at, size);
    return NULL;
}

static int check_mem(uint32_t mem)
{
    if (mem == ZERO_MEM_HOST || mem == ZERO_MEM_PINNED)
        return 0;
    return zero__fail(-EINVAL, "host device: memory kind 0x%x: it has host and pinned memory", mem);
}

int host_alloc(struct zero_device *dev, uint64_t bytes, uint32_t mem, void **base)
{
    uint64_t size;
    char *p;
    int err = check_mem(mem);

    (void)dev;
    if (err)
        return err;
    if (!bytes)
        return zero__fail(-EINVAL, "host device: an allocation of 0 bytes");
    if (zero__round_up(bytes, page_bytes(), &size) || !(p = map(size)))
        return zero__fail(-ENOMEM, "host device: the system grants no %llu bytes: look at "
                          "ulimit -v, vm.overcommit_memory and what other programs take",
                          (unsigned long long)bytes);
    if (size >= ZERO__HUGE_BYTES)
        madvise(p, size, MADV_HUGEPAGE); /* a wish: small pages work too */
    err = zero__pages_fill(p, size, -1, 0);
    if (err) {
        munmap(p, size);
        return zero__fail(-ENOMEM, "host device: %llu bytes cannot be made resident: %s",
                          (unsigned long long)bytes, strerror(-err));
    }
    *base = p;
    return 0;
}

int host_release(struct zero_device *dev, void *base, uint64_t bytes, uint32_t mem)
{
    uint64_t size;
    int err = check_mem(mem);

    if (err || !base)
        return err;
    if (dev->race) {
        pthread_mutex_lock(&dev->lock);
        race_forget(dev->race, base, bytes);
        pthread_mutex_unlock(&dev->lock);
    }
    if (zero__round_up(bytes, page_bytes(), &size) || munmap(base, size))
        return zero__fail(-EINVAL, "host device: %p of %llu bytes is no allocation of alloc()",
                          base, (unsigned long long)bytes);
    return 0;
}

void host_memory_info(struct zero_device_info *info)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    uint64_t left = zero__memory_left(NULL, 0);

    info->mem = ZERO_MEM_HOST;
    info->memory_bytes = pages > 0 ? (uint64_t)pages * page_bytes() : 0;
    info->free_bytes = left == UINT64_MAX ? 0 : left; /* the system does not tell */
}
