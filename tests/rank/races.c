/* SPDX-License-Identifier: Apache-2.0 */
/*
 * (Compiled a second time with STREAMS: the transport's collectives are ordered in streams then.)
 *
 * Every wait of a step is there, and every one is needed. Under the race detector of the host
 * device, with random delays, the toy model trains without a report and to the same bits as
 * without; then each wait of the program is left out in turn, and the detector must say so on some
 * rank, whatever the timing happened to be. (Not under the thread sanitizer, which would report the
 * races that are made on purpose.)
 */
#include "../tap.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "device/host.h"
#include "engine/runtime.h"
#include "folder.h"
#include "toy.h"

#if defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define THREAD_SANITIZER 1
#endif
#endif
#ifndef THREAD_SANITIZER
#define THREAD_SANITIZER 0
#endif

#ifdef STREAMS
#define STREAMED 1
#else
#define STREAMED 0
#endif
#define RANKS 2
#define MOST_WAITS 4000u

static char path[4096];
#define SEED 12
#define BACKWARD (1u << 31) /* beside the flags of the toy: updates beside the backward pass, */
#define BY_HOST (1u << 30)  /* by the host, as if the device had memory of its own */

struct config {
    const char *stage, *accum, *reduce_at;
    const char *prefetch, *bucket; /* NULL: 128M, 64M */
    uint32_t flags;
    const char *whole; /* bytes of parameters that are never sharded; NULL: 0 */
    uint64_t width; /* 0: 700, whose shards are no whole pages */
    const char *offload; /* NULL: all on the device */
    int layers, steps;
    int shorter; /* steps of fewer micro-batches, the second one of a single one */
};

struct found {
    int races[RANKS];
    char text[RANKS][2000];
    uint32_t n_waits, n_needed, n_behind; /* of those needed: for ops of the update before */
    uint8_t needed[MOST_WAITS + 1]; /* by number of the wait: a run of the toy depends on it */
    int again; /* one of them is for the place of a tile before */
    int evaluates;
};

/*
 * An update that waits for the norm for the sake of peers who read: no race of this rank's own. Nor
 * is there one where a stream orders the ops of a queue.
 */
static int is_spare(const struct zero__body *b, uint32_t w)
{
    for (uint32_t i = 0; i < b->n_ops; i++) {
        const struct zero__op *op = &b->ops[i];
        uint32_t queue = b->waits[w].queue;
        if (w - op->first_wait >= op->n_waits)
            continue;
        return (op->kind == ZERO__UPDATE && queue == ZERO__Q_REDUCE) ||
               (STREAMED && op->queue == queue &&
                (queue == ZERO__Q_GATHER || queue == ZERO__Q_REDUCE));
    }
    return 0;
}

/* What is fetched takes the place of what is written; but for sums, it was on the disk before. */
static int is_for_place(const struct zero__body *b, uint32_t w)
{
    for (uint32_t i = 0; i < b->n_ops; i++) {
        const struct zero__op *op = &b->ops[i];
        if (w - op->first_wait < op->n_waits)
            return op->kind == ZERO__FETCH && op->flags & ZERO__OP_TILE && !b->waits[w].behind &&
                   b->waits[w].queue == ZERO__Q_WRITEBACK;
    }
    return 0;
}

/* Where there are evaluations, one follows each update, and no micro-batch does. */
static void waits_find(const struct zero_runtime *rt, struct found *f)
{
    for (uint32_t i = 0; i < ZERO__N_BODIES; i++) {
        const struct zero__body *b = &rt->site.programs[0]->bodies[i];
        for (uint32_t w = 0; w < b->n_waits && f->n_waits < MOST_WAITS; w++) {
            int needed =
                i == ZERO__EVALUATION ? f->evaluates : !(b->waits[w].behind && f->evaluates);
            needed = needed && !is_spare(b, w);
            f->needed[++f->n_waits] = (uint8_t)needed;
            f->n_needed += (uint32_t)needed;
            f->n_behind += needed && b->waits[w].behind;
            f->again |= needed && is_for_place(b, w);
        }
    }
}

static void finished(struct zero_runtime *rt, int rank, void *arg)
{
    struct found *f = arg;

    if (getenv("ZERO_TEST_RACES"))
        f->races[rank] = zero__host_races(rt->site.dev, f->text[rank], sizeof f->text[rank]);
    if (rank == 0)
        waits_find(rt, f);
}

/* What a table leaves out. */
static void complete(struct config *c, int layers, int steps)
{
    c->prefetch = c->prefetch ? c->prefetch : "128M";
    c->bucket = c->bucket ? c->bucket : "64M";
    c->whole = c->whole ? c->whole : "0";
    c->layers = layers;
    c->steps = steps;
}

static int run(const struct config *c, struct found *f, struct toy_result *r)
{
    static const int micros[] = {3, 1, 2, 1};
    struct zero_setting s[] = {{"stage", c->stage},
                               {"accum", c->accum},
                               {"reduce_at", c->reduce_at},
                               {"prefetch_bytes", c->prefetch},
                               {"bucket_bytes", c->bucket},
                               {"persistent_bytes", c->whole},
                               {"persistent_cap_bytes", c->whole},
                               {"timeout", "20"},
                               {"threads", "1"},
                               {"update_at", c->flags & BACKWARD ? "backward" : "end"},
                               {"offload", c->offload},
                               {"tile_bytes", "64K"},
                               {"nvme_path", path},
                               {"nvme_engine", "threads"},
                               {"nvme_checksum", "0"}}; /* would see what is made to go wrong */
    struct toy t = {.ranks = RANKS, .layers = c->layers, .steps = c->steps, .dtype = ZERO_BF16,
                    .flags = c->flags & ~(BACKWARD | BY_HOST), .width = c->width ? c->width : 700,
                    .settings = s,
                    .n_settings = !c->offload                   ? 10
                                  : strstr(c->offload, "nvme") ? 15
                                                                : 12,
                    .seed = 4,
                    .micros = c->shorter ? micros : NULL,
                    .n_micros = 4,
                    .finished = finished, .arg = f};

    if (c->flags & BY_HOST)
        setenv("ZERO_TEST_HOST_UPDATES", "1", 1);
    else
        unsetenv("ZERO_TEST_HOST_UPDATES");
    memset(f, 0, sizeof *f);
    f->evaluates = (c->flags & TOY_EVAL) != 0;
    return toy_train(&t, r);
}

static const char *describe(const struct config *c)
{
    static char text[200];

    snprintf(text, sizeof text,
             "stage %s, %s%s micro-batches, reduce at %s, prefetch %s, whole "
             "%s%s%s%s%s%s%s%s%s%s%s",
             c->stage, c->shorter ? "1 to " : "", c->accum, c->reduce_at, c->prefetch, c->whole,
             c->width ? ", mapped" : "",
             c->flags & TOY_TIED ? ", tied" : "", c->flags & TOY_PERSISTENT ? ", persistent" : "",
             c->flags & TOY_EVAL ? ", evaluations" : "", c->flags & TOY_STREAM ? ", stream" : "",
             c->flags & (TOY_REORDER | TOY_SKIP) ? ", order changes" : "", c->offload ? ", " : "",
             c->offload ? c->offload : "", c->flags & BACKWARD ? ", early" : "",
             c->flags & BY_HOST ? ", by the host" : "");
    return text;
}

static void none(struct config c)
{
    struct toy_result plain, delayed;
    struct found f;
    char value[32];

    complete(&c, 5, 4);
    unsetenv("ZERO_TEST_RACES");
    run(&c, &f, &plain);
    snprintf(value, sizeof value, "%d:200", SEED);
    setenv("ZERO_TEST_RACES", value, 1);
    run(&c, &f, &delayed);
    unsetenv("ZERO_TEST_RACES");
    ok(!plain.err && !delayed.err && delayed.agree && plain.hash == delayed.hash &&
           !f.races[0] && !f.races[1],
       "%s: no race, the same bits", describe(&c));
    if (plain.err || delayed.err)
        diag("%s", plain.err ? plain.error : delayed.error);
    if (plain.hash != delayed.hash)
        diag("seed %d: hash %016" PRIx64 ", without delays %016" PRIx64, SEED, delayed.hash,
             plain.hash);
    for (int i = 0; i < RANKS; i++)
        if (f.races[i])
            diag("rank %d: %d races: %.400s", i, f.races[i], f.text[i]);
}

/* Places of tiles are used again: states are read from a disk, which nothing else writes to. */
static int uses_again(const struct config *c)
{
    return c->offload && strstr(c->offload, "optimizer") && strstr(c->offload, "nvme") &&
           !strstr(c->offload, "gradients") && !strstr(c->offload, "parameters") &&
           !strstr(c->offload, "activations");
}

/* Of those needed. */
static void each(struct config c)
{
    struct found program, f;
    struct toy_result r;
    uint32_t missed = 0;
    char value[32];

    complete(&c, c.flags & TOY_ACTIVATIONS ? 5 : 3, 2);
    setenv("ZERO_TEST_RACES", "1:0", 1); /* found without delays, too */
    run(&c, &program, &r);
    for (uint32_t k = 1; k <= program.n_waits; k++) {
        if (!program.needed[k])
            continue;
        snprintf(value, sizeof value, "%u", k);
        setenv("ZERO_TEST_SKIP_WAIT", value, 1);
        run(&c, &f, &r);
        if (!r.err && (f.races[0] > 0 || f.races[1] > 0))
            continue;
        missed++;
        diag("wait %u of %u left out: %s", k, program.n_waits, r.err ? r.error : "no report");
    }
    unsetenv("ZERO_TEST_SKIP_WAIT");
    unsetenv("ZERO_TEST_RACES");
    if (uses_again(&c) && !program.again)
        diag("no tile takes the place of one that is written");
    ok(!missed && program.n_needed && program.n_waits < MOST_WAITS &&
           (program.again || !uses_again(&c)),
       "%s: %u waits, %u of them for the update before: each is needed", describe(&c),
       program.n_needed, program.n_behind);
}

static void streams_choose(void)
{
    const char *build = getenv("ZERO_TEST_BUILD");
    char file[4096];

    snprintf(file, sizeof file, "%s/tests/plugin/.libs/zero-comm-streamed.so", build ? build : ".");
    setenv("ZERO_COMM", file, 1);
    snprintf(file, sizeof file, "%s/.libs/zero-comm-shm.so", build ? build : ".");
    setenv("ZERO_STREAMED_PLUGIN", file, 1);
}

static const struct config configs[] = {
    {"0", "1", .reduce_at = "auto"},
    {"0", "3", .reduce_at = "boundary", .bucket = "4K", .flags = TOY_EVAL},
    {"0", "3", .reduce_at = "micro"},
    {"1", "1", .reduce_at = "auto"},
    {"1", "3", .reduce_at = "boundary", .flags = TOY_TIED},
    {"1", "1", .reduce_at = "auto", .flags = TOY_EVAL},
    {"2", "1", .reduce_at = "auto", .bucket = "4K"},
    {"2", "3", .reduce_at = "micro"},
    {"3", "1", .reduce_at = "auto"},
    {"3", "1", .reduce_at = "auto", .prefetch = "8K", .bucket = "4K", .flags = TOY_EVAL},
    {"3", "1", .reduce_at = "auto", .prefetch = "0", .flags = TOY_TIED},
    {"3", "3", .reduce_at = "micro", .flags = TOY_PERSISTENT},
    {"3", "1", .reduce_at = "auto", .prefetch = "8K",
     .flags = TOY_PERSISTENT | TOY_TIED | TOY_STREAM},
    {"3", "3", .reduce_at = "boundary", .prefetch = "8K", .bucket = "4K"},
    {"3", "1", .reduce_at = "auto", .whole = "3K"}, /* the first unit */
    {"3", "3", .reduce_at = "micro", .flags = TOY_EVAL, .whole = "1M"}, /* all */
    {"3", "1", .reduce_at = "auto", .flags = TOY_EVAL, .width = 4096},
    {"3", "3", .reduce_at = "micro", .bucket = "4K", .flags = TOY_TIED | TOY_PERSISTENT,
     .width = 4096},
    {"0", "3", .reduce_at = "micro", .bucket = "4K", .flags = TOY_STREAM | TOY_TIED},
    {"2", "1", .reduce_at = "auto", .flags = TOY_STREAM},
    {"3", "3", .reduce_at = "micro", .prefetch = "8K", .flags = TOY_STREAM | TOY_PERSISTENT},
    {"3", "1", .reduce_at = "auto", .flags = TOY_STREAM | TOY_EVAL, .width = 40000,
     .offload = "optimizer:cpu,parameters:cpu"},
    {"2", "1", .reduce_at = "auto", .flags = TOY_STREAM | BACKWARD, .width = 40000,
     .offload = "optimizer:cpu"},
    {"2", "1", .reduce_at = "auto", .width = 40000, .offload = "optimizer:cpu"},
    {"3", "1", .reduce_at = "auto", .flags = TOY_EVAL, .width = 40000, .offload = "optimizer:nvme"},
    {"1", "3", .reduce_at = "micro", .flags = TOY_TIED, .width = 40000,
     .offload = "optimizer:device:0.3+cpu:0.3+nvme:0.4"},
    {"3", "1", .reduce_at = "auto", .flags = TOY_ACTIVATIONS, .offload = "activations:cpu"},
    {"1", "3", .reduce_at = "boundary", .prefetch = "4K", .flags = TOY_ACTIVATIONS | TOY_STREAM,
     .offload = "activations:nvme"},
    {"2", "1", .reduce_at = "auto", .flags = TOY_ACTIVATIONS, .width = 40000,
     .offload = "optimizer:nvme,activations:cpu:0.4+nvme:0.6"},
    {"3", "1", .reduce_at = "auto", .flags = TOY_EVAL, .width = 40000, .offload = "parameters:cpu"},
    {"2", "1", .reduce_at = "auto", .width = 40000, .offload = "parameters:nvme"},
    {"3", "3", .reduce_at = "micro", .prefetch = "100K", .flags = TOY_TIED | TOY_PERSISTENT,
     .width = 40000, .offload = "parameters:nvme,optimizer:nvme"},
    {"1", "1", .reduce_at = "auto", .prefetch = "100K", .flags = TOY_EVAL, .width = 20000,
     .offload = "optimizer:cpu,parameters:device:0.3+cpu:0.3+nvme:0.4"},
    {"2", "1", .reduce_at = "auto", .bucket = "4K", .flags = BACKWARD, .width = 40000,
     .offload = "optimizer:cpu"},
    {"3", "1", .reduce_at = "auto", .flags = TOY_EVAL | BACKWARD, .width = 40960,
     .offload = "optimizer:device:0.4+nvme:0.6"}, /* mapped */
    {"1", "3", .reduce_at = "micro", .flags = TOY_TIED | BACKWARD, .width = 40000,
     .offload = "optimizer:cpu,gradients:nvme"},
    {"2", "1", .reduce_at = "auto", .flags = TOY_EVAL | BY_HOST, .width = 90000,
     .offload = "optimizer:cpu"},
    {"3", "3", .reduce_at = "micro", .flags = TOY_TIED | BY_HOST, .width = 40000,
     .offload = "optimizer:device:0.3+cpu:0.3+nvme:0.4"},
    {"3", "1", .reduce_at = "auto", .bucket = "4K", .flags = BACKWARD | BY_HOST, .width = 90000,
     .offload = "optimizer:cpu"},
    {"1", "3", .reduce_at = "micro", .flags = BACKWARD | BY_HOST, .width = 40000,
     .offload = "optimizer:nvme,gradients:cpu,parameters:cpu"},
};

static const struct config odd[] = {
    {"1", "1", .reduce_at = "auto", .flags = TOY_REORDER},
    {"2", "3", .reduce_at = "micro", .bucket = "4K",
     .flags = TOY_REORDER | TOY_ANNOUNCE | TOY_EVAL},
    {"3", "1", .reduce_at = "auto", .prefetch = "8K", .flags = TOY_SKIP},
    {"3", "1", .reduce_at = "auto", .flags = TOY_RECOMPUTE | TOY_FROZEN | TOY_UNUSED},
    {"3", "1", .reduce_at = "auto", .flags = TOY_REORDER | TOY_EVAL, .width = 4096},
    {"3", "3", .reduce_at = "boundary", .flags = TOY_SKIP | TOY_FROZEN, .width = 4096},
    {"2", "1", .reduce_at = "auto", .flags = TOY_ACTIVATIONS | TOY_REORDER,
     .offload = "activations:cpu"},
    {"3", "1", .reduce_at = "auto", .flags = TOY_UNUSED | TOY_STREAM | BACKWARD, .width = 40960,
     .offload = "optimizer:cpu"},
    {"2", "1", .reduce_at = "auto", .flags = TOY_REORDER | TOY_UNUSED | BACKWARD, .width = 40000,
     .offload = "optimizer:cpu"},
    {"2", "1", .reduce_at = "auto", .flags = TOY_REORDER | TOY_UNUSED | BACKWARD | BY_HOST,
     .width = 40000, .offload = "optimizer:cpu"},
    /* What goes on behind an update meets the list of a last micro-batch. */
    {"2", "3", .reduce_at = "micro", .shorter = 1},
    {"0", "3", .reduce_at = "boundary", .flags = TOY_STREAM | TOY_BETWEEN, .shorter = 1},
    {"3", "3", .reduce_at = "micro", .width = 4096, .shorter = 1}, /* mapped */
    {"1", "3", .reduce_at = "boundary", .width = 40000, .shorter = 1,
     .offload = "optimizer:nvme,gradients:cpu,parameters:nvme"},
    {"2", "3", .reduce_at = "micro", .flags = BACKWARD, .width = 40000, .shorter = 1,
     .offload = "optimizer:nvme,gradients:cpu"},
    {"3", "3", .reduce_at = "micro", .flags = TOY_REORDER | BACKWARD, .width = 40960, .shorter = 1,
     .offload = "optimizer:cpu"},
};

int main(void)
{
    setenv("ZERO_TEST_TILES", "2", 1); /* so that a small model uses their places again */
    if (STREAMED)
        streams_choose();
    const bool brief = is_short(); /* half of the models, and no wait is left out */

    folder_make("races", path);
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++)
        if (!brief || i % 2)
            none(configs[i]);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        none(odd[i]);
    for (size_t i = 0; i < sizeof configs / sizeof *configs && !THREAD_SANITIZER && !brief; i++)
        each(configs[i]);
    rmdir(path);
    done();
}
