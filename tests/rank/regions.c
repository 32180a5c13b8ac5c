/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declared regions beside what else moves: one that lives from the step's beginning to its end is
 * written before the first acquire, while parts of the last update are still under way in the
 * memory that it lies in, and read behind the last release, when sums of gradients come and go; one
 * that lives from a late unit's forward use to an early unit's backward use, which an evaluation
 * never comes to; regions of steps out of order; and of uses on several streams.
 */
#include "../threads.h"
#include "try.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <zero/zero.h>

enum { UNITS = 4, RANKS = 2, STEPS = 6, ELEMENTS = 1 << 20, REGION = 24 << 20 };

struct rank {
    int rank, early, spoilt;
    const char *offload;
    uint64_t hash;
    char error[1024];
};

/* The first unit is small, so that the batch begins where the update has others in between. */
static uint64_t elements_of(uint32_t unit)
{
    return unit ? ELEMENTS : 4096;
}

static int model(struct zero_runtime *rt)
{
    struct zero_buffer_desc whole = {.size = sizeof whole,
                                     .name = "batch",
                                     .memory_class = ZERO_CLASS_OTHER,
                                     .bytes = REGION,
                                     .from_unit = ZERO_WHOLE_STEP,
                                     .to_unit = ZERO_WHOLE_STEP};
    struct zero_buffer_desc across = {.size = sizeof across,
                                      .name = "across",
                                      .memory_class = ZERO_CLASS_ACTIVATIONS,
                                      .bytes = 4096,
                                      .from_unit = UNITS - 1,
                                      .from_pass = ZERO_FORWARD,
                                      .to_unit = 0,
                                      .to_pass = ZERO_BACKWARD};
    char name[16];
    uint32_t id;

    for (uint32_t u = 0; u < UNITS; u++) {
        struct zero_param_desc w = {.size = sizeof w,
                                    .name = name,
                                    .dtype = ZERO_BF16,
                                    .n_dims = 1,
                                    .dims = {elements_of(u)}};
        w.init = (struct zero_init){.kind = ZERO_INIT_NORMAL, .a = 1, .b = 0.1f, .seed = u};
        snprintf(name, sizeof name, "unit%u", u);
        TRY(zero_unit_add(rt, name, &id));
        TRY(zero_param_add(rt, u, &w, &id));
    }
    TRY(zero_buffer_add(rt, &whole, &id));
    return zero_buffer_add(rt, &across, &id);
}

static int use(struct rank *r, struct zero_runtime *rt, uint32_t unit, uint32_t pass)
{
    TRY(zero_acquire(rt, unit, pass, NULL));
    const uint16_t *w = zero_param(rt, unit);
    uint16_t *grad = pass == ZERO_BACKWARD ? zero_grad(rt, unit, NULL) : NULL;
    /* Of this rank's own, and as small as the parameters are. */
    for (uint64_t k = 0; grad && k < elements_of(unit); k++)
        grad[k] = (uint16_t)(w[k] ^ (uint16_t)(r->rank << 3));
    return zero_release(rt, unit, pass, NULL);
}

static int micro_step(struct rank *r, struct zero_runtime *rt, int last)
{
    TRY(zero_begin(rt, ZERO_TRAIN, last));
    char *p = r->early ? zero_buffer(rt, 0) : NULL;
    if (r->early && !p)
        return -EFAULT;
    if (p)
        memset(p, 0x3f, REGION);
    for (uint32_t u = 0; u < UNITS; u++)
        TRY(use(r, rt, u, ZERO_FORWARD));
    for (uint32_t u = UNITS; u-- > 0;)
        TRY(use(r, rt, u, ZERO_BACKWARD));
    p = r->early ? zero_buffer(rt, 0) : NULL;
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); /* what is under way goes on */
    for (int k = 0; p && k < REGION; k++)
        r->spoilt += p[k] != 0x3f;
    return 0;
}

static int train(struct rank *r, struct zero_runtime *rt)
{
    TRY(model(rt));
    TRY(zero_commit(rt));
    for (int i = 0; i < STEPS; i++) {
        TRY(micro_step(r, rt, 0));
        TRY(micro_step(r, rt, 1));
        TRY(zero_update(rt, NULL));
    }
    return zero_weights_hash(rt, &r->hash);
}

static void *rank_main(void *arg)
{
    struct rank *r = arg;
    const struct zero_setting settings[] = {{"stage", "1"}, {"timeout", "20"},
                                            {"offload", r->offload}, {"lr", "0.01"},
                                            {"prefetch_bytes", "0"}, {"accum", "2"}};
    char job[64];
    struct zero_config config = {.size = sizeof config, .settings = settings, .n_settings = 6,
                                 .ranks = RANKS, .rank = r->rank, .job = job};
    struct zero_runtime *rt = NULL;

    snprintf(job, sizeof job, "regions-%d-%d-%s", (int)getpid(), r->early, r->offload);
    int err = zero_create(&config, &rt);
    if (!err)
        err = train(r, rt);
    if (err)
        snprintf(r->error, sizeof r->error, "%s", zero_last_error());
    zero_destroy(rt);
    return NULL;
}

static void compare(const char *offload)
{
    uint64_t hash[2];
    int good = 1;

    for (int early = 0; early < 2; early++) {
        struct rank ranks[RANKS] = {{.rank = 0}, {.rank = 1}};
        for (int i = 0; i < RANKS; i++) {
            ranks[i].early = early;
            ranks[i].offload = offload;
        }
        in_threads(rank_main, ranks, RANKS);
        for (int i = 0; i < RANKS; i++)
            good &= is_str(ranks[i].error, "", "\"%s\", rank %d trains%s", offload, i,
                           early ? ", with a region written before the first use" : "");
        is_int(ranks[0].spoilt + ranks[1].spoilt, 0, "\"%s\": it is there to the end", offload);
        good &= ranks[0].hash == ranks[1].hash;
        hash[early] = ranks[0].hash;
    }
    ok(good && hash[0] == hash[1], "\"%s\": what is written there reaches no parameter", offload);
}

/* ---- Out of order, one rank ------------------------------------------------------------------ */

enum { KEPT = 300000 };
#define NO_REGION UINT32_MAX

static int region_add(struct zero_runtime *rt, const char *name, uint64_t bytes, uint32_t unit,
                      uint32_t from, uint32_t to, uint32_t *id)
{
    struct zero_buffer_desc d = {.size = sizeof d,
                                 .name = name,
                                 .memory_class = ZERO_CLASS_ACTIVATIONS,
                                 .bytes = bytes,
                                 .from_unit = unit,
                                 .from_pass = from,
                                 .to_unit = unit,
                                 .to_pass = to};
    return zero_buffer_add(rt, &d, id);
}

/* Writes the region, or looks at it; then a use ends. */
static int use_region(struct zero_runtime *rt, uint32_t unit, uint32_t pass, uint32_t region,
                      int writes, int *spoilt)
{
    TRY(zero_acquire(rt, unit, pass, NULL));
    char *p = region == NO_REGION ? NULL : zero_buffer(rt, region);
    if (region != NO_REGION && !p)
        return -EFAULT;
    if (p && writes)
        memset(p, 1 + (int)region, KEPT);
    for (int k = 0; p && k < KEPT; k++)
        *spoilt += p[k] != 1 + (int)region;
    float *grad = pass == ZERO_BACKWARD ? zero_grad(rt, unit, NULL) : NULL;
    for (int k = 0; grad && k < 1000; k++)
        grad[k] = 1;
    return zero_release(rt, unit, pass, NULL);
}

static int two_units(struct zero_runtime *rt)
{
    uint32_t id;

    for (uint32_t u = 0; u < 2; u++) {
        struct zero_param_desc w = {
            .size = sizeof w, .name = "w", .dtype = ZERO_F32, .n_dims = 1, .dims = {1000}};
        w.name = u ? "second" : "first";
        TRY(zero_unit_add(rt, w.name, &id));
        TRY(zero_param_add(rt, u, &w, &id));
    }
    return 0;
}

static int go_astray(struct zero_runtime *rt, int has_room, int *spoilt)
{
    const struct zero_use in_turn[] = {
        {0, ZERO_FORWARD}, {0, ZERO_BACKWARD}, {1, ZERO_FORWARD}, {1, ZERO_BACKWARD}};
    uint32_t id, kept, late;

    TRY(two_units(rt));
    TRY(region_add(rt, "kept", KEPT, 0, ZERO_FORWARD, ZERO_BACKWARD, &kept));
    TRY(region_add(rt, "late", KEPT, 1, ZERO_BACKWARD, ZERO_BACKWARD, &late));
    if (has_room) /* in the plan, and nobody asks for it */
        TRY(region_add(rt, "room", 3 * KEPT, 1, ZERO_FORWARD, ZERO_FORWARD, &id));
    TRY(zero_set_order(rt, ZERO_TRAIN, in_turn, 4));
    TRY(zero_commit(rt));
    TRY(zero_begin(rt, ZERO_TRAIN, 1));
    TRY(use_region(rt, 0, ZERO_FORWARD, kept, 1, spoilt));
    TRY(use_region(rt, 1, ZERO_FORWARD, NO_REGION, 0, spoilt));
    TRY(use_region(rt, 1, ZERO_BACKWARD, late, 1, spoilt));
    TRY(use_region(rt, 0, ZERO_BACKWARD, kept, 0, spoilt));
    TRY(zero_update(rt, NULL));
    /* A step without the second unit, which is recorded, and one with it again. */
    TRY(zero_begin(rt, ZERO_TRAIN, 1));
    TRY(use_region(rt, 0, ZERO_FORWARD, kept, 1, spoilt));
    TRY(use_region(rt, 0, ZERO_BACKWARD, kept, 0, spoilt));
    TRY(zero_update(rt, NULL));
    TRY(zero_begin(rt, ZERO_TRAIN, 1));
    TRY(use_region(rt, 0, ZERO_FORWARD, kept, 1, spoilt));
    TRY(use_region(rt, 1, ZERO_FORWARD, NO_REGION, 0, spoilt));
    TRY(use_region(rt, 1, ZERO_BACKWARD, late, 1, spoilt));
    TRY(use_region(rt, 0, ZERO_BACKWARD, kept, 0, spoilt));
    return zero_update(rt, NULL);
}

/* Without room beside what lives the step is refused, and nothing is overwritten. */
static void astray(int has_room)
{
    const struct zero_setting settings[] = {{"comm", "self"}, {"stage", "1"}};
    struct zero_config c = {.size = sizeof c, .settings = settings, .n_settings = 2};
    struct zero_runtime *rt = NULL;
    int spoilt = 0, err = zero_create(&c, &rt);

    if (!err)
        err = go_astray(rt, has_room, &spoilt);
    ok((err == 0) == has_room, "steps out of order, %s room: %s", has_room ? "with" : "without",
       err ? zero_last_error() : "trained");
    if (!has_room)
        has_str(zero_last_error(), "buffer late: this step leaves", "the region is named");
    is_int(spoilt, 0, "regions keep what is written there");
    zero_destroy(rt);
}

/* ---- On several streams, one rank ------------------------------------------------------------ */

struct painted {
    char *p;
    int color;
    atomic_int spoilt;
};

/* Work of a use that goes on for a while in a region. */
static void paint_slowly(void *arg)
{
    struct painted *x = arg;
    int spoilt = 0;

    memset(x->p, x->color, KEPT);
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    for (int k = 0; k < KEPT; k++)
        spoilt += x->p[k] != x->color;
    atomic_fetch_add(&x->spoilt, spoilt);
}

/* A use of a unit with a region of its own, on a stream, or here. */
static int use_on(struct zero_runtime *rt, uint32_t unit, void *stream, struct painted *x)
{
    TRY(zero_acquire(rt, unit, ZERO_FORWARD, stream));
    x->p = zero_buffer(rt, unit);
    x->color = 1 + (int)unit;
    if (!x->p)
        return -EFAULT;
    if (stream)
        TRY(zero_stream_call(rt, stream, paint_slowly, x));
    else
        paint_slowly(x);
    return zero_release(rt, unit, ZERO_FORWARD, stream);
}

/* A use on one stream, then one on another, and, the other time, without any. */
static int go_on_streams(struct zero_runtime *rt, struct painted x[2][2])
{
    void *streams[2];
    uint32_t id;

    TRY(two_units(rt));
    TRY(region_add(rt, "one", KEPT, 0, ZERO_FORWARD, ZERO_FORWARD, &id));
    TRY(region_add(rt, "two", KEPT, 1, ZERO_FORWARD, ZERO_FORWARD, &id));
    TRY(zero_commit(rt));
    for (int i = 0; i < 2; i++)
        TRY(zero_stream_create(rt, &streams[i]));
    for (int i = 0; i < 2; i++) {
        TRY(zero_begin(rt, ZERO_EVAL, 0));
        TRY(use_on(rt, 0, streams[0], &x[i][0]));
        TRY(use_on(rt, 1, i ? NULL : streams[1], &x[i][1]));
        TRY(zero_stream_sync(rt, streams[0]));
        TRY(zero_stream_sync(rt, streams[1]));
    }
    for (int i = 0; i < 2; i++)
        TRY(zero_stream_destroy(rt, streams[i]));
    return 0;
}

static void on_streams(void)
{
    const struct zero_setting settings[] = {{"comm", "self"}, {"threads", "2"}};
    struct zero_config c = {.size = sizeof c, .settings = settings, .n_settings = 2};
    struct painted x[2][2] = {{{.p = NULL}}};
    struct zero_runtime *rt = NULL;
    int err = zero_create(&c, &rt);

    if (!err)
        err = go_on_streams(rt, x);
    is_int(err, 0, "uses on two streams: %s", err ? zero_last_error() : "ended");
    for (int i = 0; i < 2; i++)
        ok(x[i][0].p == x[i][1].p && !x[i][0].spoilt && !x[i][1].spoilt,
           "a use %s starts behind the one before it, whose bytes it has",
           i ? "without a stream" : "on another stream");
    zero_destroy(rt);
}

int main(void)
{
    compare("");
    compare("parameters:cpu");
    compare("parameters:cpu,gradients:cpu");
    astray(1);
    astray(0);
    on_streams();
    done();
}
