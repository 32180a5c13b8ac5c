/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin that a wrapper stands on. A wrapper knows nothing of the loader: it finds what is
 * below by itself, and is as strict about it as the loader is.
 */
#ifndef ZERO_PLUGINS_COMMON_BELOW_H
#define ZERO_PLUGINS_COMMON_BELOW_H

#include <zero/offload.h>

#include "coll.h"

/*
 * Loads the plugin that `what` names, an absolute path or the name of a plugin in the folder
 * of the wrapper's own file, for good; `option` is the variable that said so, for errors. Copies
 * its table in full size, entries that it lacks NULL. -EPERM when others may write to the file or
 * to a folder above it, -ELOOP when wrappers stand on each other in a circle; others say what is
 * wrong.
 */
int zero__below_comm(const struct zero__voice *voice, const char *option, const char *what,
                     struct zero_comm_ops *ops);
int zero__below_offload(const struct zero__voice *voice, const char *option, const char *what,
                        struct zero_offload_ops *ops);

#endif
