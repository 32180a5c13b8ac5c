/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zero-gpt2 through the library, on one and several ranks, against the float64 run of PyTorch:
 * losses of 100 steps and final weights, as it writes them to files.
 */
#include "tests/unit/gpt2_reference.h"

static char folder[] = "/tmp/gpt2_pytorch_XXXXXX";

static void show_output(void)
{
    char path[64], line[1024];

    snprintf(path, sizeof path, "%s/out", folder);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        diag("%.*s", (int)strcspn(line, "\n"), line);
    if (f)
        fclose(f);
}

/* Runs zero-gpt2 with the settings of the reference; the files json and weights are its results. */
static bool run(const struct reference *r, int ranks, int stage, const char *dtype)
{
    const char *build = getenv("ZERO_TEST_BUILD");
    char launch[4096] = "", command[16384];

    if (!build)
        build = ".";
    if (ranks > 1)
        snprintf(launch, sizeof launch, "'%s/zero' run -n %d --", build, ranks);
    snprintf(command, sizeof command,
             "%s '%s/zero-gpt2' --preset micro --data '%s/LICENSE' --val 0 --stage %d --dtype %s "
             "--batch %.0f --steps %.0f --warmup %.0f --lr %g --clip %g --seed %.0f "
             "--json '%s/json' --weights-out '%s/weights' >'%s/out' 2>&1",
             launch, build, reference_top(), stage, dtype, setting(r, "batch") / ranks,
             setting(r, "steps"), setting(r, "warmup"), setting(r, "lr"), setting(r, "clip"),
             setting(r, "seed"), folder, folder, folder);
    const int status = system(command);
    if (!ok(status == 0, "%d ranks, stage %d, %s: it runs", ranks, stage, dtype))
        show_output();
    return status == 0;
}

static void compare_losses(struct reference *r, double bound, double factor, const char *what)
{
    char path[64], line[4096];
    uint32_t step = 0;

    snprintf(path, sizeof path, "%s/json", folder);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        json_t *o = json_loads(line, 0, NULL);
        const char *type = json_string_value(json_object_get(o, "type"));
        if (type && strcmp(type, "step") == 0)
            reference_loss(r, step++, number(o, "loss"), bound, factor);
        json_decref(o);
    }
    if (f)
        fclose(f);
    is_int(step, (int)setting(r, "steps"), "%s: a line for each step", what);
    ok(step && r->n_late == 0, "%s: loss error at most %.2e", what, r->worst);
}

/* The file of weights: length of the header, header, values. */
static void compare_weights(const struct reference *r)
{
    char path[64];
    uint64_t header = 0;

    snprintf(path, sizeof path, "%s/weights", folder);
    FILE *f = fopen(path, "rb");
    if (!f || fread(&header, sizeof header, 1, f) != 1 || fseek(f, (long)header, SEEK_CUR))
        bail("no weights");
    for (uint32_t t = 0; t < gpt2_n_tensors(&r->model); t++) {
        struct gpt2_tensor tensor;
        gpt2_tensor(&r->model, t, &tensor);
        float *x = calloc(tensor.elements, sizeof *x);
        if (!x || fread(x, sizeof *x, tensor.elements, f) != tensor.elements)
            bail("the weights end early");
        reference_weights(r, t, x);
        free(x);
    }
    ok(fgetc(f) == EOF, "nothing follows the weights");
    fclose(f);
}

static void check(int ranks, int stage, const char *dtype, double bound, double factor)
{
    struct reference r;
    char what[64];

    reference_open(&r);
    snprintf(what, sizeof what, "%d ranks, stage %d, %s", ranks, stage, dtype);
    if (run(&r, ranks, stage, dtype)) {
        compare_losses(&r, bound, factor, what);
        if (strcmp(dtype, "fp32") == 0)
            compare_weights(&r);
    }
    json_decref(r.file);
}

int main(void)
{
    static const char *const names[] = {"json", "weights", "out"};
    char path[64];

    if (!mkdtemp(folder))
        bail("cannot make a folder");
    check(1, 3, "fp32", 1e-5, 2);
    check(1, 3, "bf16", 1e-2, 0);
    check(2, 0, "fp32", 1e-5, 2);
    check(2, 3, "fp32", 1e-5, 2);
    check(2, 2, "bf16", 1e-2, 0);
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
    done();
}
