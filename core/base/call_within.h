/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A deadline for calls into libraries that know none, such as a resolver: the call is made by a
 * thread of its own, on a copy of its argument.
 */
#ifndef ZERO_BASE_CALL_WITHIN_H
#define ZERO_BASE_CALL_WITHIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * fn(arg) until the deadline: its result, its sentence, and what it made of the `bytes` at arg.
 * -ETIMEDOUT (no sentence): too late, arg is untouched; the thread is left to itself, and its copy
 * is wiped and freed when the call returns after all. fn must not use other memory of the caller.
 */
int zero__call_within(int64_t deadline_ns, int (*fn)(void *arg), void *arg, size_t bytes);
/* The same, too late also when over(ask) says so; it is asked again and again. */
int zero__call_unless(int64_t deadline_ns, bool (*over)(void *ask), void *ask,
                      int (*fn)(void *arg), void *arg, size_t bytes);

#endif
