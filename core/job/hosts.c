/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ranks share a host (machine/host.h): what is there is reached by shared memory, everything
 * else by the network.
 *
 * When that is known, it is also known by which interface a rank reaches the others.
 */
#include "config.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "job/internal.h"
#include "machine/host.h"
#include "machine/text.h"

void zero__process_own(struct zero__wire_process *p)
{
    struct zero__host here;

    memset(p, 0, sizeof *p);
    p->pid = getpid();
    if (gethostname(p->host, sizeof p->host - 1))
        snprintf(p->host, sizeof p->host, "?");
    zero__host_here(&here);
    snprintf(p->host_id, sizeof p->host_id, "%.32s:%" PRIu64, here.boot, here.network);
}

void zero__process_clean(struct zero__wire_process *p)
{
    zero__text_clean(p->host, sizeof p->host);
    zero__text_clean(p->host_id, sizeof p->host_id);
}

static bool same_host(const struct zero__wire_process *a, const struct zero__wire_process *b)
{
    return !strcmp(a->host_id, b->host_id);
}

/* The host of rank r: that of the first rank there. Most ranks are where the one before them is. */
static int32_t host_of(struct zero__job *job, int32_t r)
{
    int32_t h = 0;

    if (r && same_host(&job->peers[r - 1].process, &job->peers[r].process))
        return job->peers[r - 1].host;
    while (h < job->n_hosts &&
           !same_host(&job->peers[job->peers[h].host_first].process, &job->peers[r].process))
        h++;
    return h;
}

void zero__hosts_count(struct zero__job *job)
{
    job->peers[0].process = job->hello.process; /* its own place is empty otherwise */
    job->n_hosts = 0;
    for (int32_t r = 0; r < job->n_peers; r++) {
        int32_t h = host_of(job, r);
        if (h == job->n_hosts) {
            job->peers[h].host_first = r;
            job->peers[h].host_ranks = 0;
            job->n_hosts++;
        }
        job->peers[r].host = h;
        job->peers[r].welcome.local_rank = job->peers[h].host_ranks++;
    }
    for (int32_t r = 0; r < job->n_peers; r++) {
        struct zero__wire_welcome *w = &job->peers[r].welcome;
        w->heartbeat_ns = job->params.heartbeat_ns;
        w->local_ranks = job->peers[job->peers[r].host].host_ranks;
        w->host = job->peers[r].host;
        w->n_hosts = job->n_hosts;
        w->process = job->hello.process;
    }
    zero__hosts_interface(job, "", -1);
    for (int32_t r = 0; r < job->n_peers; r++)
        memcpy(job->peers[r].welcome.interface, job->interface, sizeof job->interface);
    job->params.local_rank = job->peers[0].welcome.local_rank;
    job->params.local_ranks = job->peers[0].welcome.local_ranks;
}

static void loopback(char name[static ZERO__INTERFACE_NAME])
{
    struct zero__address a = {.bytes = sizeof(struct sockaddr_in)};

    *(struct sockaddr_in *)(void *)&a.s =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (!zero__interface_of(&a, name))
        snprintf(name, ZERO__INTERFACE_NAME, "lo");
}

void zero__hosts_interface(struct zero__job *job, const char *zero, int fd)
{
    const struct zero__job_params *p = &job->params;
    struct zero__address own = {.bytes = sizeof own.s};
    char *name = job->interface;

    name[0] = 0;
    if (job->n_hosts == 1)
        loopback(name);
    else if (p->interface[0])
        snprintf(name, ZERO__INTERFACE_NAME, "%.*s", ZERO__INTERFACE_NAME - 1, p->interface);
    else if (p->rank == 0)
        zero__interface_of(&job->meet.at.at[0], name);
    else if (job->host == 0) /* the host of rank 0: the connection to it is none to another one */
        snprintf(name, ZERO__INTERFACE_NAME, "%.*s", ZERO__INTERFACE_NAME - 1, zero);
    else if (!getsockname(fd, (struct sockaddr *)&own.s, &own.bytes))
        zero__interface_of(&own, name);
    zero__text_clean(name, ZERO__INTERFACE_NAME);
}

void zero__process_text(const struct zero__job *job, const struct zero__wire_process *p, char *text,
                        size_t room)
{
    if (job->n_hosts > 1 || (p->host_id[0] && !same_host(p, &job->hello.process)))
        snprintf(text, room, "process %" PRId64 " on %s", p->pid, p->host);
    else
        snprintf(text, room, "process %" PRId64, p->pid);
}
