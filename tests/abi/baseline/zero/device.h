/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file device.h
 * The interface of a device plugin (ZERO_IFACE_DEVICE, major 0): memory, streams, events, kernels.
 *
 * A stream is the device's native handle (`void *`), so that an application's own stream passes
 * straight through. Work on a stream runs in order; streams run at once; only events order them.
 * Entries may be called from any thread. Only alloc, release, stream_sync and close may block, and
 * what says so below; an entry that enqueues waits for room when a stream is full, at most the
 * device's timeout.
 * Returns 0 or a negative errno, after zero_host.fail() said what and why.
 */
#ifndef ZERO_DEVICE_H
#define ZERO_DEVICE_H

#include <zero/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZERO_DEVICE_MAJOR 0
#define ZERO_DEVICE_MINOR 8

struct zero_device;

/** Kernels; capability masks use bit (1 << id). An argument struct each, below. */
enum zero_kernel {
    ZERO_KERNEL_FILL = 0,
    ZERO_KERNEL_ACCUMULATE = 1,
    ZERO_KERNEL_SUMSQ = 2,
    ZERO_KERNEL_SCALARS = 3,
    ZERO_KERNEL_ADAMW = 4,
    ZERO_KERNEL_SGD = 5,
    ZERO_KERNEL_CAST = 6,
    ZERO_KERNEL_TOTAL = 7,
    ZERO_KERNEL_SUM = 8,     /**< since minor 6 */
    ZERO_KERNEL_UPDATES = 9, /**< since minor 8 */
};

/** Elements of a block of ZERO_KERNEL_SUMSQ. */
#define ZERO_SUMSQ_BLOCK 4096u

/**
 * Step scalars, one block per runtime in device memory: written by ZERO_KERNEL_SCALARS, read by
 * the updates. Before the first step the caller sets loss_scale (1 for none) and zeroes the rest.
 */
struct zero_scalars {
    double grad_norm;  /**< of the averaged, unscaled gradient, before clipping */
    float factor;      /**< what every gradient element is multiplied with; 0 when skipped */
    uint32_t skip;     /**< 1: a gradient is not finite, no update may change anything */
    uint64_t step;     /**< updates done, this one included unless skipped */
    float loss_scale;  /**< for the next step */
    uint32_t good;     /**< steps since the last overflow or growth of the scale */
    uint64_t n_skipped;
    uint64_t reserved[4];
};

/** dst[first[i] … first[i] + count[i]) = 0 for i in [0, n): zeroes gaps between parameters. */
struct zero_fill_args {
    void *dst;
    uint32_t dtype, n;
    const uint64_t *first, *count; /**< host memory that outlives the launch */
};

/** acc[i] = (beta ? acc[i] : +0) + x[i] in fp32, an addition either way; beta is 0 or 1. */
struct zero_accumulate_args {
    float *acc;
    const void *x;
    uint64_t count;
    uint32_t x_dtype, beta;
};

/**
 * dst[i] = x[i], converted as types.h prescribes; 16-bit types into one another through fp32, equal
 * types bit by bit. dst and x do not overlap, or start at the same address with equal widths.
 */
struct zero_cast_args {
    void *dst;
    const void *x;
    uint64_t count;
    uint32_t dst_dtype, x_dtype;
};

/**
 * partial[b] = sum of squares of the b-th block of ZERO_SUMSQ_BLOCK elements, in fp64. In a block,
 * lane j of 16 adds x[j]^2, x[j + 16]^2, … in order (a square of an fp32 value is exact in fp64);
 * then lanes are added as a tree: j and j + 8, j and j + 4, j and j + 2, j and j + 1. The tail
 * block counts as padded with zeros. The sum is finite exactly when all elements are.
 */
struct zero_sumsq_args {
    double *partial;
    const void *x;
    uint64_t count;
    uint32_t dtype, reserved;
};

/** Sums of ZERO_KERNEL_TOTAL that go side by side. */
#define ZERO_TOTAL_LANES 256u

/**
 * total[0] = ((0 + lane 0) + lane 1) + … of ZERO_TOTAL_LANES lanes, where lane k is ((0 + x[k]) +
 * x[k + ZERO_TOTAL_LANES]) + … of count elements, in fp64. (Before minor 7 there was one lane.)
 */
struct zero_total_args {
    double *total;
    const double *x;
    uint64_t count;
};

/**
 * From the ranks' sums of squares to the step's scalars, in fp64 from left to right:
 *   total = (0 + sums[0]) + sums[1] + …;  average = inverse / loss_scale
 *   grad_norm = sqrt(total) * average
 *   factor = average * min(1, clip / (grad_norm + 1e-6)), rounded to fp32 once; clip 0 means none
 * `inverse` is 1/(micro-batches), the average over ranks is in the gradient already. A finite total
 * gives skip 0 and counts `step` and `good`. Any other gives skip 1 and factor 0, counts n_skipped,
 * and leaves `step`.
 *
 * Dynamic loss scaling, growth > 0: after a skip loss_scale = max(loss_scale * backoff, min_scale);
 * when `good` reaches `window`, loss_scale = min(loss_scale * growth, max_scale) and good = 0. The
 * new scale is for the next step. growth 0: the scale is fixed, a skip is still a skip.
 */
struct zero_scalars_args {
    struct zero_scalars *scalars;
    const double *sums; /**< one per rank; ranks may be 0, where no norm is waited for */
    uint32_t ranks, window;
    float inverse, clip;
    float growth, backoff, min_scale, max_scale;
};

/** Hyperparameters of a run of elements. */
struct zero_hyper {
    float lr, weight_decay;
    float beta1, beta2, eps;
    float momentum, dampening;
    uint32_t flags; /**< enum zero_hyper_flags */
};

enum zero_hyper_flags {
    ZERO_HYPER_COUPLED = 1u << 0,  /**< weight decay is added to the gradient (Adam, SGD) */
    ZERO_HYPER_NESTEROV = 1u << 1, /**< SGD */
};

/**
 * Update of `count` elements. With skip set nothing at all is written, `out` included. AdamW
 * (Loshchilov and Hutter, ICLR 2019) in fp32, with t the step, every operation rounded where it
 * stands, every fma explicit:
 *   g = grad * factor;  COUPLED: g = fma(weight_decay, p, g)
 *   m = fma(1 - beta1, g - m, m)
 *   v = fma(v, beta2, ((1 - beta2) * g) * g)
 *   d = fma(sqrt(v), 1 / sqrt(1 - beta2^t), eps)
 *   not COUPLED: p = p * (1 - lr * weight_decay)
 *   p = fma(-(lr / (1 - beta1^t)), m / d, p)
 * What depends on no element (1 - beta1, 1 - beta2, 1 - lr * weight_decay, 1 / sqrt(1 - beta2^t),
 * -(lr / (1 - beta1^t)), 1 - dampening) is computed in fp64 and rounded to fp32 once. beta^t is, in
 * fp64: r = 1; for each bit of t from the lowest: if set r *= x; x *= x (starting from x = beta).
 * SGD:
 *   g and the decay of p as above; m = (t == 1) ? g : fma(momentum, m, (1 - dampening) * g)
 *   p = fma(-lr, NESTEROV ? fma(momentum, m, g) : m, p), with momentum 0: g instead of m.
 * The fp32 master p is updated; a 16-bit copy is written to `out` where it is not NULL. Where
 * arithmetic meets two NaNs, which payload survives is left open; a NaN stays a NaN.
 *
 * States in fewer bytes. With p NULL the master is `out` (bf16, read first) and its lower half
 * `low`, see zero_join_bf16(): no bit is lost. With state_dtype ZERO_BF16 m and v are bf16: they
 * are widened, updated in fp32 and rounded up or down at random, so that changes smaller than a
 * step of bf16 are kept on average (stochastic rounding: Gupta et al., ICML 2015), with
 * zero_bf16_rounded() and r of zero_rounding(first + i, t): for m its lower 16 bits, for v the
 * upper ones. That depends on the element's number and the step alone, not on how work is cut.
 */
struct zero_update_args {
    float *p;             /**< or NULL: `out` and `low` */
    void *m, *v;          /**< SGD: v is unused, and m too when momentum is 0 */
    const void *grad;
    void *out;            /**< the 16-bit parameters, or NULL: p is the parameter */
    uint64_t count;
    uint32_t grad_dtype, out_dtype;
    const struct zero_scalars *scalars;
    struct zero_hyper hyper;
    /* Since minor 2. */
    uint16_t *low;        /**< lower halves of the masters; NULL: p has them whole */
    uint64_t first;       /**< number of the first element, which its rounding depends on */
    uint32_t state_dtype; /**< of m and v: ZERO_F32 (or 0), ZERO_BF16 */
    uint32_t reserved;
};

/** Updates of one launch of ZERO_KERNEL_UPDATES, at most. */
#define ZERO_UPDATES_MOST 16u

/**
 * Several updates that have no element in common, as if each were launched: what a device gains
 * from it is that small ones need not wait for each other.
 */
struct zero_updates_args {
    const struct zero_update_args *update; /**< n of them, read before launch() returns */
    uint32_t kernel;                       /**< of all: ZERO_KERNEL_ADAMW or ZERO_KERNEL_SGD */
    uint32_t n;                            /**< 1 … ZERO_UPDATES_MOST */
};

/** Sources of one launch of ZERO_KERNEL_SUM, at most. */
#define ZERO_SUM_SOURCES 16u

/**
 * What transports add up, as ZERO_SUM of zero/comm.h with ORDERED prescribes, the NaN included:
 * dst[i] = ((x0[i] + x1[i]) + x2[i]) + … in fp32, times scale, then added to dst (accumulate, which
 * is 0 or 1: dst is fp32) or rounded once. With `partial` the sum goes on from there: more sources
 * than a launch takes are added by several, the others but the last with scale 1 to an fp32 dst.
 * dst may be a source where the types are equally wide, and partial where it is fp32; else nothing
 * overlaps it.
 */
struct zero_sum_args {
    void *dst;
    const void *const *src; /**< n addresses, in host memory that outlives the launch */
    const float *partial;   /**< or NULL */
    uint64_t count;
    uint32_t n; /**< 1 … ZERO_SUM_SOURCES */
    uint32_t src_dtype, dst_dtype;
    uint32_t accumulate;
    float scale;
    uint32_t reserved;
};

/** One launch: a kernel and its argument struct, copied by launch(). */
struct zero_launch {
    uint32_t kernel, flags; /**< flags 0 */
    const void *args;
    uint64_t args_bytes;
};

/** What a device is and can do. */
struct zero_device_info {
    size_t size; /**< set by the caller */
    uint32_t mem;     /**< kind of its memory: ZERO_MEM_CUDA, or ZERO_MEM_HOST */
    /** Mask of 1 << enum zero_kernel: all are needed but SUM and UPDATES. */
    uint32_t kernels;
    uint64_t memory_bytes, free_bytes;
    uint32_t threads; /**< of the host device's pool */
    uint32_t reserved;
    char note[128];
    uint64_t copied; /**< since minor 3; bytes that copy() has been told to move so far */
    char pci[16]; /**< since minor 5; of an open device: its address, "0000:3b:00.0"; "": none */
};

struct zero_device_open {
    size_t size;
    const struct zero_host *host;
    int32_t index; /**< of the device, from 0: the N of ZERO_DEVICE=NAME:N */
    uint32_t threads;  /**< host device: size of the pool, ≥ 1 */
    int64_t timeout_ns; /**< of every wait inside the device that has no deadline of its own */
    /**
     * Called when an event has been reached for which event_query() has said -EINPROGRESS, maybe
     * for others; several may share one call. Must not block; comes from any thread, also from
     * inside an entry that the caller is in.
     */
    void (*notify)(void *arg);
    void *notify_arg;
};

/** How another process finds memory of a device; filled by share(). */
struct zero_device_share {
    size_t size;    /**< set by the caller */
    uint32_t how;   /**< the plugin's own */
    int32_t fd;     /**< a descriptor that goes with it, by the number of who has it; -1: none */
    uint64_t bytes; /**< that attach() makes visible, at least those of the memory */
    uint8_t handle[64];
};

/** The table. Entries marked (optional) may be NULL. */
struct zero_device_ops {
    size_t size;
    /** What it would be here, or why there is none. Writes no more than info->size bytes. */
    int (*probe)(const struct zero_host *host, struct zero_device_info *info);
    int (*open)(const struct zero_device_open *params, struct zero_device **dev);
    int (*close)(struct zero_device *dev);
    /** As probe(), of an open device. */
    int (*info)(struct zero_device *dev, struct zero_device_info *info);

    /** Zeroed memory, really there; mem: ZERO_MEM_PINNED or the device's own kind. */
    int (*alloc)(struct zero_device *dev, uint64_t bytes, uint32_t mem, void **base);
    int (*release)(struct zero_device *dev, void *base, uint64_t bytes, uint32_t mem);

    int (*stream_create)(struct zero_device *dev, const char *name, void **stream);
    int (*stream_destroy)(struct zero_device *dev, void *stream);
    /** Waits until everything on the stream is done, at most timeout_ns (-ETIMEDOUT). */
    int (*stream_sync)(struct zero_device *dev, void *stream, int64_t timeout_ns);
    /**
     * Later work on `stream` starts after `event` was reached, as last recorded before this call;
     * recording it again later changes nothing. Never recorded: no wait.
     */
    int (*stream_wait)(struct zero_device *dev, void *stream, void *event);

    int (*event_create)(struct zero_device *dev, void **event);
    int (*event_destroy)(struct zero_device *dev, void *event);
    int (*event_record)(struct zero_device *dev, void *event, void *stream);
    /** 0: reached (or never recorded); -EINPROGRESS; or the error that ended the stream. */
    int (*event_query)(struct zero_device *dev, void *event);

    /** Enqueued; between memory of the host and of the device, or within one of them, without an
     * overlap. Both stay until the stream has passed it. */
    int (*copy)(struct zero_device *dev, void *dst, const void *src, uint64_t bytes, void *stream);
    /** Enqueued; the arguments are copied, and what they point to stays until the stream has passed
     * it, unless their text says otherwise. A kernel that info() does not name is refused. */
    int (*launch)(struct zero_device *dev, const struct zero_launch *launch, void *stream);
    /** Runs fn(arg) on the host when the stream gets there; fn must not wait for device work. */
    int (*call)(struct zero_device *dev, void (*fn)(void *arg), void *arg, void *stream);

    /**
     * (optional) The stream goes on once *addr >= value (host memory, 8-byte aligned). The other
     * side is write_value or an atomic store with release order.
     */
    int (*wait_value)(struct zero_device *dev, void *stream, uint64_t *addr, uint64_t value);
    /** (optional, also where wait_value is there) */
    int (*write_value)(struct zero_device *dev, void *stream, uint64_t *addr, uint64_t value);

    /**
     * (optional) Says that work outside the device (a transport, the application) that is ordered
     * like work on `stream` reads or writes bytes; test modes look for races with it.
     */
    int (*touch)(struct zero_device *dev, void *stream, const void *base, uint64_t bytes,
                 uint32_t write, const char *what);

    /* Since minor 4. */

    /**
     * (optional) Memory of the device's own kind, all of what alloc() gave, becomes `more` bytes
     * longer where it is, by zeros; what works on it goes on. It is released by its new length.
     * -ENOSPC: not here, but elsewhere; -ENOTSUP: never. May block.
     */
    int (*grow)(struct zero_device *dev, void *base, uint64_t bytes, uint64_t more);
    /**
     * (optional) Makes memory of the host's, which the caller keeps until unpin(), as good as
     * ZERO_MEM_PINNED for copies. May block.
     */
    int (*pin)(struct zero_device *dev, void *base, uint64_t bytes);
    int (*unpin)(struct zero_device *dev, void *base, uint64_t bytes);
    /**
     * (optional) Says how another process on this machine finds memory that alloc() gave. The
     * caller passes that on, and closes the descriptor. attach() gives an address of it there, for
     * copies and kernels of this device; its owner keeps it until detach(). May block.
     */
    int (*share)(struct zero_device *dev, const void *base, struct zero_device_share *share);
    int (*attach)(struct zero_device *dev, const struct zero_device_share *share, void **base);
    int (*detach)(struct zero_device *dev, void *base);
};

#ifdef __cplusplus
}
#endif
#endif
