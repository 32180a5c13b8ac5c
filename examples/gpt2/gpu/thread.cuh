/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a body sees of the machine: which thread of which block it is, shared memory by offset, and
 * barriers. Bodies are templates over it: here it is one thread of a device and vanishes, in tests
 * it is a thread of an emulated grid that checks every access.
 *
 * Bounds are asked through inside(), so that tests can break each in turn and see it noticed.
 */
#ifndef GPT2_GPU_THREAD_CUH
#define GPT2_GPU_THREAD_CUH

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <zero/types.h>

#ifdef __CUDACC__
#define GPT2_GPU __device__ __forceinline__
#define GPT2_UNROLL _Pragma("unroll")
#define GPT2_NO_UNROLL _Pragma("unroll 1")
#define GPT2_UNROLL_SOME _Pragma("unroll 8") /* so that several loads are on their way */
#else
#define GPT2_GPU inline
#define GPT2_UNROLL
#define GPT2_NO_UNROLL
#define GPT2_UNROLL_SOME
#endif

/* Four elements in registers: fp32 values, and as they lie in memory in 16 bits. */
struct alignas(16) vec4 {
    float v[4];
};
struct alignas(8) half4 {
    uint16_t v[4];
};
struct alignas(8) vec2 {
    float v[2];
};
struct alignas(8) half2x2 {
    uint32_t v[2];
};

#ifdef __CUDACC__

/* All dynamic. */
extern __shared__ uint4 gpt2_shared[];

/* One access where T has 4, 8 or 16 bytes. */
template <class T> GPT2_GPU T gpt2_fetch(const void *at)
{
    T value;

    if constexpr (sizeof(T) == 16) {
        uint4 r = *static_cast<const uint4 *>(at);
        memcpy(&value, &r, sizeof value);
    } else if constexpr (sizeof(T) == 8) {
        uint2 r = *static_cast<const uint2 *>(at);
        memcpy(&value, &r, sizeof value);
    } else {
        value = *static_cast<const T *>(at);
    }
    return value;
}

template <class T> GPT2_GPU void gpt2_place(void *at, const T &value)
{
    if constexpr (sizeof(T) == 16) {
        uint4 r;
        memcpy(&r, &value, sizeof r);
        *static_cast<uint4 *>(at) = r;
    } else if constexpr (sizeof(T) == 8) {
        uint2 r;
        memcpy(&r, &value, sizeof r);
        *static_cast<uint2 *>(at) = r;
    } else {
        *static_cast<T *>(at) = value;
    }
}

struct gpt2_thread {
    GPT2_GPU uint32_t index() const
    {
        return threadIdx.x;
    }

    GPT2_GPU uint32_t size() const
    {
        return blockDim.x;
    }

    GPT2_GPU uint64_t block() const
    {
        return blockIdx.x;
    }

    GPT2_GPU uint64_t blocks() const
    {
        return gridDim.x;
    }

    /* Of the grid's second dimension. */
    GPT2_GPU uint32_t row() const
    {
        return blockIdx.y;
    }

    GPT2_GPU void barrier()
    {
        __syncthreads();
    }

    GPT2_GPU bool inside(uint64_t i, uint64_t n)
    {
        return i < n;
    }

    /* Of global memory, aligned to the size of T. */
    template <class T> GPT2_GPU T read(const void *at)
    {
        return gpt2_fetch<T>(at);
    }

    template <class T> GPT2_GPU void write(void *at, const T &value)
    {
        gpt2_place<T>(at, value);
    }

    /* The same of shared memory, counted in floats. */
    template <class T> GPT2_GPU T get(uint32_t at)
    {
        return gpt2_fetch<T>(reinterpret_cast<const float *>(gpt2_shared) + at);
    }

    template <class T> GPT2_GPU void put(uint32_t at, const T &value)
    {
        gpt2_place<T>(reinterpret_cast<float *>(gpt2_shared) + at, value);
    }

    /*
     * BYTES (4, 8 or 16, and aligned to them) of global memory are on their way to shared memory,
     * or zeros where they are not here. They are there, for this thread, after brought().
     */
    template <uint32_t BYTES> GPT2_GPU void bring(uint32_t at, const void *from, bool here)
    {
        if constexpr (BYTES == 16) /* past L1 */
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                         :
                         : "r"(address(at)), "l"(__cvta_generic_to_global(from)),
                           "r"(here ? BYTES : 0)
                         : "memory");
        else
            asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                         :
                         : "r"(address(at)), "l"(__cvta_generic_to_global(from)), "n"(BYTES),
                           "r"(here ? BYTES : 0)
                         : "memory");
    }

    GPT2_GPU void brought()
    {
        asm volatile("cp.async.wait_all;" : : : "memory");
    }

    /* ---- Of a warp: all of its 32 threads call it together ---- */

    /* What the thread has whose number differs in the bits of mask. */
    GPT2_GPU float across(float x, uint32_t mask)
    {
        return __shfl_xor_sync(~0u, x, mask);
    }

    /*
     * A block of 16 × 16 elements of shared memory, rows `stride` floats apart, as right-hand sides
     * of two products: rows are what is added up over where BY_ROW, else columns.
     */
    template <bool BY_ROW> GPT2_GPU void right(uint32_t at, uint32_t stride, uint32_t (&b)[4])
    {
        const uint32_t lane = threadIdx.x % 32, low = lane / 8 % 2, high = lane / 16;
        const uint32_t row = (BY_ROW ? low : high) * 8 + lane % 8, column = BY_ROW ? high : low;
        const uint32_t from = address(at + row * stride + column * 4);

        if constexpr (BY_ROW)
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                         : "r"(from)
                         : "memory");
        else
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                         : "r"(from)
                         : "memory");
    }

    /*
     * c += a b, of 16 × 16 by 16 × 8 elements, added up in fp32. Thread i of the warp has of a, two
     * in a word, rows i / 4 and 8 more, columns 2 (i % 4) and 1 more, then those 8 further right;
     * of b columns i / 4 and the rows that are these columns; of c the rows of a and columns
     * 2 (i % 4) and 1 more.
     */
    template <uint32_t DTYPE>
    GPT2_GPU void product(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
    {
        if constexpr (DTYPE == ZERO_BF16)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                         "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                         : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
        else
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                         "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                         : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }

  private:
    GPT2_GPU uint32_t address(uint32_t at) const
    {
        return static_cast<uint32_t>(
            __cvta_generic_to_shared(reinterpret_cast<float *>(gpt2_shared) + at));
    }
};

#endif

#define GPT2_LOG2_E 1.44269504088896341f

/* 2^x, to two units in the last place; what is below the smallest normal number is 0. */
GPT2_GPU float exp2_of(float x)
{
#ifdef __CUDA_ARCH__
    asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
    return x;
#else
    return exp2f(x);
#endif
}

/* 1 / x, to one unit in the last place; of infinity 0. */
GPT2_GPU float inverse_of(float x)
{
#ifdef __CUDA_ARCH__
    asm("rcp.approx.ftz.f32 %0, %0;" : "+f"(x));
    return x;
#else
    return 1 / x;
#endif
}

/* ---- Elements of any type as fp32 ------------------------------------------------------------ */

GPT2_GPU float float_from_half(uint16_t h, uint32_t dtype)
{
    return dtype == ZERO_BF16 ? zero_float_from_bf16(h) : zero_float_from_fp16(h);
}

/* Two elements in a word, the first one in its lower half. */
GPT2_GPU uint32_t halves_from_floats(float x, float y, uint32_t dtype)
{
#ifdef __CUDA_ARCH__
    uint32_t both;
    if (dtype == ZERO_BF16)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(y), "f"(x));
    else
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(y), "f"(x));
    return both;
#else
    const uint32_t low = dtype == ZERO_BF16 ? zero_bf16_from_float(x) : zero_fp16_from_float(x);
    const uint32_t high = dtype == ZERO_BF16 ? zero_bf16_from_float(y) : zero_fp16_from_float(y);
    return low | high << 16;
#endif
}

GPT2_GPU uint16_t half_from_float(float x, uint32_t dtype)
{
    return static_cast<uint16_t>(halves_from_floats(x, 0, dtype));
}

/* Four elements as they came: loads that are on their way at once wait for no conversion. */
template <uint32_t DTYPE> struct raw4 {
    half4 x;
};
template <> struct raw4<ZERO_F32> {
    vec4 x;
};

/* Elements i … i + 3 of an array; i is a multiple of 4, and the array aligned to 16 bytes. */
template <uint32_t DTYPE, class Thread>
GPT2_GPU raw4<DTYPE> fetch4(Thread &t, const void *array, uint64_t i)
{
    using type = decltype(raw4<DTYPE>::x);
    const uint64_t each = sizeof(type) / 4;

    return {t.template read<type>(static_cast<const char *>(array) + i * each)};
}

template <uint32_t DTYPE> GPT2_GPU vec4 floats4(const raw4<DTYPE> &r)
{
    if constexpr (DTYPE == ZERO_F32) {
        return r.x;
    } else {
        vec4 x;
        GPT2_UNROLL
        for (int k = 0; k < 4; k++)
            x.v[k] = float_from_half(r.x.v[k], DTYPE);
        return x;
    }
}

template <class Thread>
GPT2_GPU vec4 load4(Thread &t, const void *array, uint64_t i, uint32_t dtype)
{
    if (dtype == ZERO_F32)
        return floats4<ZERO_F32>(fetch4<ZERO_F32>(t, array, i));
    if (dtype == ZERO_BF16)
        return floats4<ZERO_BF16>(fetch4<ZERO_BF16>(t, array, i));
    return floats4<ZERO_F16>(fetch4<ZERO_F16>(t, array, i));
}

/* Calls body<DTYPE>(...) for the type that is one of a launch's parameters. */
#define GPT2_OF_DTYPE(body, dtype, ...)         \
    do {                                        \
        if ((dtype) == ZERO_F32)                \
            body<ZERO_F32>(__VA_ARGS__);        \
        else if ((dtype) == ZERO_BF16)          \
            body<ZERO_BF16>(__VA_ARGS__);       \
        else                                    \
            body<ZERO_F16>(__VA_ARGS__);        \
    } while (0)

template <class Thread>
GPT2_GPU void store4(Thread &t, void *array, uint64_t i, uint32_t dtype, const vec4 &x)
{
    if (dtype == ZERO_F32) {
        t.template write<vec4>(static_cast<float *>(array) + i, x);
        return;
    }
    const half2x2 h = {{halves_from_floats(x.v[0], x.v[1], dtype),
                        halves_from_floats(x.v[2], x.v[3], dtype)}};
    t.template write<half2x2>(static_cast<uint16_t *>(array) + i, h);
}

/* array = beta * array + x, added in fp32 and rounded once; beta is 0 or 1. */
template <class Thread>
GPT2_GPU void add4(Thread &t, void *array, uint64_t i, uint32_t dtype, float beta, vec4 x)
{
    if (beta != 0) {
        const vec4 old = load4(t, array, i, dtype);
        GPT2_UNROLL
        for (int k = 0; k < 4; k++)
            x.v[k] = old.v[k] + x.v[k];
    }
    store4(t, array, i, dtype, x);
}

/* Number of this thread among all of the grid. */
template <class Thread> GPT2_GPU uint64_t flat(const Thread &t)
{
    return t.block() * t.size() + t.index();
}

/* ---- Sums and maxima over a block ------------------------------------------------------------ */

/*
 * Every thread gets the same value, added in one order whatever the thread. Several reductions may
 * follow each other in the same memory: what is written first was last read before a barrier that
 * lies behind all readers.
 */
template <bool MAX, class Thread> GPT2_GPU float reduce(Thread &t, float x)
{
    const uint32_t n = t.size(), each = n / 16;
    float all = 0;

    t.template put<float>(t.index(), x);
    t.barrier();
    if (t.index() < 16) {
        float some = t.template get<float>(t.index() * each);
        for (uint32_t i = 1; i < each; i++) {
            const float y = t.template get<float>(t.index() * each + i);
            some = MAX ? fmaxf(some, y) : some + y;
        }
        t.template put<float>(n + t.index(), some);
    }
    t.barrier();
    GPT2_UNROLL
    for (uint32_t i = 0; i < 16; i += 4) {
        const vec4 y = t.template get<vec4>(n + i);
        GPT2_UNROLL
        for (uint32_t k = 0; k < 4; k++)
            all = i + k == 0 ? y.v[k] : MAX ? fmaxf(all, y.v[k]) : all + y.v[k];
    }
    return all;
}

#endif
