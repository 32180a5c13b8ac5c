/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a thread that is inside of the transport will come back: one that goes on computing in
 * one call will not, also when another call has begun and ended within; one that gets out does. And
 * whether a call of a disk's plugin has lasted too long, which is counted while somebody looks.
 */
#define _GNU_SOURCE
#include "run/inside.h"

#include <sys/resource.h>
#include <unistd.h>

#include "../tap.h"

#include "base/status.h"
#include "run/runner.h"
#include "machine/clock.h"

#define MOST_MS 800 /* that it may compute */

/* In its own code: what the kernel does for it does not count. */
static int64_t computed_ms(void)
{
    struct rusage u;

    getrusage(RUSAGE_THREAD, &u);
    return (int64_t)u.ru_utime.tv_sec * 1000 + u.ru_utime.tv_usec / 1000;
}

/* Computes, and asks; in between it goes out and in again, if it is to. */
static bool spins(struct zero__inside *in, bool out)
{
    struct zero__inside_watch w;
    int64_t began = computed_ms();
    bool stuck = false;

    zero__inside_watch(&w, in, false);
    while (!stuck && computed_ms() < began + MOST_MS) {
        int64_t until = computed_ms() + 20;
        while (computed_ms() < until)
            for (volatile int i = 0; i < 100000; i++)
                ;
        stuck = zero__inside_is_stuck(&w);
        if (out) {
            zero__inside_end(in, 0);
            zero__inside_begin(in, 0);
        }
    }
    return stuck;
}

/* Looks so often, so many ms apart: is the call said to last too long? */
static bool looks(struct zero__runner *run, struct zero__store_watch *w, int n, int ms)
{
    int err = 0;

    for (int i = 0; i < n && !err; i++) {
        usleep((useconds_t)ms * 1000);
        err = zero__store_stuck(run, w);
    }
    return err != 0;
}

/* A store whose poll() looks at itself. */
struct zero_store {
    struct zero__runner *run;
    struct zero__store_watch w;
    int n, ms;
    bool is_stuck;
};

static int poll_and_look(struct zero_store *s, struct zero_cqe *cqes, uint32_t max, int64_t wait_ns)
{
    (void)cqes, (void)max, (void)wait_ns;
    s->is_stuck = looks(s->run, &s->w, s->n, s->ms);
    return 0;
}

/* Is a call that looks so often said to last too long? */
static bool call_looks(struct zero_store *s, int n, int ms)
{
    const struct zero__tier_store t = {.name = "tape", .ops = {.poll = poll_and_look}, .store = s};

    s->n = n;
    s->ms = ms;
    zero__store_poll(s->run, &t, NULL, 0, 0);
    return s->is_stuck;
}

static void store(void)
{
    struct zero__runner *run = calloc(1, sizeof *run);
    const struct zero__site site = {.timeout_ns = ZERO_SECOND / 10};
    struct zero_store s = {.run = run};

    if (!ok(run, "memory"))
        return;
    run->site = &site;
    ok(!looks(run, &s.w, 30, 40), "nobody is in a call");
    ok(!call_looks(&s, 2, 900), "a call is old, since nobody has looked");
    ok(call_looks(&s, 60, 40) && strstr(zero_last_error(), "tape has not come back"),
       "a call that lasts longer than ZERO_TIMEOUT and what it may wait by itself");
    ok(!looks(run, &s.w, 30, 40), "it has come back");
    ok(!call_looks(&s, 4, 40) && !call_looks(&s, 4, 40), "two calls, each of which is short");
    free(run);
}

int main(void)
{
    struct zero__inside in = {0};

    store();

    ok(!spins(&in, false), "a thread that is not inside");
    int nobody = zero__inside_begin(&in, 0);
    ok(spins(&in, false), "one that is");
    ok(!spins(&in, true), "one that comes out again and again");
    int before = zero__inside_begin(&in, (int)getpid() + 1000000); /* a thread that is waited for */
    ok(!spins(&in, false), "another one is inside");
    zero__inside_end(&in, before);
    ok(spins(&in, false), "the first one again");
    zero__inside_end(&in, nobody);
    ok(!spins(&in, false), "it is outside");
    done();
}
