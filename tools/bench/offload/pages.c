/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of the memory that blocks lie in on their way, ours as fio's: a disk reaches a huge one in
 * one piece and small ones in many, so that figures of the two compare nothing. Both have them from
 * the system as a program's memory has: ours because it asks, fio's because its C library asks.
 */
#include "config.h"

#include "tier.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/status.h"
#include "machine/line.h"
#include "machine/pages.h"
#include "tools/bench/measure/pages.h"

#define LEAST_TOLD (UINT64_C(16) << 20) /* the ends of less may be most of it */

/* By its C library: glibc 2.35 and later read it. */
static int fio_asks(void)
{
    static const char name[] = "GLIBC_TUNABLES", asks[] = "glibc.malloc.hugetlb=1";
    const char *others = getenv(name);
    char *text = NULL;
    int n = others ? asprintf(&text, "%s:%s", others, asks) : 0;

    if (n < 0 || setenv(name, others ? text : asks, 1))
        n = zero__fail(-ENOMEM, "no memory");
    free(text);
    return n < 0 ? n : 0;
}

int offload_pages_choose(const struct offload_options *o, enum offload_pages *pages)
{
    const char *file = zero__pages_refused_by();
    bool there = !file && !access(ZERO__HUGE_ENABLED, F_OK);

    if (!strcmp(o->pages, "huge") && !there)
        return zero__fail(-ENOTSUP,
                          "--pages huge: this system has none for memory of programs; %s %s",
                          file ? file : ZERO__HUGE_ENABLED, file ? "says so" : "is not there");
    *pages = there && strcmp(o->pages, "small") ? OFFLOAD_PAGES_HUGE : OFFLOAD_PAGES_SMALL;
    /* Of all that this process takes from here on, and of fio. */
    if (*pages == OFFLOAD_PAGES_SMALL)
        prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    return *pages == OFFLOAD_PAGES_HUGE ? fio_asks() : 0;
}

const char *offload_pages_name(enum offload_pages pages)
{
    static const char *const names[] = {"unknown", "small", "huge"};

    return names[pages];
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
    uint64_t all = 0, huge = 0;

    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    zero__number_read(path, "Anonymous:", &all);
    zero__number_read(path, "AnonHugePages:", &huge);
    if (bytes < LEAST_TOLD || all * 1024 < bytes)
        return OFFLOAD_PAGES_UNKNOWN;
    return huge * 1024 >= bytes / 8 * 7 ? OFFLOAD_PAGES_HUGE : OFFLOAD_PAGES_SMALL;
}
