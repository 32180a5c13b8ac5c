/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a body sees of the machine: which thread of which block it is, shared memory by offset,
 * aligned loads and stores, barriers. Bodies are templates over it: here it is one thread of a
 * device and vanishes, in tests it is a thread of an emulated grid that checks every access.
 *
 * Bounds are asked through inside(), so that tests can break each in turn and see it noticed.
 */
#ifndef ZERO_PLUGINS_CUDA_KERNEL_THREAD_CUH
#define ZERO_PLUGINS_CUDA_KERNEL_THREAD_CUH

#include <stdint.h>

#ifdef __CUDACC__
#define ZERO__GPU __device__ __forceinline__
#define ZERO__UNROLL _Pragma("unroll")
#define ZERO__UNROLL_16 _Pragma("unroll 16")
#else
#define ZERO__GPU inline
#define ZERO__UNROLL
#define ZERO__UNROLL_16
#endif

/* BYTES bytes of memory in registers; BYTES is a power of two, of at most 16 in one access. */
template <uint32_t BYTES> struct raw {
    uint32_t w[(BYTES + 3) / 4];
};

#ifdef __CUDACC__

/* All dynamic. */
extern __shared__ uint4 zero__shared[];

template <uint32_t BYTES> ZERO__GPU raw<BYTES> raw_load(const void *at)
{
    raw<BYTES> r;

    if constexpr (BYTES == 16) {
        uint4 v = *static_cast<const uint4 *>(at);
        r.w[0] = v.x, r.w[1] = v.y, r.w[2] = v.z, r.w[3] = v.w;
    } else if constexpr (BYTES == 8) {
        uint2 v = *static_cast<const uint2 *>(at);
        r.w[0] = v.x, r.w[1] = v.y;
    } else if constexpr (BYTES == 4) {
        r.w[0] = *static_cast<const uint32_t *>(at);
    } else if constexpr (BYTES == 2) {
        r.w[0] = *static_cast<const uint16_t *>(at);
    } else {
        r.w[0] = *static_cast<const uint8_t *>(at);
    }
    return r;
}

template <uint32_t BYTES> ZERO__GPU void raw_store(void *at, const raw<BYTES> &r)
{
    if constexpr (BYTES == 16)
        *static_cast<uint4 *>(at) = make_uint4(r.w[0], r.w[1], r.w[2], r.w[3]);
    else if constexpr (BYTES == 8)
        *static_cast<uint2 *>(at) = make_uint2(r.w[0], r.w[1]);
    else if constexpr (BYTES == 4)
        *static_cast<uint32_t *>(at) = r.w[0];
    else if constexpr (BYTES == 2)
        *static_cast<uint16_t *>(at) = static_cast<uint16_t>(r.w[0]);
    else
        *static_cast<uint8_t *>(at) = static_cast<uint8_t>(r.w[0]);
}

struct device_thread {
    ZERO__GPU uint32_t index() const
    {
        return threadIdx.x;
    }

    ZERO__GPU uint32_t size() const
    {
        return blockDim.x;
    }

    ZERO__GPU uint64_t block() const
    {
        return blockIdx.x;
    }

    ZERO__GPU uint64_t blocks() const
    {
        return gridDim.x;
    }

    /* Of the grid's second dimension. */
    ZERO__GPU uint32_t row() const
    {
        return blockIdx.y;
    }

    ZERO__GPU void barrier()
    {
        __syncthreads();
    }

    ZERO__GPU bool inside(uint64_t i, uint64_t n)
    {
        return i < n;
    }

    /* Of global memory, aligned to BYTES. */
    template <uint32_t BYTES> ZERO__GPU raw<BYTES> load(const void *at)
    {
        return raw_load<BYTES>(at);
    }

    template <uint32_t BYTES> ZERO__GPU void store(void *at, const raw<BYTES> &r)
    {
        raw_store<BYTES>(at, r);
    }

    /* The same of shared memory, from its byte `at` on. */
    template <uint32_t BYTES> ZERO__GPU raw<BYTES> get(uint32_t at)
    {
        return raw_load<BYTES>(reinterpret_cast<const char *>(zero__shared) + at);
    }

    template <uint32_t BYTES> ZERO__GPU void put(uint32_t at, const raw<BYTES> &r)
    {
        raw_store<BYTES>(reinterpret_cast<char *>(zero__shared) + at, r);
    }
};

#endif
#endif
