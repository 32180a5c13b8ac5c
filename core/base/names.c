/* SPDX-License-Identifier: Apache-2.0 */
#include "base/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define LEAST_CAPACITY 32u

struct zero__name {
    const char *text; /* NULL: the slot is free */
    uint32_t hash, number;
};

static uint32_t hash_of(const char *name)
{
    return (uint32_t)XXH3_64bits(name, strlen(name));
}

/* The slot that has the name, or else the free slot at which a search for the name ends. */
static struct zero__name *slot_of(struct zero__names *t, const char *name, uint32_t hash)
{
    uint32_t i = hash & (t->capacity - 1);

    for (;; i = (i + 1) & (t->capacity - 1)) {
        struct zero__name *x = &t->slots[i];
        t->probes++;
        if (!x->text || (x->hash == hash && strcmp(x->text, name) == 0))
            return x;
    }
}

static int grow(struct zero__names *t)
{
    struct zero__names wide = {.n = t->n, .probes = t->probes};

    if (t->capacity > UINT32_MAX / 2)
        return -ENOMEM;
    wide.capacity = t->capacity ? 2 * t->capacity : LEAST_CAPACITY;
    wide.slots = calloc(wide.capacity, sizeof *wide.slots);
    if (!wide.slots)
        return -ENOMEM;
    for (uint32_t i = 0; i < t->capacity; i++)
        if (t->slots[i].text)
            *slot_of(&wide, t->slots[i].text, t->slots[i].hash) = t->slots[i];
    free(t->slots);
    *t = wide;
    return 0;
}

uint32_t zero__names_find(struct zero__names *t, const char *name)
{
    const struct zero__name *x = t->capacity ? slot_of(t, name, hash_of(name)) : NULL;

    return x && x->text ? x->number : UINT32_MAX;
}

int zero__names_add(struct zero__names *t, const char *name, uint32_t number)
{
    uint32_t hash = hash_of(name);

    if (t->n >= t->capacity / 2 && grow(t))
        return -ENOMEM;
    *slot_of(t, name, hash) = (struct zero__name){name, hash, number};
    t->n++;
    return 0;
}

void zero__names_free(struct zero__names *t)
{
    free(t->slots);
    *t = (struct zero__names){0};
}
