/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums and maxima of all instruction sets that this CPU has, against the plainest C, bit for bit:
 * all types, unaligned, any number of sources, in place, accumulating, streaming. And copies.
 */
#include "plugins/common/reduce.h"

#include "plugins/common/copy.h"
#include "tests/tap.h"
#include "tools/common/values.h"

#define MOST 2600u /* elements */
#define SOURCES 20

static const char *word; /* what the option "isa" says */

static const char *give_param(void *ctx, const char *plugin, const char *key, const char *dflt,
                              const char *help)
{
    (void)ctx, (void)plugin, (void)help;
    return word && strcmp(key, "isa") == 0 ? word : dflt;
}

static int keep_error(void *ctx, const char *plugin, int err, const char *fmt, ...)
{
    (void)ctx, (void)plugin, (void)fmt;
    return err;
}

static const struct zero_host host = {.size = sizeof host, .fail = keep_error, .param = give_param};

struct buffers {
    _Alignas(64) char src[SOURCES][(MOST + 16) * 8];
    _Alignas(64) char dst[(MOST + 16) * 8], old[(MOST + 16) * 8];
};

static struct buffers *b;

/* Elements that differ from the reference; the first one is described. */
static unsigned compare(const struct zero__reduce *r, const void *const *src, const void *old,
                        uint64_t count)
{
    struct zero_coll c = {.src_dtype = r->src_dtype,
                          .dst_dtype = r->dst_dtype,
                          .redop = r->redop,
                          .scale = r->scale,
                          .flags = r->accumulate ? ZERO_COLL_ACCUMULATE : 0};
    unsigned bad = 0;

    for (uint64_t i = 0; i < count; i++) {
        bool inside = i >= r->first && i < r->first + r->count;
        uint64_t x[SOURCES] = {0}, was = value_load(r->dst_dtype, old, i);
        for (uint32_t s = 0; s < r->n; s++)
            x[s] = value_load(r->src_dtype, src[s], i);
        uint64_t want = inside ? reduce_reference(&c, x, (int)r->n, was) : was;
        uint64_t got = value_load(r->dst_dtype, r->dst, i);
        uint32_t bits = 8 * zero_dtype_bytes(r->dst_dtype);
        if (bits < 64)
            want &= (UINT64_C(1) << bits) - 1;
        if (got != want && !bad++)
            diag("%s to %s, %u sources, element %" PRIu64 " of %" PRIu64 ": %" PRIx64
                 ", want %" PRIx64,
                 zero_dtype_name(r->src_dtype), zero_dtype_name(r->dst_dtype), r->n, i, r->count,
                 got, want);
    }
    return bad;
}

/* One reduction with everything chosen from `seed`. */
static unsigned trial(enum zero__isa isa, uint64_t seed, uint32_t sd, uint32_t dd)
{
    uint64_t z = mix(seed, 7, 7), skew = (z >> 4) % 5, count;
    uint32_t n = 1 + (uint32_t)(z >> 8) % SOURCES;
    bool floats = sd == ZERO_F32 || sd == ZERO_BF16 || sd == ZERO_F16;
    const void *src[SOURCES], *copy[SOURCES];
    struct zero__reduce r = {.n = n, .src_dtype = sd, .dst_dtype = dd, .scale = 1};

    r.redop = (z >> 16) % 3 == 0 ? ZERO_MAX : ZERO_SUM;
    if (r.redop == ZERO_SUM && (floats || sd == ZERO_F64) && (z >> 20) % 2)
        r.scale = 1.0f / (float)(1 + (z >> 24) % 9);
    r.accumulate = floats && dd == ZERO_F32 && r.redop == ZERO_SUM && (z >> 28) % 2;
    r.stream = !r.accumulate && (z >> 29) % 2;
    count = (z >> 32) % (z & 1 ? MOST : 70);
    r.first = (z >> 48) % (count + 1);
    r.count = count - r.first;
    for (uint32_t s = 0; s < n; s++) {
        char *base = b->src[s] + skew * zero_dtype_bytes(sd);
        for (uint64_t i = 0; i < count; i++)
            value_store(sd, base, i, value_bits(sd, mix(seed, s, i)));
        src[s] = copy[s] = base;
    }
    r.dst = b->dst + ((z >> 56) % 7) * zero_dtype_bytes(dd);
    for (uint64_t i = 0; i < count; i++)
        value_store(dd, r.dst, i, value_bits(dd, mix(seed, 99, i)));
    if (sd == dd && !r.accumulate && (z >> 60) % 4 == 0) { /* in place: dst is a source */
        uint32_t s = (uint32_t)(z >> 40) % n;
        r.dst = b->src[s] + skew * zero_dtype_bytes(sd);
        copy[s] = b->old;
    }
    memcpy(b->old, r.dst, count * zero_dtype_bytes(dd));
    r.src = src;
    zero__reduce(isa, &r);
    return compare(&r, copy, b->old, count);
}

static void test_isa(enum zero__isa isa)
{
    static const uint32_t floats[] = {ZERO_F32, ZERO_BF16, ZERO_F16};
    static const uint32_t plain[] = {ZERO_I32, ZERO_I64, ZERO_U8, ZERO_F64};
    unsigned bad = 0;

    for (unsigned i = 0; i < 9; i++)
        for (uint64_t seed = 0; seed < 60; seed++)
            bad += trial(isa, seed * 64 + i, floats[i / 3], floats[i % 3]);
    is_int(bad, 0, "%s: floating types give the reference's bits", zero__isa_name(isa));
    bad = 0;
    for (unsigned i = 0; i < 4; i++)
        for (uint64_t seed = 0; seed < 60; seed++)
            bad += trial(isa, seed * 64 + 32 + i, plain[i], plain[i]);
    is_int(bad, 0, "%s: integers and fp64, too", zero__isa_name(isa));
}

/* A sum that goes on from an fp32 one, in its place or not, is that of all sources at once. */
static void test_partial(enum zero__isa isa)
{
    static const uint32_t types[] = {ZERO_F32, ZERO_BF16, ZERO_F16};
    static _Alignas(64) float once[MOST], begun[MOST];
    unsigned bad = 0;

    for (uint64_t seed = 0; seed < 90; seed++) {
        uint32_t dtype = types[seed % 3], n = 2 + (uint32_t)(seed % (SOURCES - 1)), k = n / 2;
        uint64_t count = mix(seed, 5, 5) % MOST;
        const void *src[SOURCES];
        for (uint32_t s = 0; s < n; s++) {
            for (uint64_t i = 0; i < count; i++)
                value_store(dtype, b->src[s], i, value_bits(dtype, mix(seed, s, i)));
            src[s] = b->src[s];
        }
        struct zero__reduce r = {.dst = once,
                                 .src = src,
                                 .n = n,
                                 .src_dtype = dtype,
                                 .dst_dtype = ZERO_F32,
                                 .redop = seed % 5 == 0 ? ZERO_MAX : ZERO_SUM,
                                 .scale = 1,
                                 .count = count};
        zero__reduce(isa, &r);
        r.dst = begun, r.n = k;
        zero__reduce(isa, &r);
        r.dst = seed % 2 ? (void *)begun : b->dst;
        r.src = src + k, r.n = n - k, r.partial = begun;
        zero__reduce(isa, &r);
        bad += memcmp(once, r.dst, count * sizeof *once) != 0;
    }
    is_int(bad, 0, "%s: a sum in two parts is that of one", zero__isa_name(isa));
}

/* Every 16-bit value of both types, converted there and back. */
static void test_conversions(enum zero__isa isa)
{
    static uint16_t in[65536], out[65536];
    static float wide[65536];
    const void *src = in, *back = wide;
    unsigned bad = 0;

    for (uint32_t i = 0; i < 65536; i++)
        in[i] = (uint16_t)i;
    for (uint32_t dtype = ZERO_BF16; dtype <= ZERO_F16; dtype++) {
        struct zero__reduce up = {.dst = wide,
                                  .src = &src,
                                  .n = 1,
                                  .src_dtype = dtype,
                                  .dst_dtype = ZERO_F32,
                                  .scale = 1,
                                  .count = 65536};
        struct zero__reduce down = {.dst = out,
                                    .src = &back,
                                    .n = 1,
                                    .src_dtype = ZERO_F32,
                                    .dst_dtype = dtype,
                                    .scale = 1,
                                    .count = 65536};
        zero__reduce(isa, &up);
        zero__reduce(isa, &down);
        for (uint32_t i = 0; i < 65536; i++) {
            float x = value_float(dtype, i);
            bad += out[i] != value_round(dtype, x);
            bad += zero_bits_of_float(wide[i]) != value_round(ZERO_F32, x);
        }
    }
    is_int(bad, 0, "%s: all 16-bit values convert", zero__isa_name(isa));
}

static void test_copy(enum zero__isa isa)
{
    static _Alignas(64) unsigned char src[5000], dst[5000];
    unsigned bad = 0;

    for (unsigned i = 0; i < sizeof src; i++)
        src[i] = (unsigned char)mix(1, 2, i);
    for (uint64_t trial_no = 0; trial_no < 2000; trial_no++) {
        uint64_t z = mix(3, 4, trial_no), bytes = (z >> 8) % 4500, from = (z >> 32) % 200,
                 to = (z >> 40) % 200;
        memset(dst, 0xaa, sizeof dst);
        zero__copy(isa, dst + to, src + from, bytes, (enum zero__copy_way)(trial_no % 3));
        bad += memcmp(dst + to, src + from, bytes) != 0;
        for (uint64_t i = 0; i < sizeof dst; i++)
            bad += (i < to || i >= to + bytes) && dst[i] != 0xaa;
    }
    is_int(bad, 0, "%s: copies of any size and alignment, in each way", zero__isa_name(isa));
}

int main(void)
{
    enum zero__isa best, chosen;

    is_int(zero__isa_select(&host, "test", &best), 0, "the best is chosen");
    b = aligned_alloc(64, (sizeof *b + 63) / 64 * 64);
    if (!b)
        bail("no memory");
    for (enum zero__isa isa = ZERO__ISA_SCALAR; isa <= best; isa++) {
        word = zero__isa_name(isa);
        chosen = ZERO__ISA_AUTO;
        ok(!zero__isa_select(&host, "test", &chosen) && chosen == isa, "the option chooses %s",
           word);
        test_isa(isa);
        test_partial(isa);
        test_conversions(isa);
        test_copy(isa);
    }
    word = "mmx";
    is_int(zero__isa_select(&host, "test", &chosen), -22, "an unknown instruction set is refused");
    done();
}
