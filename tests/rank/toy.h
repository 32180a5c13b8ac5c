/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A toy model trained by ranks that are threads of the test, or processes that it made: elementwise
 * layers x' = w x + b on vectors, exact to differentiate and the same bits however the step is cut.
 * What it exercises is chosen by flags. A step of it allocates nothing.
 */
#ifndef ZERO_TESTS_TOY_H
#define ZERO_TESTS_TOY_H

#include <stdint.h>

#include <zero/zero.h>

enum toy_flags {
    TOY_TIED = 1 << 0,       /* the first unit is used again as the last layer */
    TOY_FROZEN = 1 << 1,     /* every third unit's bias is frozen */
    TOY_PERSISTENT = 1 << 2, /* every other unit's bias is never sharded */
    TOY_UNUSED = 1 << 3,     /* the last unit is registered and never used backward */
    TOY_RECOMPUTE = 1 << 4,  /* forward again in front of each backward */
    TOY_REORDER = 1 << 5,    /* odd steps visit units in another order without saying so */
    TOY_ANNOUNCE = 1 << 6,   /* with TOY_REORDER: say so by zero_set_order() */
    TOY_STREAM = 1 << 7,     /* compute on a stream of the device */
    TOY_NAN = 1 << 8,        /* step 2 of rank 1 has a gradient that is not finite */
    TOY_EVAL = 1 << 9,       /* an evaluation after every step */
    TOY_SKIP = 1 << 10,      /* step 1 leaves a unit out without saying so */
    TOY_APART = 1 << 11,     /* with TOY_REORDER: rank 1 alone */
    TOY_EARLY = 1 << 13,     /* step 1 leaves a unit out of its last micro-batch, likewise */
    TOY_BETWEEN = 1 << 14,   /* an evaluation between the micro-batches of a step */
    TOY_BEFORE = 1 << 15,    /* one before each update; the next step's input depends on it */
    TOY_STILL = 1 << 16,     /* the third unit is frozen as a whole */
    TOY_SHORT = 1 << 17,     /* step 1 leaves the last backward use out without saying so */
    TOY_FORTH = 1 << 18,     /* with TOY_REORDER: forward alone */
    TOY_ACTIVATIONS = 1 << 12, /* what backward needs is saved as activations, half of it by copy */
};

struct toy {
    int ranks, layers, steps;
    uint32_t dtype, flags;
    uint64_t width; /* elements of the first layer's vectors; others differ a little */
    uint64_t table; /* of a further parameter of every second unit, for large messages; 0: none */
    const struct zero_setting *settings;
    uint32_t n_settings;
    uint32_t n_other; /* of these, the last, which rank 0 does without */
    uint64_t seed;
    const int *micros; /* micro-batches of each step, in turn; NULL: ZERO_ACCUM in every step */
    const int *odd_micros; /* of rank 1; NULL: the same */
    int n_micros;
    uint32_t compute_ms; /* how long a use of a unit sleeps, as if it computed that long */
    uint32_t late_ms;    /* how much longer on rank late */
    int late;
    const char *job, *model; /* NULL: a job of its own, the default name */
    /* Called by every rank in the thread that trains; may be NULL. registered: the model is
     * complete and not committed; finished: after the last step. */
    void (*registered)(struct zero_runtime *rt, int rank, void *arg);
    void (*committed)(struct zero_runtime *rt, int rank, void *arg);
    void (*finished)(struct zero_runtime *rt, int rank, void *arg);
    void (*failed)(int rank, int err, const char *error, void *arg); /* first of all */
    /* Then; rt has failed, and may be NULL. */
    void (*lost)(struct zero_runtime *rt, int rank, int err, const char *error, void *arg);
    void (*stepped)(struct zero_runtime *rt, int rank, int step, const struct zero_step_info *info,
                    void *arg);
    void *(*reach)(const void *p); /* where the host finds what lies at p; NULL: there */
    void (*log)(void *arg, int level, const char *line); /* NULL: standard error */
    void *arg;
};

struct toy_result {
    int err;         /* of the first rank that failed, else 0 */
    char error[1024]; /* its text */
    uint64_t hash;   /* of rank 0 */
    int agree;       /* all ranks have that hash */
    struct zero_step_info info; /* of the last step, rank 0 */
    struct zero_memory_report memory;
    double loss; /* sum of squares of the last step on rank 0 */
};

/* Planned bytes of a class (NULL: all) in a tier. */
uint64_t toy_planned(const struct toy_result *r, const char *tier, const char *class_name);

/* Trains; returns result->err. */
int toy_train(const struct toy *t, struct toy_result *result);

/* One rank, in the calling thread, for ranks that are processes; `job` is the same on all ranks. */
int toy_rank(const struct toy *t, int rank, const char *job, struct toy_result *result);

#endif
