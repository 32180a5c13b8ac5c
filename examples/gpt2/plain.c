/* SPDX-License-Identifier: Apache-2.0 */
/* The model without the library; see plain.h. */
#include "plain.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "vector.h"

static size_t element_bytes(const struct gpt2_plain *p)
{
    return zero_dtype_bytes(p->shape.dtype);
}

static int acquire(void *arg, struct gpt2_use use, struct gpt2_param *params)
{
    struct gpt2_plain *p = arg;
    const uint32_t from = gpt2_first_tensor(use.unit);
    const uint32_t to = from + gpt2_unit_tensors(&p->shape.model, use.unit);
    const float beta = use.unit == GPT2_UNIT_WTE && p->written ? 1 : 0;

    for (uint32_t t = from; t < to; t++)
        params[t - from] = (struct gpt2_param){
            .dtype = p->shape.dtype,
            .beta = beta,
            .value = (char *)p->values + p->first[t] * element_bytes(p),
            .gradient = (char *)p->gradients + p->first[t] * element_bytes(p),
        };
    if (use.unit == GPT2_UNIT_WTE)
        p->written = use.backward;
    return 0;
}

static int release(void *arg, struct gpt2_use use)
{
    (void)arg;
    (void)use;
    return 0;
}

static void *region_of(void *arg, uint32_t region)
{
    return ((struct gpt2_plain *)arg)->regions[region];
}

/* Large pieces get large pages, as the library's do: else the comparison would be of pages. */
static void *zeroed(size_t bytes)
{
    const size_t huge = (size_t)2 << 20, align = bytes >= huge ? huge : 64;
    const size_t size = (bytes + align - 1) / align * align;
    void *p = aligned_alloc(align, size);

    if (p && align == huge)
        madvise(p, size, MADV_HUGEPAGE);
    return p ? memset(p, 0, size) : NULL;
}

static int allocate(struct gpt2_plain *p)
{
    const struct gpt2_config *c = &p->shape.model;
    const uint32_t n_regions = gpt2_n_regions(c);
    const size_t n = p->n_elements;

    p->master = zeroed(n * sizeof *p->master);
    p->momentum = zeroed(n * sizeof *p->momentum);
    p->variance = zeroed(n * sizeof *p->variance);
    p->gradients = zeroed(n * element_bytes(p));
    p->values = p->shape.dtype == ZERO_F32 ? p->master : zeroed(n * element_bytes(p));
    p->regions = calloc(n_regions, sizeof *p->regions);
    if (!p->master || !p->momentum || !p->variance || !p->gradients || !p->values || !p->regions)
        return -ENOMEM;
    for (uint32_t r = 0; r < n_regions; r++) {
        const size_t bytes = gpt2_cpu_math.region_bytes(&p->shape, r);
        p->regions[r] = bytes ? zeroed(bytes) : NULL;
        if (bytes && !p->regions[r])
            return -ENOMEM;
    }
    return 0;
}

int gpt2_plain_create(const struct gpt2_shape *s, uint64_t seed, struct gpt2_plain *p)
{
    const uint32_t n_tensors = gpt2_n_tensors(&s->model);
    struct gpt2_tensor t;

    memset(p, 0, sizeof *p);
    p->shape = *s;
    p->host = (struct gpt2_host){p, acquire, release, region_of, &gpt2_cpu_math, NULL};
    p->first = calloc(n_tensors, sizeof *p->first);
    if (!p->first)
        return -ENOMEM;
    for (uint32_t i = 0; i < n_tensors; i++) {
        gpt2_tensor(&s->model, i, &t);
        p->first[i] = p->n_elements;
        p->n_elements += (t.elements + 63) / 64 * 64;
    }
    if (allocate(p)) {
        gpt2_plain_destroy(p);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < n_tensors; i++) {
        gpt2_tensor(&s->model, i, &t);
        gpt2_initial(&t, i, seed, 0, t.elements, p->master + p->first[i]);
    }
    if (p->values != p->master)
        gpt2_store(s->dtype, p->values, p->master, p->n_elements, 0);
    return 0;
}

void gpt2_plain_destroy(struct gpt2_plain *p)
{
    for (uint32_t r = 0; p->regions && r < gpt2_n_regions(&p->shape.model); r++)
        free(p->regions[r]);
    free(p->regions);
    if (p->values != p->master)
        free(p->values);
    free(p->gradients);
    free(p->variance);
    free(p->momentum);
    free(p->master);
    free(p->first);
    memset(p, 0, sizeof *p);
}

GPT2_CLONES
static void adamw_run(float *restrict p, float *restrict m, float *restrict v,
                      const float *restrict g, size_t n, float factor, float rate, float correction,
                      float keep, const struct gpt2_adamw *a)
{
    for (size_t i = 0; i < n; i++) {
        const float x = g[i] * factor;
        m[i] += (1 - a->beta1) * (x - m[i]);
        v[i] = v[i] * a->beta2 + (1 - a->beta2) * x * x;
        p[i] = p[i] * keep - rate * (m[i] / (sqrtf(v[i]) * correction + a->eps));
    }
}

double gpt2_plain_update(struct gpt2_plain *p, const struct gpt2_adamw *a, float factor)
{
    enum { RUN = 4096 };
    const struct gpt2_config *c = &p->shape.model;
    float g[RUN];
    double sum = 0;

    for (uint64_t i = 0; i < p->n_elements; i += RUN) {
        const size_t n = p->n_elements - i < RUN ? p->n_elements - i : RUN;
        gpt2_to_float(p->shape.dtype, (char *)p->gradients + i * element_bytes(p), n, g);
        sum += (double)gpt2_dot(g, g, n);
    }
    const double norm = sqrt(sum) * (double)factor;
    if (a->clip > 0 && norm + 1e-6 > (double)a->clip)
        factor *= (float)((double)a->clip / (norm + 1e-6));
    p->step++;
    const float rate = (float)((double)a->lr / (1 - pow((double)a->beta1, (double)p->step)));
    const float correction = (float)(1 / sqrt(1 - pow((double)a->beta2, (double)p->step)));
    for (uint32_t t = 0; t < gpt2_n_tensors(c); t++) {
        struct gpt2_tensor tensor;
        gpt2_tensor(c, t, &tensor);
        const float keep = tensor.decay ? 1 - a->lr * a->weight_decay : 1;
        for (uint64_t i = 0; i < tensor.elements; i += RUN) {
            const size_t n = tensor.elements - i < RUN ? tensor.elements - i : RUN;
            const uint64_t at = p->first[t] + i;
            const size_t byte = at * element_bytes(p);
            gpt2_to_float(p->shape.dtype, (char *)p->gradients + byte, n, g);
            adamw_run(p->master + at, p->momentum + at, p->variance + at, g, n, factor, rate,
                      correction, keep, a);
            if (p->values != p->master)
                gpt2_store(p->shape.dtype, (char *)p->values + byte, p->master + at, n, 0);
        }
    }
    p->written = false;
    return norm;
}
