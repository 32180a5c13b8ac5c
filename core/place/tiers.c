/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiers beside the device: which plugin serves which, from ZERO_OFFLOAD, and their stores. A plugin
 * whose bytes are memory is the tier cpu, any other one is the tier disk; each tier has one plugin.
 * What moves between disk and device passes through memory of the tier cpu, so a disk brings that
 * tier with it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/placement.h"
#include "base/status.h"
#include "place/placer.h"

/* What is asked of a disk begins and ends with pages. */
static int info_check(const struct zero_store_info *info, const char *name)
{
    if (!(info->mem & ZERO_MEM_HOST))
        return zero__fail(-ENOTSUP, "offload plugin %s does not read and write host memory", name);
    if (info->offset_align > ZERO_BUFFER_ALIGN || info->buffer_align > ZERO_BUFFER_ALIGN)
        return zero__fail(
            -ENOTSUP,
            "offload plugin %s wants multiples of %u bytes and memory at multiples of "
            "%u; at most %u is possible",
            name, info->offset_align, info->buffer_align, ZERO_BUFFER_ALIGN);
    if (!(info->flags & ZERO_STORE_MAPPED) && info->max_io < ZERO_BUFFER_ALIGN)
        return zero__fail(-ENOTSUP,
                          "offload plugin %s moves %llu bytes in one request (max_io); %u have to "
                          "be possible: try it with zero check offload",
                          name, (unsigned long long)info->max_io, ZERO_BUFFER_ALIGN);
    return 0;
}

static int tier_load(struct zero__placer *placer, const char *name, uint32_t *tier)
{
    struct zero_store_info info = {.size = sizeof info};
    struct zero__plugin *plugin;
    int err = zero__loader_load(placer->site->loader, ZERO_IFACE_OFFLOAD, name, &plugin);

    if (err)
        return err;
    const struct zero_offload_ops *ops = zero__plugin_offload(plugin);
    err = zero__store_probe(placer->run, zero__plugin_name(plugin), ops, &info);
    if (err)
        return zero__while(err, "offload plugin %s", name);
    if (info.flags & ZERO_STORE_MAPPED && !ops->map)
        return zero__fail(-EINVAL,
                          "offload plugin %s says that its bytes are memory (ZERO_STORE_MAPPED), "
                          "and has no map(): try it with zero check offload",
                          name);
    *tier = info.flags & ZERO_STORE_MAPPED ? ZERO__T_CPU : ZERO__T_DISK;
    struct zero__tier_store *t = &placer->site->tiers[*tier];
    if (t->name && strcmp(t->name, zero__plugin_name(plugin)) != 0)
        return zero__fail(
            -EINVAL, "ZERO_OFFLOAD names %s and %s, which are both %s: one of them at a time%s",
            t->name, name, *tier == ZERO__T_CPU ? "memory" : "disks",
            *tier == ZERO__T_CPU ? ""
                                 : "; several disks are folders of one (ZERO_NVME_PATH=/a:/b)");
    err = info_check(&info, name);
    if (err)
        return err;
    t->name = zero__plugin_name(plugin);
    t->ops = *ops;
    t->info = info;
    return 0;
}

int zero__tier_is_set(const struct zero__placer *placer, const char *name)
{
    struct zero__option_row row;

    for (uint32_t i = ZERO__N_OPTIONS; !zero__options_row(placer->site->options, i, &row); i++)
        if (strcmp(row.group, name) == 0 && strcmp(row.source, "default") != 0)
            return 1;
    return 0;
}

static const char *const of_auto[] = {"cpu", "nvme"};
#define N_OF_AUTO (sizeof of_auto / sizeof *of_auto)

/*
 * Of ZERO_OFFLOAD=auto, or as a trial: what cannot be used is left out, which whoever has set
 * something of it hears; what is wrong is an error. A trial tells nobody, and leaves that out, too.
 */
static int auto_load(struct zero__placer *placer, int is_trial)
{
    const int tells = zero__job_local_rank(placer->site->job) == 0;
    uint32_t tier;

    for (uint32_t i = 0; i < N_OF_AUTO; i++) {
        int err = tier_load(placer, of_auto[i], &tier);
        if (err && !is_trial && (err == -EINVAL || zero__runner_is_left(placer->run)))
            return zero__while(err, "ZERO_OFFLOAD=auto");
        if (err && !is_trial)
            zero__log(
                &placer->site->log,
                tells && zero__tier_is_set(placer, of_auto[i]) ? ZERO_LOG_WARN : ZERO_LOG_INFO,
                "engine", "ZERO_OFFLOAD=auto goes without %s: %s", of_auto[i], zero__error_text());
    }
    return 0;
}

void zero__tiers_try(struct zero__placer *placer)
{
    auto_load(placer, 1);
}

static int tier_find(struct zero__placer *placer, const char *name, uint32_t *tier)
{
    for (uint32_t t = ZERO__T_DEVICE; t < ZERO__N_TIERS; t++) {
        if (placer->site->tiers[t].name && !strcmp(name, placer->site->tiers[t].name)) {
            *tier = t;
            return 0;
        }
    }
    return -ENOENT;
}

int zero__tiers_load(struct zero__placer *placer)
{
    const char *text = zero__option_text(placer->site->options, ZERO__OPT_OFFLOAD);
    struct zero__placement p;
    uint32_t cpu;
    char why[256];
    int err = 0;

    placer->site->tiers[ZERO__T_DEVICE].name = zero__tier_name(ZERO__T_DEVICE); /* of no plugin */
    if (zero__placement_parse(text, &p, why, sizeof why))
        return zero__fail(-EINVAL, "ZERO_OFFLOAD: %s", why);
    placer->is_auto = p.is_auto;
    if (p.is_auto)
        err = auto_load(placer, 0);
    for (uint32_t i = 0; i < p.n && !err; i++) {
        const struct zero__place *place = &p.places[i];
        uint32_t tier = ZERO__T_DEVICE;
        if (!p.is_auto && strcmp(place->tier, placer->site->tiers[ZERO__T_DEVICE].name) != 0)
            err = tier_load(placer, place->tier, &tier);
        else if (tier_find(placer, place->tier, &tier))
            continue;
        if (err)
            zero__while(err, "ZERO_OFFLOAD names the tier %s (device, cpu, nvme or a plugin)",
                        place->tier);
        if (!err && !place->parts)
            placer->spread[place->what] |= 1u << tier;
        if (!err)
            placer->site->recipe.placed[place->what][tier] += (uint16_t)place->parts;
    }
    if (!err && placer->site->tiers[ZERO__T_DISK].name && !placer->site->tiers[ZERO__T_CPU].name)
        err = tier_load(placer, "cpu", &cpu);
    return err;
}

uint64_t zero__disk_beside(uint32_t bytes_per_mib, uint64_t bytes)
{
    const uint64_t mib = UINT64_C(1) << 20;

    return (bytes / mib + (bytes % mib != 0)) * bytes_per_mib;
}

int zero__store_open(struct zero__placer *placer, struct zero__tier_store *t, uint64_t bytes,
                     int is_trial)
{
    struct zero_store_open params = {.size = sizeof params,
                                     .host = is_trial ? zero__loader_quiet(placer->site->loader)
                                                      : zero__loader_host(placer->site->loader),
                                     .bytes = bytes,
                                     .device = -1,
                                     .local_rank = zero__job_local_rank(placer->site->job),
                                     .timeout_ns = placer->site->timeout_ns,
                                     .local_ranks = zero__job_local_ranks(placer->site->job),
                                     .pci = *placer->site->device_pci ? placer->site->device_pci
                                                                      : NULL};
    int err = zero__store_make(placer->run, t, &params);

    if (err)
        return err;
    t->info.size = sizeof t->info;
    err = t->ops.info(t->store, &t->info);
    if (!err)
        err = info_check(&t->info, t->name);
    if (!err)
        zero__log(&placer->site->log, is_trial ? ZERO_LOG_DEBUG : ZERO_LOG_INFO, "engine",
                  "tier %s: %llu bytes: %s", t->name, (unsigned long long)bytes, t->info.note);
    return err;
}
