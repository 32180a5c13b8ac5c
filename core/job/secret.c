/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the secret; what was read is wiped from every buffer but the result. */
#define _GNU_SOURCE
#include "config.h"

#include "job/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <sodium.h>

#include "base/status.h"
#include "machine/clock.h"
#include "machine/wait.h"

#define DIGITS (2 * ZERO__SECRET_BYTES)
#define PATIENCE_NS (5 * ZERO_SECOND) /* for the writer of a pipe */
#define REST_NS (ZERO_SECOND / 5)     /* for a line's end, and its end, behind the digits */
#define MAKE \
    "make one with: (umask 077; head -c 32 /dev/urandom | od -An -vtx1 | tr -d ' \\n' > FILE)"

void zero__secret_wipe(struct zero__secret *secret)
{
    sodium_memzero(secret, sizeof *secret);
}

/* A page of its own: not in core dumps, and not swapped out where the limits allow that. */
int zero__secret_keep(const struct zero__secret *secret, struct zero__secret **kept)
{
    void *page =
        mmap(NULL, sizeof *secret, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        return zero__fail(-errno, "no memory for the secret: %s", strerror(errno));
    madvise(page, sizeof *secret, MADV_DONTDUMP);
    sodium_mlock(page, sizeof *secret);
    memcpy(page, secret, sizeof *secret);
    *kept = page;
    return 0;
}

void zero__secret_drop(struct zero__secret *kept)
{
    if (!kept)
        return;
    sodium_munlock(kept, sizeof *kept); /* wipes it */
    munmap(kept, sizeof *kept);
}

static int ready(void)
{
    return sodium_init() < 0 ? zero__fail(-EIO, "libsodium finds no source of random numbers") : 0;
}

int zero__secret_make(struct zero__secret *out)
{
    int e = ready();

    if (e)
        return e;
    randombytes_buf(out->bytes, sizeof out->bytes);
    out->known = true;
    return 0;
}

/* Text of n bytes, one more than there may be if it is too long. */
static int parse(const char *what, const char *text, size_t n, struct zero__secret *out)
{
    struct zero__secret s = {.known = true};
    size_t end = n, bytes = 0;

    while (end && (text[end - 1] == '\n' || text[end - 1] == '\r'))
        end--;
    bool more = n > DIGITS + 2;
    if (end != DIGITS || more)
        return zero__fail(-EINVAL, "%s holds %s%zu characters: a secret is %d hex digits; " MAKE,
                          what, more ? "at least " : "", more ? n : end, DIGITS);
    int e = sodium_hex2bin(s.bytes, sizeof s.bytes, text, end, NULL, &bytes, NULL);
    if (!e && bytes == sizeof s.bytes)
        *out = s;
    else
        e = zero__fail(-EINVAL,
                       "%s holds something else than hex digits: a secret is %d of them; " MAKE,
                       what, DIGITS);
    zero__secret_wipe(&s);
    return e;
}

/*
 * Does not wait: where several ranks inherit one pipe, another one may have taken what was there a
 * moment ago.
 */
static ssize_t read_now(int fd, char *text, size_t room)
{
    struct iovec to = {text, room};
    ssize_t n = preadv2(fd, &to, 1, -1, RWF_NOWAIT);

    if (n < 0 && (errno == EOPNOTSUPP || errno == ENOSYS))
        n = recv(fd, text, room, MSG_DONTWAIT);
    if (n >= 0 || errno != ENOTSOCK)
        return n;
    /* A pipe of an older kernel: a description of our own does not wait. */
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int own = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (own < 0)
        return -1;
    n = read(own, text, room);
    int err = errno;
    close(own);
    errno = err;
    return n;
}

/*
 * Up to `room` bytes, until the end of the file. A writer may keep its pipe open: what it has
 * written when it does not go on is all.
 */
static int read_all(int fd, char *text, size_t room, size_t *got)
{
    int64_t deadline = zero__deadline_ns(PATIENCE_NS), soon;
    bool pipe = false;
    size_t n = 0;

    while (n < room) {
        int e = pipe ? zero__fd_wait(fd, POLLIN, deadline) : 0;
        if (e == -ETIMEDOUT && n)
            break;
        if (e)
            return e;
        ssize_t k =
            pipe ? read_now(fd, text + n, room - n) : pread(fd, text + n, room - n, (off_t)n);
        if (k < 0 && errno == ESPIPE && !pipe) {
            pipe = true;
            continue;
        }
        if (k < 0 && (errno == EINTR || errno == EAGAIN)) {
            if (zero__now_ns() < deadline)
                continue;
            if (n)
                break;
            return -ETIMEDOUT;
        }
        if (k < 0)
            return -errno;
        if (k == 0)
            break;
        n += (size_t)k;
        if (n >= DIGITS && (soon = zero__deadline_ns(REST_NS)) < deadline)
            deadline = soon;
    }
    *got = n;
    return 0;
}

static int read_secret(int fd, const char *what, struct zero__secret *out)
{
    char text[DIGITS + 3];
    size_t n = 0;
    int e = ready();

    if (e)
        return e;
    if ((e = read_all(fd, text, sizeof text, &n)))
        e = zero__fail(e, "%s cannot be read: %s", what,
                       e == -ETIMEDOUT ? "its writer says nothing" : strerror(-e));
    else
        e = parse(what, text, n, out);
    sodium_memzero(text, sizeof text);
    return e;
}

/* Others must neither know nor replace it. */
static int check_file(const struct stat *st, const char *path)
{
    unsigned mode = st->st_mode & 07777;

    if (!S_ISREG(st->st_mode))
        return zero__fail(-EINVAL, "ZERO_SECRET_FILE %.400s is no regular file: name one", path);
    if (st->st_uid != geteuid())
        return zero__fail(-EPERM,
                          "ZERO_SECRET_FILE %.400s belongs to user %u, this is user %u: make a "
                          "copy that belongs to you",
                          path, (unsigned)st->st_uid, (unsigned)geteuid());
    if (mode != 0600 && mode != 0400)
        return zero__fail(-EPERM,
                          "ZERO_SECRET_FILE %.400s has mode %04o: nobody but its owner may read or "
                          "write it, so it must be 0600 or 0400: chmod 600 %.400s",
                          path, mode, path);
    return 0;
}

int zero__secret_from_file(const char *path, struct zero__secret *out)
{
    char what[460];
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0)
        return zero__fail(-errno, "ZERO_SECRET_FILE %.400s cannot be opened: %s; " MAKE, path,
                          strerror(errno));
    snprintf(what, sizeof what, "ZERO_SECRET_FILE %.400s", path);
    int e = fstat(fd, &st) ? zero__fail(-errno, "%s: %s", what, strerror(errno))
                           : check_file(&st, path);
    if (!e)
        e = read_secret(fd, what, out);
    close(fd);
    return e;
}

int zero__secret_from_fd(int fd, struct zero__secret *out)
{
    char what[40];
    int flags = fcntl(fd, F_GETFD);

    if (flags < 0)
        return zero__fail(-EBADF,
                          "ZERO_SECRET_FD is %d, which is no open descriptor: the program that "
                          "starts the ranks must let them inherit it",
                          fd);
    fcntl(fd, F_SETFD, flags | FD_CLOEXEC); /* the ranks' own children have no business with it */
    snprintf(what, sizeof what, "ZERO_SECRET_FD %d", fd);
    return read_secret(fd, what, out);
}
