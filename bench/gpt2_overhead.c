/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the runtime costs at one rank: the same training of GPT-2 with the library and as a plain
 * loop, a step of each in turn, so that both see the same machine. One thread each.
 *
 *     gpt2_overhead [PRESET [STEPS]]
 *
 * Prints the medians and their ratio, of whole steps and of the passes alone (the optimizers are
 * not the same code); status 1 if the losses differ by more than rounding.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "examples/gpt2/gemm.h"
#include "examples/gpt2/plain.h"
#include "examples/gpt2/random.h"
#include "examples/gpt2/session.h"

struct bench {
    struct gpt2_options options;
    struct gpt2_session session;
    struct gpt2_plain plain;
    int32_t *tokens, *targets;
    float *loss;
};

static double mean_loss(const struct bench *b)
{
    double sum = 0;
    for (size_t i = 0; i < gpt2_rows(&b->session.shape); i++)
        sum += (double)b->loss[i];
    return sum / (double)gpt2_rows(&b->session.shape);
}

/* Wall and processor time, of all threads: the second tells the cost also on a busy machine. */
struct moment {
    double wall, cpu;
};

static struct moment now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (struct moment){(double)gpt2_now_ns() * 1e-9,
                           (double)t.tv_sec + (double)t.tv_nsec * 1e-9};
}

/* Both kinds of steps take the time after the passes, before the optimizer. */
static int library_step(struct bench *b, struct moment *passed)
{
    struct gpt2_session *s = &b->session;
    int err = zero_begin(s->rt, ZERO_TRAIN, 1);
    if (!err)
        err = gpt2_train(&s->host, &s->shape, b->tokens, b->targets, 1, b->loss);
    *passed = now();
    return err ? err : zero_update(s->rt, NULL);
}

static int plain_step(struct bench *b, struct moment *passed)
{
    const struct gpt2_adamw adamw = {1e-3f, 0.1f, 0.9f, 0.95f, 1e-8f, 1};
    int err = gpt2_train(&b->plain.host, &b->plain.shape, b->tokens, b->targets, 1, b->loss);
    *passed = now();
    if (!err)
        gpt2_plain_update(&b->plain, &adamw, 1);
    return err;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What is measured of a step: seconds of each. */
enum { WALL, WALL_PASSES, CPU, CPU_PASSES, N_FIGURES };

static int timed_step(struct bench *b, int (*step)(struct bench *, struct moment *), double **to,
                      int i, double *loss)
{
    const struct moment start = now();
    struct moment passed;
    int err = step(b, &passed);
    const struct moment end = now();

    *loss = mean_loss(b);
    if (i < 0)
        return err;
    to[WALL][i] = end.wall - start.wall;
    to[WALL_PASSES][i] = passed.wall - start.wall;
    to[CPU][i] = end.cpu - start.cpu;
    to[CPU_PASSES][i] = passed.cpu - start.cpu;
    return err;
}

static void compare(const char *what, double *library, double *plain, int n)
{
    qsort(library, (size_t)n, sizeof *library, by_value);
    qsort(plain, (size_t)n, sizeof *plain, by_value);
    printf("%-32s library %.4f s, plain loop %.4f s: median %+.2f %%, fastest %+.2f %%\n", what,
           library[n / 2], plain[n / 2], 100 * (library[n / 2] / plain[n / 2] - 1),
           100 * (library[0] / plain[0] - 1));
}

static int measure(struct bench *b, int n)
{
    static const char *const names[N_FIGURES] = {"wall time of a step", "  without the optimizer",
                                                 "processor time of a step",
                                                 "  without the optimizer"};
    double *all = calloc((size_t)n * 2 * N_FIGURES, sizeof *all), worst = 0;
    double *library[N_FIGURES], *plain[N_FIGURES];
    int err = all ? 0 : -1;

    for (int f = 0; f < N_FIGURES && !err; f++) {
        library[f] = all + n * 2 * f;
        plain[f] = library[f] + n;
    }
    for (int i = -1; i < n && !err; i++) { /* the first pair of steps warms up */
        double with, without;
        err = timed_step(b, library_step, library, i, &with);
        if (!err)
            err = timed_step(b, plain_step, plain, i, &without);
        if (!err)
            worst = fmax(worst, fabs(with - without));
    }
    for (int f = 0; f < N_FIGURES && !err; f++)
        compare(names[f], library[f], plain[f], n);
    if (!err) {
        printf("losses differ by at most %.1e\n", worst);
        err = worst > 0.05;
    }
    free(all);
    return err;
}

static int prepare(struct bench *b, const char *preset)
{
    static const struct zero_setting settings[] = {{"threads", "1"}, {"clip", "1"}};
    struct zero_config base = ZERO_CONFIG_INIT;
    char name[32], text[512];
    char *argv[] = {(char *)"gpt2_overhead", (char *)"--preset", name, (char *)"--memory-table",
                    NULL};

    snprintf(name, sizeof name, "%s", preset);
    if (gpt2_options_parse(&b->options, 4, argv, text, sizeof text)) {
        fprintf(stderr, "%s\n", text);
        return 1;
    }
    base.settings = settings;
    base.n_settings = 2;
    if (gpt2_session_open(&b->session, &b->options, &base) ||
        gpt2_session_commit(&b->session, &b->options)) {
        fprintf(stderr, "%s\n", zero_last_error());
        return 1;
    }
    const size_t rows = gpt2_rows(&b->session.shape);
    const uint64_t key = gpt2_key(1, GPT2_STREAM_DATA);
    b->tokens = calloc(rows, sizeof *b->tokens);
    b->targets = calloc(rows, sizeof *b->targets);
    b->loss = calloc(rows, sizeof *b->loss);
    if (!b->tokens || !b->targets || !b->loss ||
        gpt2_plain_create(&b->session.shape, b->options.seed, &b->plain))
        return 1;
    for (size_t i = 0; i < rows; i++) {
        b->tokens[i] = (int32_t)gpt2_below(key, i, 256);
        b->targets[i] = (int32_t)gpt2_below(key, i + rows, 256);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static struct bench b;
    const int steps = argc > 2 ? atoi(argv[2]) : 7;
    int err;

    gpt2_gemm_init();
    gpt2_gemm16_init();
    err = steps < 1 || prepare(&b, argc > 1 ? argv[1] : "124M");
    if (!err)
        err = measure(&b, steps);
    gpt2_plain_destroy(&b.plain);
    gpt2_session_close(&b.session);
    free(b.loss);
    free(b.targets);
    free(b.tokens);
    return err ? 1 : 0;
}
