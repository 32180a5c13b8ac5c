/* SPDX-License-Identifier: Apache-2.0 */
#include "base/device_name.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

#define MOST_INDEX 4095

int zero__device_name_split(const char *text, char *name, size_t room, int32_t *index)
{
    const char *colon = strrchr(text, ':');
    char *end;

    *index = -1;
    if (colon && !strchr(colon, '/')) {
        long n = strtol(colon + 1, &end, 10);
        if (colon[1] < '0' || colon[1] > '9' || *end || n > MOST_INDEX)
            return zero__fail(-EINVAL,
                              "ZERO_DEVICE=%.200s: behind the colon stands the number of a device, "
                              "from 0 to %d, as in cuda:0",
                              text, MOST_INDEX);
        *index = (int32_t)n;
    }
    size_t n = *index < 0 ? strlen(text) : (size_t)(colon - text);
    if (n >= room)
        return zero__fail(-ENAMETOOLONG,
                          "ZERO_DEVICE=%.40s…: a name of %zu bytes, and %zu are possible", text, n,
                          room - 1);
    memcpy(name, text, n);
    name[n] = 0;
    return 0;
}
