/* SPDX-License-Identifier: Apache-2.0 */
/* Registration of the model with the library; see session.h. */
#include "session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gemm.h"

struct gpt2_initialiser {
    struct gpt2_tensor tensor;
    uint32_t index;
    uint64_t seed;
};

uint64_t gpt2_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- The host of the passes ------------------------------------------------------------------ */

static int acquire(void *arg, struct gpt2_use use, struct gpt2_param *params)
{
    struct gpt2_session *s = arg;
    const uint32_t from = gpt2_first_tensor(use.unit);
    const uint32_t to = from + gpt2_unit_tensors(&s->shape.model, use.unit);

    if (s->stop && *s->stop)
        return -EINTR;
    int err = zero_acquire(s->rt, s->units[use.unit], use.backward ? ZERO_BACKWARD : ZERO_FORWARD,
                           s->stream);
    if (err)
        return err;
    for (uint32_t t = from; t < to; t++) {
        struct gpt2_param *p = &params[t - from];
        *p = (struct gpt2_param){.dtype = s->shape.dtype};
        p->value = zero_param(s->rt, s->params[t]);
        if (use.backward)
            p->gradient = zero_grad(s->rt, s->params[t], &p->beta);
        if (!p->value || (use.backward && !p->gradient))
            return -EFAULT;
    }
    s->backward = use.backward;
    s->since_ns = gpt2_now_ns();
    return 0;
}

/* What a block saves for its backward pass is complete when its forward pass ends. */
static int release(void *arg, struct gpt2_use use)
{
    struct gpt2_session *s = arg;
    const uint32_t blocks = s->shape.model.n_layers;
    int err = 0;

    s->compute_ns += gpt2_now_ns() - s->since_ns;
    if (!use.backward && use.unit >= GPT2_UNIT_BLOCK && use.unit < GPT2_UNIT_BLOCK + blocks)
        err = zero_activation_save(s->rt, s->regions[GPT2_SAVED + use.unit - GPT2_UNIT_BLOCK], NULL,
                                   s->saved_bytes, s->stream);
    if (err)
        return err;
    return zero_release(s->rt, s->units[use.unit], use.backward ? ZERO_BACKWARD : ZERO_FORWARD,
                        s->stream);
}

static void *region_of(void *arg, uint32_t region)
{
    struct gpt2_session *s = arg;
    void *p;

    if (region < GPT2_SAVED)
        return zero_buffer(s->rt, s->regions[region]);
    if (!s->backward)
        return zero_activation(s->rt, s->regions[region]);
    return zero_activation_restore(s->rt, s->regions[region], &p, NULL) ? NULL : p;
}

/* ---- Registration ---------------------------------------------------------------------------- */

static int initialise(void *arg, uint64_t first, uint64_t count, float *values)
{
    const struct gpt2_initialiser *i = arg;
    gpt2_initial(&i->tensor, i->index, i->seed, first, count, values);
    return 0;
}

/* What was typed, else what the library was told, whose own default is another than GPT-2's. */
static float typed_or(const struct gpt2_session *s, double typed, const char *option, double own)
{
    if (typed >= 0)
        return (float)typed;
    if (strcmp(zero_option_source(s->rt, option), "default") != 0)
        return (float)gpt2_session_number(s, option);
    return (float)own;
}

static int add_groups(struct gpt2_session *s, const struct gpt2_options *o)
{
    struct zero_group_desc group = {.size = sizeof group,
                                    .name = "matrices",
                                    .lr = (float)gpt2_session_number(s, "lr"),
                                    .weight_decay =
                                        typed_or(s, o->weight_decay, "weight_decay", 0.1),
                                    .beta1 = (float)gpt2_session_number(s, "beta1"),
                                    .beta2 = typed_or(s, o->beta2, "beta2", 0.95),
                                    .eps = (float)gpt2_session_number(s, "eps"),
                                    .momentum = (float)gpt2_session_number(s, "momentum")};
    int err = zero_group_add(s->rt, &group, &s->groups[0]);
    group.name = "vectors";
    group.weight_decay = 0;
    return err ? err : zero_group_add(s->rt, &group, &s->groups[1]);
}

static int add_parameters(struct gpt2_session *s, uint64_t seed)
{
    const struct gpt2_config *c = &s->shape.model;
    int err = 0;

    for (uint32_t u = 0; u < gpt2_n_units(c) && !err; u++) {
        char name[32];
        gpt2_unit_name(c, u, name, sizeof name);
        err = zero_unit_add(s->rt, name, &s->units[u]);
    }
    for (uint32_t i = 0; i < gpt2_n_tensors(c) && !err; i++) {
        struct gpt2_initialiser *init = &s->initialisers[i];
        gpt2_tensor(c, i, &init->tensor);
        init->index = i;
        init->seed = seed;
        const struct zero_param_desc desc = {
            .size = sizeof desc,
            .name = init->tensor.name,
            .dtype = s->shape.dtype,
            .n_dims = init->tensor.n_dims,
            .dims = {init->tensor.dims[0], init->tensor.dims[1]},
            .group = s->groups[init->tensor.decay ? 0 : 1],
            .init = {.kind = ZERO_INIT_CALLBACK, .fn = initialise, .arg = init},
        };
        err = zero_param_add(s->rt, s->units[init->tensor.unit], &desc, &s->params[i]);
    }
    return err;
}

static uint32_t pass_of(struct gpt2_use use)
{
    return use.backward ? ZERO_BACKWARD : ZERO_FORWARD;
}

static int set_order(struct gpt2_session *s, uint32_t kind)
{
    const struct gpt2_config *c = &s->shape.model;
    const uint32_t most = 2 * gpt2_n_units(c) + 2;
    struct gpt2_use *uses = calloc(most, sizeof *uses);
    struct zero_use *order = calloc(most, sizeof *order);
    int err = -ENOMEM;

    s->error = uses && order ? NULL : "no memory for the order of the units";
    if (!s->error) {
        const uint32_t n = gpt2_order(c, kind == ZERO_TRAIN, uses);
        for (uint32_t i = 0; i < n; i++)
            order[i] = (struct zero_use){s->units[uses[i].unit], pass_of(uses[i])};
        err = zero_set_order(s->rt, kind, order, n);
    }
    free(order);
    free(uses);
    return err;
}

static uint32_t unit_of(const struct gpt2_session *s, struct gpt2_use use)
{
    return use.unit == GPT2_WHOLE_STEP ? ZERO_WHOLE_STEP : s->units[use.unit];
}

static int add_buffer(struct gpt2_session *s, const struct gpt2_lifetime *l, size_t bytes,
                      uint32_t *id)
{
    const struct zero_buffer_desc desc = {
        .size = sizeof desc,
        .name = l->name,
        .memory_class = l->activation ? ZERO_CLASS_ACTIVATIONS : ZERO_CLASS_OTHER,
        .bytes = bytes,
        .from_unit = unit_of(s, l->from),
        .from_pass = pass_of(l->from),
        .to_unit = unit_of(s, l->to),
        .to_pass = pass_of(l->to),
    };
    return zero_buffer_add(s->rt, &desc, id);
}

/* What a block saves: it may lie elsewhere until the block's backward pass. */
static int add_saved(struct gpt2_session *s, const struct gpt2_lifetime *l, size_t bytes,
                     uint32_t *id)
{
    char name[32];

    gpt2_unit_name(&s->shape.model, l->from.unit, name, sizeof name);
    const struct zero_activation_desc desc = {
        .size = sizeof desc,
        .name = name,
        .bytes = bytes,
        .from_unit = s->units[l->from.unit],
        .from_pass = pass_of(l->from),
        .to_unit = s->units[l->to.unit],
        .to_pass = pass_of(l->to),
    };
    return zero_activation_add(s->rt, &desc, id);
}

static int add_regions(struct gpt2_session *s)
{
    int err = 0;

    for (uint32_t r = 0; r < gpt2_n_regions(&s->shape.model) && !err; r++) {
        const struct gpt2_lifetime l = gpt2_lifetime(&s->shape.model, r);
        const size_t bytes = s->host.math->region_bytes(&s->shape, r);
        if (!bytes)
            continue;
        if (r == GPT2_SAVED)
            s->saved_bytes = bytes;
        err = r < GPT2_SAVED ? add_buffer(s, &l, bytes, &s->regions[r])
                             : add_saved(s, &l, bytes, &s->regions[r]);
    }
    return err;
}

/* ---- Sessions -------------------------------------------------------------------------------- */

int gpt2_session_open(struct gpt2_session *s, const struct gpt2_options *o,
                      const struct zero_config *base)
{
    struct zero_setting settings[2 * GPT2_MAX_SETTINGS];
    struct zero_config config = ZERO_CONFIG_INIT;
    uint32_t n = 0;

    memset(s, 0, sizeof *s);
    if (base)
        config = *base;
    if (config.n_settings > GPT2_MAX_SETTINGS)
        return -EINVAL;
    while (n < o->n_settings) {
        settings[n] = o->settings[n];
        n++;
    }
    for (uint32_t i = 0; i < config.n_settings; i++)
        settings[n++] = config.settings[i];
    config.settings = settings;
    config.n_settings = n;
    s->shape =
        (struct gpt2_shape){o->model, (uint32_t)o->batch, (uint32_t)o->seq, o->dtype, o->recompute};
    s->host = (struct gpt2_host){s, acquire, release, region_of, &gpt2_cpu_math, NULL};
    return zero_create(&config, &s->rt);
}

/* ---- Who computes ---------------------------------------------------------------------------- */

/* Is the device the plugin cuda, by name or by its file? */
static bool is_cuda(const char *device)
{
    const char *slash = strrchr(device, '/'), *name = slash ? slash + 1 : device;

    if (!strncmp(name, "zero-device-", 12))
        name += 12;
    return !strncmp(name, "cuda", 4) && strchr(":.", name[4]);
}

static int wait_for_stream(void *arg)
{
    struct gpt2_session *s = arg;
    const uint64_t since_ns = gpt2_now_ns();
    int err = zero_stream_sync(s->rt, s->stream);

    s->compute_ns += gpt2_now_ns() - since_ns;
    return err;
}

int gpt2_session_device(struct gpt2_session *s, const struct gpt2_options *o, char *text,
                        size_t bytes)
{
    const char *device = zero_option(s->rt, "device");
    int err;

    if (!strcmp(device, "host") || !strncmp(device, "host:", 5))
        return 0;
    if (!is_cuda(device)) {
        snprintf(
            text, bytes,
            "ZERO_DEVICE=%s: this program computes on the host or on an NVIDIA GPU, and cannot "
            "use the memory of that device: set ZERO_DEVICE=host or ZERO_DEVICE=cuda",
            device);
        return -ENOTSUP;
    }
    s->gpu = calloc(1, sizeof *s->gpu);
    err = s->gpu ? zero_stream_create(s->rt, &s->stream) : -ENOMEM;
    if (err) {
        snprintf(text, bytes, "%s", s->gpu ? zero_last_error() : "no memory for the GPU's side");
        return err;
    }
    err = gpt2_gpu_open(s->gpu, &s->shape, o->cublas, s->stream, wait_for_stream, s);
    if (err)
        snprintf(text, bytes, "ZERO_DEVICE=%s: %s", device, s->gpu->cuda.error);
    s->host.math = &gpt2_gpu_math;
    s->host.math_arg = s->gpu;
    return err;
}

const char *gpt2_session_error(const struct gpt2_session *s)
{
    return s->error ? s->error : s->gpu ? s->gpu->cuda.error : "";
}

void gpt2_session_computes(const struct gpt2_session *s, char *text, size_t bytes)
{
    if (s->gpu)
        snprintf(text, bytes, "%s on the GPU", s->gpu->blas.name);
    else
        snprintf(text, bytes, "%s%s", gpt2_gemm_name(),
                 s->shape.dtype == ZERO_BF16 && gpt2_gemm16_usable() ? "; bf16 products by oneDNN"
                                                                     : "");
}

int gpt2_session_commit(struct gpt2_session *s, const struct gpt2_options *o)
{
    const struct gpt2_config *c = &s->shape.model;
    int err;

    s->units = calloc(gpt2_n_units(c), sizeof *s->units);
    s->params = calloc(gpt2_n_tensors(c), sizeof *s->params);
    s->regions = calloc(gpt2_n_regions(c), sizeof *s->regions);
    s->initialisers = calloc(gpt2_n_tensors(c), sizeof *s->initialisers);
    if (!s->units || !s->params || !s->regions || !s->initialisers) {
        s->error = "no memory for the numbers of the parameters";
        return -ENOMEM;
    }
    err = add_groups(s, o);
    if (!err)
        err = add_parameters(s, o->seed);
    if (!err)
        err = set_order(s, ZERO_TRAIN);
    if (!err)
        err = set_order(s, ZERO_EVAL);
    if (!err)
        err = add_regions(s);
    return err ? err : zero_commit(s->rt);
}

void gpt2_session_close(struct gpt2_session *s)
{
    if (s->gpu)
        gpt2_gpu_close(s->gpu);
    if (s->stream)
        zero_stream_destroy(s->rt, s->stream);
    zero_destroy(s->rt);
    free(s->gpu);
    free(s->initialisers);
    free(s->regions);
    free(s->params);
    free(s->units);
    memset(s, 0, sizeof *s);
}

double gpt2_session_number(const struct gpt2_session *s, const char *option)
{
    const char *text = zero_option(s->rt, option);
    return text ? strtod(text, NULL) : 0;
}
