/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void zero__machine_here(struct zero__machine *m)
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    struct stat st;

    memset(m, 0, sizeof *m);
    if (stat("/proc/self/ns/net", &st) == 0)
        m->network = st.st_ino;
    if (fd >= 0) {
        ssize_t n = read(fd, m->boot_id, sizeof m->boot_id - 1);
        m->boot_id[n > 0 ? n : 0] = 0;
        close(fd);
    }
}

bool zero__machine_same_kernel(const struct zero__machine *a, const struct zero__machine *b)
{
    return memcmp(a->boot_id, b->boot_id, sizeof a->boot_id) == 0;
}

bool zero__machine_same(const struct zero__machine *a, const struct zero__machine *b)
{
    return a->boot_id[0] && a->network && a->network == b->network &&
           zero__machine_same_kernel(a, b);
}

/* The number that a file begins with; 0: none. */
static double number_in(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char text[32] = "";
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    return strtod(text, NULL);
}

void zero__machine_link(const char *device, char *text, size_t room)
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
