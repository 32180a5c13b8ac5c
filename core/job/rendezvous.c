/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the ranks of a job meet. Rank 0 always listens at its Unix socket. With
 * ZERO_RENDEZVOUS=auto
 *
 *     LOCAL_WORLD_SIZE = WORLD_SIZE    one host:     all come by Unix
 *     LOCAL_WORLD_SIZE < WORLD_SIZE    several:      rank 0 listens by TCP too
 *     not set, no MASTER_ADDR          one host
 *     not set                          not known:    rank 0, whose machine MASTER_ADDR must name,
 *                                      listens by TCP too if that is no loopback address and there
 *                                      is a secret
 *
 * and another rank comes by Unix if MASTER_ADDR names its own machine, else by TCP. TCP needs a
 * secret, or the word that none is wanted.
 *
 * The name of a machine often leads to its own loopback, and on other hosts to an address of one of
 * its interfaces (Debian writes "127.0.1.1 NAME" into /etc/hosts): unless all ranks are known to be
 * on one host, rank 0 listens at that interface then.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/options.h"
#include "base/status.h"
#include "job/interface.h"
#include "job/internal.h"
#include "machine/clock.h"

#define NO_SECRET "there is no secret that ranks of other hosts could know"

static bool several(const struct zero__job_params *p)
{
    return p->local_known && p->local_ranks < p->ranks;
}

static bool one_host(const struct zero__job_params *p)
{
    return p->local_known ? p->local_ranks == p->ranks : !p->address[0];
}

/* Notes why the ranks meet as they do. */
__attribute__((format(printf, 2, 3))) static void because(struct zero__job *job, const char *fmt,
                                                          ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(job->meet.why, sizeof job->meet.why, fmt, ap);
    va_end(ap);
}

static bool may_use_tcp(const struct zero__job_params *p)
{
    return p->secret.known || p->insecure;
}

/* Is it settled that TCP is needed; then all that it takes must be there. */
static int check_tcp(const struct zero__job_params *p)
{
    char why[320], remedy[64];

    if (several(p))
        snprintf(why, sizeof why, "only %d of its %d ranks are on this host", p->local_ranks,
                 p->ranks);
    else if (p->how == ZERO__RENDEZVOUS_TCP)
        snprintf(why, sizeof why, "ZERO_RENDEZVOUS is tcp");
    else
        snprintf(why, sizeof why, "MASTER_ADDR is %.255s, which is not this machine", p->address);
    if (!may_use_tcp(p)) {
        if (several(p) || p->how == ZERO__RENDEZVOUS_TCP)
            remedy[0] = 0;
        else
            snprintf(remedy, sizeof remedy, " (if all ranks are here: LOCAL_WORLD_SIZE=%d)",
                     p->ranks);
        return zero__fail(-EACCES,
                          "job %s: %s, and ranks that meet by TCP need a secret to know each other "
                          "by: put the same 64 hex digits into a file of mode 0600 on every host "
                          "and name it in ZERO_SECRET_FILE, or set ZERO_INSECURE=1 in a network "
                          "where nobody else can connect%s",
                          p->key, why, remedy);
    }
    if (!p->port)
        return zero__fail(-EINVAL,
                          "job %s: %s, and no port is known: set MASTER_PORT (under torchrun at "
                          "most 65534) or ZERO_PORT, the same for all ranks",
                          p->key, why);
    if (!p->address[0] && (p->rank || !p->interface[0]))
        return zero__fail(-EINVAL,
                          "job %s: %s, and no address is known: set MASTER_ADDR to that of rank 0, "
                          "the same for all ranks",
                          p->key, why);
    return 0;
}

static int find_address(struct zero__job *job, struct zero__addresses *all)
{
    return zero__address_find("MASTER_ADDR", job->params.address, job->params.port,
                              job->join_deadline_ns, all);
}

/* Of the addresses of MASTER_ADDR one that is here; names often lead to the loopback, too. */
static const struct zero__address *own_of(const struct zero__addresses *all)
{
    const struct zero__address *own = NULL;

    for (uint32_t i = 0; i < all->n; i++)
        if (zero__address_is_here(&all->at[i]) && (!own || zero__address_is_loopback(own)))
            own = &all->at[i];
    return own;
}

static int not_here(const struct zero__job_params *p)
{
    return zero__fail(-EADDRNOTAVAIL,
                      "job %s: MASTER_ADDR is \"%.200s\", which is not this machine: start rank 0 "
                      "there, set MASTER_ADDR to an address of this machine, or name the interface "
                      "at which rank 0 shall listen in ZERO_INTERFACE; if all ranks are here, set "
                      "LOCAL_WORLD_SIZE=%d",
                      p->key, p->address, p->ranks);
}

/* The name of a machine, which leads to the loopback on this one. */
static bool is_detour(const struct zero__job_params *p, const struct zero__addresses *all)
{
    const struct zero__address *own = own_of(all);

    return own && zero__address_is_loopback(own) && all->named &&
           !zero__host_is_loopback(p->address);
}

/* The address at which rank 0 listens. -ENOTUNIQ: other hosts may come by several. */
static int own_address(struct zero__job *job, struct zero__address *own)
{
    const struct zero__job_params *p = &job->params;
    struct zero__addresses all;
    char way[80];

    if (p->interface[0]) {
        int family = strchr(p->address, ':') ? AF_INET6 : AF_UNSPEC;
        because(job, "ZERO_INTERFACE is %s", p->interface);
        return zero__interface_address(p->interface, family, p->port, own);
    }
    int e = find_address(job, &all);
    if (e)
        return e;
    const struct zero__address *a = own_of(&all);
    if (!a)
        return not_here(p);
    *own = *a;
    because(job, "MASTER_ADDR is %.60s%s", p->address,
            zero__address_is_loopback(a) ? ", the loopback" : "");
    if (!is_detour(p, &all) || one_host(p))
        return 0;
    e = zero__interface_outward(p->port, own, way, sizeof way);
    if (e == -ENOTUNIQ)
        return zero__while(e, "job %s: MASTER_ADDR is \"%.80s\", the loopback here", p->key,
                           p->address);
    because(job, "MASTER_ADDR is %.60s, the loopback here; %s", p->address,
            e ? "there is no other interface" : way);
    return 0;
}

static void listen_at(struct zero__job *job, const struct zero__address *own)
{
    job->meet.tcp = true;
    job->meet.at.n = 1;
    job->meet.at.at[0] = *own;
}

static void warn_where(struct zero__job *job)
{
    const struct zero__job_params *p = &job->params;
    char text[ZERO__ADDRESS_TEXT];

    zero__address_text(&job->meet.at.at[0], text);
    if (several(p) && zero__address_is_loopback(&job->meet.at.at[0]))
        zero__log(
            p->log, ZERO_LOG_WARN, "job",
            "rank 0 listens at %s, which other machines do not reach: if ranks are there, set "
            "MASTER_ADDR to another address of this machine, or ZERO_INTERFACE",
            text);
    if (!p->secret.known)
        zero__log(p->log, ZERO_LOG_WARN, "job",
                  "ZERO_INSECURE: whoever reaches %s can join the job or end it; use a secret "
                  "(ZERO_SECRET_FILE) unless nobody else can connect",
                  text);
}

static int find_as_zero(struct zero__job *job)
{
    const struct zero__job_params *p = &job->params;
    bool sure = several(p) || p->how == ZERO__RENDEZVOUS_TCP;
    bool lenient = !sure && !p->interface[0] && zero__host_is_here(p->address);
    struct zero__address own;
    int e = sure ? check_tcp(p) : 0;

    if (e)
        return e;
    if (lenient && !may_use_tcp(p)) { /* nothing would follow from the address */
        because(job, NO_SECRET);
        return 0;
    }
    e = own_address(job, &own);
    if (e && (lenient || (!sure && e == -ENOTUNIQ))) {
        because(job, "%s", zero__error_text());
        return 0;
    }
    if (e)
        return e;
    if (!sure && zero__address_is_loopback(&own))
        return 0;
    if (!sure && (!may_use_tcp(p) || !p->port)) {
        because(job, may_use_tcp(p) ? "no port is known" : NO_SECRET);
        return 0;
    }
    listen_at(job, &own);
    warn_where(job);
    return 0;
}

/* Rank 0 may be on this host, and listen where others come. */
static void add_outward(const struct zero__job_params *p, struct zero__addresses *all)
{
    char way[80];

    if (is_detour(p, all) && !one_host(p) && all->n < ZERO__ADDRESSES &&
        !zero__interface_outward(p->port, &all->at[all->n], way, sizeof way))
        all->n++;
}

static int find_as_other(struct zero__job *job)
{
    const struct zero__job_params *p = &job->params;
    bool forced = p->how == ZERO__RENDEZVOUS_TCP, sure = several(p) || forced;
    struct zero__addresses all;
    int e = sure ? check_tcp(p) : 0;

    because(job, "MASTER_ADDR is %.60s, which is this machine", p->address);
    if (e || (!forced && zero__host_is_here(p->address)))
        return e;
    if ((e = find_address(job, &all)))
        return e;
    if (!forced && own_of(&all))
        return 0;
    if ((e = check_tcp(p)))
        return e;
    if (forced) {
        add_outward(p, &all);
        because(job, "ZERO_RENDEZVOUS is tcp");
    } else {
        because(job, "MASTER_ADDR is %.60s, another machine", p->address);
    }
    job->meet.by = ZERO__TCP;
    job->meet.at = all;
    return 0;
}

/*
 * Rank 0 listens there, or would. Elsewhere interfaces may have other names: then data goes by the
 * one to rank 0. Where all ranks are on one host all of them are told.
 */
static int check_interface(struct zero__job *job, bool together)
{
    struct zero__job_params *p = &job->params;
    struct zero__address a;
    int e = p->interface[0] ? zero__interface_address(p->interface, AF_UNSPEC, 0, &a) : 0;

    if (!e || p->rank == 0 || together)
        return e;
    zero__log(p->log, ZERO_LOG_WARN, "job", "%s; this rank goes without", zero__error_text());
    p->interface[0] = 0;
    return 0;
}

void zero__rendezvous_text(const struct zero__job *job, char *text, size_t room)
{
    const struct zero__rendezvous *meet = &job->meet;
    char at[ZERO__ADDRESS_TEXT] = "";

    if (meet->at.n)
        zero__address_text(&meet->at.at[0], at);
    if (job->params.rank == 0)
        snprintf(text, room, "rank 0 listens at %s (%s)", meet->tcp ? at : "its Unix socket only",
                 meet->why);
    else
        snprintf(text, room, "rank %d comes %s%s (%s)", job->params.rank,
                 meet->by == ZERO__TCP ? "by TCP to " : "by the Unix socket of this host", at,
                 meet->why);
}

int zero__rendezvous_find(struct zero__job *job)
{
    const struct zero__job_params *p = &job->params;
    bool unix_only = p->how == ZERO__RENDEZVOUS_UNIX;
    bool together = unix_only || (p->how == ZERO__RENDEZVOUS_AUTO && one_host(p));
    char text[ZERO__RENDEZVOUS_TEXT];
    int e = check_interface(job, together);

    if (e)
        return e;
    job->meet = (struct zero__rendezvous){.by = ZERO__UNIX};
    if (unix_only)
        because(job, "ZERO_RENDEZVOUS is unix");
    else if (together)
        because(job, p->local_known ? "the launcher says that all ranks are on this host"
                                    : "no MASTER_ADDR is set");
    else
        e = p->rank == 0 ? find_as_zero(job) : find_as_other(job);
    if (e)
        return e;
    zero__rendezvous_text(job, text, sizeof text);
    zero__log(p->log, ZERO_LOG_INFO, "job", "%s", text);
    return 0;
}
