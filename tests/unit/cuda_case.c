/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda_case.h"

#include <sys/mman.h>

#include "../../plugins/common/reduce.h"

#define REGION (600u * 1024u) /* a multiple of any page */
#define PAGE 65536u           /* and so is this */
#define MARGIN 4096u
#define PATTERN 0x5a
#define LAUNCHES 8u

void case_memory_open(struct case_memory *mem)
{
    for (int side = 0; side < 2; side++)
        for (uint32_t i = 0; i < CASE_FIELDS; i++) {
            char *base =
                mmap(NULL, REGION + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (base == MAP_FAILED || mprotect(base + PAGE, REGION, PROT_READ | PROT_WRITE))
                bail("no memory for the arrays");
            mem->region[side][i] = (unsigned char *)base + PAGE;
        }
}

void case_memory_close(struct case_memory *mem)
{
    for (int side = 0; side < 2; side++)
        for (uint32_t i = 0; i < CASE_FIELDS; i++)
            munmap(mem->region[side][i] - PAGE, REGION + 2 * PAGE);
}

static int keep_error(void *ctx, const char *plugin, int err, const char *format, ...)
{
    struct case_host *h = ctx;
    va_list ap;

    (void)plugin;
    va_start(ap, format);
    vsnprintf(h->text, sizeof h->text, format, ap);
    va_end(ap);
    return err;
}

void case_host_init(struct case_host *h)
{
    memset(h, 0, sizeof *h);
    h->host = (struct zero_host){.size = sizeof h->host, .ctx = h, .fail = keep_error};
}

/* ---- Places and values ----------------------------------------------------------------------- */

static void fill_scalars(struct zero_scalars *s, bool update, uint64_t *seed)
{
    bool skip = update && random_next(seed) % 8 == 0;

    *s = (struct zero_scalars){
        .factor = skip                    ? 0
                  : random_next(seed) % 2 ? 1
                                          : 0.37f,
        .skip = skip,
        .step = random_next(seed) % 4 ? 1 + random_next(seed) % 3000 : 1,
        .loss_scale = (float)(1u << random_next(seed) % 11),
        .good = (uint32_t)(random_next(seed) % 4),
        .n_skipped = random_next(seed) % 5,
    };
}

static void fill_field(const struct cuda_case *c, const struct case_field *f, void *at,
                       bool specials, uint64_t *seed)
{
    bool positive = f->slot == &c->args.update.v && c->kernel == ZERO_KERNEL_ADAMW;

    if (f->kind == CASE_SCALARS) {
        fill_scalars(at, c->kernel != ZERO_KERNEL_SCALARS, seed);
        return;
    }
    for (uint64_t i = 0; i < f->count; i++) {
        float x = some(seed, specials);
        x = positive ? fabsf(x) : x;
        if (f->dtype == ZERO_F64)
            ((double *)at)[i] = fabsf(x);
        else if (f->kind == CASE_LOW)
            ((uint16_t *)at)[i] = (uint16_t)random_next(seed);
        else if (f->dtype == ZERO_F32 || f->dtype == ZERO_BF16 || f->dtype == ZERO_F16)
            put(at, i, f->dtype, x);
        else
            memset((char *)at + i * f->width, (int)random_next(seed) | 1, f->width);
    }
}

void case_place(struct cuda_case *c, const struct case_memory *mem, uint64_t *seed)
{
    /* Against the later page, where all arrays are aligned alike; against the earlier one; or in
     * between: all alike, or each as it comes. */
    uint32_t way = random_next(seed) % 8;
    uint64_t lead = random_next(seed) % 8;
    bool specials = random_next(seed) % 4 == 0;

    for (uint32_t i = 0; i < c->n_fields; i++) {
        struct case_field *f = &c->field[i];
        uint64_t bytes = f->count * f->width;
        unsigned char *one = mem->region[0][i], *two = mem->region[1][i];

        if (bytes > REGION - MARGIN)
            bail("an array is larger than its region");
        if (f->kind == CASE_SCALARS || way < 3)
            f->offset = REGION - bytes;
        else if (way == 3)
            f->offset = 0;
        else if (way < 7)
            f->offset = MARGIN + lead * f->width;
        else
            f->offset = MARGIN + random_next(seed) % 8 * f->width;
        if (f->offset > REGION - bytes)
            f->offset = REGION - bytes;
        uint64_t from = f->offset > MARGIN ? f->offset - MARGIN : 0;
        uint64_t to = f->offset + bytes + MARGIN < REGION ? f->offset + bytes + MARGIN : REGION;
        memset(one + from, PATTERN, to - from);
        fill_field(c, f, one + f->offset, specials, seed);
        memcpy(two + from, one + from, to - from);
    }
}

static void set_slots(struct cuda_case *c, const struct case_memory *mem, int side)
{
    for (uint32_t i = 0; i < c->n_fields; i++) {
        struct case_field *f = &c->field[i];
        *f->slot = mem->region[side][i] + f->offset;
        if (f->alias)
            *f->alias = *f->slot;
    }
}

/* ---- Running both ---------------------------------------------------------------------------- */

/* The pieces of an update, each with a learning rate and a decay of its own. */
static void cut_update(const struct cuda_case *c, struct zero_update_args piece[ZERO_UPDATES_MOST])
{
    const struct zero_update_args *a = &c->args.update;
    const uint64_t grad = zero_dtype_bytes(a->grad_dtype);
    const uint64_t moment = a->state_dtype == ZERO_BF16 ? 2 : 4;
    uint64_t at = 0;

    for (uint32_t i = 0; i < c->n_pieces; at += c->piece[i++]) {
        struct zero_update_args *p = &piece[i];
        *p = *a;
        p->count = c->piece[i];
        p->first += at;
        p->grad = (const char *)a->grad + at * grad;
        p->p = a->p ? a->p + at : NULL;
        p->m = a->m ? (char *)a->m + at * moment : NULL;
        p->v = a->v ? (char *)a->v + at * moment : NULL;
        p->out = a->out ? (char *)a->out + at * 2 : NULL;
        p->low = a->low ? a->low + at : NULL;
        p->hyper.lr *= (float)(i + 1);
        p->hyper.weight_decay = i % 2 ? 0 : a->hyper.weight_decay;
    }
}

/* A sum is that of the transports on the host, which the host's kernel is compared with, too. */
static void run_host(struct cuda_case *c)
{
    const struct zero_sum_args *a = &c->args.sum;
    struct zero_update_args piece[ZERO_UPDATES_MOST];

    if (c->n_pieces) {
        cut_update(c, piece);
        for (uint32_t i = 0; i < c->n_pieces; i++)
            run_kernel(ZERO__ISA_AUTO, c->kernel, &piece[i]);
        return;
    }
    if (c->kernel != ZERO_KERNEL_SUM) {
        run_kernel(ZERO__ISA_AUTO, c->kernel, &c->args);
        return;
    }
    struct zero__reduce r = {
        .dst = a->dst,
        .src = a->src,
        .n = a->n,
        .src_dtype = a->src_dtype,
        .dst_dtype = a->dst_dtype,
        .redop = ZERO_SUM,
        .scale = a->scale,
        .accumulate = a->accumulate != 0,
        .count = a->count,
        .partial = a->partial,
    };
    if (a->count)
        zero__reduce(ZERO__ISA_SCALAR, &r);
}

static int plan_case(struct cuda_case *c, struct zero__cuda_launch *l, uint32_t *n)
{
    struct zero_launch launch = {
        .kernel = c->kernel, .args = &c->args, .args_bytes = c->args_bytes};
    struct zero_update_args piece[ZERO_UPDATES_MOST];
    const struct zero_updates_args updates = {piece, c->kernel, c->n_pieces};
    struct case_host h;
    int err;

    if (c->n_pieces) {
        cut_update(c, piece);
        launch = (struct zero_launch){ZERO_KERNEL_UPDATES, 0, &updates, sizeof updates};
    }

    case_host_init(&h);
    err = zero__cuda_launch_plan(&h.host, c->multiprocessors, &launch, l, LAUNCHES, n);
    if (err)
        snprintf(c->error, sizeof c->error, "the plan: %.250s", h.text);
    return err;
}

/* On the second copy of the memory. */
static int launch(struct cuda_case *c, const struct case_memory *mem,
                  const struct fake_cuda_options *options, const struct zero__cuda_launch *l)
{
    if (mem->launch)
        return mem->launch((void *)(uintptr_t)mem, l, c->error, sizeof c->error);
    return fake_cuda_run_with(options, l->kernel, l->grid, l->block, l->shared_bytes, l->params,
                              c->error, sizeof c->error);
}

static bool run_device(struct cuda_case *c, const struct case_memory *mem,
                       const struct fake_cuda_options *options)
{
    static struct zero__cuda_launch l[LAUNCHES];
    uint32_t n;

    if (plan_case(c, l, &n))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (l[i].kernel != c->function) {
            snprintf(c->error, sizeof c->error, "%s was planned",
                     zero__cuda_kernel_name(l[i].kernel));
            return false;
        }
        if (launch(c, mem, options, &l[i]))
            return false;
    }
    return true;
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static bool is_nan(const void *x, uint64_t i, uint32_t dtype)
{
    double wide;

    if (dtype == ZERO_F64) {
        memcpy(&wide, (const double *)x + i, sizeof wide);
        return isnan(wide);
    }
    return isnan(get(x, i, dtype));
}

static bool same_scalars(const void *x, const void *y)
{
    struct zero_scalars a, b;

    memcpy(&a, x, sizeof a);
    memcpy(&b, y, sizeof b);
    if (isnan(a.grad_norm) && isnan(b.grad_norm))
        a.grad_norm = b.grad_norm = 0;
    return memcmp(&a, &b, sizeof a) == 0;
}

/* Elements are equal as far as they have to be; `before` is the array before, on one side. */
static bool same_element(const struct case_field *f, const unsigned char *one,
                         const unsigned char *two, const unsigned char *before, uint64_t i)
{
    if (memcmp(one + i * f->width, two + i * f->width, f->width) == 0)
        return true;
    switch (f->kind) {
    case CASE_SCALARS:
        return same_scalars(one, two);
    case CASE_NUMBERS:
        return is_nan(one, i, f->dtype) && is_nan(two, i, f->dtype);
    case CASE_LOW:
        return is_nan(before, i, ZERO_BF16);
    default:
        return false;
    }
}

static bool compare(struct cuda_case *c, const struct case_memory *mem)
{
    for (uint32_t i = 0; i < c->n_fields; i++) {
        const struct case_field *f = &c->field[i];
        uint64_t bytes = f->count * f->width, end = f->offset + bytes;
        const unsigned char *one = mem->region[0][i], *two = mem->region[1][i];
        const unsigned char *before = i ? mem->region[0][i - 1] + c->field[i - 1].offset : NULL;

        for (uint64_t k = f->offset > MARGIN ? f->offset - MARGIN : 0;
             k < REGION && k < end + MARGIN; k++)
            if ((k < f->offset || k >= end) && two[k] != PATTERN) {
                snprintf(c->error, sizeof c->error, "array %u: byte %lld of %llu was written", i,
                         (long long)k - (long long)f->offset, (unsigned long long)bytes);
                return false;
            }
        for (uint64_t k = 0; k < f->count; k++)
            if (!same_element(f, one + f->offset, two + f->offset, before, k)) {
                snprintf(c->error, sizeof c->error, "array %u: element %llu of %llu differs", i,
                         (unsigned long long)k, (unsigned long long)f->count);
                return false;
            }
    }
    return true;
}

bool case_run(struct cuda_case *c, const struct case_memory *mem,
              const struct fake_cuda_options *options)
{
    set_slots(c, mem, 0);
    run_host(c);
    set_slots(c, mem, 1);
    return run_device(c, mem, options) && compare(c, mem);
}

bool case_rounds(uint32_t function, const struct case_memory *mem, uint32_t rounds, uint64_t seed,
                 const struct fake_cuda_options *options, char *error, size_t n)
{
    struct fake_cuda_options shuffled = *options;
    static struct cuda_case c;
    uint64_t state = seed + function;

    for (uint32_t round = 0; round < rounds; round++) {
        case_draw(&c, function, &state);
        case_place(&c, mem, &state);
        shuffled.seed = random_next(&state);
        if (!case_run(&c, mem, &shuffled)) {
            snprintf(error, n, "round %u of seed %llu: %s", round, (unsigned long long)seed,
                     c.error);
            return false;
        }
    }
    return true;
}
