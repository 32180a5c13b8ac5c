/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control groups of this process, of both versions, and their ancestors: what a container may
 * take is what the narrowest of them gives.
 */
#ifndef ZERO_MACHINE_GROUPS_H
#define ZERO_MACHINE_GROUPS_H

#include <stdbool.h>
#include <stdint.h>

#define ZERO__GROUP_FOLDER 4096u

/* What a group gives, from the files in its folder; UINT64_MAX: it does not limit. */
typedef uint64_t zero__group_fn(const char *folder, bool first_version);

/*
 * The least of them, and in folder[ZERO__GROUP_FOLDER] which group it is, "": none limits; NULL:
 * nobody asks. `controller`: a name of the first version, as "memory". `root`: in front of /proc
 * and /sys, normally "".
 */
uint64_t zero__groups_least(const char *root, const char *controller, zero__group_fn *gives,
                            char *folder);

#endif
