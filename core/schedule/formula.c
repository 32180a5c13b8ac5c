/* SPDX-License-Identifier: Apache-2.0 */
/* What the states of a model take by the paper: tables show what is reserved beside it. */
#include "schedule/states.h"

/*
 * ZeRO, SC 2020, section 5: Ψ elements, K = 12 with a 16-bit model, Adam and states in fp32 (10
 * with masters in halves, less with moments in 16 bits).
 */
uint64_t zero__formula_bytes(const struct zero__model *m, const struct zero__recipe *r,
                             const struct zero__states *states, uint32_t memory_class)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < m->n_params; i++) {
        const struct zero__param *p = &m->params[i];
        const struct zero__segment *s = &m->segments[p->segment];
        const struct zero__home *h = &states->homes[p->segment];
        uint64_t bytes = 0, whole = 1;

        if (memory_class != ZERO_CLASS_PARAMETERS && !s->trainable)
            continue;
        switch (memory_class) {
        case ZERO_CLASS_PARAMETERS:
            bytes = zero_dtype_bytes(p->dtype), whole = !zero__recipe_shards(r, s);
            break;
        case ZERO_CLASS_GRADIENTS:
        case ZERO_CLASS_ACCUMULATORS:
            if (h->grad != ZERO_NONE && states->buffers[h->grad].memory_class == memory_class)
                bytes = zero__gradient_of(m, r, states, p->segment).size;
            whole = h->grad_whole;
            break;
        case ZERO_CLASS_MASTER:
            bytes = p->dtype == ZERO_F32 ? 0 : h->master_bytes;
            whole = r->stage < 1;
            break;
        case ZERO_CLASS_MOMENTUM:
            bytes = r->n_moments > 0 ? zero__moment_bytes(r) : 0;
            whole = r->stage < 1;
            break;
        case ZERO_CLASS_VARIANCE:
            bytes = r->n_moments > 1 ? zero__moment_bytes(r) : 0;
            whole = r->stage < 1;
            break;
        default:
            break;
        }
        total += p->count * bytes * (whole ? r->ranks : 1);
    }
    return (total + r->ranks - 1) / r->ranks;
}
