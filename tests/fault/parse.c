/* SPDX-License-Identifier: Apache-2.0 */
/* The language of ZERO_FAULT, which fault.h describes. */
#include <errno.h>
#include <string.h>

#include "fault.h"
#include "plugins/common/param.h"

#define GRAMMAR                                                                                   \
    "ACTION[:KEY=VALUE]...[,...] is wanted, with an ACTION delay=MS, error=ERRNO, kill, stop, "   \
    "skip (drops a collective), order (posts it after the next one), size or dtype (change it), " \
    "and KEY=VALUE at=open|split|alloc|exchange|post|progress|done|close, rank=R|any|all, "       \
    "n=N|A-B, times=K, kind=all_gather|reduce_scatter|all_reduce|broadcast|barrier, comm=C"

static const char *const actions[FAULT_N_ACTIONS] = {"delay", "error", "kill",  "stop",
                                                     "skip",  "size",  "dtype", "order"};
static const char *const places[FAULT_N_PLACES] = {"open", "split",    "alloc", "exchange",
                                                   "post", "progress", "done",  "close"};

const char *zero__fault_place_name(enum fault_place place)
{
    return places[place];
}

static bool read_rank(const char *text, int32_t *rank)
{
    uint64_t x;

    if (strcmp(text, "any") == 0)
        *rank = FAULT_ANY_RANK;
    else if (strcmp(text, "all") == 0)
        *rank = FAULT_ALL_RANKS;
    else if (zero__digits_read(text, NULL, 0, INT32_MAX, &x))
        *rank = (int32_t)x;
    else
        return false;
    return true;
}

static bool read_range(const char *text, uint64_t *first, uint64_t *last)
{
    const char *dash = strchr(text, '-');

    if (!zero__digits_read(text, dash, 1, UINT32_MAX, first))
        return false;
    *last = *first;
    return !dash || zero__digits_read(dash + 1, NULL, *first, UINT32_MAX, last);
}

static bool read_kind(const char *text, uint32_t *kinds)
{
    for (uint32_t kind = 0; kind <= ZERO_BARRIER; kind++)
        if (strcmp(text, zero_coll_name(kind)) == 0) {
            *kinds = 1u << kind;
            return true;
        }
    return false;
}

static const char *read_action(void *arg, const char *word, const char *value)
{
    struct fault *f = arg;
    int action = zero__fault_word(word, actions, FAULT_N_ACTIONS);
    uint64_t x;

    if (action < 0)
        return "there is no such action";
    f->action = (enum fault_action)action;
    if (f->action == FAULT_DELAY) {
        if (!value || !zero__digits_read(value, NULL, 0, FAULT_DELAY_MOST_MS, &x))
            return "delay wants milliseconds, at most an hour of them";
        f->delay_ns = (int64_t)x * 1000000;
    } else if (f->action == FAULT_ERROR) {
        if (!value || !zero__fault_errno(value, &x))
            return "error wants the name or number of an errno";
        f->err = -(int)x;
    } else if (value) {
        return "this action takes no value";
    }
    return NULL;
}

static const char *read_key(void *arg, const char *key, const char *value)
{
    struct fault *f = arg;
    uint64_t x;
    int place;

    if (!value)
        return "a key wants a value";
    if (strcmp(key, "at") == 0) {
        place = zero__fault_word(value, places, FAULT_N_PLACES);
        f->place = (enum fault_place)(place < 0 ? 0 : place);
        return place < 0 ? "there is no such place" : NULL;
    }
    if (strcmp(key, "rank") == 0)
        return read_rank(value, &f->rank) ? NULL : "a rank is a number, any or all";
    if (strcmp(key, "n") == 0)
        return read_range(value, &f->first, &f->last) ? NULL : "n is a number from 1, or A-B";
    if (strcmp(key, "kind") == 0)
        return read_kind(value, &f->kinds) ? NULL : "there is no such collective";
    if (strcmp(key, "times") == 0) {
        if (!zero__digits_read(value, NULL, 1, UINT32_MAX, &f->times))
            return "times is a number from 1";
        return NULL;
    }
    if (strcmp(key, "comm") == 0) {
        if (!zero__digits_read(value, NULL, 1, UINT32_MAX, &x))
            return "comm is a number from 1";
        f->comm = (uint32_t)x;
        return NULL;
    }
    return "there is no such key";
}

static const char *read_fault(void *set, int i, char *text)
{
    struct fault *f = &((struct fault_set *)set)->faults[i];
    const char *wrong;

    *f = (struct fault){.place = FAULT_AT_POST,
                        .rank = FAULT_ANY_RANK,
                        .first = 1,
                        .last = 1,
                        .times = 1,
                        .kinds = UINT32_MAX};
    memcpy(f->text, text, strlen(text) + 1);
    wrong = zero__fault_words(text, read_action, read_key, f);
    if (wrong)
        return wrong;
    if (fault_changes(f->action) && f->place != FAULT_AT_POST)
        return "skip, size, dtype and order are for at=post";
    if ((f->comm || f->kinds != UINT32_MAX) && f->place != FAULT_AT_POST &&
        f->place != FAULT_AT_DONE)
        return "kind and comm are for at=post and at=done";
    return NULL;
}

/* A number from 0 to n - 1 that depends on the seed and on what it is for, alike on all ranks. */
static uint64_t draw(uint64_t seed, uint64_t what, uint64_t n)
{
    uint64_t x = (seed + 1) * 0xd1342543de82ef95u + (what + 1) * 0xaf251af3b0f025b5u;

    for (int i = 0; i < 3; i++)
        x = (x ^ (x >> 29)) * 0xda942042e4dd58b5u;
    return (x >> 32) % n;
}

int zero__fault_parse(const struct zero__voice *v, struct fault_set *set)
{
    const char *text = zero__param_text(v, "fault", "",
                                        "Faults that the comm plugin fault injects, as "
                                        "ACTION[:KEY=VALUE]...[,...]");
    int n = zero__fault_list(v, "ZERO_FAULT", text, GRAMMAR, read_fault, set);

    if (n < 0)
        return n;
    set->n = (uint32_t)n;
    return zero__param_number(v, "fault_seed", "1", 0, UINT64_MAX,
                              "Chooses ranks and times that ZERO_FAULT leaves open", &set->seed);
}

int zero__fault_choose(const struct zero__voice *v, struct fault_set *set, int32_t ranks)
{
    const uint64_t seed = set->seed;

    for (uint32_t i = 0; i < set->n; i++) {
        struct fault *f = &set->faults[i];
        if (f->rank == FAULT_ANY_RANK)
            f->rank = (int32_t)draw(seed, 2 * i, (uint64_t)ranks);
        if (f->rank >= ranks)
            return zero__say(v, -EINVAL,
                             "ZERO_FAULT: \"%s\": there is no rank %d, the last one is %d", f->text,
                             f->rank, ranks - 1);
        f->first += draw(seed, 2 * i + 1, f->last - f->first + 1);
        f->last = f->first;
    }
    return 0;
}
