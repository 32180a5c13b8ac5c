/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank of a job that bench/growth.py starts, to measure what a model of many small units costs
 * the runtime. The rank registers UNITS units that share PARAMETERS parameters of ELEMENTS
 * elements, and declares an activation for each of the first ACTIVATIONS units (0). It commits, and
 * runs STEPS training steps that compute nothing. Rank 0 prints one line of JSON:
 *
 *     growth UNITS PARAMETERS ELEMENTS STEPS [ACTIVATIONS]
 *
 *     add_s     seconds to register all units and parameters
 *     commit_s  seconds of zero_commit()
 *     uses_s    seconds of all acquires and releases of a step, the median of the steps
 *     update_s  seconds of zero_update(), the median of the steps
 *     bytes     bytes that malloc() holds for the runtime after the steps
 */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <zero/zero.h>

#define MOST_STEPS 1000

struct figures {
    double add_s, commit_s;
    double uses_s[MOST_STEPS], update_s[MOST_STEPS];
    size_t bytes;
};

struct model {
    uint32_t units, params, elements, steps, activations;
};

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static size_t malloc_bytes(void)
{
    struct mallinfo2 m = mallinfo2();

    return m.uordblks + m.hblkhd;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, uint32_t n)
{
    qsort(values, n, sizeof *values, by_value);
    return values[n / 2];
}

/* Parameters are spread evenly: unit u has those from u * params / units on. */
static int model_add(struct zero_runtime *rt, const struct model *m)
{
    char name[64];
    int err = 0;

    for (uint32_t u = 0; u < m->units && !err; u++) {
        uint32_t unit, first = (uint32_t)((uint64_t)u * m->params / m->units);
        uint32_t end = (uint32_t)((uint64_t)(u + 1) * m->params / m->units);
        snprintf(name, sizeof name, "model.layers.%u", u);
        err = zero_unit_add(rt, name, &unit);
        for (uint32_t p = first; p < end && !err; p++) {
            struct zero_param_desc d = {.size = sizeof d,
                                        .name = name,
                                        .dtype = ZERO_BF16,
                                        .n_dims = 1,
                                        .dims = {m->elements}};
            uint32_t param;
            snprintf(name, sizeof name, "model.layers.%u.weight.%u", u, p);
            err = zero_param_add(rt, unit, &d, &param);
        }
    }
    return err;
}

/* Declares an activation from each unit's forward to its backward use; none is saved or copied. */
static int activations_add(struct zero_runtime *rt, const struct model *m)
{
    char name[64];
    int err = 0;

    for (uint32_t u = 0; u < m->activations && !err; u++) {
        struct zero_activation_desc d = {.size = sizeof d,
                                         .name = name,
                                         .bytes = 4096,
                                         .from_unit = u,
                                         .from_pass = ZERO_FORWARD,
                                         .to_unit = u,
                                         .to_pass = ZERO_BACKWARD};
        uint32_t id;
        snprintf(name, sizeof name, "model.layers.%u.input", u);
        err = zero_activation_add(rt, &d, &id);
    }
    return err;
}

static int uses(struct zero_runtime *rt, uint32_t units)
{
    int err = 0;

    for (uint32_t i = 0; i < 2 * units && !err; i++) {
        uint32_t pass = i < units ? ZERO_FORWARD : ZERO_BACKWARD;
        uint32_t unit = i < units ? i : 2 * units - 1 - i;
        err = zero_acquire(rt, unit, pass, NULL);
        if (!err)
            err = zero_release(rt, unit, pass, NULL);
    }
    return err;
}

static int step(struct zero_runtime *rt, uint32_t units, double *uses_s, double *update_s)
{
    int err = zero_begin(rt, ZERO_TRAIN, 1);
    double began = now_s();

    if (!err)
        err = uses(rt, units);
    double between = now_s();
    if (!err)
        err = zero_update(rt, NULL);
    *uses_s = between - began;
    *update_s = now_s() - between;
    return err;
}

static int measure(struct zero_runtime *rt, const struct model *m, size_t before, struct figures *f)
{
    double began = now_s(), added;
    int err = model_add(rt, m);

    if (!err)
        err = activations_add(rt, m);
    added = now_s();
    if (!err)
        err = zero_commit(rt);
    f->add_s = added - began;
    f->commit_s = now_s() - added;
    for (uint32_t i = 0; i < m->steps && !err; i++)
        err = step(rt, m->units, &f->uses_s[i], &f->update_s[i]);
    f->bytes = malloc_bytes() - before;
    return err;
}

static uint32_t number(const char *text)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);

    return *end || n > 1u << 30 ? 0 : (uint32_t)n;
}

int main(int argc, char **argv)
{
    static struct figures f;
    struct model m = {0};
    struct zero_runtime *rt = NULL;
    size_t before = malloc_bytes();

    if (argc == 5 || argc == 6)
        m = (struct model){number(argv[1]), number(argv[2]), number(argv[3]), number(argv[4]),
                           argc == 6 ? number(argv[5]) : 0};
    if (!m.units || m.activations > m.units || m.params < m.units || !m.elements || !m.steps ||
        m.steps > MOST_STEPS) {
        fprintf(stderr,
                "usage: growth UNITS PARAMETERS ELEMENTS STEPS (at most %d) "
                "[ACTIVATIONS]\n",
                MOST_STEPS);
        return 2;
    }
    int err = zero_create(NULL, &rt);
    if (!err)
        err = measure(rt, &m, before, &f);
    if (err)
        fprintf(stderr, "growth: %s\n", zero_last_error());
    else if (zero_rank(rt) == 0)
        printf("{\"add_s\": %.9f, \"commit_s\": %.9f, \"uses_s\": %.9f, \"update_s\": %.9f, "
               "\"bytes\": %zu}\n",
               f.add_s, f.commit_s, median(f.uses_s, m.steps), median(f.update_s, m.steps),
               f.bytes);
    zero_destroy(rt);
    return err != 0;
}
