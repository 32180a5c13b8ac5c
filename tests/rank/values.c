/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading and writing parameters from outside: random ranges come back as they were written, on
 * every rank, in all stages and dtypes; writing what was read changes nothing; and the values are
 * those of the initialiser at first. Within a step they are refused.
 */
#include "../tap.h"

#include "ranks.h"

#include <zero/zero.h>

#include <errno.h>
#include <math.h>

#define SEED 20240607u
#define UNITS 3
#define ROUNDS 25

/* Lengths that are not aligned, one longer than what travels at once. */
static const uint64_t lengths[UNITS][2] = {{70001, 3}, {1, 130}, {64, 4096}};

struct job {
    char name[64];
    const char *stage;
    uint32_t dtype;
    int persistent;
};

static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* What the initialiser and the writes put there, as the master copy holds it. */
static float initial(uint64_t param, uint64_t i)
{
    return (float)(i % 1000) * 0.37f + (float)param;
}

static int initialise(void *arg, uint64_t first, uint64_t count, float *values)
{
    for (uint64_t i = 0; i < count; i++)
        values[i] = initial((uint64_t)(uintptr_t)arg, first + i);
    return 0;
}

static int model_create(const struct rank *r, struct zero_runtime **out)
{
    const struct job *job = r->arg;
    struct zero_setting s[] = {{"stage", job->stage}, {"timeout", "20"}, {"lr", "0"}};
    struct zero_config c = ZERO_CONFIG_INIT;
    struct zero_runtime *rt;

    c.settings = s, c.n_settings = 3;
    c.rank = r->rank, c.ranks = r->ranks, c.local_ranks = r->ranks;
    c.job = job->name;
    int err = zero_create(&c, &rt);
    if (err)
        return err;
    *out = rt;
    for (uint32_t u = 0; u < UNITS && !err; u++) {
        char name[32];
        uint32_t unit, id;
        snprintf(name, sizeof name, "unit%u", u);
        err = zero_unit_add(rt, name, &unit);
        for (uint32_t k = 0; k < 2 && !err; k++) {
            struct zero_param_desc d = {
                .size = sizeof d, .name = name, .dtype = job->dtype, .n_dims = 1,
                .dims = {lengths[u][k]},
                .flags = (k ? ZERO_PARAM_FROZEN : 0) |
                         (job->persistent && u == 1 ? ZERO_PARAM_PERSISTENT : 0),
                .init = {.kind = ZERO_INIT_CALLBACK, .fn = initialise,
                         .arg = (void *)(uintptr_t)(2 * u + k)}};
            snprintf(name, sizeof name, "p%u.%u", u, k);
            err = zero_param_add(rt, unit, &d, &id);
        }
    }
    return err ? err : zero_commit(rt);
}

/* A frozen 16-bit parameter has no master copy: its own rounding is what is read back. */
static float kept(const struct job *job, uint32_t param, float x)
{
    if (!(param % 2))
        return x;
    return job->dtype == ZERO_BF16  ? zero_float_from_bf16(zero_bf16_from_float(x))
           : job->dtype == ZERO_F16 ? zero_float_from_fp16(zero_fp16_from_float(x))
                                    : x;
}

/* The whole of every parameter against what it should hold. */
static void compare(struct rank *r, struct zero_runtime *rt, float *const *model, float *got,
                    const char *when)
{
    for (uint32_t p = 0; p < 2 * UNITS; p++) {
        uint64_t n = lengths[p / 2][p % 2], bad = 0;
        if (!want(r, !zero_param_read(rt, p, 0, n, got), "%s: %s", when, zero_last_error()))
            return;
        for (uint64_t i = 0; i < n; i++)
            bad += got[i] != model[p][i];
        want(r, !bad, "%s: %d elements of parameter %u differ", when, (int)bad, p);
    }
}

/* The parameters as a step sees them agree with the master values. */
static void look(struct rank *r, struct zero_runtime *rt, float *const *model)
{
    const struct job *job = r->arg;

    want(r, !zero_begin(rt, ZERO_EVAL, 0), "%s", zero_last_error());
    for (uint32_t p = 0; p < 2 * UNITS; p++) {
        if (p % 2 == 0)
            want(r, !zero_acquire(rt, p / 2, ZERO_FORWARD, NULL), "%s", zero_last_error());
        const void *x = zero_param(rt, p);
        uint64_t n = lengths[p / 2][p % 2], bad = 0;
        for (uint64_t i = 0; i < n; i++) {
            float m = model[p][i];
            bad += job->dtype == ZERO_F32    ? ((const float *)x)[i] != m
                   : job->dtype == ZERO_BF16 ? ((const uint16_t *)x)[i] != zero_bf16_from_float(m)
                                             : ((const uint16_t *)x)[i] != zero_fp16_from_float(m);
        }
        want(r, !bad, "%d elements of parameter %u differ in use", (int)bad, p);
        if (p % 2 == 1)
            want(r, !zero_release(rt, p / 2, ZERO_FORWARD, NULL), "%s", zero_last_error());
    }
}

static void writes(struct rank *r, struct zero_runtime *rt, float *const *model, float *buffer)
{
    const struct job *job = r->arg;
    uint32_t state = SEED;

    for (int round = 0; round < ROUNDS; round++) {
        uint32_t p = next(&state) % (2 * UNITS);
        uint64_t n = lengths[p / 2][p % 2], first = next(&state) % n;
        uint64_t count = next(&state) % (n - first + 1);
        for (uint64_t i = 0; i < count; i++) {
            buffer[i] = (float)(next(&state) % 100000) / 777.0f - 50;
            model[p][first + i] = kept(job, p, buffer[i]);
        }
        want(r, !zero_param_write(rt, p, first, count, buffer), "%s", zero_last_error());
        p = next(&state) % (2 * UNITS);
        n = lengths[p / 2][p % 2], first = next(&state) % n;
        count = next(&state) % (n - first + 1);
        if (!want(r, !zero_param_read(rt, p, first, count, buffer), "%s", zero_last_error()))
            return;
        uint64_t bad = 0;
        for (uint64_t i = 0; i < count; i++)
            bad += buffer[i] != model[p][first + i];
        want(r, !bad, "round %d: %d of %d elements of parameter %u from %d differ", round,
             (int)bad, (int)count, p, (int)first);
    }
}

static void rank_main(struct rank *r)
{
    const struct job *job = r->arg;
    float *model[2 * UNITS], *buffer = malloc(lengths[0][0] * sizeof *buffer);
    struct zero_runtime *rt = NULL;
    uint64_t hash, again;

    for (uint32_t p = 0; p < 2 * UNITS; p++) {
        uint64_t n = lengths[p / 2][p % 2];
        model[p] = malloc(n * sizeof *model[p]);
        for (uint64_t i = 0; i < n; i++)
            model[p][i] = kept(job, p, initial(p, i));
    }
    if (!want(r, !model_create(r, &rt), "%s", zero_last_error()))
        goto out;
    compare(r, rt, model, buffer, "after the initialiser");
    writes(r, rt, model, buffer);
    compare(r, rt, model, buffer, "after the writes");
    look(r, rt, model);
    want(r, !zero_weights_hash(rt, &hash), "%s", zero_last_error());
    for (uint32_t p = 0; p < 2 * UNITS; p++) {
        uint64_t n = lengths[p / 2][p % 2];
        want(r, !zero_param_read(rt, p, 0, n, buffer), "%s", zero_last_error());
        want(r, !zero_param_write(rt, p, 0, n, buffer), "%s", zero_last_error());
    }
    want(r, !zero_weights_hash(rt, &again), "%s", zero_last_error());
    want(r, hash == again, "writing what was read changes the hash");
    look(r, rt, model);
    r->value = (int64_t)hash;
out:
    zero_destroy(rt);
    for (uint32_t p = 0; p < 2 * UNITS; p++)
        free(model[p]);
    free(buffer);
}

/* Values are those between two steps: who asks within one hears what of it is missing. */
static void within_a_step(void)
{
    const struct zero_setting s[] = {{"comm", "self"}, {"accum", "2"}};
    struct zero_param_desc w = {.size = sizeof w, .name = "w", .dtype = ZERO_F32, .n_dims = 1,
                                .dims = {8}};
    struct zero_config c = ZERO_CONFIG_INIT;
    struct zero_runtime *rt = NULL;
    uint64_t hash;
    uint32_t id;

    c.settings = s, c.n_settings = 2;
    int err = zero_create(&c, &rt);
    if (!err)
        err = zero_unit_add(rt, "u", &id);
    if (!err)
        err = zero_param_add(rt, id, &w, &id);
    if (!err)
        err = zero_commit(rt);
    if (!err)
        err = zero_begin(rt, ZERO_TRAIN, 0);
    if (!is_int(err, 0, "the first micro-batch of two"))
        return;
    is_int(zero_weights_hash(rt, &hash), -EINVAL, "nobody reads values there");
    has_str(zero_last_error(), "micro-batch 1 of at most 2 (ZERO_ACCUM) is open: finish",
            "and it says that zero_update() does not come next");
    zero_destroy(rt);
}

int main(void)
{
    static const uint32_t dtypes[] = {ZERO_F32, ZERO_BF16, ZERO_F16};
    static const char *const stages[] = {"0", "1", "2", "3"};
    static struct job job;
    int n = 0;

    for (int d = 0; d < 3; d++) {
        int64_t hash = 0;
        for (int s = 0; s < 4; s++) {
            int ranks = 1 + n % 3, persistent = n % 2;
            job = (struct job){.stage = stages[s], .dtype = dtypes[d], .persistent = persistent};
            snprintf(job.name, sizeof job.name, "values-%d-%d", (int)getpid(), n++);
            struct rank *all = ranks_run(ranks, AS_THREADS, rank_main, &job);
            ranks_good(all, ranks, "stage %d, %s, %d ranks%s", s, zero_dtype_name(dtypes[d]), ranks,
                       persistent ? ", persistent" : "");
            ok(!hash || hash == all[0].value, "the hash does not depend on stage and ranks");
            hash = all[0].value;
        }
    }
    within_a_step();
    diag("seed %u", SEED);
    done();
}
