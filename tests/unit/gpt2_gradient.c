/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPT-2 example's gradients against finite differences of a loss that is computed in double
 * precision by straightforward code which shares nothing with the example but the weights.
 */
#include <math.h>

#include "examples/gpt2/gemm.h"
#include "examples/gpt2/plain.h"
#include "examples/gpt2/random.h"
#include "examples/gpt2/vector.h"
#include "tests/tap.h"

enum { LAYERS = 2, HEADS = 2, WIDTH = 32, VOCAB = 48, CONTEXT = 96, BATCH = 2, SEQ = 70 };
enum { ROWS = BATCH * SEQ, MAX_TENSORS = 2 + LAYERS * GPT2_BLOCK_TENSORS + 2 };

static const uint64_t seed = 7;

/* ---- The reference: a loss in double precision ----------------------------------------------- */

struct weights {
    double *t[MAX_TENSORS];
};

static void linear(const double *w, const double *b, const double *x, int n_in, int n_out,
                   double *y)
{
    for (int o = 0; o < n_out; o++) {
        double sum = b ? b[o] : 0;
        for (int i = 0; i < n_in; i++)
            sum += w[o * n_in + i] * x[i];
        y[o] = sum;
    }
}

static void norm(const double *w, const double *b, const double *x, double *y)
{
    double mean = 0, variance = 0;
    for (int i = 0; i < WIDTH; i++)
        mean += x[i] / WIDTH;
    for (int i = 0; i < WIDTH; i++)
        variance += (x[i] - mean) * (x[i] - mean) / WIDTH;
    for (int i = 0; i < WIDTH; i++)
        y[i] = (x[i] - mean) / sqrt(variance + 1e-5) * w[i] + b[i];
}

/* Position t of a sequence sees positions 0 … t; qkv holds 3 * WIDTH numbers for each. */
static void attend(double (*qkv)[3 * WIDTH], int t, double *y)
{
    const int size = WIDTH / HEADS;
    for (int h = 0; h < HEADS; h++) {
        double p[SEQ], sum = 0;
        for (int j = 0; j <= t; j++) {
            p[j] = 0;
            for (int i = 0; i < size; i++)
                p[j] += qkv[t][h * size + i] * qkv[j][WIDTH + h * size + i];
            p[j] = exp(p[j] / sqrt(size));
            sum += p[j];
        }
        for (int i = 0; i < size; i++) {
            double out = 0;
            for (int j = 0; j <= t; j++)
                out += p[j] / sum * qkv[j][2 * WIDTH + h * size + i];
            y[h * size + i] = out;
        }
    }
}

static void block(double *const *w, double (*x)[WIDTH])
{
    static double qkv[SEQ][3 * WIDTH];
    double n[WIDTH], a[WIDTH], y[WIDTH], wide[4 * WIDTH];

    for (int t = 0; t < SEQ; t++) {
        norm(w[GPT2_LN1_W], w[GPT2_LN1_B], x[t], n);
        linear(w[GPT2_QKV_W], w[GPT2_QKV_B], n, WIDTH, 3 * WIDTH, qkv[t]);
    }
    for (int t = 0; t < SEQ; t++) {
        attend(qkv, t, a);
        linear(w[GPT2_ATT_W], w[GPT2_ATT_B], a, WIDTH, WIDTH, y);
        for (int i = 0; i < WIDTH; i++)
            x[t][i] += y[i];
        norm(w[GPT2_LN2_W], w[GPT2_LN2_B], x[t], n);
        linear(w[GPT2_FC_W], w[GPT2_FC_B], n, WIDTH, 4 * WIDTH, wide);
        for (int i = 0; i < 4 * WIDTH; i++)
            wide[i] *= 0.5 * (1 + tanh(sqrt(2 / M_PI) * (wide[i] + 0.044715 * pow(wide[i], 3))));
        linear(w[GPT2_PROJ_W], w[GPT2_PROJ_B], wide, 4 * WIDTH, WIDTH, y);
        for (int i = 0; i < WIDTH; i++)
            x[t][i] += y[i];
    }
}

static double reference(const struct weights *w, const int32_t *tokens, const int32_t *targets)
{
    static double x[SEQ][WIDTH];
    double total = 0;

    for (int b = 0; b < BATCH; b++) {
        for (int t = 0; t < SEQ; t++)
            for (int i = 0; i < WIDTH; i++)
                x[t][i] = w->t[0][tokens[b * SEQ + t] * WIDTH + i] + w->t[1][t * WIDTH + i];
        for (int l = 0; l < LAYERS; l++)
            block(w->t + 2 + l * GPT2_BLOCK_TENSORS, x);
        for (int t = 0; t < SEQ; t++) {
            double n[WIDTH], logits[VOCAB], sum = 0;
            norm(w->t[MAX_TENSORS - 2], w->t[MAX_TENSORS - 1], x[t], n);
            linear(w->t[0], NULL, n, WIDTH, VOCAB, logits);
            for (int v = 0; v < VOCAB; v++)
                sum += exp(logits[v]);
            total += log(sum) - logits[targets[b * SEQ + t]];
        }
    }
    return total / ROWS;
}

/* ---- The comparison -------------------------------------------------------------------------- */

struct fixture {
    struct gpt2_plain model;
    struct weights w;
    int32_t tokens[ROWS], targets[ROWS];
    float loss[ROWS];
};

static void fixture_open(struct fixture *f, uint32_t dtype, int recompute)
{
    const struct gpt2_shape s = {
        {"test", LAYERS, HEADS, WIDTH, CONTEXT, VOCAB}, BATCH, SEQ, dtype, recompute};
    const uint64_t data = gpt2_key(seed, GPT2_STREAM_DATA), noise = gpt2_key(seed, 99);

    if (gpt2_plain_create(&s, seed, &f->model))
        bail("no memory");
    for (uint32_t t = 0; t < MAX_TENSORS; t++) {
        struct gpt2_tensor tensor;
        gpt2_tensor(&s.model, t, &tensor);
        float *master = f->model.master + f->model.first[t];
        f->w.t[t] = calloc(tensor.elements, sizeof(double));
        /* Larger than at the start of a training, so that no gradient is close to zero. */
        for (uint64_t i = 0; i < tensor.elements; i++)
            master[i] += 0.35f * (float)(gpt2_uniform(noise, (uint64_t)t << 32 | i) - 0.5);
        if (f->model.values != f->model.master) {
            char *values = (char *)f->model.values + 2 * f->model.first[t];
            gpt2_store(dtype, values, master, tensor.elements, 0);
            gpt2_to_float(dtype, values, tensor.elements, master);
        }
        for (uint64_t i = 0; i < tensor.elements; i++)
            f->w.t[t][i] = (double)master[i];
    }
    for (int i = 0; i < ROWS; i++) {
        f->tokens[i] = (int32_t)gpt2_below(data, (uint64_t)i, VOCAB - 8);
        f->targets[i] = (int32_t)gpt2_below(data, (uint64_t)(1000 + i), VOCAB);
    }
}

static void fixture_close(struct fixture *f)
{
    for (uint32_t t = 0; t < MAX_TENSORS; t++)
        free(f->w.t[t]);
    gpt2_plain_destroy(&f->model);
}

static double train(struct fixture *f, float scale)
{
    double sum = 0;
    if (gpt2_train(&f->model.host, &f->model.shape, f->tokens, f->targets, scale, f->loss))
        bail("gpt2_train failed");
    for (int i = 0; i < ROWS; i++)
        sum += (double)f->loss[i];
    return sum / ROWS;
}

static double gradient_at(const struct fixture *f, uint32_t tensor, uint64_t element)
{
    const uint32_t dtype = f->model.shape.dtype;
    const size_t at = (f->model.first[tensor] + element) * zero_dtype_bytes(dtype);
    float x;

    gpt2_to_float(dtype, (const char *)f->model.gradients + at, 1, &x);
    return (double)x;
}

/*
 * Error of a tensor's gradient along `n` directions: two of all elements with random signs, then
 * single elements; relative to the gradient's norm.
 */
static double gradient_error(struct fixture *f, uint32_t t, float scale, int n)
{
    const uint64_t key = gpt2_key(seed, 5000 + t);
    const double h = 1e-5;
    struct gpt2_tensor tensor;
    double worst = 0, length = 0;

    gpt2_tensor(&f->model.shape.model, t, &tensor);
    for (uint64_t i = 0; i < tensor.elements; i++)
        length += pow(gradient_at(f, t, i) / (double)scale, 2);
    length = sqrt(length);
    for (int direction = 0; direction < n; direction++) {
        const uint64_t only = gpt2_below(key, (uint64_t)direction, tensor.elements);
        double ours = 0, side[2];
        for (int k = 0; k < 2; k++) {
            for (uint64_t i = 0; i < tensor.elements; i++) {
                double d = gpt2_random(key, 100 * i + (uint64_t)direction) & 1 ? 1 : -1;
                d *= direction < 2 ? 1 / sqrt((double)tensor.elements) : i == only;
                f->w.t[t][i] += k == 0 ? h * d : -2 * h * d;
                if (k == 0)
                    ours += d * gradient_at(f, t, i) / (double)scale;
            }
            side[k] = reference(&f->w, f->tokens, f->targets);
        }
        for (uint64_t i = 0; i < tensor.elements; i++)
            f->w.t[t][i] = (double)f->model.master[f->model.first[t] + i];
        worst = fmax(worst, fabs(ours - (side[0] - side[1]) / (2 * h)) / length);
    }
    return worst;
}

/* The key part of the bias of queries, keys and values has no gradient; the whole tensor does. */
static void check(uint32_t dtype, int recompute, float scale, double loss_bound, double bound)
{
    struct fixture f;
    double worst = 0;

    fixture_open(&f, dtype, recompute);
    const double loss = train(&f, scale), want = reference(&f.w, f.tokens, f.targets);
    ok(fabs(loss - want) < loss_bound, "%s: loss %.9f, reference %.9f", zero_dtype_name(dtype),
       loss, want);
    for (uint32_t t = 0; t < MAX_TENSORS; t++) {
        struct gpt2_tensor tensor;
        gpt2_tensor(&f.model.shape.model, t, &tensor);
        const double error = gradient_error(&f, t, scale, dtype == ZERO_F32 ? 6 : 2);
        worst = fmax(worst, error);
        ok(error < bound, "%s: gradient of %s, error %.2e", zero_dtype_name(dtype), tensor.name,
           error);
    }
    diag("%s: worst relative gradient error %.2e (seed %" PRIu64 ")", zero_dtype_name(dtype), worst,
         seed);
    fixture_close(&f);
}

static void same_bits_with_recomputation(uint32_t dtype)
{
    struct fixture a, b;

    fixture_open(&a, dtype, 0);
    fixture_open(&b, dtype, 1);
    train(&a, 1);
    train(&b, 1);
    ok(memcmp(a.loss, b.loss, sizeof a.loss) == 0 &&
           memcmp(a.model.gradients, b.model.gradients,
                  a.model.n_elements * zero_dtype_bytes(dtype)) == 0,
       "%s: the same bits with recomputation", zero_dtype_name(dtype));
    fixture_close(&a);
    fixture_close(&b);
}

int main(void)
{
    gpt2_gemm_init();
    check(ZERO_F32, 0, 1, 2e-6, 3e-6);
    check(ZERO_BF16, 0, 1, 2e-6, 4e-3);
    check(ZERO_F16, 0, 1024, 2e-6, 5e-4);
    same_bits_with_recomputation(ZERO_F32);
    same_bits_with_recomputation(ZERO_BF16);
    done();
}
