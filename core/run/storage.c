/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The storage thread: serves the lanes of the disk (serve.c), and is the only thread that calls the
 * disk's store once training has begun. The store has a thread of its own because it waits in its
 * own poll(), and checksums take time.
 */
#include <errno.h>

#include "base/status.h"
#include "machine/clock.h"
#include "run/runner.h"

void zero__storage_count(struct zero__runner *run, const struct zero__issuing *now)
{
    struct zero__disk_bytes *d = &run->work.disk;

    if (now->kind == ZERO__EVALUATION || !run->site->tiers[ZERO__T_DISK].store)
        return; /* the first is of no step */
    for (uint32_t i = 0; i < now->body->n_ops; i++) {
        const struct zero__op *op = &now->body->ops[i];
        if (op->flags & ZERO__OP_SUMS && !now->contributed[op->unit])
            continue;
        *(op->kind == ZERO__FETCH ? &d->read : &d->written) += zero__op_disk_bytes(now->body, op);
    }
}

/* Notes what the store has moved; n: completions that have come. *info: what it says of itself. */
static void moves_note(struct zero__runner *run, struct zero_store_info *info, int n)
{
    const struct zero__tier_store *t = &run->site->tiers[ZERO__T_DISK];
    int told = !t->ops.info(t->store, info);

    if (!told)
        info->note[0] = 0;
    pthread_mutex_lock(&run->lock);
    uint64_t before = run->disk.read + run->disk.written;
    if (told) {
        run->disk.read = run->disk.tried_read + info->bytes_read;
        run->disk.written = run->disk.tried_written + info->bytes_written;
        run->disk.flags = info->flags;
    }
    if (n || run->disk.read + run->disk.written > before) {
        run->disk.at_ns = zero__now_ns();
        zero__job_worked(run->site->job);
    }
    pthread_mutex_unlock(&run->lock);
}

/*
 * Ops that were submitted together are served one after another by a slow disk: none of them has
 * waited too long as long as it ends any, or goes on with a large one.
 */
static int late(struct zero__runner *run, struct zero__blame *blame)
{
    struct zero_store_info info = {.size = sizeof info};
    const struct zero__tier_store *t = &run->site->tiers[ZERO__T_DISK];
    int err = 0;

    (void)blame;
    moves_note(run, &info, 0);
    pthread_mutex_lock(&run->lock);
    int64_t now = zero__now_ns();
    int moves = now < zero__deadline_after(run->disk.at_ns, run->site->timeout_ns);
    for (uint32_t q = 0; q < ZERO__N_QUEUES && !err && !moves; q++) {
        struct zero__lane *l = &run->lanes[q];
        if (l->kind->server != ZERO__STORAGE)
            continue;
        struct zero__slot *s = l->done < l->issued ? zero__lane_slot(l, l->done + 1) : NULL;
        if (!s || !s->start_ns || now < s->deadline_ns)
            continue;
        err = zero__fail(-ETIMEDOUT,
                         "%s of %s waited %g s (ZERO_TIMEOUT) for %s, which has not ended it: is "
                         "the disk alive? A slow one needs a larger ZERO_TIMEOUT (%s)",
                         zero__queue_name(q), zero__slot_subject(run, s),
                         (double)run->site->timeout_ns / 1e9, t->name, info.note);
    }
    pthread_mutex_unlock(&run->lock);
    return err;
}

static int is_over(struct zero__runner *run)
{
    (void)run; /* the progress thread ends the runtime */
    return 0;
}

static int prepare(struct zero__runner *run, int n)
{
    (void)run, (void)n;
    return 0;
}

static int64_t idle_ns(struct zero__runner *run)
{
    (void)run;
    return ZERO__STORE_POLL_NS;
}

static int sleep_in_store(struct zero__runner *run, struct zero_cqe *cqes, uint32_t max,
                          int64_t wait_ns)
{
    struct zero_store_info info = {.size = sizeof info};
    int n = zero__store_poll(run, &run->site->tiers[ZERO__T_DISK], cqes, max, wait_ns);

    if (n > 0)
        moves_note(run, &info, n);
    return n;
}

static void wake(struct zero__runner *run)
{
    const struct zero__tier_store *t = &run->site->tiers[ZERO__T_DISK];

    t->ops.wake(t->store);
}

static int account(struct zero__runner *run)
{
    (void)run;
    return 0;
}

static int stray(struct zero__runner *run, const struct zero_cqe *c)
{
    return zero__fail(-EPROTO,
                      "%s ended a request that is not under way, tag %llu: try it with "
                      "zero check offload",
                      run->site->tiers[ZERO__T_DISK].name, (unsigned long long)c->user);
}

static void rest(struct zero__runner *run, int moved)
{
    (void)run, (void)moved;
}

static void fail(struct zero__runner *run, int err, struct zero__blame *blame)
{
    zero__unsaid(err, run->site->tiers[ZERO__T_DISK].name);
    zero__run_fail(run, blame->culprit, err, "", zero__error_text());
}

const struct zero__server_kind zero__storage_kind = {.name = "storage",
                                                     .is_over = is_over,
                                                     .prepare = prepare,
                                                     .idle_ns = idle_ns,
                                                     .sleep = sleep_in_store,
                                                     .wake = wake,
                                                     .account = account,
                                                     .stray = stray,
                                                     .late = late,
                                                     .rest = rest,
                                                     .fail = fail};

void zero__storage_totals(struct zero__runner *run, struct zero__storage_totals *out)
{
    pthread_mutex_lock(&run->lock);
    *out = (struct zero__storage_totals){run->disk.read, run->disk.written, run->disk.flags};
    pthread_mutex_unlock(&run->lock);
}

void zero__storage_tried(struct zero__runner *run, uint64_t read, uint64_t written)
{
    run->disk.read = run->disk.tried_read = read;
    run->disk.written = run->disk.tried_written = written;
}

int zero__storage_start(struct zero__runner *run)
{
    return run->site->tiers[ZERO__T_DISK].store ? zero__server_start(run, ZERO__STORAGE) : 0;
}

void zero__storage_stop(struct zero__runner *run)
{
    zero__server_stop(run, ZERO__STORAGE);
}
