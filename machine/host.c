/* SPDX-License-Identifier: Apache-2.0 */
#include "machine/host.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The kernel's name for its current boot, without its dashes; the host's name without /proc. */
static void boot_read(char *text, size_t room)
{
    char raw[64] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    size_t n = 0;

    if (fd < 0 || read(fd, raw, sizeof raw - 1) <= 0)
        if (gethostname(raw, sizeof raw - 1))
            raw[0] = 0;
    if (fd >= 0)
        close(fd);
    for (const char *c = raw; *c > ' ' && n + 1 < room; c++)
        if (*c != '-')
            text[n++] = *c;
    text[n] = 0;
}

void zero__host_here(struct zero__host *h)
{
    struct stat st;

    memset(h, 0, sizeof *h);
    boot_read(h->boot, sizeof h->boot);
    if (stat("/proc/self/ns/net", &st) == 0)
        h->network = st.st_ino;
}

bool zero__host_same_kernel(const struct zero__host *a, const struct zero__host *b)
{
    return memcmp(a->boot, b->boot, sizeof a->boot) == 0;
}

bool zero__host_same(const struct zero__host *a, const struct zero__host *b)
{
    return a->boot[0] && a->network && a->network == b->network && zero__host_same_kernel(a, b);
}
