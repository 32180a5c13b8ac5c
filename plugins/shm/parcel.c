/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handing over what finds memory of a device. A memfd can be opened by its number (/proc/PID/fd); a
 * descriptor of a driver would be another file then, and has to be passed on itself. So each rank
 * has a socket for datagrams, with an address that the kernel has chosen and ranks have told each
 * other. Anybody on this machine can write there: the kernel says who did, and what does not come
 * from the process of the rank that it names is dropped.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "machine/heard.h"
#include "shm.h"

/* Who waits looks so often whether a rank has aborted, and whether there is room again; and at the
 * latest after so many parcels, which strangers can send without an end. */
#define LOOK_MS 1
#define LOOK_PARCELS 64
#define STRANGERS_FDS 32 /* descriptors that one datagram may bring, and that are closed */

struct parcel {
    uint64_t serial, bytes;
    int32_t rank;
    int32_t status; /* negative: the rank has nothing to hand over, and why */
    uint32_t how, with_fd;
    uint8_t handle[sizeof((struct zero_device_share *)0)->handle];
};

/* What the kernel adds, and takes along. */
union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(STRANGERS_FDS * sizeof(int))];
};

/* What has been swapped with each rank. */
struct swap {
    struct zero_comm_ctx *ctx;
    struct parcel mine;
    int fd; /* that goes with mine, or -1 */
    struct zero_device_share *all;
    bool *sent, *came;
    int32_t n_sent, n_came;
    int err; /* the first failure, of this rank or of another; all are heard nevertheless */
};

int zero__parcels_open(const struct zero__voice *v, int *out, struct shm_correspondent *self)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    socklen_t bytes = sizeof at;
    const int on = 1;
    int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err;

    if (s < 0)
        return zero__say(v, -errno, "no socket to hand over memory of a device: %m");
    if (setsockopt(s, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) ||
        bind(s, (struct sockaddr *)&at, sizeof at.sun_family) || /* the kernel finds a name */
        getsockname(s, (struct sockaddr *)&at, &bytes)) {
        err = zero__say(v, -errno, "no address to hand over memory of a device: %m");
        close(s);
        return err;
    }
    bytes -= (socklen_t)offsetof(struct sockaddr_un, sun_path);
    if (bytes > sizeof self->name) {
        close(s);
        return zero__say(v, -EPROTO, "a socket has an address of %u bytes, at most %zu are known",
                         (unsigned)bytes, sizeof self->name);
    }
    memcpy(self->name, at.sun_path, bytes);
    self->name_bytes = (uint32_t)bytes;
    *out = s;
    return 0;
}

void zero__parcels_close(struct zero_device_share *all, int32_t n)
{
    for (int32_t p = 0; p < n; p++) {
        if (all[p].fd >= 0)
            close(all[p].fd);
        all[p].fd = -1;
    }
}

/* ---- One datagram ---------------------------------------------------------------------------- */

/* 1: it is on its way; 0: there is no room now. */
static int parcel_send(struct swap *s, int32_t p)
{
    const struct shm_correspondent *to = &s->ctx->device.ranks[p];
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct iovec part = {&s->mine, sizeof s->mine};
    union control control = {.bytes = {0}};
    struct msghdr m = {.msg_name = &at,
                       .msg_namelen =
                           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + to->name_bytes),
                       .msg_iov = &part,
                       .msg_iovlen = 1};

    memcpy(at.sun_path, to->name, to->name_bytes);
    if (s->fd >= 0) {
        m.msg_control = control.bytes;
        m.msg_controllen = CMSG_SPACE(sizeof s->fd);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof s->fd);
        memcpy(CMSG_DATA(c), &s->fd, sizeof s->fd);
    }
    if (sendmsg(s->ctx->device.socket, &m, MSG_NOSIGNAL) >= 0)
        return 1;
    if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS)
        return 0;
    if (errno == ECONNREFUSED) /* its socket is gone */
        return zero__say(&s->ctx->voice, -ECONNRESET, "exchange: rank %d has ended", p);
    return zero__say(&s->ctx->voice, -errno,
                     "exchange: memory of the device cannot be handed to rank %d: %m", p);
}

/* One descriptor is kept. Of more, which nobody here sends, all are closed: they are open by now.
 */
static void rights_read(const struct cmsghdr *c, int *fd)
{
    size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

    for (size_t i = 0; i < n; i++) {
        int one;
        memcpy(&one, CMSG_DATA(c) + i * sizeof one, sizeof one);
        if (n == 1 && *fd < 0)
            *fd = one;
        else
            close(one);
    }
}

/* What came with a datagram: from which process, and a descriptor or -1. */
static int32_t control_read(struct msghdr *m, int *fd)
{
    struct ucred who = {.pid = -1};

    *fd = -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET)
            continue;
        if (c->cmsg_type == SCM_CREDENTIALS && c->cmsg_len == CMSG_LEN(sizeof who))
            memcpy(&who, CMSG_DATA(c), sizeof who);
        else if (c->cmsg_type == SCM_RIGHTS)
            rights_read(c, fd);
    }
    return who.pid;
}

/* Is it the parcel of the rank that it names, in this exchange, and the first? */
static bool is_expected(const struct swap *s, const struct parcel *p, int32_t pid)
{
    const struct zero_comm_ctx *ctx = s->ctx;

    return p->serial == s->mine.serial && p->rank >= 0 && p->rank < ctx->ranks &&
           p->rank != ctx->rank && pid == ctx->device.ranks[p->rank].pid &&
           (p->bytes > 0 || p->status < 0) && !s->came[p->rank];
}

/* True if there was one, whatever it was. */
static bool parcel_take(struct swap *s)
{
    struct parcel p;
    union control control;
    struct iovec part = {&p, sizeof p};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof control.bytes};
    ssize_t n = recvmsg(s->ctx->device.socket, &m, MSG_CMSG_CLOEXEC);
    int fd;

    if (n < 0)
        return false;
    int32_t pid = control_read(&m, &fd);
    bool ours = n == sizeof p && !(m.msg_flags & MSG_TRUNC) && is_expected(s, &p, pid);
    if (ours && p.status < 0)
        s->err =
            s->err ? s->err
                   : zero__say(&s->ctx->voice, zero__errno_heard(p.status, -EPROTO),
                               "exchange: rank %d could not hand over its device's memory", p.rank);
    else if (ours && (p.with_fd != 0) != (fd >= 0))
        s->err = s->err ? s->err
                        : zero__say(&s->ctx->voice, -EMFILE,
                                    "exchange: no descriptor is left for the memory of rank %d's "
                                    "device: raise the limit of open files (ulimit -n)",
                                    p.rank);
    if (ours) {
        s->came[p.rank] = true;
        s->n_came++;
    }
    if (!ours || p.status < 0 || (p.with_fd != 0) != (fd >= 0)) {
        if (fd >= 0)
            close(fd);
        return true;
    }
    struct zero_device_share *share = &s->all[p.rank];
    *share =
        (struct zero_device_share){.size = sizeof *share, .how = p.how, .fd = fd, .bytes = p.bytes};
    memcpy(share->handle, p.handle, sizeof p.handle);
    return true;
}

/* ---- All of them ----------------------------------------------------------------------------- */

/* Who cannot hand over says so to all whom it has not told anything: nobody waits for it. */
static int send_all(struct swap *s)
{
    for (int32_t p = 0; p < s->ctx->ranks; p++) {
        int sent = s->sent[p] || p == s->ctx->rank ? 0 : parcel_send(s, p);
        if (sent < 0 && s->mine.status < 0)
            return sent;
        if (sent < 0) {
            s->err = s->mine.status = sent;
            s->mine.with_fd = 0;
            s->fd = -1;
            sent = parcel_send(s, p);
            if (sent < 0)
                return s->err;
        }
        if (sent)
            s->sent[p] = true;
        s->n_sent += sent;
    }
    return 0;
}

/* The first rank that has not got or not sent its parcel. */
static int32_t missing(const struct swap *s)
{
    int32_t p = 0;

    while (p < s->ctx->ranks - 1 && (p == s->ctx->rank || (s->sent[p] && s->came[p])))
        p++;
    return p;
}

static int look(const struct swap *s, int64_t until)
{
    struct zero_comm_ctx *ctx = s->ctx;

    if (atomic_load(&ctx->aborted))
        return zero__say(&ctx->voice, -ECANCELED, "exchange: aborted");
    for (int32_t p = 0; p < ctx->ranks; p++)
        if (atomic_load(&ctx->seats[p].aborted))
            return zero__say(&ctx->voice, -ECANCELED, "exchange: rank %d aborted", p);
    if (zero__now_ns() >= until)
        return zero__say(&ctx->voice, -ETIMEDOUT,
                         "exchange: rank %d did not hand over its device's memory within %g s "
                         "(ZERO_TIMEOUT): look at its output; who is only slow needs a larger "
                         "ZERO_TIMEOUT",
                         missing(s), (double)ctx->timeout_ns / 1e9);
    return 0;
}

static int swap_run(struct swap *s)
{
    struct pollfd at = {.fd = s->ctx->device.socket, .events = POLLIN};
    int64_t until = zero__deadline_ns(s->ctx->timeout_ns);
    int32_t all = s->ctx->ranks - 1;

    for (;;) {
        int err = s->n_sent < all ? send_all(s) : 0;
        for (int i = 0; !err && i < LOOK_PARCELS && s->n_came < all && parcel_take(s); i++)
            ;
        if (err || (s->n_sent == all && s->n_came == all))
            return err ? err : s->err;
        err = look(s, until);
        if (err)
            return err;
        poll(&at, 1, LOOK_MS);
    }
}

int zero__parcels_swap(struct zero_comm_ctx *ctx, uint64_t serial,
                       const struct zero_device_share *mine, struct zero_device_share *all)
{
    struct swap s = {.ctx = ctx,
                     .mine = {.serial = serial,
                              .bytes = mine->bytes,
                              .rank = ctx->rank,
                              .how = mine->how,
                              .with_fd = mine->fd >= 0},
                     .fd = mine->fd,
                     .all = all,
                     .sent = calloc((size_t)ctx->ranks, sizeof *s.sent),
                     .came = calloc((size_t)ctx->ranks, sizeof *s.came)};
    int err;

    for (int32_t p = 0; p < ctx->ranks; p++)
        all[p] = (struct zero_device_share){.size = sizeof *all, .fd = -1};
    memcpy(s.mine.handle, mine->handle, sizeof s.mine.handle);
    err = s.sent && s.came ? swap_run(&s)
                           : zero__say(&ctx->voice, -ENOMEM, "no memory for an exchange");
    if (err)
        zero__parcels_close(all, ctx->ranks);
    free(s.sent);
    free(s.came);
    return err;
}
