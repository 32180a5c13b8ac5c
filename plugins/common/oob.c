/* SPDX-License-Identifier: Apache-2.0 */
#include "oob.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "machine/clock.h"
#include "machine/heard.h"

#define YIELDS 100
#define BLOB_MOST 60000u

int zero__oob_gather(const struct zero__voice *v, const struct zero_oob *oob, int64_t until,
                     const char *doing, const void *mine, uint32_t bytes, void *all)
{
    const int64_t began = zero__now_ns();
    struct timespec nap = {0, 50000};
    int err = oob->post(oob->ctx, mine, bytes);

    for (unsigned i = 0; !err; i++) {
        bool late = zero__now_ns() >= until; /* what came during a long nap still counts */
        err = oob->test(oob->ctx, all);
        if (err != -EINPROGRESS)
            return err;
        if (late)
            return zero__say(v, -ETIMEDOUT, "%s: not all of %d ranks have answered after %.1f s, "
                             "when the time for the call (ZERO_TIMEOUT) was over: look in their "
                             "logs whether they have come this far",
                             doing, (int)oob->ranks, 1e-9 * (double)(zero__now_ns() - began));
        err = 0;
        if (i < YIELDS)
            sched_yield();
        else
            nanosleep(&nap, NULL);
    }
    return err;
}

/* The longest blob of any rank. */
static int longest(const struct zero__voice *v, const struct zero_oob *oob, int64_t until,
                   const char *doing, size_t bytes, size_t *most)
{
    uint32_t mine = bytes <= BLOB_MOST ? (uint32_t)bytes : UINT32_MAX;
    uint32_t *all = calloc((size_t)oob->ranks, sizeof *all);
    int err = all ? zero__oob_gather(v, oob, until, doing, &mine, sizeof mine, all) : -ENOMEM;

    *most = 0;
    for (int32_t p = 0; p < oob->ranks && !err; p++) {
        if (all[p] == 0 || all[p] > BLOB_MOST)
            err = zero__say(v, -EMSGSIZE,
                            "%s: rank %d has an address of %u bytes, expected are 1 to %u", doing,
                            p, all[p], BLOB_MOST);
        *most = all[p] > *most ? all[p] : *most;
    }
    if (!err && all[oob->rank] != mine) /* there would be too little room for the own one */
        err = zero__say(v, -EPROTO, "%s: this rank has an address of %u bytes, and hears of %u",
                        doing, mine, all[oob->rank]);
    free(all);
    return err;
}

int zero__oob_gather_blobs(const struct zero__voice *v, const struct zero_oob *oob, int64_t until,
                           const char *doing, const void *mine, size_t bytes, char **out,
                           size_t *stride)
{
    char *padded = NULL, *all = NULL;
    size_t most;
    int err = longest(v, oob, until, doing, bytes, &most);

    if (!err) {
        padded = calloc(1, most);
        all = calloc((size_t)oob->ranks, most);
        err = padded && all ? 0 : -ENOMEM;
    }
    if (!err) {
        memcpy(padded, mine, bytes);
        err = zero__oob_gather(v, oob, until, doing, padded, (uint32_t)most, all);
    }
    if (err == -ENOMEM)
        zero__say(v, err, "%s: no memory for the addresses of %d ranks", doing, oob->ranks);
    free(padded);
    if (err) {
        free(all);
        return err;
    }
    *out = all;
    *stride = most;
    return 0;
}

int zero__oob_agree(const struct zero__voice *v, const struct zero_oob *oob, int64_t until,
                    const char *doing, int status)
{
    int32_t mine = status, *all = calloc((size_t)oob->ranks, sizeof *all);
    int err = all ? zero__oob_gather(v, oob, until, doing, &mine, sizeof mine, all)
                  : zero__say(v, -ENOMEM, "%s: no memory", doing);

    for (int32_t p = 0; p < oob->ranks && !err && !status; p++)
        if (all[p])
            err =
                zero__say(v, zero__errno_heard(all[p], -EPROTO), "%s failed on rank %d", doing, p);
    free(all);
    return status ? status : err;
}

int zero__oob_check(const struct zero__voice *v, const struct zero_oob *oob, int32_t most)
{
    if (oob && oob->ranks >= 1 && oob->ranks <= most && oob->rank >= 0 && oob->rank < oob->ranks)
        return 0;
    return zero__say(v, -EINVAL, "%d ranks: %s is for 1 to %d", oob ? oob->ranks : 0, v->plugin,
                     most);
}
