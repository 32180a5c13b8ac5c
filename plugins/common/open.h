/* SPDX-License-Identifier: Apache-2.0 */
/* What a library older than the plugin does not say at open. */
#ifndef ZERO_PLUGINS_COMMON_OPEN_H
#define ZERO_PLUGINS_COMMON_OPEN_H

#include <stddef.h>

#include <zero/comm.h>
#include <zero/offload.h>

/* NULL: not known. */
static inline const char *zero__open_interface(const struct zero_comm_open *params)
{
    size_t end = offsetof(struct zero_comm_open, interface) + sizeof params->interface;
    return params->size >= end ? params->interface : NULL;
}

/* The device whose streams and memory are meant; NULL: there is none. */
static inline const struct zero_device_ops *zero__open_device(const struct zero_comm_open *params,
                                                              struct zero_device **dev)
{
    size_t end = offsetof(struct zero_comm_open, device_handle) + sizeof params->device_handle;
    int known = params->size >= end && params->device_ops && params->device_handle;

    *dev = known ? params->device_handle : NULL;
    return known ? params->device_ops : NULL;
}

/* Ranks of this host that open such a store; 1: not known. */
static inline int32_t zero__open_local_ranks(const struct zero_store_open *params)
{
    size_t end = offsetof(struct zero_store_open, local_ranks) + sizeof params->local_ranks;
    return params->size >= end && params->local_ranks > 0 ? params->local_ranks : 1;
}

/* The address of the device that uses a store; NULL: not known, or the host does. */
static inline const char *zero__open_pci(const struct zero_store_open *params)
{
    size_t end = offsetof(struct zero_store_open, pci) + sizeof params->pci;
    return params->size >= end ? params->pci : NULL;
}

#endif
