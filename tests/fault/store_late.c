/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that have ended below, until they are told: when their delay is over, when the slow disk
 * would have served them, and together with those that they were reordered with.
 */
#include <string.h>

#include "machine/clock.h"
#include "plugins/common/io.h"
#include "store.h"

/* What the slow disk takes for so many bytes. */
static int64_t slow_ns(uint64_t bytes, uint64_t rate)
{
    double ns = (double)bytes / (double)rate * ZERO_SECOND;

    return ns < 1e15 ? (int64_t)ns : INT64_C(1000000000000000); /* days are enough */
}

/* All that were reordered together have ended: they are told from the last one to the first. */
static void regroup(struct zero_store *s, struct store_request *last)
{
    for (struct store_request **at = &s->late; *at;)
        if ((*at)->last == last)
            *at = (*at)->next;
        else
            at = &(*at)->next;
    for (struct store_request *r = last; r; r = r->before) {
        r->next = r->before ? r->before : s->late;
        r->last = NULL;
    }
    s->late = last;
}

void zero__store_end(struct zero_store *s, struct store_request *r)
{
    if (r->dropped && !r->err)
        s->dropped += r->ended;
    r->due_ns = r->delay_ns ? zero__deadline_ns(r->delay_ns) : 0;
    if (r->rate && !r->err) {
        int64_t now = zero__now_ns();
        r->served_ns = s->slow_ns > now ? s->slow_ns : now;
        s->slow_ns = r->served_ns + slow_ns(r->ended, r->rate);
        r->due_ns = s->slow_ns > r->due_ns ? s->slow_ns : r->due_ns;
    }
    r->next = s->late;
    s->late = r;
    if (r->last && --r->last->left == 0)
        regroup(s, r->last);
}

uint64_t zero__store_left(const struct store_request *r, int64_t now)
{
    int64_t served = now > r->served_ns ? now - r->served_ns : 0;
    double moved = r->rate ? (double)served / ZERO_SECOND * (double)r->rate : (double)r->ended;

    return moved < (double)r->ended ? r->ended - (uint64_t)moved : 0;
}

/* What the plugin below says of an error it said when it ended; ours is said when it is told. */
static int error_of(const struct zero_store *s, const struct store_request *r)
{
    if (!r->wanted)
        return r->err;
    return zero__say(&s->voice, r->err,
                     "%s of %llu bytes at %llu fails, as ZERO_FAULT_IO wants: %s",
                     zero__io_name(r->io.op), (unsigned long long)r->io.buf.len,
                     (unsigned long long)r->io.store_off, strerror(-r->err));
}

uint32_t zero__store_hand_out(struct zero_store *s, struct zero_cqe *cqes, uint32_t max,
                              int64_t *next)
{
    int64_t now = zero__now_ns();
    uint32_t n = 0;

    *next = INT64_MAX;
    for (struct store_request **at = &s->late; *at;) {
        struct store_request *r = *at;
        if (n == max || r->last || r->due_ns > now) {
            if (!r->last) /* else it waits for others to end */
                *next = r->due_ns < *next ? r->due_ns : *next;
            at = &r->next;
            continue;
        }
        *at = r->next;
        int err = r->err ? error_of(s, r) : 0;
        cqes[n++] = (struct zero_cqe){r->io.user, err ? err : (int64_t)r->ended};
        r->next = s->free_requests;
        s->free_requests = r;
        if (err)
            max = n;
    }
    return n;
}
