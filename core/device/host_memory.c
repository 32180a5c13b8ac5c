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

#define HUGE_BYTES (UINT64_C(2) << 20)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static uint64_t page_bytes(void)
{
    long n = sysconf(_SC_PAGESIZE);
    return n > 0 ? (uint64_t)n : 4096;
}

/* Maps size bytes at a multiple of align, both multiples of the page; NULL if there is no room. */
static char *map_aligned(uint64_t size, uint64_t align)
{
    uint64_t spare = align > page_bytes() ? align : 0, before;
    char *p = mmap(NULL, size + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return NULL;
    if (!spare)
        return p;
    before = (align - (uintptr_t)p % align) % align;
    if (before)
        munmap(p, before);
    munmap(p + before + size, spare - before);
    return p + before;
}

static int populate(char *p, uint64_t size)
{
    if (madvise(p, size, MADV_POPULATE_WRITE) == 0)
        return 0;
    if (errno != EINVAL)
        return -errno;
    for (uint64_t at = 0; at < size; at += page_bytes()) /* a kernel before 5.14 */
        *(volatile char *)(p + at) = 0;
    return 0;
}

static int check_mem(uint32_t mem)
{
    if (mem == ZERO_MEM_HOST || mem == ZERO_MEM_PINNED)
        return 0;
    return zero__fail(-EINVAL, "host device: memory kind 0x%x: it has host and pinned memory", mem);
}

int host_alloc(struct zero_device *dev, uint64_t bytes, uint32_t mem, void **base)
{
    uint64_t size, total;
    char *p;
    int err = check_mem(mem);

    (void)dev;
    if (err)
        return err;
    if (!bytes)
        return zero__fail(-EINVAL, "host device: an allocation of 0 bytes");
    if (zero__round_up(bytes, page_bytes(), &size) || zero__add(size, HUGE_BYTES, &total) ||
        !(p = map_aligned(size, size < HUGE_BYTES ? page_bytes() : HUGE_BYTES)))
        return zero__fail(-ENOMEM, "host device: %llu bytes are more than the system grants",
                          (unsigned long long)bytes);
    if (size >= HUGE_BYTES)
        madvise(p, size, MADV_HUGEPAGE); /* a wish: small pages work too */
    err = populate(p, size);
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
