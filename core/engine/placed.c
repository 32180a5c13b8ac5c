/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where states have come to lie, in the words of ZERO_OFFLOAD; fractions that were missed, and
 * memory that was left.
 */
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/status.h"
#include "engine/places.h"
#include "engine/room.h"
#include "engine/runtime.h"

#define OFF_TOLD 0.05 /* a fraction that is missed by more is told of */
#define KEPT_TOLD (UINT64_C(64) << 20) /* and memory for as many bytes that were sent to the disk */

/* What came to be, as ZERO_OFFLOAD would say it, without what is on the device alone. */
static void placement_write(struct zero_runtime *rt, uint16_t placed[][ZERO__N_TIERS])
{
    char *text = rt->placement;
    size_t room = sizeof rt->placement;
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
                          rt->tiers[t].name);
            is_first = 0;
            if (parts[t] != ZERO__PLACE_PARTS)
                n += snprintf(text + n, room - (size_t)n, ":0.%03u", parts[t]);
        }
    }
}

/* Bytes of what is placed, by tier: the homes of its classes. */
static uint64_t bytes_find(const struct zero_runtime *rt, uint32_t what, uint64_t *bytes)
{
    uint64_t all = 0;

    memset(bytes, 0, ZERO__N_TIERS * sizeof *bytes);
    for (uint32_t i = 0; i < rt->states.n_buffers; i++) {
        const struct zero__buffer *b = &rt->states.buffers[i];
        if (b->memory_class == ZERO_CLASS_OTHER || zero__placed_of(b->memory_class) != what)
            continue;
        bytes[b->tier] += b->bytes;
        all += b->bytes;
    }
    return all;
}

/* Fractions that were asked for and missed by far. */
static void missed_tell(struct zero_runtime *rt, uint32_t what, const uint64_t *bytes, uint64_t all)
{
    for (uint32_t t = 0; t < ZERO__N_TIERS; t++) {
        double asked = rt->recipe.placed[what][t] / (double)ZERO__PLACE_PARTS;
        double is = (double)bytes[t] / (double)all;
        if (asked == 0 || (is > asked - OFF_TOLD && is < asked + OFF_TOLD))
            continue;
        zero__log(&rt->log, ZERO_LOG_WARN, "engine",
                  "%.3f of the bytes of \"%s\" lie in %s where %.3f were asked for: what a "
                  "unit has of them lies in one tier. Smaller units come closer",
                  is, zero__placed_name(what), rt->tiers[t].name, asked);
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

void zero__spread_tell(struct zero_runtime *rt)
{
    uint16_t placed[ZERO__N_PLACED][ZERO__N_TIERS];
    uint32_t any = 0;

    memcpy(placed, rt->recipe.placed, sizeof placed);
    for (uint32_t w = 0; w < ZERO__N_PLACED; w++) {
        uint64_t bytes[ZERO__N_TIERS], all = bytes_find(rt, w, bytes);
        any |= rt->spread[w];
        if (all && rt->spread[w])
            parts_find(bytes, all, placed[w]);
        else if (all && rt->rank == 0)
            missed_tell(rt, w, bytes, all);
    }
    placement_write(rt, placed);
    if (any)
        zero__log(&rt->log, ZERO_LOG_INFO, "engine", "ZERO_OFFLOAD=%s is %s",
                  zero__option_text(rt->options, ZERO__OPT_OFFLOAD),
                  rt->placement[0] ? rt->placement : "the device alone");
}

/* Of the host's memory, when the plan has what it needs. */
static int spare_find(struct zero_runtime *rt, uint64_t *spare)
{
    struct zero__room room;
    uint64_t need[ZERO__N_TIERS], taken;
    int err = zero__room_own(rt, &room);

    if (err || room.disk_is_host) /* what leaves such a disk is where it was */
        return err ? err : -ENOTSUP;
    for (uint32_t t = 0; t < ZERO__N_TIERS; t++)
        need[t] = rt->states.bytes[t] + rt->programs[0]->transient_bytes[t];
    need[ZERO__T_CPU] += zero__checksum_bytes(rt) + room.relay;
    taken = need[ZERO__T_CPU] + (room.is_host ? need[ZERO__T_DEVICE] : 0);
    *spare = zero__least(room.machine > taken ? room.machine - taken : 0,
                         room.tier[ZERO__T_CPU] - zero__least(room.tier[ZERO__T_CPU],
                                                              need[ZERO__T_CPU]));
    return 0;
}

void zero__spare_tell(struct zero_runtime *rt)
{
    const char *disk = rt->tiers[ZERO__T_DISK].name, *host = rt->tiers[ZERO__T_CPU].name;
    uint64_t bytes[ZERO__N_TIERS], spare = 0;

    for (uint32_t w = 0; w < ZERO__N_PLACED && rt->rank == 0; w++) {
        uint64_t all = bytes_find(rt, w, bytes);
        if (bytes[ZERO__T_DISK] != all || all < KEPT_TOLD ||
            rt->recipe.placed[w][ZERO__T_DISK] != ZERO__PLACE_PARTS || rt->spread[w] ||
            rt->is_auto || (!spare && spare_find(rt, &spare)))
            continue;
        if (spare < KEPT_TOLD || spare < all / 10)
            continue;
        zero__log(&rt->log, ZERO_LOG_WARN, "engine",
                  "all %.1f GiB of \"%s\" lie in %s, as ZERO_OFFLOAD has it, and %.1f GiB of this "
                  "host's memory are free for each of its ranks beside the plan: %s:%s+%s in the "
                  "place of %s:%s keeps off the disk what fits there",
                  (double)all / (1 << 30), zero__placed_name(w), disk, (double)spare / (1 << 30),
                  zero__placed_name(w), host, disk, zero__placed_name(w), disk);
        return;
    }
}

const char *zero_placement(const struct zero_runtime *rt)
{
    return rt->placement;
}
