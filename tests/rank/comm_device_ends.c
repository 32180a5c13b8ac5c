/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin shm on memory of devices when something ends: contexts are aborted while work is on a
 * stream, ranks are killed, a device fails or does not get on, strangers write to the sockets that
 * ranks meet at. Nobody hangs, nobody touches memory that is gone, and what happened is said where
 * it did.
 */
#include <dirent.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "comm_device.h"

#include "../../plugins/cuda/driver.h"
#include "../../plugins/shm/shm.h" /* strangers have to find the sockets */
#include "../fake/cuda_driver.h"

#define SHORT_NS (INT64_C(2) * 1000 * 1000 * 1000)
#define COUNT 20000u

static bool begin(struct rank *r, struct on_device *o, int64_t timeout_ns)
{
    return on_device_begin(r, o, r->rank % 2, NULL, 0) && on_device_context(r, o, timeout_ns) &&
           on_device_memory(r, o);
}

static struct zero_coll sum_of(const struct on_device *o, int ranks)
{
    struct zero_coll q = {.kind = ZERO_REDUCE_SCATTER,
                          .src_dtype = ZERO_F32,
                          .dst_dtype = ZERO_F32,
                          .scale = 0.5f,
                          .count = COUNT};

    q.src = (struct zero_slice){o->mr, 0, (uint64_t)ranks * COUNT * 4};
    q.dst = (struct zero_slice){o->mr, HALF, COUNT * 4};
    return q;
}

/* Nothing was touched where nothing is. */
static void nothing_illegal(struct rank *r)
{
    struct fake_cuda_work work;

    fake_cuda_work(&work);
    want(r, work.illegal == 0, "%" PRIu64 " accesses where nothing is", work.illegal);
}

/* Posts `n`, lets them get as far as the stream, and gives what the first completion says. */
static int64_t post_and_hold(struct rank *r, struct on_device *o, uint32_t n)
{
    struct zero_coll q = sum_of(o, r->ranks);
    struct zero_cqe cqe;

    want(r, comm_barrier(&o->c, o->c.world) == 0, "barrier: %s", zero_last_error());
    fake_cuda_hold(1);
    for (uint32_t i = 0; i < n; i++)
        want(r, !o->c.ops->post(o->c.world, &q, 1, NULL), "post: %s", zero_last_error());
    for (int i = 0; i < 20; i++) {
        int got = o->c.ops->progress(o->c.ctx, &cqe, 1, 1000000);
        if (got)
            return got < 0 ? got : cqe.res;
    }
    return -EINPROGRESS;
}

/* ---- Aborts ---------------------------------------------------------------------------------- */

static void aborted(struct rank *r)
{
    struct on_device *o = calloc(1, sizeof *o);
    struct zero_cqe cqe[8];
    int n = 0;

    if (!o || !begin(r, o, WAIT_NS))
        goto end;
    int64_t res = post_and_hold(r, o, 5);
    want(r, res == -EINPROGRESS || res == -ECANCELED, "held: %" PRId64, res);
    n = res == -ECANCELED;
    if (r->rank == 0)
        want(r, !o->c.ops->abort(o->c.ctx), "abort");
    while (n < 5) {
        int got = o->c.ops->progress(o->c.ctx, cqe, 8, WAIT_NS);
        if (!want(r, got > 0, "progress: %d: %s", got, zero_last_error()))
            break;
        for (int i = 0; i < got; i++)
            want(r, cqe[i].res == -ECANCELED, "ends with %" PRId64, cqe[i].res);
        n += got;
    }
    struct zero_coll q = sum_of(o, r->ranks);
    want(r, o->c.ops->post(o->c.world, &q, 1, NULL) == -ECANCELED, "later posts fail");
    fake_cuda_hold(0); /* what is on the stream goes on, into memory that is still there */
end:
    if (o)
        on_device_end(r, o);
    free(o);
    nothing_illegal(r);
}

/* What does not end is left alone, until the device closes. */
static void stuck(struct rank *r)
{
    struct on_device *o = calloc(1, sizeof *o);
    int64_t start;

    if (!o || !begin(r, o, SHORT_NS))
        goto end;
    int64_t res = post_and_hold(r, o, 3);
    int32_t who[4];
    want(r, res == -EINPROGRESS || res == -ECANCELED, "held: %" PRId64, res);
    int n =
        res == -ECANCELED ? 1 : /* a peer gave up already */ o->c.ops->missing(o->c.world, who, 4);
    want(r, n > 0, "who is missing");
    start = now_ms();
    o->c.ops->abort(o->c.ctx);
    want(r, !o->c.ops->comm_close(o->c.world), "close");
    o->c.world = NULL;
    want(r, now_ms() - start < 5 * SHORT_NS / 1000000, "within the deadline: %d ms",
         (int)(now_ms() - start));
    want(r, !o->c.ops->free(o->c.ctx, o->mr), "free");
    o->mr = NULL;
    fake_cuda_hold(0);
end:
    if (o)
        on_device_end(r, o);
    free(o);
    nothing_illegal(r);
}

/* ---- Deaths and failures --------------------------------------------------------------------- */

static void killed(struct rank *r)
{
    const int victim = r->ranks - 1, when = *(int *)r->arg;
    struct on_device *o = calloc(1, sizeof *o);
    int64_t until = now_ms() + WAIT_NS / 1000000;
    struct zero_cqe cqe;
    int32_t who[RANKS_MAX];

    if (!o || !begin(r, o, WAIT_NS))
        return;
    for (int i = 0;; i++) {
        struct zero_coll q = sum_of(o, r->ranks);
        if (r->rank == victim && i == when)
            raise(SIGKILL);
        if (!want(r, !o->c.ops->post(o->c.world, &q, 1, NULL), "post: %s", zero_last_error()))
            break;
        int n = 0;
        for (int k = 0; !n && k < (i < when ? 100 : 3) && now_ms() < until; k++)
            n = o->c.ops->progress(o->c.ctx, &cqe, 1, 50000000);
        if (n == 1 && cqe.res >= 0)
            continue;
        if (n == 1 && cqe.res == -ECANCELED && i >= when) /* another was quicker */
            break;
        want(r, n == 0 && i >= when, "%d: %d, %" PRId64 ": %s", i, n, n ? cqe.res : 0,
             zero_last_error());
        want(r, o->c.ops->missing(o->c.world, who, RANKS_MAX) >= 1 && who[0] == victim,
             "rank %d is missing", who[0]);
        o->c.ops->abort(o->c.ctx);
        n = o->c.ops->progress(o->c.ctx, &cqe, 1, WAIT_NS);
        want(r, n == 1 && cqe.res == -ECANCELED, "and the collective ends: %d", n);
        break;
    }
    on_device_end(r, o);
    free(o);
    nothing_illegal(r);
}

static void fails(struct rank *r)
{
    struct on_device *o = calloc(1, sizeof *o);
    struct zero_coll q;

    if (!o || !begin(r, o, WAIT_NS))
        goto end;
    q = sum_of(o, r->ranks);
    want(r, comm_run(&o->c, o->c.world, &q) >= 0, "a good one: %s", zero_last_error());
    want(r, comm_barrier(&o->c, o->c.world) == 0, "barrier: %s", zero_last_error());
    if (r->rank == 0)
        fake_cuda_break(1, CUDA_ILLEGAL_ADDRESS);
    int64_t res = comm_run(&o->c, o->c.world, &q);
    if (r->rank == 0)
        want(r, res < 0 && res != -ECANCELED && strstr(zero_last_error(), "ILLEGAL_ADDRESS"),
             "the device's own words: %" PRId64 ": %s", res, zero_last_error());
    else
        want(r, res == -ECANCELED && strstr(zero_last_error(), "the device of rank 0 failed"),
             "others hear whose it was: %" PRId64 ": %s", res, zero_last_error());
end:
    atomic_store(&o->wakes, NULL);
    o->c.ops->comm_close(o->c.world);
    o->c.ops->free(o->c.ctx, o->mr); /* in a context that is lost nothing can be given back */
    o->d->close(o->dev);
    comm_end(r, &o->c);
    free(o);
}

/* ---- Strangers ------------------------------------------------------------------------------- */

/* Sends it with n descriptors, which are open in the other process as soon as it looks. */
static void send_with(int s, const void *data, size_t bytes, struct sockaddr_un *at, socklen_t len,
                      size_t n)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(4 * sizeof(int))];
    } control = {.bytes = {0}};
    struct iovec part = {(void *)(uintptr_t)data, bytes};
    struct msghdr m = {.msg_name = at, .msg_namelen = len, .msg_iov = &part, .msg_iovlen = 1};

    if (n) {
        m.msg_control = control.bytes;
        m.msg_controllen = CMSG_SPACE(n * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n * sizeof(int));
        for (size_t i = 0; i < n; i++)
            memcpy(CMSG_DATA(c) + i * sizeof(int), &s, sizeof s);
    }
    sendmsg(s, &m, MSG_DONTWAIT);
}

static int n_open(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

/* From another process than that of the rank that it names: everything a parcel has, and noise. */
static void stranger(const struct shm_device *d, int to, int ranks, uint64_t serial)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + d->ranks[to].name_bytes);
    int s = socket(AF_UNIX, SOCK_DGRAM, 0);
    struct {
        uint64_t serial, bytes;
        int32_t rank, status;
        uint32_t how, with_fd;
        uint8_t handle[64];
    } p = {.serial = serial, .bytes = SLAB, .how = 1};

    memcpy(at.sun_path, d->ranks[to].name, d->ranks[to].name_bytes);
    for (int k = 0; k < 8; k++) {
        p.rank = k - 1 < ranks ? k - 1 : INT32_MAX;
        p.with_fd = k % 4 == 1;
        send_with(s, &p, k == 7 ? 5 : sizeof p, &at, bytes, (size_t)k % 4);
    }
    close(s);
}

static void strangers(struct rank *r)
{
    struct on_device *o = calloc(1, sizeof *o);
    struct zero_coll q;
    struct fake_cuda_live live;
    struct zero_mr *mr;
    void *base;
    int status, before;

    if (!o || !begin(r, o, WAIT_NS))
        goto end;
    before = n_open();
    for (int round = 0; round < 5; round++) {
        pid_t child = fork();
        if (child == 0) {
            for (int p = 0; p < r->ranks; p++)
                stranger(&o->c.ctx->device, p, r->ranks, o->c.ctx->table.turn + 1);
            _exit(0);
        }
        waitpid(child, &status, 0);
        want(r,
             !o->c.ops->alloc(o->c.ctx, 100000, ZERO_MEM_CUDA, &base, &mr) &&
                 !o->c.ops->exchange(o->c.ctx, mr),
             "exchange: %s", zero_last_error());
        want(r, !o->c.ops->free(o->c.ctx, mr), "free");
    }
    want(r, comm_barrier(&o->c, o->c.world) == 0, "barrier: %s", zero_last_error());
    fake_cuda_live(&live); /* and what the others had until now goes */
    want(r, n_open() == before, "%d descriptors are open, %d were", n_open(), before);
    q = sum_of(o, r->ranks);
    want(r, comm_run(&o->c, o->c.world, &q) >= 0, "and all goes on: %s", zero_last_error());
    want(r, comm_barrier(&o->c, o->c.world) == 0, "barrier: %s", zero_last_error());
end:
    if (o)
        on_device_end(r, o);
    free(o);
    nothing_illegal(r);
}

/* One rank does not come to the exchange. */
static void alone(struct rank *r)
{
    struct on_device *o = calloc(1, sizeof *o);
    struct zero_mr *mr;
    void *base;

    if (o && begin(r, o, SHORT_NS) && r->rank) {
        int64_t start = now_ms();
        want(r, !o->c.ops->alloc(o->c.ctx, 4096, ZERO_MEM_CUDA, &base, &mr), "alloc");
        int err = o->c.ops->exchange(o->c.ctx, mr);
        want(r, err == -ETIMEDOUT && strstr(zero_last_error(), "rank 0"), "%d: %s", err,
             zero_last_error());
        want(r, now_ms() - start < 20 * SHORT_NS / 1000000, "at the deadline");
        o->c.ops->free(o->c.ctx, mr);
    } else {
        sleep_ms(3 * (int)(SHORT_NS / 1000000));
    }
    if (o)
        on_device_end(r, o);
    free(o);
}

/* ---------------------------------------------------------------------------------------------- */

static void run(void (*fn)(struct rank *), const char *what, int n, enum ranks_how how)
{
    ranks_good(comm_ranks(n, how, fn, NULL), n, "%s: %d %s", what, n, ranks_how_name[how]);
}

static void kill_some(int n, int when)
{
    bool good = true;

    struct rank *all = comm_ranks(n, AS_PROCESSES, killed, &when);
    for (int i = 0; i < n; i++) {
        good &= all[i].bad == 0 && (i == n - 1 ? WIFSIGNALED(all[i].status) : all[i].status == 0);
        for (int k = 0; k < all[i].bad && k < 4; k++)
            diag("%s", all[i].text[k]);
    }
    ok(good, "the last of %d ranks is killed at its collective %d: others name it and end", n,
       when);
}

static void late(int delay_us)
{
    struct fake_cuda_settings set = fake_cuda_defaults();

    set.delay_us = delay_us;
    fake_cuda_set(&set);
}

int main(void)
{
    late(0);
    for (int n = 2; n <= 3; n++) {
        run(aborted, "aborted with work on the stream", n, AS_PROCESSES);
        run(stuck, "a device that does not get on", n, AS_PROCESSES);
        run(fails, "a device that fails", n, AS_PROCESSES);
        run(strangers, "strangers write", n, AS_PROCESSES);
        run(alone, "a rank that does not come", n, AS_PROCESSES);
        kill_some(n, 0);
        kill_some(n, 7);
    }
    late(200);
    kill_some(3, 20);
    late(0);
    run(aborted, "aborted with work on the stream", 2, AS_THREADS);
    run(aborted, "aborted with work on the stream", 3, AS_THREADS);
    run(stuck, "a device that does not get on", 1, AS_THREADS);
    done();
}
