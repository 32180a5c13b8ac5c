/* SPDX-License-Identifier: Apache-2.0 */
/* See interface.h. */
#include "config.h"

#include "job/interface.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"

static bool is_link_local(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET) /* 169.254.0.0/16 */
        return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 16 ==
               0xa9fe;
    return IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

/* How well an interface's address serves: 0 not at all. Link-local ones need a scope at the peer.
 */
static int fitness(const struct ifaddrs *i, const char *name, int family)
{
    const struct sockaddr *a = i->ifa_addr;
    int fit;

    if (!a || (a->sa_family != AF_INET && a->sa_family != AF_INET6))
        return 0;
    if (*name ? strcmp(i->ifa_name, name) != 0
              : !(i->ifa_flags & IFF_UP) || (i->ifa_flags & IFF_LOOPBACK))
        return 0;
    fit = is_link_local(a) ? 1 : a->sa_family == AF_INET ? 3 : 2;
    return fit + (a->sa_family == family ? 4 : 0);
}

/* Every address of an interface has an entry. */
static bool is_again(const struct ifaddrs *all, const struct ifaddrs *i)
{
    for (; all != i; all = all->ifa_next)
        if (strcmp(all->ifa_name, i->ifa_name) == 0 && fitness(all, all->ifa_name, AF_UNSPEC) >= 2)
            return true;
    return false;
}

static void interface_names(const struct ifaddrs *all, char *text, size_t room)
{
    size_t used = 0;

    text[0] = 0;
    for (const struct ifaddrs *i = all; i && used < room; i = i->ifa_next)
        if (fitness(i, i->ifa_name, AF_UNSPEC) >= 2 && !is_again(all, i))
            used +=
                (size_t)snprintf(text + used, room - used, "%s%s", used ? ", " : "", i->ifa_name);
}

static int list(struct ifaddrs **all)
{
    return getifaddrs(all)
               ? zero__fail(-errno, "job: cannot list the network interfaces: %s", strerror(errno))
               : 0;
}

static struct zero__address address_of(const struct ifaddrs *i, uint16_t port)
{
    struct zero__address a = {.bytes = i->ifa_addr->sa_family == AF_INET
                                           ? sizeof(struct sockaddr_in)
                                           : sizeof(struct sockaddr_in6)};

    memcpy(&a.s, i->ifa_addr, a.bytes);
    if (a.s.ss_family == AF_INET)
        ((struct sockaddr_in *)(void *)&a.s)->sin_port = htons(port);
    else
        ((struct sockaddr_in6 *)(void *)&a.s)->sin6_port = htons(port);
    return a;
}

int zero__interface_address(const char *name, int family, uint16_t port, struct zero__address *out)
{
    const struct ifaddrs *best = NULL;
    struct ifaddrs *all;
    char names[300];
    int most = 0, e = list(&all);

    if (e)
        return e;
    for (const struct ifaddrs *i = all; i; i = i->ifa_next)
        if (fitness(i, name, family) > most)
            most = fitness(i, name, family), best = i;
    if (best)
        *out = address_of(best, port);
    else
        interface_names(all, names, sizeof names);
    freeifaddrs(all);
    if (best)
        return 0;
    return zero__fail(-ENODEV,
                      "ZERO_INTERFACE is \"%.40s\", but there is no such interface with an address "
                      "on this machine, which has %s: name one of them, or leave it out",
                      name, names);
}

/* A bridge or a port to which nothing is connected is up, too, but does not run. */
static bool leads_out(const struct ifaddrs *i)
{
    return (i->ifa_flags & IFF_RUNNING) && fitness(i, "", AF_UNSPEC) >= 2;
}

static const struct ifaddrs *holder_of(const struct ifaddrs *all, const struct zero__address *a)
{
    while (all && !zero__address_is(a, all->ifa_addr))
        all = all->ifa_next;
    return all;
}

/*
 * The address from which a packet to far away would leave: an entry of `all`, NULL for none. The
 * address is one of those kept for books; connecting a datagram's socket sends nothing.
 */
static const struct ifaddrs *default_route(const struct ifaddrs *all)
{
    const struct sockaddr_in far4 = {
        .sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(0xc0000201)};
    const struct sockaddr_in6 far6 = {.sin6_family = AF_INET6,
                                      .sin6_port = htons(9),
                                      .sin6_addr.s6_addr = {0x20, 0x01, 0x0d, 0xb8, [15] = 1}};
    const struct sockaddr *const far[] = {(const void *)&far4, (const void *)&far6};
    const socklen_t bytes[] = {sizeof far4, sizeof far6};
    const struct ifaddrs *found = NULL;

    for (int i = 0; i < 2 && !found; i++) {
        struct zero__address a = {.bytes = sizeof a.s};
        int s = socket(far[i]->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (s < 0)
            continue;
        if (!connect(s, far[i], bytes[i]) && !getsockname(s, (void *)&a.s, &a.bytes))
            found = holder_of(all, &a);
        close(s);
    }
    return found && leads_out(found) ? found : NULL;
}

int zero__interface_outward(uint16_t port, struct zero__address *out, char *why, size_t room)
{
    const struct ifaddrs *found = NULL;
    char text[ZERO__ADDRESS_TEXT], names[240] = "";
    struct ifaddrs *all;
    size_t used = 0;
    int n = 0, e = list(&all);

    if (e)
        return e;
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        if (!leads_out(i))
            continue;
        if (!found || fitness(i, "", AF_UNSPEC) > fitness(found, "", AF_UNSPEC))
            found = i;
        if (is_again(all, i))
            continue;
        struct zero__address a = address_of(i, 0);
        zero__address_host(&a, text);
        n++;
        if (used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s (%s)",
                                     used ? ", " : "", i->ifa_name, text);
    }
    if (n > 1)
        found = default_route(all);
    if (found) {
        *out = address_of(found, port);
        snprintf(why, room,
                 n > 1 ? "%s has the default route" : "%s is the only interface to other hosts",
                 found->ifa_name);
    }
    freeifaddrs(all);
    if (found)
        return 0;
    return n ? zero__fail(-ENOTUNIQ,
                          "job: this machine has several network interfaces, and the default route "
                          "leads through none of them: name the one by which the other hosts come "
                          "in ZERO_INTERFACE: %s",
                          names)
             : zero__fail(-ENODEV, "job: no network interface but the loopback leads anywhere: "
                                   "connect one, or name one in ZERO_INTERFACE");
}

bool zero__interface_of(const struct zero__address *a, char name[static ZERO__INTERFACE_NAME])
{
    struct ifaddrs *all;

    if (getifaddrs(&all))
        return false;
    const struct ifaddrs *i = holder_of(all, a);
    if (i)
        snprintf(name, ZERO__INTERFACE_NAME, "%s", i->ifa_name);
    freeifaddrs(all);
    return i;
}

bool zero__address_is_here(const struct zero__address *a)
{
    char name[ZERO__INTERFACE_NAME];

    return zero__address_is_loopback(a) || zero__interface_of(a, name);
}
