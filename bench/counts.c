/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One kernel or plain loop on memory of so many elements, for callgrind to count; see callgrind.sh.
 *
 *     counts KERNEL ELEMENTS
 *
 * KERNEL is "reduce ISA", "adamw ISA", or "add WAY" or "move WAY", a loop with the same loads and
 * stores; ISA is scalar, avx2 or avx512, WAY a number of enum bench_way, for move of enum
 * bench_update_way. Sums have two sources of fp32; AdamW has bf16 parameters and gradients and fp32
 * states. All but counted() prepares.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/kernels.h"
#include "plugins/common/reduce.h"
#include "tools/bench/measure/loops.h"

struct work {
    struct zero__reduce reduce;
    struct zero_update_args adamw;
    struct bench_states states;
    const struct zero__loops *loops;
    uint64_t n, chunks;
    enum zero__isa isa;
    unsigned way;
};

void counted(const struct work *w, const char *kernel);

__attribute__((noinline)) void counted(const struct work *w, const char *kernel)
{
    if (kernel[0] == 'r')
        zero__reduce(w->isa, &w->reduce);
    else if (kernel[0] == 'm')
        bench_loop_update(&w->states, 0, w->n, w->way);
    else if (kernel[1] == 'd' && kernel[2] == 'd')
        bench_loop_add(w->reduce.dst, w->reduce.src[0], 4 * w->n, 4 * w->n, 2, true,
                       (enum bench_way)w->way);
    for (uint64_t c = 0; kernel[0] == 'a' && kernel[2] == 'a' && c < w->chunks; c++)
        zero__kernel_run(w->loops, ZERO_KERNEL_ADAMW, &w->adamw, c);
}

static void *zeroed(uint64_t bytes)
{
    void *p = bench_memory(bytes + BENCH_SPARE_BYTES);

    if (!p) {
        fputs("counts: no memory\n", stderr);
        exit(1);
    }
    return memset(p, 0, bytes);
}

int main(int argc, char **argv)
{
    struct work w = {.n = argc == 4 ? strtoull(argv[3], NULL, 10) / 64 * 64 : 0};
    struct zero_scalars scalars = {.factor = 1, .step = 1};

    if (!w.n) {
        fputs("usage: counts reduce|adamw scalar|avx2|avx512 ELEMENTS\n"
              "       counts add|move WAY ELEMENTS\n",
              stderr);
        return 2;
    }
    if (!zero__isa_parse(argv[2], &w.isa) || w.isa == ZERO__ISA_AUTO)
        w.isa = ZERO__ISA_SCALAR;
    w.way = (unsigned)strtoul(argv[2], NULL, 10);
    w.loops = zero__loops(w.isa);
    unsigned n_ways = argv[1][0] == 'm' ? N_BENCH_UPDATES : BENCH_MEMCPY;
    if (!w.loops || w.way >= n_ways) {
        fprintf(stderr, "counts: %s: not on this processor, or no way of a loop\n", argv[2]);
        return 1;
    }
    char *sources = zeroed(8 * w.n);
    const void *src[] = {sources, sources + 4 * w.n};
    w.reduce = (struct zero__reduce){.dst = zeroed(4 * w.n),
                                     .src = src,
                                     .n = 2,
                                     .src_dtype = ZERO_F32,
                                     .dst_dtype = ZERO_F32,
                                     .scale = 0.5f,
                                     .count = w.n};
    w.states = (struct bench_states){.p = zeroed(4 * w.n),
                                     .m = zeroed(4 * w.n),
                                     .v = zeroed(4 * w.n),
                                     .out = zeroed(2 * w.n),
                                     .grad = zeroed(2 * w.n)};
    w.adamw = (struct zero_update_args){.p = w.states.p,
                                        .m = w.states.m,
                                        .v = w.states.v,
                                        .grad = w.states.grad,
                                        .out = w.states.out,
                                        .count = w.n,
                                        .grad_dtype = ZERO_BF16,
                                        .out_dtype = ZERO_BF16,
                                        .scalars = &scalars,
                                        .hyper = {.lr = 1e-3f,
                                                  .weight_decay = 0.1f,
                                                  .beta1 = 0.9f,
                                                  .beta2 = 0.95f,
                                                  .eps = 1e-8f}};
    w.chunks = zero__kernel_chunks(ZERO_KERNEL_ADAMW, &w.adamw);
    counted(&w, argv[1]);
    return 0;
}
