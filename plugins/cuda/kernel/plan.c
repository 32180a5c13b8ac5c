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

#include "../../common/voice.h"
#include "launch.h"
#include "launch/check.h"

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

/* Of those that would cover the work once. */
static uint32_t most_blocks(uint32_t kernel, uint32_t multiprocessors, uint64_t blocks)
{
    uint64_t most =
        (uint64_t)(multiprocessors ? multiprocessors : 1) * functions[kernel].resident * WAVES;

    return blocks > most ? (uint32_t)most : blocks ? (uint32_t)blocks : 1;
}

/* `blocks` blocks would cover the work once. */
static void set_launch(struct zero__cuda_launch *out, uint32_t kernel, uint32_t multiprocessors,
                       uint64_t blocks, const void *params)
{
    memset(out, 0, sizeof *out);
    out->kernel = kernel;
    out->grid[0] = most_blocks(kernel, multiprocessors, blocks);
    out->grid[1] = out->grid[2] = 1;
    out->block[0] = functions[kernel].threads;
    out->block[1] = out->block[2] = 1;
    out->params_bytes = functions[kernel].params_bytes;
    memcpy(out->params, params, out->params_bytes);
}

/* An array of a launch: NULL if unused. */
struct array {
    const void *at;
    uint32_t bytes; /* of an element */
};

/* Vectors of `width` elements, from the first element on at which all arrays are aligned to one. */
static struct zero__cuda_span span_of(uint64_t count, uint32_t width, const struct array *array,
                                      uint32_t n)
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

/* Blocks that cover a span once, with `batch` vectors a thread. */
static uint64_t span_blocks(const struct zero__cuda_span *span, uint32_t kernel, uint32_t batch)
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
        set_launch(&out[planned], ZERO__CUDA_FILL, multiprocessors,
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
    struct array arrays[] = {{a->acc, 4}, {a->x, bytes}};
    struct zero__cuda_accumulate p = {
        .acc = a->acc,
        .x = a->x,
        .span = span_of(a->count, 4, arrays, 2),
        .x_dtype = a->x_dtype,
        .beta = a->beta,
    };

    set_launch(out, kernel, multiprocessors, span_blocks(&p.span, kernel, ZERO__CUDA_BATCH), &p);
    return a->count != 0;
}

static bool plan_cast(uint32_t multiprocessors, const struct zero_cast_args *a,
                      struct zero__cuda_launch *out)
{
    uint32_t from = zero_dtype_bytes(a->x_dtype), to = zero_dtype_bytes(a->dst_dtype);
    uint32_t kernel = from == 4 ? (to == 4 ? ZERO__CUDA_CAST_32_32 : ZERO__CUDA_CAST_32_16)
                                : (to == 4 ? ZERO__CUDA_CAST_16_32 : ZERO__CUDA_CAST_16_16);
    struct array arrays[] = {{a->dst, to}, {a->x, from}};
    struct zero__cuda_cast p = {
        .dst = a->dst,
        .x = a->x,
        .span = span_of(a->count, 16 / wider(from, to), arrays, 2),
        .dst_dtype = a->dst_dtype,
        .x_dtype = a->x_dtype,
    };

    set_launch(out, kernel, multiprocessors, span_blocks(&p.span, kernel, ZERO__CUDA_BATCH), &p);
    return a->count != 0;
}

static bool plan_sum(uint32_t multiprocessors, const struct zero_sum_args *a,
                     struct zero__cuda_launch *out)
{
    uint32_t from = zero_dtype_bytes(a->src_dtype), to = zero_dtype_bytes(a->dst_dtype);
    uint32_t kernel = from == 4 ? (to == 4 ? ZERO__CUDA_SUM_32_32 : ZERO__CUDA_SUM_32_16)
                                : (to == 4 ? ZERO__CUDA_SUM_16_32 : ZERO__CUDA_SUM_16_16);
    struct array arrays[ZERO_SUM_SOURCES + 2] = {{a->dst, to}, {a->partial, 4}};
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
        arrays[2 + i] = (struct array){a->src[i], from};
    }
    p.span = span_of(a->count, 16 / wider(from, to), arrays, 2 + a->n);
    set_launch(out, kernel, multiprocessors, span_blocks(&p.span, kernel, 1), &p);
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

    set_launch(out, bytes == 4 ? ZERO__CUDA_SUMSQ_32 : ZERO__CUDA_SUMSQ_16, multiprocessors,
               pieces(a->count, ZERO__CUDA_SUMSQ_TILES * ZERO_SUMSQ_BLOCK), &p);
    out->shared_bytes = ZERO__CUDA_SUMSQ_SHARED(bytes);
    return a->count != 0;
}

static bool plan_total(uint32_t multiprocessors, const struct zero_total_args *a,
                       struct zero__cuda_launch *out)
{
    struct zero__cuda_total p = {.total = a->total, .x = a->x, .count = a->count};

    set_launch(out, ZERO__CUDA_TOTAL, multiprocessors, 1, &p);
    out->shared_bytes = ZERO__CUDA_LANES_SHARED;
    return true; /* the sum of nothing is a result */
}

static bool plan_scalars(uint32_t multiprocessors, const struct zero_scalars_args *a,
                         struct zero__cuda_launch *out)
{
    struct zero__cuda_scalars p = {.args = *a};

    set_launch(out, ZERO__CUDA_SCALARS, multiprocessors, 1, &p);
    return true;
}

/* The function for the widths of gradient, master and moments (0: none), as table.h lists them. */
static uint32_t update_function(bool adam, uint32_t grad, uint32_t master, uint32_t moments)
{
    uint32_t i = (grad == 2) * 2u + (master == 2);

    if (adam)
        return ZERO__CUDA_ADAMW_G32_P32_S32 + i * 2 + (moments == 2);
    if (moments == 0)
        return ZERO__CUDA_SGD_G32_P32 + i;
    return ZERO__CUDA_SGD_G32_P32_S32 + i * 2 + (moments == 2);
}

/* What of an update all of a launch have. */
static struct zero__cuda_update shared_of(const struct zero_update_args *a)
{
    const struct zero_hyper *h = &a->hyper;

    return (struct zero__cuda_update){
        .scalars = a->scalars,
        .grad_dtype = a->grad_dtype,
        .out_dtype = a->out_dtype,
        .coupled = (h->flags & ZERO_HYPER_COUPLED) != 0,
        .nesterov = (h->flags & ZERO_HYPER_NESTEROV) != 0,
        .beta1 = h->beta1,
        .beta2 = h->beta2,
        .eps = h->eps,
        .momentum = h->momentum,
        .rest1 = (float)(1 - (double)h->beta1),
        .rest2 = (float)(1 - (double)h->beta2),
        .undamped = (float)(1 - (double)h->dampening),
    };
}

/* The function for an update, and the bytes of a moment (0: none). */
static uint32_t function_of(const struct zero_update_args *a, bool adam, uint32_t *moments)
{
    const bool with_m = adam || a->hyper.momentum != 0;

    *moments = !with_m ? 0 : a->state_dtype == ZERO_BF16 ? 2 : 4;
    return update_function(adam, zero_dtype_bytes(a->grad_dtype), a->p ? 4 : 2, *moments);
}

static struct zero__cuda_run run_of(const struct zero_update_args *a, bool adam, uint32_t moments)
{
    const struct zero_hyper *h = &a->hyper;
    struct zero__cuda_run r = {
        .p = a->p,
        .m = moments ? a->m : NULL,
        .v = adam ? a->v : NULL,
        .grad = a->grad,
        .out = a->out,
        .low = a->p ? NULL : a->low,
        .first = a->first,
        .lr = h->lr,
        .weight_decay = h->weight_decay,
        .decay = (float)(1 - (double)h->lr * (double)h->weight_decay),
    };
    struct array arrays[] = {{r.p, 4},       {r.m, moments},
                             {r.v, moments}, {r.grad, zero_dtype_bytes(a->grad_dtype)},
                             {r.out, 2},     {r.low, 2}};

    r.span = span_of(a->count, 4, arrays, 6);
    return r;
}

/* A launch of updates that share all that they must. */
struct pack {
    struct zero__cuda_update all;
    uint32_t function, blocks;
};

static void pack_begin(struct pack *p, const struct zero_update_args *a, uint32_t function)
{
    p->all = shared_of(a);
    p->function = function;
    p->blocks = 0;
}

static bool pack_takes(const struct pack *p, const struct zero_update_args *a, uint32_t function)
{
    struct zero__cuda_update shared = shared_of(a);

    shared.n = p->all.n;
    return p->function == function &&
           memcmp(&shared, &p->all, offsetof(struct zero__cuda_update, run)) == 0;
}

/* With as many blocks of its own as it would have alone. */
static void pack_add(struct pack *p, uint32_t multiprocessors, struct zero__cuda_run run)
{
    run.first_block = p->blocks;
    run.blocks = most_blocks(p->function, multiprocessors,
                             span_blocks(&run.span, p->function, ZERO__CUDA_UPDATE_BATCH));
    p->blocks += run.blocks;
    p->all.run[p->all.n++] = run;
}

static void pack_end(const struct pack *p, struct zero__cuda_launch *out)
{
    set_launch(out, p->function, 1, 1, &p->all);
    out->grid[0] = p->blocks;
    out->shared_bytes = ZERO__CUDA_UPDATE_SHARED;
}

static int plan_updates(const struct zero__voice *voice, uint32_t multiprocessors,
                        const struct zero_updates_args *a, struct zero__cuda_launch *out,
                        uint32_t max, uint32_t *n)
{
    const bool adam = a->kernel == ZERO_KERNEL_ADAMW;
    uint32_t planned = 0;
    struct pack p;

    for (uint32_t i = 0; i < a->n; i++) {
        const struct zero_update_args *u = &a->update[i];
        uint32_t moments, function = function_of(u, adam, &moments);
        if (u->count == 0)
            continue;
        if (planned == 0 || !pack_takes(&p, u, function)) {
            if (planned == max)
                return zero__say(voice, -ENOSPC,
                                 "there is room for %u launches: %u updates may "
                                 "take one each",
                                 max, a->n);
            pack_begin(&p, u, function);
            planned++;
        }
        pack_add(&p, multiprocessors, run_of(u, adam, moments));
        pack_end(&p, &out[planned - 1]);
    }
    *n = planned;
    return 0;
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
        return plan_updates(&voice, multiprocessors, l->args, out, max, n);
    default:
        return plan_updates(&voice, multiprocessors,
                            &(struct zero_updates_args){l->args, l->kernel, 1}, out, max, n);
    }
    if (some && max < 1)
        return zero__say(&voice, -ENOSPC, "a launch takes room for one: there is none");
    if (some)
        *out = one;
    *n = some;
    return 0;
}
