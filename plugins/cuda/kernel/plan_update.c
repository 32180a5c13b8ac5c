/* SPDX-License-Identifier: Apache-2.0 */
/* Updates as grids: those that have the same settings go together, each with blocks of its own. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "plan.h"

/* The function for the widths of gradient, master and moments (0: none), as table.h lists them. */
static uint32_t update_function(bool adam, uint32_t grad, uint32_t master, uint32_t moments)
{
    uint32_t i = (grad == 2) * 2u + (master == 2);

    if (adam)
        return ZERO__CUDA_ADAMW_G32_P32_S32 + i * 2 + (moments == 2);
    if (moments == 0)
        return ZERO__CUDA_SGD_G32_P32 + i;
    return ZERO__CUDA_SGD_G32_P32_S32 + i * 2 + (moments == 2);
}

/* What of an update all of a launch have. */
static struct zero__cuda_update shared_of(const struct zero_update_args *a)
{
    const struct zero_hyper *h = &a->hyper;

    return (struct zero__cuda_update){
        .scalars = a->scalars,
        .grad_dtype = a->grad_dtype,
        .out_dtype = a->out_dtype,
        .coupled = (h->flags & ZERO_HYPER_COUPLED) != 0,
        .nesterov = (h->flags & ZERO_HYPER_NESTEROV) != 0,
        .beta1 = h->beta1,
        .beta2 = h->beta2,
        .eps = h->eps,
        .momentum = h->momentum,
        .rest1 = (float)(1 - (double)h->beta1),
        .rest2 = (float)(1 - (double)h->beta2),
        .undamped = (float)(1 - (double)h->dampening),
    };
}

/* The function for an update, and the bytes of a moment (0: none). */
static uint32_t function_of(const struct zero_update_args *a, bool adam, uint32_t *moments)
{
    const bool with_m = adam || a->hyper.momentum != 0;

    *moments = !with_m ? 0 : a->state_dtype == ZERO_BF16 ? 2 : 4;
    return update_function(adam, zero_dtype_bytes(a->grad_dtype), a->p ? 4 : 2, *moments);
}

static struct zero__cuda_run run_of(const struct zero_update_args *a, bool adam, uint32_t moments)
{
    const struct zero_hyper *h = &a->hyper;
    struct zero__cuda_run r = {
        .p = a->p,
        .m = moments ? a->m : NULL,
        .v = adam ? a->v : NULL,
        .grad = a->grad,
        .out = a->out,
        .low = a->p ? NULL : a->low,
        .first = a->first,
        .lr = h->lr,
        .weight_decay = h->weight_decay,
        .decay = (float)(1 - (double)h->lr * (double)h->weight_decay),
    };
    struct plan_array arrays[] = {{r.p, 4},       {r.m, moments},
                                  {r.v, moments}, {r.grad, zero_dtype_bytes(a->grad_dtype)},
                                  {r.out, 2},     {r.low, 2}};

    r.span = zero__span_of(a->count, 4, arrays, 6);
    return r;
}

/* A launch of updates that share all that they must. */
struct pack {
    struct zero__cuda_update all;
    uint32_t function, blocks;
};

static void pack_begin(struct pack *p, const struct zero_update_args *a, uint32_t function)
{
    p->all = shared_of(a);
    p->function = function;
    p->blocks = 0;
}

static bool pack_takes(const struct pack *p, const struct zero_update_args *a, uint32_t function)
{
    struct zero__cuda_update shared = shared_of(a);

    shared.n = p->all.n;
    return p->function == function &&
           memcmp(&shared, &p->all, offsetof(struct zero__cuda_update, run)) == 0;
}

/* With as many blocks of its own as it would have alone. */
static void pack_add(struct pack *p, uint32_t multiprocessors, struct zero__cuda_run run)
{
    run.first_block = p->blocks;
    run.blocks =
        zero__grid_most(p->function, multiprocessors,
                        zero__span_blocks(&run.span, p->function, ZERO__CUDA_UPDATE_BATCH));
    p->blocks += run.blocks;
    p->all.run[p->all.n++] = run;
}

static void pack_end(const struct pack *p, struct zero__cuda_launch *out)
{
    zero__grid_set(out, p->function, 1, 1, &p->all);
    out->grid[0] = p->blocks;
    out->shared_bytes = ZERO__CUDA_UPDATE_SHARED;
}

int zero__updates_plan(const struct zero__voice *voice, uint32_t multiprocessors,
                       const struct zero_updates_args *a, struct zero__cuda_launch *out,
                       uint32_t max, uint32_t *n)
{
    const bool adam = a->kernel == ZERO_KERNEL_ADAMW;
    uint32_t planned = 0;
    struct pack p;

    for (uint32_t i = 0; i < a->n; i++) {
        const struct zero_update_args *u = &a->update[i];
        uint32_t moments, function = function_of(u, adam, &moments);
        if (u->count == 0)
            continue;
        if (planned == 0 || !pack_takes(&p, u, function)) {
            if (planned == max)
                return zero__say(voice, -ENOSPC,
                                 "there is room for %u launches: %u updates may "
                                 "take one each",
                                 max, a->n);
            pack_begin(&p, u, function);
            planned++;
        }
        pack_add(&p, multiprocessors, run_of(u, adam, moments));
        pack_end(&p, &out[planned - 1]);
    }
    *n = planned;
    return 0;
}
