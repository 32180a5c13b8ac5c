/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step program of states that lie on a disk in a million pieces: what it takes to compile grows
 * with the pieces, or this test is still running when its alarm rings.
 */
#include "../tap.h"

#include <unistd.h>

#include "base/status.h"
#include "place/place.h"
#include "schedule/program.h"

enum { UNITS = 8, TILE = 4096, TILES_A_UNIT = 16000 };

int main(void)
{
    struct zero_group_desc g = {
        .size = sizeof g, .name = "default", .beta1 = .9f, .beta2 = .99f, .eps = 1e-8f};
    struct zero_param_desc d = {.size = sizeof d, .dtype = ZERO_BF16, .n_dims = 1,
                                .dims = {(uint64_t)TILE * TILES_A_UNIT}};
    struct zero__recipe r = {.stage = 3, .ranks = 2, .accum = 1, .n_moments = 2, .halves = 1,
                             .bucket_bytes = 64 << 20, .prefetch_bytes = 1 << 30,
                             .retain_bytes = -1, .tile = TILE / 2, .tiles = 4};
    struct zero__layout_params l = {r.ranks, 0, 1 << 20};
    struct zero__model m = {0};
    struct zero__states s = {0};
    struct zero__program *p;
    uint64_t accesses = 0;
    char name[16];
    uint32_t id;

    alarm(300); /* a square of these accesses takes hours */
    r.placed[ZERO__P_OPTIMIZER][ZERO__T_DISK] = ZERO__PLACE_PARTS;
    zero__model_add_group(&m, &g, &id);
    for (uint32_t u = 0; u < UNITS; u++) {
        snprintf(name, sizeof name, "u%u", u);
        d.name = name;
        if (zero__model_add_unit(&m, name, &id) || zero__model_add_param(&m, u, &d, &id))
            bail(zero__error_text());
    }
    zero__model_default_order(&m, ZERO_TRAIN);
    zero__model_default_order(&m, ZERO_EVAL);
    if (zero__layout_build(&m, &l) || zero__states_build(&m, &r, &s))
        bail(zero__error_text());
    is_int(zero__program_compile(&m, &r, &s, 0, 1, &p), 0, "a program of %u tiles is compiled",
           UNITS * TILES_A_UNIT);
    for (uint32_t i = 0; i < ZERO__N_BODIES; i++)
        accesses += p->bodies[i].n_accesses;
    ok(accesses > 1000000, "%" PRIu64 " accesses, %u waits of the update", accesses,
       p->bodies[ZERO__UPDATE_BODY].n_waits);
    struct zero__table t;
    zero__table_fill(&s, p, 0, 0, &t);
    ok(t.tiers[ZERO__T_CPU].planned[ZERO_CLASS_MASTER] > 0 ||
           t.tiers[ZERO__T_CPU].reserved > s.bytes[ZERO__T_CPU],
       "the table: %" PRIu64 " bytes pass through the host's memory",
       t.tiers[ZERO__T_CPU].reserved);
    zero__program_free(p);
    zero__states_free(&s);
    zero__model_free(&m);
    done();
}
