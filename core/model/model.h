/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the application registered: units, parameters, groups, declared buffers, orders; and the
 * layout that follows from it: which elements of which segment belong to which rank.
 *
 * A segment is the part of a unit with one dtype, one trainability and one persistence; its
 * parameters lie flat in it. The layout depends on the model and the number of ranks only, never on
 * the stage, so that stages are interchangeable.
 */
#ifndef ZERO_MODEL_MODEL_H
#define ZERO_MODEL_MODEL_H

#include <zero/device.h>
#include <zero/zero.h>

#include "base/names.h"

#define ZERO_NONE UINT32_MAX

/* A model has at most so many units, parameters, groups and buffers each, so that ids fit. */
#define ZERO_MOST_IDS INT32_MAX

/* Starts of parameters in a segment, in elements. */
#define ZERO_ALIGN_ELEMENTS 64u
/* Segments of one unit: (dtype × trainable × persistent) in use. */
#define ZERO_MAX_SEGMENTS_PER_UNIT 12u

struct zero__param {
    char *name;
    uint32_t dtype, n_dims, unit, group, flags, segment;
    uint64_t dims[ZERO_MAX_DIMS];
    uint64_t count;  /* elements */
    uint64_t offset; /* in its segment, in elements */
    struct zero_init init;
};

/* Elements of a segment that belong to no parameter: they stay zero for ever. */
struct zero__gaps {
    uint64_t *first, *count;
    uint32_t n;
};

struct zero__segment {
    uint32_t unit, dtype;
    uint32_t trainable, persistent;
    uint64_t used;    /* end of the last parameter, in elements */
    uint64_t padded;  /* a multiple of ranks * granule, see layout.c */
    uint64_t shard;   /* padded / ranks */
    uint32_t n_params, first_param; /* in model->by_segment */
    struct zero__gaps gaps;
};

struct zero__unit {
    char *name;
    uint32_t n_params;
    uint32_t first_segment, n_segments;
};

struct zero__group {
    char *name;
    struct zero_hyper hyper;
};

/* A declared buffer, or an activation, which may leave the device between its two uses. */
struct zero__declared {
    char *name;
    struct zero_buffer_desc desc;
    int activation;
};

struct zero__order {
    struct zero_use *uses;
    uint32_t n;
    int set; /* by the application */
};

struct zero__model {
    struct zero__unit *units;
    struct zero__param *params;
    struct zero__group *groups;
    struct zero__declared *buffers;
    struct zero__segment *segments;
    uint32_t *by_segment; /* parameter ids, segment by segment, in order of registration */
    uint32_t n_units, n_params, n_groups, n_buffers, n_segments;
    uint32_t cap_units, cap_params, cap_groups, cap_buffers;
    struct zero__names unit_names, param_names, activation_names;
    struct zero__order orders[2]; /* by enum zero_step_kind */
    uint32_t train_dtype;         /* of all trainable parameters, 0: none yet */
};

/*
 * The segments of a unit, one after another, and those of them that are trainable. m and unit are
 * read several times; one statement or block follows.
 */
#define FOR_SEGMENTS(m, unit, i)                                                                 \
    for (uint32_t i = (m)->units[unit].first_segment, i##_end = i + (m)->units[unit].n_segments; \
         i < i##_end; i++)
#define FOR_TRAINABLE(m, unit, i)        \
    FOR_SEGMENTS (m, unit, i)            \
        if (!(m)->segments[i].trainable) \
            continue;                    \
        else

/* Registration; each checks its arguments and names what is wrong. */
int zero__model_add_unit(struct zero__model *m, const char *name, uint32_t *unit);
int zero__model_add_group(struct zero__model *m, const struct zero_group_desc *d, uint32_t *group);
int zero__model_add_param(struct zero__model *m, uint32_t unit, const struct zero_param_desc *d,
                          uint32_t *param);
int zero__model_add_buffer(struct zero__model *m, const struct zero_buffer_desc *d, uint32_t *b);
int zero__model_add_activation(struct zero__model *m, const struct zero_activation_desc *d,
                               uint32_t *activation);
static inline const char *zero__pass_name(uint32_t pass)
{
    return pass == ZERO_BACKWARD ? "backward" : "forward";
}

/* Is there a parameter in every unit, and at least one unit? The sentence says what is missing. */
int zero__model_complete(const struct zero__model *m);
/* Is there such a use in a step of this kind? The sentence says what is wrong. */
int zero__model_use_check(const struct zero__model *m, uint32_t kind, uint32_t unit, uint32_t pass);
/* Is it an order of such steps? Likewise. */
int zero__model_order_check(const struct zero__model *m, uint32_t kind,
                            const struct zero_use *uses, uint32_t n);
/* Of uses that are such an order. */
int zero__model_set_order(struct zero__model *m, uint32_t kind, const struct zero_use *uses,
                          uint32_t n);
/* Fills an order that the application did not set: forward, then backward in reverse. */
int zero__model_default_order(struct zero__model *m, uint32_t kind);
void zero__model_free(struct zero__model *m);

/* Options of the layout; a parameter of at most persistent_bytes stays whole, up to the cap. */
struct zero__layout_params {
    uint32_t ranks;
    uint64_t persistent_bytes, persistent_cap_bytes;
};

/* Builds segments and gaps from the registered parameters. */
int zero__layout_build(struct zero__model *m, const struct zero__layout_params *p);

/* Hashes of registered parameters and units, and of groups with their hyperparameters. */
uint64_t zero__parameters_hash(const struct zero__model *m);
uint64_t zero__groups_hash(const struct zero__model *m);

/* Fills `values` with elements first … first + count - 1 of the parameter's initial value. */
int zero__init_values(const struct zero__param *p, uint64_t first, uint64_t count, float *values);

/* A run of elements of a segment that share hyperparameters (gaps join their neighbour). */
struct zero__run {
    uint64_t first, count; /* in the segment */
    uint32_t group;
};

/* The runs of a segment's elements first … first + count - 1; returns how many (at most max). */
uint32_t zero__segment_runs(const struct zero__model *m, uint32_t segment, uint64_t first,
                            uint64_t count, struct zero__run *runs, uint32_t max);

/* Some segment of the unit is trainable. */
static inline int zero__unit_trains(const struct zero__model *m, uint32_t unit)
{
    FOR_TRAINABLE (m, unit, i)
        return 1;
    return 0;
}

#endif
