/* SPDX-License-Identifier: Apache-2.0 */
/* The machine as a rank sees it: only what this process may use is counted. */
#include "print.h"

#include <hwloc.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "memory/limits.h"

void info_bytes(uint64_t bytes, char text[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double x = (double)bytes;
    unsigned u = 0;

    while (x >= 1024 && u < 5) {
        x /= 1024;
        u++;
    }
    snprintf(text, 32, u && x < 100 ? "%.1f %s" : "%.0f %s", x, units[u]);
}

static const char *plural(int n)
{
    return n == 1 ? "" : "s";
}

static void cores(void)
{
    hwloc_topology_t t;
    hwloc_bitmap_t ours = hwloc_bitmap_alloc();
    char list[128] = "?";

    if (!ours || hwloc_topology_init(&t)) {
        hwloc_bitmap_free(ours);
        return;
    }
    if (!hwloc_topology_load(t)) {
        if (!hwloc_get_cpubind(t, ours, HWLOC_CPUBIND_PROCESS)) {
            hwloc_bitmap_list_snprintf(list, sizeof list, ours);
            hwloc_topology_restrict(t, ours, 0);
        }
        hwloc_obj_t package = hwloc_get_obj_by_type(t, HWLOC_OBJ_PACKAGE, 0);
        const char *model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
        int n_cores = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_CORE);
        int n_threads = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PU);
        int n_nodes = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_NUMANODE);
        if (model)
            printf("  processor  %s\n", model);
        printf("  cores      %d with %d thread%s (%s), %d NUMA node%s\n", n_cores, n_threads,
               plural(n_threads), list, n_nodes, plural(n_nodes));
    }
    hwloc_topology_destroy(t);
    hwloc_bitmap_free(ours);
}

static void memory(void)
{
    char total[32], left[32], source[128] = "";
    uint64_t pages = (uint64_t)sysconf(_SC_PHYS_PAGES);
    uint64_t bytes = zero__memory_left(source, sizeof source);

    info_bytes(pages * (uint64_t)sysconf(_SC_PAGESIZE), total);
    printf("  memory     %s", total);
    if (bytes != UINT64_MAX) {
        info_bytes(bytes, left);
        printf(", %s left by %s", left, source);
    }
    putchar('\n');
}

static void locked(void)
{
    struct rlimit limit;
    char text[32];

    if (getrlimit(RLIMIT_MEMLOCK, &limit))
        return;
    if (limit.rlim_cur == RLIM_INFINITY)
        snprintf(text, sizeof text, "unlimited");
    else
        info_bytes(limit.rlim_cur, text);
    printf("  memlock    %s (ulimit -l)%s\n", text,
           geteuid() == 0 ? ", which does not bind root" : "");
}

void info_machine(void)
{
    puts("machine");
    cores();
    memory();
    locked();
}
