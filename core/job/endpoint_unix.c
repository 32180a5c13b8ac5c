/* SPDX-License-Identifier: Apache-2.0 */
/* Abstract Unix stream sockets: no file is left behind, no port is taken. See endpoint.h. */
#include "config.h"

#include "job/endpoint.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/status.h"

/* Key and model are hashed with their terminators, so that "a"+"bc" differs from "ab"+"c". */
static socklen_t address(const struct zero__job_params *p, struct sockaddr_un *a)
{
    char text[sizeof p->key + sizeof p->model];
    size_t n_key = strlen(p->key) + 1, n_model = strlen(p->model) + 1;

    memcpy(text, p->key, n_key);
    memcpy(text + n_key, p->model, n_model);
    XXH128_hash_t h = XXH3_128bits(text, n_key + n_model);
    memset(a, 0, sizeof *a);
    a->sun_family = AF_UNIX;
    int n =
        snprintf(a->sun_path + 1, sizeof a->sun_path - 1, "zero-%u-%016llx%016llx",
                 (unsigned)geteuid(), (unsigned long long)h.high64, (unsigned long long)h.low64);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int stream_socket(int *fd)
{
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s < 0)
        return zero__fail(-errno, "job: cannot create a Unix socket: %s", strerror(errno));
    *fd = s;
    return 0;
}

static int peer_of(int fd, struct ucred *cred)
{
    socklen_t n = sizeof *cred;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, cred, &n) ? -errno : 0;
}

int zero__unix_listen(const struct zero__job_params *params, int *fd)
{
    struct sockaddr_un a;
    socklen_t len = address(params, &a);
    int s = -1, e = stream_socket(&s);

    if (e)
        return e;
    if (!bind(s, (struct sockaddr *)&a, len) && !listen(s, ZERO__JOB_MAX_RANKS)) {
        *fd = s;
        return 0;
    }
    e = -errno;
    close(s);
    return e == -EADDRINUSE ? e
                            : zero__fail(e, "job %s: cannot listen for the other ranks: %s",
                                         params->key, strerror(-e));
}

int zero__unix_connect(const struct zero__job_params *params, int *fd, int64_t *pid)
{
    struct sockaddr_un a;
    struct ucred cred;
    socklen_t len = address(params, &a);
    int s = -1, e = stream_socket(&s);

    if (e)
        return e;
    if (connect(s, (struct sockaddr *)&a, len)) {
        e = -errno; /* EAGAIN: rank 0 has its hands full */
        if (e == -ECONNREFUSED || e == -ENOENT || e == -EINTR)
            e = -EAGAIN;
        else if (e != -EAGAIN)
            zero__fail(e, "job %s: cannot connect to rank 0: %s", params->key, strerror(-e));
        goto err_close;
    }
    if ((e = peer_of(s, &cred))) {
        zero__fail(e, "job %s: cannot tell the user of rank 0: %s", params->key, strerror(-e));
        goto err_close;
    }
    if (cred.uid != geteuid()) {
        e = zero__fail(-EACCES,
                       "job %s: user %u holds its socket, this is user %u: "
                       "start all ranks as one user, or choose another MASTER_PORT",
                       params->key, (unsigned)cred.uid, (unsigned)geteuid());
        goto err_close;
    }
    *fd = s;
    *pid = cred.pid;
    return 0;
err_close:
    close(s);
    return e;
}

int zero__unix_accept(int listen_fd, int *fd, int64_t *pid)
{
    struct ucred cred;

    for (int tries = 0; tries < 64; tries++) {
        int s = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (s < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (s < 0)
            return errno == EWOULDBLOCK ? -EAGAIN : -errno;
        if (!peer_of(s, &cred) && cred.uid == geteuid()) {
            *fd = s;
            *pid = cred.pid;
            return 0;
        }
        close(s);
    }
    return -EAGAIN;
}
