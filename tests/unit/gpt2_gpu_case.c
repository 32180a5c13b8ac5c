/* SPDX-License-Identifier: Apache-2.0 */
#include "gpt2_gpu_case.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include "examples/gpt2/layers.h"
#include "examples/gpt2/vector.h"
#include "tests/random.h"
#include "tests/tap.h"

#define PAGE 65536u /* a multiple of any page */

void gpt2_case_open(struct gpt2_case *c)
{
    memset(c, 0, sizeof *c);
    for (uint32_t i = 0; i < GPT2_CASE_ARRAYS; i++) {
        char *base =
            mmap(NULL, GPT2_CASE_BYTES + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (base == MAP_FAILED || mprotect(base + PAGE, GPT2_CASE_BYTES, PROT_READ | PROT_WRITE))
            bail("no memory for the arrays");
        c->pages[i] = (unsigned char *)base + PAGE;
    }
    c->reference = calloc(GPT2_CASE_ARRAYS, GPT2_CASE_BYTES);
    c->scratch = calloc(1, GPT2_CASE_BYTES);
    if (!c->reference || !c->scratch)
        bail("no memory for the host's results");
}

void gpt2_case_close(struct gpt2_case *c)
{
    for (uint32_t i = 0; i < GPT2_CASE_ARRAYS; i++)
        munmap(c->pages[i] - PAGE, GPT2_CASE_BYTES + 2 * PAGE);
    free(c->reference);
    free(c->scratch);
}

/* ---- Drawing --------------------------------------------------------------------------------- */

static uint64_t below(struct gpt2_case *c, uint64_t n)
{
    return random_next(&c->seed) % n;
}

/* Between -1 and 1. */
static float uniform(struct gpt2_case *c)
{
    return (float)(int64_t)(random_next(&c->seed) >> 40) * 0x1p-23f - 1;
}

/* The next array, of n elements against the page behind it. */
static void *array(struct gpt2_case *c, size_t n, uint32_t dtype)
{
    const size_t bytes = n * zero_dtype_bytes(dtype);
    unsigned char *at = c->pages[c->n_arrays] + GPT2_CASE_BYTES - bytes;

    if (bytes > GPT2_CASE_BYTES || c->n_arrays == GPT2_CASE_ARRAYS)
        bail("a case wants more than there is");
    c->array[c->n_arrays].at = at;
    c->array[c->n_arrays++].bytes = bytes;
    return memset(at, 0x5a, bytes);
}

/* The same with values; *reference: these in fp32. */
static void *values(struct gpt2_case *c, size_t n, uint32_t dtype, float around, float spread,
                    float **reference)
{
    float *x = c->reference + c->n_arrays * (GPT2_CASE_BYTES / sizeof *x);
    void *at = array(c, n, dtype);

    for (size_t i = 0; i < n; i++)
        x[i] = around + spread * uniform(c);
    gpt2_store(dtype, at, x, n, 0);
    gpt2_to_float(dtype, at, n, x);
    if (reference)
        *reference = x;
    return at;
}

/* Somewhere for what the host computes, and has no array of its own. */
static float *place(struct gpt2_case *c, uint32_t number)
{
    return c->reference + (GPT2_CASE_ARRAYS - 1 - number) * (GPT2_CASE_BYTES / sizeof(float));
}

static struct gpt2_param param(uint32_t dtype, const void *value)
{
    return (struct gpt2_param){.dtype = dtype, .value = value};
}

static struct gpt2_param gradient(uint32_t dtype, void *at, float beta)
{
    return (struct gpt2_param){.dtype = dtype, .beta = beta, .gradient = at};
}

/* ---- Comparing ------------------------------------------------------------------------------- */

/* Rounding of sums that are added in another order, and of one that is rounded to dtype. */
static float tolerance(uint32_t dtype)
{
    return dtype == ZERO_F32 ? 5e-5f : dtype == ZERO_F16 ? 4e-3f : 2e-2f;
}

static bool same(struct gpt2_case *c, const char *what, const void *got, uint32_t dtype,
                 const float *want, size_t n, float limit)
{
    float *x = c->scratch;

    gpt2_to_float(dtype, got, n, x);
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(x[i] - want[i]) <= limit * (1 + fabsf(want[i])))) {
            snprintf(c->error, sizeof c->error,
                     "%s, element %zu of %zu, %s: %g, and %g by the host", what, i, n,
                     zero_dtype_name(c->dtype), (double)x[i], (double)want[i]);
            return false;
        }
    return true;
}

/* ---- Embeddings ------------------------------------------------------------------------------ */

static int32_t *tokens_draw(struct gpt2_case *c, size_t rows, size_t vocab)
{
    int32_t *tokens = array(c, rows, ZERO_I32);
    for (size_t i = 0; i < rows; i++)
        tokens[i] = (int32_t)below(c, vocab);
    tokens[rows - 1] = (int32_t)vocab - 1;
    return tokens;
}

static bool embed(struct gpt2_case *c)
{
    const size_t seq = 1 + below(c, 20), batch = 1 + below(c, 3), width = 4 + 4 * below(c, 30);
    const size_t rows = batch * seq, vocab = 1 + below(c, 40);
    float *want = place(c, 0), *vector = place(c, 1);
    int32_t *tokens = tokens_draw(c, rows, vocab);
    void *w = values(c, vocab * width, c->dtype, 0, 1, NULL);
    void *p = values(c, seq * width, c->dtype, 0, 1, NULL);
    float *x = array(c, rows * width, ZERO_F32);
    struct gpt2_launch l;

    const struct gpt2_param tok = param(c->dtype, w), pos = param(c->dtype, p);
    gpt2_embed_forward(&tok, tokens, rows, width, want);
    gpt2_position_forward(&pos, batch, seq, width, want, vector);
    gpt2_plan_embed(&l, &(struct gpt2_gpu_embed){x, w, tokens, rows, width, c->dtype, 0});
    if (!c->launch(c, &l))
        return false;
    gpt2_plan_position(&l, &(struct gpt2_gpu_position){x, p, rows, width, seq, c->dtype, 0});
    return c->launch(c, &l) && same(c, "x", x, ZERO_F32, want, rows * width, 1e-6f);
}

/* Positions by token, as gpt2_gpu_embed_backward wants them. */
static void sort_tokens(const int32_t *tokens, size_t rows, size_t vocab, int32_t *order,
                        int32_t *start)
{
    int32_t n = 0;
    for (size_t v = 0; v < vocab; v++) {
        start[v] = n;
        for (size_t r = 0; r < rows; r++)
            if ((size_t)tokens[r] == v)
                order[n++] = (int32_t)r;
    }
    start[vocab] = n;
}

static bool embed_backward(struct gpt2_case *c)
{
    const size_t rows = 1 + below(c, 50), width = 4 + 4 * below(c, 40), vocab = 1 + below(c, 30);
    const float beta = (float)below(c, 2);
    int32_t *tokens = tokens_draw(c, rows, vocab), *order = array(c, rows, ZERO_I32);
    int32_t *start = array(c, vocab + 1, ZERO_I32);
    float *dx, *old, *want = place(c, 0), *vector = place(c, 1);
    int32_t *chains = (int32_t *)place(c, 2);

    values(c, rows * width, ZERO_F32, 0, 1, &dx);
    void *device_dx = c->array[c->n_arrays - 1].at;
    void *g = values(c, vocab * width, c->dtype, 0, 1, &old);
    struct gpt2_launch l;
    sort_tokens(tokens, rows, vocab, order, start);
    memcpy(want, old, vocab * width * sizeof *want);
    const struct gpt2_param w = gradient(ZERO_F32, want, beta);
    gpt2_embed_backward(&w, tokens, dx, rows, vocab, width, chains, vector);
    gpt2_plan_embed_backward(&l, &(struct gpt2_gpu_embed_backward){g, device_dx, order, start,
                                                                   vocab, width, c->dtype, beta});
    return c->launch(c, &l) &&
           same(c, "gradient", g, c->dtype, want, vocab * width, tolerance(c->dtype));
}

static bool position_backward(struct gpt2_case *c)
{
    const size_t seq = 1 + below(c, 20), batch = 1 + below(c, 3), width = 4 + 4 * below(c, 30);
    const size_t context = seq + below(c, 5);
    const float beta = (float)below(c, 2);
    float *dx, *old, *want = place(c, 0), *vector = place(c, 1);
    void *device_dx = values(c, batch * seq * width, ZERO_F32, 0, 1, &dx);
    void *g = values(c, context * width, c->dtype, 0, 1, &old);
    struct gpt2_launch l;

    memcpy(want, old, context * width * sizeof *want);
    const struct gpt2_param w = gradient(ZERO_F32, want, beta);
    gpt2_position_backward(&w, dx, batch, seq, context, width, vector);
    gpt2_plan_position_backward(&l, &(struct gpt2_gpu_position_backward){
                                        g, device_dx, batch, seq, context, width, c->dtype, beta});
    return c->launch(c, &l) &&
           same(c, "gradient", g, c->dtype, want, context * width, tolerance(c->dtype));
}

/* ---- Layer norm ------------------------------------------------------------------------------ */

static size_t norm_width(struct gpt2_case *c)
{
    static const size_t some[] = {4, 64, 128, 516, 768, 1600};
    return below(c, 2) ? some[below(c, 6)] : 4 + 4 * below(c, 300);
}

static bool norm(struct gpt2_case *c)
{
    const size_t rows = 1 + below(c, 6), width = norm_width(c);
    float *x, *want = place(c, 0), *vector = place(c, 1), *want_stat = place(c, 2);
    void *device_x = values(c, rows * width, ZERO_F32, 0.3f, 2, &x);
    void *w = values(c, width, c->dtype, 1, 0.5f, NULL);
    void *b = values(c, width, c->dtype, 0, 0.5f, NULL);
    float *stat = array(c, 2 * rows, ZERO_F32);
    float *bias, *kept = below(c, 2) ? array(c, rows * width, ZERO_F32) : NULL;
    float *next = below(c, 2) ? array(c, rows * width, ZERO_F32) : NULL;
    void *next_b = values(c, width, c->dtype, 0, 1, &bias);
    void *y = array(c, rows * width, c->dtype), *again = array(c, rows * width, c->dtype);
    struct gpt2_gpu_norm q = {device_x, w, b,    next_b, stat,     kept,
                              next,     y, rows, width,  c->dtype, 0};
    struct gpt2_launch l;

    const struct gpt2_param scale = param(c->dtype, w), shift = param(c->dtype, b);
    gpt2_norm_stat(x, rows, width, want_stat);
    gpt2_norm_forward(&scale, &shift, x, want_stat, rows, width, want, vector);
    gpt2_plan_norm(&l, &q);
    if (!c->launch(c, &l) || !same(c, "stat", stat, ZERO_F32, want_stat, 2 * rows, 1e-4f) ||
        !same(c, "y", y, c->dtype, want, rows * width, tolerance(c->dtype)) ||
        (kept && !same(c, "kept x", kept, ZERO_F32, x, rows * width, 0)))
        return false;
    gpt2_add_rows(x, bias, rows, width);
    if (next && !same(c, "next", next, ZERO_F32, x, rows * width, 1e-6f))
        return false;
    q.kept = q.next = NULL;
    q.y = again;
    gpt2_plan_norm_again(&l, &q);
    if (!c->launch(c, &l))
        return false;
    if (memcmp(y, again, rows * width * zero_dtype_bytes(c->dtype)) == 0)
        return true;
    snprintf(c->error, sizeof c->error, "the second y is not the first");
    return false;
}

static bool norm_backward(struct gpt2_case *c)
{
    const size_t rows = 1 + below(c, 150), width = 4 + 4 * below(c, rows > 20  ? 20
                                                                    : rows > 4 ? 200
                                                                               : 512);
    const uint64_t chunks = gpt2_norm_chunks(rows);
    const uint32_t dy_dtype = below(c, 2) ? c->dtype : ZERO_F32;
    const float beta = (float)below(c, 2), grad_beta = (float)below(c, 2);
    float *x, *dy, *old, *old_w, *old_b, *stat = place(c, 0), *vector = place(c, 1);
    void *device_x = values(c, rows * width, ZERO_F32, 0.3f, 2, &x);
    void *device_dy = values(c, rows * width, dy_dtype, 0, 1, &dy);
    void *w = values(c, width, c->dtype, 1, 0.5f, NULL);
    void *dx = values(c, rows * width, ZERO_F32, 0, 1, &old);
    void *dw = values(c, width, c->dtype, 0, 1, &old_w);
    void *db = values(c, width, c->dtype, 0, 1, &old_b);
    float *partial = array(c, chunks * 2 * width, ZERO_F32);
    float *device_stat = array(c, 2 * rows, ZERO_F32);
    struct gpt2_launch l;

    gpt2_norm_stat(x, rows, width, stat);
    memcpy(device_stat, stat, 2 * rows * sizeof *stat);
    struct gpt2_param scale = param(c->dtype, w), shift = gradient(ZERO_F32, old_b, grad_beta);
    float *wide = place(c, 2);
    gpt2_to_float(c->dtype, w, width, wide);
    scale = (struct gpt2_param){ZERO_F32, grad_beta, wide, old_w};
    gpt2_norm_backward(&scale, &shift, x, stat, dy, rows, width, beta, old, vector);
    gpt2_plan_norm_backward(
        &l, &(struct gpt2_gpu_norm_backward){device_x, device_stat, w, device_dy, dx, partial, rows,
                                             width, c->dtype, dy_dtype, beta, 0});
    if (!c->launch(c, &l) || !same(c, "dx", dx, ZERO_F32, old, rows * width, 1e-4f))
        return false;
    gpt2_plan_fold(&l,
                   &(struct gpt2_gpu_fold){
                       {dw, db}, partial, chunks, width, 2, c->dtype, {grad_beta, grad_beta}, 0});
    return c->launch(c, &l) && same(c, "dw", dw, c->dtype, old_w, width, tolerance(c->dtype)) &&
           same(c, "db", db, c->dtype, old_b, width, tolerance(c->dtype));
}

static bool bias_backward(struct gpt2_case *c)
{
    const size_t rows = 1 + below(c, 200), width = 4 + 4 * below(c, 90);
    const uint64_t chunks = gpt2_chunks(rows);
    const float beta = (float)below(c, 2);
    const uint32_t dy_dtype = below(c, 2) ? c->dtype : ZERO_F32;
    float *dy, *old, *sum = place(c, 0);
    void *device_dy = values(c, rows * width, dy_dtype, 0, 1, &dy);
    void *rounded = below(c, 2) ? array(c, rows * width, c->dtype) : NULL;
    void *db = values(c, width, c->dtype, 0, 1, &old);
    float *partial = array(c, chunks * width, ZERO_F32);
    struct gpt2_launch l;

    gpt2_sum_rows(dy, rows, width, sum);
    gpt2_store(ZERO_F32, old, sum, width, beta);
    gpt2_plan_columns(&l, &(struct gpt2_gpu_columns){partial, device_dy, rounded, rows, width,
                                                     dy_dtype, c->dtype});
    if (!c->launch(c, &l) || (rounded && !same(c, "rounded dy", rounded, c->dtype, dy, rows * width,
                                               tolerance(c->dtype))))
        return false;
    gpt2_plan_fold(
        &l, &(struct gpt2_gpu_fold){{db, NULL}, partial, chunks, width, 1, c->dtype, {beta, 0}, 0});
    return c->launch(c, &l) && same(c, "db", db, c->dtype, old, width, tolerance(c->dtype));
}

/* ---- Element by element ---------------------------------------------------------------------- */

static bool rows_of_bias(struct gpt2_case *c)
{
    const size_t rows = 1 + below(c, 20), width = 4 + 4 * below(c, 100);
    float *bias, *want = place(c, 0);
    void *b = values(c, width, c->dtype, 0, 1, &bias), *y = array(c, rows * width, c->dtype);
    struct gpt2_launch l;

    memset(want, 0, rows * width * sizeof *want);
    gpt2_add_rows(want, bias, rows, width);
    gpt2_plan_bias(&l, &(struct gpt2_gpu_bias){y, b, rows, width, c->dtype, 0});
    return c->launch(c, &l) && same(c, "y", y, c->dtype, want, rows * width, 0);
}

static bool gelu(struct gpt2_case *c)
{
    const size_t rows = 1 + below(c, below(c, 2) ? 200 : 12);
    const size_t width = 4 + 4 * below(c, rows > 12 ? 40 : 100), n = rows * width;
    const uint64_t chunks = gpt2_chunks(rows);
    const float beta = (float)below(c, 2);
    float *x, *bias, *d, *old, *want = place(c, 0), *sum = place(c, 1);
    void *device_x = values(c, n, c->dtype, 0, below(c, 3) ? 3 : 40, &x);
    void *b = values(c, width, c->dtype, 0, 1, &bias);
    void *y = array(c, n, c->dtype), *again = array(c, n, c->dtype);
    void *dy = values(c, n, c->dtype, 0, 1, &d), *db = values(c, width, c->dtype, 0, 1, &old);
    float *partial = array(c, chunks * width, ZERO_F32);
    struct gpt2_launch l;

    gpt2_add_rows(x, bias, rows, width);
    gpt2_gelu_backward(x, n, want, d);
    gpt2_sum_rows(d, rows, width, sum);
    gpt2_store(ZERO_F32, old, sum, width, beta);
    gpt2_plan_gelu(&l, &(struct gpt2_gpu_gelu){y, device_x, b, rows, width, c->dtype, 0});
    if (!c->launch(c, &l) || !same(c, "y", y, c->dtype, want, n, tolerance(c->dtype)))
        return false;
    gpt2_plan_gelu_backward(&l, &(struct gpt2_gpu_gelu_backward){again, dy, device_x, b, partial,
                                                                 rows, width, c->dtype, 0});
    if (!c->launch(c, &l) || !same(c, "y again", again, c->dtype, want, n, tolerance(c->dtype)) ||
        !same(c, "dy", dy, c->dtype, d, n, tolerance(c->dtype)))
        return false;
    gpt2_plan_fold(
        &l, &(struct gpt2_gpu_fold){{db, NULL}, partial, chunks, width, 1, c->dtype, {beta, 0}, 0});
    return c->launch(c, &l) && same(c, "db", db, c->dtype, old, width, tolerance(c->dtype));
}

/* ---- Attention ------------------------------------------------------------------------------- */

static bool attention_of(struct gpt2_case *c, uint32_t features, size_t seq, size_t heads,
                         size_t batch)
{
    const size_t width = heads * features, rows = batch * seq;
    const struct gpt2_attention a = {batch, seq, heads, width};
    float *qkv, *dy, *want = place(c, 0), *want_stat = place(c, 1), *want_d = place(c, 2);
    void *device_qkv = values(c, rows * 3 * width, c->dtype, 0, 1.5f, &qkv);
    void *device_dy = values(c, rows * width, c->dtype, 0, 1, &dy);
    void *y = array(c, rows * width, c->dtype), *dqkv = array(c, rows * 3 * width, c->dtype);
    float *stat = array(c, 2 * rows * heads, ZERO_F32), *delta = array(c, rows * heads, ZERO_F32);
    const struct gpt2_gpu_attention q = {device_qkv,
                                         y,
                                         stat,
                                         delta,
                                         device_dy,
                                         dqkv,
                                         batch,
                                         seq,
                                         heads,
                                         c->dtype,
                                         1 / sqrtf((float)features)};
    struct gpt2_launch l;

    gpt2_attention_forward(&a, qkv, want, want_stat, c->scratch);
    gpt2_plan_attention(&l, &q, features);
    if (!c->launch(c, &l) || !same(c, "y", y, c->dtype, want, rows * width, tolerance(c->dtype)) ||
        !same(c, "stat", stat, ZERO_F32, want_stat, 2 * rows * heads, 1e-4f))
        return false;
    gpt2_attention_backward(&a, qkv, want, want_stat, dy, want_d, c->scratch);
    gpt2_plan_delta(&l, &q, features);
    if (c->dtype == ZERO_F32 && !c->launch(c, &l))
        return false;
    gpt2_plan_attention_q(&l, &q, features);
    if (!c->launch(c, &l))
        return false;
    gpt2_plan_attention_kv(&l, &q, features);
    return c->launch(c, &l) &&
           same(c, "dqkv", dqkv, c->dtype, want_d, rows * 3 * width, 2 * tolerance(c->dtype));
}

static bool attention(struct gpt2_case *c)
{
    static const size_t some[] = {1, 31, 32, 33, 63, 64, 65, 100};
    const uint32_t features = below(c, 2) ? 32 : 64;
    const size_t seq = some[below(c, 8)], heads = 1 + below(c, 2), batch = 1 + below(c, 2);

    return attention_of(c, features, seq, heads, batch);
}

/* Enough tiles that buffers are used again. */
static bool attention_tiles(struct gpt2_case *c)
{
    if (!attention_of(c, 32, 130, 1, 1))
        return false;
    c->n_arrays = 0;
    return attention_of(c, 64, 150, 1, 1);
}

/* ---- Cross-entropy --------------------------------------------------------------------------- */

/* What gpt2_head_forward() and gpt2_head_backward() do with logits, without the products. */
static void loss_reference(float *x, const int32_t *targets, size_t rows, size_t vocab, float scale,
                           float *loss)
{
    for (size_t r = 0; r < rows; r++, x += vocab) {
        double sum = 0;
        const float max = gpt2_max(x, vocab);
        for (size_t i = 0; i < vocab; i++)
            sum += exp((double)x[i] - (double)max);
        loss[r] = (float)(log(sum) + (double)max - (double)x[targets[r]]);
        for (size_t i = 0; i < vocab; i++)
            x[i] = (float)(exp((double)x[i] - (double)max) / sum) * scale;
        x[targets[r]] -= scale;
    }
}

/* Part `first` … of the logits lies in an array of its own, rows × n. */
static bool loss_part(struct gpt2_case *c, struct gpt2_gpu_loss q, size_t first, size_t n,
                      bool last, const float *logits, size_t vocab, float **part)
{
    struct gpt2_launch l;

    *part = array(c, q.rows * n, ZERO_F32);
    for (size_t r = 0; r < q.rows; r++)
        memcpy(*part + r * n, logits + r * vocab + first, n * sizeof **part);
    q.logits = *part;
    q.first = first;
    q.n = n;
    q.last = last;
    gpt2_plan_loss(&l, &q);
    return c->launch(c, &l);
}

static bool part_backward(struct gpt2_case *c, struct gpt2_gpu_loss_backward q, float *part,
                          size_t first, size_t n, const float *want, size_t vocab)
{
    struct gpt2_launch l;

    q.logits = part;
    q.first = first;
    q.n = n;
    gpt2_plan_loss_backward(&l, &q);
    if (!c->launch(c, &l))
        return false;
    for (size_t r = 0; r < q.rows; r++)
        if (!same(c, "gradient of the logits", part + r * n, q.dtype, want + r * vocab + first, n,
                  tolerance(q.dtype)))
            return false;
    return true;
}

static bool loss(struct gpt2_case *c)
{
    const size_t vectors = below(c, 2) ? 4 : 1; /* rows that are aligned */
    const size_t rows = 1 + below(c, 6), vocab = vectors * (2 + below(c, 2000 / vectors));
    const size_t cut = vectors * (1 + below(c, vocab / vectors - 1));
    const float scale = 0.7f;
    int32_t *targets = tokens_draw(c, rows, vocab);
    float *stat = array(c, 2 * rows, ZERO_F32), *nats = array(c, rows, ZERO_F32);
    float *logits = place(c, 0), *want = place(c, 1), *part[2];
    struct gpt2_gpu_loss q = {.targets = targets, .stat = stat, .loss = nats, .rows = rows};
    const struct gpt2_gpu_loss_backward back = {
        .targets = targets, .stat = stat, .rows = rows, .dtype = c->dtype, .scale = scale};

    if (below(c, 2)) /* the first that is not of the first part */
        targets[rows - 1] = (int32_t)cut;
    for (size_t i = 0; i < rows * vocab; i++)
        logits[i] = 6 * uniform(c);
    if (!loss_part(c, q, 0, cut, false, logits, vocab, &part[0]) ||
        !loss_part(c, q, cut, vocab - cut, true, logits, vocab, &part[1]))
        return false;
    loss_reference(logits, targets, rows, vocab, scale, want);
    return same(c, "loss", nats, ZERO_F32, want, rows, 1e-4f) &&
           part_backward(c, back, part[0], 0, cut, logits, vocab) &&
           part_backward(c, back, part[1], cut, vocab - cut, logits, vocab);
}

/* ---- All of them ----------------------------------------------------------------------------- */

static const struct {
    const char *name;
    bool (*run)(struct gpt2_case *c);
} cases[] = {
    {"embeddings", embed},
    {"gradient of the token embedding", embed_backward},
    {"gradient of the position embedding", position_backward},
    {"layer norm", norm},
    {"gradients of layer norm", norm_backward},
    {"gradient of a bias", bias_backward},
    {"rows of a bias", rows_of_bias},
    {"GELU and its gradient", gelu},
    {"attention and its gradients", attention},
    {"attention over several tiles", attention_tiles},
    {"cross-entropy and its gradient", loss},
};

uint32_t gpt2_n_cases(void)
{
    return sizeof cases / sizeof *cases;
}

const char *gpt2_case_name(uint32_t i)
{
    return cases[i].name;
}

bool gpt2_case_run(struct gpt2_case *c, uint32_t i, uint64_t seed, uint32_t dtype)
{
    c->seed = seed;
    c->dtype = dtype;
    c->n_arrays = 0;
    c->error[0] = '\0';
    return cases[i].run(c);
}
