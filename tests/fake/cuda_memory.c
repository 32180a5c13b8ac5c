/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the fake driver. Physical memory is a file without a name. A range of addresses that
 * the plugin sees stays without access for ever; beside it lies a range of the same length, its
 * place, where the files are mapped.
 *
 * As on a machine, physical memory goes when whoever has made it has released and unmapped it, and
 * all others who have it by a descriptor or a handle have, too, in whatever process. What they have
 * is the file opened once more, with a lock that lasts as long as it is open or mapped anywhere.
 */
#include "config.h"

#include "cuda_inside.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The sanitizer still knows what another thread's stack was, where that was unmapped. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define __asan_unpoison_memory_region(base, bytes) ((void)(base), (void)(bytes))
#endif

#define GRANULARITY (UINT64_C(64) << 10)
#define PAGE UINT64_C(4096)

struct chunk {
    struct chunk *next;
    int fd, device;
    uint64_t bytes;
    uint32_t maps;
    bool released;
    bool counts; /* as used: what comes from elsewhere is counted there */
};

struct map {
    struct map *next;
    struct chunk *chunk;
    uint64_t off, bytes; /* in its range */
    uint32_t gpus;       /* that may touch it, a bit each */
};

struct range {
    struct range *next;
    uint64_t base, bytes;
    unsigned char *place;
    struct map *maps;
    bool plain; /* of cuMemAlloc or of another process: any GPU may copy it, one may touch it */
};

struct host {
    struct host *next;
    uintptr_t base, bytes;
    bool own;
};

static struct range *ranges;
static struct host *hosts;
static struct chunk *chunks;

static uint64_t pages(uint64_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* ---- Finding, lock held ---------------------------------------------------------------------- */

static struct range *range_of(uint64_t address)
{
    struct range *r = ranges;

    while (r && address - r->base >= r->bytes)
        r = r->next;
    return r;
}

static bool is_pinned(uint64_t address, uint64_t n)
{
    for (struct host *h = hosts; h; h = h->next)
        if (address - h->base < h->bytes && h->bytes - (address - h->base) >= n)
            return true;
    return false;
}

void *fake_place(uint64_t address, uint64_t n, int gpu, bool copies, bool *pageable)
{
    struct range *r = range_of(address);
    uint64_t covered = 0, off = r ? address - r->base : 0;

    if (!r) {
        *pageable |= !is_pinned(address, n);
        return (void *)(uintptr_t)address;
    }
    for (struct map *m = r->maps; m; m = m->next) {
        uint64_t first = off > m->off ? off : m->off;
        uint64_t last = off + n < m->off + m->bytes ? off + n : m->off + m->bytes;
        if ((m->gpus >> gpu & 1 || (copies && r->plain)) && last > first)
            covered += last - first;
    }
    return covered == n ? r->place + off : NULL;
}

bool fake_param_place(uint64_t *word, int gpu)
{
    struct range *r = range_of(*word);
    uint64_t off = r ? *word - r->base : 0;

    if (!r)
        return true;
    for (struct map *m = r->maps; m; m = m->next)
        if (off - m->off < m->bytes && !(m->gpus >> gpu & 1))
            return false;
    *word = (uintptr_t)(r->place + off);
    return true;
}

FAKE_API void *fake_cuda_reach(const void *address)
{
    uint64_t a = (uintptr_t)address;

    pthread_mutex_lock(&fake.lock);
    struct range *r = range_of(a);
    void *place = r ? r->place + (a - r->base) : (void *)(uintptr_t)a;
    pthread_mutex_unlock(&fake.lock);
    return place;
}

FAKE_API void *fake_cuda_reach_all(int gpu, const void *address, uint64_t n)
{
    bool pageable = false;

    pthread_mutex_lock(&fake.lock);
    void *place = fake_place((uintptr_t)address, n, gpu, false, &pageable);
    if (!place || pageable) { /* the device does not see memory that is not pinned */
        fake.work.illegal++;
        fake.contexts[gpu].broken = CUDA_ILLEGAL_ADDRESS;
        place = NULL;
    }
    pthread_mutex_unlock(&fake.lock);
    return place;
}

/* ---- Physical memory, lock held -------------------------------------------------------------- */

/* The file once more, for others; -1: that does not work. */
static int fd_for_others(const char *path)
{
    struct flock lock = {.l_type = F_RDLCK};
    int fd = open(path, O_RDWR | O_CLOEXEC);

    if (fd >= 0 && fcntl(fd, F_OFD_SETLK, &lock)) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool others_have(int fd)
{
    struct flock lock = {.l_type = F_WRLCK};

    return !fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;
}

static void chunk_end(struct chunk *c)
{
    if (!c->released || c->maps || (c->counts && others_have(c->fd)))
        return;
    if (c->counts)
        fake.used[c->device] -= c->bytes;
    struct chunk **at = &chunks;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    close(c->fd);
    free(c);
}

void fake_chunks_end(void)
{
    for (struct chunk *c = chunks, *next; c; c = next) {
        next = c->next;
        chunk_end(c);
    }
}

void fake_chunks_forget(void)
{
    for (struct chunk *c = chunks; c; c = c->next)
        c->counts = false;
    memset(fake.used, 0, sizeof fake.used);
    fake_chunks_end();
}

static int chunk_new(uint64_t bytes, int device, int fd, struct chunk **out)
{
    struct chunk *c;
    bool counts = fd < 0;

    fake_chunks_end();
    if (counts && fake.used[device] + bytes > (uint64_t)fake.settings.memory_mib << 20)
        return CUDA_OUT_OF_MEMORY;
    if (counts)
        fd = memfd_create("fake-cuda", MFD_CLOEXEC);
    if (fd < 0 || (counts && ftruncate(fd, (off_t)bytes)))
        return CUDA_OPERATING_SYSTEM;
    c = calloc(1, sizeof *c);
    *c = (struct chunk){
        .next = chunks, .fd = fd, .device = device, .bytes = bytes, .counts = counts};
    chunks = c;
    if (counts)
        fake.used[device] += bytes;
    *out = c;
    return 0;
}

/* ---- Ranges, lock held ----------------------------------------------------------------------- */

static void *nowhere(void *at, uint64_t bytes)
{
    return mmap(at, bytes, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED : 0), -1, 0);
}

static int range_new(uint64_t bytes, struct range **out)
{
    struct range *r = calloc(1, sizeof *r);
    /* With room to begin at a multiple of the granularity, in both alike. */
    void *base = nowhere(NULL, bytes + GRANULARITY), *place = nowhere(NULL, bytes + GRANULARITY);

    if (base == MAP_FAILED || place == MAP_FAILED) {
        free(r);
        return CUDA_OUT_OF_MEMORY;
    }
    uint64_t skip = -(uintptr_t)base % GRANULARITY, skip_place = -(uintptr_t)place % GRANULARITY;
    if (skip)
        munmap(base, skip);
    munmap((char *)base + skip + bytes, GRANULARITY - skip);
    if (skip_place)
        munmap(place, skip_place);
    munmap((char *)place + skip_place + bytes, GRANULARITY - skip_place);
    r->base = (uintptr_t)base + skip;
    r->place = (unsigned char *)place + skip_place;
    r->bytes = bytes;
    r->next = ranges;
    ranges = r;
    *out = r;
    return 0;
}

static void range_end(struct range *r)
{
    struct range **at = &ranges;

    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    munmap((void *)(uintptr_t)r->base, r->bytes);
    munmap(r->place, r->bytes);
    free(r);
}

static int map_new(struct range *r, uint64_t off, uint64_t bytes, struct chunk *c)
{
    for (struct map *m = r->maps; m; m = m->next)
        if (off < m->off + m->bytes && m->off < off + bytes)
            return CUDA_INVALID_VALUE;
    if (mmap(r->place + off, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, c->fd, 0) ==
        MAP_FAILED)
        return CUDA_OPERATING_SYSTEM;
    __asan_unpoison_memory_region(r->place + off, bytes);
    struct map *m = calloc(1, sizeof *m);
    *m = (struct map){.next = r->maps, .chunk = c, .off = off, .bytes = bytes};
    r->maps = m;
    c->maps++;
    return 0;
}

static void map_end(struct range *r, struct map *m)
{
    struct map **at = &r->maps;

    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    nowhere(r->place + m->off, m->bytes);
    m->chunk->maps--;
    chunk_end(m->chunk);
    free(m);
}

/* ---- The interface --------------------------------------------------------------------------- */

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    CALL_IN_CONTEXT(cuMemGetInfo_v2);
    pthread_mutex_lock(&fake.lock);
    fake_chunks_end();
    *total = (size_t)fake.settings.memory_mib << 20;
    *free_bytes = *total - fake.used[fake_current()->device];
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

/* Lock held. fd: of another process, or -1. The GPU of the context alone may touch it. */
static int plain_new(uint64_t bytes, int fd, cuda_address *base)
{
    struct chunk *c = NULL;
    struct range *r = NULL;
    int result = chunk_new(bytes, fake_current()->device, fd, &c);

    if (!result)
        result = range_new(bytes, &r);
    if (!result)
        result = map_new(r, 0, bytes, c);
    if (c)
        c->released = true; /* it ends with its map */
    if (result) {
        if (r)
            range_end(r);
        if (c)
            chunk_end(c);
        return result;
    }
    r->maps->gpus = 1u << fake_current()->device;
    r->plain = true;
    fake.live.plain++;
    *base = r->base;
    return 0;
}

static int plain_end(cuda_address base)
{
    struct range *r = range_of(base);

    if (!r || !r->plain || r->base != base)
        return CUDA_INVALID_VALUE;
    map_end(r, r->maps);
    range_end(r);
    fake.live.plain--;
    return 0;
}

int cuMemAlloc_v2(cuda_address *base, size_t bytes)
{
    CALL_IN_CONTEXT(cuMemAlloc_v2);
    pthread_mutex_lock(&fake.lock);
    int result = plain_new(pages(bytes), -1, base);
    pthread_mutex_unlock(&fake.lock);
    return result;
}

int cuMemFree_v2(cuda_address base)
{
    int result = fake_call_in_context("cuMemFree_v2");

    pthread_mutex_lock(&fake.lock);
    fake_work_ends(fake_current());
    int found = plain_end(base);
    pthread_mutex_unlock(&fake.lock);
    return result ? result : found;
}

static int host_new(void *base, uint64_t bytes, bool own)
{
    for (struct host *h = hosts; h; h = h->next)
        if ((uintptr_t)base < h->base + h->bytes && h->base < (uintptr_t)base + bytes)
            return CUDA_HOST_MEMORY_ALREADY_REGISTERED;
    struct host *h = calloc(1, sizeof *h);
    *h = (struct host){hosts, (uintptr_t)base, bytes, own};
    hosts = h;
    *(own ? &fake.live.pinned : &fake.live.registered) += 1;
    return 0;
}

static int host_end(void *base, bool own)
{
    struct host **at = &hosts, *h;

    while (*at && ((*at)->base != (uintptr_t)base || (*at)->own != own))
        at = &(*at)->next;
    if (!*at)
        return CUDA_INVALID_VALUE;
    h = *at;
    *at = h->next;
    if (own)
        munmap(base, h->bytes);
    free(h);
    *(own ? &fake.live.pinned : &fake.live.registered) -= 1;
    return 0;
}

int cuMemHostAlloc(void **base, size_t bytes, unsigned flags)
{
    (void)flags;
    CALL_IN_CONTEXT(cuMemHostAlloc);
    bytes = pages(bytes);
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return CUDA_OUT_OF_MEMORY;
    __asan_unpoison_memory_region(p, bytes);
    memset(p, 0xa5, bytes); /* nobody promises zeros */
    pthread_mutex_lock(&fake.lock);
    host_new(p, bytes, true);
    pthread_mutex_unlock(&fake.lock);
    *base = p;
    return 0;
}

int cuMemFreeHost(void *base)
{
    int result = fake_call_in_context("cuMemFreeHost");

    pthread_mutex_lock(&fake.lock);
    fake_work_ends(fake_current());
    int found = host_end(base, true);
    pthread_mutex_unlock(&fake.lock);
    return result ? result : found;
}

int cuMemHostRegister_v2(void *base, size_t bytes, unsigned flags)
{
    (void)flags;
    CALL_IN_CONTEXT(cuMemHostRegister_v2);
    pthread_mutex_lock(&fake.lock);
    int result = range_of((uintptr_t)base) ? CUDA_INVALID_VALUE : host_new(base, bytes, false);
    pthread_mutex_unlock(&fake.lock);
    return result;
}

int cuMemHostUnregister(void *base)
{
    int result = fake_call_in_context("cuMemHostUnregister");

    pthread_mutex_lock(&fake.lock);
    fake_work_ends(fake_current());
    int found = host_end(base, false);
    pthread_mutex_unlock(&fake.lock);
    return result ? result : found;
}

int cuMemAddressReserve(cuda_address *base, size_t bytes, size_t align, cuda_address wish,
                        unsigned long long zero)
{
    struct range *r = NULL;

    CALL_IN_CONTEXT(cuMemAddressReserve);
    if (!bytes || bytes % GRANULARITY || align > GRANULARITY || wish || zero)
        return CUDA_INVALID_VALUE;
    pthread_mutex_lock(&fake.lock);
    int result = range_new(bytes, &r);
    if (!result) {
        fake.live.ranges++;
        *base = r->base;
    }
    pthread_mutex_unlock(&fake.lock);
    return result;
}

int cuMemAddressFree(cuda_address base, size_t bytes)
{
    int result = fake_call_in_context("cuMemAddressFree");

    pthread_mutex_lock(&fake.lock);
    struct range *r = range_of(base);
    bool good = r && r->base == base && r->bytes == bytes && !r->maps && !r->plain;
    if (good) {
        range_end(r);
        fake.live.ranges--;
    }
    pthread_mutex_unlock(&fake.lock);
    return result ? result : good ? 0 : CUDA_INVALID_VALUE;
}

int cuMemGetAllocationGranularity(size_t *bytes, const struct cuda_properties *p, int which)
{
    (void)p;
    (void)which;
    CALL(cuMemGetAllocationGranularity);
    *bytes = GRANULARITY;
    return 0;
}

static cuda_handle handle_of(struct chunk *c)
{
    return (uintptr_t)c;
}

int cuMemCreate(cuda_handle *handle, size_t bytes, const struct cuda_properties *p,
                unsigned long long zero)
{
    struct chunk *c;

    CALL(cuMemCreate);
    if (!bytes || bytes % GRANULARITY || zero || p->type != CUDA_ALLOCATION_PINNED ||
        p->location.type != CUDA_LOCATION_DEVICE)
        return CUDA_INVALID_VALUE;
    if (p->location.id < 0 || p->location.id >= fake.settings.devices)
        return CUDA_INVALID_DEVICE;
    if (p->share && !fake.settings.shares)
        return CUDA_NOT_SUPPORTED;
    pthread_mutex_lock(&fake.lock);
    int result = chunk_new(bytes, p->location.id, -1, &c);
    if (!result) {
        fake.live.chunks++;
        *handle = handle_of(c);
    }
    pthread_mutex_unlock(&fake.lock);
    return result;
}

int cuMemRelease(cuda_handle handle)
{
    struct chunk *c = (struct chunk *)(uintptr_t)handle;
    int result = fake_call("cuMemRelease");

    pthread_mutex_lock(&fake.lock);
    c->released = true;
    fake.live.chunks--;
    chunk_end(c);
    pthread_mutex_unlock(&fake.lock);
    return result;
}

int cuMemMap(cuda_address base, size_t bytes, size_t off, cuda_handle handle,
             unsigned long long zero)
{
    struct chunk *c = (struct chunk *)(uintptr_t)handle;

    CALL(cuMemMap);
    pthread_mutex_lock(&fake.lock);
    struct range *r = range_of(base);
    int result =
        !r || r->plain || off || zero || bytes != c->bytes || bytes > r->bytes - (base - r->base)
            ? CUDA_INVALID_VALUE
            : map_new(r, base - r->base, bytes, c);
    fake.live.maps += !result;
    pthread_mutex_unlock(&fake.lock);
    return result;
}

/* The map that is exactly there; lock held. */
static struct map *map_find(cuda_address base, size_t bytes, struct range **range)
{
    struct range *r = range_of(base);
    struct map *m = r && !r->plain ? r->maps : NULL;

    while (m && (m->off != base - r->base || m->bytes != bytes))
        m = m->next;
    *range = r;
    return m;
}

int cuMemUnmap(cuda_address base, size_t bytes)
{
    int result = fake_call("cuMemUnmap");
    struct range *r;

    pthread_mutex_lock(&fake.lock);
    fake_work_ends(fake_current());
    struct map *m = map_find(base, bytes, &r);
    if (m) {
        map_end(r, m);
        fake.live.maps--;
    }
    pthread_mutex_unlock(&fake.lock);
    return result ? result : m ? 0 : CUDA_INVALID_VALUE;
}

int cuMemSetAccess(cuda_address base, size_t bytes, const struct cuda_access *access, size_t n)
{
    uint32_t granted = 0, named = 0;
    struct range *r;

    CALL(cuMemSetAccess);
    for (size_t i = 0; i < n; i++) {
        int gpu = access[i].location.id;
        if (access[i].location.type != CUDA_LOCATION_DEVICE)
            return CUDA_INVALID_VALUE;
        if (gpu < 0 || gpu >= fake.settings.devices)
            return CUDA_INVALID_DEVICE;
        if (access[i].flags != CUDA_ACCESS_READ_WRITE && access[i].flags)
            return CUDA_NOT_SUPPORTED;
        named |= 1u << gpu;
        granted |= access[i].flags ? 1u << gpu : 0;
    }
    pthread_mutex_lock(&fake.lock);
    struct map *m = n ? map_find(base, bytes, &r) : NULL;
    if (m)
        m->gpus = (m->gpus & ~named) | granted;
    pthread_mutex_unlock(&fake.lock);
    return m ? 0 : CUDA_INVALID_VALUE;
}

int cuMemExportToShareableHandle(void *out, cuda_handle handle, int how, unsigned long long zero)
{
    struct chunk *c = (struct chunk *)(uintptr_t)handle;
    char path[64];

    CALL(cuMemExportToShareableHandle);
    if (how != CUDA_SHARE_DESCRIPTOR || zero)
        return CUDA_INVALID_VALUE;
    snprintf(path, sizeof path, "/proc/self/fd/%d", c->fd);
    int fd = fd_for_others(path);
    memcpy(out, &fd, sizeof fd);
    return fd < 0 ? CUDA_OPERATING_SYSTEM : 0;
}

int cuMemImportFromShareableHandle(cuda_handle *handle, void *in, int how)
{
    struct chunk *c;
    struct stat st;

    CALL(cuMemImportFromShareableHandle);
    int fd = fcntl((int)(intptr_t)in, F_DUPFD_CLOEXEC, 0);
    if (how != CUDA_SHARE_DESCRIPTOR || fd < 0 || fstat(fd, &st))
        return CUDA_INVALID_VALUE;
    pthread_mutex_lock(&fake.lock);
    int result = chunk_new((uint64_t)st.st_size, 0, fd, &c);
    if (!result) {
        fake.live.chunks++;
        *handle = handle_of(c);
    }
    pthread_mutex_unlock(&fake.lock);
    return result;
}

int cuIpcGetMemHandle(struct cuda_ipc *ipc, cuda_address base)
{
    CALL_IN_CONTEXT(cuIpcGetMemHandle);
    pthread_mutex_lock(&fake.lock);
    struct range *r = range_of(base);
    int good = r && r->plain && r->base == base;
    if (good)
        snprintf(ipc->bytes, sizeof ipc->bytes, "/proc/%d/fd/%d", (int)getpid(),
                 r->maps->chunk->fd);
    pthread_mutex_unlock(&fake.lock);
    return good ? 0 : CUDA_INVALID_VALUE;
}

int cuIpcOpenMemHandle_v2(cuda_address *base, struct cuda_ipc ipc, unsigned flags)
{
    struct stat st;

    CALL_IN_CONTEXT(cuIpcOpenMemHandle_v2);
    if (flags != CUDA_IPC_PEER_ACCESS || atoi(ipc.bytes + strlen("/proc/")) == (int)getpid())
        return CUDA_INVALID_CONTEXT; /* the process that made it has an address already */
    int fd = fd_for_others(ipc.bytes);
    if (fd < 0 || fstat(fd, &st))
        return CUDA_INVALID_VALUE;
    pthread_mutex_lock(&fake.lock);
    int result = plain_new((uint64_t)st.st_size, fd, base);
    pthread_mutex_unlock(&fake.lock);
    return result;
}

int cuIpcCloseMemHandle(cuda_address base)
{
    int result = fake_call_in_context("cuIpcCloseMemHandle");

    pthread_mutex_lock(&fake.lock);
    fake_work_ends(fake_current());
    int found = plain_end(base);
    pthread_mutex_unlock(&fake.lock);
    return result ? result : found;
}
