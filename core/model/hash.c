/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes of what was registered, by which ranks compare their models. */
#include "model/model.h"

#include <string.h>
#include <xxhash.h>

static uint64_t text_hash(const char *text, uint64_t seed)
{
    return XXH3_64bits_withSeed(text, strlen(text), seed);
}

uint64_t zero__parameters_hash(const struct zero__model *m)
{
    uint64_t h = m->n_params;

    for (uint32_t i = 0; i < m->n_params; i++) {
        const struct zero__param *p = &m->params[i];
        uint64_t x[8 + ZERO_MAX_DIMS] = {p->dtype,
                                         p->unit,
                                         p->group,
                                         p->flags,
                                         p->init.kind,
                                         p->init.seed,
                                         zero_bits_of_float(p->init.a),
                                         zero_bits_of_float(p->init.b)};
        memcpy(x + 8, p->dims, p->n_dims * sizeof *p->dims);
        h = XXH3_64bits_withSeed(x, sizeof x, text_hash(p->name, h));
    }
    for (uint32_t u = 0; u < m->n_units; u++)
        h = text_hash(m->units[u].name, h);
    return h;
}

uint64_t zero__groups_hash(const struct zero__model *m)
{
    uint64_t h = m->n_groups;

    for (uint32_t g = 0; g < m->n_groups; g++) {
        const struct zero_hyper *y = &m->groups[g].hyper;
        float x[] = {y->lr,  y->weight_decay, y->beta1,     y->beta2,
                     y->eps, y->momentum,     y->dampening, (float)y->flags};
        h = XXH3_64bits_withSeed(x, sizeof x, text_hash(m->groups[g].name, h));
    }
    return h;
}
