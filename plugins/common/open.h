/* SPDX-License-Identifier: Apache-2.0 */
/* What a library older than the plugin does not say at open. */
#ifndef ZERO_PLUGINS_COMMON_OPEN_H
#define ZERO_PLUGINS_COMMON_OPEN_H

#include <stddef.h>

#include <zero/comm.h>

/* NULL: not known. */
static inline const char *zero__open_interface(const struct zero_comm_open *params)
{
    size_t end = offsetof(struct zero_comm_open, interface) + sizeof params->interface;
    return params->size >= end ? params->interface : NULL;
}

#endif
