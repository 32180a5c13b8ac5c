/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks of streams, and the races that were found so far. */
#include "device/host_race.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES 1024u /* a power of two */
#define NAME_BYTES 48u
#define PAIRS 64u
#define TEXT_BYTES 8192u

struct track {
    char name[32];
    struct race_clock clock;
};

struct pair {
    uint32_t what[2], stream[2];
    bool write[2];
};

struct race {
    struct track tracks[RACE_STREAMS];
    struct race_map *map;
    char names[NAMES][NAME_BYTES];
    struct pair pairs[PAIRS];
    int n_pairs;
    bool lost; /* an allocation failed */
    char text[TEXT_BYTES];
    size_t text_bytes;
};

struct race *race_create(void)
{
    struct race *r = calloc(1, sizeof *r);

    if (!r || !(r->map = race_map_create())) {
        free(r);
        return NULL;
    }
    for (uint32_t i = 0; i < RACE_STREAMS; i++)
        r->tracks[i].clock.at[i] = 1;
    return r;
}

void race_destroy(struct race *r)
{
    if (!r)
        return;
    race_map_destroy(r->map);
    free(r);
}

void race_stream(struct race *r, uint32_t stream, const char *name)
{
    snprintf(r->tracks[stream].name, sizeof r->tracks[stream].name, "%s", name);
}

/* The number of a name; a full table calls the rest by its first name. */
static uint32_t intern(struct race *r, const char *name)
{
    uint32_t hash = 2166136261u;

    for (const char *c = name; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    for (uint32_t i = 0; i < NAMES; i++) {
        uint32_t at = (hash + i) % NAMES;
        if (!r->names[at][0])
            snprintf(r->names[at], NAME_BYTES, "%s", name);
        if (strncmp(r->names[at], name, NAME_BYTES - 1) == 0)
            return at;
    }
    return hash % NAMES;
}

static bool known_pair(struct race *r, const struct pair *p)
{
    for (int i = 0; i < r->n_pairs; i++) {
        const struct pair *q = &r->pairs[i];
        if (q->what[0] == p->what[0] && q->what[1] == p->what[1] && q->stream[0] == p->stream[0] &&
            q->stream[1] == p->stream[1] && q->write[0] == p->write[0] &&
            q->write[1] == p->write[1])
            return true;
    }
    return false;
}

static void report(void *arg, const struct race_access *old, bool old_write,
                   const struct race_access *now, bool now_write, uint64_t low, uint64_t high)
{
    struct race *r = arg;
    struct pair p = {{old->what, now->what}, {old->stream, now->stream}, {old_write, now_write}};
    size_t left = TEXT_BYTES - r->text_bytes;
    int n;

    if (r->n_pairs == (int)PAIRS || known_pair(r, &p))
        return;
    r->pairs[r->n_pairs++] = p;
    n = snprintf(r->text + r->text_bytes, left,
                 "%s %s 0x%llx + %llu on stream %s, not ordered after: %s %s it on stream %s\n",
                 r->names[now->what], now_write ? "writes" : "reads", (unsigned long long)low,
                 (unsigned long long)(high - low), r->tracks[now->stream].name, r->names[old->what],
                 old_write ? "writes" : "reads", r->tracks[old->stream].name);
    if (n > 0)
        r->text_bytes += (size_t)n < left ? (size_t)n : left - 1;
}

static void join(struct race_clock *to, const struct race_clock *from)
{
    for (uint32_t i = 0; i < RACE_STREAMS; i++)
        if (from->at[i] > to->at[i])
            to->at[i] = from->at[i];
}

void race_touch(struct race *r, uint32_t stream, const void *base, uint64_t bytes, bool write,
                const char *what)
{
    const struct race_clock *clock = &r->tracks[stream].clock;
    struct race_access access = {.stream = stream,
                                 .what = intern(r, what && *what ? what : "touch"),
                                 .time = clock->at[stream]};

    if (race_map_access(r->map, (uintptr_t)base, (uintptr_t)base + bytes, access, write, clock,
                        report, r))
        r->lost = true;
}

void race_record(struct race *r, uint32_t stream, struct race_clock **slot)
{
    struct race_clock *clock = &r->tracks[stream].clock;

    if (!*slot && !(*slot = malloc(sizeof **slot))) {
        r->lost = true;
        return;
    }
    **slot = *clock;
    clock->at[stream]++; /* what follows is later than the record */
}

void race_wait(struct race *r, uint32_t stream, const struct race_clock *record)
{
    if (record)
        join(&r->tracks[stream].clock, record);
}

void race_forget(struct race *r, const void *base, uint64_t bytes)
{
    if (race_map_forget(r->map, (uintptr_t)base, (uintptr_t)base + bytes))
        r->lost = true;
}

int race_count(const struct race *r, char *text, size_t n)
{
    if (n)
        snprintf(text, n, "%s", r->text);
    return r->lost ? -ENOMEM : r->n_pairs;
}

uint64_t race_size(const struct race *r)
{
    return race_map_size(r->map);
}
