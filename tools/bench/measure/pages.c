/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says about a mapping; see pages.h. */
#include "config.h"

#include "pages.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void bench_pages_read(const void *base, uint64_t bytes, struct bench_pages *out)
{
    static const char *const kinds[] = {"AnonHugePages:", "ShmemPmdMapped:", "FilePmdMapped:",
                                        "Shared_Hugetlb:", "Private_Hugetlb:"};
    uintptr_t low = (uintptr_t)base, high = low + bytes;
    FILE *f = fopen("/proc/self/smaps", "re");
    unsigned long long first, end, kib;
    char line[4096], name[64];
    bool ours = false;

    *out = (struct bench_pages){0};
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "%llx-%llx %63s", &first, &end, name) == 3 && !strchr(name, ':')) {
            ours = bytes && first < high && end > low;
            out->all += ours ? (end - first) / 1024 : 0;
        } else if (ours && sscanf(line, "%63s %llu", name, &kib) == 2) {
            out->present += strcmp(name, "Rss:") ? 0 : kib;
            for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
                out->huge += strcmp(name, kinds[i]) ? 0 : kib;
        }
    }
    if (f)
        fclose(f);
}

int bench_pages_huge(const void *base, uint64_t bytes)
{
    struct bench_pages p;

    bench_pages_read(base, bytes, &p);
    return p.all ? (int)(100 * p.huge / p.all) : -1;
}

const char *bench_pages_text(int percent, char text[32])
{
    if (percent < 0)
        return "unknown";
    if (percent >= 90 || percent <= 10)
        return percent >= 90 ? "huge" : "small";
    snprintf(text, 32, "%d %% huge", percent);
    return text;
}
