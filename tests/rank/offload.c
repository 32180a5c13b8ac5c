/* SPDX-License-Identifier: Apache-2.0 */
/*
 * States in memory of the host, on a disk, or divided among them and the device: the same bits as
 * on the device alone, in every stage, with whatever else a model asks for; and what is reserved
 * where. The plugin `fault` does parts of requests only, late, and has no room at times.
 */
#include "../tap.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/runtime.h"
#include "folder.h"
#include "toy.h"

#define TILES 3 /* under way at once: there are more, so their places are used again */

static char path[4096];

struct what {
    const char *stage;
    uint32_t dtype, flags;
    int ranks;
    const char *accum, *optimizer, *momentum, *states, *reduce_at;
};

static uint64_t copied;  /* by the device of rank 0 */
static uint64_t copying; /* of a step, as its program has it */

static uint64_t copies_of(const struct zero__body *b)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < b->n_ops; i++)
        if (b->ops[i].kind == ZERO__COPY)
            for (uint32_t a = 0; a < b->ops[i].n_accesses; a += 2)
                bytes += b->accesses[b->ops[i].first_access + a].bytes;
    return bytes;
}

static void copies_note(struct zero_runtime *rt, int rank, void *arg)
{
    struct zero_device_info info = {.size = sizeof info};

    (void)arg;
    if (rank || rt->site.dev_ops.info(rt->site.dev, &info))
        return;
    copied = info.copied;
    copying = copies_of(&rt->site.programs[0]->bodies[ZERO__LAST]) +
              copies_of(&rt->site.programs[0]->bodies[ZERO__UPDATE_BODY]);
}

static int run(const struct what *w, const char *offload, const char *engine, struct toy_result *r)
{
    struct zero_setting s[] = {{"stage", w->stage},
                               {"accum", w->accum},
                               {"clip", "0.5"},
                               {"lr", "0.01"},
                               {"timeout", "20"},
                               {"optimizer", w->optimizer},
                               {"momentum", w->momentum},
                               {"state_dtype", w->states},
                               {"reduce_at", w->reduce_at ? w->reduce_at : "auto"},
                               {"offload", offload},
                               {"nvme_path", path},
                               {"nvme_engine", engine},
                               {"tile_bytes", "64K"},
                               {"fault_io", "cut=20000:times=0,delay=1:op=write:n=3:times=40,"
                                            "delay=2:op=read:n=5:times=20,busy:n=2:times=30"}};
    bool faults = strstr(offload, "fault"); /* else its options are not known */
    bool disk = faults || strstr(offload, "nvme");
    struct toy t = {.ranks = w->ranks,
                    .layers = 4,
                    .steps = 5,
                    .dtype = w->dtype,
                    .flags = w->flags,
                    .width = 40000, /* some tiles of 16384 elements, and a rest */
                    .settings = s,
                    .n_settings = faults ? 14
                                  : disk ? 13
                                         : 10,
                    .seed = 7,
                    .finished = copies_note};

    if (!disk)
        s[9] = (struct zero_setting){"offload", offload};
    return toy_train(&t, r);
}

static void agree(const struct what *w, unsigned number)
{
    const unsigned by = is_whole() ? 1 : is_short() ? 7 : 3; /* some of the tiers with each model */
    static const char *const tiers[][2] = {
        {"optimizer:cpu", "auto"},
        {"optimizer:nvme", "auto"},
        {"optimizer:nvme", "threads"},
        {"optimizer:device:0.3+cpu:0.3+nvme:0.4", "auto"},
        {"optimizer:fault", "threads"},
        {"parameters:cpu", "auto"},
        {"parameters:nvme", "auto"},
        {"optimizer:nvme,parameters:nvme", "auto"},
        {"optimizer:cpu,parameters:fault", "threads"},
        {"parameters:device:0.3+cpu:0.3+nvme:0.4,"
         "optimizer:device:0.6+nvme:0.4",
         "auto"},
        {"gradients:cpu", "auto"},
        {"gradients:nvme,optimizer:nvme,parameters:nvme", "auto"},
        {"gradients:fault,optimizer:cpu", "threads"},
        {"gradients:device:0.3+cpu:0.3+nvme:0.4,"
         "optimizer:device:0.5+nvme:0.5",
         "auto"}};
    struct toy_result here, there;
    int good = !run(w, "", "auto", &here);

    if (!good)
        diag("on the device: %s", here.error);
    for (unsigned i = 0; i < sizeof tiers / sizeof *tiers && good; i++) {
        if ((i + number) % by)
            continue;
        good = !run(w, tiers[i][0], tiers[i][1], &there) && there.agree && there.hash == here.hash;
        if (!good)
            diag("%s (%s): %s, hash %016" PRIx64 ", on the device %016" PRIx64, tiers[i][0],
                 tiers[i][1], there.err ? there.error : "it trains", there.hash, here.hash);
    }
    ok(good, "stage %s, %s, %s, %d rank%s, %s micro-batch%s%s: the same bits in every tier",
       w->stage, w->optimizer, zero_dtype_name(w->dtype), w->ranks, w->ranks > 1 ? "s" : "",
       w->accum, strcmp(w->accum, "1") ? "es" : "", w->flags ? ", odd model" : "");
}

/* Of masters of bf16 parameters the lower halves alone; segments are whole pages. */
static bool is_moved(uint64_t from, uint64_t to, bool halves)
{
    return halves ? 2 * to >= from && 2 * to <= from + 8 * 2 * 4096 : to == from;
}

/* States have left the device, and what stays in the host's memory for a disk does not grow. */
static void reserved(void)
{
    static const struct what w = {"2", ZERO_BF16, 0, 2, "1", "adamw", "0", "fp32", NULL};
    struct toy_result here, cpu, disk, both;
    uint64_t copied_here, copied_cpu;
    int err = run(&w, "", "auto", &here);

    copied_here = copied;
    err = err || run(&w, "optimizer:cpu", "auto", &cpu);
    copied_cpu = copied;
    err = err || run(&w, "optimizer:nvme", "auto", &disk);
    err = err || run(&w, "optimizer:cpu,parameters:cpu", "auto", &both);
    static const char *const classes[] = {"master", "momentum", "variance"};

    is_int(err, 0, "the toy trains in each tier");
    for (unsigned i = 0; i < 3; i++) {
        uint64_t bytes = toy_planned(&here, "device", classes[i]);
        ok(bytes && !toy_planned(&cpu, "device", classes[i]) &&
               !toy_planned(&disk, "device", classes[i]) &&
               is_moved(bytes, toy_planned(&cpu, "cpu", classes[i]), i == 0) &&
               is_moved(bytes, toy_planned(&disk, "nvme", classes[i]), i == 0),
           "%s: %" PRIu64 " bytes leave the device", classes[i], bytes);
    }
    /* This device's memory is the host's: what it updates lies where it is. Parameters of another
     * tier come to it in each of five steps. */
    ok(copied_here == 0 && copied_cpu == 0 && copying && copied == 5 * copying,
       "the device has copied %" PRIu64 " bytes of a tier beside it in five steps (%" PRIu64
       " in each one's program), %" PRIu64 " to update states there, and %" PRIu64 " for none",
       copied, copying, copied_cpu, copied_here);
    /* Tiles of 64 KiB for each of three states. */
    ok(toy_planned(&disk, "cpu", NULL) <= TILES * 3 * 65536 + (300 << 10),
       "a disk needs %" PRIu64 " bytes of the host's memory", toy_planned(&disk, "cpu", NULL));
    ok(here.memory.reserved - toy_planned(&here, "device", "master") -
               toy_planned(&here, "device", "momentum") -
               toy_planned(&here, "device", "variance") <=
           toy_planned(&disk, "device", NULL) + 4096,
       "nothing else has changed on the device");
}

/* Memory that the disk takes for itself is shown, and counts where the host's is limited. */
static void checksums(void)
{
    struct zero_setting s[] = {{"stage", "2"},
                               {"timeout", "20"},
                               {"offload", "optimizer:nvme"},
                               {"nvme_path", path},
                               {"tile_bytes", "64K"},
                               {"memory_limit", ""},
                               {"nvme_checksum", "1"}};
    struct toy t = {.ranks = 2, .layers = 4, .steps = 1, .dtype = ZERO_BF16, .width = 200000,
                    .settings = s, .n_settings = 7, .seed = 7};
    char limit[64];
    struct toy_result r;

    int err = toy_train(&t, &r);
    uint64_t disk = toy_planned(&r, "nvme", NULL), sums = toy_planned(&r, "cpu", "checksums");
    uint64_t host = 0;
    for (uint32_t i = 0; i < r.memory.n_rows; i++)
        host += strcmp(r.memory.rows[i].tier, "cpu") ? 0 : r.memory.rows[i].reserved;
    ok(!err && disk && sums >= disk / 4096 * 4 && sums < disk / 4096 * 4 + 1025,
       "%" PRIu64 " bytes on a disk: %" PRIu64 " of checksums in memory are shown", disk, sums);
    ok(r.memory.planned <= r.memory.reserved + 65536 && r.memory.planned > host,
       "and are in the sums: %" PRIu64 " bytes planned, %" PRIu64 " reserved", r.memory.planned,
       r.memory.reserved);

    s[5].value = limit;
    snprintf(limit, sizeof limit, "cpu:%" PRIu64, host);
    ok(!toy_train(&t, &r), "it fits a limit with them: %s", limit);
    snprintf(limit, sizeof limit, "cpu:%" PRIu64, host - 1);
    err = toy_train(&t, &r);
    ok(err == -ENOMEM && strstr(r.error, "ZERO_MEMORY_LIMIT (cpu)") &&
           strstr(r.error, "\n  checksums "),
       "one byte less is refused: %s", r.error);
    s[6].value = "0";
    ok(!toy_train(&t, &r) && !toy_planned(&r, "cpu", "checksums"),
       "and is enough without checksums: %s", r.err ? r.error : "it trains");
}

/* What is not trained has a place, too; here it is the last segment. */
static void frozen(void)
{
    static const char *const stages[] = {"0", "3"};

    for (unsigned i = 0; i < 4; i++) {
        struct zero_setting s[] = {{"stage", stages[i / 2]},
                                   {"persistent_bytes", "0"},
                                   {"timeout", "20"},
                                   {"offload", i % 2 ? "parameters:nvme" : "parameters:cpu"},
                                   {"nvme_path", path}};
        struct toy t = {.ranks = 2, .layers = 5, .steps = 2, .dtype = ZERO_BF16,
                        .flags = TOY_FROZEN, .width = 40000, .settings = s,
                        .n_settings = i % 2 ? 5 : 4, .seed = 7};
        struct toy_result r;
        int err = toy_train(&t, &r);
        ok(!err && toy_planned(&r, i % 2 ? "nvme" : "cpu", "parameters") > 0 &&
               toy_planned(&r, "device", "parameters") == 0,
           "%s, stage %s: frozen parameters leave the device, too: %" PRIu64 " bytes stay: %s",
           s[3].value, stages[i / 2], toy_planned(&r, "device", "parameters"), err ? r.error : "");
    }
}

int main(void)
{
    static const struct what whats[] = {
        {"0", ZERO_F32, 0, 2, "1", "adamw", "0", "fp32", NULL},
        {"1", ZERO_BF16, 0, 3, "1", "adamw", "0", "fp32", NULL},
        {"2", ZERO_BF16, TOY_TIED | TOY_EVAL, 2, "3", "adam", "0", "fp32", NULL},
        {"3", ZERO_BF16, 0, 1, "1", "adamw", "0", "fp32", NULL},
        {"3", ZERO_BF16, TOY_FROZEN | TOY_PERSISTENT | TOY_RECOMPUTE, 3, "1", "adamw", "0", "fp32",
         NULL},
        {"3", ZERO_F32, TOY_REORDER | TOY_STREAM, 2, "3", "sgd", "0.9", "fp32", NULL},
        {"3", ZERO_F16, TOY_NAN, 2, "1", "adamw", "0", "fp32", NULL},
        {"2", ZERO_BF16, TOY_NAN, 2, "1", "adamw", "0", "bf16", NULL},
        {"3", ZERO_F32, 0, 3, "3", "sgd", "0.9", "bf16", NULL},
        {"0", ZERO_BF16, TOY_UNUSED | TOY_SKIP, 2, "1", "sgd", "0", "fp32", NULL},
        {"0", ZERO_BF16, TOY_UNUSED | TOY_EARLY, 2, "3", "adamw", "0", "fp32", "micro"},
        {"1", ZERO_BF16, TOY_FROZEN | TOY_EARLY, 3, "3", "adamw", "0", "fp32", "boundary"},
        {"3", ZERO_BF16, TOY_TIED | TOY_EARLY, 2, "3", "sgd", "0.9", "fp32", "boundary"},
        {"2", ZERO_BF16, TOY_BETWEEN, 2, "3", "adamw", "0", "fp32", "boundary"},
        {"3", ZERO_F32, TOY_BETWEEN | TOY_REORDER, 2, "3", "adamw", "0", "fp32", "micro"},
    };

    char tiles[8];
    snprintf(tiles, sizeof tiles, "%d", TILES);
    setenv("ZERO_TEST_TILES", tiles, 1);
    folder_make("offload", path);
    for (unsigned i = 0; i < sizeof whats / sizeof *whats; i++)
        agree(&whats[i], i);
    reserved();
    checksums();
    frozen();
    folder_end(path);
    done();
}
