/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting, waking, who is missing, and aborting. */
#include <string.h>
#include <time.h>

#include "rank.h"
#include "tools/common/values.h"

#define SLAB (UINT64_C(1) << 20)
#define WAKE_MS 5000 /* for who is woken, or hears of an abort, to come back: half of a wait */

#define IDLE_NS INT64_C(500000000)

struct call_later {
    struct check_comm *c;
    int ms;
    int (*fn)(struct zero_comm_ctx *ctx);
};

static void *call_thread(void *arg)
{
    struct call_later *l = arg;

    check_sleep_ms(l->ms);
    l->fn(l->c->ctx);
    return NULL;
}

/* How long progress() takes where there is nothing to complete. */
static int idle_ms(struct check_comm *c, int64_t timeout_ns)
{
    int64_t start = check_now_ms();
    struct zero_cqe cqe;
    int n = c->ops->progress(c->ctx, &cqe, 1, timeout_ns);

    want(c->r, n == 0, "progress gives %s where nothing was posted, want 0",
         check_value(c->r, n));
    return (int)(check_now_ms() - start);
}

static int64_t thread_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Who waits sleeps; where nothing wakes it, it looks now and then, for less than half the time. */
static void waits_asleep(struct check_comm *c)
{
    int64_t before = thread_ms();
    int ms = idle_ms(c, IDLE_NS);
    int worked = (int)(thread_ms() - before);

    want(c->r, ms < 100 || worked < ms / 2,
         "progress computes for %d of %d ms where there is nothing to do: who waits sleeps", worked,
         ms);
}

void check_case_wakes(struct check_rank *r)
{
    struct check_comm c;
    pthread_t thread;
    int ms;

    if (check_open(r, &c, SLAB)) {
        struct call_later later = {&c, 50, c.ops->wake};
        ms = idle_ms(&c, 30000000);
        want(r, ms >= 25, "progress with a timeout of 30 ms came back after %d ms", ms);
        idle_ms(&c, 0);
        waits_asleep(&c);
        want(r, !c.ops->wake(c.ctx), "wake: %s", check_error());
        ms = idle_ms(&c, CHECK_WAIT_NS);
        want(r, ms < WAKE_MS, "progress took %d ms after a wake() that came before it", ms);
        if (check_thread(r, &thread, call_thread, &later)) {
            ms = idle_ms(&c, CHECK_WAIT_NS);
            want(r, ms < WAKE_MS, "progress took %d ms, with a wake() after 50 ms", ms);
            pthread_join(thread, NULL);
        }
    }
    check_close(&c);
}

/* Two completions, in any order. */
static bool wait_two(struct check_comm *c)
{
    uint64_t user[2] = {0, 0};

    return check_wait(c, &user[0]) >= 0 && check_wait(c, &user[1]) >= 0 && user[0] + user[1] == 3;
}

/*
 * A rank that comes late wakes the others; until then they can say who is missing. It comes when
 * all others have met it on a second communicator.
 */
void check_case_missing(struct check_rank *r)
{
    struct zero_coll first, second;
    struct zero_comm *meeting = NULL;
    int32_t who[CHECK_RANKS];
    struct zero_cqe cqe;
    struct check_comm c;
    int n;

    if (!check_open(r, &c, SLAB) ||
        !want(r, !c.ops->split(c.ctx, NULL, 0, 0, &meeting), "split: %s", check_error())) {
        check_close(&c);
        return;
    }
    first = check_meeting(&c, 1), first.user = 1;
    second = check_meeting(&c, 2), second.user = 2;
    if (r->rank == r->ranks - 1) {
        want(r, check_meet(&c, meeting) == 0, "meeting: %s", r->ended);
        want(r, check_meet(&c, c.world) == 0, "coming late: %s", r->ended);
    } else {
        want(r, !c.ops->post(c.world, &first, 1, NULL), "post: %s", check_error());
        n = c.ops->progress(c.ctx, &cqe, 1, 200000000);
        want(r, n == 0, "progress gives %s where a rank has not posted, want 0",
             check_value(r, n));
        if (c.ops->missing) {
            n = c.ops->missing(c.world, who, CHECK_RANKS);
            want(r, n >= 1 && who[n - 1] == r->ranks - 1,
                 "missing gives %s ranks, the last %d, where rank %d has not posted",
                 check_value(r, n), n >= 1 ? who[n - 1] : -1, r->ranks - 1);
        }
        want(r, !c.ops->post(meeting, &second, 1, NULL), "post: %s", check_error());
        want(r, wait_two(&c), "not both are complete where the late rank has come: %s",
             r->ended);
        n = c.ops->missing ? c.ops->missing(c.world, who, CHECK_RANKS) : 0;
        want(r, n == 0, "missing gives %s where all is complete, want 0",
             check_value(r, n));
    }
    want(r, check_meet(&c, c.world) == 0, "meeting: %s", r->ended);
    check_close(&c);
}

/*
 * How work ends on a rank whose peer aborts: so, or as if the peer had gone, which it has when it
 * closes before this rank has heard of it (close() in comm.h: "they get errors"). The errors are
 * those that progress() lists, but for -ETIMEDOUT: nothing here is to wait for so long.
 */
static bool is_end(int64_t err, bool by_itself)
{
    switch (err) {
    case -ECANCELED:
        return true;
    case -ECONNRESET:
    case -ECONNABORTED:
    case -ECONNREFUSED:
    case -ENOTCONN:
    case -EPIPE:
    case -EHOSTDOWN:
    case -EHOSTUNREACH:
    case -ENETDOWN:
    case -ENETUNREACH:
        return !by_itself;
    default:
        return false;
    }
}

#define SILENT "a completion with an error comes without a reason (zero_host.fail())"
#define OWN "after this rank's abort: "
#define OTHER "after rank 0's abort: "

/*
 * The rank that aborts waits for what no peer posts, and gives up from another thread: it gets its
 * completions, and then hears that nothing more is to come.
 */
static void abort_self(struct check_comm *c, struct zero_comm *alone)
{
    struct call_later later = {c, 60, c->ops->abort};
    struct zero_coll q = check_some(c, 1000);
    struct check_rank *r = c->r;
    struct zero_cqe cqes[4];
    const int all = (int)(r->caps.max_inflight < 2 ? r->caps.max_inflight : 2);
    struct zero_comm *comm;
    pthread_t thread;
    int n;

    check_mark(r->host);
    for (int i = 0; i < all; i++)
        want(r, !c->ops->post(alone, &q, 1, NULL), "post: %s", check_error());
    if (!check_thread(r, &thread, call_thread, &later))
        return;
    for (int got = 0; got < all; got += n) {
        n = c->ops->progress(c->ctx, cqes, 4, CHECK_WAIT_NS);
        if (!want(r, n > 0, OWN "progress gives %s, %d completions are to come",
                  check_value(r, n), all - got))
            break;
        for (int i = 0; i < n; i++)
            want(r, cqes[i].res == -ECANCELED, OWN "result %s, want -ECANCELED",
                 check_value(r, cqes[i].res));
        want(r, check_said(), OWN SILENT);
    }
    n = c->ops->progress(c->ctx, cqes, 1, CHECK_WAIT_NS);
    want(r, n == -ECANCELED, OWN "progress gives %s in the end, want -ECANCELED",
         check_value(r, n));
    n = c->ops->post(c->world, &q, 1, NULL);
    want(r, n == -ECANCELED, OWN "post gives %s, want -ECANCELED", check_value(r, n));
    n = c->ops->split(c->ctx, alone, 0, 0, &comm);
    want(r, n == -ECANCELED, OWN "split gives %s, want -ECANCELED", check_value(r, n));
    pthread_join(thread, NULL);
    n = c->ops->abort(c->ctx);
    want(r, n == 0, OWN "another one gives %s, want 0", check_value(r, n));
}

/*
 * The abort comes while this rank is in a split that no peer enters: of a communicator, since one
 * of all ranks would leave an exchange of the library's under way.
 */
static void abort_in_split(struct check_comm *c, struct zero_comm *alone)
{
    struct call_later later = {c, 60, c->ops->abort};
    struct check_rank *r = c->r;
    struct zero_comm *comm;
    pthread_t thread;
    int n;

    if (!check_thread(r, &thread, call_thread, &later))
        return;
    n = c->ops->split(c->ctx, alone, 0, 0, &comm);
    want(r, n == -ECANCELED, OWN "the split under way gives %s, want -ECANCELED",
         check_value(r, n));
    pthread_join(thread, NULL);
}

/*
 * This rank may hear of the abort only when rank 0 has closed, and with LOCAL_ABORT aborts in turn
 * as late: it may find it gone, and then need not name it.
 */
static void aborted_by_another(struct check_comm *c)
{
    struct call_later later = {c, 120, c->ops->abort}; /* as libzero would */
    const bool local = c->r->caps.flags & ZERO_COMM_LOCAL_ABORT;
    pthread_t thread;
    struct zero_coll q = check_some(c, 1000);
    struct check_rank *r = c->r;
    const int all = (int)(r->caps.max_inflight < 3 ? r->caps.max_inflight : 3);
    struct zero_comm *comm;
    struct zero_cqe cqes[4];
    int n;

    check_mark(r->host);
    for (int i = 0; i < all; i++)
        want(r, !c->ops->post(c->world, &q, 1, NULL), "post: %s", check_error());
    if (local && !check_thread(r, &thread, call_thread, &later))
        return;
    for (int got = 0; got < all; got += n) {
        n = c->ops->progress(c->ctx, cqes, 4, CHECK_WAIT_NS);
        if (!want(r, n > 0, OTHER "progress gives %s, %d completions are to come",
                  check_value(r, n), all - got))
            break;
        for (int i = 0; i < n; i++)
            want(r, is_end(cqes[i].res, false), OTHER "result %s, want -ECANCELED",
                 check_value(r, cqes[i].res));
        want(r, check_said(), OTHER SILENT);
    }
    check_mark(r->host);
    n = c->ops->error(c->world);
    want(r, is_end(n, false), OTHER "error gives %s, want -ECANCELED", check_value(r, n));
    want(r, local || n != -ECANCELED || strstr(check_error(), "rank 0"),
         OTHER "\"%s\" does not name it", check_error());
    n = c->ops->post(c->world, &q, 1, NULL);
    want(r, is_end(n, false), OTHER "post gives %s, want -ECANCELED", check_value(r, n));
    if (local) /* a split before its own abort would wait for rank 0 */
        pthread_join(thread, NULL);
    n = c->ops->split(c->ctx, NULL, 0, 0, &comm);
    want(r, is_end(n, false), OTHER "split gives %s, want -ECANCELED", check_value(r, n));
}

/* Rank 0 aborts, as fn does it. */
static void abort_by(struct check_rank *r,
                     void (*fn)(struct check_comm *c, struct zero_comm *alone))
{
    struct zero_comm *alone = NULL;
    struct check_comm c;

    if (check_open(r, &c, SLAB) &&
        want(r, !c.ops->split(c.ctx, NULL, 0, 0, &alone), "split: %s", check_error()) &&
        want(r, check_meet(&c, c.world) == 0, "meeting: %s", r->ended)) {
        int64_t start = check_now_ms(); /* opening may take its time */
        if (r->rank == 0)
            fn(&c, alone);
        else
            aborted_by_another(&c);
        int ms = (int)(check_now_ms() - start);
        want(r, ms < WAKE_MS, "the end after an abort took %d ms, less than %d are due", ms,
             WAKE_MS);
    }
    check_close(&c);
}

void check_case_aborts(struct check_rank *r)
{
    abort_by(r, abort_self);
    /* What ends such a split of a library below, as those with LOCAL_ABORT have, is not tried. */
    if (!(r->caps.flags & ZERO_COMM_LOCAL_ABORT))
        abort_by(r, abort_in_split);
}

/* Work in flight is dropped; nobody touches memory that another rank has given back. */
static void abort_once(struct check_rank *r, uint64_t round)
{
    uint64_t stop = mix(round, 1, 1) % 40, culprit = mix(round, 2, 2) % (uint64_t)r->ranks;
    bool local = r->caps.flags & ZERO_COMM_LOCAL_ABORT, own = (uint64_t)r->rank == culprit;
    int64_t until = check_now_ms() + CHECK_WAIT_NS / 1000000;
    struct zero_cqe cqes[64];
    struct check_comm c;
    int posted = 0, got = 0;

    if (check_open(r, &c, 16 * SLAB)) {
        struct zero_coll q = check_some(&c, 25000);
        if (q.kind != ZERO_ALL_REDUCE) /* as many bytes in all */
            q = check_some(&c, 25000 / (uint64_t)r->ranks);
        /* The culprit may be through with it, and abort, while others still wait for its end. */
        int64_t met = check_meet(&c, c.world);
        want(r, met == 0 || is_end(met, own), "meeting: %s", r->ended);
        for (uint64_t i = 0; got < 200 && check_now_ms() < until; i++) {
            if (i == stop && (uint64_t)r->rank == culprit)
                c.ops->abort(c.ctx);
            else if (i == stop + 20 && local) /* as libzero would */
                c.ops->abort(c.ctx);
            if (q.dst.len)
                q.dst.off = SLAB + i % 64 * 100000;
            check_mark(r->host);
            int err = c.ops->post(c.world, &q, 1, NULL);
            posted += err == 0;
            check_ended(r, "post gives", err);
            want(r, err == 0 || err == -EAGAIN || is_end(err, own), "%s", r->ended);
            int n = c.ops->progress(c.ctx, cqes, 64, got == posted ? 0 : 1000000);
            if (n < 0)
                break;
            got += n;
            if (got == posted && c.ops->error(c.world))
                break;
        }
        int end = c.ops->error(c.world);
        check_ended(r, "error gives", end);
        want(r, is_end(end, own), "round %" PRIu64 ": after an abort %s", round, r->ended);
        if (round % 2) { /* the caller's memory may go first */
            check_mark(r->host);
            want(r, !c.ops->comm_close(c.world), "comm_close: %s", check_error());
            check_free(&c, c.bytes, c.memory, c.mr);
            c.memory = NULL;
        }
    }
    check_close(&c);
}

void check_case_abort_in_flight(struct check_rank *r)
{
    for (uint64_t round = 0; round < 20 && r->n_bad == 0; round++)
        abort_once(r, round);
}
