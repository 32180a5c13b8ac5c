/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The port of a host: an address and a number at the interface that data goes by, which the first
 * rank there holds and does not listen at. The kernel refuses whoever connects, at once and however
 * many there are; no queue can be filled there. probe.c asks it whether there is a way.
 */
#include "config.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/log.h"
#include "job/internal.h"

static void port_make(struct zero__port *port, const struct zero__address *a)
{
    const struct sockaddr_in *in = (const void *)&a->s;
    const struct sockaddr_in6 *in6 = (const void *)&a->s;

    port->family = (uint16_t)a->s.ss_family;
    if (port->family == AF_INET) {
        memcpy(port->ip, &in->sin_addr, 4);
    } else {
        memcpy(port->ip, &in6->sin6_addr, 16);
        port->scope = in6->sin6_scope_id;
    }
}

bool zero__port_address(const struct zero__port *port, uint16_t number, uint32_t scope,
                        struct zero__address *a)
{
    memset(a, 0, sizeof *a);
    if (port->family == AF_INET) {
        struct sockaddr_in *in = (void *)&a->s;
        in->sin_port = htons(number);
        memcpy(&in->sin_addr, port->ip, 4);
        a->bytes = sizeof *in;
    } else if (port->family == AF_INET6) {
        struct sockaddr_in6 *in = (void *)&a->s;
        in->sin6_port = htons(number);
        in->sin6_scope_id = scope;
        memcpy(&in->sin6_addr, port->ip, 16);
        a->bytes = sizeof *in;
    } else {
        return false;
    }
    a->s.ss_family = port->family;
    return true;
}

/* Of the interface that data goes by. */
static bool own_address(struct zero__job *job, struct zero__address *a)
{
    const struct zero__job_params *p = &job->params;

    *a = (struct zero__address){.bytes = sizeof a->s};
    if (p->rank == 0) {
        *a = job->meet.at.at[0];
    } else {
        pthread_mutex_lock(&job->lock); /* the control thread may close it */
        int e = getsockname(job->peers[0].link.fd, (struct sockaddr *)&a->s, &a->bytes);
        pthread_mutex_unlock(&job->lock);
        if (e)
            return false;
    }
    if (a->s.ss_family != AF_INET && a->s.ss_family != AF_INET6)
        return false;
    if (p->rank && p->interface[0])
        return !zero__interface_address(p->interface, a->s.ss_family, 0, a);
    return true;
}

void zero__port_hold(struct zero__job *job, struct zero__port *port)
{
    struct zero__address a;
    int e = -EADDRNOTAVAIL;

    if (own_address(job, &a)) {
        port_make(port, &a);
        e = zero__port_address(port, 0, port->scope, &a)
                ? zero__tcp_hold(&a, &job->probe.held_fd)
                : -EAFNOSUPPORT;
    }
    if (!e) {
        port->number = zero__address_port(&a);
        return;
    }
    port->family = 0;
    zero__log(job->params.log, ZERO_LOG_INFO, "job",
              "this host holds no port by which others see whether they reach it: %s; only "
              "ZERO_TIMEOUT finds that its network to hosts other than that of rank 0 is cut",
              strerror(-e));
}
