/* SPDX-License-Identifier: Apache-2.0 */
/* What may lie in the corner, what leaving it empty costs, and which choice looks best. */
#include "memory/plan_valley.h"

/* Some slot of buffer b has something solid right below height. */
static bool is_supported(const struct zero__plan_skyline *s, uint32_t b, uint64_t height)
{
    for (uint32_t k = s->p->first[b]; k < s->p->last[b]; k++)
        if (s->solid[k] == height)
            return true;
    return false;
}

/* b would lie exactly upon a buffer of the same life, and that one has the higher number: the two
 * can change places, and that order is looked at instead. */
static bool is_mirrored(const struct zero__plan_skyline *s, uint32_t b, uint64_t height)
{
    const struct zero__plan_problem *p = s->p;
    uint32_t first = p->first[b], last = p->last[b], c = s->top[first];

    if (c == ZERO__PLAN_NOBODY || c < b || p->first[c] != first || p->last[c] != last)
        return false;
    for (uint32_t k = first; k < last; k++)
        if (s->top[k] != c || s->solid[k] != height)
            return false;
    return true;
}

/* The buffer before b in its list is its equal and still unplaced: either will do. */
static bool is_repeated(const struct zero__plan_skyline *s, const uint32_t *list, uint32_t k)
{
    const struct zero__plan_problem *p = s->p;
    uint32_t b = list[k];

    while (k-- > 0) {
        uint32_t c = list[k];
        if (p->size[c] != p->size[b] || p->first[c] != p->first[b] || p->last[c] != p->last[b])
            return false;
        if (!s->placed[c])
            return true;
    }
    return false;
}

/* Good: the top is level with the wall, and the valley is filled from end to end. */
static double merit(const struct zero__plan_skyline *s, const struct zero__plan_valley *v,
                    bool right, uint32_t b, enum zero__plan_order order, uint64_t seed)
{
    const struct zero__plan_problem *p = s->p;
    uint64_t top = v->height + p->size[b];
    uint64_t near = right ? v->right_wall : v->left_wall;
    uint64_t far = right ? v->left_wall : v->right_wall;
    bool fills = p->first[b] == v->first && p->last[b] == v->last;
    double length = (double)(p->last[b] - p->first[b]), fit = 0, rest = 0;

    fit += top == near ? 4 : 0;
    fit += fills ? 2 : 0;
    fit += fills && top == far ? 4 : 0;
    fit -= top > near || top > far ? 1 : 0;
    switch (order) {
    case ZERO__PLAN_BY_LENGTH:
        rest = length;
        break;
    case ZERO__PLAN_BY_AREA:
        rest = length * (double)p->size[b];
        break;
    case ZERO__PLAN_BY_SIZE:
        rest = (double)p->size[b];
        break;
    case ZERO__PLAN_AT_RANDOM:
        rest = (double)(zero__plan_hash(b ^ seed) >> 12);
        break;
    }
    return fit * 1e30 + rest; /* rest < 2^96 */
}

/* What lies in the valley apart from the corner: how far from the corner the nearest buffer begins,
 * and the smallest size of all. */
struct others {
    uint32_t nearest;
    uint64_t smallest;
};

static struct others others_of(const struct zero__plan_skyline *s,
                               const struct zero__plan_valley *v, bool right)
{
    const struct zero__plan_problem *p = s->p;
    struct others o = {right ? v->first : v->last, UINT64_MAX};
    const uint32_t *list = right ? s->ends : s->starts, *at = right ? s->ends_at : s->starts_at;

    for (uint32_t k = v->first + 1; k < v->last; k++) {
        for (uint32_t j = at[k]; j < at[k + 1]; j++) {
            uint32_t b = list[j];
            if (s->placed[b] || p->first[b] < v->first || p->last[b] > v->last)
                continue;
            if (right ? k > o.nearest : k < o.nearest)
                o.nearest = k;
            if (p->size[b] < o.smallest)
                o.smallest = p->size[b];
        }
    }
    return o;
}

/*
 * The choice of leaving the corner empty. Then the slots from it to the nearest buffer of the
 * valley are lost up to what can next lie there: it rests on the wall, or on a buffer of the
 * valley.
 */
static bool choice_lose(const struct zero__plan_skyline *s, const struct zero__plan_valley *v,
                        bool right, struct zero__plan_choice *out)
{
    uint64_t low = v->left_wall < v->right_wall ? v->left_wall : v->right_wall;
    uint64_t near = right ? v->right_wall : v->left_wall;
    struct others o = others_of(s, v, right);
    uint64_t loss;

    if (o.smallest == UINT64_MAX) {
        if (low == UINT64_MAX)
            return false;
        loss = low - v->height;
    } else {
        loss = o.smallest;
        if (near != UINT64_MAX && near - v->height < loss)
            loss = near - v->height;
    }
    *out = (struct zero__plan_choice){
        .buffer = ZERO__PLAN_NOBODY,
        .first = right ? o.nearest : v->first,
        .last = right ? v->last : o.nearest,
        .height = v->height + loss,
        .merit = -1e300,
    };
    for (uint32_t k = out->first; k < out->last; k++)
        if (s->slack[k] < loss)
            return false;
    return true;
}

uint32_t zero__plan_valley_choices(const struct zero__plan_skyline *s,
                                   const struct zero__plan_valley *v, bool right,
                                   enum zero__plan_order order, uint64_t seed,
                                   struct zero__plan_choice *choices, uint32_t room)
{
    const struct zero__plan_problem *p = s->p;
    const uint32_t *at = right ? s->ends_at + v->last : s->starts_at + v->first;
    const uint32_t *list = (right ? s->ends : s->starts) + at[0];
    uint64_t low = v->left_wall < v->right_wall ? v->left_wall : v->right_wall;
    uint64_t slack = s->slack[right ? v->last - 1 : v->first], filling = 0;
    struct zero__plan_choice lose;
    uint32_t n = 0;

    for (uint32_t k = 0; k < at[1] - at[0]; k++) {
        uint32_t b = list[k];
        if (s->placed[b] || p->first[b] < v->first || p->last[b] > v->last)
            continue;
        filling += p->size[b];
        if (!is_supported(s, b, v->height) || is_repeated(s, list, k) ||
            is_mirrored(s, b, v->height))
            continue;
        if (n < room)
            choices[n] = (struct zero__plan_choice){
                .buffer = b,
                .height = v->height,
                .merit = merit(s, v, right, b, order, seed),
            };
        n++;
    }
    /* Below the lower wall only these can fill the corner slot. */
    if (low != UINT64_MAX && filling < low - v->height && low - v->height - filling > slack)
        return 0;
    if (slack > 0 && choice_lose(s, v, right, &lose)) {
        if (n < room)
            choices[n] = lose;
        n++;
    }
    return n;
}
