/* SPDX-License-Identifier: Apache-2.0 */
/* A thread of an emulated grid, as bodies see it (plugins/cuda/kernel/thread.cuh). */
#ifndef ZERO_TESTS_FAKE_CUDA_THREAD_H
#define ZERO_TESTS_FAKE_CUDA_THREAD_H

#include <string.h>

#include "../../plugins/cuda/kernel/thread.cuh"
#include "cuda_grid.h"

struct fake_grid;

#define FAKE_WARP 32u
#define FAKE_WARP_WORDS 8u

class fake_thread
{
  public:
    fake_thread(fake_grid *of, uint32_t number) : grid(of), self(number)
    {
    }

    uint32_t index() const
    {
        return self;
    }

    uint32_t size() const;
    uint64_t block() const;
    uint64_t blocks() const;
    uint32_t row() const;
    void barrier(const char *file = __builtin_FILE(), int line = __builtin_LINE());
    bool inside(uint64_t i, uint64_t n, const char *file = __builtin_FILE(),
                int line = __builtin_LINE());

    template <uint32_t BYTES>
    raw<BYTES> load(const void *at, const char *file = __builtin_FILE(),
                    int line = __builtin_LINE())
    {
        raw<BYTES> r = {};
        check_global(at, BYTES, file, line);
        /* Here, not where the compiler finds a use for it: it may have to fault. */
        (void)*static_cast<const volatile unsigned char *>(at);
        memcpy(&r, at, BYTES);
        return r;
    }

    template <uint32_t BYTES>
    void store(void *at, const raw<BYTES> &r, const char *file = __builtin_FILE(),
               int line = __builtin_LINE())
    {
        check_global(at, BYTES, file, line);
        memcpy(at, &r, BYTES);
    }

    template <uint32_t BYTES>
    raw<BYTES> get(uint32_t at, const char *file = __builtin_FILE(), int line = __builtin_LINE())
    {
        raw<BYTES> r = {};
        memcpy(&r, shared(at, BYTES, false, file, line), BYTES);
        return r;
    }

    template <uint32_t BYTES>
    void put(uint32_t at, const raw<BYTES> &r, const char *file = __builtin_FILE(),
             int line = __builtin_LINE())
    {
        memcpy(shared(at, BYTES, true, file, line), &r, BYTES);
    }

    /* Bytes on their way to shared memory; there after brought(), garbage before. */
    template <uint32_t BYTES>
    void bring(uint32_t at, const void *from, bool here, const char *file = __builtin_FILE(),
               int line = __builtin_LINE())
    {
        raw<BYTES> r = {};
        if (here)
            r = load<BYTES>(from, file, line);
        bring_words(at, r.w, BYTES, file, line);
    }

    void brought(const char *file = __builtin_FILE(), int line = __builtin_LINE());

    /*
     * Waits until all threads of the warp have come here with their words, at most FAKE_WARP_WORDS,
     * and returns all of theirs, by place in the warp; good until the next exchange has returned.
     */
    const uint32_t (*exchange(const uint32_t *words, uint32_t n, const char *file, int line))
        [FAKE_WARP_WORDS];

    /* Whether this is the place that a test breaks: one that joins threads, as a barrier does. */
    bool is_broken_here(const char *file, int line);

  private:
    fake_grid *grid;
    uint32_t self;

    void bring_words(uint32_t at, const void *words, uint32_t bytes, const char *file, int line);

    void check_global(const void *at, uint32_t bytes, const char *file, int line);
    void *shared(uint32_t at, uint32_t bytes, bool write, const char *file, int line);
};

/* A device function: its body for one thread. */
struct fake_cuda_function {
    const char *name;
    uint32_t params_bytes, threads; /* of a block at most */
    void (*run)(fake_thread &t, const void *params);
};

/* The plugin's, in the order of enum zero__cuda_kernel. */
extern const fake_cuda_function fake_cuda_functions[];
extern const uint32_t fake_cuda_n_functions;
/* Those of zero-gpt2, numbered behind them. */
extern const fake_cuda_function fake_gpt2_functions[];
extern const uint32_t fake_gpt2_n_functions;

/* Runs any function; as fake_cuda_run_with(). */
int fake_cuda_run_function(const fake_cuda_options *options, const fake_cuda_function *function,
                           const uint32_t grid[3], const uint32_t block[3], uint32_t shared_bytes,
                           const void *params, char *error, size_t n);

#endif
