/* SPDX-License-Identifier: Apache-2.0 */
#include "place/trial.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory_limit.h"
#include "place/placer.h"

#define COARSE (UINT64_C(10) << 20) /* limits from here on are told in M */

static const char *const names[N_KNOBS] = {
    "prefetch_bytes", "bucket_bytes", "tile_bytes", "stage", "offload", "nvme_checksum",
};

const char *zero__knob_name(enum knob k)
{
    return names[k];
}

/* ---- Whether a trial has room ---------------------------------------------------------------- */

static void recipe_set(const struct search *s, const struct trial *t, struct zero__recipe *r)
{
    *r = s->placer->site->recipe;
    r->prefetch_bytes = t->value[PREFETCH];
    r->bucket_bytes = t->value[BUCKET];
    if (t->value[TILE] != s->now.value[TILE])
        r->tile = (uint32_t)(t->value[TILE] / sizeof(float));
    if (t->value[STAGE] == r->stage)
        return;
    r->stage = (uint32_t)t->value[STAGE];
    r->map_bytes = 0; /* needs the most */
    if (zero__option_int(s->placer->site->options, ZERO__OPT_REDUCE_AT) == ZERO__REDUCE_AUTO)
        r->boundary = r->stage < 2;
}

static int is_enough_as(const struct search *s, const struct zero__recipe *r, const struct trial *t,
                        int *enough)
{
    struct zero__room room = s->room;
    struct zero__need need;

    room.bytes_per_mib = t->value[CHECKSUM];
    int err = zero__need_measure(s->placer, r, &room, NULL, &need);
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
        uint32_t tiers = s->placer->spread[w], most = tiers & ((2u << tier) - 1), t;
        if (!tiers)
            continue;
        for (t = tier; !((most ? most : tiers) >> t & 1);)
            t = most ? t - 1 : t + 1;
        memset(r->placed[w], 0, sizeof r->placed[w]);
        r->placed[w][t] = ZERO__PLACE_PARTS;
    }
}

static int is_spread(const struct zero__placer *placer)
{
    uint32_t any = 0;

    for (uint32_t w = 0; w < ZERO__N_PLACED; w++)
        any |= placer->spread[w];
    return any != 0;
}

/* What a trial moves, or fills tiers with, in this one; 0: it moves nothing there. */
static int recipe_in(const struct search *s, const struct trial *t, uint32_t tier,
                     struct zero__recipe *r)
{
    uint32_t offload = (uint32_t)t->value[OFFLOAD];

    if ((offload == OPTIMIZER_CPU && tier != ZERO__T_CPU) ||
        (offload == OPTIMIZER_DISK && tier != ZERO__T_DISK) || !(s->room.tiers >> tier & 1))
        return 0;
    if (offload == AS_IT_IS)
        place_spread(s, r, tier);
    else
        place(r, tier, offload == AUTO);
    return 1;
}

/* Where tiers are filled it is enough if one of the placements that begins is (spread.c). */
int zero__trial_is_enough(const struct search *s, const struct trial *t, int *enough)
{
    struct zero__recipe r;
    int err = 0;

    recipe_set(s, t, &r);
    if (t->value[OFFLOAD] == AS_IT_IS && !is_spread(s->placer))
        return is_enough_as(s, &r, t, enough);
    *enough = 0;
    for (uint32_t tier = ZERO__N_TIERS; tier-- > 0 && !*enough && !err;)
        if (recipe_in(s, t, tier, &r))
            err = is_enough_as(s, &r, t, enough);
    return err;
}

/* ---- Limits ---------------------------------------------------------------------------------- */

/* Those that hold a recipe of the trial, if they are less than *out. */
static int limits_less(const struct search *s, const struct zero__recipe *r, const struct trial *t,
                       struct limits *out)
{
    const uint64_t now[] = {s->placer->site->limit.device_bytes, s->placer->site->limit.cpu_bytes};
    struct zero__room room = s->room;
    struct limits l = {.more = 0};
    struct zero__need need;

    room.bytes_per_mib = t->value[CHECKSUM];
    int err = zero__need_measure(s->placer, r, &room, NULL, &need);
    if (err)
        return err;
    room.tier[ZERO__T_DEVICE] = room.device;
    room.tier[ZERO__T_CPU] = UINT64_MAX;
    if (!zero__room_takes(&room, &need, NULL))
        return 0;
    for (uint32_t k = ZERO__T_DEVICE; k <= ZERO__T_CPU; k++) {
        uint64_t bytes = need.tier[k] + need.tier[k] / 128 + room.slack;
        const uint64_t unit = bytes < COARSE ? LEAST_BYTES : UINT64_C(1) << 20;
        bytes = (bytes / unit + 1) * unit;
        l.most[k] = bytes > now[k] ? bytes : now[k];
        l.more += l.most[k] - now[k];
    }
    if (l.more < out->more)
        *out = l;
    return 0;
}

int zero__trial_limits(const struct search *s, const struct trial *t, struct limits *out)
{
    const uint32_t last = ZERO__N_TIERS - 1;
    struct limits l = {.more = UINT64_MAX};
    struct zero__recipe r;
    int err = 0;

    recipe_set(s, t, &r);
    if (t->value[OFFLOAD] == AS_IT_IS) {
        err = limits_less(s, &r, t, &l);
        place_spread(s, &r, last);
        if (!err && is_spread(s->placer))
            err = limits_less(s, &r, t, &l);
    }
    for (uint32_t tier = 0; tier <= last && t->value[OFFLOAD] != AS_IT_IS && !err; tier++)
        if (recipe_in(s, t, tier, &r))
            err = limits_less(s, &r, t, &l);
    if (!err)
        *out = l;
    return err;
}

/* ---- As settings ----------------------------------------------------------------------------- */

static const char *bytes_text(uint64_t bytes, char *text, size_t n)
{
    const unsigned shift = bytes == 0 ? 0 : bytes % (1 << 20) == 0 ? 20 : bytes % 1024 ? 0 : 10;

    snprintf(text, n, "%" PRIu64 "%s", bytes >> shift, shift == 20 ? "M" : shift ? "K" : "");
    return text;
}

void zero__limits_text(const struct zero__placer *placer, const struct limits *l, char *text,
                       size_t bytes)
{
    const uint64_t now[] = {placer->site->limit.device_bytes, placer->site->limit.cpu_bytes};
    char number[32];
    int n = 0;

    *text = 0;
    for (uint32_t t = ZERO__T_DEVICE; t <= ZERO__T_CPU; t++)
        if (now[t] != ZERO__NO_LIMIT)
            n += snprintf(text + n, bytes - (size_t)n, "%s%s:%s", n ? "," : "",
                          t == ZERO__T_DEVICE ? "device" : "cpu",
                          bytes_text(l->most[t], number, sizeof number));
}

static void say(struct search *s, const char *word)
{
    if (s->n < s->bytes)
        s->n += (size_t)snprintf(s->text + s->n, s->bytes - s->n, "%s", word);
}

static void setting_say(struct search *s, const char *name, const char *value)
{
    char text[200];

    say(s, zero__option_how(s->placer->site->options, name, value, text, sizeof text));
}

static void knob_say(struct search *s, enum knob k, uint64_t value)
{
    uint32_t tier = value == OPTIMIZER_CPU ? ZERO__T_CPU : ZERO__T_DISK;
    char text[100];

    if (k == OFFLOAD && value == AUTO)
        snprintf(text, sizeof text, "auto");
    else if (k == OFFLOAD)
        snprintf(text, sizeof text, "optimizer:%s", s->placer->site->tiers[tier].name);
    else if (k == STAGE || k == CHECKSUM) /* the latter is left out or not there at all */
        snprintf(text, sizeof text, "%" PRIu64, value);
    else
        bytes_text(value, text, sizeof text);
    setting_say(s, names[k], text);
}

void zero__trial_say(struct search *s, const struct trial *t)
{
    const char *between = s->n ? "; or " : "";

    if (*s->limits) {
        say(s, between);
        setting_say(s, "memory_limit", s->limits);
        between = " ";
    }
    for (uint32_t k = 0; k < N_KNOBS; k++)
        if (t->value[k] != s->now.value[k]) {
            say(s, between);
            knob_say(s, k, t->value[k]);
            between = " ";
        }
}
