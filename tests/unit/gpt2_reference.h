/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorded run of PyTorch (tests/reference/gpt2_micro.py) and the comparison with it: losses of
 * every step, final weights by values and sums with random signs.
 */
#ifndef ZERO_TESTS_GPT2_REFERENCE_H
#define ZERO_TESTS_GPT2_REFERENCE_H

#include <jansson.h>
#include <math.h>

#include "examples/gpt2/model.h"
#include "examples/gpt2/random.h"
#include "tests/tap.h"

enum { GPT2_STREAM_SIGNS = 2000 };

struct reference {
    json_t *file, *settings;
    struct gpt2_config model;
    double worst;    /* loss error over all steps */
    uint32_t n_late; /* steps with a loss error above the bound */
};

static double number(const json_t *object, const char *name)
{
    const json_t *x = json_object_get(object, name);
    if (!json_is_number(x))
        bail("the reference file lacks a number");
    return json_number_value(x);
}

static double setting(const struct reference *r, const char *name)
{
    return number(r->settings, name);
}

static const char *reference_top(void)
{
    const char *top = getenv("ZERO_TEST_TOP");
    return top ? top : ".";
}

static void reference_open(struct reference *r)
{
    char path[4096];

    memset(r, 0, sizeof *r);
    snprintf(path, sizeof path, "%s/tests/reference/gpt2_micro.json", reference_top());
    r->file = json_load_file(path, 0, NULL);
    r->settings = json_object_get(r->file, "settings");
    if (!json_is_object(r->settings) || gpt2_config_preset("micro", &r->model))
        bail("no reference");
}

/* The loss of a step; bound, or `factor` times the error of PyTorch in float32, is allowed. */
static void reference_loss(struct reference *r, uint32_t step, double loss, double bound,
                           double factor)
{
    const json_t *losses = json_object_get(r->file, "losses");
    const json_t *errors = json_object_get(r->file, "fp32_loss_errors");
    const double pytorch = json_number_value(json_array_get(errors, step));
    const double error = fabs(loss - json_number_value(json_array_get(losses, step)));

    r->worst = fmax(r->worst, error);
    if (!(error <= fmax(bound, factor * pytorch))) {
        r->n_late++;
        diag("step %u: loss error %.2e, of PyTorch %.2e", step, error, pytorch);
    }
}

/*
 * Final weights of tensor t. The biases of the keys (in the middle of one tensor) do not count:
 * they are overwritten with zeros, as they are in the reference.
 */
static void reference_weights(const struct reference *r, uint32_t t, float *x)
{
    const json_t *want = json_array_get(json_object_get(r->file, "tensors"), t);
    const json_t *values = json_object_get(want, "values"), *sums = json_object_get(want, "sums");
    const uint64_t key = gpt2_key((uint64_t)setting(r, "seed"), GPT2_STREAM_SIGNS + t);
    const double pytorch = number(want, "fp32_value_error");
    const double pytorch_sum = number(want, "fp32_sum_error");
    double value = 0, sum = 0;
    struct gpt2_tensor tensor;

    gpt2_tensor(&r->model, t, &tensor);
    if (strstr(tensor.name, "c_attn.bias"))
        memset(x + r->model.width, 0, r->model.width * sizeof *x);
    for (size_t i = 0; i < json_array_size(values); i++) {
        const size_t at = i * tensor.elements / json_array_size(values);
        value = fmax(value, fabs((double)x[at] - json_number_value(json_array_get(values, i))));
    }
    for (size_t k = 0; k < json_array_size(sums); k++) {
        double total = 0;
        for (uint64_t i = 0; i < tensor.elements; i++)
            total += gpt2_random(key, i) >> k & 1 ? (double)x[i] : -(double)x[i];
        sum = fmax(sum, fabs(total - json_number_value(json_array_get(sums, k))));
    }
    ok(value <= fmax(1e-5, 2 * pytorch) &&
           sum <= fmax(1e-5 * sqrt((double)tensor.elements), 2 * pytorch_sum),
       "weights of %s: error %.1e (PyTorch %.1e), of sums %.1e (%.1e)", tensor.name, value, pytorch,
       sum, pytorch_sum);
}

#endif
