/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placements without fractions, "optimizer:cpu+nvme" and "auto": what is placed so fills its tiers
 * in turn, the fastest first, as far as the limits and the machine leave room.
 *
 * The room of a tier goes to whatever moves the most bytes of it in a step for each byte that lies
 * there, which is best because every one can be divided: parameters (read in both passes, written
 * by the update), activations and gradients (written and read in each micro-batch), and last the
 * optimizer's states (read and written once, by an update that may run where they are).
 *
 * That is so while the disk is what a step waits for. Where the passes compute for longer than they
 * move, what they move costs nothing, but nothing hides what the update moves; then the optimizer's
 * states come first, and activations, which no update reads, last. Which of the two is faster is
 * told by the forecast, as soon as a job of this kind has run (past.c).
 *
 * How much fits is found by trying: the transients of a step depend on what lies where, so states
 * and program are laid out for each try, without waits and without a search for the last bytes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory_limit.h"
#include "base/status.h"
#include "engine/runtime.h"
#include "memory/limits.h"

#define OFF_TOLD 0.05 /* a fraction that is missed by more is told of */

/* What every rank has. */
struct room {
    uint64_t tier[ZERO__N_TIERS];
    uint64_t machine; /* of the device and the host's memory together: it is one memory */
    uint64_t tiers;   /* that can be used, a bit each */
    uint64_t bytes_per_mib; /* of the host's memory, that the disk takes for itself */
};

static const uint32_t by_traffic[ZERO__N_PLACED] = {ZERO__P_PARAMETERS, ZERO__P_ACTIVATIONS,
                                                    ZERO__P_GRADIENTS, ZERO__P_OPTIMIZER},
                      by_update[ZERO__N_PLACED] = {ZERO__P_PARAMETERS, ZERO__P_OPTIMIZER,
                                                   ZERO__P_GRADIENTS, ZERO__P_ACTIVATIONS};
#define LEAST_GAIN 0.95 /* of a step, before another order is taken */

static int own_room(struct zero_runtime *rt, struct room *own)
{
    uint64_t left, sharers = (uint64_t)rt->local_ranks;
    struct zero__memory_limit limit;
    char text[256];
    int err = zero__memory_limit(rt, &limit);

    *own = (struct room){.tiers = 1u << ZERO__T_DEVICE};
    if (err)
        return err;
    left = zero__memory_left(text, sizeof text);
    left = (left > ZERO__MEMORY_MARGIN ? left - ZERO__MEMORY_MARGIN : 0) / sharers;
    own->machine = left - left / 32; /* until it is reserved, others take of it, too */
    own->tier[ZERO__T_DEVICE] = limit.device_bytes;
    if (limit.device_bytes != ZERO__NO_LIMIT) /* something stays for zero_alloc() */
        own->tier[ZERO__T_DEVICE] -= zero__least(
            zero__option_bytes(rt->options, ZERO__OPT_DYNAMIC_BYTES), limit.device_bytes / 32);
    own->tier[ZERO__T_CPU] = limit.cpu_bytes;
    own->bytes_per_mib = rt->tiers[ZERO__T_DISK].info.bytes_per_mib;
    own->tier[ZERO__T_DISK] = rt->tiers[ZERO__T_DISK].info.capacity / sharers;
    for (uint32_t t = ZERO__T_DEVICE + 1; t < ZERO__N_TIERS; t++)
        own->tiers |= rt->tiers[t].name ? 1u << t : 0;
    return 0;
}

/* Collective: the least of all ranks', so that they decide alike. */
static int room_find(struct zero_runtime *rt, struct room *room)
{
    struct room *all = calloc((size_t)rt->ranks, sizeof *all);
    int own = all ? own_room(rt, room) : 0, err;

    if (!all)
        return zero__fail(-ENOMEM, "no memory for the room of %d ranks", rt->ranks);
    err = own ? own : zero__job_allgather(rt->job, room, sizeof *room, all);
    for (int i = 0; i < rt->ranks && !err; i++) {
        for (uint32_t t = 0; t < ZERO__N_TIERS; t++)
            room->tier[t] = zero__least(room->tier[t], all[i].tier[t]);
        room->machine = zero__least(room->machine, all[i].machine);
        room->tiers &= all[i].tiers;
        if (all[i].bytes_per_mib > room->bytes_per_mib)
            room->bytes_per_mib = all[i].bytes_per_mib;
    }
    free(all);
    return err;
}

/* Of ZERO_OFFLOAD=auto: tiers that only some ranks can use are nobody's. */
static void tiers_share(struct zero_runtime *rt, const struct room *room)
{
    /* What moves between disk and device passes through the host's memory. */
    uint64_t usable = room->tiers >> ZERO__T_CPU & 1 ? room->tiers : 1u << ZERO__T_DEVICE;

    for (uint32_t t = ZERO__T_DEVICE + 1; rt->is_auto && t < ZERO__N_TIERS; t++) {
        if (usable >> t & 1)
            continue;
        if (rt->tiers[t].name)
            zero__log(&rt->log, ZERO_LOG_INFO, "engine",
                      "ZERO_OFFLOAD=auto goes without %s: not all ranks can use it",
                      rt->tiers[t].name);
        rt->tiers[t].name = NULL;
        for (uint32_t w = 0; w < ZERO__N_PLACED; w++)
            rt->spread[w] &= (uint8_t) ~(1u << t);
    }
}

/*
 * Whether what is in a tier fits it, and, where it came from the disk, the machine; 1, 0, or an
 * error. What is left in the slowest tier is no business of the others: whether that has room is
 * found when it is reserved.
 */
static int fits(struct zero_runtime *rt, uint32_t tier, int from_disk, const struct room *room)
{
    /* Where a rank's own part begins in a page depends on the rank, and all have to agree. */
    uint64_t slack = 2 * ZERO_BUFFER_ALIGN * (uint64_t)rt->model.n_segments;
    uint64_t bytes[ZERO__N_TIERS];
    struct zero__recipe first = rt->recipe;
    struct zero__states s;

    first.rank = 0;
    int err = zero__states_build(&rt->model, &first, &s);
    if (err)
        return err;
    err = zero__program_measure(&rt->model, &first, &s, bytes);
    for (uint32_t t = 0; t < ZERO__N_TIERS; t++) {
        bytes[t] += s.bytes[t];
        if (bytes[t])
            bytes[t] += slack + bytes[t] / 128; /* the plan may be larger than what is measured */
    }
    zero__states_free(&s);
    bytes[ZERO__T_CPU] += zero__disk_beside((uint32_t)room->bytes_per_mib, bytes[ZERO__T_DISK]);
    return err ? err
               : bytes[tier] <= room->tier[tier] &&
                     (!from_disk ||
                      bytes[ZERO__T_DEVICE] + bytes[ZERO__T_CPU] <= room->machine);
}

static uint32_t slowest(uint32_t tiers)
{
    uint32_t t = ZERO__N_TIERS - 1;

    while (t > 0 && !(tiers >> t & 1))
        t--;
    return t;
}

/* Moves as many parts of `what` as fit from its slowest tier to `tier`. */
static int tier_fill(struct zero_runtime *rt, uint32_t what, uint32_t tier, const struct room *room)
{
    uint32_t from = slowest(rt->spread[what]);
    uint16_t *placed = rt->recipe.placed[what], *last = &placed[from];
    uint32_t all = *last, good = 0, bad = all + 1, n = all;

    while (good + 1 < bad) {
        *last = (uint16_t)(all - n);
        placed[tier] = (uint16_t)n;
        int ok = fits(rt, tier, from == ZERO__T_DISK, room);
        if (ok < 0)
            return ok;
        *(ok ? &good : &bad) = n;
        n = (good + bad) / 2;
    }
    *last = (uint16_t)(all - good);
    placed[tier] = (uint16_t)good;
    return 0;
}

static int what_fill(struct zero_runtime *rt, uint32_t what, const struct room *room)
{
    uint32_t tiers = rt->spread[what];
    int err = 0;

    for (uint32_t t = 0; t < slowest(tiers) && !err; t++)
        if (tiers >> t & 1 && rt->recipe.placed[what][slowest(tiers)])
            err = tier_fill(rt, what, t, room);
    return err;
}

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
                          t == ZERO__T_DEVICE ? "device" : rt->tiers[t].name);
            is_first = 0;
            if (parts[t] != ZERO__PLACE_PARTS)
                n += snprintf(text + n, room - (size_t)n, ":0.%03u", parts[t]);
        }
    }
}

static int order_fill(struct zero_runtime *rt, const uint32_t *order, const struct room *room)
{
    int err = 0;

    for (uint32_t w = 0; w < ZERO__N_PLACED; w++)
        if (rt->spread[w]) {
            memset(rt->recipe.placed[w], 0, sizeof rt->recipe.placed[w]);
            rt->recipe.placed[w][slowest(rt->spread[w])] = ZERO__PLACE_PARTS;
        }
    for (uint32_t i = 0; i < ZERO__N_PLACED && !err; i++)
        err = rt->spread[order[i]] ? what_fill(rt, order[i], room) : 0;
    return err;
}

/* How long a step of rank 0 will take, with what it moves. */
static int step_foretell(struct zero_runtime *rt, struct zero__traffic *traffic, double *seconds)
{
    struct zero_forecast f = {.size = sizeof f};
    struct zero__recipe first = rt->recipe;
    struct zero__states s;
    int err;

    first.rank = 0;
    err = zero__states_build(&rt->model, &first, &s);
    if (err)
        return err;
    err = zero__program_traffic(&rt->model, &first, &s, traffic);
    zero__states_free(&s);
    if (err)
        return err;
    zero__past_forecast(rt, &rt->past.speeds, traffic, &f);
    *seconds = f.step_s;
    return 0;
}

/* With what has filled the tiers by all of its traffic: is the other order faster? */
static int order_choose(struct zero_runtime *rt, const struct room *room)
{
    uint16_t placed[ZERO__N_PLACED][ZERO__N_TIERS];
    struct zero__traffic other;
    double seconds, others = 0;
    int err = step_foretell(rt, &rt->past.traffic, &seconds);

    if (err)
        return err;
    memcpy(placed, rt->recipe.placed, sizeof placed);
    err = order_fill(rt, by_update, room);
    if (!err)
        err = step_foretell(rt, &other, &others);
    if (err)
        return err;
    int better = others < LEAST_GAIN * seconds;
    zero__log(&rt->log, ZERO_LOG_INFO, "engine",
              "computing as before a step takes %.3g s with all that moves least on the disk, %.3g "
              "s with what the update moves: the %s it is",
              seconds, others, better ? "latter" : "former");
    if (better)
        rt->past.traffic = other;
    else
        memcpy(rt->recipe.placed, placed, sizeof placed);
    return 0;
}

int zero__spread(struct zero_runtime *rt)
{
    struct room room;
    int err = room_find(rt, &room); /* also where nothing is spread: the ranks compare that later */

    if (!err)
        tiers_share(rt, &room);
    if (!err)
        err = zero__past_find(rt);
    if (!err)
        err = order_fill(rt, by_traffic, &room);
    return err || rt->past.compute_s <= 0 ? err : order_choose(rt, &room);
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
                  is, zero__placed_name(what), t ? rt->tiers[t].name : "device", asked);
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

const char *zero_placement(const struct zero_runtime *rt)
{
    return rt->placement;
}
