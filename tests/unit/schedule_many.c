/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step program of a model of many units, each with parameters, an activation and a gather that
 * may be kept: what it takes to register and compile it grows with the units, or this test is still
 * running when its alarm rings.
 */
#include "../tap.h"

#include <unistd.h>

#include "base/status.h"
#include "schedule/program.h"

enum { UNITS = 50000 };

static void model_make(struct zero__model *m)
{
    struct zero_group_desc g = {
        .size = sizeof g, .name = "default", .beta1 = .9f, .beta2 = .99f, .eps = 1e-8f};
    struct zero_param_desc d = {.size = sizeof d, .dtype = ZERO_BF16, .n_dims = 1, .dims = {64}};
    struct zero_activation_desc a = {.size = sizeof a, .bytes = 4096, .to_pass = ZERO_BACKWARD};
    char name[32];
    uint32_t id;
    int err = zero__model_add_group(m, &g, &id);

    d.name = a.name = name;
    for (uint32_t u = 0; u < UNITS && !err; u++) {
        a.from_unit = a.to_unit = u;
        snprintf(name, sizeof name, "layer.%u", u);
        err = zero__model_add_unit(m, name, &id);
        if (!err)
            err = zero__model_add_param(m, u, &d, &id);
        if (!err)
            err = zero__model_add_activation(m, &a, &id);
    }
    if (err || zero__model_default_order(m, ZERO_TRAIN) || zero__model_default_order(m, ZERO_EVAL))
        bail(zero__error_text());
}

/* Gathers and gradients of every unit, and activations that leave the device. */
static void program_try(struct zero__model *m, const struct zero__recipe *r, const char *what)
{
    struct zero__states s = {0};
    struct zero__program *p = NULL;

    if (zero__states_build(m, r, &s))
        bail(zero__error_text());
    is_int(zero__program_compile(m, r, &s, 0, 1, &p), 0, "%s: a program of %u units is compiled",
           what, UNITS);
    if (p)
        ok(p->bodies[ZERO__LAST].in_queue[ZERO__Q_COMPUTE] == 2 * UNITS &&
               p->bodies[ZERO__LAST].in_queue[ZERO__Q_STORE] >= UNITS / 2,
           "%s: %u ops, of which %u leave the device", what, p->bodies[ZERO__LAST].n_ops,
           p->bodies[ZERO__LAST].in_queue[ZERO__Q_STORE]);
    zero__program_free(p);
    zero__states_free(&s);
}

int main(void)
{
    struct zero__recipe r = {.stage = 3,
                             .ranks = 2,
                             .accum = 1,
                             .n_moments = 2,
                             .halves = 1,
                             .bucket_bytes = 64 << 20,
                             .prefetch_bytes = 128 << 20,
                             .retain_bytes = 1 << 28,
                             .tile = 2048,
                             .tiles = 4};
    struct zero__layout_params l = {r.ranks, 0, 1 << 20};
    struct zero__model m = {0};

    alarm(300); /* a square of these units takes longer, by far */
    model_make(&m);
    is_int(zero__layout_build(&m, &l), 0, "%u parameters are laid out", m.n_params);
    r.placed[ZERO__P_ACTIVATIONS][ZERO__T_CPU] = ZERO__PLACE_PARTS;
    program_try(&m, &r, "updates at the end");
    r.placed[ZERO__P_OPTIMIZER][ZERO__T_CPU] = ZERO__PLACE_PARTS;
    r.early = 1;
    program_try(&m, &r, "updates beside the backward pass");
    zero__model_free(&m);
    done();
}
