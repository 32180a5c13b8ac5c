/* SPDX-License-Identifier: Apache-2.0 */
/* What launches of each device function are tried: the sizes around which anything changes, all
 * types and variants, memory aligned to vectors or not. */
#include "cuda_case.h"

static uint64_t below(uint64_t *seed, uint64_t n)
{
    return random_next(seed) % n;
}

/* Around vectors, warps, blocks, tiles and one round of the smallest grid. */
static uint64_t some_size(uint64_t *seed)
{
    static const uint64_t edges[] = {
        0,    1,    2,    3,    4,    5,     7,     8,     9,     15,    16,    17,     31,
        32,   33,   64,   255,  256,  257,   1023,  1024,  1025,  2047,  2048,  2049,   3072,
        4095, 4096, 4097, 8191, 8192, 12288, 12289, 16384, 32768, 32769, 65540, 131080,
    };

    switch (below(seed, 8)) {
    case 0:
        return below(seed, 40000);
    case 1:
        return 8 * below(seed, 1000); /* ends where a vector does */
    case 2:
        return below(seed, 70);
    default:
        return edges[below(seed, sizeof edges / sizeof *edges)];
    }
}

static uint32_t half(uint64_t *seed)
{
    return below(seed, 2) ? ZERO_BF16 : ZERO_F16;
}

static uint32_t of_width(uint32_t width, uint64_t *seed)
{
    return width == 4 ? (uint32_t)ZERO_F32 : half(seed);
}

static struct case_field *add_field(struct cuda_case *c, void *slot, uint64_t count, uint32_t dtype,
                                    enum case_kind kind)
{
    struct case_field *f = &c->field[c->n_fields++];

    *f = (struct case_field){
        .slot = slot,
        .count = count,
        .width = kind == CASE_SCALARS ? sizeof(struct zero_scalars) : zero_dtype_bytes(dtype),
        .dtype = dtype,
        .kind = kind,
    };
    return f;
}

static void draw_fill(struct cuda_case *c, uint64_t *seed)
{
    static const uint32_t types[] = {ZERO_F32, ZERO_BF16, ZERO_U8, ZERO_F64};
    struct zero_fill_args *a = &c->args.fill;
    uint64_t at = 0;

    c->kernel = ZERO_KERNEL_FILL;
    c->args_bytes = sizeof *a;
    *a = (struct zero_fill_args){.dtype = types[below(seed, 4)],
                                 .n = (uint32_t)below(seed, below(seed, 2) ? 4 : CASE_RUNS),
                                 .first = c->first,
                                 .count = c->count};
    for (uint32_t i = 0; i < a->n; i++) {
        c->first[i] = at + below(seed, 50);
        c->count[i] = a->n < 4 ? some_size(seed) % 17000 : below(seed, 70);
        at = c->first[i] + c->count[i];
    }
    /* Sometimes the last run is the end of the memory. */
    add_field(c, &a->dst, at + (below(seed, 2) ? 0 : below(seed, 50)), a->dtype, CASE_EXACT);
}

static void draw_accumulate(struct cuda_case *c, uint32_t width, uint64_t *seed)
{
    struct zero_accumulate_args *a = &c->args.accumulate;

    c->kernel = ZERO_KERNEL_ACCUMULATE;
    c->args_bytes = sizeof *a;
    *a = (struct zero_accumulate_args){.count = some_size(seed),
                                       .x_dtype = of_width(width, seed),
                                       .beta = (uint32_t)below(seed, 2)};
    add_field(c, &a->acc, a->count, ZERO_F32, CASE_NUMBERS);
    add_field(c, &a->x, a->count, a->x_dtype, CASE_EXACT);
}

static void draw_cast(struct cuda_case *c, uint32_t from, uint32_t to, uint64_t *seed)
{
    struct zero_cast_args *a = &c->args.cast;

    c->kernel = ZERO_KERNEL_CAST;
    c->args_bytes = sizeof *a;
    *a = (struct zero_cast_args){
        .count = some_size(seed), .dst_dtype = of_width(to, seed), .x_dtype = of_width(from, seed)};
    struct case_field *f = add_field(c, &a->x, a->count, a->x_dtype, CASE_EXACT);
    if (from == to && below(seed, 3) == 0)
        f->alias = &a->dst;
    else
        add_field(c, &a->dst, a->count, a->dst_dtype, CASE_EXACT);
}

static void draw_sum(struct cuda_case *c, uint32_t from, uint32_t to, uint64_t *seed)
{
    struct zero_sum_args *a = &c->args.sum;

    c->kernel = ZERO_KERNEL_SUM;
    c->args_bytes = sizeof *a;
    *a = (struct zero_sum_args){
        .src = (const void *const *)c->src,
        .count = some_size(seed) % 17000,
        .n = 1 + (uint32_t)below(seed, ZERO_SUM_SOURCES),
        .src_dtype = of_width(from, seed),
        .dst_dtype = of_width(to, seed),
        .accumulate = to == 4 && below(seed, 3) == 0,
        .scale = below(seed, 2) ? 1 : 1.0f / (float)(1 + below(seed, 9)),
    };
    struct case_field *dst = add_field(c, &a->dst, a->count, a->dst_dtype, CASE_EXACT);
    if (below(seed, 3) == 0) {
        if (to == 4 && !a->accumulate && below(seed, 2))
            dst->alias = (void **)&a->partial;
        else
            add_field(c, &a->partial, a->count, ZERO_F32, CASE_EXACT);
    }
    uint32_t in_place =
        !dst->alias && !a->accumulate && a->src_dtype == a->dst_dtype && below(seed, 3) == 0
            ? (uint32_t)below(seed, a->n)
            : UINT32_MAX;
    for (uint32_t i = 0; i < a->n; i++)
        if (i == in_place)
            dst->alias = &c->src[i];
        else
            add_field(c, &c->src[i], a->count, a->src_dtype, CASE_EXACT);
}

static void draw_sumsq(struct cuda_case *c, uint32_t width, uint64_t *seed)
{
    struct zero_sumsq_args *a = &c->args.sumsq;

    c->kernel = ZERO_KERNEL_SUMSQ;
    c->args_bytes = sizeof *a;
    *a = (struct zero_sumsq_args){.count = some_size(seed), .dtype = of_width(width, seed)};
    if (below(seed, 4) == 0) { /* every block comes round to shared memory that it has used */
        c->multiprocessors = 1;
        a->count = 131072 + 8 * below(seed, 3);
    }
    add_field(c, &a->x, a->count, a->dtype, CASE_EXACT);
    add_field(c, &a->partial, (a->count + ZERO_SUMSQ_BLOCK - 1) / ZERO_SUMSQ_BLOCK, ZERO_F64,
              CASE_NUMBERS);
}

static void draw_total(struct cuda_case *c, uint64_t *seed)
{
    struct zero_total_args *a = &c->args.total;

    c->kernel = ZERO_KERNEL_TOTAL;
    c->args_bytes = sizeof *a;
    *a = (struct zero_total_args){.count = some_size(seed) % 5000};
    add_field(c, &a->x, a->count, ZERO_F64, CASE_EXACT);
    add_field(c, &a->total, 1, ZERO_F64, CASE_NUMBERS);
}

static void draw_scalars(struct cuda_case *c, uint64_t *seed)
{
    struct zero_scalars_args *a = &c->args.scalars;
    bool dynamic = below(seed, 2);

    c->kernel = ZERO_KERNEL_SCALARS;
    c->args_bytes = sizeof *a;
    *a = (struct zero_scalars_args){
        .ranks = (uint32_t)(below(seed, 4) ? below(seed, 9) : below(seed, 2100)),
        .window = 1 + (uint32_t)below(seed, 4),
        .inverse = 1.0f / (float)(1 + below(seed, 4)),
        .clip = below(seed, 2) ? 0 : 0.25f * (float)(1 + below(seed, 30)),
        .growth = dynamic ? 2 : 0,
        .backoff = 0.5f,
        .min_scale = 1,
        .max_scale = 1024,
    };
    add_field(c, &a->scalars, 1, ZERO_U8, CASE_SCALARS);
    add_field(c, &a->sums, a->ranks, ZERO_F64, CASE_EXACT);
}

/* Some of nothing, some of a few elements, and what is left. */
static void draw_pieces(struct cuda_case *c, uint64_t count, uint64_t *seed)
{
    c->n_pieces = 1 + (uint32_t)below(seed, ZERO_UPDATES_MOST);
    for (uint32_t i = 0; i + 1 < c->n_pieces; i++) {
        uint64_t n = below(seed, 3) ? below(seed, 40) : below(seed, count + 1);
        c->piece[i] = n < count ? n : count;
        count -= c->piece[i];
    }
    c->piece[c->n_pieces - 1] = count;
}

static void draw_update(struct cuda_case *c, bool adam, uint32_t grad, uint32_t master,
                        uint32_t moments, uint64_t *seed)
{
    struct zero_update_args *a = &c->args.update;
    bool with_out = master == 2 || below(seed, 3);
    uint32_t states = moments == 2 ? ZERO_BF16 : ZERO_F32;

    c->kernel = adam ? ZERO_KERNEL_ADAMW : ZERO_KERNEL_SGD;
    c->args_bytes = sizeof *a;
    *a = (struct zero_update_args){
        .count = some_size(seed),
        .grad_dtype = of_width(grad, seed),
        .out_dtype = master == 2 ? (uint32_t)ZERO_BF16 : half(seed),
        .first = below(seed, 2) ? 0 : random_next(seed) >> 20,
        .state_dtype = moments == 0 || (moments == 4 && below(seed, 2)) ? 0 : states,
        .hyper = {.lr = 3e-3f,
                  .weight_decay = below(seed, 4) ? 0.1f : 0,
                  .beta1 = 0.9f,
                  .beta2 = below(seed, 2) ? 0.95f : 0.999f,
                  .eps = 1e-8f,
                  .momentum = moments ? 0.9f : 0,
                  .dampening = below(seed, 2) ? 0 : 0.25f,
                  .flags = (uint32_t)below(seed, 4)},
    };
    if (below(seed, 2))
        draw_pieces(c, a->count, seed);
    add_field(c, &a->scalars, 1, ZERO_U8, CASE_SCALARS);
    add_field(c, &a->grad, a->count, a->grad_dtype, CASE_EXACT);
    if (with_out)
        add_field(c, &a->out, a->count, a->out_dtype, CASE_NUMBERS);
    if (master == 2)
        add_field(c, &a->low, a->count, ZERO_BF16, CASE_LOW);
    else
        add_field(c, &a->p, a->count, ZERO_F32, CASE_NUMBERS);
    if (moments)
        add_field(c, &a->m, a->count, states, CASE_NUMBERS);
    if (adam)
        add_field(c, &a->v, a->count, states, CASE_NUMBERS);
}

void case_draw(struct cuda_case *c, uint32_t function, uint64_t *seed)
{
    uint32_t i;

    memset(c, 0, sizeof *c);
    c->function = function;
    c->multiprocessors = 1 + (uint32_t)below(seed, 3);
    if (function == ZERO__CUDA_FILL) {
        draw_fill(c, seed);
    } else if (function <= ZERO__CUDA_ACCUMULATE_16) {
        draw_accumulate(c, function == ZERO__CUDA_ACCUMULATE_32 ? 4 : 2, seed);
    } else if (function <= ZERO__CUDA_CAST_16_16) {
        i = function - ZERO__CUDA_CAST_32_32;
        draw_cast(c, i < 2 ? 4 : 2, i % 2 ? 2 : 4, seed);
    } else if (function <= ZERO__CUDA_SUM_16_16) {
        i = function - ZERO__CUDA_SUM_32_32;
        draw_sum(c, i < 2 ? 4 : 2, i % 2 ? 2 : 4, seed);
    } else if (function <= ZERO__CUDA_SUMSQ_16) {
        draw_sumsq(c, function == ZERO__CUDA_SUMSQ_32 ? 4 : 2, seed);
    } else if (function == ZERO__CUDA_TOTAL) {
        draw_total(c, seed);
    } else if (function == ZERO__CUDA_SCALARS) {
        draw_scalars(c, seed);
    } else if (function <= ZERO__CUDA_ADAMW_G16_P16_S16) {
        i = function - ZERO__CUDA_ADAMW_G32_P32_S32;
        draw_update(c, true, i < 4 ? 4 : 2, i & 2 ? 2 : 4, i & 1 ? 2 : 4, seed);
    } else if (function <= ZERO__CUDA_SGD_G16_P16) {
        i = function - ZERO__CUDA_SGD_G32_P32;
        draw_update(c, false, i < 2 ? 4 : 2, i & 1 ? 2 : 4, 0, seed);
    } else {
        i = function - ZERO__CUDA_SGD_G32_P32_S32;
        draw_update(c, false, i < 4 ? 4 : 2, i & 2 ? 2 : 4, i & 1 ? 2 : 4, seed);
    }
}
