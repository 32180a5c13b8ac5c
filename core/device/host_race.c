/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks of streams, and what has to wait for a flag before its clock is known. */
#include "device/host_race.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/kernels.h"

#define NAMES 1024u /* a power of two */
#define NAME_BYTES 48u
#define PAIRS 64u
#define TEXT_BYTES 8192u
#define FLAG_WRITES 16u

struct race_record {
    uint32_t refs;
    bool known;
    struct race_clock clock;
};

enum item_kind {
    ITEM_ACCESS,
    ITEM_RECORD,
    ITEM_WAIT,
    ITEM_WRITE_VALUE,
    ITEM_WAIT_VALUE,
};

struct item {
    struct item *next;
    enum item_kind kind;
    bool write;
    uint32_t what;
    uint64_t low, high; /* of an access */
    struct race_record *record;
    const uint64_t *addr;
    uint64_t value, number; /* number: of the stream's waits for flags */
};

/* The last writes of a flag: a wait joins the first that ends it. */
struct flag {
    struct flag *next;
    const uint64_t *addr;
    uint32_t n;
    struct {
        uint64_t value;
        struct race_clock clock;
    } writes[FLAG_WRITES];
};

struct track {
    char name[32];
    struct race_clock clock;
    struct item *first, **last; /* kept back, in order */
    uint64_t n_waits, n_over;   /* for flags: enqueued, over */
};

struct pair {
    uint32_t what[2], stream[2];
    bool write[2];
};

struct race {
    struct track tracks[RACE_STREAMS];
    struct race_map *map;
    struct flag *flags;
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
    for (uint32_t i = 0; i < RACE_STREAMS; i++) {
        r->tracks[i].last = &r->tracks[i].first;
        r->tracks[i].clock.at[i] = 1;
    }
    return r;
}

void race_release(struct race_record *record)
{
    if (record && --record->refs == 0)
        free(record);
}

void race_destroy(struct race *r)
{
    if (!r)
        return;
    for (uint32_t i = 0; i < RACE_STREAMS; i++)
        for (struct item *it = r->tracks[i].first, *next; it; it = next) {
            next = it->next;
            race_release(it->record);
            free(it);
        }
    for (struct flag *f = r->flags, *next; f; f = next) {
        next = f->next;
        free(f);
    }
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

static struct flag *flag_of(struct race *r, const uint64_t *addr)
{
    struct flag *f = r->flags;

    while (f && f->addr != addr)
        f = f->next;
    return f;
}

static const struct race_clock *write_that_ends(struct race *r, const struct item *it)
{
    const struct flag *f = flag_of(r, it->addr);

    for (uint32_t i = 0; f && i < f->n; i++)
        if (f->writes[i].value >= it->value)
            return &f->writes[i].clock;
    return NULL;
}

static void write_value(struct race *r, const struct track *t, const struct item *it)
{
    struct flag *f = flag_of(r, it->addr);

    if (!f) {
        if (!(f = calloc(1, sizeof *f))) {
            r->lost = true;
            return;
        }
        f->addr = it->addr;
        f->next = r->flags;
        r->flags = f;
    }
    if (f->n == FLAG_WRITES)
        memmove(&f->writes[0], &f->writes[1], --f->n * sizeof f->writes[0]);
    f->writes[f->n].value = it->value;
    f->writes[f->n++].clock = t->clock;
}

static bool can_do(struct race *r, const struct track *t, const struct item *it)
{
    switch (it->kind) {
    case ITEM_WAIT:
        return it->record->known;
    case ITEM_WAIT_VALUE:
        return it->number < t->n_over || write_that_ends(r, it);
    default:
        return true;
    }
}

static void do_item(struct race *r, uint32_t stream, const struct item *it)
{
    struct track *t = &r->tracks[stream];
    const struct race_clock *other;

    switch (it->kind) {
    case ITEM_ACCESS:
        if (race_map_access(r->map, it->low, it->high,
                            (struct race_access){
                                .stream = stream, .what = it->what, .time = t->clock.at[stream]},
                            it->write, &t->clock, report, r))
            r->lost = true;
        break;
    case ITEM_RECORD:
        it->record->clock = t->clock;
        it->record->known = true;
        t->clock.at[stream]++; /* what follows is later than the record */
        break;
    case ITEM_WAIT:
        join(&t->clock, &it->record->clock);
        break;
    case ITEM_WRITE_VALUE:
        write_value(r, t, it);
        t->clock.at[stream]++;
        break;
    case ITEM_WAIT_VALUE:
        if ((other = write_that_ends(r, it)))
            join(&t->clock, other);
        break;
    }
    race_release(it->record);
}

/* Does what was kept back, as far as it goes. */
static void drain(struct race *r)
{
    for (bool again = true; again;) {
        again = false;
        for (uint32_t i = 0; i < RACE_STREAMS; i++) {
            struct track *t = &r->tracks[i];
            struct item *it;
            while ((it = t->first) && can_do(r, t, it)) {
                if (!(t->first = it->next))
                    t->last = &t->first;
                do_item(r, i, it);
                free(it);
                again = true;
            }
        }
    }
}

static void enqueue(struct race *r, uint32_t stream, struct item item)
{
    struct track *t = &r->tracks[stream];
    struct item *kept;

    if (!t->first && can_do(r, t, &item)) {
        do_item(r, stream, &item);
        if (item.kind == ITEM_RECORD || item.kind == ITEM_WRITE_VALUE)
            drain(r);
        return;
    }
    if (!(kept = malloc(sizeof *kept))) {
        r->lost = true;
        race_release(item.record);
        return;
    }
    *kept = item;
    kept->next = NULL;
    *t->last = kept;
    t->last = &kept->next;
}

void race_touch(struct race *r, uint32_t stream, const void *base, uint64_t bytes, bool write,
                const char *what)
{
    enqueue(r, stream,
            (struct item){.kind = ITEM_ACCESS,
                          .write = write,
                          .what = intern(r, what && *what ? what : "touch"),
                          .low = (uintptr_t)base,
                          .high = (uintptr_t)base + bytes});
}

void race_record(struct race *r, uint32_t stream, struct race_record **slot)
{
    struct race_record *record = calloc(1, sizeof *record);

    race_release(*slot);
    *slot = record;
    if (!record) {
        r->lost = true;
        return;
    }
    record->refs = 2; /* the event's and the item's */
    enqueue(r, stream, (struct item){.kind = ITEM_RECORD, .record = record});
}

void race_wait(struct race *r, uint32_t stream, struct race_record *record)
{
    if (!record)
        return;
    record->refs++;
    enqueue(r, stream, (struct item){.kind = ITEM_WAIT, .record = record});
}

void race_write_value(struct race *r, uint32_t stream, const uint64_t *addr, uint64_t value)
{
    enqueue(r, stream, (struct item){.kind = ITEM_WRITE_VALUE, .addr = addr, .value = value});
}

void race_wait_value(struct race *r, uint32_t stream, const uint64_t *addr, uint64_t value)
{
    enqueue(r, stream,
            (struct item){.kind = ITEM_WAIT_VALUE,
                          .addr = addr,
                          .value = value,
                          .number = r->tracks[stream].n_waits++});
}

void race_wait_over(struct race *r, uint32_t stream)
{
    r->tracks[stream].n_over++;
    drain(r);
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
