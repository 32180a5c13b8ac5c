/* SPDX-License-Identifier: Apache-2.0 */
#include "place/remedy.h"

#include <string.h>

#include "base/checked.h"
#include "base/memory_limit.h"
#include "base/status.h"
#include "place/placer.h"
#include "place/trial.h"

#define LEAST_TILE (UINT64_C(32) << 10) /* ZERO_TILE_BYTES takes no less */

/* In smaller tiles than make so many, what is under way is nothing beside the states, while each of
 * them is several ops and buffers of a program that is planned for every trial. */
#define MOST_TILES 4096u

/* The largest that is enough: what it is now is for speed. */
static int bytes_try(struct search *s, enum knob k, struct trial *t)
{
    int enough = 1, err = 0;

    while (!err) {
        struct trial next = *t;
        next.value[k] = t->value[k] ? 2 * t->value[k] : LEAST_BYTES;
        if (next.value[k] >= s->now.value[k])
            break;
        err = zero__trial_is_enough(s, &next, &enough);
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
    err = zero__trial_is_enough(s, &t, &enough);
    if (err || !enough)
        return err;
    if (k <= TILE)
        err = bytes_try(s, k, &t);
    if (!err)
        zero__trial_say(s, &t);
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
            err = zero__trial_is_enough(s, &t, &enough);
        if (!err && enough)
            zero__trial_say(s, &t);
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
    int enough, err = zero__trial_is_enough(s, &t, &enough);

    if (err || !enough)
        return err;
    for (uint32_t i = 0; i < 2 * n && !err; i++) {
        enum knob k = back[i % n];
        struct trial less = t;
        if (s->is_programs[k] != (i < n) || t.value[k] == s->now.value[k])
            continue;
        less.value[k] = s->now.value[k];
        err = zero__trial_is_enough(s, &less, &enough);
        if (!err && enough)
            t = less;
    }
    if (!err)
        zero__trial_say(s, &t);
    return err;
}

/* Where nothing is enough: the least that was found, with the limits that hold it. */
static int least_try(struct search *s, uint64_t more)
{
    struct limits l;
    int err = zero__trial_limits(s, &s->least, &l);

    if (err || l.more >= more)
        return err;
    zero__limits_text(s->placer, &l, s->limits, sizeof s->limits);
    s->room.tier[ZERO__T_DEVICE] = zero__least(l.most[ZERO__T_DEVICE], s->room.device);
    s->room.tier[ZERO__T_CPU] = l.most[ZERO__T_CPU];
    return all_try(s);
}

/* Limits that hold it as it is, where they are what lacks. */
static int limits_try(struct search *s)
{
    const struct zero__memory_limit *now = &s->placer->site->limit;
    const int is_none = !s->n;
    struct limits l;

    if (now->device_bytes == ZERO__NO_LIMIT && now->cpu_bytes == ZERO__NO_LIMIT)
        return 0;
    int err = zero__trial_limits(s, &s->now, &l);
    if (!err && l.more != UINT64_MAX) {
        zero__limits_text(s->placer, &l, s->limits, sizeof s->limits);
        zero__trial_say(s, &s->now);
    }
    return err || !is_none ? err : least_try(s, l.more);
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

static uint64_t least_tile(const struct zero__placer *placer)
{
    const struct zero__model *m = &placer->site->model;
    uint64_t elements = 0, bytes = LEAST_TILE;

    for (uint32_t i = 0; i < m->n_segments; i++)
        elements +=
            m->segments[i].shard * (placer->site->recipe.stage ? 1 : placer->site->recipe.ranks);
    while (bytes < elements / MOST_TILES * sizeof(float))
        bytes *= 2;
    return bytes;
}

/* What each can be set to; where a setting would be refused for another reason, nothing else. */
static void ends_set(struct search *s)
{
    const struct zero__placer *placer = s->placer;
    const struct zero__recipe *r = &placer->site->recipe;
    uint64_t *now = s->now.value, *least = s->least.value;
    int at_end = zero__option_int(placer->site->options, ZERO__OPT_UPDATE_AT) == ZERO__UPDATE_END;
    int adds = r->accum == 1 || (placer->site->caps.flags & ZERO_COMM_ACCUMULATE);
    int pins = zero__device_is_host(placer->site) || placer->site->dev_ops.pin != NULL;
    const char *disk = placer->site->tiers[ZERO__T_DISK].name;

    now[PREFETCH] = r->prefetch_bytes, least[PREFETCH] = 0;
    now[BUCKET] = r->bucket_bytes, least[BUCKET] = zero__least(LEAST_BYTES, now[BUCKET]);
    now[TILE] = (uint64_t)r->tile * sizeof(float);
    least[TILE] = zero__least(least_tile(placer), now[TILE]);
    now[STAGE] = r->stage, least[STAGE] = r->ranks > 1 && adds ? 3 : r->stage;
    now[CHECKSUM] = s->room.bytes_per_mib;
    least[CHECKSUM] = disk && !strcmp(disk, "nvme") ? 0 : now[CHECKSUM];
    now[OFFLOAD] = AS_IT_IS;
    least[OFFLOAD] = placer->is_auto || !at_end || !pins ? AS_IT_IS : AUTO;
    for (uint32_t k = 0; k < N_KNOBS; k++)
        s->is_programs[k] =
            zero__option_is_programs(placer->site->options, zero__knob_name(k)) != 0;
}

int zero__remedies_find(struct zero__placer *placer, char *text, size_t bytes)
{
    struct search s = {.placer = placer, .text = text, .bytes = bytes};
    int err;

    *text = 0;
    zero__tiers_try(placer);
    err = zero__room_own(placer, &s.room);
    if (err)
        return err;
    ends_set(&s);
    err = knobs_try(&s, 0);
    if (!err)
        err = knobs_try(&s, 1);
    if (!err)
        err = limits_try(&s);
    return err;
}
