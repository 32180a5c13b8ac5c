/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where states have come to lie, in the words of ZERO_OFFLOAD; fractions that were missed, and
 * memory that was left.
 */
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/status.h"
#include "place/placer.h"
#include "place/room.h"

#define OFF_TOLD 0.05                  /* a fraction that is missed by more is told of */
#define KEPT_TOLD (UINT64_C(64) << 20) /* and memory for as many bytes that were sent to the disk \
                                        */

/* What came to be, as ZERO_OFFLOAD would say it, without what is on the device alone. */
static void placement_write(struct zero__placer *placer, uint16_t placed[][ZERO__N_TIERS])
{
    char *text = placer->placement;
    size_t room = sizeof placer->placement;
    int n = 0;

    *text = 0;
    for (uint32_t w = 0; w < ZERO__N_PLACED; w++) {
        const uint16_t *parts = placed[w];
        uint32_t elsewhere = parts[ZERO__T_CPU] + parts[ZERO__T_DISK], is_first = 1;
        if (elsewhere)
            n += snprintf(text + n, room - (size_t)n, "%s%s", n ? "," : "", zero__placed_name(w));
        for (uint32_t t = 0; elsewhere && t < ZERO__N_TIERS; t++) {
            if (!parts[t])
                continue;
            n += snprintf(text + n, room - (size_t)n, "%c%s", is_first ? ':' : '+',
                          placer->site->tiers[t].name);
            is_first = 0;
            if (parts[t] != ZERO__PLACE_PARTS)
                n += snprintf(text + n, room - (size_t)n, ":0.%03u", parts[t]);
        }
    }
}

/* Bytes of what is placed, by tier: the homes of its classes. */
static uint64_t bytes_find(const struct zero__placer *placer, uint32_t what, uint64_t *bytes)
{
    uint64_t all = 0;

    memset(bytes, 0, ZERO__N_TIERS * sizeof *bytes);
    for (uint32_t i = 0; i < placer->site->states.n_buffers; i++) {
        const struct zero__buffer *b = &placer->site->states.buffers[i];
        if (b->memory_class == ZERO_CLASS_OTHER || zero__placed_of(b->memory_class) != what)
            continue;
        bytes[b->tier] += b->bytes;
        all += b->bytes;
    }
    return all;
}

/* Fractions that were asked for and missed by far. */
static void missed_tell(struct zero__placer *placer, uint32_t what, const uint64_t *bytes,
                        uint64_t all)
{
    for (uint32_t t = 0; t < ZERO__N_TIERS; t++) {
        double asked = placer->site->recipe.placed[what][t] / (double)ZERO__PLACE_PARTS;
        double is = (double)bytes[t] / (double)all;
        if (asked == 0 || (is > asked - OFF_TOLD && is < asked + OFF_TOLD))
            continue;
        zero__log(&placer->site->log, ZERO_LOG_WARN, "engine",
                  "%.3f of the bytes of \"%s\" lie in %s where %.3f were asked for: what a "
                  "unit has of them lies in one tier. Smaller units come closer",
                  is, zero__placed_name(what), placer->site->tiers[t].name, asked);
        break; /* what one has too much, another lacks */
    }
}

/* Bytes as parts of a whole. */
static void parts_find(const uint64_t *bytes, uint64_t all, uint16_t *parts)
{
    uint32_t left = ZERO__PLACE_PARTS, most = 0;

    for (uint32_t t = 0; t < ZERO__N_TIERS; t++) {
        parts[t] = (uint16_t)((double)bytes[t] / (double)all * ZERO__PLACE_PARTS);
        left -= parts[t];
        most = bytes[t] > bytes[most] ? t : most;
    }
    parts[most] = (uint16_t)(parts[most] + left);
}

void zero__spread_tell(struct zero__placer *placer)
{
    uint16_t placed[ZERO__N_PLACED][ZERO__N_TIERS];
    uint32_t any = 0;

    memcpy(placed, placer->site->recipe.placed, sizeof placed);
    for (uint32_t w = 0; w < ZERO__N_PLACED; w++) {
        uint64_t bytes[ZERO__N_TIERS], all = bytes_find(placer, w, bytes);
        any |= placer->spread[w];
        if (all && placer->spread[w])
            parts_find(bytes, all, placed[w]);
        else if (all && placer->site->rank == 0)
            missed_tell(placer, w, bytes, all);
    }
    placement_write(placer, placed);
    if (any)
        zero__log(&placer->site->log, ZERO_LOG_INFO, "engine", "ZERO_OFFLOAD=%s is %s",
                  zero__option_text(placer->site->options, ZERO__OPT_OFFLOAD),
                  placer->placement[0] ? placer->placement : "the device alone");
}

/* Of the host's memory, when the plan has what it needs. */
static int spare_find(struct zero__placer *placer, uint64_t *spare)
{
    struct zero__room room;
    uint64_t need[ZERO__N_TIERS], taken;
    int err = zero__room_own(placer, &room);

    if (err || room.disk_is_host) /* what leaves such a disk is where it was */
        return err ? err : -ENOTSUP;
    for (uint32_t t = 0; t < ZERO__N_TIERS; t++)
        need[t] = placer->site->states.bytes[t] + placer->site->programs[0]->transient_bytes[t];
    need[ZERO__T_CPU] += zero__checksum_bytes(placer) + room.relay;
    taken = need[ZERO__T_CPU] + (room.is_host ? need[ZERO__T_DEVICE] : 0);
    *spare = zero__least(room.machine > taken ? room.machine - taken : 0,
                         room.tier[ZERO__T_CPU] -
                             zero__least(room.tier[ZERO__T_CPU], need[ZERO__T_CPU]));
    return 0;
}

void zero__spare_tell(struct zero__placer *placer)
{
    const char *disk = placer->site->tiers[ZERO__T_DISK].name,
               *host = placer->site->tiers[ZERO__T_CPU].name;
    uint64_t bytes[ZERO__N_TIERS], spare = 0;

    for (uint32_t w = 0; w < ZERO__N_PLACED && placer->site->rank == 0; w++) {
        uint64_t all = bytes_find(placer, w, bytes);
        if (bytes[ZERO__T_DISK] != all || all < KEPT_TOLD ||
            placer->site->recipe.placed[w][ZERO__T_DISK] != ZERO__PLACE_PARTS ||
            placer->spread[w] || placer->is_auto || (!spare && spare_find(placer, &spare)))
            continue;
        if (spare < KEPT_TOLD || spare < all / 10)
            continue;
        zero__log(&placer->site->log, ZERO_LOG_WARN, "engine",
                  "all %.1f GiB of \"%s\" lie in %s, as ZERO_OFFLOAD has it, and %.1f GiB of this "
                  "host's memory are free for each of its ranks beside the plan: %s:%s+%s in the "
                  "place of %s:%s keeps off the disk what fits there",
                  (double)all / (1 << 30), zero__placed_name(w), disk, (double)spare / (1 << 30),
                  zero__placed_name(w), host, disk, zero__placed_name(w), disk);
        return;
    }
}
