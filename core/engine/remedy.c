/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/remedy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory_limit.h"
#include "base/status.h"
#include "engine/room.h"
#include "engine/runtime.h"

/* What can be set otherwise, in the order of what it costs a step. */
enum knob { PREFETCH, BUCKET, TILE, STAGE, OFFLOAD, CHECKSUM, N_KNOBS };

static const char *const names[N_KNOBS] = {
    "prefetch_bytes", "bucket_bytes", "tile_bytes", "stage", "offload", "nvme_checksum",
};

/* What ZERO_OFFLOAD may be set to instead. */
enum { AS_IT_IS, OPTIMIZER_CPU, OPTIMIZER_DISK, AUTO, N_OFFLOADS };

#define LEAST_BYTES (UINT64_C(64) << 10) /* that is tried but 0 */
#define LEAST_TILE (UINT64_C(32) << 10)  /* ZERO_TILE_BYTES takes no less */

/* In smaller tiles than make so many, what is under way is nothing beside the states, while each of
 * them is several ops and buffers of a program that is planned for every trial. */
#define MOST_TILES 4096u

struct trial {
    uint64_t value[N_KNOBS]; /* OFFLOAD: one of those above; CHECKSUM: bytes of a MiB */
};

struct search {
    struct zero_runtime *rt;
    struct zero__room room;
    struct trial now, least;      /* least: what each can be set to that needs the least room */
    uint8_t is_programs[N_KNOBS]; /* the program sets it: no variable has an effect */
    char *text;
    size_t bytes, n;
};

/* ---- Whether a trial has room ---------------------------------------------------------------- */

static void recipe_set(const struct search *s, const struct trial *t, struct zero__recipe *r)
{
    *r = s->rt->recipe;
    r->prefetch_bytes = t->value[PREFETCH];
    r->bucket_bytes = t->value[BUCKET];
    if (t->value[TILE] != s->now.value[TILE])
        r->tile = (uint32_t)(t->value[TILE] / sizeof(float));
    if (t->value[STAGE] == r->stage)
        return;
    r->stage = (uint32_t)t->value[STAGE];
    r->map_bytes = 0; /* needs the most */
    if (zero__option_int(s->rt->options, ZERO__OPT_REDUCE_AT) == ZERO__REDUCE_AUTO)
        r->boundary = r->stage < 2;
}

static int is_enough_as(const struct search *s, const struct zero__recipe *r, const struct trial *t,
                        int *enough)
{
    struct zero__room room = s->room;
    struct zero__need need;

    room.bytes_per_mib = t->value[CHECKSUM];
    room.spare = 0;
    int err = zero__need_measure(s->rt, r, &room, NULL, &need);
    *enough = !err && zero__room_takes(&room, &need, NULL);
    return err;
}

/* Everything, or the optimizer's states alone, in one tier. */
static void place(struct zero__recipe *r, uint32_t tier, int everything)
{
    memset(r->placed, 0, sizeof r->placed);
    for (uint32_t w = 0; w < ZERO__N_PLACED; w++)
        if (everything || w == ZERO__P_OPTIMIZER)
            r->placed[w][tier] = ZERO__PLACE_PARTS;
}

/* What fills its tiers all in one of them, no slower than this one if there is such. */
static void place_spread(const struct search *s, struct zero__recipe *r, uint32_t tier)
{
    for (uint32_t w = 0; w < ZERO__N_PLACED; w++) {
        uint32_t tiers = s->rt->spread[w], most = tiers & ((2u << tier) - 1), t;
        if (!tiers)
            continue;
        for (t = tier; !((most ? most : tiers) >> t & 1);)
            t = most ? t - 1 : t + 1;
        memset(r->placed[w], 0, sizeof r->placed[w]);
        r->placed[w][t] = ZERO__PLACE_PARTS;
    }
}

static int is_spread(const struct zero_runtime *rt)
{
    uint32_t any = 0;

    for (uint32_t w = 0; w < ZERO__N_PLACED; w++)
        any |= rt->spread[w];
    return any != 0;
}

/* Where tiers are filled it is enough if one of the placements that begins is (spread.c). */
static int is_enough(const struct search *s, const struct trial *t, int *enough)
{
    uint32_t offload = (uint32_t)t->value[OFFLOAD];
    int fills = offload == AS_IT_IS && is_spread(s->rt), err = 0;
    struct zero__recipe r;

    recipe_set(s, t, &r);
    if (offload == AS_IT_IS && !fills)
        return is_enough_as(s, &r, t, enough);
    *enough = 0;
    for (uint32_t tier = ZERO__N_TIERS; tier-- > 0 && !*enough && !err;) {
        if ((offload == OPTIMIZER_CPU && tier != ZERO__T_CPU) ||
            (offload == OPTIMIZER_DISK && tier != ZERO__T_DISK) || !(s->room.tiers >> tier & 1))
            continue;
        if (fills)
            place_spread(s, &r, tier);
        else
            place(&r, tier, offload == AUTO);
        err = is_enough_as(s, &r, t, enough);
    }
    return err;
}

/* ---- As settings ----------------------------------------------------------------------------- */

static void say(struct search *s, const char *word)
{
    if (s->n < s->bytes)
        s->n += (size_t)snprintf(s->text + s->n, s->bytes - s->n, "%s", word);
}

static const char *bytes_text(uint64_t bytes, char *text, size_t n)
{
    const unsigned shift = bytes == 0 ? 0 : bytes % (1 << 20) == 0 ? 20 : bytes % 1024 ? 0 : 10;

    snprintf(text, n, "%" PRIu64 "%s", bytes >> shift, shift == 20 ? "M" : shift ? "K" : "");
    return text;
}

static void setting_say(struct search *s, const char *name, const char *value)
{
    char text[200];

    say(s, zero__option_how(s->rt->options, name, value, text, sizeof text));
}

static void knob_say(struct search *s, enum knob k, uint64_t value)
{
    uint32_t tier = value == OPTIMIZER_CPU ? ZERO__T_CPU : ZERO__T_DISK;
    char text[100];

    if (k == OFFLOAD && value == AUTO)
        snprintf(text, sizeof text, "auto");
    else if (k == OFFLOAD)
        snprintf(text, sizeof text, "optimizer:%s", s->rt->tiers[tier].name);
    else if (k == STAGE || k == CHECKSUM) /* the latter is left out or not there at all */
        snprintf(text, sizeof text, "%" PRIu64, value);
    else
        bytes_text(value, text, sizeof text);
    setting_say(s, names[k], text);
}

static void trial_say(struct search *s, const struct trial *t)
{
    const char *between = s->n ? "; or " : "";

    for (uint32_t k = 0; k < N_KNOBS; k++)
        if (t->value[k] != s->now.value[k]) {
            say(s, between);
            knob_say(s, k, t->value[k]);
            between = " ";
        }
}

/* ---- The search ------------------------------------------------------------------------------ */

/* The largest that is enough: what it is now is for speed. */
static int bytes_try(struct search *s, enum knob k, struct trial *t)
{
    int enough = 1, err = 0;

    while (!err) {
        struct trial next = *t;
        next.value[k] = t->value[k] ? 2 * t->value[k] : LEAST_BYTES;
        if (next.value[k] >= s->now.value[k])
            break;
        err = is_enough(s, &next, &enough);
        if (!enough)
            break;
        *t = next;
    }
    return err;
}

/* With one of them alone. */
static int one_try(struct search *s, enum knob k)
{
    struct trial t = s->now;
    int enough, err;

    t.value[k] = s->least.value[k];
    if (t.value[k] == s->now.value[k])
        return 0;
    err = is_enough(s, &t, &enough);
    if (err || !enough)
        return err;
    if (k <= TILE)
        err = bytes_try(s, k, &t);
    if (!err)
        trial_say(s, &t);
    return err;
}

static int offloads_try(struct search *s)
{
    int err = 0, is_told = 0;

    for (uint32_t o = OPTIMIZER_CPU; o <= s->least.value[OFFLOAD] && !err; o++) {
        struct trial t = s->now;
        int enough = 0;
        t.value[OFFLOAD] = o;
        if (!(o == OPTIMIZER_DISK && is_told)) /* the host's memory is the better one */
            err = is_enough(s, &t, &enough);
        if (!err && enough)
            trial_say(s, &t);
        is_told |= enough;
    }
    return err;
}

/*
 * All of them, and then without those that are not needed: first what a program would have to be
 * changed for, then the dearest.
 */
static int all_try(struct search *s)
{
    static const uint8_t back[] = {CHECKSUM, OFFLOAD, STAGE, TILE, BUCKET, PREFETCH};
    const uint32_t n = sizeof back;
    struct trial t = s->least;
    int enough, err = is_enough(s, &t, &enough);

    if (err || !enough)
        return err;
    for (uint32_t i = 0; i < 2 * n && !err; i++) {
        enum knob k = back[i % n];
        struct trial less = t;
        if (s->is_programs[k] != (i < n) || t.value[k] == s->now.value[k])
            continue;
        less.value[k] = s->now.value[k];
        err = is_enough(s, &less, &enough);
        if (!err && enough)
            t = less;
    }
    if (!err)
        trial_say(s, &t);
    return err;
}

/* The limits of device and host that hold a recipe; `more`: how much more they are than now. */
static int limits_find(const struct search *s, const struct zero__recipe *r,
                       const uint64_t now[ZERO__T_CPU + 1], uint64_t most[ZERO__T_CPU + 1],
                       uint64_t *more)
{
    struct zero__room room = s->room;
    struct zero__need need;
    int err = zero__need_measure(s->rt, r, &room, NULL, &need);

    *more = UINT64_MAX;
    if (err)
        return err;
    room.tier[ZERO__T_DEVICE] = room.device;
    room.tier[ZERO__T_CPU] = UINT64_MAX;
    room.spare = 0;
    if (!zero__room_takes(&room, &need, NULL))
        return 0;
    *more = 0;
    for (uint32_t t = ZERO__T_DEVICE; t <= ZERO__T_CPU; t++) {
        most[t] = need.tier[t] + need.tier[t] / 128 + room.slack;
        most[t] = (most[t] / LEAST_BYTES + 1) * LEAST_BYTES;
        if (most[t] < now[t])
            most[t] = now[t];
        *more += most[t] - now[t];
    }
    return 0;
}

/*
 * Limits that hold it as it is, where they are what lacks: what was refused, or where tiers are
 * filled, everything in the slowest one, whichever takes less.
 */
static int limit_try(struct search *s)
{
    uint64_t now[ZERO__T_CPU + 1], most[ZERO__T_CPU + 1], slow[ZERO__T_CPU + 1], more, other;
    struct zero__recipe r = s->rt->recipe;
    char text[120] = "", number[32];
    int n = 0;

    now[ZERO__T_DEVICE] = s->rt->limit.device_bytes;
    now[ZERO__T_CPU] = s->rt->limit.cpu_bytes;
    int err = limits_find(s, &r, now, most, &more);
    place_spread(s, &r, ZERO__N_TIERS - 1);
    if (!err)
        err = limits_find(s, &r, now, slow, &other);
    if (err || (more == UINT64_MAX && other == UINT64_MAX))
        return err;
    for (uint32_t t = ZERO__T_DEVICE; t <= ZERO__T_CPU; t++)
        if (now[t] != ZERO__NO_LIMIT)
            n += snprintf(text + n, sizeof text - (size_t)n, "%s%s:%s", n ? "," : "",
                          t == ZERO__T_DEVICE ? "device" : "cpu",
                          bytes_text(other < more ? slow[t] : most[t], number, sizeof number));
    if (n) {
        say(s, s->n ? "; or " : "");
        setting_say(s, "memory_limit", text);
    }
    return 0;
}

/* With the variables alone, or with what the program sets as well. */
static int knobs_try(struct search *s, int programs)
{
    const struct trial all = s->least;
    int err = 0;

    if (programs && !memchr(s->is_programs, 1, sizeof s->is_programs))
        return 0;
    for (uint32_t k = 0; k < N_KNOBS; k++)
        if (s->is_programs[k] && !programs)
            s->least.value[k] = s->now.value[k];
    for (enum knob k = PREFETCH; k < N_KNOBS && !err; k++)
        if (s->is_programs[k] == programs)
            err = k == OFFLOAD ? offloads_try(s) : one_try(s, k);
    if (!err && !s->n)
        err = all_try(s);
    s->least = all;
    return err;
}

static uint64_t least_tile(const struct zero_runtime *rt)
{
    const struct zero__model *m = &rt->model;
    uint64_t elements = 0, bytes = LEAST_TILE;

    for (uint32_t i = 0; i < m->n_segments; i++)
        elements += m->segments[i].shard * (rt->recipe.stage ? 1 : rt->recipe.ranks);
    while (bytes < elements / MOST_TILES * sizeof(float))
        bytes *= 2;
    return bytes;
}

/* What each can be set to; where a setting would be refused for another reason, nothing else. */
static void ends_set(struct search *s)
{
    const struct zero_runtime *rt = s->rt;
    const struct zero__recipe *r = &rt->recipe;
    uint64_t *now = s->now.value, *least = s->least.value;
    int at_end = zero__option_int(rt->options, ZERO__OPT_UPDATE_AT) == ZERO__UPDATE_END;
    int adds = r->accum == 1 || (rt->caps.flags & ZERO_COMM_ACCUMULATE);
    int pins = zero__device_is_host(rt) || rt->dev_ops.pin != NULL;
    const char *disk = rt->tiers[ZERO__T_DISK].name;

    now[PREFETCH] = r->prefetch_bytes, least[PREFETCH] = 0;
    now[BUCKET] = r->bucket_bytes, least[BUCKET] = zero__least(LEAST_BYTES, now[BUCKET]);
    now[TILE] = (uint64_t)r->tile * sizeof(float);
    least[TILE] = zero__least(least_tile(rt), now[TILE]);
    now[STAGE] = r->stage, least[STAGE] = r->ranks > 1 && adds ? 3 : r->stage;
    now[CHECKSUM] = s->room.bytes_per_mib;
    least[CHECKSUM] = disk && !strcmp(disk, "nvme") ? 0 : now[CHECKSUM];
    now[OFFLOAD] = AS_IT_IS;
    least[OFFLOAD] = rt->is_auto || !at_end || !pins ? AS_IT_IS : AUTO;
    for (uint32_t k = 0; k < N_KNOBS; k++)
        s->is_programs[k] = zero__option_is_programs(rt->options, names[k]) != 0;
}

int zero__remedies_find(struct zero_runtime *rt, char *text, size_t bytes)
{
    struct search s = {.rt = rt, .text = text, .bytes = bytes};
    int err;

    *text = 0;
    zero__tiers_try(rt);
    err = zero__room_own(rt, &s.room);
    if (err)
        return err;
    ends_set(&s);
    err = knobs_try(&s, 0);
    if (!err)
        err = knobs_try(&s, 1);
    if (!err)
        err = limit_try(&s);
    return err;
}
