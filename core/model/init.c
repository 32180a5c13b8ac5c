/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Initial values by a counter-based generator: element i is a function of (seed, i) alone, so that
 * every rank fills just its own part and the model is the same at any number of ranks.
 * The mixer is SplitMix64's finaliser (Steele, Lea, Flood, OOPSLA 2014); normal numbers come from
 * the Box-Muller transform, elements 2k and 2k + 1 from one pair of uniforms, in fp64.
 */
#include "model/model.h"

#include <math.h>

#include "base/status.h"

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* The i-th uniform number of a seed, in (0, 1). */
static double uniform(uint64_t seed, uint64_t i)
{
    uint64_t x =
        mix(mix(seed + UINT64_C(0x9e3779b97f4a7c15)) + (i + 1) * UINT64_C(0x9e3779b97f4a7c15));
    return ((double)(x >> 11) + 0.5) * 0x1p-53;
}

/* Elements first … first + count; the two of a pair are made at once. */
static void normals(const struct zero_init *n, uint64_t first, uint64_t count, float *values)
{
    for (uint64_t i = first; i < first + count; i += 2 - i % 2) {
        uint64_t pair = i & ~UINT64_C(1);
        double r = sqrt(-2.0 * log(uniform(n->seed, pair)));
        double angle = 6.283185307179586476925286766559 * uniform(n->seed, pair + 1);
        if (i == pair)
            values[i - first] = (float)(n->a + (double)n->b * r * cos(angle));
        if (pair + 1 < first + count)
            values[pair + 1 - first] = (float)(n->a + (double)n->b * r * sin(angle));
    }
}

int zero__init_values(const struct zero__param *p, uint64_t first, uint64_t count, float *values)
{
    const struct zero_init *n = &p->init;

    if (n->kind == ZERO_INIT_CALLBACK) {
        int err = n->fn(n->arg, first, count, values);
        return err ? zero__fail(err < 0 ? err : -EINVAL,
                                "the initialiser of parameter %s returned %d", p->name, err)
                   : 0;
    }
    if (n->kind == ZERO_INIT_NORMAL) {
        normals(n, first, count, values);
        return 0;
    }
    for (uint64_t i = 0; i < count; i++) {
        switch (n->kind) {
        case ZERO_INIT_CONSTANT:
            values[i] = n->a;
            break;
        case ZERO_INIT_UNIFORM:
            values[i] = (float)(n->a + ((double)n->b - n->a) * uniform(n->seed, first + i));
            if (values[i] >= n->b && n->b > n->a) /* rounded up */
                values[i] = nextafterf(n->b, n->a);
            break;
        default:
            values[i] = 0;
        }
    }
    return 0;
}
