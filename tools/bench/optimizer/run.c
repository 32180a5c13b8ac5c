/* SPDX-License-Identifier: Apache-2.0 */
/* The update as the engine launches it, unit by unit on one stream, and the loops that limit it. */
#include "config.h"

#include "states.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "device/host.h"
#include "machine/clock.h"
#include "tools/bench/measure/loops.h"
#include "tools/common/cores.h"

#define PIECE (UINT64_C(1) << 18) /* elements, a multiple of 64 */

enum { P, M, V, GRAD, OUT, PARTIALS, SUM, SCALARS, N_ARRAYS };
_Static_assert(N_ARRAYS == sizeof((struct optimizer *)0)->arrays / sizeof(void *), "all of them");

static uint64_t blocks(uint64_t n)
{
    return (n + ZERO_SUMSQ_BLOCK - 1) / ZERO_SUMSQ_BLOCK;
}

static uint64_t n_units(const struct optimizer_options *o)
{
    return (o->params + o->unit - 1) / o->unit;
}

/* Plain loops go on to the end of their vectors. 0: there is no such array. */
static uint64_t array_bytes(const struct optimizer_options *o, int array)
{
    const uint64_t spare = 4 * BENCH_SPARE_BYTES;

    switch (array) {
    case P:
    case M:
    case V:
        return o->params * 4 + spare;
    case GRAD:
        return o->params * zero_dtype_bytes(o->grad_dtype) + spare;
    case OUT:
        return o->dtype == ZERO_F32 ? 0 : o->params * 2 + spare;
    case PARTIALS:
        return n_units(o) * blocks(o->unit) * sizeof(double) + spare;
    default:
        return 4096;
    }
}

uint64_t optimizer_bytes(const struct optimizer_options *o)
{
    uint64_t bytes = 0;

    for (int i = 0; i < N_ARRAYS; i++)
        bytes += array_bytes(o, i);
    return bytes;
}

static int arrays_alloc(struct optimizer *x)
{
    int err = 0;

    for (int i = 0; !err && i < N_ARRAYS; i++) {
        uint64_t bytes = array_bytes(x->o, i);
        err = bytes ? x->ops.alloc(x->dev, bytes, ZERO_MEM_HOST, &x->arrays[i]) : 0;
    }
    x->p = x->arrays[P];
    x->m = x->arrays[M];
    x->v = x->arrays[V];
    x->grad = x->arrays[GRAD];
    x->out = x->arrays[OUT];
    x->partials = x->arrays[PARTIALS];
    x->sum = x->arrays[SUM];
    x->scalars = x->arrays[SCALARS];
    return err;
}

void optimizer_close(struct optimizer *x)
{
    if (x->dev) {
        for (unsigned i = 0; i < x->n_streams; i++)
            if (!x->ops.stream_sync(x->dev, x->streams[i], x->timeout_ns))
                x->ops.stream_destroy(x->dev, x->streams[i]);
        for (int i = 0; i < N_ARRAYS; i++)
            if (x->arrays[i])
                x->ops.release(x->dev, x->arrays[i], array_bytes(x->o, i), ZERO_MEM_HOST);
        x->ops.close(x->dev);
        free(x->streams);
    }
    zero__loader_free(x->loader);
    zero__options_free(x->options);
}

static int streams_create(struct optimizer *x)
{
    int err = 0;

    x->streams = calloc(x->o->threads, sizeof *x->streams);
    if (!x->streams)
        return zero__fail(-ENOMEM, "no memory for %u streams", x->o->threads);
    while (!err && x->n_streams < x->o->threads) {
        err = x->ops.stream_create(x->dev, "bench", &x->streams[x->n_streams]);
        x->n_streams += !err;
    }
    return err;
}

int optimizer_open(struct optimizer *x, const struct optimizer_options *o)
{
    static const struct zero_plugin *const builtins[] = {&zero__host_device_plugin};
    struct zero__plugin *plugin;

    *x = (struct optimizer){.o = o, .log = {.rank = -1}, .clip = 1};
    x->hyper = (struct zero_hyper){
        .lr = 1e-3f, .weight_decay = 0.1f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f};
    int err = zero__options_load(NULL, 0, &x->options);
    if (!err) {
        zero__option_levels(x->options, &x->log);
        err = zero__loader_create(x->options, &x->log, builtins, 1, &x->loader);
    }
    if (!err)
        err = zero__loader_load(x->loader, ZERO_IFACE_DEVICE, "host", &plugin);
    if (err)
        return err;
    x->ops = *zero__plugin_device(plugin);
    x->timeout_ns = zero__option_ns(x->options, ZERO__OPT_TIMEOUT);
    struct zero_device_open params = {.size = sizeof params,
                                      .host = zero__loader_host(x->loader),
                                      .threads = o->threads,
                                      .timeout_ns = x->timeout_ns};
    err = x->ops.open(&params, &x->dev);
    if (!err)
        err = streams_create(x);
    return err ? err : arrays_alloc(x);
}

static int launch(struct optimizer *x, uint32_t kernel, const void *args, uint64_t bytes)
{
    struct zero_launch l = {kernel, 0, args, bytes};
    return x->ops.launch(x->dev, &l, x->streams[0]);
}

static int norm(struct optimizer *x)
{
    const struct optimizer_options *o = x->o;
    uint64_t size = zero_dtype_bytes(o->grad_dtype), per_unit = blocks(o->unit), n = 0;
    int err = 0;

    for (uint64_t u = 0, at = 0; !err && at < o->params; u++, at += o->unit) {
        uint64_t count = o->params - at < o->unit ? o->params - at : o->unit;
        struct zero_sumsq_args a = {x->partials + u * per_unit, (char *)x->grad + at * size, count,
                                    o->grad_dtype, 0};
        err = launch(x, ZERO_KERNEL_SUMSQ, &a, sizeof a);
        n = u * per_unit + blocks(count);
    }
    struct zero_total_args total = {x->sum, x->partials, n};
    struct zero_scalars_args scalars = {
        .scalars = x->scalars, .sums = x->sum, .ranks = 1, .inverse = 1, .clip = x->clip};
    if (!err)
        err = launch(x, ZERO_KERNEL_TOTAL, &total, sizeof total);
    return err ? err : launch(x, ZERO_KERNEL_SCALARS, &scalars, sizeof scalars);
}

static int adamw(struct optimizer *x)
{
    const struct optimizer_options *o = x->o;
    uint64_t size = zero_dtype_bytes(o->grad_dtype);
    int err = 0;

    for (uint64_t at = 0; !err && at < o->params; at += o->unit) {
        struct zero_update_args a = {.p = x->p + at,
                                     .m = x->m + at,
                                     .v = x->v + at,
                                     .grad = (char *)x->grad + at * size,
                                     .out = x->out ? (char *)x->out + 2 * at : NULL,
                                     .count = o->params - at < o->unit ? o->params - at : o->unit,
                                     .grad_dtype = o->grad_dtype,
                                     .out_dtype = o->dtype,
                                     .scalars = x->scalars,
                                     .hyper = x->hyper};
        err = launch(x, ZERO_KERNEL_ADAMW, &a, sizeof a);
    }
    return err;
}

int optimizer_run(struct optimizer *x, enum optimizer_series what)
{
    int err = what == OPTIMIZER_ADAMW ? 0 : norm(x);

    if (!err && what != OPTIMIZER_NORM)
        err = adamw(x);
    return err ? err : x->ops.stream_sync(x->dev, x->streams[0], x->timeout_ns);
}

/*
 * The loops run on the device's own threads, a call for each, and take pieces as its kernels do:
 * what the system does to these threads on a busy machine, it does to both.
 */
static bool piece(struct optimizer *x, uint64_t *first, uint64_t *end)
{
    *first = atomic_fetch_add_explicit(&x->next, PIECE, memory_order_relaxed);
    *end = *first + PIECE < x->o->params ? *first + PIECE : (x->o->params + 63) / 64 * 64;
    return *first < x->o->params;
}

static void read_pieces(void *arg)
{
    struct optimizer *x = arg;
    uint64_t first, end, size = zero_dtype_bytes(x->o->grad_dtype);

    while (piece(x, &first, &end)) {
        uint32_t sum = bench_loop_read((const char *)x->grad + first * size, (end - first) * size,
                                       x->way != 0);
        __asm__ volatile("" : : "r"(sum)); /* wanted */
    }
}

static void move_pieces(void *arg)
{
    struct optimizer *x = arg;
    const struct bench_states s = {.p = x->p,
                                   .m = x->m,
                                   .v = x->v,
                                   .out = x->out,
                                   .grad = x->grad,
                                   .wide_grad = x->o->grad_dtype == ZERO_F32};
    uint64_t first, end;

    while (piece(x, &first, &end))
        bench_loop_update(&s, first, end, x->way);
}

/* More threads than cores or pieces would be in each other's way, which limits nothing. */
static unsigned movers(const struct optimizer_options *o)
{
    uint64_t n = (o->params + PIECE - 1) / PIECE, cores = (uint64_t)tool_cores();

    n = n < cores ? n : cores;
    return n < o->threads ? (unsigned)n : o->threads;
}

static int loops_run(struct optimizer *x, void (*fn)(void *arg))
{
    unsigned n = movers(x->o);
    int err = 0;

    atomic_store(&x->next, 0);
    for (unsigned i = 0; !err && i < n; i++)
        err = x->ops.call(x->dev, fn, x, x->streams[i]);
    for (unsigned i = 0; !err && i < n; i++)
        err = x->ops.stream_sync(x->dev, x->streams[i], x->timeout_ns);
    return err;
}

int optimizer_sample(struct optimizer *x, int s, double *seconds)
{
    x->way = (unsigned)(s - (s < OPTIMIZER_MOVE ? OPTIMIZER_READ : OPTIMIZER_MOVE));
    int64_t start = zero__now_ns();
    int err = s < OPTIMIZER_READ ? optimizer_run(x, (enum optimizer_series)s)
                                 : loops_run(x, s < OPTIMIZER_MOVE ? read_pieces : move_pieces);

    *seconds = (double)(zero__now_ns() - start) * 1e-9;
    return err;
}

int optimizer_measure(struct optimizer *x, struct bench_stats stats[N_OPTIMIZER_SERIES])
{
    const struct optimizer_options *o = x->o;
    double *all = calloc((size_t)o->reps * N_OPTIMIZER_SERIES, sizeof *all), warm;
    int err = all ? 0 : zero__fail(-ENOMEM, "no memory for %u repetitions", o->reps);

    for (unsigned k = 0; !err && k < o->warmup + o->reps; k++)
        for (unsigned j = 0; !err && j < N_OPTIMIZER_SERIES; j++) {
            unsigned s = (k + j) % N_OPTIMIZER_SERIES; /* another one comes first each time */
            err = optimizer_sample(
                x, (int)s, k < o->warmup ? &warm : &all[(size_t)s * o->reps + k - o->warmup]);
        }
    for (int s = 0; !err && s < N_OPTIMIZER_SERIES; s++)
        stats[s] = bench_stats_of(all + (size_t)s * o->reps, o->reps);
    free(all);
    return err;
}
