/* SPDX-License-Identifier: Apache-2.0 */
#include "machine/wait.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>

#include "machine/clock.h"

int zero__poll_ms(int64_t deadline_ns)
{
    int64_t left = deadline_ns == ZERO_NEVER ? ZERO_NEVER : deadline_ns - zero__now_ns();
    if (left <= 0)
        return 0;
    return left / 1000000 >= INT_MAX ? INT_MAX : (int)((left + 999999) / 1000000);
}

int zero__fd_wait(int fd, short events, int64_t deadline_ns)
{
    struct pollfd p = {.fd = fd, .events = events};

    for (;;) {
        int n = poll(&p, 1, zero__poll_ms(deadline_ns));
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
        if (zero__now_ns() >= deadline_ns)
            return -ETIMEDOUT;
    }
}
