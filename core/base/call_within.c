/* SPDX-License-Identifier: Apache-2.0 */
/* See call_within.h. The sentence of a call stands in the copy that it works on. */
#include "base/call_within.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "base/status.h"
#include "machine/patient.h"
#include "machine/thread.h"

struct call {
    int (*fn)(void *arg);
    char sentence[ZERO_ERROR_BYTES];
    _Alignas(16) unsigned char arg[];
};

static int call_run(void *copy)
{
    struct call *c = copy;
    int result = c->fn(c->arg);

    snprintf(c->sentence, sizeof c->sentence, "%s", zero__error_text());
    return result;
}

int zero__call_unless(int64_t deadline_ns, bool (*over)(void *ask), void *ask,
                      int (*fn)(void *arg), void *arg, size_t bytes)
{
    struct call *c = calloc(1, sizeof *c + bytes);
    int e;

    if (!c)
        return zero__fail(-ENOMEM, "no memory for a call");
    c->fn = fn;
    memcpy(c->arg, arg, bytes);
    switch (zero__patient_call(deadline_ns, over, ask, call_run, c, sizeof *c + bytes, &e)) {
    case ZERO__PATIENT_DONE:
        memcpy(arg, c->arg, bytes);
        e = e ? zero__fail(e, "%s", c->sentence) : 0;
        break;
    case ZERO__PATIENT_LATE:
        break;
    default:
        zero__fail(e, "cannot start a thread: %s" ZERO__THREAD_LIMITS, strerror(-e));
    }
    sodium_memzero(c->arg, bytes); /* it may hold a secret */
    free(c);
    return e;
}

int zero__call_within(int64_t deadline_ns, int (*fn)(void *arg), void *arg, size_t bytes)
{
    return zero__call_unless(deadline_ns, NULL, NULL, fn, arg, bytes);
}
