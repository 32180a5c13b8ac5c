/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file zero.h
 * The application's side of libzero: a model's states sharded over ranks (ZeRO stages 0 to 3).
 *
 * The life of a runtime:
 *
 *     zero_create                       who are the ranks, which options
 *     zero_unit_add, zero_param_add …   what the model consists of, in forward order
 *     zero_commit                       plan and reserve all memory, compile the step
 *     zero_param_write                  or let the initialisers do it
 *     for every step:
 *         for every micro-batch, at most ZERO_ACCUM:
 *             zero_begin(TRAIN), and whether it is the last
 *             forward:  zero_acquire(unit, FORWARD)  … compute …  zero_release
 *             backward: zero_acquire(unit, BACKWARD) … compute, write gradients … zero_release
 *         zero_update
 *     an evaluation, between steps or between micro-batches (the latter not behind the last one
 *     with ZERO_UPDATE_AT=backward):
 *         zero_begin(EVAL), then acquire(FORWARD) … compute … release of each unit
 *     zero_destroy
 *
 * A micro-step or an evaluation has no call that ends it: the next zero_begin() or zero_update()
 * does, and of an evaluation also zero_set_order() and what reads or writes values. "Between steps"
 * is after zero_commit() or zero_update() and before the next zero_begin(TRAIN), with no unit held.
 *
 * Rules for every function, unless its text says otherwise:
 * - Returns 0 or a negative errno; zero_last_error() then gives one sentence for a person. Outputs
 *   are set on success only.
 * - A call that is refused for its arguments or its place has changed nothing, and may be made
 *   rightly then (-EINVAL, -EBUSY, -ERANGE, -EEXIST, -ENOTSUP; of activations -EALREADY, -ENODATA),
 *   but where its text says that it ends the job. Any other error of the step's calls, of what
 *   reads or writes values, of zero_sum() and of zero_barrier(), and of zero_commit() any but those
 *   that its text names, ends it on all ranks: later calls return it again, and zero_destroy() is
 *   what is left (see there for a use that is held on a stream).
 * - An error that ends the job may have the number of a refusal. zero_status() tells them apart: it
 *   is 0 after a refusal, and the job's error once the job has ended.
 * - A structure's `size` is its sizeof; fields that are not set are 0. Names have 1 to 200 bytes.
 *   Units, parameters and groups are numbered in the order of adding, buffers and activations in
 *   one sequence: from 0, but groups from 1.
 * - A runtime is used by one thread at a time; different runtimes are independent (several models
 *   in one process, or ranks as threads). Any thread may call zero_abort() and zero_status().
 * - "Collective": every rank calls it, in the same order, with the same arguments. A rank that is
 *   missing is an error on all others after ZERO_TIMEOUT seconds, one that is stopped after
 *   ZERO_HEARTBEAT seconds, never a hang.
 * - No pointer that is passed in is NULL, unless the text says so; the `arg` of a function may be.
 * - Pointers and strings passed in are copied or used during the call only, except functions and
 *   their arguments: an initialiser's until zero_commit() has returned, an optimizer's and the
 *   log's until zero_destroy() has. Memory handed out belongs to the runtime and ends as the text
 *   says.
 * - Parameters, gradients, activations and regions are addresses on the device that ZERO_DEVICE
 *   names: with cuda those of a GPU, in its primary context, and a stream is the driver's, CUstream
 *   or cudaStream_t, of zero_stream_create() or the application's own. NULL is no stream here: who
 *   launches on CUDA's default stream, which is also written 0, passes CU_STREAM_LEGACY, (void *)1,
 *   or where each thread has its own CU_STREAM_PER_THREAD, (void *)2. zero_option("device") is the
 *   text that was given: "cuda" alone is the GPU of the rank's number on its host. The context of a
 *   stream of zero_stream_create() tells which that is (cuStreamGetCtx()). Values that are read,
 *   written or initialised are the host's.
 *
 * Background: S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion
 * Parameter Models", SC 2020, sections 5 (P_os, P_os+g, P_os+g+p) and 6 (ZeRO-R).
 */
#ifndef ZERO_H
#define ZERO_H

#include <stddef.h>
#include <stdint.h>

#include <zero/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ZERO_API __attribute__((visibility("default")))
#else
#define ZERO_API
#endif

#define ZERO_VERSION_MAJOR 0
#define ZERO_VERSION_MINOR 1

/** A runtime: one model, its ranks, its memory. Opaque. */
struct zero_runtime;

/** Version of the library that runs, for example "0.1.0". Any thread; static string. */
ZERO_API const char *zero_version(void);

/**
 * What the last failed call on this thread reported: one sentence that names the object, the value
 * and the remedy. Never NULL. Valid until the next call of the library on this thread.
 */
ZERO_API const char *zero_last_error(void);

/* ---- Create ---------------------------------------------------------------------------------- */

/** One option that the user of the program typed, by its name without ZERO_, e.g. {"stage","3"}. */
struct zero_setting {
    const char *name, *value;
};

/**
 * How to create a runtime. Zeroed (ZERO_CONFIG_INIT) it means: everything from the environment,
 * as `zero run`, torchrun and the like set it; nothing set is one rank.
 */
struct zero_config {
    size_t size; /**< sizeof(struct zero_config) */
    /** Settings win over ZERO_* variables, which win over the configuration file. */
    const struct zero_setting *settings;
    uint32_t n_settings;
    /**
     * Explicit ranks: ranks > 0 (0: from the environment). local_ranks: of them on this host; 0:
     * all. With fewer than `ranks`, rank 0 is found by MASTER_ADDR, MASTER_PORT (or the option
     * port) and a secret (secret_file), as without explicit ranks.
     */
    int32_t rank, ranks, local_ranks;
    /**
     * With more than one explicit rank: name of the job, equal on all ranks, unique on the machine.
     * 1 to 128 bytes, no control characters.
     */
    const char *job;
    /**
     * Name of the model; runtimes that live at once in a job need different ones. 1 to 63 bytes, no
     * control characters. NULL: "model"
     */
    const char *model;
    /**
     * Where log messages go; NULL: standard error. `level` is of enum zero_log_level (types.h);
     * `line` is valid during the call, has its prefix, and one or more lines without a newline at
     * the end. Any thread calls it; it calls no function of the library, zero_abort() included.
     * Rank 0 watches the others in a thread that writes messages, too: who takes longer than
     * ZERO_HEARTBEAT for one makes it look stopped.
     */
    void (*log)(void *arg, int level, const char *line);
    void *log_arg;
};

/** Initial value of a struct zero_config. */
#define ZERO_CONFIG_INIT {sizeof(struct zero_config), NULL, 0, 0, 0, 0, NULL, NULL, NULL, NULL}

/**
 * Reads options, finds the other ranks (collective) and loads the communication plugin. A rank that
 * does not come is an error after ZERO_JOIN_TIMEOUT seconds (by default 60, or ZERO_TIMEOUT if
 * that is less). `config` may be NULL. The caller ends *rt with zero_destroy().
 */
ZERO_API int zero_create(const struct zero_config *config, struct zero_runtime **rt);

/**
 * Ends a runtime and frees all it handed out; NULL is fine. Collective unless after an error. What
 * still works on it is waited for: streams of zero_stream_create() (on the host, calls that have
 * not begun are dropped), and in an application's own streams the uses that were released there,
 * after an error, too. A use that is still held there is not: release it on that stream first,
 * which after an error returns it and counts all the same, or synchronise the stream. What a
 * transport or a disk that does not return holds stays until the process ends, and a log line says
 * so. The function of zero_config.log is not called any more.
 */
ZERO_API void zero_destroy(struct zero_runtime *rt);

/** This rank, 0 … zero_ranks() - 1. */
ZERO_API int zero_rank(const struct zero_runtime *rt);
/** Number of ranks. */
ZERO_API int zero_ranks(const struct zero_runtime *rt);

/**
 * The value of an option as the runtime uses it, as text; NULL for an unknown name. Valid as long
 * as the runtime.
 */
ZERO_API const char *zero_option(const struct zero_runtime *rt, const char *name);
/**
 * Likewise where that value comes from: "default", "environment", "file PATH:LINE", "program" (a
 * setting of zero_config) or "chosen" (by the runtime, which was left the choice).
 */
ZERO_API const char *zero_option_source(const struct zero_runtime *rt, const char *name);

/**
 * 0 while the job goes on; else the error with which it has ended, the same on all ranks, with the
 * job's sentence in zero_last_error(). Any thread, any time between zero_create() and
 * zero_destroy(). It changes nothing, and is cheap while the job goes on; right after an error of
 * this rank it may wait for the job's decision, 2 seconds at most. A call that fails after 0 was
 * returned may have ended the job: ask again.
 */
ZERO_API int zero_status(const struct zero_runtime *rt);

/**
 * Stops the job: pending and later calls of the step, of values and of collectives return
 * -ECANCELED on every rank, with a sentence that names this rank and has `reason`, of which 431
 * bytes count. Any thread, any time, idempotent: the first reason wins.
 */
ZERO_API int zero_abort(struct zero_runtime *rt, const char *reason);

/* ---- The model ------------------------------------------------------------------------------- */

/**
 * How to fill a parameter at commit. Element i depends on seed and i only, not on the ranks nor on
 * the parameter: give each a seed of its own, or two of one shape begin with the same values.
 */
enum zero_init_kind {
    ZERO_INIT_ZERO = 0,
    ZERO_INIT_CONSTANT = 1, /**< a */
    ZERO_INIT_NORMAL = 2,   /**< mean a, standard deviation b */
    ZERO_INIT_UNIFORM = 3,  /**< in [a, b) */
    ZERO_INIT_CALLBACK = 4, /**< fn */
};

struct zero_init {
    uint32_t kind;
    float a, b;
    uint64_t seed;
    /**
     * Fills values[0 … count) with elements first … first + count - 1. Called by zero_commit() on
     * its thread, piece by piece; any rank may be asked for any element. Other than 0 ends the job.
     */
    int (*fn)(void *arg, uint64_t first, uint64_t count, float *values);
    void *arg;
};

enum zero_param_flags {
    ZERO_PARAM_FROZEN = 1u << 0,     /**< no gradient, no optimizer state */
    ZERO_PARAM_PERSISTENT = 1u << 1, /**< never sharded (stage 3), whatever its size */
};

#define ZERO_MAX_DIMS 8

/**
 * A parameter, `n_dims` extents, row-major and contiguous; those behind them are 0, and with none
 * it is a single element.
 */
struct zero_param_desc {
    size_t size;
    const char *name; /**< unique in the runtime */
    uint32_t dtype;   /**< ZERO_F32, ZERO_BF16 or ZERO_F16, one for all trainable parameters */
    uint32_t n_dims;
    uint64_t dims[ZERO_MAX_DIMS];
    uint32_t group; /**< from zero_group_add(), 0: the default group */
    uint32_t flags;
    struct zero_init init;
};

/**
 * Hyperparameters of a group of parameters. All count as they are: what is left at 0 is 0, not the
 * option's value.
 */
struct zero_group_desc {
    size_t size;
    const char *name;
    float lr, weight_decay;
    float beta1, beta2, eps;     /**< Adam, AdamW, for which eps is above 0 */
    float momentum, dampening;   /**< SGD */
    uint32_t nesterov, reserved; /**< SGD */
};

/**
 * Adds a unit: what is gathered together, a transformer block for example. Units are added in
 * forward order. Before commit.
 */
ZERO_API int zero_unit_add(struct zero_runtime *rt, const char *name, uint32_t *unit);

/** Adds a parameter group; group 0 exists with the options' values. Before commit. */
ZERO_API int zero_group_add(struct zero_runtime *rt, const struct zero_group_desc *desc,
                            uint32_t *group);

/** Adds a parameter to a unit. Before commit. */
ZERO_API int zero_param_add(struct zero_runtime *rt, uint32_t unit,
                            const struct zero_param_desc *desc, uint32_t *param);

/** The passes of a step. */
enum zero_pass {
    ZERO_FORWARD = 0,
    ZERO_BACKWARD = 1,
};

/** One use of a unit. */
struct zero_use {
    uint32_t unit, pass;
};

/** What a micro-step is for. */
enum zero_step_kind {
    ZERO_TRAIN = 0,
    ZERO_EVAL = 1,
};

/**
 * Declares in which order units are acquired in a step of `kind`. Default: forward in order of
 * registration, then (training) backward in reverse. Tied units appear more than once;
 * recomputation acquires FORWARD again in the backward half. Before commit, or between steps:
 * collective then, and the next zero_begin() of that kind compiles the program, or finds it among
 * the two that are kept; if it cannot, it says so, and goes on once another order is set.
 */
ZERO_API int zero_set_order(struct zero_runtime *rt, uint32_t kind, const struct zero_use *uses,
                            uint32_t n_uses);

/** In struct zero_buffer_desc: no unit, the step's beginning or end. */
#define ZERO_WHOLE_STEP UINT32_MAX

/** Classes of memory in reports and declarations. */
enum zero_memory_class {
    ZERO_CLASS_PARAMETERS = 0,
    ZERO_CLASS_GRADIENTS = 1,
    ZERO_CLASS_ACCUMULATORS = 2,
    ZERO_CLASS_MASTER = 3,
    ZERO_CLASS_MOMENTUM = 4,
    ZERO_CLASS_VARIANCE = 5,
    ZERO_CLASS_GATHERED = 6,
    ZERO_CLASS_BUCKETS = 7,
    ZERO_CLASS_ACTIVATIONS = 8,
    ZERO_CLASS_OTHER = 9,
    ZERO_N_CLASSES = 10,
};

/**
 * A region that the application wants during a part of every step: an activation, a scratch
 * buffer. It is live from the first use (from_unit, from_pass) to the last use (to_unit, to_pass)
 * of the order, both included. In an evaluation a BACKWARD end means the unit's last forward use.
 * ZERO_WHOLE_STEP as a unit means the step's beginning or end, whatever its order. The contents
 * are undefined when the region starts to live and must not be relied on after its end.
 */
struct zero_buffer_desc {
    size_t size;
    const char *name;
    uint32_t memory_class; /**< ZERO_CLASS_ACTIVATIONS or ZERO_CLASS_OTHER */
    uint32_t reserved;
    uint64_t bytes;
    uint32_t from_unit, from_pass;
    uint32_t to_unit, to_pass;
};

/** Declares a region of the planned arena. Before commit. */
ZERO_API int zero_buffer_add(struct zero_runtime *rt, const struct zero_buffer_desc *desc,
                             uint32_t *buffer);

/**
 * An activation that one use of a training step produces and a later one reads again: what a
 * backward pass needs of its forward pass, or a checkpoint to recompute from. It is produced in the
 * first use (from_unit, from_pass) of the order and consumed in the last use (to_unit, to_pass).
 * Between these two it lies where ZERO_OFFLOAD=activations:… says (ZeRO-R, section 6.1 of the
 * paper): on the device, in memory of the host, or on a disk. Where they are divided among tiers,
 * those that are produced last, and so in general consumed first, stay closest to the device. The
 * copies are ops of the step: they run beside the uses that follow, and come back at most two uses
 * ahead of the one that consumes, within ZERO_PREFETCH_BYTES (or one activation, if that is more).
 * What is consumed within a few uses does not leave the device. In a step without the consuming
 * use (an evaluation) nothing is kept.
 */
struct zero_activation_desc {
    size_t size;
    const char *name;
    uint64_t bytes; /**< at most; what is planned and moved */
    uint32_t from_unit, from_pass;
    uint32_t to_unit, to_pass;
    uint32_t flags, reserved; /**< 0 */
};

/** Declares an activation. Before commit. */
ZERO_API int zero_activation_add(struct zero_runtime *rt, const struct zero_activation_desc *desc,
                                 uint32_t *activation);

/**
 * Plans and reserves all memory, loads the initial values and compiles the step. Collective.
 * A plan that does not fit ZERO_MEMORY_LIMIT or the machine is refused (-ENOMEM) before anything
 * is touched; the error's text carries the table of who needs what. Where several ranks of a host
 * have the same table, the first of them has it, and the others' text names that rank. A refusal
 * ends the job, as any other error does, but for two that change nothing (-EINVAL): a second
 * zero_commit(), and a model that has no parameters, or a unit without any, on all ranks: add them,
 * and call it again.
 */
ZERO_API int zero_commit(struct zero_runtime *rt);

/* ---- The step -------------------------------------------------------------------------------- */

/**
 * Opens a micro-step. `last_micro` other than 0: this training micro-batch is the last before
 * zero_update(). A step has 1 to ZERO_ACCUM of them, and its gradients are averaged over those that
 * it had: the last step of an epoch may be shorter, and batches may grow. The ZERO_ACCUM-th is the
 * last one (0 is -EINVAL then), and after the last one comes no other (-EINVAL). Ignored for
 * evaluation. Collective: ranks that end a step after different numbers of micro-batches end the
 * job (-EPROTO; -ETIMEDOUT where a rank waits in a collective that another one does not post, and
 * the transport does not compare what ranks post).
 *
 * A step of n micro-batches gives the same bits as with ZERO_ACCUM=n; with n of 1 that holds for
 * fp32, since ZERO_ACCUM=1 rounds the sum over ranks of 16-bit gradients to 16 bits, and a larger
 * one keeps it in fp32. zero_forecast() leaves shorter steps out.
 */
ZERO_API int zero_begin(struct zero_runtime *rt, uint32_t kind, int last_micro);

/**
 * The unit's parameters are wanted now: gathered if they are sharded. The call returns when they
 * are there, with a stream as with NULL: the host waits for them.
 *
 * Uses follow each other, whatever their streams, since declared regions share bytes. For the work
 * of the uses before, the host waits with stream NULL alone (and in a step that leaves the declared
 * order); otherwise what is put on `stream` later starts behind it.
 *
 * No capture of a CUDA graph is under way on `stream` or by this thread, here as in zero_release(),
 * which record events and wait for them: that ends the job (-EINVAL). What is captured stands
 * between them. Captures of other threads, in any mode, do not disturb the runtime's own calls, but
 * for those on CU_STREAM_LEGACY, which CUDA refuses beside a capture; what NCCL makes of them is in
 * its documentation. Addresses and zero_grad()'s beta are the same in the same use of each
 * micro-step of its kind (one of several, the last, an evaluation), so that a graph of it can be
 * replayed, until an order of uses changes, of whatever kind of step; zero_loss_scale() is no part
 * of that.
 *
 * Collective in the sense that all ranks acquire in the same order; an order that differs from the
 * declared one works, without prefetch, and becomes the order of the next step. Two things cannot
 * be made up for: one more BACKWARD use of a unit than was declared, when its gradient is reduced
 * already (with ZERO_UPDATE_AT=backward any use then, since its parameters are updated), is refused
 * (-EINVAL); and so is what does not fit into the memory of the plan beside all that such a step
 * holds at once (-ENOMEM). Either ends the job: declare such an order with zero_set_order().
 */
ZERO_API int zero_acquire(struct zero_runtime *rt, uint32_t unit, uint32_t pass, void *stream);

/**
 * The use that was acquired is over: its pointers are dead, its gradients are complete for this
 * use. `stream`: that of the acquire, or another one ordered behind all of the use's work; NULL:
 * all of that work has ended, also what was put on a stream; who put it on CUDA's default stream,
 * and does not wait for it, passes CU_STREAM_LEGACY or CU_STREAM_PER_THREAD, see above. Uses do not
 * nest: a use ends before the next one is acquired (units that are needed together are one unit).
 */
ZERO_API int zero_release(struct zero_runtime *rt, uint32_t unit, uint32_t pass, void *stream);

/**
 * Address of a parameter, in its dtype, whole and contiguous, a multiple of 64 times an element's
 * size. Read-only.
 * Valid between acquire and release of its unit. NULL outside (see zero_last_error()).
 */
ZERO_API const void *zero_param(struct zero_runtime *rt, uint32_t param);

/**
 * Address of a parameter's gradient buffer, same dtype, shape and alignment, between a BACKWARD
 * acquire and its release. Write there the gradient of this rank's loss of this micro-batch, in
 * general a mean over its samples, times zero_loss_scale(). The library averages over the ranks and
 * over the micro-batches of the step, each with equal weight, and takes the scale out: divide by
 * neither. *beta says what to do with what is there: 0 overwrite, 1 add to it (an earlier use of a
 * tied unit wrote its part). Every element must be written. NULL for a frozen parameter. `beta` may
 * be NULL.
 */
ZERO_API void *zero_grad(struct zero_runtime *rt, uint32_t param, float *beta);

/**
 * Address of a declared region on the device, aligned to 4,096 bytes, the same in every use of its
 * life; NULL, with zero_last_error(), outside the step, or in a step of a kind without it. Outside
 * of its life the bytes there are another region's. That of one which lives from the step's
 * beginning may be asked for before the first acquire; it then waits for the same.
 */
ZERO_API void *zero_buffer(struct zero_runtime *rt, uint32_t buffer);

/**
 * Address of an activation on the device, aligned to 4,096 bytes, in the use that produces it,
 * between acquire and release: the place to write it to. Its contents are undefined at first. NULL
 * outside of that use.
 */
ZERO_API void *zero_activation(struct zero_runtime *rt, uint32_t activation);

/**
 * The activation is complete: `bytes` of it (1 to those declared). Once in a micro-step, in the use
 * that produces it, before its release; a second time is -EALREADY. `from` NULL, or what
 * zero_activation() returns: it was written in place. Otherwise it is copied from there: before
 * this returns, or with a stream when that gets there, and until then `from` must stay as it is.
 * With or without the copy, it leaves the device when the use is over (in stream order if it was
 * released on a stream); nothing is waited for. A step that does not consume the activation makes
 * the same copy, and keeps nothing.
 */
ZERO_API int zero_activation_save(struct zero_runtime *rt, uint32_t activation, const void *from,
                                  uint64_t bytes, void *stream);

/**
 * Where the activation is again, in the use that consumes it: *p is on the device, aligned to 4,096
 * bytes, and may be written to; valid until the use's release. It is there when acquire returns, as
 * the unit's parameters are, so work put on any stream afterwards finds it. *bytes, unless NULL, is
 * what was saved; the rest is undefined. An activation that was not saved in this micro-step is an
 * error (-ENODATA). A step that leaves the declared order gives it in each use (to_unit, to_pass),
 * since it cannot know the last one; but behind as many as were declared it may be gone (-EINVAL).
 */
ZERO_API int zero_activation_restore(struct zero_runtime *rt, uint32_t activation, void **p,
                                     uint64_t *bytes);

/** What an update did. It stays as it is: what later versions tell besides has calls of its own. */
struct zero_step_info {
    /**
     * Global, of the averaged gradient, before clipping; NaN or inf: the step was skipped, but with
     * ZERO_UPDATE_AT=backward, which then has spoilt the parameters.
     */
    double grad_norm;
    uint32_t skipped;  /**< 1: a gradient was not finite, nothing has changed on any rank */
    float loss_scale;  /**< for the next step's losses */
    uint64_t step;     /**< updates done so far */
    /**
     * Nanoseconds of this step: waiting (in acquire, in begin, and for what a micro-batch leaves
     * to do: its last reductions, with ZERO_UPDATE_AT=backward updates, too); the rest of this
     * call.
     */
    uint64_t exposed_ns, update_ns;
    /** Sent by this rank for this step, counted by the transport, with what it still publishes. */
    uint64_t wire_bytes;
    /** Of this rank's tier on disks for this step, with what it still writes. */
    uint64_t disk_read_bytes, disk_written_bytes;
};

/**
 * Ends a training step: norm, clipping, optimizer; parameters are fresh at their next acquire. A
 * unit without a BACKWARD use in this step has gradient zero, and is updated with that. `info` may
 * be NULL. Collective.
 *
 * Where a step fails for good (a disk that cannot be written to, a rank that dies), some ranks
 * have updated some of their states and others have not. No rank shows that: every later call,
 * also of what reads values, returns that error, with one sentence on all ranks. Part of an update
 * may still be written when this returns; what reads values waits for it, on all ranks, so that
 * they get those after a whole step, or the error.
 */
ZERO_API int zero_update(struct zero_runtime *rt, struct zero_step_info *info);

/**
 * Sets a group's learning rate, 0 to 1e6, from the next update on; the same on all ranks. With
 * ZERO_UPDATE_AT=backward not from the begin of the last micro-batch to zero_update() (-EBUSY):
 * updates run in between.
 */
ZERO_API int zero_set_lr(struct zero_runtime *rt, uint32_t group, float lr);

/**
 * What to multiply the loss (or the gradient of it) with before the backward pass. 0 before
 * zero_commit().
 */
ZERO_API float zero_loss_scale(const struct zero_runtime *rt);

/**
 * An optimizer of the application's own, whatever ZERO_OPTIMIZER says; NULL: that one again. Called
 * for elements first … first + count - 1 of `param`, on a thread of the runtime, one call at a
 * time, with each element that this rank owns once a step: what it owns of a parameter may come in
 * several calls, cut anywhere. p, m, v are fp32 (m, v: state, zero at the start), grad is fp32,
 * averaged, unscaled, clipped; hyperparameters of groups do not reach it. It calls no function of
 * the library. Not called for skipped steps. What it returns other than 0 ends the job. Before
 * commit, which refuses it on a device with memory of its own, with states in bf16 and with
 * ZERO_UPDATE_AT=backward.
 */
typedef int (*zero_optimizer_fn)(void *arg, uint32_t param, uint64_t first, uint64_t count,
                                 uint64_t step, float *p, float *m, float *v, const float *grad);
ZERO_API int zero_set_optimizer(struct zero_runtime *rt, zero_optimizer_fn fn, void *arg);

/* ---- Reading and writing --------------------------------------------------------------------- */

/**
 * Elements first … first + count - 1 of a parameter's fp32 master values, on every rank.
 * Collective, between steps; memory is bounded by the caller's buffer and a constant. After an
 * error what `values` has is undefined. Values are all that can be saved: states of the optimizer
 * and the number of steps cannot be read or set, so training that goes on from a file begins with
 * states of zero.
 */
ZERO_API int zero_param_read(struct zero_runtime *rt, uint32_t param, uint64_t first,
                             uint64_t count, float *values);

/**
 * The converse: sets master values and the parameter's copies; optimizer state is kept.
 * Collective, between steps, with the same values on every rank.
 */
ZERO_API int zero_param_write(struct zero_runtime *rt, uint32_t param, uint64_t first,
                              uint64_t count, const float *values);

/**
 * XXH3-64 over all fp32 master values in order of registration, without padding. Collective,
 * between steps.
 */
ZERO_API int zero_weights_hash(struct zero_runtime *rt, uint64_t *hash);

/**
 * Sums `n` ≤ 64 numbers over the ranks, in rank order, in place (more: -EINVAL). Collective, at any
 * time between zero_create() and zero_destroy(): before commit, and while a unit is held, too.
 */
ZERO_API int zero_sum(struct zero_runtime *rt, double *values, uint32_t n);

/** Returns when every rank has called it. Collective, at any time, as zero_sum(). */
ZERO_API int zero_barrier(struct zero_runtime *rt);

/* ---- Reports --------------------------------------------------------------------------------- */

/** Bytes of one class in one tier, on this rank. */
struct zero_memory_row {
    uint32_t memory_class;
    /**
     * Static. "checksums": memory of the host that the tier on disks takes for itself; "relay":
     * that through which collectives of a device's memory go where the transport does not take it
     * (ZERO_RELAY_BYTES). The limit of the tier cpu counts both; their memory_class is
     * ZERO_CLASS_OTHER.
     */
    const char *class_name, *tier;
    uint64_t formula;  /**< of the paper for this stage and these ranks; 0 where it has none */
    uint64_t planned;  /**< formula plus padding; what the plan gives to the class */
    uint64_t reserved; /**< its share of the reservation */
    /** Most bytes live at once, by the lives of the steps that have run; of states and tiers beside
     * the device what is planned. */
    uint64_t peak;
};

struct zero_memory_report {
    size_t size; /**< set by the caller; then the bytes that were filled in */
    uint32_t n_rows, reserved0;
    uint64_t planned;                       /**< what the plan comes to: rows share bytes */
    uint64_t reserved, peak;                /**< of all classes */
    uint64_t lower_bound;                   /**< most bytes live at once in the plan */
    uint64_t mapped; /**< parameters of other ranks that are seen in their memory, not copied */
    /**
     * Bytes that the tier on disks has read and written so far, by its own count: initial values,
     * the measurement of its speed and steps out of order included.
     */
    uint64_t disk_read, disk_written;
    uint32_t disk_direct; /**< 1: all of that past the page cache, so far as it says; else 0 */
    uint32_t reserved1;
    struct zero_memory_row rows[4 * ZERO_N_CLASSES];
};

/**
 * Who uses how much memory on this rank. After commit. It has what the plan reserves, and what a
 * disk and a relay take beside it. In no row, and in no limit, are a buffer of 256 KiB to 4 MiB in
 * which values of parameters come and go, and a second one while first values are made or weights
 * are hashed; the program and its records; what transport, plugins and libraries take for
 * themselves; and memory that the application allocates without declaring it by zero_buffer_add().
 */
ZERO_API int zero_memory_report(struct zero_runtime *rt, struct zero_memory_report *report);

/**
 * What lies outside the device, in the words of ZERO_OFFLOAD, with the fractions that "auto" and
 * tiers without fractions have come to: "optimizer:cpu:0.612+nvme:0.388". Empty: nothing. After
 * commit; valid until zero_destroy(). The same on all ranks.
 */
ZERO_API const char *zero_placement(const struct zero_runtime *rt);

/**
 * Seconds of a step of ZERO_ACCUM micro-batches like the last one on this rank: its program is run
 * on paper, where an op waits for what it waits for. An op computes as long as in the last such
 * step, before the first one as in the last job of its kind, if ZERO_OFFLOAD gave tiers without
 * fractions; it moves its bytes to and from the disk at the speed that was measured before anything
 * lay there, or in an earlier job of this kind.
 */
struct zero_forecast {
    size_t size; /**< set by the caller; then the bytes that were filled in */
    double step_s;
    /** Of the micro-batches: seconds of computing, and of moving the disk's bytes. */
    double compute_s, compute_disk_s;
    double update_s, update_disk_s; /**< likewise of the update, where part of it may run earlier */
    double disk_read_rate, disk_write_rate; /**< bytes a second of a rank, all at work; or 0 */
    double passes_s; /**< of step_s, the micro-batches; the rest is what the update then takes */
};

/**
 * -EAGAIN before the end of the first step of ZERO_ACCUM micro-batches in the declared order, if no
 * such job has run; and always where a step moves bytes to or from a disk whose speed is not known:
 * too little lies there for it to be measured, or ZERO_OFFLOAD_MEASURE is 0 and no job has measured
 * it before.
 */
ZERO_API int zero_forecast(struct zero_runtime *rt, struct zero_forecast *forecast);

/** One op of the step program as it ran, for a timeline. */
struct zero_op_time {
    const char *kind, *unit, *queue; /**< as in zero_program_dump(); unit "" where none */
    uint64_t bytes;                  /**< that it writes */
    uint64_t start_ns, end_ns;       /**< CLOCK_MONOTONIC */
    /** The op in zero_program_dump(): body 0 a micro-batch but the last, 1 the last one, 2 the
     * update, 3 an evaluation. */
    uint32_t body, index;
};

/**
 * Calls fn for every op that has ended since the last call, in this order: after a step, all but
 * what still runs behind it. Call it every step; the oldest are lost when too many come together.
 */
ZERO_API int zero_op_times(struct zero_runtime *rt,
                           void (*fn)(void *arg, const struct zero_op_time *op), void *arg);

/** Writes the compiled step program as text to file descriptor fd. After commit. */
ZERO_API int zero_program_dump(struct zero_runtime *rt, int fd);

/* ---- Streams --------------------------------------------------------------------------------- */

/*
 * An error of these calls does not end the job, and the job's end does not refuse them: an
 * application can still wait for what it has put on a stream.
 */

/**
 * A stream of the runtime's device. On the host its calls run one after another on the runtime's
 * threads (ZERO_THREADS), beside the runtime's own kernels: no stream has a thread of its own.
 */
ZERO_API int zero_stream_create(struct zero_runtime *rt, void **stream);
/** -EBUSY while a stream of the host has work left: synchronise it first. */
ZERO_API int zero_stream_destroy(struct zero_runtime *rt, void *stream);
/**
 * Runs fn(arg) when the stream gets there. fn must not wait for another stream, nor call what waits
 * (zero_stream_sync(), collective calls): the thread that it holds up may be the only one. For the
 * same reason it is short: a driver may run the functions of all streams one after another, also
 * those by which the runtime hears what is done. On the host it may enqueue work.
 */
ZERO_API int zero_stream_call(struct zero_runtime *rt, void *stream, void (*fn)(void *), void *arg);
/** Waits until the stream is empty, at most ZERO_TIMEOUT. */
ZERO_API int zero_stream_sync(struct zero_runtime *rt, void *stream);

#ifdef __cplusplus
}
#endif
#endif
