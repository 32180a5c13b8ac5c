/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A planning task in the form that the solvers work on. Sizes and offsets are in units of the
 * alignment; time is cut down to slots, one for each maximal set of buffers alive together: all
 * other moments see a subset of such a set and cannot matter. Buffers without bytes or life are
 * left out, so size > 0 and first < last for all.
 */
#ifndef ZERO_MEMORY_PLAN_PROBLEM_H
#define ZERO_MEMORY_PLAN_PROBLEM_H

#include "memory/plan.h"
#include "memory/plan_levels.h"

struct zero__plan_problem {
    uint32_t n, n_slots;
    uint32_t *id;    /* n: index in the caller's array */
    uint32_t *first; /* n: slots first <= s < last */
    uint32_t *last;
    uint64_t *size; /* n */
    uint64_t *load; /* n_slots: sum of the sizes alive */
    struct zero__plan_levels loads; /* the same, for ranges of slots */
    uint64_t bound; /* the largest load */
    void *block;    /* owns all arrays */
};

int zero__plan_problem_create(const struct zero__plan_buffer *buffers, uint32_t n, uint64_t align,
                              struct zero__plan_problem *out);
void zero__plan_problem_destroy(struct zero__plan_problem *p);

/*
 * Sorts the buffers into list by slot[b], which is their first or their last slot, and by number;
 * at[s] is where those of slot s begin, and has room for n_slots + 2.
 */
void zero__plan_by_slot(const struct zero__plan_problem *p, const uint32_t *slot, uint32_t *list,
                        uint32_t *at);

/* -ENOMEM, with its sentence: there is no memory to plan n buffers. */
int zero__plan_no_memory(uint32_t n);

/* The splitmix64 finaliser: a fixed random function. */
static inline uint64_t zero__plan_hash(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* The same as a fraction: 0 or more, less than 1. */
static inline double zero__plan_chance(uint64_t x)
{
    return (double)(zero__plan_hash(x) >> 40) / 0x1p24;
}

/* The k-th term of 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8 ..., k from 1: runs of all lengths get equal
 * shares of the effort, which suits a search that either succeeds soon or not at all. */
static inline uint64_t zero__plan_luby(uint64_t k)
{
    for (;;) {
        unsigned bits = 64 - (unsigned)__builtin_clzll(k);
        if (k == (UINT64_C(1) << bits) - 1)
            return UINT64_C(1) << (bits - 1);
        k -= (UINT64_C(1) << (bits - 1)) - 1;
    }
}

#endif
