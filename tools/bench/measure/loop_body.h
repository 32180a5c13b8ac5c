/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain loops in vectors of VECTOR_BYTES, included by loops.c once per instruction set with
 * ISA, NAME(x) and STREAM(to, vector). No include guard. Destinations of streams are aligned.
 */
typedef uint32_t NAME(vu) __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
typedef float NAME(vf) __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));

#define INLINE ISA static inline __attribute__((always_inline))
#define VU NAME(vu)
#define VF NAME(vf)
#define AT(type, base, i) (*(type *)(void *)((char *)(base) + (i)))
#define FROM(type, base, i) (*(const type *)(const void *)((const char *)(base) + (i)))
#define PUT(base, i, x, stream)              \
    do {                                     \
        if (stream)                          \
            STREAM((char *)(base) + (i), x); \
        else                                 \
            AT(VU, base, i) = (x);           \
    } while (0)

/* Calls FN(four, stream) with constants, so that each of the four is a loop of its own. */
#define CHOOSE(four, stream, FN) \
    do {                         \
        if (four && stream)      \
            FN(true, true);      \
        else if (four)           \
            FN(true, false);     \
        else if (stream)         \
            FN(false, true);     \
        else                     \
            FN(false, false);    \
    } while (0)

/* The next page of a source, where the processor's own prefetching ends; no address is wrong. */
INLINE void NAME(ask)(const char *at, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i += 64)
        __builtin_prefetch(at + 4096 + i);
}

INLINE void NAME(copy_by)(char *dst, const char *src, uint64_t bytes, bool four, bool stream,
                          bool ahead)
{
    const uint64_t v = VECTOR_BYTES;
    uint64_t i = 0;

    for (; four && i + 4 * v <= bytes; i += 4 * v) {
        if (ahead)
            NAME(ask)(src + i, 4 * v);
        VU a = FROM(VU, src, i), b = FROM(VU, src, i + v);
        VU c = FROM(VU, src, i + 2 * v), d = FROM(VU, src, i + 3 * v);
        PUT(dst, i, a, stream);
        PUT(dst, i + v, b, stream);
        PUT(dst, i + 2 * v, c, stream);
        PUT(dst, i + 3 * v, d, stream);
    }
    for (; i < bytes; i += v)
        PUT(dst, i, FROM(VU, src, i), stream);
}

ISA static void NAME(copy)(char *dst, const char *src, uint64_t bytes, bool four, bool stream,
                           bool ahead)
{
#define COPY(four, stream) NAME(copy_by)(dst, src, bytes, four, stream, false)
    if (ahead)
        NAME(copy_by)(dst, src, bytes, true, true, true);
    else
        CHOOSE(four, stream, COPY);
#undef COPY
}

/* The sum of a vector of each of n sources, `step` bytes apart. */
INLINE VU NAME(sum_fp32)(const char *src, uint64_t step, unsigned n)
{
    VF a = FROM(VF, src, 0);

#pragma GCC unroll 8
    for (unsigned k = 1; k < n; k++)
        a += FROM(VF, src, k * step);
    return (VU)a;
}

/* Pairs of bf16 in a word: the upper half is a float as it is, the lower one after a shift. */
INLINE VU NAME(sum_bf16)(const char *src, uint64_t step, unsigned n)
{
    VU w = FROM(VU, src, 0);
    VF even = (VF)(w << 16), odd = (VF)(w & 0xffff0000u);

#pragma GCC unroll 8
    for (unsigned k = 1; k < n; k++) {
        w = FROM(VU, src, k * step);
        even += (VF)(w << 16);
        odd += (VF)(w & 0xffff0000u);
    }
    return (((VU)even + 0x8000u) >> 16) | (((VU)odd + 0x8000u) & 0xffff0000u);
}

INLINE VU NAME(sum)(const char *src, uint64_t step, unsigned n, bool wide)
{
    return wide ? NAME(sum_fp32)(src, step, n) : NAME(sum_bf16)(src, step, n);
}

/* dst[i] = src[i] + src[step + i] + …, in bytes; n sources. */
INLINE void NAME(add_by)(char *dst, const char *src, uint64_t bytes, uint64_t step, unsigned n,
                         bool wide, bool four, bool stream, bool ahead)
{
    const uint64_t v = VECTOR_BYTES;
    uint64_t i = 0;

    for (; four && i + 4 * v <= bytes; i += 4 * v) {
        for (unsigned k = 0; ahead && k < n; k++)
            NAME(ask)(src + i + k * step, 4 * v);
        VU a = NAME(sum)(src + i, step, n, wide), b = NAME(sum)(src + i + v, step, n, wide);
        VU c = NAME(sum)(src + i + 2 * v, step, n, wide);
        VU d = NAME(sum)(src + i + 3 * v, step, n, wide);
        PUT(dst, i, a, stream);
        PUT(dst, i + v, b, stream);
        PUT(dst, i + 2 * v, c, stream);
        PUT(dst, i + 3 * v, d, stream);
    }
    for (; i < bytes; i += v)
        PUT(dst, i, NAME(sum)(src + i, step, n, wide), stream);
}

/* With constants for n and wide, so that a turn has no loop over the sources. */
INLINE void NAME(add_of)(char *dst, const char *src, uint64_t bytes, uint64_t step, unsigned n,
                         bool wide, bool four, bool stream, bool ahead)
{
#define ADD(four, stream) NAME(add_by)(dst, src, bytes, step, n, wide, four, stream, false)
    if (ahead)
        NAME(add_by)(dst, src, bytes, step, n, wide, true, true, true);
    else
        CHOOSE(four, stream, ADD);
#undef ADD
}

ISA static void NAME(add)(char *dst, const char *src, uint64_t bytes, uint64_t step, unsigned n,
                          bool wide, bool four, bool stream, bool ahead)
{
#define ADD_OF(n, wide) NAME(add_of)(dst, src, bytes, step, n, wide, four, stream, ahead)
    if (n == 2 && wide)
        ADD_OF(2, true);
    else if (n == 4 && wide)
        ADD_OF(4, true);
    else if (n == 8 && wide)
        ADD_OF(8, true);
    else if (wide)
        ADD_OF(n, true);
    else if (n == 2)
        ADD_OF(2, false);
    else if (n == 4)
        ADD_OF(4, false);
    else if (n == 8)
        ADD_OF(8, false);
    else
        ADD_OF(n, false);
#undef ADD_OF
}

INLINE uint32_t NAME(read_by)(const char *x, uint64_t bytes, bool ahead)
{
    VU a = {0}, b = {0};
    uint32_t sum = 0;

    for (uint64_t i = 0; i + 2 * VECTOR_BYTES <= bytes; i += 2 * VECTOR_BYTES) {
        if (ahead)
            NAME(ask)(x + i, 2 * VECTOR_BYTES);
        a += FROM(VU, x, i);
        b += FROM(VU, x, i + VECTOR_BYTES);
    }
    a += b;
    for (unsigned k = 0; k < VECTOR_BYTES / 4; k++)
        sum += a[k];
    return sum;
}

ISA static uint32_t NAME(read)(const char *x, uint64_t bytes, bool ahead)
{
    return ahead ? NAME(read_by)(x, bytes, true) : NAME(read_by)(x, bytes, false);
}

/* Two vectors of each state; `k` names the variables. */
#define LOAD_PAIR(k, i)                                             \
    VU g##k = FROM(VU, s->grad, wide_grad ? (i) : (i) / 2);         \
    VU h##k = wide_grad ? FROM(VU, s->grad, (i) + next) : g##k;     \
    VU p##k = FROM(VU, s->p, i), q##k = FROM(VU, s->p, (i) + next); \
    VU m##k = FROM(VU, s->m, i), n##k = FROM(VU, s->m, (i) + next); \
    VU v##k = FROM(VU, s->v, i), w##k = FROM(VU, s->v, (i) + next)
#define STORE_PAIR(k, i)                                        \
    do {                                                        \
        PUT(s->p, i, p##k ^ (g##k & zero), stream);             \
        PUT(s->p, (i) + next, q##k ^ (h##k & zero), stream);    \
        PUT(s->m, i, m##k ^ (g##k & zero), stream);             \
        PUT(s->m, (i) + next, n##k ^ (h##k & zero), stream);    \
        PUT(s->v, i, v##k ^ (g##k & zero), stream);             \
        PUT(s->v, (i) + next, w##k ^ (h##k & zero), stream);    \
        if (out)                                                \
            PUT(s->out, (i) / 2, g##k ^ (h##k & zero), copy);   \
    } while (0)

/*
 * Two or four vectors of each state a turn; `zero` is 0, which the compiler does not know. All
 * loads come before the stores: a load right behind a store to the same place of another page has
 * to wait.
 */
INLINE void NAME(states)(const struct bench_states *s, uint64_t first, uint64_t end, uint32_t zero,
                         bool wide_grad, bool out, bool four, bool stream, bool copy)
{
    const uint64_t next = VECTOR_BYTES;

    for (uint64_t i = 4 * first; i < 4 * end; i += (four ? 4 : 2) * next) {
        LOAD_PAIR(0, i);
        if (four) {
            LOAD_PAIR(1, i + 2 * next);
            STORE_PAIR(0, i);
            STORE_PAIR(1, i + 2 * next);
        } else {
            STORE_PAIR(0, i);
        }
    }
}

ISA static void NAME(update)(const struct bench_states *s, uint64_t first, uint64_t end,
                             uint32_t zero, bool four, bool stream, bool copy)
{
#define STATES(four, stream) NAME(states)(s, first, end, zero, WIDE, OUT, four, stream, stream)
#define COPIES(four) NAME(states)(s, first, end, zero, WIDE, OUT, four, false, true)
#define CHOOSE_COPY                       \
    do {                                  \
        if (copy && !stream && four)      \
            COPIES(true);                 \
        else if (copy && !stream)         \
            COPIES(false);                \
        else                              \
            CHOOSE(four, stream, STATES); \
    } while (0)
#define WIDE true
#define OUT true
    if (s->wide_grad && s->out)
        CHOOSE_COPY;
#undef OUT
#define OUT false
    else if (s->wide_grad)
        CHOOSE(four, stream, STATES);
#undef WIDE
#define WIDE false
    else if (!s->out)
        CHOOSE(four, stream, STATES);
#undef OUT
#define OUT true
    else
        CHOOSE_COPY;
#undef OUT
#undef WIDE
#undef STATES
#undef COPIES
#undef CHOOSE_COPY
}

static const struct loops NAME(loops) = {NAME(copy), NAME(add), NAME(read), NAME(update)};

#undef INLINE
#undef CHOOSE
#undef LOAD_PAIR
#undef STORE_PAIR
#undef VU
#undef VF
#undef AT
#undef FROM
#undef PUT
