/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a launch to loops: the cut into chunks, and running one chunk. Whatever gets past
 * zero__kernel_check() cannot fail any more, so that running needs no error path.
 */
#include "device/kernels.h"

#include <errno.h>
#include <string.h>

#include "base/status.h"
#include "launch/check.h"

int zero__kernel_check(const struct zero_launch *launch)
{
    char why[ZERO__LAUNCH_WHY];
    int err = zero__launch_check(launch, "host", why);

    if (!err && launch->kernel == ZERO_KERNEL_UPDATES)
        return zero__fail(-ENOTSUP, "device host does not offer several updates in one launch: "
                                    "launch each by itself");
    return err ? zero__fail(err, "%s", why) : 0;
}

static uint64_t pieces(uint64_t count, uint64_t piece)
{
    return count / piece + (count % piece != 0);
}

uint64_t zero__kernel_chunks(uint32_t kernel, const void *args)
{
    switch (kernel) {
    case ZERO_KERNEL_FILL: {
        const struct zero_fill_args *a = args;
        if (a->n != 1)
            return pieces(a->n, ZERO__FILL_RUNS);
        return pieces(a->count[0] * zero_dtype_bytes(a->dtype), ZERO__CHUNK_BYTES);
    }
    case ZERO_KERNEL_ACCUMULATE:
        return pieces(((const struct zero_accumulate_args *)args)->count, ZERO__CHUNK);
    case ZERO_KERNEL_SUMSQ:
        return pieces(((const struct zero_sumsq_args *)args)->count, ZERO__CHUNK);
    case ZERO_KERNEL_CAST:
        return pieces(((const struct zero_cast_args *)args)->count, ZERO__CHUNK);
    case ZERO_KERNEL_SUM:
        return pieces(((const struct zero_sum_args *)args)->count, ZERO__CHUNK);
    case ZERO_KERNEL_SCALARS:
    case ZERO_KERNEL_TOTAL:
        return 1;
    default:
        return pieces(((const struct zero_update_args *)args)->count, ZERO__CHUNK);
    }
}

static void run_fill(const struct zero_fill_args *a, uint64_t chunk)
{
    uint64_t bytes = zero_dtype_bytes(a->dtype), i = chunk * ZERO__FILL_RUNS;

    if (a->n == 1) {
        uint64_t at = chunk * ZERO__CHUNK_BYTES, rest = a->count[0] * bytes - at;
        memset((char *)a->dst + a->first[0] * bytes + at, 0,
               rest < ZERO__CHUNK_BYTES ? rest : ZERO__CHUNK_BYTES);
        return;
    }
    for (uint64_t stop = i + ZERO__FILL_RUNS; i < stop && i < a->n; i++)
        memset((char *)a->dst + a->first[i] * bytes, 0, a->count[i] * bytes);
}

static void run_total(const struct zero_total_args *a)
{
    double lanes[ZERO_TOTAL_LANES] = {0}, total = 0;
    uint64_t i = 0;

    for (; a->count - i >= ZERO_TOTAL_LANES; i += ZERO_TOTAL_LANES)
        for (uint32_t k = 0; k < ZERO_TOTAL_LANES; k++)
            lanes[k] += a->x[i + k];
    for (uint32_t k = 0; i + k < a->count; k++)
        lanes[k] += a->x[i + k];
    for (uint32_t k = 0; k < ZERO_TOTAL_LANES; k++)
        total += lanes[k];
    *a->total = total;
}

/* Equal types keep every bit, of NaNs too. */
static void run_cast(const struct zero__loops *loops, const struct zero_cast_args *a,
                     uint64_t first, uint64_t count)
{
    uint64_t bytes = zero_dtype_bytes(a->dst_dtype);

    if (a->dst_dtype == a->x_dtype)
        memmove((char *)a->dst + first * bytes, (const char *)a->x + first * bytes, count * bytes);
    else
        loops->cast(a, first, count);
}

static void run_update(const struct zero__loops *loops, uint32_t kernel,
                       const struct zero_update_args *a, uint64_t first, uint64_t count)
{
    struct zero__update u;

    if (!zero__update_prepare(kernel, a, &u))
        return;
    if (kernel == ZERO_KERNEL_ADAMW)
        (u.packed ? loops->adamw_packed : loops->adamw)(&u, first, count);
    else
        (u.packed ? loops->sgd_packed : loops->sgd)(&u, first, count);
}

/* Elements of the chunk that starts at `first`. */
static uint64_t chunk_of(uint64_t count, uint64_t first)
{
    return count - first < ZERO__CHUNK ? count - first : ZERO__CHUNK;
}

void zero__kernel_run(const struct zero__loops *loops, uint32_t kernel, const void *args,
                      uint64_t chunk)
{
    const struct zero_accumulate_args *accumulate = args;
    const struct zero_sumsq_args *sumsq = args;
    const struct zero_cast_args *cast = args;
    const struct zero_update_args *update = args;
    const struct zero_sum_args *sum = args;
    uint64_t first = chunk * ZERO__CHUNK;

    switch (kernel) {
    case ZERO_KERNEL_FILL:
        run_fill(args, chunk);
        break;
    case ZERO_KERNEL_ACCUMULATE:
        loops->accumulate(accumulate, first, chunk_of(accumulate->count, first));
        break;
    case ZERO_KERNEL_SUMSQ:
        loops->sumsq(sumsq, first, chunk_of(sumsq->count, first));
        break;
    case ZERO_KERNEL_SCALARS:
        zero__kernel_scalars(args);
        break;
    case ZERO_KERNEL_TOTAL:
        run_total(args);
        break;
    case ZERO_KERNEL_CAST:
        run_cast(loops, cast, first, chunk_of(cast->count, first));
        break;
    case ZERO_KERNEL_SUM:
        loops->sum(sum, first, chunk_of(sum->count, first));
        break;
    case ZERO_KERNEL_ADAMW:
    case ZERO_KERNEL_SGD:
        run_update(loops, kernel, update, first, chunk_of(update->count, first));
        break;
    }
}

const struct zero__loops *zero__loops(enum zero__isa isa)
{
    enum zero__isa best = zero__isa_best(), wanted = isa == ZERO__ISA_AUTO ? best : isa;

    if (wanted > best)
        return NULL;
#if defined(__x86_64__)
    if (wanted != ZERO__ISA_SCALAR)
        return wanted == ZERO__ISA_AVX512 ? &zero__loops_avx512 : &zero__loops_avx2;
#endif
    return &zero__loops_scalar;
}
