/* SPDX-License-Identifier: Apache-2.0 */
/* Registration of units, groups, parameters, buffers and orders: all checks happen here. */
#include "model/model.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/grow.h"
#include "base/status.h"

#define MAX_NAME 200u

static int name_check(const char *what, const char *name)
{
    if (!name || !*name)
        return zero__fail(-EINVAL, "a %s needs a name", what);
    if (strlen(name) > MAX_NAME)
        return zero__fail(-EINVAL, "the name of %s %.40s… is longer than %u bytes", what, name,
                          MAX_NAME);
    return 0;
}

/* An id is left for one more unit, parameter, group or buffer, of which there are n. */
static int count_check(const char *what, const char *name, uint32_t n)
{
    if (n < ZERO_MOST_IDS)
        return 0;
    return zero__fail(-EOVERFLOW, "%s %s: the model has %u of them, and no more are possible: "
                      "register fewer and larger ones", what, name, n);
}

static int name_copy(const char *name, char **copy)
{
    char *s = strdup(name);
    if (!s)
        return zero__fail(-ENOMEM, "no memory for the name %s", name);
    *copy = s;
    return 0;
}

/* Copies a name that `names` does not have, and adds the copy there as `id`. */
static int name_add(struct zero__names *names, const char *name, uint32_t id, char **copy)
{
    char *s = NULL;
    int err = name_copy(name, &s);

    if (err)
        return err;
    if (zero__names_add(names, s, id)) {
        free(s);
        return zero__fail(-ENOMEM, "no memory for the name %s", name);
    }
    *copy = s;
    return 0;
}

int zero__model_add_unit(struct zero__model *m, const char *name, uint32_t *unit)
{
    int err = name_check("unit", name);
    if (err)
        return err;
    if (zero__names_find(&m->unit_names, name) != ZERO_NONE)
        return zero__fail(-EEXIST, "unit %s is there already: unit names are unique", name);
    err = count_check("unit", name, m->n_units);
    if (err)
        return err;
    if (zero__grow(&m->units, &m->cap_units, m->n_units, sizeof *m->units))
        return zero__fail(-ENOMEM, "no memory for unit %s", name);
    struct zero__unit *u = &m->units[m->n_units];
    *u = (struct zero__unit){0};
    err = name_add(&m->unit_names, name, m->n_units, &u->name);
    if (err)
        return err;
    *unit = m->n_units++;
    return 0;
}

static int hyper_check(const char *name, const struct zero_hyper *h)
{
    if (!(h->beta1 >= 0 && h->beta1 < 1 && h->beta2 >= 0 && h->beta2 < 1))
        return zero__fail(-EINVAL, "group %s: beta1 %g and beta2 %g must lie in [0, 1)", name,
                          (double)h->beta1, (double)h->beta2);
    if (!(h->eps >= 0) || !isfinite(h->eps))
        return zero__fail(-EINVAL, "group %s: eps %g must be positive", name, (double)h->eps);
    if (!(h->lr >= 0 && h->lr <= 1e6f && h->weight_decay >= 0 && h->weight_decay <= 1e6f))
        return zero__fail(-EINVAL, "group %s: lr %g and weight_decay %g must lie in [0, 1e6]", name,
                          (double)h->lr, (double)h->weight_decay);
    if (!(h->momentum >= 0 && h->momentum < 1 && h->dampening >= 0 && h->dampening <= 1))
        return zero__fail(-EINVAL, "group %s: momentum %g must lie in [0, 1), dampening %g in "
                          "[0, 1]", name, (double)h->momentum, (double)h->dampening);
    return 0;
}

int zero__model_add_group(struct zero__model *m, const struct zero_group_desc *d, uint32_t *group)
{
    int err = name_check("group", d->name);
    if (!err)
        err = count_check("group", d->name, m->n_groups);
    if (err)
        return err;
    struct zero_hyper h = {.lr = d->lr,
                           .weight_decay = d->weight_decay,
                           .beta1 = d->beta1,
                           .beta2 = d->beta2,
                           .eps = d->eps,
                           .momentum = d->momentum,
                           .dampening = d->dampening,
                           .flags = d->nesterov ? ZERO_HYPER_NESTEROV : 0};
    err = hyper_check(d->name, &h);
    if (err)
        return err;
    if (zero__grow(&m->groups, &m->cap_groups, m->n_groups, sizeof *m->groups))
        return zero__fail(-ENOMEM, "no memory for group %s", d->name);
    struct zero__group *g = &m->groups[m->n_groups];
    g->hyper = h;
    err = name_copy(d->name, &g->name);
    if (err)
        return err;
    *group = m->n_groups++;
    return 0;
}

static int param_check(struct zero__model *m, uint32_t unit, const struct zero_param_desc *d,
                       uint64_t *count)
{
    int err = name_check("parameter", d->name);
    if (err)
        return err;
    if (unit >= m->n_units)
        return zero__fail(-EINVAL, "parameter %s: unit %u is not registered (%u are)", d->name,
                          unit, m->n_units);
    if (d->group >= m->n_groups)
        return zero__fail(-EINVAL, "parameter %s: group %u is not registered (%u are)", d->name,
                          d->group, m->n_groups);
    if (d->dtype != ZERO_F32 && d->dtype != ZERO_BF16 && d->dtype != ZERO_F16)
        return zero__fail(-EINVAL, "parameter %s: dtype %u is not fp32, bf16 or fp16", d->name,
                          d->dtype);
    if (!(d->flags & ZERO_PARAM_FROZEN) && m->train_dtype && m->train_dtype != d->dtype)
        return zero__fail(-EINVAL, "parameter %s is %s, but earlier trainable ones are %s: one "
                          "dtype for all trainable parameters", d->name,
                          zero_dtype_name(d->dtype), zero_dtype_name(m->train_dtype));
    if (d->flags & ~(uint32_t)(ZERO_PARAM_FROZEN | ZERO_PARAM_PERSISTENT))
        return zero__fail(-EINVAL, "parameter %s: unknown flags 0x%x", d->name, d->flags);
    if (d->init.kind > ZERO_INIT_CALLBACK || (d->init.kind == ZERO_INIT_CALLBACK && !d->init.fn))
        return zero__fail(-EINVAL, "parameter %s: unknown initialiser %u, or no function", d->name,
                          d->init.kind);
    if (d->n_dims > ZERO_MAX_DIMS)
        return zero__fail(-EINVAL, "parameter %s: %u dimensions, at most %d", d->name, d->n_dims,
                          ZERO_MAX_DIMS);
    for (uint32_t i = d->n_dims; i < ZERO_MAX_DIMS; i++)
        if (d->dims[i])
            return zero__fail(-EINVAL, "parameter %s: dims[%u] is %llu, and n_dims is %u: n_dims "
                              "counts the dimensions", d->name, i, (unsigned long long)d->dims[i],
                              d->n_dims);
    uint64_t n = 1;
    for (uint32_t i = 0; i < d->n_dims; i++)
        if (zero__mul(n, d->dims[i], &n) || n > (UINT64_C(1) << 48))
            return zero__fail(-EOVERFLOW, "parameter %s: more than 2^48 elements", d->name);
    if (n == 0)
        return zero__fail(-EINVAL, "parameter %s has no elements", d->name);
    if (zero__names_find(&m->param_names, d->name) != ZERO_NONE)
        return zero__fail(-EEXIST, "parameter %s is there already: names are unique", d->name);
    *count = n;
    return count_check("parameter", d->name, m->n_params);
}

int zero__model_add_param(struct zero__model *m, uint32_t unit, const struct zero_param_desc *d,
                          uint32_t *param)
{
    uint64_t count = 0;
    int err = param_check(m, unit, d, &count);
    if (err)
        return err;
    if (zero__grow(&m->params, &m->cap_params, m->n_params, sizeof *m->params))
        return zero__fail(-ENOMEM, "no memory for parameter %s", d->name);
    struct zero__param *p = &m->params[m->n_params];
    *p = (struct zero__param){.dtype = d->dtype,
                              .n_dims = d->n_dims,
                              .unit = unit,
                              .group = d->group,
                              .flags = d->flags,
                              .segment = ZERO_NONE,
                              .count = count,
                              .init = d->init};
    memcpy(p->dims, d->dims, sizeof p->dims);
    err = name_add(&m->param_names, d->name, m->n_params, &p->name);
    if (err)
        return err;
    if (!(d->flags & ZERO_PARAM_FROZEN))
        m->train_dtype = d->dtype;
    m->units[unit].n_params++;
    *param = m->n_params++;
    return 0;
}

int zero__model_add_buffer(struct zero__model *m, const struct zero_buffer_desc *d, uint32_t *b)
{
    int err = name_check("buffer", d->name);
    if (err)
        return err;
    if (d->memory_class != ZERO_CLASS_ACTIVATIONS && d->memory_class != ZERO_CLASS_OTHER)
        return zero__fail(-EINVAL, "buffer %s: class %u is neither activations nor other", d->name,
                          d->memory_class);
    if ((d->from_unit >= m->n_units && d->from_unit != ZERO_WHOLE_STEP) ||
        (d->to_unit >= m->n_units && d->to_unit != ZERO_WHOLE_STEP) ||
        d->from_pass > ZERO_BACKWARD || d->to_pass > ZERO_BACKWARD)
        return zero__fail(-EINVAL, "buffer %s: units %u, %u (of %u) or passes %u, %u are unknown",
                          d->name, d->from_unit, d->to_unit, m->n_units, d->from_pass, d->to_pass);
    if (d->bytes > (UINT64_C(1) << 48))
        return zero__fail(-EOVERFLOW, "buffer %s: more than 2^48 bytes", d->name);
    err = count_check("buffer", d->name, m->n_buffers);
    if (err)
        return err;
    if (zero__grow(&m->buffers, &m->cap_buffers, m->n_buffers, sizeof *m->buffers))
        return zero__fail(-ENOMEM, "no memory for buffer %s", d->name);
    struct zero__declared *x = &m->buffers[m->n_buffers];
    x->desc = *d;
    x->activation = 0;
    err = name_copy(d->name, &x->name);
    if (err)
        return err;
    x->desc.name = x->name;
    *b = m->n_buffers++;
    return 0;
}

int zero__model_add_activation(struct zero__model *m, const struct zero_activation_desc *d,
                               uint32_t *activation)
{
    const struct zero_buffer_desc b = {.size = sizeof b,
                                       .name = d->name,
                                       .memory_class = ZERO_CLASS_ACTIVATIONS,
                                       .bytes = d->bytes,
                                       .from_unit = d->from_unit,
                                       .from_pass = d->from_pass,
                                       .to_unit = d->to_unit,
                                       .to_pass = d->to_pass};
    uint32_t id;
    int err = name_check("activation", d->name);

    if (err)
        return err;
    if (d->flags || d->reserved)
        return zero__fail(-EINVAL, "activation %s: unknown flags 0x%x", d->name, d->flags);
    if (d->bytes == 0)
        return zero__fail(-EINVAL, "activation %s has no bytes", d->name);
    if (d->from_unit >= m->n_units || d->to_unit >= m->n_units)
        return zero__fail(-EINVAL, "activation %s: units %u, %u are not registered (%u are)",
                          d->name, d->from_unit, d->to_unit, m->n_units);
    if (zero__names_find(&m->activation_names, d->name) != ZERO_NONE)
        return zero__fail(-EEXIST, "activation %s is there already: names are unique", d->name);
    err = zero__model_add_buffer(m, &b, &id);
    if (err)
        return err;
    if (zero__names_add(&m->activation_names, m->buffers[id].name, id)) {
        free(m->buffers[--m->n_buffers].name);
        return zero__fail(-ENOMEM, "no memory for the name %s", d->name);
    }
    m->buffers[id].activation = 1;
    *activation = id;
    return 0;
}

int zero__model_use_check(const struct zero__model *m, uint32_t kind, uint32_t unit, uint32_t pass)
{
    if (unit >= m->n_units)
        return zero__fail(-EINVAL, "unit %u: there are %u, from 0 on, as zero_unit_add() told them",
                          unit, m->n_units);
    if (pass > ZERO_BACKWARD)
        return zero__fail(-EINVAL, "unit %s, pass %u: there are ZERO_FORWARD and ZERO_BACKWARD",
                          m->units[unit].name, pass);
    if (kind == ZERO_EVAL && pass == ZERO_BACKWARD)
        return zero__fail(-EINVAL, "unit %s: an evaluation has no backward pass",
                          m->units[unit].name);
    return 0;
}

int zero__model_complete(const struct zero__model *m)
{
    if (m->n_params == 0)
        return zero__fail(-EINVAL, "the model has no parameters: add units and parameters first");
    for (uint32_t u = 0; u < m->n_units; u++)
        if (!m->units[u].n_params)
            return zero__fail(-EINVAL, "unit %s has no parameters: add one or leave it out",
                              m->units[u].name);
    return 0;
}

int zero__model_order_check(const struct zero__model *m, uint32_t kind,
                            const struct zero_use *uses, uint32_t n)
{
    if (kind > ZERO_EVAL)
        return zero__fail(-EINVAL, "step kind %u is neither training nor evaluation", kind);
    if (n == 0 || !uses)
        return zero__fail(-EINVAL, "an order needs at least one use");
    for (uint32_t i = 0; i < n; i++) {
        int err = zero__model_use_check(m, kind, uses[i].unit, uses[i].pass);
        if (err)
            return zero__while(err, "order, use %u", i);
    }
    return 0;
}

int zero__model_set_order(struct zero__model *m, uint32_t kind, const struct zero_use *uses,
                          uint32_t n)
{
    struct zero_use *copy = malloc(n * sizeof *copy);
    if (!copy)
        return zero__fail(-ENOMEM, "no memory for an order of %u uses", n);
    memcpy(copy, uses, n * sizeof *copy);
    free(m->orders[kind].uses);
    m->orders[kind] = (struct zero__order){copy, n, 1};
    return 0;
}

int zero__model_default_order(struct zero__model *m, uint32_t kind)
{
    if (m->orders[kind].set)
        return 0;
    uint32_t n = m->n_units;
    struct zero_use *uses = calloc(2 * (size_t)n + 1, sizeof *uses);
    if (!uses)
        return zero__fail(-ENOMEM, "no memory for an order of %u uses", 2 * n);
    for (uint32_t i = 0; i < n; i++) {
        uses[i] = (struct zero_use){i, ZERO_FORWARD};
        uses[2 * n - 1 - i] = (struct zero_use){i, ZERO_BACKWARD};
    }
    free(m->orders[kind].uses);
    m->orders[kind] = (struct zero__order){uses, kind == ZERO_TRAIN ? 2 * n : n, 0};
    return 0;
}

void zero__model_free(struct zero__model *m)
{
    for (uint32_t i = 0; i < m->n_units; i++)
        free(m->units[i].name);
    for (uint32_t i = 0; i < m->n_params; i++)
        free(m->params[i].name);
    for (uint32_t i = 0; i < m->n_groups; i++)
        free(m->groups[i].name);
    for (uint32_t i = 0; i < m->n_buffers; i++)
        free(m->buffers[i].name);
    for (uint32_t i = 0; i < m->n_segments; i++) {
        free(m->segments[i].gaps.first);
        free(m->segments[i].gaps.count);
    }
    zero__names_free(&m->unit_names);
    zero__names_free(&m->param_names);
    zero__names_free(&m->activation_names);
    free(m->units);
    free(m->params);
    free(m->groups);
    free(m->buffers);
    free(m->segments);
    free(m->by_segment);
    free(m->orders[0].uses);
    free(m->orders[1].uses);
    *m = (struct zero__model){0};
}
