/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/plan_rank.h"

#include <stdlib.h>

static double most_load(const struct zero__plan_problem *p, uint32_t i)
{
    return (double)zero__plan_levels_most(&p->loads, p->first[i], p->last[i]);
}

double zero__plan_rank(const struct zero__plan_problem *p, enum zero__plan_rule rule, uint32_t i)
{
    double size = (double)p->size[i], length = (double)(p->last[i] - p->first[i]);

    switch (rule) {
    case ZERO__PLAN_RANK_LOAD:
        return most_load(p, i);
    case ZERO__PLAN_RANK_LENGTH:
        return length;
    case ZERO__PLAN_RANK_SIZE:
        return size;
    case ZERO__PLAN_RANK_AREA:
        return size * length;
    case ZERO__PLAN_RANK_LONG_AREA:
        return size * length * length;
    case ZERO__PLAN_RANK_BIG_AREA:
        return size * size * length;
    case ZERO__PLAN_RANK_START:
        return -(double)p->first[i];
    case ZERO__PLAN_RANK_END:
        return (double)p->last[i];
    case ZERO__PLAN_N_RULES:
        break;
    }
    return 0;
}

static int ranked_compare(const void *pa, const void *pb)
{
    const struct zero__plan_ranked *a = pa, *b = pb;
    if (a->key != b->key)
        return a->key > b->key ? -1 : 1;
    return a->buffer < b->buffer ? -1 : a->buffer > b->buffer;
}

void zero__plan_ranked_sort(struct zero__plan_ranked *order, uint32_t n)
{
    qsort(order, n, sizeof *order, ranked_compare);
}
