/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include <fcntl.h>
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
