/* SPDX-License-Identifier: Apache-2.0 */
#include "place/room.h"

#include <errno.h>
#include <stdlib.h>
#include <xxhash.h>

#include "base/checked.h"
#include "base/grow.h"
#include "base/memory_limit.h"
#include "base/shared_options.h"
#include "base/status.h"
#include "memory/limits.h"
#include "place/placer.h"

/* A device of its own memory has what is free there. */
static int device_room(struct zero__placer *placer, uint64_t limit, struct zero__room *room)
{
    struct zero_device_info info = {.size = sizeof info};
    int err = room->is_host ? 0 : placer->site->dev_ops.info(placer->site->dev, &info);

    room->device = UINT64_MAX;
    if (!err && !room->is_host)
        room->device = zero__device_share(info.free_bytes, placer->site->device_sharers);
    room->tier[ZERO__T_DEVICE] = zero__least(limit, room->device);
    return err ? zero__while(err, "what is free on device %s", placer->site->device_name) : 0;
}

int zero__room_own(struct zero__placer *placer, struct zero__room *room)
{
    const struct zero__tier_store *disk = &placer->site->tiers[ZERO__T_DISK];

    *room = (struct zero__room){.tiers = 1u << ZERO__T_DEVICE,
                                .is_host = zero__device_is_host(placer->site) != 0,
                                .disk_is_host = zero__disk_is_host(placer) != 0,
                                .bytes_per_mib = disk->info.bytes_per_mib,
                                .relay = zero__relay_bytes(placer->run),
                                .options = zero__shared_options_hash(placer->site->options),
                                .kept = 4,
                                .slack = 2 * ZERO_BUFFER_ALIGN *
                                         (uint64_t)placer->site->model.n_segments};
    int err = device_room(placer, placer->site->limit.device_bytes, room);
    if (err)
        return err;
    room->machine =
        zero__memory_share(zero__memory_left(NULL, 0), (uint32_t)placer->site->local_ranks);
    room->machine -= room->machine / 32;          /* until it is reserved, others take of it, too */
    for (uint32_t w = 0; w < ZERO__N_PLACED; w++) /* of auto, tiers that some ranks lack are left */
        room->spread = room->spread << ZERO__N_TIERS |
                       (placer->is_auto ? (1u << ZERO__N_TIERS) - 1 : placer->spread[w]);
    room->tier[ZERO__T_CPU] = placer->site->limit.cpu_bytes;
    room->tier[ZERO__T_DISK] = zero__disk_room(placer);
    for (uint32_t t = ZERO__T_DEVICE + 1; t < ZERO__N_TIERS; t++)
        room->tiers |= placer->site->tiers[t].name ? 1u << t : 0;
    return 0;
}

int zero__room_find(struct zero__placer *placer, struct zero__room *room)
{
    struct zero__room *all = NULL;
    int err = zero__room_own(placer, room);

    if (!err)
        all = zero__ranks_ask(placer->site, room, sizeof *room, &err);
    for (int i = 0; i < placer->site->ranks && !err; i++) {
        for (uint32_t t = 0; t < ZERO__N_TIERS; t++)
            room->tier[t] = zero__least(room->tier[t], all[i].tier[t]);
        room->machine = zero__least(room->machine, all[i].machine);
        room->device = zero__least(room->device, all[i].device);
        room->tiers &= all[i].tiers;
        room->is_host &= all[i].is_host;
        room->disk_is_host |= all[i].disk_is_host;
        if (room->spread != all[i].spread || room->options != all[i].options)
            room->spread = ZERO__APART;
        if (all[i].bytes_per_mib > room->bytes_per_mib)
            room->bytes_per_mib = all[i].bytes_per_mib;
        if (all[i].relay > room->relay)
            room->relay = all[i].relay;
    }
    free(all);
    return err;
}

uint64_t zero__room_lends(const struct zero__room *room, uint32_t tier)
{
    int is_machines = tier == ZERO__T_CPU || (tier == ZERO__T_DEVICE && room->is_host) ||
                      (tier == ZERO__T_DISK && room->disk_is_host);

    return zero__least(room->tier[tier], is_machines ? room->machine / 8 : UINT64_MAX);
}

/* The states beside the transients, and what disk and relay take. */
static void need_add(const struct zero__states *s, const struct zero__room *room,
                     struct zero__need *need)
{
    for (uint32_t t = 0; t < ZERO__N_TIERS; t++)
        need->tier[t] += s->bytes[t];
    need->tier[ZERO__T_CPU] +=
        room->relay + zero__disk_beside((uint32_t)room->bytes_per_mib, need->tier[ZERO__T_DISK]);
}

struct zero__need_known {
    uint64_t places;
    struct zero__need need;
};

void zero__needs_free(struct zero__needs *known)
{
    free(known->list);
    *known = (struct zero__needs){NULL, 0, 0};
}

/* Where everything lies: two recipes that differ in fractions may come to the same. */
static uint64_t places_hash(const struct zero__recipe *r, const struct zero__states *s)
{
    const uint16_t *activations = r->placed[ZERO__P_ACTIVATIONS];
    uint64_t h = XXH3_64bits(activations, ZERO__N_TIERS * sizeof *activations);

    for (uint32_t i = 0; i < s->n_buffers; i++) {
        const struct zero__buffer *b = &s->buffers[i];
        const uint64_t x[] = {b->memory_class, b->tier, b->segment, b->bytes};
        h = XXH3_64bits_withSeed(x, sizeof x, h);
    }
    return h;
}

static const struct zero__need *need_find(const struct zero__needs *known, uint64_t places)
{
    for (uint32_t i = 0; known && i < known->n; i++)
        if (known->list[i].places == places)
            return &known->list[i].need;
    return NULL;
}

static int need_note(struct zero__needs *known, uint64_t places, const struct zero__need *need)
{
    if (!known)
        return 0;
    if (zero__grow(&known->list, &known->capacity, known->n, sizeof *known->list))
        return zero__fail(-ENOMEM, "no memory for what %u placements need", known->n);
    known->list[known->n++] = (struct zero__need_known){places, *need};
    return 0;
}

int zero__need_measure(const struct zero__placer *placer, const struct zero__recipe *r,
                       const struct zero__room *room, struct zero__needs *known,
                       struct zero__need *need)
{
    struct zero__states s;
    int err = zero__states_build(&placer->site->model, r, &s);

    if (err)
        return err;
    const uint64_t places = places_hash(r, &s);
    const struct zero__need *before = need_find(known, places);
    if (before) {
        *need = *before;
    } else {
        err = zero__program_measure(&placer->site->model, r, &s, need->tier);
        if (!err) {
            need_add(&s, room, need);
            err = need_note(known, places, need);
        }
    }
    zero__states_free(&s);
    return err;
}

int zero__need_plan(const struct zero__placer *placer, const struct zero__recipe *r,
                    const struct zero__room *room, struct zero__need *need)
{
    uint32_t threads = (uint32_t)zero__option_int(placer->site->options, ZERO__OPT_THREADS);
    struct zero__program *p = NULL;
    struct zero__states s;
    int err = zero__states_build(&placer->site->model, r, &s);

    if (err)
        return err;
    err = zero__program_compile(&placer->site->model, r, &s, ZERO__PLAN_NODES, threads, &p);
    for (uint32_t t = 0; t < ZERO__N_TIERS && !err; t++)
        need->tier[t] = p->transient_bytes[t];
    need_add(&s, room, need);
    zero__program_free(p);
    zero__states_free(&s);
    return err;
}

static uint64_t of_machine(const struct zero__room *room, const struct zero__need *need)
{
    return need->tier[ZERO__T_CPU] + (room->is_host ? need->tier[ZERO__T_DEVICE] : 0) +
           (room->disk_is_host ? need->tier[ZERO__T_DISK] : 0);
}

int zero__room_holds(const struct zero__room *room, const struct zero__need *need)
{
    int holds = of_machine(room, need) <= room->machine;

    for (uint32_t t = 0; t < ZERO__N_TIERS; t++)
        holds = holds && need->tier[t] <= room->tier[t];
    return holds;
}

int zero__room_takes(const struct zero__room *room, const struct zero__need *need,
                     const struct zero__need *before)
{
    struct zero__need most = *need; /* of any rank; a plan may be larger than what is measured */

    for (uint32_t t = 0; t < ZERO__N_TIERS; t++)
        if (most.tier[t])
            most.tier[t] += (room->slack + most.tier[t] / 128) / 4 * room->kept;
    for (uint32_t t = 0; t < ZERO__N_TIERS; t++) {
        if (most.tier[t] > room->tier[t] && !(before && need->tier[t] <= before->tier[t]))
            return 0;
    }
    return of_machine(room, &most) <= room->machine ||
           (before && of_machine(room, need) <= of_machine(room, before));
}
