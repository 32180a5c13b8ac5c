/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names that libfabric gives to shared memory: what a killed process left behind is no obstacle
 * to one with the same number, and ranks that are connected have no names any more, so that they
 * can leave nothing behind.
 */
#include "comm.h"

#include <dirent.h>
#include <fcntl.h>

static int names_of(int pid)
{
    DIR *d = opendir("/dev/shm");
    char start[24];
    int n = 0;

    snprintf(start, sizeof start, "%d:", pid);
    for (struct dirent *e; d && (e = readdir(d));)
        n += strncmp(e->d_name, start, strlen(start)) == 0;
    if (d)
        closedir(d);
    return n;
}

static void leave_behind(struct rank *r)
{
    char name[32];

    snprintf(name, sizeof name, "/%d:0:0", (int)getpid());
    int fd = shm_open(name, O_RDWR | O_CREAT, 0600);
    want(r, fd >= 0 && !ftruncate(fd, 65536), "no shared memory");
    if (fd >= 0)
        close(fd);
}

static void connected(struct rank *r)
{
    struct comm_rank c = {0};

    leave_behind(r);
    if (comm_open(r, &c, "ofi", 1 << 20, NULL, 0)) {
        want(r, comm_barrier(&c, c.world) == 0, "barrier: %s", zero_last_error());
        want(r, names_of((int)getpid()) == 0, "%d names", names_of((int)getpid()));
        want(r, comm_barrier(&c, c.world) == 0, "barrier: %s", zero_last_error());
    }
    comm_end(r, &c);
}

int main(void)
{
    comm_require("ofi");
    unsetenv("ZERO_OFI_PROVIDER");
    for (int n = 1; n <= 3; n++)
        ranks_good(comm_ranks(n, AS_PROCESSES, connected, NULL), n, "%d processes", n);
    done();
}
