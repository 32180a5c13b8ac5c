/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a thread that is inside of the transport will come back: one that goes on computing in
 * one call will not, also when another call has begun and ended within; one that gets out does.
 */
#define _GNU_SOURCE
#include "engine/inside.h"

#include <sys/resource.h>
#include <unistd.h>

#include "../tap.h"

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

int main(void)
{
    struct zero__inside in = {0};

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
