/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is reserved: model states are the formulas plus computed padding, exactly; the report adds
 * up; what lives at most is the plan; buckets and gathered units keep their budgets; and a limit is
 * enforced to the byte.
 */
#include "../tap.h"

#include <errno.h>
#include <stdatomic.h>

#include "engine/runtime.h"
#include "toy.h"

#define LAYERS 5

struct shape {
    int stage, ranks, accum, boundary;
    uint32_t dtype, flags;
    uint64_t width;
    const char *bucket, *prefetch, *retain;
    uint64_t bucket_bytes, prefetch_bytes, retain_bytes;
    int map;
};

struct check {
    const struct shape *x;
    atomic_int bad;
    char why[300];
    struct zero_memory_report report; /* of rank 0 */
};

static void blame(struct check *c, const char *what, uint64_t got, uint64_t want)
{
    if (got == want || atomic_fetch_add(&c->bad, 1))
        return;
    snprintf(c->why, sizeof c->why, "%s: %" PRIu64 ", not %" PRIu64, what, got, want);
}

static uint64_t up(uint64_t x, uint64_t to)
{
    return (x + to - 1) / to * to;
}

/* ---- The formulas, and the padding, computed here anew --------------------------------------- */

/* Elements of a unit's segment: two parameters, each start aligned, the end padded for all ranks */
static uint64_t padded(const struct shape *x)
{
    uint64_t used = up(x->width, 64) + x->width, page = 4096 / zero_dtype_bytes(x->dtype);
    uint64_t even = up(used, page * (uint64_t)x->ranks);

    if ((double)(even - used) < (double)used / 125 ||
        (double)(even - used) <= (double)(2 * x->width) * 0.002)
        return even;
    return up(used, 64 * (uint64_t)x->ranks);
}

/* Bytes of an element, 0 where the class is not there, and whether each rank has all elements. */
static uint64_t class_of(const struct shape *x, uint32_t memory_class, int *whole)
{
    uint64_t size = zero_dtype_bytes(x->dtype);

    *whole = x->stage == 0 || x->ranks == 1;
    switch (memory_class) {
    case ZERO_CLASS_PARAMETERS:
        *whole |= x->stage < 3;
        return size;
    case ZERO_CLASS_GRADIENTS:
        *whole |= x->stage < 2;
        return x->accum == 1 ? size : 0;
    case ZERO_CLASS_ACCUMULATORS:
        *whole |= x->stage < 2 || x->boundary;
        return x->accum == 1 ? 0 : 4;
    case ZERO_CLASS_MASTER:
        return x->dtype == ZERO_F32 ? 0 : 4;
    default:
        return 4; /* momentum, variance */
    }
}

static const struct zero_memory_row *row_of(const struct zero_memory_report *r, uint32_t c)
{
    for (uint32_t i = 0; i < r->n_rows; i++)
        if (r->rows[i].memory_class == c)
            return &r->rows[i];
    return NULL;
}

static void states_check(struct check *c, const struct zero_memory_report *r)
{
    const struct shape *x = c->x;
    uint64_t elements = LAYERS * 2 * x->width, N = (uint64_t)x->ranks;

    for (uint32_t k = ZERO_CLASS_PARAMETERS; k <= ZERO_CLASS_VARIANCE; k++) {
        const struct zero_memory_row *row = row_of(r, k);
        int whole;
        uint64_t size = class_of(x, k, &whole), kept = whole ? padded(x) : padded(x) / N;
        uint64_t formula = whole ? elements * size : (elements * size + N - 1) / N;
        uint64_t want = LAYERS * up(kept * size, 4096);
        blame(c, "row of the class", row != NULL, size != 0);
        if (!row || !size)
            continue;
        blame(c, row->class_name, row->formula, formula);
        blame(c, row->class_name, row->planned, want);
        blame(c, row->class_name, row->reserved, want);
        blame(c, row->class_name, row->peak, want);
    }
    /* The runtime's own: sums of squares by block, one per rank, scalars, staging. */
    uint64_t blocks = LAYERS * ((padded(x) / N + 4095) / 4096);
    const struct zero_memory_row *other = row_of(r, ZERO_CLASS_OTHER);
    blame(c, "other", other ? other->planned : 0,
          up(blocks * 8, 4096) + 4096 + 4096 + (256 << 10));
}

/* ---- The report and the plan ----------------------------------------------------------------- */

static void sums_check(struct check *c, struct zero_runtime *rt,
                       const struct zero_memory_report *r)
{
    uint64_t reserved = 0, slabs = 0;

    for (uint32_t i = 0; i < r->n_rows; i++)
        reserved += r->rows[i].reserved;
    for (int i = 0; i < ZERO__N_SLABS; i++)
        slabs += rt->site.slabs[i].bytes;
    blame(c, "sum of the rows", reserved, r->reserved);
    blame(c, "slabs", slabs, r->reserved);
    blame(c, "planned", r->planned, r->reserved);
    blame(c, "most live at once", r->peak, r->reserved);
    blame(c, "lower bound", r->lower_bound, r->reserved);
}

static void budgets_check(struct check *c, const struct zero_memory_report *r)
{
    const struct shape *x = c->x;
    const struct zero_memory_row *g = row_of(r, ZERO_CLASS_GATHERED);
    const struct zero_memory_row *b = row_of(r, ZERO_CLASS_BUCKETS);
    uint64_t unit = up(padded(x) * zero_dtype_bytes(x->dtype), 4096);
    uint64_t most = 2 * x->bucket_bytes + unit;

    if (b && b->peak > most)
        blame(c, "buckets", b->peak, most);
    most = x->prefetch_bytes + x->retain_bytes + unit;
    if (g && g->peak > most)
        blame(c, "gathered", g->peak, most);
    int shards = x->stage == 3 && x->ranks > 1, N = x->ranks;
    int maps = x->map && shards && padded(x) / (uint64_t)N * zero_dtype_bytes(x->dtype) % 4096 == 0;
    blame(c, "gathers", g && g->peak > 0, shards && !maps);
    blame(c, "mapped", r->mapped,
          maps ? LAYERS * (padded(x) - padded(x) / (uint64_t)N) * zero_dtype_bytes(x->dtype) : 0);
    blame(c, "has buckets", b && b->peak > 0, (x->stage >= 2 && x->ranks > 1) || x->accum > 1);
}

static void finished(struct zero_runtime *rt, int rank, void *arg)
{
    struct check *c = arg;
    struct zero_memory_report r = {.size = sizeof r};

    if (zero_memory_report(rt, &r))
        blame(c, "zero_memory_report()", 1, 0);
    if (rank == 0)
        c->report = r;
    if (!(c->x->flags & TOY_TIED)) /* the formulas here are those of the plain model */
        states_check(c, &r);
    sums_check(c, rt, &r);
    budgets_check(c, &r);
}

static int train(const struct shape *x, const char *limit, struct check *c, struct toy_result *r)
{
    char stage[8], accum[8];
    struct zero_setting s[] = {{"stage", stage},
                               {"accum", accum},
                               {"reduce_at", x->boundary ? "boundary" : "micro"},
                               {"bucket_bytes", x->bucket},
                               {"prefetch_bytes", x->prefetch},
                               {"retain_bytes", x->retain},
                               {"memory_limit", limit},
                               {"map", x->map ? "1" : "0"},
                               {"timeout", "20"}};
    struct toy t = {.ranks = x->ranks, .layers = LAYERS, .steps = 2, .dtype = x->dtype,
                    .flags = x->flags, .width = x->width, .settings = s, .n_settings = 9,
                    .seed = 1, .finished = c ? finished : NULL, .arg = c};

    snprintf(stage, sizeof stage, "%d", x->stage);
    snprintf(accum, sizeof accum, "%d", x->accum);
    if (c)
        c->x = x;
    return toy_train(&t, r);
}

static void exact(const struct shape *x)
{
    struct check c = {0};
    struct toy_result r;

    if (train(x, "", &c, &r))
        diag("%s", r.error);
    ok(!r.err && !c.bad,
       "stage %d, %d ranks, %s, %d micro-batches, %" PRIu64 " elements, buckets of %s, prefetch %s,"
       " retain %s%s: as computed",
       x->stage, x->ranks, zero_dtype_name(x->dtype), x->accum, x->width, x->bucket, x->prefetch,
       x->retain, x->map ? ", map" : "");
    if (c.bad)
        diag("%s", c.why);
}

static void matrix(void)
{
    static const int ranks[] = {1, 2, 3, 4};
    static const uint32_t dtypes[] = {ZERO_F32, ZERO_BF16, ZERO_F16};
    static const uint64_t widths[] = {1, 700, 8192, 5000};
    int k = 0;

    for (int stage = 0; stage < 4; stage++)
        for (int n = 0; n < 4; n++, k++) {
            struct shape x = {.stage = stage, .ranks = ranks[n], .accum = k % 3 == 2 ? 3 : 1,
                              .boundary = k / 2 % 2, .dtype = dtypes[k % 3],
                              .width = widths[(n + stage) % 4], .bucket = "64M",
                              .prefetch = "128M", .retain = "0", .bucket_bytes = 64 << 20,
                              .prefetch_bytes = 128 << 20};
            exact(&x);
        }
}

static void budgets(void)
{
    static const struct shape shapes[] = {
        {2, 2, 1, 0, ZERO_F32, 0, 5000, "4K", "0", "0", 4096, 0, 0, 0},
        {2, 3, 3, 0, ZERO_BF16, TOY_TIED, 5000, "32K", "0", "0", 32768, 0, 0, 0},
        {3, 2, 1, 0, ZERO_F32, 0, 5000, "4K", "0", "-1", 4096, 0, 0, 0},
        {3, 2, 1, 0, ZERO_F32, 0, 5000, "64K", "100K", "-1", 65536, 102400, 0, 0},
        {3, 4, 3, 0, ZERO_BF16, TOY_TIED, 5000, "32K", "50K", "64K", 32768, 51200, 65536, 0},
        {3, 2, 1, 1, ZERO_F32, TOY_RECOMPUTE, 3000, "4K", "32K", "0", 4096, 32768, 0, 0},
        {3, 2, 1, 0, ZERO_F32, TOY_RECOMPUTE, 8192, "4K", "32K", "64K", 4096, 32768, 65536, 1},
        {3, 3, 3, 0, ZERO_BF16, 0, 6144, "64M", "128M", "0", 64 << 20, 128 << 20, 0, 1},
        {3, 2, 1, 0, ZERO_F32, 0, 700, "64M", "128M", "0", 64 << 20, 128 << 20, 0, 1},
    };

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        exact(&shapes[i]);
}

/* ---- Limits ---------------------------------------------------------------------------------- */

/* ---- Mapping --------------------------------------------------------------------------------- */

#define MORE 300
#define OF_EACH 64

/* Further units; all parameters of one share a segment. */
static void map_registered(struct zero_runtime *rt, int rank, void *arg)
{
    struct zero_param_desc p = {.size = sizeof p, .dtype = ZERO_F32, .n_dims = 1, .dims = {64}};
    char name[32];
    uint32_t unit, param;

    (void)rank, (void)arg;
    for (int i = 0; i < MORE; i++) {
        snprintf(name, sizeof name, "more.%d", i);
        if (zero_unit_add(rt, name, &unit))
            return;
        for (int k = 0; k < OF_EACH; k++) {
            snprintf(name, sizeof name, "more.%d.%d", i, k);
            p.name = name;
            zero_param_add(rt, unit, &p, &param);
        }
    }
}

static void map_committed(struct zero_runtime *rt, int rank, void *arg)
{
    bool *mapped = arg;
    struct zero_memory_report r = {.size = sizeof r};

    if (rank == 0 && !zero_memory_report(rt, &r))
        *mapped = r.mapped > 0;
}

/*
 * Each segment makes a piece of mapped memory for each rank, of which the kernel has so many; how
 * many parameters a segment has does not matter.
 */
static void many_pieces(void)
{
    struct zero_setting s[] = {{"stage", "3"}, {"timeout", "60"}};
    bool mapped = false;
    struct toy t = {.ranks = 2, .layers = LAYERS, .steps = 0, .dtype = ZERO_F32, .width = 8192,
                    .settings = s, .n_settings = 2, .seed = 1, .registered = map_registered,
                    .committed = map_committed, .arg = &mapped};
    struct toy_result r;

    is_int(toy_train(&t, &r), 0, "%d units of %d parameters are committed", MORE,
           OF_EACH);
    if (r.err)
        diag("%s", r.error);
    ok(mapped, "and mapped");
}

static void limits(void)
{
    struct shape x = {.stage = 2, .ranks = 2, .accum = 1, .dtype = ZERO_BF16, .width = 5000,
                      .bucket = "64M", .prefetch = "128M", .retain = "0",
                      .bucket_bytes = 64 << 20, .prefetch_bytes = 128 << 20};
    struct check c = {0};
    struct toy_result r;
    char limit[64];

    train(&x, "", &c, &r);
    snprintf(limit, sizeof limit, "device:%" PRIu64, c.report.reserved);
    is_int(train(&x, limit, NULL, &r), 0, "a limit of exactly what is reserved is enough");
    snprintf(limit, sizeof limit, "device:%" PRIu64, c.report.reserved - 1);
    is_int(train(&x, limit, NULL, &r), -ENOMEM, "a byte less is not");
    has_str(r.error, "ZERO_MEMORY_LIMIT", "the error names the limit");
    for (uint32_t i = 0; i < c.report.n_rows; i++)
        if (c.report.rows[i].reserved)
            has_str(r.error, c.report.rows[i].class_name, "its table has %s",
                    c.report.rows[i].class_name);
    has_str(r.error, "what would make it fit", "it says what would make it fit");
    has_str(r.error, "make it fit: ZERO_", "by settings");
}

/* What has failed before it had a plan has no memory to report. */
static void without_plan(void)
{
    const struct zero_setting settings[] = {{"comm", "self"}};
    struct zero_config c = {.size = sizeof c, .settings = settings, .n_settings = 1};
    struct zero_memory_report report = {.size = sizeof report};
    struct zero_runtime *rt = NULL;

    if (is_int(zero_create(&c, &rt), 0, "a runtime")) {
        zero_abort(rt, "nobody wants it");
        zero_barrier(rt);
        is_int(zero_memory_report(rt, &report), -EINVAL, "that has failed reports no memory");
    }
    zero_destroy(rt);
}

int main(void)
{
    alarm(300);
    matrix();
    budgets();
    many_pieces();
    limits();
    without_plan();
    done();
}
