/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device functions of zero-gpt2 for the emulated grid, from the list that makes their module.
 * What bodies read and write is what it is for the plugin's: aligned, and checked where it is
 * shared.
 */
#include "../../examples/gpt2/gpu/attention.cuh"
#include "../../examples/gpt2/gpu/attention16.cuh"
#include "../../examples/gpt2/gpu/layers.cuh"
#include "../../examples/gpt2/gpu/loss.cuh"
#include "../../examples/gpt2/gpu/norm.cuh"
#include "../../examples/gpt2/gpu/table.h"
#include "cuda_thread.h"

namespace
{

struct gpt2_thread : fake_thread {
    explicit gpt2_thread(const fake_thread &t) : fake_thread(t)
    {
    }

    template <class T>
    T read(const void *at, const char *file = __builtin_FILE(), int line = __builtin_LINE())
    {
        return from(load<sizeof(T)>(at, file, line), T());
    }

    template <class T>
    void write(void *at, const T &value, const char *file = __builtin_FILE(),
               int line = __builtin_LINE())
    {
        store<sizeof(T)>(at, to(value), file, line);
    }

    template <class T>
    T get(uint32_t at, const char *file = __builtin_FILE(), int line = __builtin_LINE())
    {
        return from(fake_thread::get<sizeof(T)>(at * 4, file, line), T());
    }

    template <class T>
    void put(uint32_t at, const T &value, const char *file = __builtin_FILE(),
             int line = __builtin_LINE())
    {
        fake_thread::put<sizeof(T)>(at * 4, to(value), file, line);
    }

    template <uint32_t BYTES>
    void bring(uint32_t at, const void *where, bool here, const char *file = __builtin_FILE(),
               int line = __builtin_LINE())
    {
        fake_thread::bring<BYTES>(at * 4, where, here, file, line);
    }

    /* ---- Of a warp; see thread.cuh for who has what ---- */

    float across(float x, uint32_t mask, const char *file = __builtin_FILE(),
                 int line = __builtin_LINE())
    {
        uint32_t word;
        if (is_broken_here(file, line))
            return x;
        memcpy(&word, &x, sizeof word);
        memcpy(&x, exchange(&word, 1, file, line)[index() % FAKE_WARP ^ mask], sizeof x);
        return x;
    }

    template <bool BY_ROW>
    void right(uint32_t at, uint32_t stride, uint32_t (&b)[4], const char *file = __builtin_FILE(),
               int line = __builtin_LINE())
    {
        const uint32_t lane = index() % FAKE_WARP;

        exchange(nullptr, 0, file, line); /* all threads of the warp come */
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t sum = i % 2 * 8 + lane % 4 * 2, other = i / 2 * 8 + lane / 4;
            b[i] = 0;
            for (uint32_t k = 0; k < 2; k++) {
                const uint32_t row = BY_ROW ? sum + k : other, column = BY_ROW ? other : sum + k;
                const raw<2> x =
                    fake_thread::get<2>((at + row * stride) * 4 + column * 2, file, line);
                uint16_t half;
                memcpy(&half, &x, sizeof half);
                b[i] |= static_cast<uint32_t>(half) << (16 * k);
            }
        }
    }

    template <uint32_t DTYPE>
    void product(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                 const char *file = __builtin_FILE(), int line = __builtin_LINE())
    {
        const uint32_t lane = index() % FAKE_WARP, mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
        const uint32_t(*all)[FAKE_WARP_WORDS] = exchange(mine, 6, file, line);

        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
            for (uint32_t k = 0; k < 16; k++) {
                const uint32_t x = all[row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2];
                const uint32_t y = all[column * 4 + k % 8 / 2][4 + k / 8];
                c[i] += half(x, k, DTYPE) * half(y, k, DTYPE);
            }
        }
    }

  private:
    /* Element k of those that lie two in a word. */
    static float half(uint32_t word, uint32_t k, uint32_t dtype)
    {
        return float_from_half(static_cast<uint16_t>(word >> 16 * (k % 2)), dtype);
    }

    template <class T> static T from(const raw<sizeof(T)> &r, T value)
    {
        memcpy(&value, &r, sizeof value);
        return value;
    }

    template <class T> static raw<sizeof(T)> to(const T &value)
    {
        raw<sizeof(T)> r = {};
        memcpy(&r, &value, sizeof value);
        return r;
    }
};

#define RUN(id, name, params, threads, resident, shared, ...)                                      \
    void run_##name(fake_thread &t, const void *q)                                                 \
    {                                                                                              \
        gpt2_thread mine(t);                                                                       \
        __VA_ARGS__(mine, *static_cast<const struct params *>(q));                                 \
    }
GPT2_GPU_KERNELS(RUN)

} // namespace

const fake_cuda_function fake_gpt2_functions[] = {
#define ENTRY(id, name, params, threads, resident, shared, ...)                                    \
    {#name, sizeof(struct params), threads, run_##name},
    GPT2_GPU_KERNELS(ENTRY)
};

const uint32_t fake_gpt2_n_functions = sizeof fake_gpt2_functions / sizeof *fake_gpt2_functions;
