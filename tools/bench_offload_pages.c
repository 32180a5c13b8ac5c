/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of the memory that blocks lie in on their way, ours as fio's: a disk reaches a huge one in
 * one piece and small ones in many, so that figures of the two compare nothing. Both have them from
 * the system as a program's memory has: ours because it asks, fio's because its C library asks.
 */
#include "config.h"

#include "bench_offload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/status.h"
#include "bench_pages.h"
#include "machine/line.h"

#define MOST_APART (UINT64_C(4) << 20) /* of memory that begins and ends anywhere: not in huge ones */

static bool system_has_huge(void)
{
    char text[128];

    return zero__line_read("/sys/kernel/mm/transparent_hugepage/enabled", "", text, sizeof text) &&
           !strstr(text, "[never]");
}

int offload_pages_choose(const struct offload_options *o, enum offload_pages *pages)
{
    bool there = system_has_huge();

    if (o->pages == OFFLOAD_PAGES_HUGE && !there)
        return zero__fail(-ENOTSUP, "--pages huge: this system has none for memory of programs; "
                                    "/sys/kernel/mm/transparent_hugepage/enabled says so");
    *pages = o->pages != OFFLOAD_PAGES_AUTO ? o->pages
             : there                        ? OFFLOAD_PAGES_HUGE
                                            : OFFLOAD_PAGES_SMALL;
    /* Of all that this process takes from here on, and of fio. */
    if (*pages == OFFLOAD_PAGES_SMALL)
        prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    else
        setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1", 1); /* read by glibc 2.35 and later */
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

enum offload_pages offload_pages_of_process(int pid, uint64_t bytes)
{
    char path[64];
    uint64_t kib = 0;

    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    zero__number_read(path, "AnonHugePages:", &kib);
    return kib * 1024 + MOST_APART >= bytes ? OFFLOAD_PAGES_HUGE : OFFLOAD_PAGES_SMALL;
}
