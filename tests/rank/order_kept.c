/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Activations that stay on the device, in steps out of order: which of a unit's uses consumes one
 * is known by their number alone, so it is there in all that the order has, whatever lies beside it
 * meanwhile, and in none behind them.
 */
#include "../tap.h"
#include "try.h"

#include <errno.h>

#include <zero/zero.h>

enum { UNITS = 3, ELEMENTS = 1000, KEPT = 300000 /* bytes */ };
enum { CHECKPOINT, INPUT, BESIDE, LATE, N_KEPT };
#define BIT(kept) (1u << (kept))
#define N_OF(list) (uint32_t)(sizeof(list) / sizeof *(list))

/* Unit 0 is tied: it comes first and last, in both passes. */
static const struct zero_use declared[] = {
    {0, ZERO_FORWARD},  {1, ZERO_FORWARD},  {2, ZERO_FORWARD},  {0, ZERO_FORWARD},
    {0, ZERO_BACKWARD}, {2, ZERO_BACKWARD}, {1, ZERO_BACKWARD}, {0, ZERO_BACKWARD}};
#define N_FORWARD 4

struct astray {
    struct zero_use use;
    unsigned saves, restores, refuses; /* a bit for each */
};

/* Unit 1 is first. What is between two uses of unit 0 would take the place of what they share. */
static const struct astray training[] = {{{1, ZERO_FORWARD}, BIT(CHECKPOINT) | BIT(INPUT), 0, 0},
                                         {{0, ZERO_FORWARD}, 0, BIT(CHECKPOINT), 0},
                                         {{2, ZERO_FORWARD}, BIT(BESIDE), 0, 0},
                                         {{0, ZERO_FORWARD}, 0, BIT(CHECKPOINT), 0},
                                         {{0, ZERO_FORWARD}, 0, 0, BIT(CHECKPOINT)},
                                         {{0, ZERO_BACKWARD}, 0, BIT(INPUT), 0},
                                         {{2, ZERO_BACKWARD}, BIT(LATE), BIT(BESIDE), 0},
                                         {{1, ZERO_BACKWARD}, 0, 0, 0},
                                         {{0, ZERO_BACKWARD}, 0, BIT(INPUT) | BIT(LATE), 0}};

static const struct astray evaluation[] = {{{1, ZERO_FORWARD}, BIT(CHECKPOINT), 0, 0},
                                           {{0, ZERO_FORWARD}, 0, BIT(CHECKPOINT), 0},
                                           {{2, ZERO_FORWARD}, BIT(BESIDE), 0, 0},
                                           {{0, ZERO_FORWARD}, 0, BIT(CHECKPOINT), 0}};

static uint32_t kept[N_KEPT], room_id;

static int kept_add(struct zero_runtime *rt, int k, const char *name, struct zero_use from,
                    struct zero_use to)
{
    struct zero_activation_desc a = {.size = sizeof a,
                                     .name = name,
                                     .bytes = KEPT,
                                     .from_unit = from.unit,
                                     .from_pass = from.pass,
                                     .to_unit = to.unit,
                                     .to_pass = to.pass};
    return zero_activation_add(rt, &a, &kept[k]);
}

static int model(struct zero_runtime *rt)
{
    const struct zero_use first = {1, ZERO_FORWARD}, turn = {2, ZERO_BACKWARD};
    struct zero_buffer_desc room = {.size = sizeof room, /* in the plan */
                                    .name = "room",
                                    .memory_class = ZERO_CLASS_OTHER,
                                    .bytes = 3 * KEPT,
                                    .from_unit = 1,
                                    .to_unit = 1};
    static const char *const names[UNITS] = {"tied", "middle", "last"};
    uint32_t id;

    for (uint32_t u = 0; u < UNITS; u++) {
        struct zero_param_desc w = {.size = sizeof w, .name = names[u], .dtype = ZERO_F32,
                                    .n_dims = 1, .dims = {ELEMENTS}};
        TRY(zero_unit_add(rt, names[u], &id));
        TRY(zero_param_add(rt, u, &w, &id));
    }
    TRY(kept_add(rt, CHECKPOINT, "checkpoint", first, (struct zero_use){0, ZERO_FORWARD}));
    TRY(kept_add(rt, INPUT, "input", first, (struct zero_use){0, ZERO_BACKWARD}));
    TRY(kept_add(rt, BESIDE, "beside", (struct zero_use){2, ZERO_FORWARD}, turn));
    TRY(kept_add(rt, LATE, "late", turn, (struct zero_use){0, ZERO_BACKWARD}));
    TRY(zero_buffer_add(rt, &room, &room_id));
    TRY(zero_set_order(rt, ZERO_TRAIN, declared, N_OF(declared)));
    return zero_set_order(rt, ZERO_EVAL, declared, N_FORWARD);
}

static int save(struct zero_runtime *rt, int k)
{
    char *p = zero_activation(rt, kept[k]);

    if (!p)
        return -EFAULT;
    memset(p, 1 + k, KEPT);
    return zero_activation_save(rt, kept[k], NULL, KEPT, NULL);
}

static int restore(struct zero_runtime *rt, int k, int *spoilt)
{
    void *p;

    TRY(zero_activation_restore(rt, kept[k], &p, NULL));
    for (int i = 0; i < KEPT; i++)
        *spoilt += ((char *)p)[i] != 1 + k;
    return 0;
}

static int use(struct zero_runtime *rt, const struct astray *x, int *spoilt)
{
    void *p;

    TRY(zero_acquire(rt, x->use.unit, x->use.pass, NULL));
    float *grad = x->use.pass == ZERO_BACKWARD ? zero_grad(rt, x->use.unit, NULL) : NULL;
    for (int i = 0; grad && i < ELEMENTS; i++)
        grad[i] = 1;
    for (int k = 0; k < N_KEPT; k++) {
        if (x->restores & BIT(k))
            TRY(restore(rt, k, spoilt));
        if (x->saves & BIT(k))
            TRY(save(rt, k));
        if (x->refuses & BIT(k))
            is_int(zero_activation_restore(rt, kept[k], &p, NULL), -EINVAL,
                   "a use beyond those that the order has finds nothing");
    }
    return zero_release(rt, x->use.unit, x->use.pass, NULL);
}

static int go_astray(struct zero_runtime *rt, int *spoilt)
{
    TRY(model(rt));
    TRY(zero_commit(rt));
    TRY(zero_begin(rt, ZERO_EVAL, 0));
    for (uint32_t i = 0; i < N_OF(evaluation); i++)
        TRY(use(rt, &evaluation[i], &spoilt[0]));
    TRY(zero_begin(rt, ZERO_TRAIN, 1));
    for (uint32_t i = 0; i < N_OF(training); i++)
        TRY(use(rt, &training[i], &spoilt[1]));
    return zero_update(rt, NULL);
}

/* Up to a call that tells of it, an error elsewhere takes nothing from the use that is held. */
static int held_on(struct zero_runtime *rt)
{
    void *p;

    TRY(model(rt));
    TRY(zero_commit(rt));
    TRY(zero_begin(rt, ZERO_TRAIN, 1));
    TRY(zero_acquire(rt, 0, ZERO_FORWARD, NULL));
    TRY(zero_release(rt, 0, ZERO_FORWARD, NULL));
    TRY(zero_acquire(rt, 1, ZERO_FORWARD, NULL));
    zero_abort(rt, "another rank has gone");
    ok(zero_param(rt, 1) && zero_buffer(rt, room_id) && zero_activation(rt, kept[INPUT]),
       "after an error elsewhere addresses are there until the use ends: %s", zero_last_error());
    is_int(zero_activation_restore(rt, kept[LATE], &p, NULL), -ENODATA,
           "and what is not is refused as before");
    return zero_release(rt, 1, ZERO_FORWARD, NULL);
}

int main(void)
{
    const struct zero_setting settings[] = {{"comm", "self"}, {"stage", "1"}};
    struct zero_config c = {.size = sizeof c, .settings = settings, .n_settings = 2};
    struct zero_runtime *rt = NULL;
    int spoilt[2] = {0, 0}, err = zero_create(&c, &rt);

    if (!err)
        err = held_on(rt);
    is_int(err, -ECANCELED, "its release tells: %s", zero_last_error());
    zero_destroy(rt);
    rt = NULL;
    err = zero_create(&c, &rt);
    if (!err)
        err = go_astray(rt, spoilt);
    is_int(err, 0, "steps out of order: %s", err ? zero_last_error() : "trained");
    is_int(spoilt[0], 0, "an evaluation consumes what it has produced");
    is_int(spoilt[1], 0, "each use that may consume finds what was saved");
    zero_destroy(rt);
    done();
}
