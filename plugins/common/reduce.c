/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the loop for a reduction. More sources than are read well side by side go through an
 * unrounded fp32 partial sum that stays in the first cache: the order of additions is the same.
 */
#include "reduce.h"

#include <errno.h>

#include "param.h"

#define PARTIAL 2048u /* elements */

int zero__isa_select(const struct zero_host *host, const char *plugin, enum zero__isa *isa)
{
    static const enum zero__isa isas[] = {ZERO__ISA_AUTO, ZERO__ISA_AVX512, ZERO__ISA_AVX2,
                                          ZERO__ISA_SCALAR};
    const struct zero__voice voice = {host, plugin};
    int which, err = zero__param_word(&voice, "isa", "auto", "auto|avx512|avx2|scalar",
                                      "instruction set of sums: auto, avx512, avx2 or scalar",
                                      &which);

    if (err)
        return err;
    enum zero__isa best = zero__isa_best(), wanted = isas[which];
    if (wanted > best)
        return zero__say(&voice, -ENOTSUP, "ZERO_ISA is %s, but this CPU goes up to %s: use auto",
                         zero__isa_name(wanted), zero__isa_name(best));
    *isa = wanted == ZERO__ISA_AUTO ? best : wanted;
    return 0;
}

static void pass_run(enum zero__isa isa, const struct zero__reduce *r)
{
#if defined(__x86_64__)
    if (isa == ZERO__ISA_AVX512) {
        zero__reduce_float_avx512(r);
        return;
    }
    if (isa == ZERO__ISA_AVX2) {
        zero__reduce_float_avx2(r);
        return;
    }
#endif
    (void)isa;
    zero__reduce_float_scalar(r);
}

/* Sources s … of r, as many as one pass takes, over count elements from element i of r. */
static struct zero__reduce pass_of(const struct zero__reduce *r, uint32_t s, uint64_t i,
                                   uint64_t count)
{
    struct zero__reduce p = *r;
    p.dst = (char *)r->dst + (r->first + i) * zero_dtype_bytes(r->dst_dtype);
    p.src = r->src + s;
    p.n = r->n - s < ZERO__REDUCE_FAN_IN ? r->n - s : ZERO__REDUCE_FAN_IN;
    p.first = r->first + i;
    p.count = count;
    p.partial = r->partial ? r->partial + i : NULL;
    return p;
}

/* One block of a reduction with many sources: all passes but the last leave the bare sum in x. */
static void block_run(enum zero__isa isa, const struct zero__reduce *r, uint64_t i, uint64_t count)
{
    float x[PARTIAL];

    for (uint32_t s = 0; s < r->n; s += ZERO__REDUCE_FAN_IN) {
        struct zero__reduce p = pass_of(r, s, i, count);
        if (s)
            p.partial = x;
        if (s + ZERO__REDUCE_FAN_IN < r->n) {
            p.dst = x;
            p.dst_dtype = ZERO_F32;
            p.scale = 1;
            p.accumulate = p.stream = 0;
        }
        pass_run(isa, &p);
    }
}

static void reduce_float(enum zero__isa isa, const struct zero__reduce *r)
{
    if (r->n <= ZERO__REDUCE_FAN_IN) {
        struct zero__reduce p = pass_of(r, 0, 0, r->count);
        pass_run(isa, &p);
        return;
    }
    for (uint64_t i = 0; i < r->count; i += PARTIAL)
        block_run(isa, r, i, r->count - i < PARTIAL ? r->count - i : PARTIAL);
}

/* Streamed stores are weakly ordered: a counter published next must follow them. */
static void fence(const struct zero__reduce *r)
{
#if defined(__x86_64__)
    if (r->stream)
        __builtin_ia32_sfence();
#else
    (void)r;
#endif
}

/* Integers and fp64: simple loops in their own type. finish(x) ends the result x of an element. */
#define REDUCE_PLAIN(name, type, wide, finish)                                  \
    static void name(const struct zero__reduce *r)                              \
    {                                                                           \
        type a[256], *dst = r->dst;                                             \
        for (uint64_t i = r->first, end = i + r->count; i < end; i += 256) {    \
            uint32_t n = end - i < 256 ? (uint32_t)(end - i) : 256;             \
            memcpy(a, (const type *)r->src[0] + i, n * sizeof(type));           \
            for (uint32_t s = 1; s < r->n; s++) {                               \
                const type *x = (const type *)r->src[s] + i;                    \
                if (r->redop == ZERO_SUM)                                       \
                    for (uint32_t k = 0; k < n; k++)                            \
                        a[k] = (type)((wide)a[k] + (wide)x[k]);                 \
                else                                                            \
                    for (uint32_t k = 0; k < n; k++)                            \
                        a[k] = (!(x[k] <= a[k]) && a[k] == a[k]) ? x[k] : a[k]; \
            }                                                                   \
            for (uint32_t k = 0; k < n; k++)                                    \
                a[k] = finish(a[k]);                                            \
            memcpy(dst + i, a, n * sizeof(type));                               \
        }                                                                       \
    }

#define KEEP(x) (x)
#define SCALED(x) canonical_f64((x) * (double)r->scale)

static double canonical_f64(double x)
{
    return x == x ? x : (double)__builtin_nanf("");
}

REDUCE_PLAIN(reduce_i32, int32_t, uint32_t, KEEP)
REDUCE_PLAIN(reduce_i64, int64_t, uint64_t, KEEP)
REDUCE_PLAIN(reduce_u8, uint8_t, uint32_t, KEEP)
REDUCE_PLAIN(reduce_f64, double, double, SCALED)

void zero__reduce(enum zero__isa isa, const struct zero__reduce *r)
{
    switch (r->src_dtype) {
    case ZERO_I32:
        reduce_i32(r);
        break;
    case ZERO_I64:
        reduce_i64(r);
        break;
    case ZERO_U8:
        reduce_u8(r);
        break;
    case ZERO_F64:
        reduce_f64(r);
        break;
    default:
        reduce_float(isa, r);
        fence(r);
    }
}
