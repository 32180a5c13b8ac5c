/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which nodes of the machine a store's memory comes from: those next to the device that uses it,
 * or, where no device is named or nobody knows where it is plugged in, those of the processors that
 * this process may use. It is a wish: where they have no room the system takes others.
 */
#include <hwloc.h>
#include <stdio.h>

#include "cpu.h"

/*
 * The nodes next to a device. Of everything beside processors only PCI devices are looked at, as
 * sysfs shows them: libpciaccess never gives back what it takes, and other parts of hwloc would
 * open GPUs.
 */
static bool nodes_of_device(const char *pci, hwloc_bitmap_t nodes)
{
    hwloc_topology_t t;
    hwloc_obj_t device, near;
    bool known = false;

    if (hwloc_topology_init(&t))
        return false;
    hwloc_topology_set_components(t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "pci");
    hwloc_topology_set_type_filter(t, HWLOC_OBJ_PCI_DEVICE, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (!hwloc_topology_load(t) && (device = hwloc_get_pcidev_by_busidstring(t, pci))) {
        near = hwloc_get_non_io_ancestor_obj(t, device);
        /* next to all of them: the firmware has not said where it is */
        known = near && near->nodeset && !hwloc_bitmap_iszero(near->nodeset) &&
                !hwloc_bitmap_isequal(near->nodeset, hwloc_topology_get_topology_nodeset(t)) &&
                !hwloc_bitmap_copy(nodes, near->nodeset);
    }
    hwloc_topology_destroy(t);
    return known;
}

static bool nodes_of_process(hwloc_topology_t t, hwloc_bitmap_t nodes)
{
    hwloc_bitmap_t cores = hwloc_bitmap_alloc();
    bool known = cores && !hwloc_get_cpubind(t, cores, HWLOC_CPUBIND_PROCESS) &&
                 !hwloc_cpuset_to_nodeset(t, cores, nodes);

    hwloc_bitmap_free(cores);
    return known;
}

/* A machine with one node has nothing to choose, and nobody looks for its devices. */
static void place(hwloc_topology_t t, void *base, uint64_t bytes, const char *pci,
                  hwloc_bitmap_t nodes, char *where, size_t where_bytes)
{
    char list[24];
    bool device;

    if (hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_NUMANODE) < 2)
        return;
    device = *pci && nodes_of_device(pci, nodes);
    if ((!device && !nodes_of_process(t, nodes)) ||
        hwloc_set_area_membind(t, base, bytes, nodes, HWLOC_MEMBIND_BIND, HWLOC_MEMBIND_BYNODESET))
        return;
    hwloc_bitmap_list_snprintf(list, sizeof list, nodes);
    if (device)
        snprintf(where, where_bytes, ", on node %s, next to %s", list, pci);
    else
        snprintf(where, where_bytes, ", on the nodes of this process (%s)", list);
}

void zero__cpu_place(void *base, uint64_t bytes, const char *pci, char *where, size_t where_bytes)
{
    hwloc_bitmap_t nodes = hwloc_bitmap_alloc();
    hwloc_topology_t t;

    *where = 0;
    if (nodes && !hwloc_topology_init(&t)) {
        if (!hwloc_topology_load(t))
            place(t, base, bytes, pci, nodes, where, where_bytes);
        hwloc_topology_destroy(t);
    }
    hwloc_bitmap_free(nodes);
}
