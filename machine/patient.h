/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A deadline for calls that know none, such as of a resolver, or of a file system whose server is
 * gone: the call is made by a thread of its own, on a copy of its argument.
 */
#ifndef ZERO_MACHINE_PATIENT_H
#define ZERO_MACHINE_PATIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum zero__patient {
    ZERO__PATIENT_DONE,
    ZERO__PATIENT_LATE,      /* arg is untouched; the thread is left to itself */
    ZERO__PATIENT_IMPOSSIBLE /* no memory, or no thread; nothing was called */
};

/*
 * fn(arg) until the deadline, or until over(ask) says so, which is asked again and again (NULL:
 * nobody is). *result is that of fn, and what it made of the `bytes` at arg stands there; or a
 * negative errno. The copy is wiped and freed when the call returns, also after all. fn must not
 * use other memory of the caller.
 */
enum zero__patient zero__patient_call(int64_t deadline_ns, bool (*over)(void *ask), void *ask,
                                      int (*fn)(void *arg), void *arg, size_t bytes, int *result);

#endif
