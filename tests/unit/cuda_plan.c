/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How launches are planned: what is refused, in the words of the host device; how grids are
 * bounded; which function takes which types; how many launches FILL takes.
 */
#include "cuda_case.h"

#include <errno.h>

#include "base/status.h"

static struct case_host host;
static struct zero__cuda_launch out[8];
static _Alignas(64) char room[64];

static int plan_on(uint32_t multiprocessors, uint32_t kernel, const void *args, uint64_t bytes,
                   uint32_t max, uint32_t *n)
{
    struct zero_launch l = {.kernel = kernel, .args = args, .args_bytes = bytes};

    host.text[0] = 0;
    return zero__cuda_launch_plan(&host.host, multiprocessors, &l, out, max, n);
}

/* Refused by both devices, for this reason. */
static void refused(uint32_t kernel, const void *args, uint64_t bytes, uint32_t flags,
                    const char *what, const char *words)
{
    struct zero_launch l = {.kernel = kernel, .flags = flags, .args = args, .args_bytes = bytes};
    uint32_t n = 77;
    int host_err = zero__kernel_check(&l), err;

    host.text[0] = 0;
    err = zero__cuda_launch_plan(&host.host, 4, &l, out, 8, &n);
    if (!ok(err == -EINVAL && host_err == -EINVAL && n == 77 && strstr(host.text, words) &&
                strcmp(host.text, zero__error_text()) == 0,
            "refused: %s", what))
        diag("%d \"%s\", on the host %d \"%s\"", err, host.text, host_err, zero__error_text());
}

static void refuse_arrays(void)
{
    struct zero_accumulate_args a = {
        .acc = (float *)room, .x = room, .count = 4, .x_dtype = ZERO_F32};
    struct zero_accumulate_args b = a;
    struct zero_cast_args c = {
        .dst = room, .x = room, .count = 4, .dst_dtype = ZERO_BF16, .x_dtype = ZERO_I64};
    struct zero_sumsq_args s = {.x = room, .count = 4, .dtype = ZERO_F64};
    struct zero_total_args t = {.x = (double *)room, .count = 4};

    refused(ZERO_KERNEL_ACCUMULATE, &a, sizeof a - 1, 0, "too few arguments",
            "accumulate: arguments of");
    refused(ZERO_KERNEL_ACCUMULATE, NULL, sizeof a, 0, "no arguments", "accumulate: arguments of");
    refused(ZERO_KERNEL_ACCUMULATE, &a, sizeof a, 1, "flags", "accumulate: flags 0x1");
    b.x_dtype = 77;
    refused(ZERO_KERNEL_ACCUMULATE, &b, sizeof b, 0, "a type that does not exist",
            "the type of x is");
    b = a;
    b.x = room + 2;
    refused(ZERO_KERNEL_ACCUMULATE, &b, sizeof b, 0, "half an element's alignment", "x is at 0x");
    b.x = NULL;
    refused(ZERO_KERNEL_ACCUMULATE, &b, sizeof b, 0, "NULL", "x is NULL");
    b = a;
    b.beta = 2;
    refused(ZERO_KERNEL_ACCUMULATE, &b, sizeof b, 0, "beta 2", "beta is 2");
    b = a;
    b.count = UINT64_MAX / 4;
    refused(ZERO_KERNEL_ACCUMULATE, &b, sizeof b, 0, "more than memory",
            "more than memory can hold");
    refused(ZERO_KERNEL_CAST, &c, sizeof c, 0, "a cast of integers",
            "cast: the type of x is int64");
    c.x_dtype = ZERO_F32;
    c.dst = room + 1;
    refused(ZERO_KERNEL_CAST, &c, sizeof c, 0, "an odd destination", "cast: dst is at");
    refused(ZERO_KERNEL_SUMSQ, &s, sizeof s, 0, "squares of fp64", "sumsq: the type of x is fp64");
    s.dtype = ZERO_F32;
    refused(ZERO_KERNEL_SUMSQ, &s, sizeof s, 0, "no place for squares", "sumsq: partial is NULL");
    refused(ZERO_KERNEL_TOTAL, &t, sizeof t, 0, "no place for a total", "total: total is NULL");
    t.total = (double *)room;
    t.x = NULL;
    refused(ZERO_KERNEL_TOTAL, &t, sizeof t, 0, "nothing to total", "total: x is NULL");
}

static void refuse_fills(void)
{
    uint64_t first[2] = {0, UINT64_MAX}, count[2] = {1, 2};
    struct zero_fill_args f = {
        .dst = room, .dtype = ZERO_F32, .n = 2, .first = first, .count = count};

    refused(ZERO_KERNEL_FILL, &f, sizeof f, 0, "a run that wraps", "run 1 ends beyond any memory");
    first[1] = UINT64_MAX / 4;
    refused(ZERO_KERNEL_FILL, &f, sizeof f, 0, "a run behind memory", "dst has");
    f.dtype = 0;
    refused(ZERO_KERNEL_FILL, &f, sizeof f, 0, "a run of no type", "element type 0 is unknown");
    f.dtype = ZERO_F32;
    f.first = NULL;
    refused(ZERO_KERNEL_FILL, &f, sizeof f, 0, "runs that begin nowhere", "fill: first is NULL");
}

static void refuse_scalars(void)
{
    struct zero_scalars_args s = {.scalars = (struct zero_scalars *)room, .inverse = 1};

    s.ranks = 1;
    refused(ZERO_KERNEL_SCALARS, &s, sizeof s, 0, "no sums", "sums is NULL");
    s.ranks = 0;
    s.inverse = 0;
    refused(ZERO_KERNEL_SCALARS, &s, sizeof s, 0, "inverse 0", "inverse 0");
    s.inverse = 1;
    s.clip = NAN;
    refused(ZERO_KERNEL_SCALARS, &s, sizeof s, 0, "a clip that is no number", "clip");
    s.clip = 0;
    s.scalars = NULL;
    refused(ZERO_KERNEL_SCALARS, &s, sizeof s, 0, "no scalars", "scalars is NULL");
}

/* Changes one thing of a good update. */
#define BAD(change, what, words)                                  \
    do {                                                          \
        struct zero_update_args b = good;                         \
        b.change;                                                 \
        refused(ZERO_KERNEL_ADAMW, &b, sizeof b, 0, what, words); \
    } while (0)

static void refuse_updates(void)
{
    const struct zero_update_args good = {
        .p = (float *)room,
        .m = room,
        .v = room,
        .grad = room,
        .out = room,
        .count = 4,
        .grad_dtype = ZERO_BF16,
        .out_dtype = ZERO_BF16,
        .scalars = (struct zero_scalars *)room,
        .hyper = {.momentum = 0.5f},
    };
    struct zero_update_args halves = good, sgd = good;
    uint32_t n;

    BAD(p = NULL, "no master", "adamw: p is NULL");
    BAD(m = NULL, "no momentum", "adamw: m is NULL");
    BAD(v = NULL, "no variance", "adamw: v is NULL");
    BAD(scalars = NULL, "no scalars", "scalars is NULL");
    BAD(grad = NULL, "no gradient", "adamw: grad is NULL");
    BAD(grad = room + 1, "an odd gradient", "adamw: grad is at");
    BAD(grad_dtype = ZERO_U8, "a gradient of bytes", "the type of grad is");
    BAD(out_dtype = ZERO_F32, "a copy in fp32", "the type of out is fp32");
    BAD(state_dtype = ZERO_F16, "moments in fp16", "the type of m and v is fp16");
    halves.p = NULL;
    halves.low = (uint16_t *)(room + 1);
    refused(ZERO_KERNEL_ADAMW, &halves, sizeof halves, 0, "odd lower halves", "adamw: low is at");
    halves.low = (uint16_t *)room;
    halves.out_dtype = ZERO_F16;
    refused(ZERO_KERNEL_ADAMW, &halves, sizeof halves, 0, "halves of fp16",
            "out must be there and bf16");
    halves.out = NULL;
    refused(ZERO_KERNEL_ADAMW, &halves, sizeof halves, 0, "halves of nothing",
            "out must be there and bf16");
    sgd.m = NULL;
    refused(ZERO_KERNEL_SGD, &sgd, sizeof sgd, 0, "SGD with momentum without it", "sgd: m is NULL");
    sgd.hyper.momentum = 0;
    is_int(plan_on(1, ZERO_KERNEL_SGD, &sgd, sizeof sgd, 1, &n), 0, "without momentum it is none");
    is_int(out[0].kernel, ZERO__CUDA_SGD_G16_P32, "and a function of its own");
}

static void unknown(void)
{
    uint32_t n = 77;

    is_int(plan_on(1, 99, room, 8, 8, &n), -ENOTSUP, "an unknown kernel is not supported");
    has_str(host.text, "kernel 99", "and named");
    is_int(n, 77, "nothing is set");
    ok(zero__cuda_kernel_name(ZERO__CUDA_N_KERNELS) == NULL, "functions end");
    is_str(zero__cuda_kernel_name(ZERO__CUDA_ADAMW_G16_P32_S32), "zero_adamw_g16_p32_s32",
           "and have names");
}

static void grids(void)
{
    static const uint64_t counts[] = {1, 255, 4096, 1000000, UINT64_C(1) << 33};
    struct zero_accumulate_args a = {.acc = (float *)room, .x = room, .x_dtype = ZERO_F32};
    bool good = true, none = true;
    uint32_t n = 0, last = 0;

    for (uint32_t i = 0; i < 5; i++) {
        a.count = counts[i];
        good &= plan_on(132, ZERO_KERNEL_ACCUMULATE, &a, sizeof a, 1, &n) == 0 && n == 1;
        good &= out[0].grid[0] >= 1 && out[0].grid[0] >= last && out[0].grid[0] <= 132 * 4 * 4;
        good &= out[0].grid[1] == 1 && out[0].grid[2] == 1 && out[0].block[0] == 256;
        good &= out[0].params_bytes == sizeof(struct zero__cuda_accumulate);
        last = out[0].grid[0];
    }
    ok(good && last == 132 * 4 * 4, "grids grow with the work, up to some waves of blocks");
    is_int(plan_on(0, ZERO_KERNEL_ACCUMULATE, &a, sizeof a, 1, &n), 0,
           "a device of unknown size gets a small one");
    is_int(plan_on(1, ZERO_KERNEL_ACCUMULATE, &a, sizeof a, 0, &n), -ENOSPC,
           "a launch needs a place");
    a.count = 0;
    none &= plan_on(1, ZERO_KERNEL_ACCUMULATE, &a, sizeof a, 0, &n) == 0 && n == 0;
    none &= plan_on(1, ZERO_KERNEL_CAST,
                    &(struct zero_cast_args){.dst_dtype = ZERO_F32, .x_dtype = ZERO_BF16},
                    sizeof(struct zero_cast_args), 1, &n) == 0 &&
            n == 0;
    none &= plan_on(1, ZERO_KERNEL_SUMSQ, &(struct zero_sumsq_args){.dtype = ZERO_F16},
                    sizeof(struct zero_sumsq_args), 1, &n) == 0 &&
            n == 0;
    none &= plan_on(1, ZERO_KERNEL_ADAMW,
                    &(struct zero_update_args){.grad_dtype = ZERO_F16,
                                               .scalars = (struct zero_scalars *)room},
                    sizeof(struct zero_update_args), 1, &n) == 0 &&
            n == 0;
    ok(none, "no elements are no launch");
    is_int(plan_on(1, ZERO_KERNEL_TOTAL, &(struct zero_total_args){.total = (double *)room},
                   sizeof(struct zero_total_args), 1, &n),
           0, "the total of nothing");
    is_int(n, 1, "is a launch, which writes 0");
}

static void spans(void)
{
    struct zero_cast_args a = {
        .dst = room, .x = room + 4, .count = 20, .dst_dtype = ZERO_BF16, .x_dtype = ZERO_F32};
    struct zero__cuda_cast p;
    uint32_t n;

    plan_on(1, ZERO_KERNEL_CAST, &a, sizeof a, 1, &n);
    memcpy(&p, out[0].params, sizeof p);
    ok(p.span.groups == 0 && p.span.count == 20,
       "arrays that are never aligned at once: no vectors");
    a.dst = room + 2;
    plan_on(1, ZERO_KERNEL_CAST, &a, sizeof a, 1, &n);
    memcpy(&p, out[0].params, sizeof p);
    ok(p.span.head == 3 && p.span.groups == 4, "else from the first element on where they are");
    a.count = 2;
    plan_on(1, ZERO_KERNEL_CAST, &a, sizeof a, 1, &n);
    memcpy(&p, out[0].params, sizeof p);
    ok(p.span.groups == 0, "if there is one");
}

static void fills(void)
{
    enum { RUNS = 4 * ZERO__CUDA_FILL_RUNS };
    static uint64_t first[RUNS], count[RUNS];
    struct zero_fill_args a = {
        .dst = room, .dtype = ZERO_F32, .n = RUNS, .first = first, .count = count};
    struct zero__cuda_fill p;
    uint32_t n = 77;

    for (uint32_t i = 0; i < RUNS; i++) {
        first[i] = i * 10;
        count[i] = i % 2;
    }
    is_int(plan_on(1, ZERO_KERNEL_FILL, &a, sizeof a, 1, &n), -ENOSPC,
           "more runs than launches are refused");
    is_int(n, 77, "as a whole");
    is_int(plan_on(1, ZERO_KERNEL_FILL, &a, sizeof a, 2, &n), 0, "empty runs need no place");
    is_int(n, 2, "the others are packed");
    is_int(out[1].grid[1], ZERO__CUDA_FILL_RUNS, "a row of the grid each");
    memcpy(&p, out[1].params, sizeof p);
    ok(p.run[0].first == (RUNS / 2 + 1) * 40 && p.run[0].count == 4, "in bytes");
    count[1] = UINT64_C(1) << 32;
    is_int(plan_on(10, ZERO_KERNEL_FILL, &a, sizeof a, 2, &n), 0, "a long run among short ones");
    is_int(out[0].grid[0], 10 * 8 * 4, "widens its grid, up to the bound");
    is_int(out[1].grid[0], 1, "and no other");
    a.n = 0;
    is_int(plan_on(1, ZERO_KERNEL_FILL, &a, sizeof a, 0, &n), 0, "no runs");
    is_int(n, 0, "are no launch");
}

static void sums(void)
{
    const void *src[17] = {room, room};
    const struct zero_sum_args good = {.dst = room,
                                       .src = src,
                                       .count = 4,
                                       .n = 2,
                                       .src_dtype = ZERO_BF16,
                                       .dst_dtype = ZERO_BF16,
                                       .scale = 1};
    struct zero_sum_args a = good;
    uint32_t n = 77;

    is_int(plan_on(4, ZERO_KERNEL_SUM, &a, sizeof a, 1, &n), 0, "a sum is planned");
    ok(n == 1 && out[0].kernel == ZERO__CUDA_SUM_16_16, "as one launch");
    a.n = 0;
    refused(ZERO_KERNEL_SUM, &a, sizeof a, 0, "a sum of nothing", "0 sources");
    a.n = 17;
    refused(ZERO_KERNEL_SUM, &a, sizeof a, 0, "of too many", "17 sources");
    has_str(host.text, "through partial", "which says what helps");
    a.n = 3;
    refused(ZERO_KERNEL_SUM, &a, sizeof a, 0, "a source that is NULL", "a source is NULL");
    a = good;
    a.src = NULL;
    refused(ZERO_KERNEL_SUM, &a, sizeof a, 0, "no sources", "sum: src is NULL");
    a = good;
    a.accumulate = 1;
    refused(ZERO_KERNEL_SUM, &a, sizeof a, 0, "accumulating in bf16",
            "accumulate 1 with dst of type bf16");
    a = good;
    a.src_dtype = ZERO_I32;
    refused(ZERO_KERNEL_SUM, &a, sizeof a, 0, "a sum of integers", "the type of a source is");
    a = good;
    a.partial = (float *)(room + 2);
    refused(ZERO_KERNEL_SUM, &a, sizeof a, 0, "an askew partial sum", "sum: partial is at");
    a = good;
    a.count = 0;
    is_int(plan_on(4, ZERO_KERNEL_SUM, &a, sizeof a, 1, &n), 0, "no elements");
    is_int(n, 0, "are no launch");
}

/* Runs of a launch: what they may have each their own, and what parts them. */
static void updates(void)
{
    struct zero_update_args u[ZERO_UPDATES_MOST];
    struct zero_updates_args a = {u, ZERO_KERNEL_ADAMW, ZERO_UPDATES_MOST};
    struct zero__cuda_update p;
    uint32_t n = 77;

    for (uint32_t i = 0; i < ZERO_UPDATES_MOST; i++)
        u[i] = (struct zero_update_args){.p = (float *)room,
                                         .m = room,
                                         .v = room,
                                         .grad = room,
                                         .grad_dtype = ZERO_F32,
                                         .count = i == 3 ? 0 : 2048 * (i + 1),
                                         .scalars = (struct zero_scalars *)room,
                                         .hyper = {.lr = (float)i, .weight_decay = (float)i}};
    is_int(plan_on(4, ZERO_KERNEL_UPDATES, &a, sizeof a, 1, &n), 0, "updates are planned");
    is_int(n, 1, "as one launch, though rates and decays differ");
    memcpy(&p, out[0].params, sizeof p);
    ok(p.n == ZERO_UPDATES_MOST - 1 && p.run[3].lr == 4, "empty ones have no place");
    ok(p.run[2].first_block == 3 && p.run[2].blocks == 3 && p.run[3].first_block == 6,
       "each has blocks of its own");
    is_int(out[0].grid[0], p.run[p.n - 1].first_block + p.run[p.n - 1].blocks, "of one grid");
    u[5].grad_dtype = ZERO_BF16;
    u[9].hyper.beta2 = 0.5f;
    is_int(plan_on(4, ZERO_KERNEL_UPDATES, &a, sizeof a, 8, &n), 0, "others");
    is_int(n, 5, "are launches of their own");
    is_int(out[1].kernel, ZERO__CUDA_ADAMW_G16_P32_S32, "with their function");
    n = 77;
    is_int(plan_on(4, ZERO_KERNEL_UPDATES, &a, sizeof a, 4, &n), -ENOSPC,
           "more launches than there is room for");
    is_int(n, 77, "are none");
    for (uint32_t i = 0; i < ZERO_UPDATES_MOST; i++)
        u[i].count = 0;
    is_int(plan_on(4, ZERO_KERNEL_UPDATES, &a, sizeof a, 0, &n), 0, "updates of nothing");
    is_int(n, 0, "are no launch");
}

static void refuse_sets_of_updates(void)
{
    struct zero_update_args u[2] = {
        {.scalars = (struct zero_scalars *)room, .grad_dtype = ZERO_F32},
        {.p = (float *)room, .grad = room, .grad_dtype = ZERO_F32, .count = 4}};
    struct zero_updates_args a = {u, ZERO_KERNEL_SGD, 2};
    const struct zero_launch l = {ZERO_KERNEL_UPDATES, 0, &a, sizeof a};

    refused(ZERO_KERNEL_UPDATES, &a, sizeof a, 0, "one of several", "updates: scalars is NULL");
    a.n = 0;
    refused(ZERO_KERNEL_UPDATES, &a, sizeof a, 0, "none", "updates: 0 of them");
    a.n = ZERO_UPDATES_MOST + 1;
    refused(ZERO_KERNEL_UPDATES, &a, sizeof a, 0, "too many", "one launch takes 1 to 16");
    a.n = 2;
    a.kernel = ZERO_KERNEL_CAST;
    refused(ZERO_KERNEL_UPDATES, &a, sizeof a, 0, "updates that are casts", "updates: kernel 6");
    a.kernel = ZERO_KERNEL_ADAMW;
    a.update = NULL;
    refused(ZERO_KERNEL_UPDATES, &a, sizeof a, 0, "no updates", "updates: update is NULL");
    a.update = u;
    a.n = 1;
    is_int(zero__kernel_check(&l), -ENOTSUP, "the host takes them one by one");
}

int main(void)
{
    case_host_init(&host);
    updates();
    refuse_sets_of_updates();
    refuse_arrays();
    refuse_fills();
    refuse_scalars();
    refuse_updates();
    unknown();
    grids();
    spans();
    fills();
    sums();
    done();
}
