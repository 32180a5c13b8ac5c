/* SPDX-License-Identifier: Apache-2.0 */
/* Initial values of the weights, made by all processors that there are; see model.h. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#include "model.h"
#include "random.h"
#include "vector.h"

enum { MOST_PARTS = 64, LEAST_PART = 1 << 14 }; /* threads, and values of one */

/* Normal numbers in two passes: the tails, which are few, once the rest is made in vectors. */
GPT2_CLONES
static void normal_run(uint64_t key, uint64_t first, size_t n, double deviation,
                       float *restrict values)
{
    for (size_t i = 0; i < n; i++)
        values[i] = (float)(gpt2_normal_middle(gpt2_uniform(key, first + i)) * deviation);
    for (size_t i = 0; i < n; i++) {
        const double u = gpt2_uniform(key, first + i);
        if (u < GPT2_NORMAL_TAIL || u > 1 - GPT2_NORMAL_TAIL)
            values[i] = (float)(gpt2_normal_tail(u) * deviation);
    }
}

struct part {
    pthread_t thread;
    uint64_t key, first;
    size_t n;
    double deviation;
    float *values;
};

static void *part_run(void *arg)
{
    const struct part *p = arg;

    normal_run(p->key, p->first, p->n, p->deviation, p->values);
    return NULL;
}

/* Processors that this process may run on; ranks that have the same ones take turns on them. */
static size_t processors(void)
{
    cpu_set_t set;
    const int n = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);

    return n < 1 ? 1 : n > MOST_PARTS ? MOST_PARTS : (size_t)n;
}

/* Each value is its own, so any number of threads makes the same ones. */
static void normal_parts(uint64_t key, uint64_t first, size_t n, double deviation, float *values)
{
    struct part parts[MOST_PARTS];
    bool started[MOST_PARTS] = {false};
    const size_t wanted = processors(), n_parts = n / LEAST_PART < wanted ? n / LEAST_PART : wanted;
    const size_t each = n_parts > 1 ? n / n_parts : n;

    for (size_t i = 1; i < n_parts; i++) {
        const size_t at = i * each;
        parts[i] = (struct part){.key = key,
                                 .first = first + at,
                                 .n = i + 1 < n_parts ? each : n - at,
                                 .deviation = deviation,
                                 .values = values + at};
        started[i] = pthread_create(&parts[i].thread, NULL, part_run, &parts[i]) == 0;
    }
    normal_run(key, first, each, deviation, values);
    for (size_t i = 1; i < n_parts; i++)
        if (started[i])
            pthread_join(parts[i].thread, NULL);
        else
            part_run(&parts[i]);
}

void gpt2_initial(const struct gpt2_tensor *t, uint32_t index, uint64_t seed, uint64_t first,
                  uint64_t count, float *values)
{
    const uint64_t key = gpt2_key(seed, GPT2_STREAM_WEIGHTS + index);

    if (t->deviation != 0) {
        normal_parts(key, first, count, (double)t->deviation, values);
        return;
    }
    for (uint64_t i = 0; i < count; i++)
        values[i] = t->mean;
}
