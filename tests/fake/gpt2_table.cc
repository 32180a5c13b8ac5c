/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device functions of zero-gpt2 for the emulated grid, from the list that makes their module.
 * What bodies read and write is what it is for the plugin's: aligned, and checked where it is
 * shared.
 */
#include "../../examples/gpt2/gpu/attention.cuh"
#include "../../examples/gpt2/gpu/layers.cuh"
#include "../../examples/gpt2/gpu/loss.cuh"
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

  private:
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
