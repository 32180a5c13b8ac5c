/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading goes on after a failed write: a peer that left may have said why before it went, and a
 * stream socket delivers what was sent before it reports the end.
 */
#include "config.h"

#include "job/link.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "machine/wait.h"

#define HEADER_BYTES ((uint32_t)sizeof(struct zero__wire_header))

void zero__link_init(struct zero__link *link, int fd, int64_t pid)
{
    memset(link, 0, sizeof *link);
    link->fd = fd;
    link->pid_fd = -1;
    link->pid = pid > 0 ? pid : 0;
    /* A child of the peer may hold the socket open after the peer is dead; its pid tells. */
    if (pid > 0 && pid != getpid())
        link->pid_fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0); /* sets close-on-exec */
}

void zero__link_close(struct zero__link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
    zero__link_forget_process(link);
}

void zero__link_forget_process(struct zero__link *link)
{
    if (link->pid_fd >= 0)
        close(link->pid_fd);
    link->pid_fd = -1;
}

/* -EPIPE if e means that the connection has ended; the first reason is kept. */
static int end_of(struct zero__link *link, int e)
{
    bool cut = e == ETIMEDOUT || e == EHOSTUNREACH || e == ENETUNREACH || e == ENETDOWN ||
               e == ENETRESET || e == EHOSTDOWN || e == ENONET;

    if (!cut && e != ECONNRESET && e != ECONNABORTED && e != EPIPE && e != ENOTCONN)
        return -e;
    if (!link->error)
        link->error = e;
    return -EPIPE;
}

/* Reads up to `want` bytes: their number, 0 for "wait", or a negative errno. */
static ssize_t pull(struct zero__link *link, void *dst, size_t want)
{
    for (;;) {
        ssize_t n = recv(link->fd, dst, want, MSG_DONTWAIT);
        if (n > 0)
            return n;
        if (n == 0)
            return -EPIPE;
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return 0;
        if (errno != EINTR)
            return end_of(link, errno);
    }
}

int zero__link_read(struct zero__link *link)
{
    while (link->in_have < HEADER_BYTES) {
        ssize_t n = pull(link, (char *)&link->in + link->in_have, HEADER_BYTES - link->in_have);
        if (n <= 0)
            return (int)n;
        link->in_have += (uint32_t)n;
        if (link->in_have < HEADER_BYTES)
            continue;
        link->in_body = NULL;
        if (link->in.magic != ZERO__WIRE_MAGIC || link->in.bytes > ZERO__WIRE_BODY_BYTES)
            return -EPROTO;
        if (link->in.bytes)
            return ZERO__LINK_HEADER;
    }
    while (link->in_have < HEADER_BYTES + link->in.bytes) {
        uint32_t have = link->in_have - HEADER_BYTES;
        if (!link->in_body)
            return ZERO__LINK_HEADER;
        ssize_t n = pull(link, (char *)link->in_body + have, link->in.bytes - have);
        if (n <= 0)
            return (int)n;
        link->in_have += (uint32_t)n;
    }
    link->in_have = 0;
    return ZERO__LINK_MESSAGE;
}

void zero__link_put(struct zero__link *link, const struct zero__wire_header *h, const void *body)
{
    link->out = *h;
    link->out.magic = ZERO__WIRE_MAGIC;
    link->out_body = body;
    link->out_sent = 0;
    link->sending = true;
}

int zero__link_flush(struct zero__link *link)
{
    while (link->sending) {
        uint32_t sent = link->out_sent, whole = HEADER_BYTES + link->out.bytes;
        uint32_t h = sent < HEADER_BYTES ? sent : HEADER_BYTES, b = sent - h;
        /* To no body nothing can be added, not even 0. */
        char *body = link->out.bytes ? (char *)(uintptr_t)link->out_body + b : NULL;
        struct iovec iov[2] = {
            {(char *)&link->out + h, HEADER_BYTES - h},
            {body, link->out.bytes - b},
        };
        struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};
        ssize_t n = sendmsg(link->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EWOULDBLOCK ? -EAGAIN : end_of(link, errno);
        link->out_sent += (uint32_t)n;
        link->sending = link->out_sent < whole;
    }
    return 0;
}

int zero__link_send(struct zero__link *link, const struct zero__wire_header *h, const void *body,
                    int64_t deadline_ns)
{
    int e;
    zero__link_put(link, h, body);
    while ((e = zero__link_flush(link)) == -EAGAIN)
        if ((e = zero__fd_wait(link->fd, POLLOUT, deadline_ns)))
            break;
    return e;
}

int zero__link_receive(struct zero__link *link, void *body, uint32_t room, int64_t deadline_ns)
{
    for (;;) {
        int e = zero__link_read(link);
        if (e < 0)
            return e;
        if (e == ZERO__LINK_MESSAGE)
            return 0;
        if (e == ZERO__LINK_WAIT) {
            if ((e = zero__fd_wait(link->fd, POLLIN, deadline_ns)))
                return e;
        } else {
            if (link->in.bytes > room)
                return -EPROTO;
            link->in_body = body;
        }
    }
}
