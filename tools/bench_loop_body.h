/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain loops in vectors of VECTOR_BYTES, included by bench_loops.c once per instruction set with
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

ISA static void NAME(copy)(char *dst, const char *src, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i += VECTOR_BYTES)
        PUT(dst, i, FROM(VU, src, i), true);
}

/* dst[i] = src[i] + src[step + i] + …, in bytes; n sources. */
INLINE void NAME(add_fp32)(char *dst, const char *src, uint64_t bytes, uint64_t step, unsigned n,
                           bool stream)
{
    for (uint64_t i = 0; i < bytes; i += VECTOR_BYTES) {
        VF a = FROM(VF, src, i);
        for (unsigned k = 1; k < n; k++)
            a += FROM(VF, src, k * step + i);
        PUT(dst, i, (VU)a, stream);
    }
}

/* Pairs of bf16 in a word: the upper half is a float as it is, the lower one after a shift. */
INLINE void NAME(add_bf16)(char *dst, const char *src, uint64_t bytes, uint64_t step, unsigned n,
                           bool stream)
{
    for (uint64_t i = 0; i < bytes; i += VECTOR_BYTES) {
        VU w = FROM(VU, src, i);
        VF even = (VF)(w << 16), odd = (VF)(w & 0xffff0000u);
        for (unsigned k = 1; k < n; k++) {
            w = FROM(VU, src, k * step + i);
            even += (VF)(w << 16);
            odd += (VF)(w & 0xffff0000u);
        }
        w = (((VU)even + 0x8000u) >> 16) | (((VU)odd + 0x8000u) & 0xffff0000u);
        PUT(dst, i, w, stream);
    }
}

ISA static void NAME(add)(char *dst, const char *src, uint64_t bytes, uint64_t step, unsigned n,
                          bool wide, bool stream)
{
    if (n == 2 && wide && stream)
        NAME(add_fp32)(dst, src, bytes, step, 2, true);
    else if (n == 2 && wide)
        NAME(add_fp32)(dst, src, bytes, step, 2, false);
    else if (n == 2 && stream)
        NAME(add_bf16)(dst, src, bytes, step, 2, true);
    else if (n == 2)
        NAME(add_bf16)(dst, src, bytes, step, 2, false);
    else if (wide)
        NAME(add_fp32)(dst, src, bytes, step, n, stream);
    else
        NAME(add_bf16)(dst, src, bytes, step, n, stream);
}

ISA static uint32_t NAME(read)(const char *x, uint64_t bytes)
{
    VU a = {0}, b = {0};
    uint32_t sum = 0;

    for (uint64_t i = 0; i + 2 * VECTOR_BYTES <= bytes; i += 2 * VECTOR_BYTES) {
        a += FROM(VU, x, i);
        b += FROM(VU, x, i + VECTOR_BYTES);
    }
    a += b;
    for (unsigned k = 0; k < VECTOR_BYTES / 4; k++)
        sum += a[k];
    return sum;
}

/*
 * Two vectors of each state a turn; `zero` is 0, which the compiler does not know. All loads come
 * before the stores: a load right behind a store to the same place of another page has to wait.
 */
INLINE void NAME(states)(const struct bench_states *s, uint64_t first, uint64_t end, uint32_t zero,
                         bool wide_grad, bool out, bool stream)
{
    const uint64_t next = VECTOR_BYTES;

    for (uint64_t i = 4 * first; i < 4 * end; i += 2 * next) {
        VU g = FROM(VU, s->grad, wide_grad ? i : i / 2);
        VU h = wide_grad ? FROM(VU, s->grad, i + next) : g;
        VU p0 = FROM(VU, s->p, i), p1 = FROM(VU, s->p, i + next);
        VU m0 = FROM(VU, s->m, i), m1 = FROM(VU, s->m, i + next);
        VU v0 = FROM(VU, s->v, i), v1 = FROM(VU, s->v, i + next);

        PUT(s->p, i, p0 ^ (g & zero), stream);
        PUT(s->p, i + next, p1 ^ (h & zero), stream);
        PUT(s->m, i, m0 ^ (g & zero), stream);
        PUT(s->m, i + next, m1 ^ (h & zero), stream);
        PUT(s->v, i, v0 ^ (g & zero), stream);
        PUT(s->v, i + next, v1 ^ (h & zero), stream);
        if (out)
            PUT(s->out, i / 2, g ^ (h & zero), stream);
    }
}

ISA static void NAME(update)(const struct bench_states *s, uint64_t first, uint64_t end,
                             uint32_t zero, bool stream)
{
    if (s->wide_grad && s->out && stream)
        NAME(states)(s, first, end, zero, true, true, true);
    else if (s->wide_grad && s->out)
        NAME(states)(s, first, end, zero, true, true, false);
    else if (s->wide_grad && stream)
        NAME(states)(s, first, end, zero, true, false, true);
    else if (s->wide_grad)
        NAME(states)(s, first, end, zero, true, false, false);
    else if (s->out && stream)
        NAME(states)(s, first, end, zero, false, true, true);
    else if (s->out)
        NAME(states)(s, first, end, zero, false, true, false);
    else
        NAME(states)(s, first, end, zero, false, false, stream);
}

static const struct loops NAME(loops) = {NAME(copy), NAME(add), NAME(read), NAME(update)};

#undef INLINE
#undef VU
#undef VF
#undef AT
#undef FROM
#undef PUT
