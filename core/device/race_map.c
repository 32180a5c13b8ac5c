/* SPDX-License-Identifier: Apache-2.0 */
/* A sorted array of cells; the reads of a cell are a list, taken from and given to a free list. */
#include "device/race_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct read {
    struct race_access access;
    struct read *next;
};

struct cell {
    uint64_t low, high;
    struct race_access write;
    struct read *reads;
};

struct race_map {
    struct cell *cells;
    uint64_t n, room, n_reads;
    struct read *free;
};

struct race_map *race_map_create(void)
{
    return calloc(1, sizeof(struct race_map));
}

static void free_list(struct read *r)
{
    while (r) {
        struct read *next = r->next;
        free(r);
        r = next;
    }
}

void race_map_destroy(struct race_map *map)
{
    if (!map)
        return;
    for (uint64_t i = 0; i < map->n; i++)
        free_list(map->cells[i].reads);
    free_list(map->free);
    free(map->cells);
    free(map);
}

uint64_t race_map_size(const struct race_map *map)
{
    return map->n + map->n_reads;
}

static int add_read(struct race_map *map, struct cell *c, struct race_access access)
{
    struct read *r = map->free;

    if (r)
        map->free = r->next;
    else if (!(r = malloc(sizeof *r)))
        return -ENOMEM;
    *r = (struct read){.access = access, .next = c->reads};
    c->reads = r;
    map->n_reads++;
    return 0;
}

/* Takes *at out of its list. */
static void drop_read(struct race_map *map, struct read **at)
{
    struct read *r = *at;

    *at = r->next;
    r->next = map->free;
    map->free = r;
    map->n_reads--;
}

static void drop_reads(struct race_map *map, struct cell *c)
{
    while (c->reads)
        drop_read(map, &c->reads);
}

/* Makes cells[i] a new one; those from i on move up. */
static int insert(struct race_map *map, uint64_t i, struct cell cell)
{
    if (map->n == map->room) {
        uint64_t room = map->room ? map->room * 2 : 64;
        struct cell *cells = realloc(map->cells, room * sizeof *cells);
        if (!cells)
            return -ENOMEM;
        map->cells = cells;
        map->room = room;
    }
    memmove(&map->cells[i + 1], &map->cells[i], (map->n - i) * sizeof *map->cells);
    map->cells[i] = cell;
    map->n++;
    return 0;
}

static void erase(struct race_map *map, uint64_t i, uint64_t n)
{
    if (!n)
        return;
    for (uint64_t j = i; j < i + n; j++)
        drop_reads(map, &map->cells[j]);
    memmove(&map->cells[i], &map->cells[i + n], (map->n - i - n) * sizeof *map->cells);
    map->n -= n;
}

/* The first cell that ends after `address`. */
static uint64_t find(const struct race_map *map, uint64_t address)
{
    uint64_t low = 0, high = map->n;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (map->cells[middle].high <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Makes `address` a border if it lies inside a cell: both halves keep what is known. */
static int split(struct race_map *map, uint64_t address)
{
    uint64_t i = find(map, address);
    struct cell upper;
    int err;

    if (i == map->n || map->cells[i].low >= address)
        return 0;
    upper = map->cells[i];
    upper.low = address;
    upper.reads = NULL;
    if ((err = insert(map, i + 1, upper)))
        return err;
    map->cells[i].high = address;
    for (const struct read *r = map->cells[i].reads; r && !err; r = r->next)
        err = add_read(map, &map->cells[i + 1], r->access);
    return err;
}

static bool ordered(const struct race_access *old, const struct race_clock *clock)
{
    return old->time <= clock->at[old->stream];
}

static void check(const struct cell *c, const struct race_access *now, bool write,
                  const struct race_clock *clock, race_report_fn *report, void *arg)
{
    if (!ordered(&c->write, clock))
        report(arg, &c->write, true, now, write, c->low, c->high);
    for (const struct read *r = c->reads; write && r; r = r->next)
        if (!ordered(&r->access, clock))
            report(arg, &r->access, false, now, write, c->low, c->high);
}

/* One cell takes the place of cells i … end - 1: the write is all there is to know of them. */
static int enter_write(struct race_map *map, uint64_t i, uint64_t end, uint64_t low, uint64_t high,
                       struct race_access now)
{
    struct cell whole = {.low = low, .high = high, .write = now};

    erase(map, i, end - i);
    return insert(map, i, whole);
}

/* Every cell in [low, high) gets the read, gaps become cells. */
static int enter_read(struct race_map *map, uint64_t i, uint64_t low, uint64_t high,
                      struct race_access now, const struct race_clock *clock)
{
    int err = 0;

    for (; low < high && !err; low = map->cells[i++].high) {
        uint64_t next = i < map->n && map->cells[i].low < high ? map->cells[i].low : high;
        if (low < next && (err = insert(map, i, (struct cell){.low = low, .high = next})))
            return err;
        for (struct read **r = &map->cells[i].reads; *r;)
            if (ordered(&(*r)->access, clock))
                drop_read(map, r);
            else
                r = &(*r)->next;
        err = add_read(map, &map->cells[i], now);
    }
    return err;
}

int race_map_access(struct race_map *map, uint64_t low, uint64_t high, struct race_access now,
                    bool write, const struct race_clock *clock, race_report_fn *report, void *arg)
{
    uint64_t first, end;
    int err;

    if (low >= high)
        return 0;
    if ((err = split(map, low)) || (err = split(map, high)))
        return err;
    first = end = find(map, low);
    for (; end < map->n && map->cells[end].low < high; end++)
        check(&map->cells[end], &now, write, clock, report, arg);
    return write ? enter_write(map, first, end, low, high, now)
                 : enter_read(map, first, low, high, now, clock);
}

int race_map_forget(struct race_map *map, uint64_t low, uint64_t high)
{
    uint64_t first, end;
    int err;

    if (low >= high)
        return 0;
    if ((err = split(map, low)) || (err = split(map, high)))
        return err;
    first = end = find(map, low);
    while (end < map->n && map->cells[end].low < high)
        end++;
    erase(map, first, end - first);
    return 0;
}
