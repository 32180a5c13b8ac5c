/* SPDX-License-Identifier: Apache-2.0 */
/* Who needs how much memory: the bytes of each class, for reports and for refusals. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "engine/table.h"

/* Most bytes of each class live at once in one body, and the classes' bytes at the fullest point */
static void body_classes(const struct zero__body *b, uint32_t tier, uint64_t *most,
                         uint64_t *at_peak, uint64_t *peak)
{
    for (uint32_t i = 0; i < b->n_ops; i++) {
        uint64_t live[ZERO_N_CLASSES] = {0}, all = 0;
        for (uint32_t k = 0; k < b->n_buffers; k++) {
            const struct zero__buffer *f = &b->buffers[k];
            uint64_t bytes =
                (f->bytes + ZERO_BUFFER_ALIGN - 1) & ~(uint64_t)(ZERO_BUFFER_ALIGN - 1);
            if (f->tier == tier && f->first <= i && i < f->last)
                live[f->memory_class] += bytes, all += bytes;
        }
        for (uint32_t c = 0; c < ZERO_N_CLASSES; c++)
            most[c] = live[c] > most[c] ? live[c] : most[c];
        if (all > *peak) {
            *peak = all;
            memcpy(at_peak, live, sizeof live);
        }
    }
}

static void tier_fill(const struct zero__states *s, const struct zero__program *p, uint32_t tier,
                      struct zero__table_tier *t)
{
    *t = (struct zero__table_tier){.reserved = s->bytes[tier] + p->transient_bytes[tier]};
    for (uint32_t i = 0; i < s->n_buffers; i++) {
        if (s->buffers[i].tier != tier)
            continue;
        t->planned[s->buffers[i].memory_class] += s->buffers[i].bytes;
        t->share[s->buffers[i].memory_class] += s->buffers[i].bytes;
    }
    uint64_t most[ZERO_N_CLASSES] = {0}, at_peak[ZERO_N_CLASSES] = {0}, peak = 0;
    for (uint32_t b = 0; b < ZERO__N_BODIES; b++) {
        uint64_t low = p->bodies[b].lower_bound[tier];
        body_classes(&p->bodies[b], tier, most, at_peak, &peak);
        t->lower_bound = low > t->lower_bound ? low : t->lower_bound;
    }
    for (uint32_t c = 0; c < ZERO_N_CLASSES; c++) {
        t->planned[c] += most[c];
        t->share[c] += at_peak[c];
    }
    t->share[ZERO_CLASS_OTHER] += p->transient_bytes[tier] - peak; /* what the plan could not use */
    t->lower_bound += s->bytes[tier];
}

void zero__table_fill(const struct zero__states *s, const struct zero__program *p,
                      struct zero__table *t)
{
    for (uint32_t tier = 0; tier < ZERO__N_TIERS; tier++)
        tier_fill(s, p, tier, &t->tiers[tier]);
}

void zero__table_body(const struct zero__body *b, uint32_t tier, uint64_t *most, uint64_t *peak)
{
    uint64_t at_peak[ZERO_N_CLASSES];
    body_classes(b, tier, most, at_peak, peak);
}

static const char *human(uint64_t bytes, char *text, size_t n)
{
    static const char units[] = "BKMGTP";
    double x = (double)bytes;
    int u = 0;

    for (; x >= 1024 && u < 5; u++)
        x /= 1024;
    snprintf(text, n, u ? "%.1f %ciB" : "%.0f %c", x, units[u]);
    return text;
}

/*
 * Where states could go: the optimizer's first, which are most. A limit of the device does not
 * count the host's memory.
 */
static const char *outside(const struct zero__recipe *r, uint32_t tier, int per_rank)
{
    static const struct {
        uint32_t what;
        const char *to_host, *to_disk;
    } steps[] = {
        {ZERO__P_OPTIMIZER, "ZERO_OFFLOAD=auto, or optimizer:cpu or optimizer:nvme, ",
         "ZERO_OFFLOAD=auto, or optimizer:nvme, "},
        {ZERO__P_GRADIENTS, "gradients:cpu or gradients:nvme in ZERO_OFFLOAD, too, ",
         "gradients:nvme in ZERO_OFFLOAD, too, "},
        {ZERO__P_PARAMETERS, "parameters:cpu or parameters:nvme in ZERO_OFFLOAD, too, ",
         "parameters:nvme in ZERO_OFFLOAD, too, "},
    };
    int host = tier == ZERO__T_DEVICE && per_rank;

    for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++) {
        const uint16_t *parts = r->placed[steps[i].what];
        if (parts[ZERO__T_DISK] != ZERO__PLACE_PARTS &&
            !(parts[ZERO__T_CPU] == ZERO__PLACE_PARTS && host))
            return host ? steps[i].to_host : steps[i].to_disk;
    }
    return "";
}

/* Tiles of an update pass through the host's memory. */
static int is_tiled(const struct zero__recipe *r)
{
    return r->placed[ZERO__P_OPTIMIZER][ZERO__T_CPU] || r->placed[ZERO__P_OPTIMIZER][ZERO__T_DISK];
}

int zero__table_refuse(const struct zero__table *table, uint32_t tier, const struct zero__recipe *r,
                       const char *what_lacks, uint64_t available, uint32_t sharers, int per_rank)
{
    const struct zero__table_tier *t = &table->tiers[tier];
    char text[2400], a[32], b[32];
    int n = 0, room = sizeof text;

    for (uint32_t c = 0; c < ZERO_N_CLASSES; c++)
        if (t->share[c] && n < room)
            n += snprintf(text + n, (size_t)(room - n), "\n  %-13s %12s", zero__class_name(c),
                          human(t->share[c], a, sizeof a));
    human(t->reserved, a, sizeof a);
    human(available, b, sizeof b);
    return zero__fail(-ENOMEM,
                      "the plan needs %s on each of %u rank%s here, but %s has %s:%s\n"
                      "what would make it fit: %s%s%s%s%sa smaller batch or sequence%s",
                      a, sharers, sharers == 1 ? "" : "s", what_lacks, b, text,
                      r->stage < 3 ? "ZERO_STAGE=3, " : "",
                      /* On one machine more ranks need more memory together. */
                      r->stage > 0 && per_rank ? "more ranks, " : "",
                      outside(r, tier, per_rank),
                      tier == ZERO__T_CPU && is_tiled(r) ? "a smaller ZERO_TILE_BYTES, " : "",
                      r->prefetch_bytes ? "ZERO_PREFETCH_BYTES=0, " : "",
                      t->planned[ZERO_CLASS_ACTIVATIONS] ? ", recomputation" : "");
}
