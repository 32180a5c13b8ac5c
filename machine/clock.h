/* SPDX-License-Identifier: Apache-2.0 */
/* Monotonic time in nanoseconds; deadlines are absolute, ZERO_NEVER is none. */
#ifndef ZERO_MACHINE_CLOCK_H
#define ZERO_MACHINE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define ZERO_NEVER INT64_MAX
#define ZERO_SECOND INT64_C(1000000000)

static inline int64_t zero__now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * ZERO_SECOND + t.tv_nsec;
}

/* from + timeout, without overflow. */
static inline int64_t zero__deadline_after(int64_t from_ns, int64_t timeout_ns)
{
    int64_t t;
    return __builtin_add_overflow(from_ns, timeout_ns, &t) ? ZERO_NEVER : t;
}

/* From now on. */
static inline int64_t zero__deadline_ns(int64_t timeout_ns)
{
    return zero__deadline_after(zero__now_ns(), timeout_ns);
}

#endif
