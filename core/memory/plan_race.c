/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attempts run in rounds. Within a round threads take the next number each; one that succeeds lets
 * those with higher numbers end early, while those with lower ones go on, for they would win. What
 * a race spent is counted over the attempts up to the winner: the same with any number of threads.
 */
#include "memory/plan_race.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "machine/thread.h"
#include "memory/plan_merge.h"
#include "memory/plan_search.h"

#define ROUND 8u
#define MOST_THREADS 64u
#define SHARES 2u        /* an attempt spends such a part of the effort on each of its steps, */
#define LEAST_SHARE 256u /* or so much for each buffer if that is more */
#define UNMERGED 5u      /* an attempt of the first round that searches the task as it is */

struct race {
    const struct zero__plan_problem *p;
    uint64_t capacity, seed, limit;
    uint32_t first; /* number of the round's first attempt */
    _Atomic uint32_t next, winner;
    _Atomic int err;
    uint64_t effort[ROUND];
    pthread_mutex_t lock; /* of offset */
    uint64_t *offset;     /* the winner's */
};

/* What attempt number k does differently: a few plain rules first, then mixtures at random. */
static void rule_make(uint64_t seed, uint32_t k, uint32_t n, struct zero__plan_merge_rule *rule)
{
    static const double most_lost[] = {0, 0.01, 0.03, 0.05, 0.02, 0.04, 0.06, 0.08};
    static const uint32_t keep[] = {1, 1, 1, 30, 60};
    static const uint32_t veto_percent[] = {0, 0, 2, 5};
    static const double jitter[] = {0, 0.5, 2, 8};
    uint64_t h = zero__plan_hash(seed + k);

    *rule = (struct zero__plan_merge_rule){
        .most_lost = most_lost[k % 8],
        .keep = k == UNMERGED ? UINT32_MAX : 1,
        .in_time_first = k & 1,
        .seed = h,
    };
    if (n > 5000)
        rule->most_lost = 0;
    if (k < 8)
        return;
    rule->keep = h % 32 == 0 ? UINT32_MAX : keep[(h >> 8) % 5];
    rule->veto_percent = veto_percent[(h >> 16) % 4];
    rule->jitter = jitter[(h >> 24) % 4];
    rule->in_time_first = (h >> 32) % 4 == 0;
    rule->shuffle = h >> 40 & 1;
}

/* *found: the attempt has found a plan, which is in offset then. */
static int attempt_run(struct race *r, uint32_t k, uint64_t *offset, bool *found)
{
    const struct zero__plan_problem *p = r->p;
    struct zero__plan_merge_rule rule;
    struct zero__plan_merged merged;
    struct zero__plan_search *search;
    uint64_t *effort = &r->effort[k - r->first];

    rule_make(r->seed, k, p->n, &rule);
    uint64_t share = r->limit / SHARES > LEAST_SHARE * (uint64_t)p->n
                         ? r->limit / SHARES
                         : LEAST_SHARE * (uint64_t)p->n;
    int err = zero__plan_merge(p, r->capacity, &rule, share, &merged, effort);
    if (err)
        return err;
    err = zero__plan_search_create(&merged.problem, &search);
    if (err)
        goto out;
    uint64_t limit = (200 + 20 * (uint64_t)merged.problem.n) * zero__plan_luby(k + 1);
    limit = limit < share ? limit : share;
    *found = zero__plan_search_run(search, r->capacity, rule.seed, limit, &r->winner, k, offset,
                                   effort) == ZERO__PLAN_FOUND;
    if (*found)
        zero__plan_merged_expand(&merged, offset, offset);
    zero__plan_search_destroy(search);
out:
    zero__plan_merged_destroy(&merged);
    return err;
}

static void winner_claim(struct race *r, uint32_t k, const uint64_t *offset)
{
    pthread_mutex_lock(&r->lock);
    if (k < atomic_load(&r->winner)) {
        atomic_store(&r->winner, k);
        memcpy(r->offset, offset, r->p->n * sizeof *offset);
    }
    pthread_mutex_unlock(&r->lock);
}

static void *runner(void *arg)
{
    struct race *r = arg;
    uint64_t *offset = malloc(((size_t)r->p->n + 1) * sizeof *offset);

    if (!offset)
        atomic_store(&r->err, -ENOMEM);
    for (;;) {
        uint32_t k = atomic_fetch_add(&r->next, 1);
        bool found = false;
        if (atomic_load(&r->err) || k >= r->first + ROUND || k > atomic_load(&r->winner))
            break;
        int err = attempt_run(r, k, offset, &found);
        if (err)
            atomic_store(&r->err, err);
        else if (found)
            winner_claim(r, k, offset);
    }
    free(offset);
    return NULL;
}

static void round_run(struct race *r, uint32_t n_threads)
{
    pthread_t thread[MOST_THREADS];
    uint32_t n = 0;

    memset(r->effort, 0, sizeof r->effort);
    atomic_store(&r->next, r->first);
    while (n + 1 < n_threads && n < MOST_THREADS && n + 1 < ROUND) {
        if (zero__thread_create(&thread[n], NULL, runner, r))
            break; /* fewer threads do as well */
        n++;
    }
    runner(r);
    while (n > 0)
        pthread_join(thread[--n], NULL);
}

int zero__plan_race(const struct zero__plan_problem *p, uint64_t capacity, uint64_t seed,
                    uint64_t limit, uint32_t n_threads, uint64_t *offset, bool *found,
                    uint64_t *effort)
{
    struct race r = {
        .p = p,
        .capacity = capacity,
        .seed = seed,
        .limit = limit,
        .winner = UINT32_MAX,
        .offset = offset,
        .lock = PTHREAD_MUTEX_INITIALIZER,
    };
    uint64_t spent = 0;

    while (spent < limit && atomic_load(&r.winner) == UINT32_MAX) {
        round_run(&r, n_threads);
        if (atomic_load(&r.err)) /* a thread had no memory */
            return zero__plan_no_memory(p->n);
        for (uint32_t k = 0; k < ROUND && r.first + k <= atomic_load(&r.winner); k++)
            spent += r.effort[k];
        r.first += ROUND;
    }
    *found = atomic_load(&r.winner) != UINT32_MAX;
    *effort += spent;
    return 0;
}
