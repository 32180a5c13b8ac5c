/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What wakes a thread that sleeps at a descriptor of somebody else's: a counter of the kernel's
 * beside it. A ring before the sleep is not lost; several count as one.
 */
#ifndef ZERO_PLUGINS_COMMON_WAKE_H
#define ZERO_PLUGINS_COMMON_WAKE_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "machine/clock.h"
#include "voice.h"

/* The descriptor, to be closed; or an error that is said. */
static inline int zero__wake_make(const struct zero__voice *v, int *wake_fd)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    if (fd < 0)
        return zero__say(v, -errno, "no eventfd: %m");
    *wake_fd = fd;
    return 0;
}

static inline void zero__wake_ring(int wake_fd)
{
    const uint64_t one = 1;

    while (write(wake_fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

/* Sleeps until there is something to be read from fd (-1: nothing), somebody rings, which is true,
 * or so long. */
static inline bool zero__wake_sleep(int wake_fd, int fd, int64_t ns)
{
    struct pollfd fds[2] = {{.fd = wake_fd, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    const struct timespec limit = {.tv_sec = ns / ZERO_SECOND, .tv_nsec = ns % ZERO_SECOND};
    uint64_t count;
    ssize_t n;

    if (ppoll(fds, 2, &limit, NULL) <= 0 || !fds[0].revents)
        return false;
    do
        n = read(wake_fd, &count, sizeof count);
    while (n < 0 && errno == EINTR);
    return n == sizeof count;
}

#endif
