/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of the memory that blocks lie in on their way, ours as fio's: a disk reaches a huge one in
 * one piece and small ones in many, so that figures of the two compare nothing. fio has huge pages
 * where the machine reserves them (nr_hugepages), ours come from the system as a program's do.
 */
#include "config.h"

#include "bench_offload.h"

#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/status.h"
#include "bench_pages.h"
#include "machine/line.h"

#define SPARE 2 /* pages that fio takes to begin its memory at one */

static uint64_t meminfo(const char *key)
{
    uint64_t x = 0;

    zero__number_read("/proc/meminfo", key, &x);
    return x;
}

static bool system_has_huge(void)
{
    char text[128];

    return zero__line_read("/sys/kernel/mm/transparent_hugepage/enabled", "", text, sizeof text) &&
           !strstr(text, "[never]");
}

/* Huge pages for the blocks that fio has under way at most. */
static uint64_t fio_needs(const struct offload_options *o, uint64_t page)
{
    uint64_t most = 0;

    for (unsigned i = 0; i < o->n_sizes; i++)
        for (unsigned k = 0; k < o->n_depths; k++)
            if (o->sizes[i] * o->depths[k] > most)
                most = o->sizes[i] * o->depths[k];
    return (most + page - 1) / page + SPARE;
}

int offload_pages_choose(const struct offload_options *o, bool beside_fio,
                         enum offload_pages *pages)
{
    uint64_t page = meminfo("Hugepagesize:") * 1024, left = meminfo("HugePages_Free:");
    uint64_t need = beside_fio && page ? fio_needs(o, page) : 0;
    bool there = system_has_huge() && (!beside_fio || (page && need <= left));

    if (o->pages == OFFLOAD_PAGES_HUGE && !system_has_huge())
        return zero__fail(-ENOTSUP, "--pages huge: this system has none for memory of programs; "
                                    "/sys/kernel/mm/transparent_hugepage/enabled says so");
    if (o->pages == OFFLOAD_PAGES_HUGE && !there)
        return zero__fail(-ENOMEM,
                          "--pages huge: fio needs %llu of them, and %llu are free: reserve them "
                          "with sysctl vm.nr_hugepages=%llu",
                          (unsigned long long)need, (unsigned long long)left,
                          (unsigned long long)(meminfo("HugePages_Total:") + need - left));
    *pages = o->pages != OFFLOAD_PAGES_AUTO ? o->pages
             : there                        ? OFFLOAD_PAGES_HUGE
                                            : OFFLOAD_PAGES_SMALL;
    if (*pages == OFFLOAD_PAGES_SMALL) /* of all that this process takes from here on, and of fio */
        prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    return 0;
}

const char *offload_pages_name(enum offload_pages pages)
{
    return pages == OFFLOAD_PAGES_HUGE ? "huge" : "small";
}

const char *offload_pages_of(const void *base)
{
    struct bench_pages p;

    bench_pages_read(base, 1, &p);
    if (!p.present)
        return "unknown";
    return !p.huge ? "small" : p.huge >= p.present / 10 * 9 ? "huge" : "mixed";
}
