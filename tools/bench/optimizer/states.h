/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of `zero bench optimizer`. */
#ifndef ZERO_TOOLS_BENCH_OPTIMIZER_STATES_H
#define ZERO_TOOLS_BENCH_OPTIMIZER_STATES_H

/* Below, starting threads takes as long as the work: what plain loops do is no limit. */
#define OPTIMIZER_LEAST_BYTES 10e6

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "base/options.h"
#include "plugin/loader.h"
#include "tools/bench/measure/loops.h"
#include "tools/bench/measure/stats.h"

struct optimizer_options {
    uint64_t params, unit; /* all, and of one launch */
    uint32_t dtype, grad_dtype;
    unsigned threads, reps, warmup;
    bool json, check, spoil;
};

/* What is timed, in this order. */
enum optimizer_series {
    OPTIMIZER_UPDATE, /* all that an update does: norm, scalars, AdamW with unscaling and casts */
    OPTIMIZER_NORM,   /* its first pass */
    OPTIMIZER_ADAMW,  /* its second */
    OPTIMIZER_READ,   /* plain loops: those that read the gradient, one asking for the next page, */
    OPTIMIZER_MOVE = OPTIMIZER_READ + 2, /* and those that load and store what AdamW does */
    N_OPTIMIZER_SERIES = OPTIMIZER_MOVE + N_BENCH_UPDATES
};

/* The device and the states of one rank; all memory is the device's. */
struct optimizer {
    const struct optimizer_options *o;
    struct zero__options *options;
    struct zero__log log;
    struct zero__loader *loader;
    struct zero_device_ops ops;
    struct zero_device *dev;
    void **streams; /* one for each thread: the first one is the update's, loops are on all */
    unsigned n_streams;
    int64_t timeout_ns;
    void *arrays[8]; /* NULL: there is none; the same by what they are: */
    float *p, *m, *v;
    void *grad, *out; /* out is NULL where p is the parameter */
    double *partials, *sum;
    struct zero_scalars *scalars;
    struct zero_hyper hyper;
    float clip;
    unsigned way;          /* of the plain loops */
    _Atomic uint64_t next; /* of the plain loops: the first element that is nobody's yet */
};

/* run.c: 0 or a negative errno with a sentence. */
uint64_t optimizer_bytes(const struct optimizer_options *o);
/* *x must be ended with optimizer_close() in any case. */
int optimizer_open(struct optimizer *x, const struct optimizer_options *o);
void optimizer_close(struct optimizer *x);
/* Launches what one of the first three series says, and waits for it. */
int optimizer_run(struct optimizer *x, enum optimizer_series what);
/* One repetition of a series. */
int optimizer_sample(struct optimizer *x, int series, double *seconds);
/* Repetitions of all series in turn. */
int optimizer_measure(struct optimizer *x, struct bench_stats stats[N_OPTIMIZER_SERIES]);

/* check.c: one update against a reference, on elements all over the states. */
int optimizer_check(struct optimizer *x, bool *ok);
/* Values to start from. */
void optimizer_fill(struct optimizer *x);

#endif
