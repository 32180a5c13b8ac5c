/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How launches become grids. A grid covers its elements once where that takes no more blocks than
 * the device holds a few times over, and goes round with that many where it does not: enough to
 * even out multiprocessors of different speed, few enough that what a block derives for itself
 * (constants of an update) costs nothing beside what it moves.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "launch/check.h"
#include "plan.h"

/* Times that the blocks a device holds at once make the largest grid. */
#define WAVES 4u
/* Vectors of 16 bytes that a thread of FILL stores at a time. */
#define FILL_VECTORS 4u

static const struct {
    const char *name;
    uint32_t params_bytes, threads, resident;
} functions[ZERO__CUDA_N_KERNELS] = {
#define FUNCTION(id, name, params, threads, resident, ...) \
    {#name, sizeof(struct params), threads, resident},
    ZERO__CUDA_KERNELS(FUNCTION)
#undef FUNCTION
};

#define FITS(id, name, params, ...) \
    _Static_assert(sizeof(struct params) <= ZERO__CUDA_PARAMS_MAX, "params are too large");
ZERO__CUDA_KERNELS(FITS)
#undef FITS

const char *zero__cuda_kernel_name(uint32_t kernel)
{
    return kernel < ZERO__CUDA_N_KERNELS ? functions[kernel].name : NULL;
}

static uint64_t pieces(uint64_t count, uint64_t piece)
{
    return count / piece + (count % piece != 0);
}

uint32_t zero__grid_most(uint32_t kernel, uint32_t multiprocessors, uint64_t blocks)
{
    uint64_t most =
        (uint64_t)(multiprocessors ? multiprocessors : 1) * functions[kernel].resident * WAVES;

    return blocks > most ? (uint32_t)most : blocks ? (uint32_t)blocks : 1;
}

void zero__grid_set(struct zero__cuda_launch *out, uint32_t kernel, uint32_t multiprocessors,
                    uint64_t blocks, const void *params)
{
    memset(out, 0, sizeof *out);
    out->kernel = kernel;
    out->grid[0] = zero__grid_most(kernel, multiprocessors, blocks);
    out->grid[1] = out->grid[2] = 1;
    out->block[0] = functions[kernel].threads;
    out->block[1] = out->block[2] = 1;
    out->params_bytes = functions[kernel].params_bytes;
    memcpy(out->params, params, out->params_bytes);
}

struct zero__cuda_span zero__span_of(uint64_t count, uint32_t width,
                                     const struct plan_array *array, uint32_t n)
{
    struct zero__cuda_span span = {.count = count};
    bool found = false;
    uint64_t head = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (!array[i].at)
            continue;
        /* Vectors of more than 16 bytes are several loads of 16. */
        uint64_t align = width * array[i].bytes < 16 ? width * array[i].bytes : 16;
        uint64_t beyond = (uintptr_t)array[i].at % align;
        uint64_t before = beyond ? (align - beyond) / array[i].bytes : 0;
        if (found && before != head)
            return span;
        found = true;
        head = before;
    }
    if (head < count) {
        span.head = head;
        span.groups = (count - head) / width;
    }
    return span;
}

uint64_t zero__span_blocks(const struct zero__cuda_span *span, uint32_t kernel, uint32_t batch)
{
    uint32_t threads = functions[kernel].threads;

    /* Behind the last vector there are few elements, unless there are no vectors at all. */
    return span->groups ? pieces(span->groups, (uint64_t)threads * batch)
                        : pieces(span->count, threads);
}

static uint32_t wider(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static int plan_fill(const struct zero__voice *voice, uint32_t multiprocessors,
                     const struct zero_fill_args *a, struct zero__cuda_launch *out, uint32_t max,
                     uint32_t *n)
{
    uint64_t bytes = zero_dtype_bytes(a->dtype), runs = 0, longest = 0, planned = 0;
    struct zero__cuda_fill p = {.dst = a->dst};

    for (uint32_t i = 0; i < a->n; i++)
        runs += a->count[i] != 0;
    if (pieces(runs, ZERO__CUDA_FILL_RUNS) > max)
        return zero__say(voice, -ENOSPC,
                         "fill: %llu runs take more than %u launches: hand them over in pieces",
                         (unsigned long long)runs, max);
    for (uint32_t i = 0; i < a->n; i++) {
        if (a->count[i] == 0)
            continue;
        p.run[p.n].first = a->first[i] * bytes;
        p.run[p.n].count = a->count[i] * bytes;
        longest = longest > p.run[p.n].count ? longest : p.run[p.n].count;
        runs--;
        if (++p.n < ZERO__CUDA_FILL_RUNS && runs)
            continue;
        zero__grid_set(&out[planned], ZERO__CUDA_FILL, multiprocessors,
                       pieces(longest, 256 * 16 * FILL_VECTORS), &p);
        out[planned++].grid[1] = (uint32_t)p.n;
        p.n = longest = 0;
    }
    *n = (uint32_t)planned;
    return 0;
}

static bool plan_accumulate(uint32_t multiprocessors, const struct zero_accumulate_args *a,
                            struct zero__cuda_launch *out)
{
    uint32_t bytes = zero_dtype_bytes(a->x_dtype);
    uint32_t kernel = bytes == 4 ? ZERO__CUDA_ACCUMULATE_32 : ZERO__CUDA_ACCUMULATE_16;
    struct plan_array arrays[] = {{a->acc, 4}, {a->x, bytes}};
    struct zero__cuda_accumulate p = {
        .acc = a->acc,
        .x = a->x,
        .span = zero__span_of(a->count, 4, arrays, 2),
        .x_dtype = a->x_dtype,
        .beta = a->beta,
    };

    zero__grid_set(out, kernel, multiprocessors,
                   zero__span_blocks(&p.span, kernel, ZERO__CUDA_BATCH), &p);
    return a->count != 0;
}

static bool plan_cast(uint32_t multiprocessors, const struct zero_cast_args *a,
                      struct zero__cuda_launch *out)
{
    uint32_t from = zero_dtype_bytes(a->x_dtype), to = zero_dtype_bytes(a->dst_dtype);
    uint32_t kernel = from == 4 ? (to == 4 ? ZERO__CUDA_CAST_32_32 : ZERO__CUDA_CAST_32_16)
                                : (to == 4 ? ZERO__CUDA_CAST_16_32 : ZERO__CUDA_CAST_16_16);
    struct plan_array arrays[] = {{a->dst, to}, {a->x, from}};
    struct zero__cuda_cast p = {
        .dst = a->dst,
        .x = a->x,
        .span = zero__span_of(a->count, 16 / wider(from, to), arrays, 2),
        .dst_dtype = a->dst_dtype,
        .x_dtype = a->x_dtype,
    };

    zero__grid_set(out, kernel, multiprocessors,
                   zero__span_blocks(&p.span, kernel, ZERO__CUDA_BATCH), &p);
    return a->count != 0;
}

static bool plan_sum(uint32_t multiprocessors, const struct zero_sum_args *a,
                     struct zero__cuda_launch *out)
{
    uint32_t from = zero_dtype_bytes(a->src_dtype), to = zero_dtype_bytes(a->dst_dtype);
    uint32_t kernel = from == 4 ? (to == 4 ? ZERO__CUDA_SUM_32_32 : ZERO__CUDA_SUM_32_16)
                                : (to == 4 ? ZERO__CUDA_SUM_16_32 : ZERO__CUDA_SUM_16_16);
    struct plan_array arrays[ZERO_SUM_SOURCES + 2] = {{a->dst, to}, {a->partial, 4}};
    struct zero__cuda_sum p = {
        .dst = a->dst,
        .partial = a->partial,
        .n = a->n,
        .src_dtype = a->src_dtype,
        .dst_dtype = a->dst_dtype,
        .accumulate = a->accumulate,
        .scale = a->scale,
    };

    for (uint32_t i = 0; i < a->n; i++) {
        p.src[i] = a->src[i];
        arrays[2 + i] = (struct plan_array){a->src[i], from};
    }
    p.span = zero__span_of(a->count, 16 / wider(from, to), arrays, 2 + a->n);
    zero__grid_set(out, kernel, multiprocessors, zero__span_blocks(&p.span, kernel, 1), &p);
    return a->count != 0;
}

static bool plan_sumsq(uint32_t multiprocessors, const struct zero_sumsq_args *a,
                       struct zero__cuda_launch *out)
{
    uint32_t bytes = zero_dtype_bytes(a->dtype);
    struct zero__cuda_sumsq p = {
        .partial = a->partial,
        .x = a->x,
        .count = a->count,
        .dtype = a->dtype,
        .aligned = (uintptr_t)a->x % 16 == 0,
    };

    zero__grid_set(out, bytes == 4 ? ZERO__CUDA_SUMSQ_32 : ZERO__CUDA_SUMSQ_16, multiprocessors,
                   pieces(a->count, ZERO__CUDA_SUMSQ_TILES * ZERO_SUMSQ_BLOCK), &p);
    out->shared_bytes = ZERO__CUDA_SUMSQ_SHARED(bytes);
    return a->count != 0;
}

static bool plan_total(uint32_t multiprocessors, const struct zero_total_args *a,
                       struct zero__cuda_launch *out)
{
    struct zero__cuda_total p = {.total = a->total, .x = a->x, .count = a->count};

    zero__grid_set(out, ZERO__CUDA_TOTAL, multiprocessors, 1, &p);
    out->shared_bytes = ZERO__CUDA_LANES_SHARED;
    return true; /* the sum of nothing is a result */
}

static bool plan_scalars(uint32_t multiprocessors, const struct zero_scalars_args *a,
                         struct zero__cuda_launch *out)
{
    struct zero__cuda_scalars p = {.args = *a};

    zero__grid_set(out, ZERO__CUDA_SCALARS, multiprocessors, 1, &p);
    return true;
}

int zero__cuda_launch_plan(const struct zero_host *host, uint32_t multiprocessors,
                           const struct zero_launch *l, struct zero__cuda_launch *out, uint32_t max,
                           uint32_t *n)
{
    struct zero__voice voice = {host, "cuda"};
    char why[ZERO__LAUNCH_WHY];
    int err = zero__launch_check(l, "cuda", why);
    struct zero__cuda_launch one;
    bool some;

    if (err)
        return zero__say(&voice, err, "%s", why);
    switch (l->kernel) {
    case ZERO_KERNEL_FILL:
        return plan_fill(&voice, multiprocessors, l->args, out, max, n);
    case ZERO_KERNEL_ACCUMULATE:
        some = plan_accumulate(multiprocessors, l->args, &one);
        break;
    case ZERO_KERNEL_SUMSQ:
        some = plan_sumsq(multiprocessors, l->args, &one);
        break;
    case ZERO_KERNEL_SCALARS:
        some = plan_scalars(multiprocessors, l->args, &one);
        break;
    case ZERO_KERNEL_CAST:
        some = plan_cast(multiprocessors, l->args, &one);
        break;
    case ZERO_KERNEL_SUM:
        some = plan_sum(multiprocessors, l->args, &one);
        break;
    case ZERO_KERNEL_TOTAL:
        some = plan_total(multiprocessors, l->args, &one);
        break;
    case ZERO_KERNEL_UPDATES:
        return zero__updates_plan(&voice, multiprocessors, l->args, out, max, n);
    default:
        return zero__updates_plan(&voice, multiprocessors,
                                  &(struct zero_updates_args){l->args, l->kernel, 1}, out, max, n);
    }
    if (some && max < 1)
        return zero__say(&voice, -ENOSPC, "a launch takes room for one: there is none");
    if (some)
        *out = one;
    *n = some;
    return 0;
}
