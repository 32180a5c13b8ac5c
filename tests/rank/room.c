/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where everything fits on the disk, with what that needs of the device and of the host's memory,
 * ZERO_OFFLOAD=auto finds a placement, too, whatever the limits: none is passed, and the bits are
 * the same.
 */
#include "../tap.h"

#include <stdlib.h>
#include <unistd.h>

#include "folder.h"
#include "toy.h"

#define SHAPES 16
#define LIMITS 5

static char path[4096];
static const char on_disk[] = "parameters:nvme,gradients:nvme,optimizer:nvme,activations:nvme";

/* What a job is, but for its placement and its limits. */
struct shape {
    const char *stage, *accum, *tile, *bucket, *prefetch, *checksum;
    int ranks, layers;
    uint32_t dtype, flags;
    uint64_t width, table;
};

struct random {
    uint64_t x;
};

static uint32_t pick(struct random *r, uint32_t n)
{
    r->x ^= r->x << 13, r->x ^= r->x >> 7, r->x ^= r->x << 17;
    return (uint32_t)(r->x >> 33) % n;
}

static struct shape shape_pick(struct random *r)
{
    static const char *const digits[] = {"0", "1", "2", "3"}, *const tiles[] = {"64K", "256K"},
                             *const buckets[] = {"16K", "64K", "64M"},
                             *const ahead[] = {"0", "64K", "128M"};
    static const uint64_t widths[] = {2000, 5000, 9000, 20000};

    return (struct shape){.stage = digits[pick(r, 4)],
                          .accum = digits[1 + pick(r, 2)],
                          .tile = tiles[pick(r, 2)],
                          .bucket = buckets[pick(r, 3)],
                          .prefetch = ahead[pick(r, 3)],
                          .checksum = digits[pick(r, 2)],
                          .ranks = 1 + (int)pick(r, 2),
                          .layers = 4 + (int)pick(r, 5),
                          .dtype = pick(r, 2) ? ZERO_BF16 : ZERO_F32,
                          .flags = (pick(r, 2) ? TOY_ACTIVATIONS : 0) |
                                   (pick(r, 3) ? 0 : TOY_TIED) | (pick(r, 3) ? 0 : TOY_PERSISTENT),
                          .width = widths[pick(r, 4)],
                          .table = pick(r, 3) ? 0 : 30000};
}

static int run(const struct shape *shape, const char *offload, const char *limit,
               struct toy_result *r)
{
    struct zero_setting s[] = {{"stage", shape->stage},
                               {"accum", shape->accum},
                               {"tile_bytes", shape->tile},
                               {"bucket_bytes", shape->bucket},
                               {"prefetch_bytes", shape->prefetch},
                               {"offload", offload},
                               {"memory_limit", limit},
                               {"timeout", "20"},
                               {"nvme_path", path},
                               {"nvme_checksum", shape->checksum}};
    struct toy t = {.ranks = shape->ranks,
                    .layers = shape->layers,
                    .steps = 1,
                    .dtype = shape->dtype,
                    .flags = shape->flags,
                    .width = shape->width,
                    .table = shape->table,
                    .settings = s,
                    .n_settings = sizeof s / sizeof *s,
                    .seed = 7};

    return toy_train(&t, r);
}

static uint64_t reserved_in(const struct toy_result *r, const char *tier)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < r->memory.n_rows; i++)
        if (!strcmp(r->memory.rows[i].tier, tier))
            bytes += r->memory.rows[i].reserved;
    return bytes;
}

/* The pages of a rank's own parts differ from rank 0's, and checksums are in no row. */
static uint64_t enough(uint64_t bytes, const struct shape *s)
{
    return bytes + (s->ranks > 1 ? 16384 * (uint64_t)s->layers : 0) + 16384;
}

static void try(struct random *random, const struct shape *shape, const struct toy_result *base)
{
    static const char *const offload[] = {
        "auto", "auto", "optimizer:device+cpu+nvme,gradients:nvme,parameters:nvme,activations:nvme",
        "optimizer:cpu+nvme,gradients:device+nvme,parameters:cpu+nvme,activations:cpu+nvme"};
    static const uint32_t percent[] = {0, 1, 5, 15, 30, 80, 200};
    const char *how = offload[pick(random, 4)];
    uint64_t device = enough(reserved_in(base, "device"), shape),
             cpu = enough(reserved_in(base, "cpu"), shape);
    struct toy_result r;
    char limit[100];

    device += device * percent[pick(random, 7)] / 100;
    cpu += cpu * percent[pick(random, 7)] / 100;
    snprintf(limit, sizeof limit, "device:%" PRIu64 ",cpu:%" PRIu64, device, cpu);
    int err = run(shape, how, limit, &r);
    int good = !err && r.agree && r.hash == base->hash && reserved_in(&r, "device") <= device &&
               reserved_in(&r, "cpu") <= cpu;
    ok(good, "%s under %s", how, limit);
    if (!good)
        diag("%d ranks, %d layers of type %u, flags %x, width %" PRIu64
             ", stage %s, accum %s, tiles %s, buckets %s, "
             "prefetch %s, checksums %s; %" PRIu64 " and %" PRIu64 " bytes on the disk: %s",
             shape->ranks, shape->layers, shape->dtype, shape->flags, shape->width, shape->stage,
             shape->accum, shape->tile, shape->bucket, shape->prefetch, shape->checksum,
             reserved_in(base, "device"), reserved_in(base, "cpu"), err ? r.error : "");
}

static void sweep(uint64_t seed)
{
    struct random random = {seed};

    for (int i = 0; i < SHAPES; i++) {
        struct shape shape = shape_pick(&random);
        struct toy_result base;
        int err = run(&shape, on_disk, "", &base);
        ok(!err, "shape %d: everything on the disk", i);
        for (int k = 0; k < LIMITS && !err; k++)
            try(&random, &shape, &base);
    }
}

int main(void)
{
    /* Each meets limits that a faster tier, once filled, makes another one pass. */
    static const uint64_t seeds[] = {88172645463356928u, 88172645463380685u};

    folder_make("room", path);
    setenv("XDG_CACHE_HOME", "/proc/none", 1); /* nobody can make it */
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        sweep(seeds[i]);
    rmdir(path);
    done();
}
