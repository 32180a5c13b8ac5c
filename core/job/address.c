/* SPDX-License-Identifier: Apache-2.0 */
/* See address.h. A resolver may block for minutes: it is called through call_within.h. */
#include "config.h"

#include "job/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/call_within.h"
#include "base/status.h"
#include "machine/clock.h"

struct query {
    char name[ZERO__ADDRESS_HOST];
    uint16_t port;
    int rc, err; /* of getaddrinfo(); err: errno of EAI_SYSTEM */
    struct zero__addresses found;
};

static int ask(struct query *q, int flags)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    struct addrinfo *all = NULL;
    char port[8];

    snprintf(port, sizeof port, "%u", q->port);
    hints.ai_flags |= AI_NUMERICSERV;
    q->rc = getaddrinfo(q->name, port, &hints, &all);
    q->err = errno;
    if (q->rc)
        return q->rc;
    q->found.n = 0;
    for (struct addrinfo *i = all; i && q->found.n < ZERO__ADDRESSES; i = i->ai_next) {
        struct zero__address *a = &q->found.at[q->found.n];
        if (i->ai_addrlen > sizeof a->s || (i->ai_family != AF_INET && i->ai_family != AF_INET6))
            continue;
        memset(a, 0, sizeof *a);
        memcpy(&a->s, i->ai_addr, i->ai_addrlen);
        a->bytes = i->ai_addrlen;
        q->found.n++;
    }
    freeaddrinfo(all);
    return 0;
}

static int ask_resolver(void *arg)
{
    ask(arg, 0);
    return 0; /* the reason, if any, is in the query */
}

static bool is_wildcard(const struct zero__address *a)
{
    static const struct in6_addr any = IN6ADDR_ANY_INIT;

    if (a->s.ss_family == AF_INET)
        return ((const struct sockaddr_in *)(const void *)&a->s)->sin_addr.s_addr == INADDR_ANY;
    return !memcmp(&((const struct sockaddr_in6 *)(const void *)&a->s)->sin6_addr, &any,
                   sizeof any);
}

int zero__address_find(const char *what, const char *name, uint16_t port, int64_t deadline_ns,
                       struct zero__addresses *out)
{
    struct query q = {.port = port};
    int64_t begin = zero__now_ns();
    size_t n = strlen(name), skip = n > 2 && name[0] == '[' && name[n - 1] == ']';

    if (n - 2 * skip >= sizeof q.name)
        return zero__fail(-EINVAL, "%s \"%.40s...\" has %zu characters: at most %zu are allowed",
                          what, name, n, sizeof q.name - 1);
    memcpy(q.name, name + skip, n - 2 * skip);
    int e = 0;
    bool named = ask(&q, AI_NUMERICHOST);
    if (named)
        e = zero__call_within(deadline_ns, ask_resolver, &q, sizeof q);
    if (e == -ETIMEDOUT)
        return zero__fail(e,
                          "%s is \"%.200s\", which does not resolve: no answer within %.3g s; give "
                          "an IP address, or mend the resolver (/etc/resolv.conf, /etc/hosts)",
                          what, name, (double)(zero__now_ns() - begin) / 1e9);
    if (e)
        return e;
    if (q.rc || !q.found.n)
        return zero__fail(-EHOSTUNREACH,
                          "%s is \"%.200s\", which does not resolve: %s; give an IP address, or a "
                          "name that this machine knows (getent hosts NAME)",
                          what, name,
                          q.rc == EAI_SYSTEM ? strerror(q.err)
                          : q.rc             ? gai_strerror(q.rc)
                                             : "it has no address");
    if (is_wildcard(&q.found.at[0]))
        return zero__fail(-EINVAL,
                          "%s is \"%.200s\", which stands for all addresses: name the one address "
                          "of rank 0 that the other ranks reach",
                          what, name);
    *out = q.found;
    out->named = named;
    return 0;
}

bool zero__address_is(const struct zero__address *a, const struct sockaddr *b)
{
    if (!b || b->sa_family != a->s.ss_family)
        return false;
    if (b->sa_family == AF_INET)
        return ((const struct sockaddr_in *)(const void *)b)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)(const void *)&a->s)->sin_addr.s_addr;
    return b->sa_family == AF_INET6 &&
           !memcmp(&((const struct sockaddr_in6 *)(const void *)b)->sin6_addr,
                   &((const struct sockaddr_in6 *)(const void *)&a->s)->sin6_addr, 16);
}

bool zero__address_is_loopback(const struct zero__address *a)
{
    if (a->s.ss_family == AF_INET) /* 127.0.0.0/8 */
        return *(const unsigned char *)&((const struct sockaddr_in *)(const void *)&a->s)
                    ->sin_addr == 127;
    return a->s.ss_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)&a->s)->sin6_addr);
}

bool zero__host_is_loopback(const char *name)
{
    static const char suffix[] = ".localhost";
    size_t n = strlen(name), m = sizeof suffix - 1;

    return !strncasecmp(name, "localhost", 9) || !strncasecmp(name, "ip6-l", 5) ||
           (n > m && !strcasecmp(name + n - m, suffix));
}

bool zero__host_is_here(const char *name)
{
    char own[256];

    if (!strcasecmp(name, "localhost"))
        return true;
    if (gethostname(own, sizeof own) || !memchr(own, 0, sizeof own))
        return false;
    /* "node1.example.org" and "node1" are one machine. */
    size_t a = strcspn(name, "."), b = strcspn(own, ".");
    return !strcasecmp(name, own) ||
           (a == b && a > 0 && !strncasecmp(name, own, a) && (!name[a] || !own[b]));
}

uint16_t zero__address_port(const struct zero__address *a)
{
    return ntohs(a->s.ss_family == AF_INET
                     ? ((const struct sockaddr_in *)(const void *)&a->s)->sin_port
                     : ((const struct sockaddr_in6 *)(const void *)&a->s)->sin6_port);
}

void zero__address_host(const struct zero__address *a, char text[static ZERO__ADDRESS_TEXT])
{
    if (getnameinfo((const struct sockaddr *)&a->s, a->bytes, text, ZERO__ADDRESS_TEXT, NULL, 0,
                    NI_NUMERICHOST))
        snprintf(text, ZERO__ADDRESS_TEXT, "?");
}

void zero__address_text(const struct zero__address *a, char text[static ZERO__ADDRESS_TEXT])
{
    bool six = a->s.ss_family == AF_INET6;
    char host[ZERO__ADDRESS_TEXT];

    zero__address_host(a, host);
    snprintf(text, ZERO__ADDRESS_TEXT, "%s%.64s%s:%u", six ? "[" : "", host, six ? "]" : "",
             zero__address_port(a));
}
