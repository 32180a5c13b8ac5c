/* SPDX-License-Identifier: Apache-2.0 */
/* The report of memory by class. */
#include <errno.h>
#include <string.h>

#include "base/checked.h"
#include "base/status.h"
#include "engine/runtime.h"

/* The formula stands in the row of the tier that has most of the class. */
static int is_main_tier(const struct zero_runtime *rt, uint32_t tier, uint32_t c)
{
    uint64_t bytes[ZERO__N_TIERS] = {0};

    for (uint32_t i = 0; i < rt->site.states.n_buffers; i++)
        if (rt->site.states.buffers[i].memory_class == c)
            bytes[rt->site.states.buffers[i].tier] += rt->site.states.buffers[i].bytes;
    for (uint32_t t = 0; t < ZERO__N_TIERS; t++)
        if (bytes[t] > bytes[tier] || (bytes[t] == bytes[tier] && t < tier))
            return 0;
    return 1;
}

static void row_add(const struct zero_runtime *rt, const struct zero__table_tier *t, uint32_t tier,
                    uint32_t c, struct zero_memory_report *out)
{
    uint64_t formula =
        is_main_tier(rt, tier, c)
            ? zero__formula_bytes(&rt->site.model, &rt->site.recipe, &rt->site.states, c)
            : 0;
    int state = c <= ZERO_CLASS_VARIANCE;

    if (!t->planned[c] && !t->share[c] && !formula)
        return;
    out->rows[out->n_rows++] =
        (struct zero_memory_row){.memory_class = c,
                                 .class_name = zero__class_name(c),
                                 .tier = rt->site.tiers[tier].name,
                                 .formula = formula,
                                 .planned = t->planned[c],
                                 .reserved = t->share[c],
                                 .peak = state || tier != ZERO__T_DEVICE || c == ZERO_CLASS_OTHER
                                             ? t->planned[c]
                                             : zero__step_peak(rt->step, c)};
    out->planned += t->share[c];
}

/* What takes the host's memory beside the plan: a row of its own, in the tier that bears it. */
static void beside_add(const struct zero_runtime *rt, const char *name, uint64_t bytes,
                       struct zero_memory_report *out)
{
    const char *tier = rt->site.tiers[ZERO__T_CPU].name; /* NULL: nothing else lies there */

    if (!bytes)
        return;
    out->rows[out->n_rows++] =
        (struct zero_memory_row){.memory_class = ZERO_CLASS_OTHER,
                                 .class_name = name,
                                 .tier = tier ? tier : zero__tier_name(ZERO__T_CPU),
                                 .planned = bytes,
                                 .reserved = bytes,
                                 .peak = bytes};
    out->planned += bytes;
    out->reserved += bytes;
    out->peak += bytes;
}

int zero_memory_report(struct zero_runtime *rt, struct zero_memory_report *report)
{
    struct zero_memory_report out = {.size = zero__least(report->size, sizeof out)};
    struct zero__storage_totals disk;
    struct zero__table t;

    if (zero__step_is_setup(rt->step) ||
        !rt->site.programs[0]) /* what has failed may have no plan */
        return zero__fail(-EINVAL, "zero_memory_report() works after zero_commit()");
    if (!report->size)
        return zero__fail(-EINVAL, "zero_memory_report.size is 0: set it to sizeof *report");
    zero__table_now(rt->placer, &t);
    for (uint32_t tier = 0; tier < ZERO__N_TIERS; tier++) {
        for (uint32_t c = 0; c < ZERO_N_CLASSES; c++)
            row_add(rt, &t.tiers[tier], tier, c, &out);
        if (tier != ZERO__T_CPU)
            continue;
        beside_add(rt, "checksums", t.checksums, &out);
        beside_add(rt, "relay", t.relay, &out);
    }
    for (uint32_t i = 0; i < ZERO__N_SLABS; i++)
        out.reserved += rt->site.slabs[i].bytes;
    for (uint32_t tier = 0; tier < ZERO__N_TIERS; tier++) {
        out.lower_bound += t.tiers[tier].lower_bound;
        out.peak += rt->site.states.bytes[tier];
        out.peak += tier == ZERO__T_DEVICE ? zero__step_peak_all(rt->step)
                                           : rt->site.programs[0]->transient_bytes[tier];
    }
    for (uint32_t i = 0; i < rt->site.model.n_segments; i++) {
        const struct zero__segment *s = &rt->site.model.segments[i];
        if (rt->site.mapped && rt->site.mapped[i])
            out.mapped += (s->padded - s->shard) * zero_dtype_bytes(s->dtype);
    }
    zero__storage_totals(rt->run, &disk);
    out.disk_read = disk.read;
    out.disk_written = disk.written;
    out.disk_direct = (disk.flags & ZERO_STORE_DIRECT) != 0;
    memcpy(report, &out, out.size);
    return 0;
}
