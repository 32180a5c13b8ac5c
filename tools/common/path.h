/* SPDX-License-Identifier: Apache-2.0 */
/* Where this program is: what belongs to it lies beside it. */
#ifndef ZERO_TOOLS_COMMON_PATH_H
#define ZERO_TOOLS_COMMON_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

/* False, and "", where the system does not say. */
static inline bool tool_own_path(char *path, size_t room)
{
    ssize_t n = readlink("/proc/self/exe", path, room - 1);

    path[n > 0 ? n : 0] = 0;
    return n > 0;
}

#endif
