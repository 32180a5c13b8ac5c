/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vector loop of a floating reduction, written once. The including file defines the vector
 * type `vec` of W floats, FN (attributes of every function) and load_f32, load_bf16, load_f16,
 * store_f32, to_bf16, to_f16, stream_f32, store_h, stream_h (16-bit), vec_add, vec_max, vec_mul,
 * vec_set1 and vec_canonical; for pairs of bf16 `word`, as large as `vec`, load_w, even_of, odd_of,
 * any_nan, to_pairs, store_w and stream_w.
 */
#define MOST 4u /* vectors of each source in a turn */
#define LINE 64u
#define UNROLL _Pragma("GCC unroll 4")

FN vec load(uint32_t dtype, const void *base, uint64_t i)
{
    if (dtype == ZERO_F32)
        return load_f32((const float *)base + i);
    if (dtype == ZERO_BF16)
        return load_bf16((const uint16_t *)base + i);
    return load_f16((const uint16_t *)base + i);
}

FN void store(uint32_t dtype, int stream, void *base, uint64_t i, vec x)
{
    if (dtype == ZERO_F32) {
        if (stream)
            stream_f32((float *)base + i, x);
        else
            store_f32((float *)base + i, x);
    } else {
        half h = dtype == ZERO_BF16 ? to_bf16(x) : to_f16(x);
        if (stream)
            stream_h((uint16_t *)base + i, h);
        else
            store_h((uint16_t *)base + i, h);
    }
}

/*
 * A source's next page, where the processor's own prefetching ends; no address is wrong for it.
 * Measured with sums that stream, two threads of a Zen 3: 16 MiB 1.9 and 1.3 ms, 64 MiB 8.5 and
 * 7.5; those that stay in the caches are as fast without.
 */
FN void ask_ahead(const char *at)
{
    __builtin_prefetch(at + 4096);
}

/*
 * Elements begin … of the pass as far as whole turns go; all after begin are constants. A turn that
 * streams fills one line of the destination: buffers of several half-filled lines are slower.
 *
 * `two`: two sources, no partial sum and nothing to accumulate to. What is the same in every turn
 * was half of its instructions: two threads of a Zen 3 summed 2 MiB each in 108 us so and in 70.
 */
FN uint64_t loop(const struct zero__reduce *r, uint64_t begin, uint32_t sd, uint32_t dd,
                 uint32_t op, int stream, bool two)
{
    const void *near[2] = {r->src[0], r->src[two]}; /* in registers: no store can change them */
    const void *const *src = two ? near : r->src;
    const float *partial = two ? NULL : r->partial;
    const uint64_t first = r->first, count = r->count;
    const uint32_t n = two ? 2 : r->n;
    const bool accumulate = !two && r->accumulate;
    const vec scale = vec_set1(r->scale);
    const uint32_t width = dd == ZERO_F32 ? 4 : 2;
    const uint32_t turn = stream ? LINE / (W * width) : MOST;
    void *dst = r->dst;
    uint64_t i = begin;

    for (; count - i >= turn * W; i += turn * W) {
        vec a[MOST]; /* in registers, whatever the compiler is told of speed */
        UNROLL for (uint32_t k = 0; k < turn; k++)
            a[k] = partial ? load_f32(partial + i + k * W) : load(sd, src[0], first + i + k * W);
        for (uint32_t s = 0; stream && s < n; s++)
            ask_ahead((const char *)src[s] + (first + i) * (sd == ZERO_F32 ? 4 : 2));
        for (uint32_t s = partial ? 0 : 1; s < n; s++)
            UNROLL for (uint32_t k = 0; k < turn; k++) {
                vec x = load(sd, src[s], first + i + k * W);
                a[k] = op == ZERO_SUM ? vec_add(a[k], x) : vec_max(a[k], x);
            }
        bool nan = false; /* seldom, so it is asked for two vectors at once */
        UNROLL for (uint32_t k = 0; k < turn; k++) {
            a[k] = vec_mul(a[k], scale);
            if (accumulate)
                a[k] = vec_add(load(dd, dst, i + k * W), a[k]);
            if (k % 2 || turn == 1)
                nan |= any_nan(a[k], a[k - k % 2]);
        }
        if (__builtin_expect(nan, 0))
            UNROLL for (uint32_t k = 0; k < turn; k++)
                a[k] = vec_canonical(a[k]);
        UNROLL for (uint32_t k = 0; k < turn; k++)
            store(dd, stream, dst, i + k * W, a[k]);
    }
    return i;
}

/*
 * The same from bf16 to bf16. The upper half of each word is a float as it is and the lower one
 * after a shift: that is half the work of spreading 16-bit numbers and packing them again, which
 * is what limits sums that stay in the caches. The caller has no partial sum.
 */
FN uint64_t loop_pairs(const struct zero__reduce *r, uint64_t begin, uint32_t op, int stream,
                       bool two)
{
    const uint16_t *near[2] = {r->src[0], r->src[two]};
    const uint16_t *const *src = two ? near : (const uint16_t *const *)r->src;
    const uint64_t first = r->first, count = r->count;
    const uint32_t n = two ? 2 : r->n, per = 2 * W, turn = LINE / sizeof(word);
    const vec scale = vec_set1(r->scale);
    uint16_t *dst = r->dst;
    uint64_t i = begin;

    for (; count - i >= turn * per; i += turn * per) {
        for (uint32_t s = 0; stream && s < n; s++)
            ask_ahead((const char *)(src[s] + first + i));
        UNROLL for (uint32_t k = 0; k < turn; k++) {
            word w = load_w(src[0] + first + i + k * per);
            vec even = even_of(w), odd = odd_of(w);
            for (uint32_t s = 1; s < n; s++) {
                w = load_w(src[s] + first + i + k * per);
                even = op == ZERO_SUM ? vec_add(even, even_of(w)) : vec_max(even, even_of(w));
                odd = op == ZERO_SUM ? vec_add(odd, odd_of(w)) : vec_max(odd, odd_of(w));
            }
            even = vec_mul(even, scale);
            odd = vec_mul(odd, scale);
            if (__builtin_expect(any_nan(even, odd), 0)) {
                even = vec_canonical(even);
                odd = vec_canonical(odd);
            }
            if (stream)
                stream_w(dst + i + k * per, to_pairs(even, odd));
            else
                store_w(dst + i + k * per, to_pairs(even, odd));
        }
    }
    return i;
}

FN uint64_t loop_stream(const struct zero__reduce *r, uint64_t begin, uint32_t sd, uint32_t dd,
                        uint32_t op)
{
    const bool same = sd == dd && op == ZERO_SUM && !r->partial && !r->accumulate;
    const bool two = same && r->n == 2, pairs = sd == ZERO_BF16 && dd == sd && !r->partial;

    if (pairs && two)
        return r->stream ? loop_pairs(r, begin, op, 1, true) : loop_pairs(r, begin, op, 0, true);
    if (pairs)
        return r->stream ? loop_pairs(r, begin, op, 1, false)
                           : loop_pairs(r, begin, op, 0, false);
    if (two)
        return r->stream ? loop(r, begin, sd, dd, op, 1, true)
                           : loop(r, begin, sd, dd, op, 0, true);
    return r->stream ? loop(r, begin, sd, dd, op, 1, false)
                       : loop(r, begin, sd, dd, op, 0, false);
}

FN uint64_t loop_op(const struct zero__reduce *r, uint64_t begin, uint32_t sd, uint32_t dd)
{
    if (r->redop == ZERO_SUM)
        return loop_stream(r, begin, sd, dd, ZERO_SUM);
    return loop_stream(r, begin, sd, dd, ZERO_MAX);
}

FN uint64_t loop_dst(const struct zero__reduce *r, uint64_t begin, uint32_t sd)
{
    if (r->dst_dtype == ZERO_F32)
        return loop_op(r, begin, sd, ZERO_F32);
    if (r->dst_dtype == ZERO_BF16)
        return loop_op(r, begin, sd, ZERO_BF16);
    return loop_op(r, begin, sd, ZERO_F16);
}

/* Elements begin … end - 1 of the pass, which do not fill vectors. */
FN void part_scalar(const struct zero__reduce *r, uint64_t begin, uint64_t end)
{
    struct zero__reduce part = *r;

    if (begin == end)
        return;
    part.dst = (char *)r->dst + begin * zero_dtype_bytes(r->dst_dtype);
    part.first += begin;
    part.count = end - begin;
    if (part.partial)
        part.partial += begin;
    zero__reduce_float_scalar(&part);
}

/* Elements until dst is at the start of a line, for streaming stores. */
FN uint64_t head(const struct zero__reduce *r)
{
    uint64_t width = zero_dtype_bytes(r->dst_dtype);
    uint64_t over = (uintptr_t)r->dst % LINE;
    uint64_t n = over ? (LINE - over) / width : 0;
    return n < r->count ? n : r->count;
}

FN void reduce_float(const struct zero__reduce *r)
{
    uint64_t i = r->stream ? head(r) : 0;

    part_scalar(r, 0, i);
    if (r->src_dtype == ZERO_F32)
        i = loop_dst(r, i, ZERO_F32);
    else if (r->src_dtype == ZERO_BF16)
        i = loop_dst(r, i, ZERO_BF16);
    else
        i = loop_dst(r, i, ZERO_F16);
    part_scalar(r, i, r->count);
}
