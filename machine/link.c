/* SPDX-License-Identifier: Apache-2.0 */
#include "machine/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/line.h"

/* The number that a file begins with, which may have a fraction; 0: none. */
static double number_in(const char *path)
{
    char text[32];

    zero__line_read(path, "", text, sizeof text);
    return strtod(text, NULL);
}

void zero__link_speed(const char *device, char *text, size_t room)
{
    const char *port = strchr(device, ':');
    char path[256];
    double gbits;

    *text = 0;
    if (strchr(device, '/') || strlen(device) > 100)
        return;
    snprintf(path, sizeof path, "/sys/class/net/%s/speed", device);
    gbits = number_in(path) / 1000; /* of megabits */
    if (!(gbits > 0)) {
        snprintf(path, sizeof path, "/sys/class/infiniband/%.*s/ports/%s/rate",
                 (int)(port ? port - device : (long)strlen(device)), device, port ? port + 1 : "1");
        gbits = number_in(path);
    }
    if (gbits > 0)
        snprintf(text, room, " %g Gb/s", gbits);
}
