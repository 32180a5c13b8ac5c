/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fractions of ZERO_OFFLOAD: how near states come to them when segments are of very different
 * sizes, as where an embedding is a third of a model.
 */
#include "../random.h"
#include "../tap.h"

#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "schedule/program.h"

#define SEED UINT64_C(20261123)
#define MOST_UNITS 40

static void build(const uint64_t *sizes, uint32_t n, const struct zero__recipe *r,
                  struct zero__model *m, struct zero__states *s)
{
    struct zero_group_desc g = {
        .size = sizeof g, .name = "default", .beta1 = .9f, .beta2 = .99f, .eps = 1e-8f};
    struct zero__layout_params l = {r->ranks, 0, 1 << 20};
    char name[16];
    uint32_t id;

    *m = (struct zero__model){0};
    zero__model_add_group(m, &g, &id);
    for (uint32_t u = 0; u < n; u++) {
        struct zero_param_desc d = {.size = sizeof d, .dtype = ZERO_BF16, .n_dims = 1,
                                    .dims = {sizes[u]}, .name = name};
        snprintf(name, sizeof name, "u%u", u);
        if (zero__model_add_unit(m, name, &id) || zero__model_add_param(m, u, &d, &id))
            bail(zero__error_text());
    }
    zero__model_default_order(m, ZERO_TRAIN);
    if (zero__layout_build(m, &l) || zero__states_build(m, r, s))
        bail(zero__error_text());
}

/* The largest distance from what was asked for, of all bytes; `apart`: units of several tiers. */
static double distance(const struct zero__model *m, const struct zero__recipe *r,
                       const struct zero__states *s, uint32_t *apart)
{
    uint64_t bytes[ZERO__N_TIERS] = {0}, all = 0;
    double most = 0;

    *apart = 0;
    for (uint32_t i = 0; i < m->n_segments; i++) {
        const struct zero__home *h = &s->homes[i];
        const struct zero__buffer *b = s->buffers;
        bytes[b[h->variance].tier] += b[h->variance].bytes;
        all += b[h->variance].bytes;
        *apart += b[h->variance].tier != b[h->momentum].tier ||
                  b[h->variance].tier != b[h->master].tier;
    }
    for (uint32_t t = 0; t < ZERO__N_TIERS; t++)
        most = fmax(most, fabs((double)bytes[t] / (double)all -
                               r->placed[ZERO__P_OPTIMIZER][t] / (double)ZERO__PLACE_PARTS));
    return most;
}

static void try(const uint64_t *sizes, uint32_t n, const uint16_t *parts, double allowed,
                const char *what)
{
    struct zero__recipe r = {.stage = 3, .ranks = 2, .accum = 1, .n_moments = 2,
                             .bucket_bytes = 64 << 20, .prefetch_bytes = 1 << 30,
                             .retain_bytes = -1, .tile = 1 << 20, .tiles = 4};
    struct zero__model m;
    struct zero__states s;
    uint32_t apart;

    memcpy(r.placed[ZERO__P_OPTIMIZER], parts, sizeof r.placed[ZERO__P_OPTIMIZER]);
    build(sizes, n, &r, &m, &s);
    double off = distance(&m, &r, &s, &apart);
    ok(off <= allowed && !apart, "%s: %.3f, %.3f, %.3f is met but for %.3f", what,
       parts[0] / 1000., parts[1] / 1000., parts[2] / 1000., off);
    zero__states_free(&s);
    zero__model_free(&m);
}

/* GPT-2 124M: an embedding of 31 %, whichever comes first. */
static void with_embedding(int last)
{
    static const uint16_t parts[][ZERO__N_TIERS] = {
        {0, 155, 845}, {155, 0, 845}, {0, 500, 500}, {100, 300, 600},
        {0, 600, 400}, {0, 950, 50},  {0, 1000, 0},  {340, 330, 330},
    };
    uint64_t sizes[14];

    for (int i = 0; i < 14; i++)
        sizes[i] = 7087872;
    sizes[last ? 13 : 0] = 38633472;
    sizes[1] = 786432;
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++)
        try(sizes, 14, parts[i], 0.03, last ? "embedding last" : "embedding first");
}

/* No tier is further off than the largest unit is large. */
static void at_random(uint64_t seed)
{
    uint64_t state = seed, sizes[MOST_UNITS], all = 0, largest = 0;
    uint32_t n = 1 + (uint32_t)(random_next(&state) % MOST_UNITS);
    uint16_t parts[ZERO__N_TIERS] = {0};
    char what[40];

    for (uint32_t i = 0; i < n; i++) {
        sizes[i] = UINT64_C(65536) << random_next(&state) % 8;
        all += sizes[i];
        largest = sizes[i] > largest ? sizes[i] : largest;
    }
    parts[0] = (uint16_t)(random_next(&state) % (ZERO__PLACE_PARTS + 1));
    parts[1] = (uint16_t)(random_next(&state) % (ZERO__PLACE_PARTS + 1u - parts[0]));
    parts[2] = (uint16_t)(ZERO__PLACE_PARTS - parts[0] - parts[1]);
    snprintf(what, sizeof what, "%u units, seed %" PRIu64, n, seed);
    try(sizes, n, parts, (double)largest / (double)all, what);
}

int main(void)
{
    with_embedding(0);
    with_embedding(1);
    for (uint64_t i = 0; i < 50; i++)
        at_random(SEED + i);
    done();
}
