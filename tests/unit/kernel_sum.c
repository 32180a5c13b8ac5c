/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SUM of every instruction set against the sum of the transports, bit by bit: all pairs of types,
 * one source to sixteen, in place, into an accumulator, going on from a partial sum, with guards.
 */
#include "kernel.h"

#include "../../plugins/common/reduce.h"

#define ROUNDS 200
#define MOST 70000u
#define GUARD 64u

static float source[ZERO_SUM_SOURCES][MOST + GUARD];
static float partial[MOST + GUARD];
static float got[MOST + 2 * GUARD], want[MOST + 2 * GUARD], before[MOST + 2 * GUARD];

static uint64_t some_count(uint64_t *seed)
{
    static const uint64_t edges[] = {0, 1, 7, 8, 9, 15, 16, 17, 31, 33, 32767, 32768, 32769, 65537};
    uint64_t n = random_next(seed);

    return n % 3 ? edges[n / 3 % (sizeof edges / sizeof *edges)] : n / 3 % 3000;
}

static void values(void *x, uint64_t n, uint32_t dtype, bool specials, uint64_t *seed)
{
    for (uint64_t i = 0; i < n; i++)
        put(x, i, dtype,
            specials && random_next(seed) % 6 == 0 ? special(random_next(seed)) : uniform(seed));
}

static void reference(const struct zero_sum_args *a)
{
    struct zero__reduce r = {
        .dst = a->dst,
        .src = a->src,
        .n = a->n,
        .src_dtype = a->src_dtype,
        .dst_dtype = a->dst_dtype,
        .redop = ZERO_SUM,
        .scale = a->scale,
        .accumulate = a->accumulate != 0,
        .count = a->count,
        .partial = a->partial,
    };

    if (a->count)
        zero__reduce(ZERO__ISA_SCALAR, &r);
}

static bool agrees(enum zero__isa isa, uint32_t from, uint32_t to, uint64_t *seed)
{
    const void *src[ZERO_SUM_SOURCES];
    uint64_t at = random_next(seed) % GUARD, lead = random_next(seed) % 8;
    struct zero_sum_args a = {
        .dst = (char *)got + (GUARD + at) * zero_dtype_bytes(to),
        .src = src,
        .count = some_count(seed),
        .n = 1 + (uint32_t)(random_next(seed) % ZERO_SUM_SOURCES),
        .src_dtype = from,
        .dst_dtype = to,
        .accumulate = to == ZERO_F32 && random_next(seed) % 3 == 0,
        .scale = random_next(seed) % 2 ? 1 : 1.0f / 3,
    };
    bool specials = random_next(seed) % 2;

    for (uint32_t k = 0; k < a.n; k++) {
        values(source[k], a.count + lead, from, specials, seed);
        src[k] = (char *)source[k] + lead * zero_dtype_bytes(from);
    }
    values(got, MOST, to, specials, seed);
    values(partial, a.count, ZERO_F32, specials, seed);
    a.partial = random_next(seed) % 3 ? NULL : partial;
    if (from == to && !a.accumulate && random_next(seed) % 3 == 0) {
        memcpy(a.dst, src[a.n - 1], a.count * zero_dtype_bytes(to));
        src[a.n - 1] = a.dst;
    }
    memcpy(before, got, sizeof before);
    reference(&a);
    memcpy(want, got, sizeof want);
    memcpy(got, before, sizeof before);
    run_kernel(isa, ZERO_KERNEL_SUM, &a);
    return memcmp(got, want, sizeof got) == 0;
}

static void all_types(enum zero__isa isa)
{
    for (unsigned from = 0; from < N_REALS; from++)
        for (unsigned to = 0; to < N_REALS; to++) {
            uint64_t seed = SEED;
            int round = 0;
            while (round < ROUNDS && agrees(isa, reals[from], reals[to], &seed))
                round++;
            if (!ok(round == ROUNDS, "%s: sums of %s to %s", zero__loops(isa)->name,
                    zero_dtype_name(reals[from]), zero_dtype_name(reals[to])))
                diag("round %d, seed %" PRIu64, round, SEED);
        }
}

int main(void)
{
    for (unsigned i = 0; i < N_ISAS; i++)
        if (zero__loops(all_isas[i]))
            all_types(all_isas[i]);
        else
            skip("sums", "instruction set missing on this CPU");
    done();
}
