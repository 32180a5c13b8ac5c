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

#include "base/status.h"
#include "engine/room.h"
#include "engine/runtime.h"

#define OFF_TOLD 0.05 /* a fraction that is missed by more is told of */

static const uint32_t by_traffic[ZERO__N_PLACED] = {ZERO__P_PARAMETERS, ZERO__P_ACTIVATIONS,
                                                    ZERO__P_GRADIENTS, ZERO__P_OPTIMIZER},
                      by_update[ZERO__N_PLACED] = {ZERO__P_PARAMETERS, ZERO__P_OPTIMIZER,
                                                   ZERO__P_GRADIENTS, ZERO__P_ACTIVATIONS};
#define LEAST_GAIN 0.95 /* of a step, before another order is taken */

/* Of ZERO_OFFLOAD=auto: tiers that only some ranks can use are nobody's. */
static void tiers_share(struct zero_runtime *rt, const struct zero__room *room)
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

static uint32_t slowest(uint32_t tiers)
{
    uint32_t t = ZERO__N_TIERS - 1;

    while (t > 0 && !(tiers >> t & 1))
        t--;
    return t;
}

/* Of rank 0, for all ranks alike. */
static int measure(const struct zero_runtime *rt, const struct zero__room *room,
                   struct zero__need *need)
{
    struct zero__recipe first = rt->recipe;

    first.rank = 0;
    return zero__need_measure(rt, &first, room, need);
}

/*
 * Moves as many parts of `what` as there is room for from its slowest tier to `tier`. No tier may
 * come to lack room by that: what lies in one changes the transients of another.
 */
static int tier_fill(struct zero_runtime *rt, uint32_t what, uint32_t from, uint32_t tier,
                     const struct zero__room *room, struct zero__need *need)
{
    uint16_t *placed = rt->recipe.placed[what], *last = &placed[from];
    uint32_t all = *last, good = 0, bad = all + 1, n = all;
    const struct zero__need before = *need;

    while (good + 1 < bad) {
        struct zero__need tried;
        *last = (uint16_t)(all - n);
        placed[tier] = (uint16_t)n;
        int err = measure(rt, room, &tried);
        if (err)
            return err;
        int ok = zero__room_takes(room, &tried, &before);
        if (ok)
            *need = tried;
        *(ok ? &good : &bad) = n;
        n = (good + bad) / 2;
    }
    *last = (uint16_t)(all - good);
    placed[tier] = (uint16_t)good;
    return 0;
}

/* `most`: tiers that may be used, a bit each, where there is one of them. */
static uint32_t tiers_of(const struct zero_runtime *rt, uint32_t what, uint32_t most)
{
    return rt->spread[what] & most ? rt->spread[what] & most : rt->spread[what];
}

static int what_fill(struct zero_runtime *rt, uint32_t what, uint32_t most,
                     const struct zero__room *room, struct zero__need *need)
{
    uint32_t tiers = tiers_of(rt, what, most), from = slowest(tiers);
    int err = 0;

    for (uint32_t t = 0; t < from && !err; t++)
        if (tiers >> t & 1 && rt->recipe.placed[what][from])
            err = tier_fill(rt, what, from, t, room, need);
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

/* Everything in its slowest tier. */
static void start(struct zero_runtime *rt, uint32_t most)
{
    for (uint32_t w = 0; w < ZERO__N_PLACED; w++)
        if (rt->spread[w]) {
            memset(rt->recipe.placed[w], 0, sizeof rt->recipe.placed[w]);
            rt->recipe.placed[w][slowest(tiers_of(rt, w, most))] = ZERO__PLACE_PARTS;
        }
}

static int order_fill(struct zero_runtime *rt, const uint32_t *order, uint32_t most,
                      const struct zero__room *room)
{
    struct zero__need need;
    int err;

    start(rt, most);
    err = measure(rt, room, &need);
    for (uint32_t i = 0; i < ZERO__N_PLACED && !err; i++)
        err = rt->spread[order[i]] ? what_fill(rt, order[i], most, room, &need) : 0;
    return err;
}

/* How long a step of rank 0 will take. */
static int step_foretell(struct zero_runtime *rt, double *seconds)
{
    const struct guess guess = {rt->past.compute_s, rt->past.update_s, 0, rt->past.speeds};
    struct zero__recipe first = rt->recipe;
    struct zero__program *p = NULL;
    struct zero__simulated found;
    struct zero__costs c = {.read = 0};
    struct zero__states s;
    int err;

    first.rank = 0;
    err = zero__states_build(&rt->model, &first, &s);
    if (err)
        return err;
    err = zero__program_compile(&rt->model, &first, &s, 0, 1, &p);
    if (!err)
        err = zero__costs_guess(&rt->model, &first, p, &guess, &c);
    if (!err)
        err = zero__simulate(p, &first, &c, &found);
    zero__costs_free(&c);
    zero__program_free(p);
    zero__states_free(&s);
    if (!err)
        *seconds = found.step_s;
    return err;
}

/* With what has filled the tiers by all of its traffic: is the other order faster? */
static int order_choose(struct zero_runtime *rt, uint32_t most, const struct zero__room *room)
{
    uint16_t placed[ZERO__N_PLACED][ZERO__N_TIERS];
    double seconds, others = 0;
    int err = step_foretell(rt, &seconds);

    if (err)
        return err;
    memcpy(placed, rt->recipe.placed, sizeof placed);
    err = order_fill(rt, by_update, most, room);
    if (!err)
        err = step_foretell(rt, &others);
    if (err)
        return err;
    int better = others < LEAST_GAIN * seconds;
    zero__log(&rt->log, ZERO_LOG_INFO, "engine",
              "computing as before a step takes %.3g s with all that moves least on the disk, %.3g "
              "s with what the update moves: the %s it is",
              seconds, others, better ? "latter" : "former");
    if (!better)
        memcpy(rt->recipe.placed, placed, sizeof placed);
    return 0;
}

/*
 * Collective: whether every rank has room for its own plan. That is made only where what is
 * measured may be too much.
 */
static int has_room(struct zero_runtime *rt, const struct zero__room *room, int *has)
{
    struct zero__need need;
    int err = zero__need_measure(rt, &rt->recipe, room, &need);
    int32_t lacks, *all = calloc((size_t)rt->ranks, sizeof *all);

    if (!all)
        return zero__fail(-ENOMEM, "no memory for what %d ranks lack", rt->ranks);
    if (!err && !zero__room_takes(room, &need, NULL))
        err = zero__need_plan(rt, &rt->recipe, room, &need);
    lacks = !err && !zero__room_holds(room, &need);
    if (!err)
        err = zero__job_allgather(rt->job, &lacks, sizeof lacks, all);
    *has = 1;
    for (int i = 0; i < rt->ranks && !err; i++)
        *has = *has && !all[i];
    free(all);
    return err;
}

#define ALL_TIERS ((1u << ZERO__N_TIERS) - 1)

/*
 * Where to begin, and whether to fill faster tiers from there, until there is room. Filling goes
 * by what is measured, and a plan may need a little more; a disk needs memory of the host for what
 * moves to and from it, and so does that for the device, so less may fit with it than without.
 */
static const struct {
    uint32_t most, fills;
} tries[] = {{ALL_TIERS, 1},
             {ALL_TIERS, 0},
             {1u << ZERO__T_DEVICE | 1u << ZERO__T_CPU, 1},
             {1u << ZERO__T_DEVICE, 1}};

static int spread_try(struct zero_runtime *rt, uint32_t most, uint32_t fills,
                      const struct zero__room *room)
{
    int err = 0;

    if (fills)
        err = order_fill(rt, by_traffic, most, room);
    else
        start(rt, most);
    if (err || rt->past.compute_s <= 0 || !fills)
        return err;
    return order_choose(rt, most, room);
}

int zero__spread(struct zero_runtime *rt)
{
    uint16_t first[ZERO__N_PLACED][ZERO__N_TIERS];
    struct zero__room room;
    int err = zero__room_find(rt, &room); /* also where nothing is spread: others may have to */
    int has = 0;

    if (err || room.spread == ZERO__APART) /* the ranks compare their options later */
        return err;
    tiers_share(rt, &room);
    err = zero__past_find(rt);
    for (uint32_t i = 0; room.spread && !has && !err && i < sizeof tries / sizeof *tries; i++) {
        err = spread_try(rt, tries[i].most, tries[i].fills, &room);
        if (!err && (i == 0 || memcmp(first, rt->recipe.placed, sizeof first) != 0))
            err = has_room(rt, &room, &has);
        if (i == 0)
            memcpy(first, rt->recipe.placed, sizeof first);
    }
    if (room.spread && !has && !err) /* what it lacks is said when it is reserved */
        memcpy(rt->recipe.placed, first, sizeof first);
    return err;
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
