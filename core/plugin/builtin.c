/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins that are part of the program: the same description as a file has, in a table. */
#include <string.h>

#include "plugin/internal.h"

const struct zero_plugin *zero__builtin_find(const struct zero__loader *loader, uint32_t kind,
                                             const char *name)
{
    for (uint32_t i = 0; i < loader->n_builtins; i++) {
        const struct zero_plugin *desc = loader->builtins[i];

        if (strcmp(desc->name, name) != 0)
            continue;
        for (uint32_t k = 0; k < desc->n_ifaces; k++)
            if (desc->ifaces[k].kind == kind)
                return desc;
    }
    return NULL;
}
