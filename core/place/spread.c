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
 * move, what they move costs nothing, but nothing hides what the update moves; and units that are
 * larger than what may be prefetched are waited for, however much is computed. So where something
 * is left for the disk, several orders are tried, and the program of each is run on paper
 * (schedule/simulate.h) with the speeds of the disk and of the host's copies, which are measured
 * before, and with what the last job of this kind has computed (past.c); the first job computes
 * nothing on paper, so whatever moves least wins.
 *
 * How much fits is found by trying: the transients of a step depend on what lies where, so states
 * and program are laid out for each try, without waits and without a search for the last bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "place/placer.h"
#include "place/room.h"

#define P ZERO__P_PARAMETERS
#define A ZERO__P_ACTIVATIONS
#define G ZERO__P_GRADIENTS
#define O ZERO__P_OPTIMIZER
static const uint32_t orders[][ZERO__N_PLACED] = {
    {P, A, G, O}, /* by all of their traffic: the one that is left only for a faster one */
    {P, O, G, A}, /* by the update's */
    {P, G, A, O}, {A, P, G, O}, {P, G, O, A}, {O, P, G, A},
};
#undef P
#undef A
#undef G
#undef O
#define N_ORDERS (sizeof orders / sizeof *orders)
#define ALL_TIERS ((1u << ZERO__N_TIERS) - 1)
#define HOST_TIERS (1u << ZERO__T_DEVICE | 1u << ZERO__T_CPU)
#define LEAST_GAIN 0.95 /* of a step, before another order is taken */

/* Of ZERO_OFFLOAD=auto: tiers that only some ranks can use are nobody's. */
static void tiers_share(struct zero__placer *placer, const struct zero__room *room)
{
    /* What moves between disk and device passes through the host's memory. */
    uint64_t usable = room->tiers >> ZERO__T_CPU & 1 ? room->tiers : 1u << ZERO__T_DEVICE;

    for (uint32_t t = ZERO__T_DEVICE + 1; placer->is_auto && t < ZERO__N_TIERS; t++) {
        if (usable >> t & 1)
            continue;
        if (placer->site->tiers[t].name)
            zero__log(&placer->site->log,
                      placer->site->rank == 0 &&
                              zero__tier_is_set(placer, placer->site->tiers[t].name)
                          ? ZERO_LOG_WARN
                          : ZERO_LOG_INFO,
                      "engine", "ZERO_OFFLOAD=auto goes without %s: not all ranks can use %s",
                      placer->site->tiers[t].name,
                      room->tiers >> t & 1 ? "cpu, by which it moves what it stores" : "it");
        placer->site->tiers[t].name = NULL;
        for (uint32_t w = 0; w < ZERO__N_PLACED; w++)
            placer->spread[w] &= (uint8_t) ~(1u << t);
    }
}

static uint32_t slowest(uint32_t tiers)
{
    uint32_t t = ZERO__N_TIERS - 1;

    while (t > 0 && !(tiers >> t & 1))
        t--;
    return t;
}

struct search {
    struct zero__room room;
    struct zero__needs known; /* of rank 0 */
};

/* Of rank 0, for all ranks alike. */
static int measure(const struct zero__placer *placer, struct search *x, struct zero__need *need)
{
    struct zero__recipe first = placer->site->recipe;

    first.rank = 0;
    return zero__need_measure(placer, &first, &x->room, &x->known, need);
}

/*
 * Moves as many parts of `what` as there is room for from its slowest tier to `tier`. No tier may
 * come to lack room by that: what lies in one changes the transients of another.
 */
static int tier_fill(struct zero__placer *placer, uint32_t what, uint32_t from, uint32_t tier,
                     struct search *x, struct zero__need *need)
{
    uint16_t *placed = placer->site->recipe.placed[what], *last = &placed[from];
    uint32_t all = *last, good = 0, bad = all + 1, n = all;
    const struct zero__need before = *need;

    while (good + 1 < bad) {
        struct zero__need tried;
        *last = (uint16_t)(all - n);
        placed[tier] = (uint16_t)n;
        int err = measure(placer, x, &tried);
        if (err)
            return err;
        int ok = zero__room_takes(&x->room, &tried, &before);
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
static uint32_t tiers_of(const struct zero__placer *placer, uint32_t what, uint32_t most)
{
    return placer->spread[what] & most ? placer->spread[what] & most : placer->spread[what];
}

static int what_fill(struct zero__placer *placer, uint32_t what, uint32_t most, struct search *x,
                     struct zero__need *need)
{
    uint32_t tiers = tiers_of(placer, what, most), from = slowest(tiers);
    int err = 0;

    for (uint32_t t = 0; t < from && !err; t++)
        if (tiers >> t & 1 && placer->site->recipe.placed[what][from])
            err = tier_fill(placer, what, from, t, x, need);
    return err;
}

/* Everything in its slowest tier. */
static void start(struct zero__placer *placer, uint32_t most)
{
    for (uint32_t w = 0; w < ZERO__N_PLACED; w++)
        if (placer->spread[w]) {
            memset(placer->site->recipe.placed[w], 0, sizeof placer->site->recipe.placed[w]);
            placer->site->recipe.placed[w][slowest(tiers_of(placer, w, most))] = ZERO__PLACE_PARTS;
        }
}

static int order_fill(struct zero__placer *placer, const uint32_t *order, uint32_t most,
                      struct search *x)
{
    struct zero__need need;
    int err;

    start(placer, most);
    err = measure(placer, x, &need);
    for (uint32_t i = 0; i < ZERO__N_PLACED && !err; i++)
        err = placer->spread[order[i]] ? what_fill(placer, order[i], most, x, &need) : 0;
    return err;
}

/* How long a step of rank 0 will take. */
static int step_foretell(struct zero__placer *placer, double *seconds)
{
    struct zero__recipe first = placer->site->recipe;
    struct zero__program *p = NULL;
    struct zero__simulated found;
    struct zero__costs c = {.end_s = 0};
    struct zero__states s;
    int err;

    first.rank = 0;
    err = zero__states_build(&placer->site->model, &first, &s);
    if (err)
        return err;
    err = zero__program_compile(&placer->site->model, &first, &s, 0, 1, &p);
    if (!err)
        err = zero__costs_guess(placer, &first, p, &c);
    if (!err)
        err = zero__simulate(p, &first, &c, &found);
    zero__costs_free(&c);
    zero__program_free(p);
    zero__states_free(&s);
    if (!err)
        *seconds = found.step_s;
    return err;
}

/* Some of what fills its tiers lies on the disk. */
static int uses_disk(const struct zero__placer *placer)
{
    int any = 0;

    for (uint32_t w = 0; w < ZERO__N_PLACED; w++)
        any |= placer->spread[w] && placer->site->recipe.placed[w][ZERO__T_DISK];
    return any;
}

/*
 * Collective: the disk's speed, of as much as may come to lie there, and the host's copies. The
 * same for every try, so that a job is told by its figures, and not by what they led to.
 */
static int tiers_measure(struct zero__placer *placer, struct search *x, double *copies)
{
    uint16_t placed[ZERO__N_PLACED][ZERO__N_TIERS];
    struct zero__need need;

    memcpy(placed, placer->site->recipe.placed, sizeof placed);
    start(placer, ALL_TIERS);
    int err = measure(placer, x, &need);
    memcpy(placer->site->recipe.placed, placed, sizeof placed);
    if (!err)
        err = zero__speeds_foresee(placer, &x->room, need.tier[ZERO__T_DISK]);
    return err ? err : zero__copies_find(placer, &x->room, copies);
}

/* With the first order in place: is another one faster? */
static int order_choose(struct zero__placer *placer, uint32_t most, struct search *x)
{
    uint16_t best[ZERO__N_PLACED][ZERO__N_TIERS];
    double first, least, seconds = 0;
    uint32_t chosen = 0;
    int err = tiers_measure(placer, x, &placer->copies);

    if (err || (placer->speeds.read <= 0 && placer->past.compute_s <= 0))
        return err;
    err = step_foretell(placer, &first);
    least = first;
    memcpy(best, placer->site->recipe.placed, sizeof best);
    for (uint32_t i = 1; i < N_ORDERS && !err; i++) {
        err = order_fill(placer, orders[i], most, x);
        if (!err && memcmp(best, placer->site->recipe.placed, sizeof best) != 0)
            err = step_foretell(placer, &seconds);
        else
            continue;
        zero__log(&placer->site->log, ZERO_LOG_DEBUG, "engine",
                  "order %u of placement: a step of %.3g s", i, seconds);
        if (err || seconds >= LEAST_GAIN * least)
            continue;
        chosen = i;
        least = seconds;
        memcpy(best, placer->site->recipe.placed, sizeof best);
    }
    if (err)
        return err;
    memcpy(placer->site->recipe.placed, best, sizeof best);
    const uint32_t *o = orders[chosen];
    zero__log(&placer->site->log, ZERO_LOG_INFO, "engine",
              "%s a step takes %.3g s with room given by all traffic, and %.3g s with %s first, "
              "then %s, %s, %s, which %s",
              placer->past.compute_s > 0 ? "computing as before" : "but for computing", first,
              least, zero__placed_name(o[0]), zero__placed_name(o[1]), zero__placed_name(o[2]),
              zero__placed_name(o[3]), chosen ? "it is" : "is the same");
    return 0;
}

/*
 * Collective: whether every rank has room for its own plan. That is made only where what is
 * measured may be too much.
 */
static int has_room(struct zero__placer *placer, const struct zero__room *room, int *has)
{
    struct zero__room whole = *room;
    struct zero__need need;
    int err = zero__need_measure(placer, &placer->site->recipe, room, NULL, &need);
    int32_t lacks, *all = NULL;

    whole.kept = 4;
    if (!err && !zero__room_takes(&whole, &need, NULL))
        err = zero__need_plan(placer, &placer->site->recipe, room, &need);
    lacks = !err && !zero__room_holds(room, &need);
    if (!err)
        all = zero__ranks_ask(placer->site, &lacks, sizeof lacks, &err);
    *has = 1;
    for (int i = 0; i < placer->site->ranks && !err; i++)
        *has = *has && !all[i];
    free(all);
    return err;
}

/*
 * Where to begin, and whether to fill faster tiers from there, until there is room. Filling goes
 * by what is measured, and a plan may need a little more, so quarters of what is kept for that are
 * tried, too; a disk needs memory of the host for what moves to and from it, and so does that for
 * the device, so less may fit with it than without.
 */
static const struct {
    uint32_t most, fills, kept;
} tries[] = {
    {ALL_TIERS, 1, 4},  {ALL_TIERS, 0, 4},  {HOST_TIERS, 1, 4}, {1u << ZERO__T_DEVICE, 1, 4},
    {HOST_TIERS, 1, 1}, {HOST_TIERS, 1, 0}, {ALL_TIERS, 1, 1},  {ALL_TIERS, 1, 0}};

static int spread_try(struct zero__placer *placer, uint32_t most, uint32_t fills, uint32_t kept,
                      struct search *x)
{
    int err = 0;

    x->room.kept = kept;
    if (fills)
        err = order_fill(placer, orders[0], most, x);
    else
        start(placer, most);
    return !err && fills && uses_disk(placer) ? order_choose(placer, most, x) : err;
}

int zero__spread(struct zero__placer *placer)
{
    uint16_t first[ZERO__N_PLACED][ZERO__N_TIERS];
    struct search x = {.known = {NULL, 0, 0}};
    struct zero__room *room = &x.room;
    int err = zero__room_find(placer, room); /* also where nothing is spread: others may have to */
    int has = 0;

    if (err || room->spread == ZERO__APART) /* the ranks compare their options later */
        return err;
    tiers_share(placer, room);
    err = zero__past_find(placer);
    for (uint32_t i = 0; room->spread && !has && !err && i < sizeof tries / sizeof *tries; i++) {
        err = spread_try(placer, tries[i].most, tries[i].fills, tries[i].kept, &x);
        if (!err && (i == 0 || memcmp(first, placer->site->recipe.placed, sizeof first) != 0))
            err = has_room(placer, room, &has);
        if (i == 0)
            memcpy(first, placer->site->recipe.placed, sizeof first);
    }
    if (room->spread && !has && !err) /* what it lacks is said when it is reserved */
        memcpy(placer->site->recipe.placed, first, sizeof first);
    zero__needs_free(&x.known);
    return err;
}
