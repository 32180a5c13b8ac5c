/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Updates beside the backward pass: the same bits as at the end of the step, whatever the tier, the
 * model and the order; no room for gradients; and what cannot be had with them is refused by name.
 */
#include "../threads.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "folder.h"
#include "toy.h"

static char path[4096];

struct what {
    const char *stage;
    uint32_t dtype, flags;
    int ranks;
    const char *accum, *optimizer, *momentum, *states, *reduce_at;
};

static int run(const struct what *w, const char *update_at, const char *offload,
               struct toy_result *r)
{
    struct zero_setting s[] = {{"stage", w->stage},
                               {"accum", w->accum},
                               {"lr", "0.01"},
                               {"timeout", "20"},
                               {"optimizer", w->optimizer},
                               {"momentum", w->momentum},
                               {"state_dtype", w->states},
                               {"reduce_at", w->reduce_at},
                               {"loss_scale", "256"},
                               {"update_at", update_at},
                               {"tile_bytes", "64K"},
                               {"offload", offload},
                               {"nvme_path", path}};
    struct toy t = {.ranks = w->ranks,
                    .layers = 4,
                    .steps = 5,
                    .dtype = w->dtype,
                    .flags = w->flags,
                    .width = 40000, /* some tiles of 16384 elements, and a rest */
                    .settings = s,
                    .n_settings = strstr(offload, "nvme") ? 13 : 12,
                    .seed = 7};

    return toy_train(&t, r);
}

static void agree(const struct what *w, unsigned number)
{
    const unsigned by = is_whole() ? 1 : is_short() ? 6 : 2;
    static const char *const tiers[] = {
        "optimizer:cpu", "optimizer:nvme,parameters:nvme",
        "optimizer:device:0.4+cpu:0.6,gradients:cpu", "optimizer:nvme,gradients:nvme",
        "optimizer:cpu,parameters:cpu", "optimizer:cpu+nvme,gradients:cpu,activations:cpu"};
    struct toy_result late, early;
    int good = !run(w, "end", "optimizer:cpu", &late);

    if (!good)
        diag("at the end: %s", late.error);
    for (unsigned i = 0; i < sizeof tiers / sizeof *tiers && good; i++) {
        if ((i + number) % by)
            continue;
        good = !run(w, "backward", tiers[i], &early) && early.agree && early.hash == late.hash &&
               early.info.grad_norm == late.info.grad_norm && early.info.step == late.info.step;
        if (!good)
            diag("%s: %s, hash %016" PRIx64 ", at the end %016" PRIx64 ", norm %.17g, %.17g",
                 tiers[i], early.err ? early.error : "it trains", early.hash, late.hash,
                 early.info.grad_norm, late.info.grad_norm);
    }
    ok(good, "stage %s, %s, %s, %d rank%s, %s micro-batch%s, flags %x: the same bits",
       w->stage, w->optimizer, zero_dtype_name(w->dtype), w->ranks, w->ranks > 1 ? "s" : "",
       w->accum, strcmp(w->accum, "1") ? "es" : "", w->flags);
}

/* Gradients pass through the host's memory, and stay nowhere, wherever they are placed. */
static void no_room(void)
{
    static const struct what w = {"2", ZERO_BF16, 0, 2, "1", "adamw", "0", "fp32", "auto"};
    static const char *const tiers[] = {"optimizer:cpu", "optimizer:cpu,gradients:cpu",
                                        "optimizer:cpu,gradients:nvme"};
    struct toy_result late, early;
    uint64_t passing = 0;
    int err = run(&w, "end", tiers[0], &late);

    for (unsigned i = 0; i < 3 && !err; i++) {
        err = run(&w, "backward", tiers[i], &early);
        passing = i ? passing : toy_planned(&early, "cpu", "gradients");
        ok(!err && toy_planned(&late, "device", "gradients") > 0 &&
               !toy_planned(&early, "device", "gradients") &&
               !toy_planned(&early, "nvme", "gradients") &&
               toy_planned(&early, "cpu", "gradients") == passing,
           "%s: no room for gradients but the %" PRIu64 " bytes of tiles", tiers[i], passing);
    }
}

static void count_steps(struct zero_runtime *rt, int rank, int step,
                        const struct zero_step_info *info, void *arg)
{
    (void)rt, (void)step, (void)info;
    if (rank == 0)
        ++*(int *)arg;
}

/* A step that has gone wrong is no longer skipped, and tells so; a disk that fails ends the job. */
static void gone_wrong(void)
{
    static const struct what w = {"2", ZERO_BF16, TOY_NAN, 2, "1", "adamw", "0", "fp32", "auto"};
    struct zero_setting s[] = {{"update_at", "backward"}, {"offload", "optimizer:fault"},
                               {"nvme_path", path}, {"timeout", "20"}, {"tile_bytes", "64K"},
                               {"fault_io", "error=EIO:op=read:n=400"}};
    int steps = 0;
    struct toy t = {.ranks = 2, .layers = 4, .steps = 50, .dtype = ZERO_BF16, .width = 40000,
                    .settings = s, .n_settings = 6, .seed = 7,
                    .stepped = count_steps, .arg = &steps};
    struct toy_result r;

    int err = run(&w, "backward", "optimizer:cpu", &r);
    ok(!err && !r.info.skipped && r.info.step == 5 && !(r.info.grad_norm < INFINITY),
       "a gradient that is not finite: no step is skipped, and the norm is %g", r.info.grad_norm);
    err = toy_train(&t, &r);
    ok(err == -EIO && strstr(r.error, "ZERO_FAULT_IO") && steps > 0,
       "a read fails behind step %d, in an update: %s", steps, r.error);

    char plugins[8192];
    snprintf(plugins, sizeof plugins, "%s/tests/plugin/.libs:%s", getenv("ZERO_TEST_BUILD"),
             getenv("ZERO_PLUGIN_PATH"));
    setenv("ZERO_PLUGIN_PATH", plugins, 1);
    s[1].value = "optimizer:mute";
    steps = 0;
    err = toy_train(&t, &r);
    ok(err == -EIO && strstr(r.error, " of layer") && strstr(r.error, "mute did not say why") &&
       steps > 0, "so does one of which nothing is said: %s", r.error);
}

static void forecast_keep(struct zero_runtime *rt, int rank, void *arg)
{
    if (rank == 0 && zero_forecast(rt, arg))
        diag("no forecast: %s", zero_last_error());
}

/*
 * What is reduced last is updated when nothing is computed any more. How much of a step that is
 * depends on this disk and machine; tests/unit/simulate counts it.
 */
static void foretold(void)
{
    struct zero_setting s[] = {{"update_at", "backward"}, {"offload", "optimizer:nvme"},
                               {"nvme_path", path},       {"timeout", "20"},
                               {"tile_bytes", "64K"}};
    struct zero_forecast f = {.size = sizeof f};
    struct toy t = {.ranks = 2, .layers = 4, .steps = 3, .dtype = ZERO_BF16, .width = 40000,
                    .settings = s, .n_settings = 5, .seed = 7, .compute_ms = 30,
                    .finished = forecast_keep, .arg = &f};
    struct toy_result r;

    int err = toy_train(&t, &r);
    double tail = f.step_s - f.compute_s;
    ok(!err && tail > 0, "a forecast knows of the updates behind the last use: %g s", tail);
}

/* ---- What cannot be had ---------------------------------------------------------------------- */

enum { A, B, UNUSED, FROZEN, UNITS };

static const struct zero_use order[] = {
    {A, ZERO_FORWARD}, {B, ZERO_FORWARD}, {B, ZERO_BACKWARD}, {A, ZERO_BACKWARD}};

static int model_make(const char *update_at, const struct zero_setting *more, uint32_t dtype,
                      struct zero_runtime **rt)
{
    static const char *const units[] = {"a", "b", "unused", "frozen"},
                             *const params[] = {"a.w", "b.w", "unused.w", "frozen.w"};
    struct zero_setting s[] = {{"offload", "optimizer:cpu"}, {"update_at", update_at}, *more};
    struct zero_config cfg = ZERO_CONFIG_INIT;
    uint32_t id;
    int err;

    cfg.settings = s;
    cfg.n_settings = 3;
    cfg.rank = 0, cfg.ranks = 1, cfg.local_ranks = 1;
    err = zero_create(&cfg, rt);
    for (uint32_t u = 0; u < UNITS && !err; u++) {
        struct zero_param_desc p = {.size = sizeof p, .name = params[u], .dtype = dtype,
                                    .n_dims = 1, .dims = {1000},
                                    .flags = u == FROZEN ? ZERO_PARAM_FROZEN : 0,
                                    .init = {.kind = ZERO_INIT_CONSTANT, .a = 1}};
        err = zero_unit_add(*rt, units[u], &id);
        if (!err)
            err = zero_param_add(*rt, u, &p, &id);
    }
    if (!err)
        err = zero_set_order(*rt, ZERO_TRAIN, order, 4);
    return err;
}

static void refused(const char *name, const char *value, uint32_t dtype, const char *expected)
{
    struct zero_setting more = {name, value};
    struct zero_runtime *rt = NULL;
    int err = model_make("backward", &more, dtype, &rt);

    if (!err)
        err = zero_commit(rt);
    ok(err == -EINVAL && strstr(zero_last_error(), expected), "%s %s is refused: %s", name, value,
       zero_last_error());
    zero_destroy(rt);
}

static int use(struct zero_runtime *rt, const struct zero_use *x)
{
    int err = zero_acquire(rt, x->unit, x->pass, NULL);

    if (!err && x->pass == ZERO_BACKWARD) {
        float *g = zero_grad(rt, x->unit, NULL);
        for (int i = 0; i < 1000 && g; i++)
            g[i] = 0.5f;
    }
    return err ? err : zero_release(rt, x->unit, x->pass, NULL);
}

/* Between the last micro-batch's begin and the update nothing may tell of a half-updated model. */
static void in_between(void)
{
    struct zero_setting more = {"lr", "0.1"};
    struct zero_runtime *rt = NULL;
    struct zero_step_info info;
    int err = model_make("backward", &more, ZERO_F32, &rt);

    if (!err)
        err = zero_commit(rt);
    if (!err)
        err = zero_set_lr(rt, 0, 0.2f);
    is_int(err, 0, "a learning rate before the step");
    if (!err)
        err = zero_begin(rt, ZERO_TRAIN, 1);
    is_int(zero_set_lr(rt, 0, 0.3f), -EBUSY, "none within its last micro-batch");
    ok(strstr(zero_last_error(), "ZERO_UPDATE_AT"), "which names it: %s", zero_last_error());
    for (int i = 0; i < 4 && !err; i++)
        err = use(rt, &order[i]);
    is_int(err, 0, "all units are used");
    is_int(zero_begin(rt, ZERO_EVAL, 0), -EBUSY, "no evaluation before the update");
    ok(strstr(zero_last_error(), "zero_update()"), "which names the remedy: %s", zero_last_error());
    is_int(zero_update(rt, &info), 0, "the step ends");
    is_int(zero_set_lr(rt, 0, 0.3f), 0, "then a new learning rate is taken");
    /* A unit that is used once more behind its reduction, out of order. */
    err = zero_begin(rt, ZERO_TRAIN, 1);
    for (int i = 0; i < 4 && !err; i++)
        err = use(rt, &order[i]);
    is_int(err, 0, "another step");
    is_int(zero_acquire(rt, 1, ZERO_FORWARD, NULL), -EINVAL, "a use behind the last backward one");
    ok(strstr(zero_last_error(), "next step"), "would see new parameters: %s", zero_last_error());
    zero_destroy(rt);
}

/* What a unit without a use and the others have come to, with a use behind the declared order. */
static int with_a_late_use(const char *update_at, float values[UNITS])
{
    static const struct zero_use late = {FROZEN, ZERO_FORWARD};
    struct zero_setting more = {"lr", "0.1"};
    struct zero_runtime *rt = NULL;
    int err = model_make(update_at, &more, ZERO_F32, &rt);

    if (!err)
        err = zero_commit(rt);
    for (int step = 0; step < 3 && !err; step++) {
        err = zero_begin(rt, ZERO_TRAIN, 1);
        for (int i = 0; i < 4 && !err; i++)
            err = use(rt, &order[i]);
        if (!err && step == 1)
            err = use(rt, &late);
        if (!err)
            err = zero_update(rt, NULL);
    }
    for (uint32_t u = 0; u < UNITS && !err; u++)
        err = zero_param_read(rt, u, 5, 1, &values[u]);
    if (err)
        diag("%s: %s", update_at, zero_last_error());
    zero_destroy(rt);
    return err;
}

static void behind_the_order(void)
{
    static const struct zero_use late[] = {{UNUSED, ZERO_FORWARD}, {UNUSED, ZERO_BACKWARD}};
    float end[UNITS] = {0}, early[UNITS] = {0};
    struct zero_setting more = {"lr", "0.1"};

    int err = with_a_late_use("end", end) || with_a_late_use("backward", early);
    ok(!err && !memcmp(end, early, sizeof end) && end[UNUSED] < 1 && end[FROZEN] == 1,
       "a use behind the order: unused units are updated once (%g, %g)", (double)end[UNUSED],
       (double)early[UNUSED]);
    for (int i = 0; i < 2; i++) {
        struct zero_runtime *rt = NULL;
        err = model_make("backward", &more, ZERO_F32, &rt);
        if (!err)
            err = zero_commit(rt);
        if (!err)
            err = zero_begin(rt, ZERO_TRAIN, 1);
        for (int k = 0; k < 4 && !err; k++)
            err = use(rt, &order[k]);
        is_int(err, 0, "a step but for its end");
        is_int(zero_acquire(rt, late[i].unit, late[i].pass, NULL), -EINVAL,
               "an unused unit is not used behind it");
        ok(strstr(zero_last_error(), "unit unused"), "%s", zero_last_error());
        zero_destroy(rt);
    }
}

static void order_refused(void)
{
    static const struct zero_use late[] = {{0, ZERO_FORWARD},  {1, ZERO_FORWARD},
                                           {1, ZERO_BACKWARD}, {0, ZERO_BACKWARD},
                                           {1, ZERO_FORWARD}};
    struct zero_setting more = {"lr", "0.1"};
    struct zero_runtime *rt = NULL;
    int err = model_make("backward", &more, ZERO_F32, &rt);

    if (!err)
        err = zero_set_order(rt, ZERO_TRAIN, late, 5);
    if (!err)
        err = zero_commit(rt);
    ok(err == -EINVAL && strstr(zero_last_error(), "unit b"), "an order with such a use: %s",
       zero_last_error());
    zero_destroy(rt);
}

/* ---- A peer that still reads ----------------------------------------------------------------- */

enum { READERS = 2, MAPPED = 2048 }; /* elements: a page of each rank */

struct reader {
    int rank, err, changed;
    uint64_t mapped;
    char error[512];
};

/* Parameters lie in the peer's memory, too, and must not change while a use of them goes on. */
static int read_slowly(struct reader *r, struct zero_runtime *rt, uint32_t unit, uint32_t pass,
                       uint32_t us)
{
    float before[MAPPED];
    int err = zero_acquire(rt, unit, pass, NULL);

    if (err)
        return err;
    const float *w = zero_param(rt, unit);
    float *g = pass == ZERO_BACKWARD ? zero_grad(rt, unit, NULL) : NULL;
    for (int i = 0; i < MAPPED && g; i++)
        g[i] = 0.5f;
    memcpy(before, w, sizeof before);
    if (us)
        usleep(us);
    r->changed += memcmp(before, w, sizeof before) != 0;
    return zero_release(rt, unit, pass, NULL);
}

/* The last micro-batch has forward uses alone, and rank 1 is late in the first one. */
static int half_a_micro_batch(struct reader *r, struct zero_runtime *rt)
{
    struct zero_memory_report report = {.size = sizeof report};
    int err = zero_begin(rt, ZERO_TRAIN, 0);

    for (uint32_t i = 0; i < 4 && !err; i++)
        err = read_slowly(r, rt, order[i].unit, order[i].pass, 0);
    if (!err)
        err = zero_begin(rt, ZERO_TRAIN, 1);
    for (uint32_t i = 0; i < 2 && !err; i++)
        err = read_slowly(r, rt, order[i].unit, ZERO_FORWARD, r->rank == 1 && !i ? 300000 : 0);
    if (!err)
        err = zero_update(rt, NULL);
    if (!err)
        err = zero_memory_report(rt, &report);
    r->mapped = report.mapped;
    return err;
}

static void *reader_main(void *arg)
{
    struct reader *r = arg;
    const struct zero_setting s[] = {{"stage", "3"}, {"comm", "shm"}, {"map", "1"},
                                     {"accum", "2"}, {"timeout", "20"}, {"lr", "0.1"},
                                     {"offload", "optimizer:cpu"}, {"update_at", "backward"}};
    struct zero_config cfg = ZERO_CONFIG_INIT;
    struct zero_runtime *rt = NULL;
    char job[64];
    uint32_t id;

    snprintf(job, sizeof job, "early-reads-%d", (int)getpid());
    cfg.settings = s;
    cfg.n_settings = 8;
    cfg.rank = r->rank, cfg.ranks = READERS, cfg.local_ranks = READERS;
    cfg.job = job;
    r->err = zero_create(&cfg, &rt);
    for (uint32_t u = 0; u < 2 && !r->err; u++) {
        struct zero_param_desc p = {.size = sizeof p, .name = u ? "b.w" : "a.w",
                                    .dtype = ZERO_F32, .n_dims = 1, .dims = {MAPPED},
                                    .init = {.kind = ZERO_INIT_CONSTANT, .a = 1}};
        r->err = zero_unit_add(rt, u ? "b" : "a", &id);
        if (!r->err)
            r->err = zero_param_add(rt, u, &p, &id);
    }
    if (!r->err)
        r->err = zero_commit(rt);
    if (!r->err)
        r->err = half_a_micro_batch(r, rt);
    snprintf(r->error, sizeof r->error, "%s", r->err ? zero_last_error() : "trained");
    zero_destroy(rt);
    return NULL;
}

static void nobody_reads(void)
{
    struct reader r[READERS] = {{.rank = 0}, {.rank = 1}};

    in_threads(reader_main, r, READERS);
    ok(!r[0].err && !r[1].err && r[0].mapped && r[1].mapped,
       "a micro-batch that adds to no gradient: %s; %s", r[0].error, r[1].error);
    is_int(r[0].changed + r[1].changed, 0, "what a rank still reads in place is not updated");
}

int main(void)
{
    static const struct what whats[] = {
        {"0", ZERO_F32, 0, 2, "1", "adamw", "0", "fp32", "auto"},
        {"1", ZERO_BF16, TOY_RECOMPUTE, 3, "1", "adamw", "0", "fp32", "auto"},
        {"2", ZERO_BF16, TOY_TIED | TOY_EVAL, 2, "3", "adam", "0", "fp32", "auto"},
        {"3", ZERO_BF16, TOY_ACTIVATIONS, 1, "1", "adamw", "0", "bf16", "auto"},
        {"3", ZERO_BF16, TOY_ACTIVATIONS | TOY_REORDER, 2, "1", "adamw", "0", "fp32", "auto"},
        {"3", ZERO_BF16, TOY_UNUSED | TOY_STREAM, 3, "1", "adamw", "0", "fp32", "auto"},
        {"3", ZERO_BF16, TOY_FROZEN | TOY_PERSISTENT, 3, "1", "adamw", "0", "fp32", "auto"},
        {"3", ZERO_F32, TOY_REORDER | TOY_STREAM, 2, "3", "sgd", "0.9", "fp32", "auto"},
        {"2", ZERO_BF16, TOY_REORDER | TOY_ANNOUNCE, 2, "1", "adamw", "0", "fp32", "auto"},
        {"3", ZERO_F16, TOY_SKIP, 2, "1", "adamw", "0", "fp32", "auto"},
        {"0", ZERO_BF16, TOY_UNUSED | TOY_SKIP, 2, "1", "adamw", "0", "fp32", "auto"},
        {"3", ZERO_BF16, TOY_UNUSED | TOY_EARLY, 2, "3", "adamw", "0", "fp32", "micro"},
        {"1", ZERO_BF16, TOY_UNUSED | TOY_EARLY, 3, "3", "adamw", "0", "fp32", "boundary"},
        {"2", ZERO_BF16, TOY_BETWEEN, 2, "3", "adamw", "0", "fp32", "micro"},
    };

    setenv("ZERO_TEST_TILES", "3", 1); /* so that their places are used again */
    folder_make("early", path);
    for (unsigned i = 0; i < sizeof whats / sizeof *whats; i++)
        agree(&whats[i], i);
    refused("clip", "1", ZERO_BF16, "ZERO_CLIP");
    refused("loss_scale", "dynamic", ZERO_F16, "ZERO_LOSS_SCALE");
    refused("optimizer", "callback", ZERO_F32, "callback");
    in_between();
    behind_the_order();
    order_refused();
    nobody_reads();
    no_room();
    gone_wrong();
    foretold();
    rmdir(path);
    done();
}
