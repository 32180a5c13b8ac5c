/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of files that ranks share: all of it is there, in huge pages where the system has them. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "plugins/common/memory.h"
#include "tests/tap.h"

#define HUGE (UINT64_C(2) << 20)
#define BYTES (4 * HUGE + HUGE / 2)

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* Bytes that the page table of this process has in huge pages of files, from base on. */
static uint64_t huge_at(const void *base)
{
    FILE *f = fopen("/proc/self/smaps", "r");
    char line[512];
    unsigned long from, to, kib = 0;
    bool here = false;

    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            here = (uintptr_t)base >= from && (uintptr_t)base < to;
        else if (here && sscanf(line, "ShmemPmdMapped: %lu kB", &kib) == 1)
            break;
    }
    if (f)
        fclose(f);
    return (uint64_t)kib << 10;
}

/* Of this process, mapped in whatever way. */
static uint64_t pages_mapped(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;

    if (!f || fscanf(f, "%lu", &pages) != 1)
        bail("/proc does not tell");
    fclose(f);
    return pages;
}

static int file_of(uint64_t bytes)
{
    int fd = memfd_create("test", MFD_CLOEXEC);

    if (fd < 0 || ftruncate(fd, (off_t)bytes))
        bail("no file in memory");
    return fd;
}

/* What this kernel does when it is asked in the plainest way. */
static bool has_huge_pages(void)
{
    int fd = file_of(2 * HUGE);
    char *p = mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    char *at = p + (HUGE - (uintptr_t)p % HUGE) % HUGE;

    /* The file's huge pages are where its offset is a multiple, so the address must be, too. */
    at = mmap(at, HUGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    memset(at, 1, HUGE);
    bool is = madvise(at, HUGE, MADV_COLLAPSE) == 0 && huge_at(at) == HUGE;
    munmap(p, 2 * HUGE);
    close(fd);
    return is;
}

static bool is_zero(const char *p, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (p[i])
            return false;
    return true;
}

static void large(void)
{
    static const char *const whats[] = {"who makes it has huge pages, as far as they go",
                                        "and so has a peer that reads them"};
    int fd = file_of(BYTES);
    uint64_t before = pages_mapped();
    char *own = zero__memory_map(BYTES, PROT_READ | PROT_WRITE, fd), *peer;

    ok(own != MAP_FAILED && (uintptr_t)own % HUGE == 0, "it begins where a huge page does");
    is_int(zero__memory_fill(own, BYTES, fd, 0), 0, "it is filled");
    peer = zero__memory_map(BYTES, PROT_READ, fd);
    ok(peer != MAP_FAILED && (uintptr_t)peer % HUGE == 0, "a peer has it at such a place, too");
    ok(is_zero(peer, BYTES), "it is zero");
    memset(own, 7, BYTES);
    ok(peer[0] == 7 && peer[BYTES - 1] == 7, "what is written is seen");
    if (has_huge_pages()) {
        /* How many is a matter of what else is in memory. */
        ok(huge_at(own) >= HUGE && huge_at(own) <= 4 * HUGE, "%s", whats[0]);
        ok(huge_at(peer) == huge_at(own), "%s", whats[1]);
    } else {
        for (int i = 0; i < 2; i++)
            skip(whats[i], "this system has no huge pages for shared memory");
    }
    munmap(own, BYTES);
    munmap(peer, BYTES);
    is_int((int64_t)pages_mapped(), (int64_t)before, "no addresses around them stay taken");
    close(fd);
}

/* Of every size around a page and a huge page. */
static void sizes(void)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t all[] = {page,        2 * page,        HUGE - page,     HUGE,
                            HUGE + page, 2 * HUGE - page, 2 * HUGE + page, 65 * UINT64_C(1048576)};
    unsigned good = 0;

    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        int fd = file_of(all[i]);
        char *p = zero__memory_map(all[i], PROT_READ | PROT_WRITE, fd);
        unsigned char there[1];
        bool whole = p != MAP_FAILED && zero__memory_fill(p, all[i], fd, 0) == 0;
        for (uint64_t at = 0; whole && at < all[i]; at += page)
            whole = mincore(p + at, page, there) == 0 && (there[0] & 1);
        good += whole && is_zero(p, all[i]);
        munmap(p, all[i]);
        close(fd);
    }
    is_int(good, sizeof all / sizeof *all, "all pages of all sizes are there, and zero");
}

/* Bytes of anonymous memory, as the tier cpu has them. */
static void private(void)
{
    char *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    is_int(zero__memory_fill(p, BYTES, -1, 0), 0, "memory of no file is filled, too");
    ok(is_zero(p, BYTES), "with zeros");
    munmap(p, BYTES);
}

int main(void)
{
    large();
    sizes();
    private();
    done();
}
