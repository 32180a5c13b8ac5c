/* SPDX-License-Identifier: Apache-2.0 */
/* TCP sockets of the control channel. See endpoint.h. */
#include "config.h"

#include "job/endpoint.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/status.h"
#include "machine/clock.h"
#include "machine/wait.h"

#define BACKLOG 4096 /* the kernel takes less if it must */
#define CONNECT_NS (3 * ZERO_SECOND)
#define BUSY_MS 20 /* between two attempts to get a port */

/*
 * The heartbeat notices a rank that is gone in silence; this is for the time before it beats, for a
 * job without one, and for the kernel to stop sending to nobody.
 */
#define IDLE_S 2
#define PROBE_S 2
#define PROBES 3
#define UNANSWERED_MS 7000 /* less than the probes take, so that the last one decides */

static int stream_socket(const struct zero__address *a, int *fd)
{
    int one = 1, s = socket(a->s.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (s < 0)
        return -errno;
    if (a->s.ss_family == AF_INET6)
        setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
    *fd = s;
    return 0;
}

static void set(int fd, int level, int name, int value)
{
    setsockopt(fd, level, name, &value, sizeof value); /* without it things are slower, not wrong */
}

static void tune(int fd)
{
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, IDLE_S);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, PROBE_S);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
    set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, UNANSWERED_MS);
}

static int listen_once(const struct zero__address *a, int *fd)
{
    int s = -1, e = stream_socket(a, &s);

    if (e)
        return e;
    set(s, SOL_SOCKET, SO_REUSEADDR, 1); /* old connections in TIME_WAIT hold no port */
    if (!bind(s, (const struct sockaddr *)&a->s, a->bytes) && !listen(s, BACKLOG)) {
        *fd = s;
        return 0;
    }
    e = -errno;
    close(s);
    return e;
}

int zero__tcp_listen(const struct zero__address *a, int64_t deadline_ns, int *fd)
{
    char text[ZERO__ADDRESS_TEXT], host[ZERO__ADDRESS_TEXT];
    int e;

    while ((e = listen_once(a, fd)) == -EADDRINUSE && zero__now_ns() < deadline_ns)
        poll(NULL, 0, BUSY_MS);
    if (!e)
        return 0;
    zero__address_text(a, text);
    zero__address_host(a, host);
    if (e == -EADDRINUSE)
        return zero__fail(
            e,
            "port %u of %s is in use: end the program that holds it, or set ZERO_PORT "
            "(without it MASTER_PORT counts) to another one, the same for all ranks; "
            "two models of one job need a port each",
            zero__address_port(a), host);
    if (e == -EADDRNOTAVAIL)
        return zero__fail(e,
                          "rank 0 cannot listen at %s, which is no address of this machine: start "
                          "rank 0 there, or set MASTER_ADDR to an address of its machine",
                          text);
    return zero__fail(e, "rank 0 cannot listen at %s for the other ranks: %s%s", text, strerror(-e),
                      e == -EACCES ? ": choose a port above 1023 with ZERO_PORT" : "");
}

int zero__tcp_hold(struct zero__address *a, int *fd)
{
    int s = -1, e = stream_socket(a, &s);

    if (!e && (bind(s, (const struct sockaddr *)&a->s, a->bytes) ||
               getsockname(s, (struct sockaddr *)&a->s, &a->bytes)))
        e = -errno;
    if (!e)
        *fd = s;
    else if (s >= 0)
        close(s);
    return e;
}

int zero__tcp_free_port(const struct zero__address *address, uint16_t *port)
{
    struct zero__address a = *address;
    int s, e = zero__tcp_hold(&a, &s);

    if (e) {
        char text[ZERO__ADDRESS_TEXT];
        zero__address_host(address, text);
        return zero__fail(e, "job: no free port at %s: %s", text, strerror(-e));
    }
    close(s);
    *port = zero__address_port(&a);
    return 0;
}

/*
 * A port of the range from which the kernel takes ports for clients may be given to the client that
 * connects to it: it is then connected to itself, and keeps rank 0 from listening.
 */
static bool is_itself(int fd)
{
    struct zero__address own = {.bytes = sizeof own.s}, peer = {.bytes = sizeof peer.s};

    return !getsockname(fd, (struct sockaddr *)&own.s, &own.bytes) &&
           !getpeername(fd, (struct sockaddr *)&peer.s, &peer.bytes) && own.bytes == peer.bytes &&
           !memcmp(&own.s, &peer.s, own.bytes);
}

/* Of a connection whose attempt has ended; 0: there it is. */
static int connect_error(int fd)
{
    int err = 0;
    socklen_t len = sizeof err;

    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) ? -errno : -err;
}

int zero__tcp_connect(const struct zero__address *a, int64_t deadline_ns, int *fd)
{
    int64_t soon = zero__deadline_ns(CONNECT_NS);
    int s = -1, e = stream_socket(a, &s);

    if (e)
        return e;
    tune(s);
    if (connect(s, (const struct sockaddr *)&a->s, a->bytes))
        e = -errno;
    if (e == -EINPROGRESS || e == -EINTR) {
        e = zero__fd_wait(s, POLLOUT, soon < deadline_ns ? soon : deadline_ns);
        e = e ? e : connect_error(s);
    }
    if (!e && is_itself(s))
        e = -ECONNREFUSED;
    if (e)
        close(s);
    else
        *fd = s;
    return e;
}

int zero__tcp_begin(const struct zero__address *own, const struct zero__address *a, int *fd)
{
    const struct linger at_once = {.l_onoff = 1}; /* nothing is sent: the end need not be kept */
    int s = -1, e = stream_socket(a, &s);

    if (e)
        return e;
    setsockopt(s, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    set(s, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    if (bind(s, (const struct sockaddr *)&own->s, own->bytes) ||
        (connect(s, (const struct sockaddr *)&a->s, a->bytes) && errno != EINPROGRESS &&
         errno != EINTR))
        e = -errno;
    if (e)
        close(s);
    else
        *fd = s;
    return e;
}

int zero__tcp_begun(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};

    return poll(&p, 1, 0) > 0 ? connect_error(fd) : -EINPROGRESS;
}

/* Errors of the connection that waited, not of the listening socket. */
static bool is_passing(int e)
{
    return e == EINTR || e == ECONNABORTED || e == EPROTO || e == ENOPROTOOPT || e == ENETDOWN ||
           e == EHOSTDOWN || e == ENONET || e == EHOSTUNREACH || e == EOPNOTSUPP ||
           e == ENETUNREACH;
}

int zero__tcp_accept(int listen_fd, int *fd)
{
    for (int tries = 0; tries < 64; tries++) {
        int s = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (s < 0 && is_passing(errno))
            continue;
        if (s < 0)
            return errno == EWOULDBLOCK ? -EAGAIN : -errno;
        tune(s);
        *fd = s;
        return 0;
    }
    return -EAGAIN;
}
