/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that posted different collectives: where they first differ, and who is alone with what it
 * posted. Nobody is, unless all others that came so far agree and are more than half of the job's
 * ranks: between two ranks, or where a third had not come so far, nobody can know who is wrong.
 */
#include "config.h"

#include "rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUPS_MOST 4 /* different collectives that are shown */

/* The ranks' collectives of one number. */
struct place {
    const struct report_rank *all;
    const struct report_coll **colls; /* by report; NULL: it has none of this number */
    int n, ranks;
};

static bool place_fill(struct place *p, const char *queue, uint64_t sequence)
{
    const struct report_coll *first = NULL;
    bool same = true;

    for (int i = 0; i < p->n; i++) {
        p->colls[i] = report_coll_find(&p->all[i], queue, sequence);
        first = first ? first : p->colls[i];
        same &= !p->colls[i] || strcmp(p->colls[i]->text, first->text) == 0;
    }
    return same;
}

/* How many have the same as report i. */
static int place_count(const struct place *p, int i)
{
    int n = 0;

    for (int k = 0; k < p->n; k++)
        n += p->colls[k] && strcmp(p->colls[k]->text, p->colls[i]->text) == 0;
    return n;
}

/* The first report that has the same as report i. */
static bool place_is_first(const struct place *p, int i)
{
    for (int k = 0; k < i; k++)
        if (p->colls[k] && strcmp(p->colls[k]->text, p->colls[i]->text) == 0)
            return false;
    return true;
}

static void place_print(const struct place *p)
{
    int n_groups = 0;

    for (int i = 0; i < p->n; i++) {
        if (!p->colls[i] || !place_is_first(p, i))
            continue;
        if (n_groups++ == GROUPS_MOST) {
            puts("  and others");
            return;
        }
        printf("  rank%s", place_count(p, i) == 1 ? "" : "s");
        for (int k = i, more = 0; k < p->n; k++)
            if (p->colls[k] && strcmp(p->colls[k]->text, p->colls[i]->text) == 0)
                printf("%s %d", more++ ? "," : "", p->all[k].head.rank);
        printf(": %s%s\n", p->colls[i]->text,
               p->colls[i]->waiting ? " (about to be posted)" : "");
    }
}

/* The rank that is alone; -1: none is, or more ranks than one are. */
static int place_alone(const struct place *p)
{
    int there = 0, alone = -1;

    for (int i = 0; i < p->n; i++)
        there += p->colls[i] != NULL;
    for (int i = 0; i < p->n; i++) {
        if (!p->colls[i])
            continue;
        int same = place_count(p, i);
        if (same == 1 && alone < 0)
            alone = i;
        else if (same != there - 1)
            return -1;
    }
    return alone >= 0 && there > 2 && 2 * (there - 1) > p->ranks ? p->all[alone].head.rank : -1;
}

/* The numbers that any report has of a queue. */
static void range(const struct report_rank *all, int n, const char *queue, uint64_t *first,
                  uint64_t *last)
{
    *first = UINT64_MAX;
    *last = 0;
    for (int i = 0; i < n; i++)
        for (unsigned k = 0; k < all[i].n_colls; k++) {
            const struct report_coll *c = &all[i].colls[k];
            if (strcmp(all[i].queues[c->queue].name, queue) != 0)
                continue;
            *first = c->sequence < *first ? c->sequence : *first;
            *last = c->sequence > *last ? c->sequence : *last;
        }
}

/* Where the ranks first differ in a queue; false: they do not, as far as the reports go. */
static bool find(struct place *p, const char *queue)
{
    uint64_t first, last;

    range(p->all, p->n, queue, &first, &last);
    if (last - first >= (uint64_t)REPORT_COLLS_MOST) /* of a damaged report */
        last = first;
    for (uint64_t s = first; s <= last; s++) {
        if (place_fill(p, queue, s))
            continue;
        printf("the ranks differ at collective #%llu of queue %s:\n", (unsigned long long)s, queue);
        place_print(p);
        return true;
    }
    return false;
}

int report_differ(const struct report_rank *all, int n, int ranks)
{
    struct place p = {.all = all, .n = n, .ranks = ranks};
    int culprit = -1, found = 0, several = 0;

    p.colls = calloc((size_t)n, sizeof *p.colls);
    if (!p.colls) {
        fputs("zero report: no memory to compare what the ranks posted\n", stderr);
        return -1;
    }
    for (unsigned k = 0; k < all[0].n_queues; k++) {
        if (!find(&p, all[0].queues[k].name))
            continue;
        int alone = place_alone(&p);
        found = 1;
        several |= alone >= 0 && culprit >= 0 && alone != culprit;
        culprit = alone >= 0 ? alone : culprit;
    }
    if (!found)
        puts("no two reports have different collectives of one number: that of a rank is not in "
             "them, or was changed below the library");
    free(p.colls);
    if (culprit < 0 || several)
        return -1;
    printf("rank %d is alone with what it posted\n", culprit);
    return culprit;
}
