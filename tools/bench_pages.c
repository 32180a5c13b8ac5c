/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says about a mapping; see bench_pages.h. */
#include "config.h"

#include "bench_pages.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

int bench_pages_huge(const void *base, uint64_t bytes)
{
    static const char *const kinds[] = {"AnonHugePages:", "ShmemPmdMapped:", "FilePmdMapped:",
                                        "Shared_Hugetlb:", "Private_Hugetlb:"};
    unsigned long long first, end, kib, all = 0, huge = 0;
    uintptr_t low = (uintptr_t)base, high = low + bytes;
    FILE *f = fopen("/proc/self/smaps", "re");
    char line[512], name[64];
    bool ours = false;

    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "%llx-%llx %63s", &first, &end, name) == 3 && !strchr(name, ':')) {
            ours = bytes && first < high && end > low;
            all += ours ? (end - first) / 1024 : 0;
        } else if (ours && sscanf(line, "%63s %llu", name, &kib) == 2) {
            for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
                huge += strcmp(name, kinds[i]) ? 0 : kib;
        }
    }
    if (f)
        fclose(f);
    return all ? (int)(100 * huge / all) : -1;
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
