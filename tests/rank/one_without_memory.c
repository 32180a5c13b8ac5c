/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank that gets no memory: in zero_weights_hash(), when the others wait for its values already,
 * in zero_set_order(), or in zero_begin() for the program of a new order. The job ends on all
 * ranks, at once and with one sentence. This program's malloc() stands in front of the C library's.
 */
#include "../sanitized.h"
#include "../tap.h"

#include <errno.h>
#include <time.h>

#include "toy.h"

#define RANKS 2
#define LARGE (UINT64_C(256) << 10) /* the piece in which values come has no less */
#define SOON_MS 10000               /* half the time after which ranks give up */

static _Thread_local size_t refuses; /* the next piece of so many bytes or more; 0: none */

#ifndef SANITIZED /* its malloc() is the sanitizer's */
void *__libc_malloc(size_t bytes);

__attribute__((visibility("default"))) void *malloc(size_t bytes)
{
    if (refuses && bytes >= refuses) {
        refuses = 0;
        errno = ENOMEM;
        return NULL;
    }
    return __libc_malloc(bytes);
}
#endif

enum call { HASH, ORDER, BEGIN };

static const struct {
    const char *name, *words;
} calls[] = {[HASH] = {"zero_weights_hash", "no memory to hash"},
             [ORDER] = {"zero_set_order", "no memory for an order of 2 uses"},
             [BEGIN] = {"zero_begin", "no memory for a step program"}};

struct seen {
    enum call call;
    int err, barrier; /* what it and zero_barrier() returned */
    int64_t ms;
    char text[2][512];
};

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int call(struct zero_runtime *rt, enum call call, int fails)
{
    const struct zero_use uses[] = {{0, ZERO_FORWARD}, {0, ZERO_BACKWARD}};
    int err = call == BEGIN ? zero_set_order(rt, ZERO_TRAIN, uses, 2) : 0;
    uint64_t hash;

    if (err)
        return err;
    refuses = !fails ? 0 : call == HASH ? LARGE : 1;
    if (call == HASH)
        err = zero_weights_hash(rt, &hash);
    else if (call == ORDER)
        err = zero_set_order(rt, ZERO_TRAIN, uses, 2);
    else
        err = zero_begin(rt, ZERO_TRAIN, 1);
    refuses = 0;
    return err;
}

static void committed(struct zero_runtime *rt, int rank, void *arg)
{
    struct seen *s = (struct seen *)arg + rank;

    zero_barrier(rt); /* or the end of the job would meet the others in zero_commit() */
    s->ms = -now_ms();
    s->err = call(rt, s->call, rank == 1);
    snprintf(s->text[0], sizeof s->text[0], "%s", s->err ? zero_last_error() : "");
    s->barrier = zero_barrier(rt);
    snprintf(s->text[1], sizeof s->text[1], "%s", s->barrier ? zero_last_error() : "");
    s->ms += now_ms();
}

static void stage(const char *number, enum call what)
{
    const struct zero_setting s[] = {{"stage", number}, {"timeout", "20"}};
    struct seen seen[RANKS] = {{.call = what, .err = 1}, {.call = what, .err = 1}};
    struct toy t = {.ranks = RANKS, .layers = 2, .steps = 1, .dtype = ZERO_BF16, .width = 100,
                    .settings = s, .n_settings = 2, .seed = 3, .committed = committed,
                    .log = log_nothing, .arg = seen};
    struct toy_result r;
    char words[128];

    toy_train(&t, &r);
    for (int i = 0; i < RANKS; i++) {
        int waits = i == 1 || what != ORDER; /* which waits for nobody */
        ok((seen[i].err == -ENOMEM || !waits) && seen[i].barrier == -ENOMEM &&
               seen[i].ms < SOON_MS,
           "stage %s: without memory for %s() rank %d fails at once, and stays so", number,
           calls[what].name, i);
        diag("%d and %d after %d ms: %s", seen[i].err, seen[i].barrier, (int)seen[i].ms,
             seen[i].text[0]);
        snprintf(words, sizeof words, "rank 1 failed in %s: %s", calls[what].name,
                 calls[what].words);
        has_str(seen[i].text[1], words, "what every rank says then");
    }
}

int main(void)
{
#ifdef SANITIZED
    skip_all("malloc() is the sanitizer's");
#endif
    stage("1", HASH); /* of masters, which are sharded: the others wait in a broadcast */
    stage("3", HASH);
    stage("3", ORDER);
    stage("3", BEGIN);
    done();
}
