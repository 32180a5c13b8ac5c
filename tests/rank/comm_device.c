/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin shm on memory of devices that ranks share: every collective gives the bits that it
 * gives on the host's memory, whatever size, type and place, many at once; nothing goes through the
 * host; what cannot be done is refused, and where memory cannot be shared all ranks know it.
 *
 * Compiled twice: over the driver that executes on the host, and with ON_GPU for the driver that
 * there is, where all ranks take the first GPU.
 */
#include "comm_device.h"

#include "tools/common/values.h"

#ifdef ON_GPU
#define GPUS 1
#else
#include "../fake/cuda_driver.h"
#define GPUS 2
#endif

static bool begin(struct rank *r, struct on_device *o)
{
    return on_device_begin(r, o, r->rank % GPUS, NULL, 0) && on_device_context(r, o, WAIT_NS) &&
           on_device_memory(r, o);
}

/* ---- The bits of the host -------------------------------------------------------------------- */

/* Some floats of the type, or any bytes. */
static void fill(char *at, uint64_t bytes, uint32_t dtype, uint64_t seed)
{
    for (uint64_t i = 0; i < bytes / 8; i++)
        ((uint64_t *)(void *)at)[i] = mix(seed, 3, i);
    for (uint64_t i = 0; dtype == ZERO_F32 && i < bytes / 4; i++)
        ((float *)(void *)at)[i] = (float)(int32_t)mix(seed, 4, i) * 0x1p-20f;
}

/* A collective of `count` elements with its source at `src` of the slab and its result at `dst`. */
static struct zero_coll coll_of(uint32_t kind, uint32_t from, uint32_t to, uint64_t count,
                                uint32_t flags, int rank, int ranks, uint64_t src, uint64_t dst)
{
    bool sums = kind == ZERO_REDUCE_SCATTER || kind == ZERO_ALL_REDUCE;
    int root = kind == ZERO_BROADCAST ? ranks - 1 : 0;
    uint64_t n = (uint64_t)ranks, s = count * zero_dtype_bytes(from),
             d = count * zero_dtype_bytes(to);
    struct zero_coll q = {.kind = kind,
                          .flags = flags,
                          .src_dtype = from,
                          .dst_dtype = to,
                          .root = root,
                          .count = count,
                          .scale = sums ? 1.0f / 3 : 1};

    q.src = (struct zero_slice){NULL, src, kind == ZERO_REDUCE_SCATTER ? s * n : s};
    q.dst = (struct zero_slice){NULL, dst, kind == ZERO_ALL_GATHER ? d * n : d};
    if (flags & ZERO_COLL_INPLACE && kind == ZERO_ALL_GATHER)
        q.src.off = dst + (uint64_t)rank * s;
    if (flags & ZERO_COLL_INPLACE && kind == ZERO_REDUCE_SCATTER)
        q.dst.off = src + (uint64_t)rank * d;
    if (flags & ZERO_COLL_INPLACE && kind == ZERO_ALL_REDUCE)
        q.dst.off = src;
    if (kind == ZERO_BROADCAST)
        q = (rank == root ? (q.dst.len = 0, q) : (q.src.len = 0, q));
    return q;
}

static void place(struct zero_coll *q, struct zero_mr *mr)
{
    q->src.mr = q->dst.mr = mr;
}

/* On both kinds of memory, which have the same in them before and afterwards. */
static bool both(struct rank *r, struct on_device *o, struct zero_coll q, const char *what)
{
    static __thread char got[SLAB];

    if (!on_device_copy(r, o, true, o->c.memory))
        return false;
    place(&q, o->mr);
    int64_t res = comm_run(&o->c, o->c.world, &q);
    bool good =
        want(r, res == (int64_t)q.dst.len, "%s: %" PRId64 ": %s", what, res, zero_last_error());
    place(&q, o->c.mr);
    res = comm_run(&o->c, o->c.world, &q);
    good &= want(r, res == (int64_t)q.dst.len, "%s, host: %" PRId64 ": %s", what, res,
                 zero_last_error());
    return good && on_device_copy(r, o, false, got) &&
           want(r, memcmp(got, o->c.memory, SLAB) == 0, "%s: other bits", what);
}

static const struct shape {
    uint32_t kind, from, to, flags;
} shapes[] = {
    {ZERO_ALL_GATHER, ZERO_BF16, ZERO_BF16, 0},
    {ZERO_ALL_GATHER, ZERO_F64, ZERO_F64, ZERO_COLL_INPLACE},
    {ZERO_ALL_GATHER, ZERO_U8, ZERO_U8, 0},
    {ZERO_BROADCAST, ZERO_I32, ZERO_I32, 0},
    {ZERO_REDUCE_SCATTER, ZERO_F32, ZERO_F32, 0},
    {ZERO_REDUCE_SCATTER, ZERO_BF16, ZERO_BF16, ZERO_COLL_INPLACE},
    {ZERO_REDUCE_SCATTER, ZERO_F16, ZERO_F32, ZERO_COLL_ACCUMULATE},
    {ZERO_REDUCE_SCATTER, ZERO_F32, ZERO_BF16, 0},
    {ZERO_ALL_REDUCE, ZERO_F32, ZERO_F32, 0},
    {ZERO_ALL_REDUCE, ZERO_BF16, ZERO_BF16, ZERO_COLL_INPLACE},
    {ZERO_ALL_REDUCE, ZERO_F16, ZERO_BF16, 0},
    {ZERO_ALL_REDUCE, ZERO_BF16, ZERO_F32, ZERO_COLL_ACCUMULATE},
};
#define N_SHAPES (sizeof shapes / sizeof *shapes)

static void exact(struct rank *r)
{
    static const uint64_t counts[] = {0, 1, 3, 64, 129, 4097, 50003};
    struct on_device *o = calloc(1, sizeof *o);
    uint64_t seed = 1;
    char what[80];

    for (unsigned i = 0; o && begin(r, o) && i < N_SHAPES; i++) {
        const struct shape *s = &shapes[i];
        for (unsigned k = 0; k < sizeof counts / sizeof *counts; k++) {
            uint64_t lead = k % 4 * zero_dtype_bytes(s->from) * 3;
            fill(o->c.memory, SLAB, s->from, mix(++seed, (uint64_t)r->rank, 0));
            snprintf(what, sizeof what, "%s of %" PRIu64 " %s to %s, flags %u",
                     zero_coll_name(s->kind), counts[k], zero_dtype_name(s->from),
                     zero_dtype_name(s->to), s->flags);
            if (!both(r, o,
                      coll_of(s->kind, s->from, s->to, counts[k], s->flags, r->rank, r->ranks, lead,
                              HALF + k * zero_dtype_bytes(s->to)),
                      what))
                goto end;
        }
        if (i + 1 == N_SHAPES)
            break;
        on_device_end(r, o);
        memset(o, 0, sizeof *o);
    }
end:
    want(r, comm_barrier(&o->c, o->c.world) == 0, "barrier: %s", zero_last_error());
    on_device_end(r, o);
    free(o);
}

/* ---- Many at once ---------------------------------------------------------------------------- */

#define AT_ONCE 48
#define EACH (HALF / AT_ONCE / 64 * 64)

static void post_all(struct rank *r, struct on_device *o, struct zero_comm *const *comms,
                     bool mixed)
{
    for (uint32_t i = 0; i < AT_ONCE; i++) {
        const struct shape *s = &shapes[i % N_SHAPES];
        struct zero_coll q = coll_of(s->kind, s->from, s->to, 700 + i, s->flags, r->rank, r->ranks,
                                     i * EACH, HALF + i * EACH);
        /* A part stays on the host, in front of what follows on the device. */
        place(&q, mixed && i % 7 != 3 ? o->mr : o->c.mr);
        q.user = i;
        want(r, !o->c.ops->post(comms[i % 2], &q, 1, NULL), "post %u: %s", i, zero_last_error());
    }
}

static bool wait_all(struct rank *r, struct on_device *o)
{
    uint64_t seen = 0, user;

    for (uint32_t i = 0; i < AT_ONCE; i++) {
        int64_t res = comm_wait(&o->c, &user);
        if (!want(r, res >= 0 && user < AT_ONCE && !(seen >> user & 1),
                  "completion %u: %" PRId64 ": %s", i, res, zero_last_error()))
            return false;
        seen |= UINT64_C(1) << user;
    }
    return true;
}

/* The ranges of the collectives that ran on the device, which are not those on the host. */
static void compare_all(struct rank *r, struct on_device *o, const char *got)
{
    for (uint32_t i = 0; i < AT_ONCE; i++)
        for (uint64_t at = i * EACH; i % 7 != 3 && at < SLAB; at += HALF)
            want(r, memcmp(got + at, o->c.memory + at, EACH) == 0, "collective %u: other bits", i);
}

static void at_once(struct rank *r)
{
    struct on_device *o = calloc(1, sizeof *o);
    char *got = malloc(SLAB), *before = malloc(SLAB);
    struct zero_comm *comms[2];

    if (!o || !got || !before || !begin(r, o))
        goto end;
    comms[0] = o->c.world;
    if (!want(r, !o->c.ops->split(o->c.ctx, NULL, 0, -r->rank, &comms[1]), "split: %s",
              zero_last_error()))
        goto end;
    o->c.ops->comm_close(comms[1]); /* one that has done nothing */
    if (!want(r, !o->c.ops->split(o->c.ctx, NULL, 0, 0, &comms[1]), "split: %s", zero_last_error()))
        goto end;
    fill(o->c.memory, SLAB, ZERO_F32, (uint64_t)r->rank + 77);
    memcpy(before, o->c.memory, SLAB);
    if (!on_device_copy(r, o, true, before))
        goto end;
    post_all(r, o, comms, true);
    if (!wait_all(r, o) || !on_device_copy(r, o, false, got))
        goto end;
    want(r, comm_barrier(&o->c, o->c.world) == 0, "barrier: %s", zero_last_error());
    memcpy(o->c.memory, before, SLAB);
    want(r, comm_barrier(&o->c, o->c.world) == 0, "barrier: %s", zero_last_error());
    post_all(r, o, comms, false);
    if (wait_all(r, o))
        compare_all(r, o, got);
    want(r, comm_barrier(&o->c, o->c.world) == 0, "barrier: %s", zero_last_error());
    o->c.ops->comm_close(comms[1]);
end:
    if (o)
        on_device_end(r, o);
    free(o);
    free(got);
    free(before);
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void refusals(struct rank *r)
{
    struct on_device *o = calloc(1, sizeof *o);
    struct zero_coll q, sum;
    struct zero_mr *part;
    void *base;

    if (!o || !begin(r, o))
        goto end;
    const struct zero_comm_ops *ops = o->c.ops;
    q = coll_of(ZERO_ALL_GATHER, ZERO_F32, ZERO_F32, 8, 0, r->rank, r->ranks, 0, HALF);
    q.src.mr = o->mr;
    q.dst.mr = o->c.mr;
    want(r, ops->post(o->c.world, &q, 1, NULL) == -EINVAL, "two kinds in one collective");
    sum = coll_of(ZERO_ALL_REDUCE, ZERO_I32, ZERO_I32, 8, 0, r->rank, r->ranks, 0, HALF);
    sum.scale = 1;
    place(&sum, o->mr);
    want(r, ops->post(o->c.world, &sum, 1, NULL) == -ENOTSUP, "integers");
    want(r, strstr(zero_last_error(), "int32"), "by name: %s", zero_last_error());
    sum = coll_of(ZERO_ALL_REDUCE, ZERO_F32, ZERO_F32, 8, 0, r->rank, r->ranks, 0, HALF);
    sum.redop = ZERO_MAX;
    sum.scale = 1;
    place(&sum, o->mr);
    want(r, ops->post(o->c.world, &sum, 1, NULL) == -ENOTSUP, "maxima");
    want(r, ops->map(o->c.ctx, o->mr, 0, 65536, &base) == -ENOTSUP, "maps");
    want(r, ops->reg(o->c.ctx, o->base + 4096, 8192, ZERO_MEM_CUDA, &part) == 0, "a part: %s",
         zero_last_error());
    want(r, ops->exchange(o->c.ctx, part) == 0, "is exchanged: %s", zero_last_error());
    want(r, ops->unreg(o->c.ctx, part) == 0, "and left");
    want(r, ops->reg(o->c.ctx, o->base, SLAB, ZERO_MEM_HOST, &part) == -ENOTSUP, "another kind");
    want(r, comm_barrier(&o->c, o->c.world) == 0, "barrier: %s", zero_last_error());
    /* One rank has memory of the host: as many bytes, and another region. */
    q = coll_of(ZERO_ALL_GATHER, ZERO_F32, ZERO_F32, 8, 0, r->rank, r->ranks, 0, HALF);
    place(&q, r->rank ? o->mr : o->c.mr);
    want(r, comm_run(&o->c, o->c.world, &q) == -EPROTO, "kinds that differ: %s", zero_last_error());
    ops->free(o->c.ctx, o->mr);
    o->mr = NULL;
    ops->free(o->c.ctx, o->c.mr);
    int err = ops->alloc(o->c.ctx, 4096, r->rank ? ZERO_MEM_CUDA : ZERO_MEM_HOST, &base, &part);
    want(r, !err && ops->exchange(o->c.ctx, part) == -EPROTO, "in an exchange: %s",
         zero_last_error());
    ops->free(o->c.ctx, part);
end:
    if (o)
        on_device_end(r, o);
    free(o);
}

/* ---- Where it cannot be shared --------------------------------------------------------------- */

static void not_shared(struct rank *r, bool wants)
{
    const struct zero_setting no = {"shm_device", "0"};
    struct on_device *o = calloc(1, sizeof *o);
    struct zero_mr *mr;
    void *base;

    if (o && on_device_begin(r, o, r->rank % GPUS, &no, !wants) &&
        on_device_context(r, o, WAIT_NS)) {
        want(r, o->mem == ZERO_MEM_HOST, "kinds of memory: %u", o->mem);
        want(r, o->c.ops->alloc(o->c.ctx, 4096, ZERO_MEM_CUDA, &base, &mr) == -ENOTSUP, "refused");
        want(r, comm_barrier(&o->c, o->c.world) == 0, "barrier: %s", zero_last_error());
    }
    if (o)
        on_device_end(r, o);
    free(o);
}

static void unwanted(struct rank *r)
{
    not_shared(r, r->rank != 1);
}

static void run(void (*fn)(struct rank *), const char *what, int n, enum ranks_how how)
{
    ranks_good(comm_ranks(n, how, fn, NULL), n, "%s: %d %s", what, n, ranks_how_name[how]);
}

static void run_all(int n, enum ranks_how how)
{
    run(exact, "the bits of the host", n, how);
    run(at_once, "many at once", n, how);
    if (n == 1)
        return;
    run(refusals, "what is refused", n, how);
    run(unwanted, "a rank does not want to share", n, how);
}

#ifdef ON_GPU

/* In a process of its own: who has called a driver must not fork. */
static void look_for_gpu(struct rank *r)
{
    struct on_device *o = calloc(1, sizeof *o);
    struct zero__plugin *plugin;
    struct zero_device_info info = {.size = sizeof info};

    if (o && comm_load(r, &o->c, "shm", NULL, 0) &&
        !zero__loader_load(o->c.loader, ZERO_IFACE_DEVICE, "cuda", &plugin))
        r->value = !zero__plugin_device(plugin)->probe(zero__loader_host(o->c.loader), &info);
}

int main(void)
{
    if (!comm_ranks(1, AS_PROCESSES, look_for_gpu, NULL)->value)
        skip_all("there is no GPU here, or no driver");
    for (int n = 1; n <= 3; n++)
        run_all(n, AS_PROCESSES);
    run_all(2, AS_THREADS);
    done();
}

#else

static struct fake_cuda_work before;

/* Of the collectives nothing passed through the host. */
static void count_copies(struct rank *r)
{
    struct on_device *o = calloc(1, sizeof *o);
    struct fake_cuda_work after;
    struct zero_coll q;

    if (!o || !begin(r, o))
        goto end;
    want(r, comm_barrier(&o->c, o->c.world) == 0, "barrier: %s", zero_last_error());
    fake_cuda_work(&before);
    for (unsigned i = 0; i < N_SHAPES; i++) {
        const struct shape *s = &shapes[i];
        q = coll_of(s->kind, s->from, s->to, 3000, s->flags, r->rank, r->ranks, 0, HALF);
        place(&q, o->mr);
        want(r, comm_run(&o->c, o->c.world, &q) >= 0, "run: %s", zero_last_error());
    }
    fake_cuda_work(&after);
    want(r, after.host_bytes == before.host_bytes, "%" PRIu64 " bytes passed through the host",
         after.host_bytes - before.host_bytes);
    want(r, after.copies > before.copies && after.launches > before.launches && !after.illegal,
         "%" PRIu64 " copies, %" PRIu64 " launches", after.copies - before.copies,
         after.launches - before.launches);
end:
    if (o)
        on_device_end(r, o);
    free(o);
}

static void cannot(struct rank *r)
{
    not_shared(r, true);
}

static void settings(int delay_us, int has_virtual, int shares)
{
    struct fake_cuda_settings set = fake_cuda_defaults();

    set.delay_us = delay_us;
    set.has_virtual = has_virtual;
    set.shares = shares;
    fake_cuda_set(&set);
}

int main(void)
{
    struct fake_cuda_live live;

    settings(0, 1, 1);
    for (int n = 1; n <= 3; n++)
        run_all(n, AS_PROCESSES);
    run(count_copies, "nothing passes through the host", 2, AS_PROCESSES);
    settings(100, 1, 1);
    run(exact, "late work", 3, AS_PROCESSES);
    run(at_once, "late work, many at once", 3, AS_PROCESSES);
    settings(0, 0, 1);
    run(exact, "by handles", 3, AS_PROCESSES);
    run(count_copies, "by handles, past the host", 2, AS_PROCESSES);
    settings(0, 1, 0);
    run(cannot, "a driver that shares nothing", 2, AS_PROCESSES);
    settings(0, 1, 1);
    run_all(2, AS_THREADS);
    run_all(3, AS_THREADS);
    run(cannot, "more ranks than a kernel adds up", 17, AS_THREADS);
    settings(50, 1, 1);
    run(at_once, "late work, many at once", 3, AS_THREADS);
    fake_cuda_live(&live);
    is_int((intmax_t)(live.contexts + live.streams + live.events + live.ranges + live.chunks +
                      live.maps + live.plain + live.pinned + live.bytes),
           0, "nothing is left");
    done();
}

#endif
