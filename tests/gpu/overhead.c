/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the runtime costs a step of GPT-2 on one GPU: the same passes and the same kernels of the
 * update with the library, and as a plain program that has all its memory in one piece; a step of
 * each in turn.
 *
 *     overhead PRESET BATCH SEQ STEPS CUBLAS        (CUBLAS "": that of the machine)
 *
 * Prints a row of a Markdown table for the step, and one each for its passes and its update, of
 * steps that wait for the GPU in between; then how far the losses were apart at most, for whoever
 * runs it to judge.
 */
#include "device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/gpt2/random.h"
#include "examples/gpt2/session.h"
#include "plugins/cuda/kernel/launch.h"

/* At larger ones losses leap, and with them whatever rounds differently. */
#define RATE "1e-5"

/* The model without the library. */
struct plain {
    struct gpt2_shape shape;
    struct gpt2_gpu gpu;
    struct gpt2_host host;
    uint64_t *first, n; /* elements of all tensors, each padded to 4,096 */
    char *values, *gradients, *regions[256];
    float *master, *m, *v; /* the master in full, as the library keeps it on a device */
    double *partial, *total;
    struct zero_scalars *scalars;
    bool written; /* the token embedding has its first gradient of this step */
};

static struct gpu gpu;
static int32_t *tokens, *targets;
static float *loss;

static void fail(const char *what)
{
    printf("Bail out! %s\n", what);
    exit(1);
}

/* ---- The plain program ----------------------------------------------------------------------- */

static int acquire(void *arg, struct gpt2_use use, struct gpt2_param *params)
{
    struct plain *p = arg;
    const uint32_t from = gpt2_first_tensor(use.unit);
    const uint32_t to = from + gpt2_unit_tensors(&p->shape.model, use.unit);
    const float beta = use.unit == GPT2_UNIT_WTE && p->written ? 1 : 0;

    for (uint32_t t = from; t < to; t++)
        params[t - from] = (struct gpt2_param){ZERO_BF16, beta, p->values + 2 * p->first[t],
                                               p->gradients + 2 * p->first[t]};
    if (use.unit == GPT2_UNIT_WTE)
        p->written = use.backward;
    return 0;
}

static int release(void *arg, struct gpt2_use use)
{
    (void)arg, (void)use;
    return 0;
}

static void *region_of(void *arg, uint32_t region)
{
    return ((struct plain *)arg)->regions[region];
}

static int wait_for_it(void *arg)
{
    (void)arg;
    gpu_wait(&gpu);
    return 0;
}

static void *zeroed(size_t bytes)
{
    void *p = gpu_alloc(&gpu, bytes);

    gpu_check(&gpu, gpu.driver.memory_set((uintptr_t)p, 0, bytes, gpu.stream), "zeros");
    return p;
}

static void initial_values(struct plain *p)
{
    const struct gpt2_config *c = &p->shape.model;

    for (uint32_t i = 0; i < gpt2_n_tensors(c); i++) {
        struct gpt2_tensor t;
        gpt2_tensor(c, i, &t);
        float *x = malloc(t.elements * sizeof *x);
        uint16_t *half = malloc(t.elements * sizeof *half);
        if (!x || !half)
            fail("no memory for the initial values");
        gpt2_initial(&t, i, 1, 0, t.elements, x);
        for (uint64_t k = 0; k < t.elements; k++)
            half[k] = zero_bf16_from_float(x[k]);
        gpu_copy(&gpu, p->values + 2 * p->first[i], half, 2 * t.elements);
        gpu_copy(&gpu, p->master + p->first[i], x, t.elements * sizeof *x);
        gpu_wait(&gpu);
        free(x), free(half);
    }
}

static void plain_open(struct plain *p, const struct gpt2_shape *s, const char *cublas)
{
    const uint32_t n_tensors = gpt2_n_tensors(&s->model);
    const struct zero_scalars start = {.loss_scale = 1};

    *p = (struct plain){.shape = *s};
    p->host = (struct gpt2_host){p, acquire, release, region_of, &gpt2_gpu_math, &p->gpu};
    if (gpt2_gpu_open(&p->gpu, s, cublas, gpu.stream, wait_for_it, p))
        fail(p->gpu.cuda.error);
    p->first = calloc(n_tensors, sizeof *p->first);
    for (uint32_t i = 0; i < n_tensors; i++) {
        struct gpt2_tensor t;
        gpt2_tensor(&s->model, i, &t);
        p->first[i] = p->n;
        p->n += (t.elements + 4095) / 4096 * 4096;
    }
    p->values = zeroed(2 * p->n);
    p->gradients = zeroed(2 * p->n);
    p->master = zeroed(4 * p->n);
    p->m = zeroed(4 * p->n);
    p->v = zeroed(4 * p->n);
    p->partial = zeroed(p->n / ZERO_SUMSQ_BLOCK * sizeof *p->partial);
    p->total = zeroed(sizeof *p->total);
    p->scalars = zeroed(sizeof start);
    gpu_copy(&gpu, p->scalars, &start, sizeof start);
    for (uint32_t r = 0; r < gpt2_n_regions(&s->model); r++) {
        const size_t bytes = gpt2_gpu_math.region_bytes(s, r);
        p->regions[r] = bytes ? gpu_alloc(&gpu, bytes) : NULL;
    }
    initial_values(p);
}

static void plain_close(struct plain *p)
{
    gpt2_gpu_close(&p->gpu);
    for (uint32_t r = 0; r < gpt2_n_regions(&p->shape.model); r++)
        if (p->regions[r])
            gpu_free(&gpu, p->regions[r]);
    void *all[] = {p->values, p->gradients, p->master, p->m,
                   p->v,      p->partial,   p->total,  p->scalars};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        gpu_free(&gpu, all[i]);
    free(p->first);
}

static void kernel(uint32_t which, const void *args, uint64_t bytes)
{
    static const struct zero_host host = {.size = sizeof host};
    static struct zero__cuda_launch l;
    const struct zero_launch launch = {.kernel = which, .args = args, .args_bytes = bytes};
    uint32_t n = 0;

    if (zero__cuda_launch_plan(&host, (uint32_t)gpu.multiprocessors, &launch, &l, 1, &n))
        fail("a kernel of the update cannot be planned");
    gpu_launch(&gpu, zero__cuda_kernel_name(l.kernel), l.grid, l.block[0], l.shared_bytes, l.params,
               l.params_bytes);
}

static void plain_update(struct plain *p)
{
    const struct gpt2_config *c = &p->shape.model;
    const struct zero_sumsq_args squares = {p->partial, p->gradients, p->n, ZERO_BF16, 0};
    const struct zero_total_args total = {p->total, p->partial, p->n / ZERO_SUMSQ_BLOCK};
    const struct zero_scalars_args scalars = {
        .scalars = p->scalars, .sums = p->total, .ranks = 1, .inverse = 1, .clip = 1};

    kernel(ZERO_KERNEL_SUMSQ, &squares, sizeof squares);
    kernel(ZERO_KERNEL_TOTAL, &total, sizeof total);
    kernel(ZERO_KERNEL_SCALARS, &scalars, sizeof scalars);
    struct zero_update_args u[ZERO_UPDATES_MOST];
    struct zero_updates_args updates = {u, ZERO_KERNEL_ADAMW, 0};
    for (uint32_t i = 0; i < gpt2_n_tensors(c); i++) {
        struct gpt2_tensor t;
        gpt2_tensor(c, i, &t);
        const uint64_t at = p->first[i];
        u[updates.n++] = (struct zero_update_args){.p = p->master + at,
                                                   .m = p->m + at,
                                                   .v = p->v + at,
                                                   .grad = p->gradients + 2 * at,
                                                   .out = p->values + 2 * at,
                                                   .count = t.elements,
                                                   .grad_dtype = ZERO_BF16,
                                                   .out_dtype = ZERO_BF16,
                                                   .scalars = p->scalars,
                                                   .hyper = {.lr = (float)atof(RATE),
                                                             .weight_decay = t.decay ? 0.1f : 0,
                                                             .beta1 = 0.9f,
                                                             .beta2 = 0.95f,
                                                             .eps = 1e-8f}};
        if (updates.n == ZERO_UPDATES_MOST || i + 1 == gpt2_n_tensors(c)) {
            kernel(ZERO_KERNEL_UPDATES, &updates, sizeof updates);
            updates.n = 0;
        }
    }
    p->written = false;
    gpu_wait(&gpu);
}

static void plain_step(struct plain *p)
{
    if (gpt2_train(&p->host, &p->shape, tokens, targets, 1, loss))
        fail(p->gpu.cuda.error);
    plain_update(p);
}

/* ---- With the library ------------------------------------------------------------------------ */

static void check_library(const struct gpt2_session *s, int err, const char *text)
{
    if (err)
        fail(*text ? text : *gpt2_session_error(s) ? gpt2_session_error(s) : zero_last_error());
}

static void library_open(struct gpt2_session *s, const struct gpt2_options *o)
{
    static const struct zero_setting settings[] = {
        {"device", "cuda:0"}, {"clip", "1"}, {"lr", RATE}};
    struct zero_config base = ZERO_CONFIG_INIT;
    char text[512] = "";

    base.settings = settings;
    base.n_settings = 3;
    check_library(s, gpt2_session_open(s, o, &base), text);
    check_library(s, gpt2_session_device(s, o, text, sizeof text), text);
    check_library(s, gpt2_session_commit(s, o), text);
}

static void library_step(struct gpt2_session *s)
{
    int err = zero_begin(s->rt, ZERO_TRAIN, 1);

    if (!err)
        err = gpt2_train(&s->host, &s->shape, tokens, targets, 1, loss);
    if (!err)
        err = zero_update(s->rt, NULL);
    check_library(s, err, "");
}

/* ---- Both ------------------------------------------------------------------------------------ */

static double mean_loss(size_t rows)
{
    double sum = 0;

    for (size_t i = 0; i < rows; i++)
        sum += (double)loss[i];
    return sum / (double)rows;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_value);
    return x[n / 2];
}

/* The parts of a step, which wait for the GPU; a step of each in turn. */
enum part { PASSES, UPDATE, N_PARTS };

static void library_parts(struct gpt2_session *s, double seconds[N_PARTS])
{
    const uint64_t start = gpt2_now_ns();
    int err = zero_begin(s->rt, ZERO_TRAIN, 1);

    if (!err)
        err = gpt2_train(&s->host, &s->shape, tokens, targets, 1, loss);
    if (!err)
        err = zero_stream_sync(s->rt, s->stream);
    const uint64_t middle = gpt2_now_ns();
    if (!err)
        err = zero_update(s->rt, NULL);
    check_library(s, err, "");
    seconds[PASSES] = (double)(middle - start) * 1e-9;
    seconds[UPDATE] = (double)(gpt2_now_ns() - middle) * 1e-9;
}

static void plain_parts(struct plain *p, double seconds[N_PARTS])
{
    const uint64_t start = gpt2_now_ns();

    if (gpt2_train(&p->host, &p->shape, tokens, targets, 1, loss))
        fail(p->gpu.cuda.error);
    gpu_wait(&gpu);
    const uint64_t middle = gpt2_now_ns();
    plain_update(p);
    seconds[PASSES] = (double)(middle - start) * 1e-9;
    seconds[UPDATE] = (double)(gpt2_now_ns() - middle) * 1e-9;
}

static void parts_print(struct gpt2_session *s, struct plain *p, int n, double *scratch)
{
    static const char *const names[N_PARTS] = {"its passes alone", "its update alone"};
    double(*with)[N_PARTS] = calloc((size_t)n, sizeof *with);
    double(*without)[N_PARTS] = calloc((size_t)n, sizeof *without);

    if (!with || !without)
        fail("no memory for the parts of steps");
    for (int i = 0; i < n; i++) {
        library_parts(s, with[i]);
        plain_parts(p, without[i]);
    }
    for (int part = 0; part < N_PARTS; part++) {
        double x, y;
        for (int i = 0; i < n; i++)
            scratch[i] = with[i][part];
        x = median(scratch, n);
        for (int i = 0; i < n; i++)
            scratch[i] = without[i][part];
        y = median(scratch, n);
        printf("| GPT-2 %s, %s | %.2f ms | without the runtime: %.2f ms | %.3f | |\n",
               s->shape.model.name, names[part], x * 1e3, y * 1e3, x / y);
    }
    free(with), free(without);
}

/* Returns how far the losses were apart at most. */
static double measure(struct gpt2_session *s, struct plain *p, int n, double with[],
                      double without[])
{
    const size_t rows = gpt2_rows(&s->shape);
    double apart = 0;

    for (int i = -2; i < n; i++) { /* the first steps warm up */
        const uint64_t start = gpt2_now_ns();
        library_step(s);
        const uint64_t middle = gpt2_now_ns();
        const double theirs = mean_loss(rows);
        plain_step(p);
        const uint64_t end = gpt2_now_ns();
        const double d = fabs(theirs - mean_loss(rows));
        apart = isnan(d) || d > apart ? d : apart; /* what is no number stays so */
        if (i < 0)
            continue;
        with[i] = (double)(middle - start) * 1e-9;
        without[i] = (double)(end - middle) * 1e-9;
    }
    return apart;
}

int main(int argc, char **argv)
{
    struct gpt2_options o = {.dtype = ZERO_BF16, .seed = 1, .weight_decay = 0.1, .beta2 = 0.95};
    static struct gpt2_session session;
    static struct plain plain;
    char why[512];

    setvbuf(stdout, NULL, _IOLBF, 0); /* what it has measured is kept, whatever comes then */
    if (argc != 6 || gpt2_config_preset(argv[1], &o.model) || o.model.n_layers > 200)
        fail("overhead PRESET BATCH SEQ STEPS CUBLAS");
    o.batch = strtoull(argv[2], NULL, 10);
    o.seq = strtoull(argv[3], NULL, 10);
    o.cublas = *argv[5] ? argv[5] : NULL;
    const int n = atoi(argv[4]);
    const size_t rows = o.batch * o.seq;
    double *times = calloc((size_t)n * 2, sizeof *times);
    tokens = calloc(rows, sizeof *tokens);
    targets = calloc(rows, sizeof *targets);
    loss = calloc(rows, sizeof *loss);
    if (n < 1 || !times || !tokens || !targets || !loss)
        fail("no memory for a batch");
    for (size_t i = 0; i < rows; i++) {
        tokens[i] = (int32_t)gpt2_below(gpt2_key(1, 1), i, 256);
        targets[i] = (int32_t)gpt2_below(gpt2_key(1, 1), i + rows, 256);
    }
    if (!gpu_open(&gpu, why, sizeof why)) {
        fprintf(stderr, "overhead: %s\n", why);
        return 77;
    }
    library_open(&session, &o);
    plain_open(&plain, &session.shape, o.cublas);
    const double apart = measure(&session, &plain, n, times, times + n);
    const double with = median(times, n), without = median(times + n, n);
    printf("| GPT-2 %s step, %llu x %llu tokens, %.0f tokens/s | %.2f ms | without the runtime: "
           "%.2f ms | %.3f | ≤ 1.05 |\n",
           o.model.name, (unsigned long long)o.batch, (unsigned long long)o.seq,
           (double)rows / with, with * 1e3, without * 1e3, with / without);
    parts_print(&session, &plain, n, times);
    printf("losses apart %.1e\n", apart);
    plain_close(&plain);
    gpt2_session_close(&session);
    gpu_close(&gpu);
    free(times), free(tokens), free(targets), free(loss);
    return 0;
}
