/* SPDX-License-Identifier: Apache-2.0 */
#include "segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

struct fake_segment *fake_segment_open(const char *name)
{
    int fd = shm_open(name, O_CREAT | O_RDWR, 0600);
    void *p = MAP_FAILED;

    if (fd < 0)
        return NULL;
    if (!ftruncate(fd, sizeof(struct fake_segment)))
        p = mmap(NULL, sizeof(struct fake_segment), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return p == MAP_FAILED ? NULL : p;
}

void fake_segment_close(struct fake_segment *s)
{
    if (s)
        munmap(s, sizeof *s);
}

void fake_segment_unlink(const char *name)
{
    shm_unlink(name);
}
