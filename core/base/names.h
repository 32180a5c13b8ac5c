/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table from names to numbers, for the set-up phase: registration asks it whether a name is
 * taken. The table keeps pointers to the names, which belong to the caller and outlive it. A zeroed
 * struct is an empty table.
 */
#ifndef ZERO_BASE_NAMES_H
#define ZERO_BASE_NAMES_H

#include <stdint.h>

struct zero__names {
    struct zero__name *slots; /* open addressing, linear probing, at most half full */
    uint32_t n, capacity;     /* capacity: 0 or a power of two */
    uint64_t probes;          /* slots that all calls so far have looked at */
};

/* The number of a name, or UINT32_MAX if the table has no such name. */
uint32_t zero__names_find(struct zero__names *t, const char *name);
/* Adds a name that the table does not have. 0 or -ENOMEM, without a sentence. */
int zero__names_add(struct zero__names *t, const char *name, uint32_t number);
void zero__names_free(struct zero__names *t);

#endif
