/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prefetch and overlap are real. On a wire where every gather and reduction takes D longer, with
 * units that compute for 2 D, a step grows by the first gather and the last reduction only, plus
 * 10 % of the step; without prefetch it grows by every gather. This test is about time, so it takes
 * medians and, on a machine that was busy with something else, up to three attempts.
 */
#include "../tap.h"

#include <time.h>

#include "toy.h"

#define RANKS 2
#define LAYERS 5
#define STEPS 4 /* the first is not measured */
#define D_MS 20
#define ATTEMPTS 3

struct clock {
    double began, steps[STEPS];
};

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void stepped(struct zero_runtime *rt, int rank, int step, const struct zero_step_info *info,
                    void *arg)
{
    struct clock *c = arg;

    (void)rt, (void)info;
    if (rank)
        return;
    c->steps[step] = now_ms() - c->began;
    c->began = now_ms();
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void run(const char *stage, const char *delay_us, const char *prefetch, const char *reverse,
                uint32_t compute_ms, struct clock *c, struct toy_result *r)
{
    const char *build = getenv("ZERO_TEST_BUILD");
    char slow[4096], shm[4096];

    snprintf(slow, sizeof slow, "%s/tests/plugin/.libs/zero-comm-slow.so", build ? build : ".");
    snprintf(shm, sizeof shm, "%s/.libs/zero-comm-shm.so", build ? build : ".");
    struct zero_setting s[] = {{"stage", stage},       {"comm", slow},
                               {"slow_plugin", shm},   {"slow_us", delay_us},
                               {"timeout", "20"},      {"prefetch_bytes", prefetch},
                               {"retain_bytes", "-1"}, {"slow_reverse", reverse}};
    struct toy t = {.ranks = RANKS, .layers = LAYERS, .steps = STEPS, .dtype = ZERO_F32,
                    .width = 2000, .settings = s, .n_settings = 8, .seed = 1,
                    .compute_ms = compute_ms, .stepped = stepped, .arg = c};
    *c = (struct clock){0};
    if (toy_train(&t, r))
        diag("%s", r->error);
}

/* Milliseconds of a step, or -1. */
static double step_ms(const char *stage, int slow, const char *prefetch)
{
    struct toy_result r;
    struct clock c;

    run(stage, slow ? "20000" : "0", prefetch, "0", 2 * D_MS, &c, &r);
    if (r.err)
        return -1;
    qsort(c.steps + 1, STEPS - 1, sizeof *c.steps, by_value);
    return c.steps[1 + (STEPS - 1) / 2];
}

/* A step on the slow wire against one on the fast. */
static void hidden(const char *stage)
{
    for (int attempt = 1; attempt <= ATTEMPTS; attempt++) {
        double fast = step_ms(stage, 0, "128M"), slow = step_ms(stage, 1, "128M");
        double most = fast + 2 * D_MS + fast / 10;
        int good = fast > 0 && slow > 0 && slow <= most;
        diag("stage %s: %.1f ms, on the slow wire %.1f ms, allowed %.1f ms", stage, fast, slow,
             most);
        if (!good && attempt < ATTEMPTS)
            continue;
        ok(good, "stage %s hides all but the first gather and the last reduction", stage);
        return;
    }
}

/* Without prefetch every use waits for its gather. */
static void exposed(void)
{
    for (int attempt = 1; attempt <= ATTEMPTS; attempt++) {
        double fast = step_ms("3", 0, "0"), slow = step_ms("3", 1, "0");
        double least = fast + 0.9 * 2 * LAYERS * D_MS, most = fast + (2 * LAYERS + 1) * D_MS * 1.1;
        int good = fast > 0 && slow >= least && slow <= most + fast / 10;
        diag("no prefetch: %.1f ms, on the slow wire %.1f ms, expected %.1f to %.1f ms", fast, slow,
             least, most + fast / 10);
        if (!good && attempt < ATTEMPTS)
            continue;
        ok(good, "without prefetch a step grows by every gather");
        return;
    }
}

/* Whoever completes first: the ops of a queue are done in order, and the numbers are the same. */
static void reordered(const char *stage)
{
    struct toy_result straight, reverse;
    struct clock c;

    run(stage, "0", "128M", "0", 0, &c, &straight);
    run(stage, "3000", "128M", "1", 0, &c, &reverse);
    ok(!straight.err && !reverse.err && reverse.agree && straight.hash == reverse.hash,
       "stage %s: completions in reverse order change nothing", stage);
}

int main(void)
{
    alarm(120);
    hidden("3");
    exposed();
    hidden("2");
    reordered("1");
    reordered("3");
    done();
}
