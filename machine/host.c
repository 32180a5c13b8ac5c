/* SPDX-License-Identifier: Apache-2.0 */
#include "machine/host.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "machine/line.h"

/* The kernel's name for its current boot, without its dashes; the host's name without /proc. */
static void boot_read(char *text, size_t room)
{
    char raw[64] = "";
    size_t n = 0;

    if (!zero__line_read("/proc/sys/kernel/random/boot_id", "", raw, sizeof raw) &&
        gethostname(raw, sizeof raw - 1))
        raw[0] = 0;
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

/* Behind the text: the first line of the file that begins with the key. */
static void line_add(const char *root, const char *file, const char *key, char *text, size_t room)
{
    char path[4096], line[256];
    size_t n = strlen(text);

    snprintf(path, sizeof path, "%s%s", root ? root : "", file);
    if (zero__line_read(path, key, line, sizeof line))
        snprintf(text + n, room - n, " %s", line);
}

void zero__host_tell(const char *root, char *text, size_t room)
{
    struct utsname u = {0};

    uname(&u);
    snprintf(text, room, "%s %s", u.nodename, u.machine);
    line_add(root, "/etc/machine-id", "", text, room);
    line_add(root, "/proc/cpuinfo", "model name", text, room);
}
