/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spreads ranks over what this process may use of the machine: NUMA nodes first, then caches, then
 * cores. With more ranks than cores several share one.
 */
#include "job.h"

#include <errno.h>
#include <hwloc.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct run_binding {
    hwloc_topology_t topology;
    int n;
    hwloc_cpuset_t *sets;
};

void run_binding_free(struct run_binding *b)
{
    if (!b)
        return;
    for (int i = 0; b->sets && i < b->n; i++)
        hwloc_bitmap_free(b->sets[i]);
    free(b->sets);
    hwloc_topology_destroy(b->topology);
    free(b);
}

struct run_binding *run_binding_create(int n)
{
    struct run_binding *b = calloc(1, sizeof *b);
    hwloc_bitmap_t ours = NULL;
    hwloc_obj_t root;

    if (!b || hwloc_topology_init(&b->topology))
        goto err;
    b->n = n;
    b->sets = calloc((size_t)n, sizeof *b->sets);
    ours = hwloc_bitmap_alloc();
    if (!b->sets || !ours || hwloc_topology_load(b->topology))
        goto err_binding;
    if (!hwloc_get_cpubind(b->topology, ours, HWLOC_CPUBIND_PROCESS))
        hwloc_topology_restrict(b->topology, ours, 0);
    root = hwloc_get_root_obj(b->topology);
    if (hwloc_distrib(b->topology, &root, 1, b->sets, (unsigned)n, INT_MAX, 0))
        goto err_binding;
    hwloc_bitmap_free(ours);
    return b;
err_binding:
    hwloc_bitmap_free(ours);
    run_binding_free(b);
    b = NULL;
err:
    free(b);
    fprintf(stderr, "zero run: hwloc cannot tell the cores of this machine: run without --bind\n");
    return NULL;
}

int run_bind(const struct run_binding *binding, int rank)
{
    return hwloc_set_cpubind(binding->topology, binding->sets[rank], HWLOC_CPUBIND_PROCESS) ? -errno
                                                                                            : 0;
}
