/* SPDX-License-Identifier: Apache-2.0 */
/* One rank's use of the plugin in a case. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "machine/thread.h"
#include "rank.h"

bool check_note(struct check_rank *r, bool good, const char *file, int line, const char *fmt, ...)
{
    const char *name = strrchr(file, '/');
    va_list ap;
    int n;

    if (good)
        return true;
    if (r->n_bad < CHECK_TEXTS) {
        n = snprintf(r->text[r->n_bad], sizeof r->text[0], "rank %d, %s:%d: ", r->rank,
                     name ? name + 1 : file, line);
        va_start(ap, fmt);
        vsnprintf(r->text[r->n_bad] + n, sizeof r->text[0] - (size_t)n, fmt, ap);
        va_end(ap);
    }
    r->n_bad++;
    return false;
}

bool check_thread(struct check_rank *r, pthread_t *thread, void *(*run)(void *arg), void *arg)
{
    int err = zero__thread_create(thread, NULL, run, arg);

    return want(r, !err, "cannot start a thread: %s" ZERO__THREAD_LIMITS, strerror(err));
}

uint32_t check_memory_kind(const struct check_rank *r)
{
    return r->caps.mem & ZERO_MEM_HOST ? ZERO_MEM_HOST : ZERO_MEM_CUDA;
}

static int memory_get(struct check_rank *r, uint64_t bytes, void **p)
{
    if (r->device_ops)
        return r->device_ops->alloc(r->device, bytes, ZERO_MEM_PINNED, p);
    *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return *p == MAP_FAILED ? -ENOMEM : 0;
}

static void memory_give(struct check_rank *r, uint64_t bytes, void *p)
{
    if (r->device_ops)
        r->device_ops->release(r->device, p, bytes, ZERO_MEM_PINNED);
    else
        munmap(p, bytes);
}

int check_alloc(struct check_comm *c, uint64_t bytes, char **base, struct zero_mr **mr)
{
    void *p = NULL;
    int err;

    if (c->ops->alloc) {
        err = c->ops->alloc(c->ctx, bytes, ZERO_MEM_HOST, &p, mr);
    } else {
        err = memory_get(c->r, bytes, &p);
        if (err)
            return err;
        err = c->ops->reg(c->ctx, p, bytes, check_memory_kind(c->r), mr);
        if (err)
            memory_give(c->r, bytes, p);
    }
    if (!err)
        *base = p;
    return err;
}

void check_free(struct check_comm *c, uint64_t bytes, char *base, struct zero_mr *mr)
{
    if (c->ops->alloc) {
        c->ops->free(c->ctx, mr);
    } else {
        c->ops->unreg(c->ctx, mr);
        memory_give(c->r, bytes, base);
    }
}

bool check_open(struct check_rank *r, struct check_comm *c, uint64_t bytes)
{
    struct zero_comm_open open = {.size = sizeof open,
                                  .host = r->host,
                                  .oob = r->oob,
                                  .device = -1,
                                  .timeout_ns = CHECK_WAIT_NS,
                                  .interface = r->interface,
                                  .device_ops = r->device_ops,
                                  .device_handle = r->device};

    *c = (struct check_comm){.r = r, .ops = r->ops, .bytes = bytes, .wait_ns = CHECK_WAIT_NS};
    check_mark(r->host);
    return want(r, r->caps.max_inflight, "max_inflight is 0, 1 is the least") &&
           want(r, !c->ops->alloc || c->ops->free, "there is an alloc(), but no free()") &&
           want(r, !c->ops->open(&open, &c->ctx), "open: %s", check_error()) &&
           want(r, !c->ops->split(c->ctx, NULL, 0, 0, &c->world), "split: %s", check_error()) &&
           want(r, !check_alloc(c, bytes, &c->memory, &c->mr), "alloc: %s", check_error()) &&
           want(r, !c->ops->exchange(c->ctx, c->mr), "exchange: %s", check_error());
}

/* close() gives back what is still registered; memory of the plugin's goes with it. */
void check_close(struct check_comm *c)
{
    check_mark(c->r->host);
    bool closed = !c->ctx || want(c->r, !c->ops->close(c->ctx), "close: %s", check_error());

    if (c->memory && closed && !c->ops->alloc) /* else what is under way may still write there */
        memory_give(c->r, c->bytes, c->memory);
}

struct zero_slice check_slice(const struct check_comm *c, uint64_t off, uint64_t len)
{
    return (struct zero_slice){c->mr, off, len};
}

int64_t check_wait(struct check_comm *c, uint64_t *user)
{
    int64_t until = check_now_ms() + c->wait_ns / 1000000;
    struct zero_cqe cqe;

    while (!c->r->gave_up && check_now_ms() < until) {
        int n = c->ops->progress(c->ctx, &cqe, 1, 100000000);
        if (n < 0)
            return check_ended(c->r, "progress gives", n);
        if (n == 1) {
            if (user)
                *user = cqe.user;
            return check_ended(c->r, "result", cqe.res);
        }
    }
    if (c->r->gave_up)
        snprintf(c->r->ended, sizeof c->r->ended, "not awaited: an earlier one did not complete");
    else
        snprintf(c->r->ended, sizeof c->r->ended, "no completion within %d s",
                 (int)(c->wait_ns / 1000000000));
    c->r->gave_up = true;
    return CHECK_NOTHING;
}

int64_t check_run(struct check_comm *c, struct zero_comm *comm, const struct zero_coll *coll)
{
    struct check_rank *r = c->r;
    uint64_t user;
    int64_t res;
    int err;

    check_mark(r->host);
    err = c->ops->post(comm, coll, 1, NULL);
    if (err)
        return check_ended(r, "post gives", err);
    res = check_wait(c, &user);
    if (res < 0 || user == coll->user)
        return res;
    snprintf(r->ended, sizeof r->ended, "tag %" PRIu64 " came where %" PRIu64 " was due", user,
             coll->user);
    return CHECK_NOTHING;
}

int64_t check_meet(struct check_comm *c, struct zero_comm *comm)
{
    struct zero_coll q = check_meeting(c, 0);
    char how[sizeof c->r->ended];
    int64_t res;

    q.user = 77;
    res = check_run(c, comm, &q);
    if (res >= 0)
        return 0; /* one that moves data ends with its bytes */
    snprintf(how, sizeof how, "%s", c->r->ended);
    snprintf(c->r->ended, sizeof c->r->ended, "%.14s: %.300s", zero_coll_name(q.kind), how);
    return res;
}

int64_t check_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void check_sleep_ms(int ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

struct zero_coll check_gather(const struct check_comm *c, uint64_t count)
{
    struct zero_coll q = {.kind = ZERO_ALL_GATHER,
                          .src_dtype = ZERO_F32,
                          .dst_dtype = ZERO_F32,
                          .scale = 1,
                          .count = count};
    q.src = check_slice(c, 0, count * 4);
    q.dst = check_slice(c, c->bytes / 2, count * 4 * (uint64_t)c->r->ranks);
    return q;
}

struct zero_coll check_reduce(const struct check_comm *c, uint64_t count)
{
    struct zero_coll q = {.kind = ZERO_ALL_REDUCE,
                          .src_dtype = ZERO_F32,
                          .dst_dtype = ZERO_F32,
                          .scale = 0.5f,
                          .count = count,
                          .group = 3,
                          .epoch = 4,
                          .sequence = 5};
    q.src = check_slice(c, 0, count * 4);
    q.dst = check_slice(c, c->bytes / 2, count * 4);
    return q;
}

struct zero_coll check_scatter(const struct check_comm *c, uint64_t count)
{
    struct zero_coll q = check_reduce(c, count);

    q.kind = ZERO_REDUCE_SCATTER;
    q.src.len *= (uint64_t)c->r->ranks;
    return q;
}

struct zero_coll check_some_sum(const struct check_comm *c, uint64_t count)
{
    struct zero_coll q = check_reduce(c, count);

    if (check_can(c->r, &q))
        return q;
    q = check_scatter(c, count);
    if (check_can(c->r, &q))
        return q;
    return (struct zero_coll){.kind = ZERO_BARRIER, .scale = 1};
}

struct zero_coll check_some(const struct check_comm *c, uint64_t count)
{
    struct zero_coll q = check_some_sum(c, count), gather = check_gather(c, count);

    if (q.kind == ZERO_BARRIER && check_can(c->r, &gather))
        q = gather;
    q.group = 3;
    q.epoch = 4;
    q.sequence = 5;
    return q;
}

const char *check_coll(const struct zero_coll *q, uint64_t seed, char text[CHECK_COLL])
{
    bool sums = q->kind == ZERO_ALL_REDUCE || q->kind == ZERO_REDUCE_SCATTER;
    char what[24] = "";

    if (sums)
        snprintf(what, sizeof what, q->redop == ZERO_MAX ? " (max)" : " (sum)");
    else if (q->kind == ZERO_BROADCAST)
        snprintf(what, sizeof what, " from rank %d", q->root);
    snprintf(text, CHECK_COLL, "%s%s of %" PRIu64 " %s to %s%s%s, seed %" PRIu64,
             zero_coll_name(q->kind), what, q->count, zero_dtype_name(q->src_dtype),
             zero_dtype_name(q->dst_dtype), q->flags & ZERO_COLL_INPLACE ? ", in place" : "",
             q->flags & ZERO_COLL_ACCUMULATE ? ", accumulating" : "", seed);
    return text;
}

/* Sources are read only, so all have the same one; destinations are those of the last quarter. */
struct zero_coll check_meeting(const struct check_comm *c, uint64_t number)
{
    struct zero_coll q = {.kind = ZERO_BARRIER, .scale = 1};
    uint64_t from = c->bytes / 4 * 3, step;

    if (check_can(c->r, &q))
        return q;
    q = check_some(c, 1);
    if (q.kind == ZERO_BARRIER)
        return q;
    step = (q.dst.len + 63) / 64 * 64;
    q.src.off = from - (q.src.len + 63) / 64 * 64;
    q.dst.off = from + number % ((c->bytes - from) / step) * step;
    return q;
}

void check_in_place(const struct check_comm *c, struct zero_coll *q)
{
    uint64_t rank = (uint64_t)c->r->rank;

    q->flags |= ZERO_COLL_INPLACE;
    if (q->kind == ZERO_REDUCE_SCATTER)
        q->dst.off = q->src.off + rank * q->dst.len;
    else if (q->kind == ZERO_ALL_GATHER)
        q->src.off = q->dst.off + rank * q->src.len;
    else
        q->src.off = q->dst.off;
}
