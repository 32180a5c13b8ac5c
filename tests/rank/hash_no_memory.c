/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank that gets no memory in zero_weights_hash(), when the others wait for its values already:
 * the job ends on all ranks, at once and with one sentence. This program's malloc() stands in front
 * of the C library's.
 */
#include "../tap.h"

#include <errno.h>
#include <time.h>

#include "toy.h"

#define RANKS 2
#define LARGE (UINT64_C(256) << 10) /* the piece in which values come has no less */
#define SOON_MS 10000               /* half the time after which ranks give up */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

static _Thread_local int armed; /* the next large piece of memory is not to be had */

#ifndef SANITIZED /* its malloc() is the sanitizer's */
void *__libc_malloc(size_t bytes);

__attribute__((visibility("default"))) void *malloc(size_t bytes)
{
    if (armed && bytes >= LARGE) {
        armed = 0;
        errno = ENOMEM;
        return NULL;
    }
    return __libc_malloc(bytes);
}
#endif

struct seen {
    int hash, begin; /* what these calls returned */
    int64_t ms;
    char text[2][512];
};

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void committed(struct zero_runtime *rt, int rank, void *arg)
{
    struct seen *s = (struct seen *)arg + rank;
    uint64_t hash;

    s->ms = -now_ms();
    armed = rank == 1;
    s->hash = zero_weights_hash(rt, &hash);
    armed = 0;
    s->ms += now_ms();
    snprintf(s->text[0], sizeof s->text[0], "%s", s->hash ? zero_last_error() : "");
    s->begin = zero_begin(rt, ZERO_TRAIN, 1);
    snprintf(s->text[1], sizeof s->text[1], "%s", s->begin ? zero_last_error() : "");
}

static void stage(const char *number)
{
    const struct zero_setting s[] = {{"stage", number}, {"timeout", "20"}};
    struct seen seen[RANKS] = {{.hash = 1}, {.hash = 1}};
    struct toy t = {.ranks = RANKS, .layers = 2, .steps = 1, .dtype = ZERO_BF16, .width = 100,
                    .settings = s, .n_settings = 2, .seed = 3, .committed = committed,
                    .log = log_nothing, .arg = seen};
    struct toy_result r;

    toy_train(&t, &r);
    for (int i = 0; i < RANKS; i++) {
        ok(seen[i].hash == -ENOMEM && seen[i].begin == -ENOMEM && seen[i].ms < SOON_MS,
           "stage %s: without memory for the hash rank %d fails at once, and stays so", number, i);
        diag("%d and %d after %d ms: %s", seen[i].hash, seen[i].begin, (int)seen[i].ms,
             seen[i].text[0]);
        has_str(seen[i].text[1], "rank 1 failed in zero_weights_hash: no memory to hash",
                "what every rank says then");
    }
}

int main(void)
{
#ifdef SANITIZED
    skip_all("malloc() is the sanitizer's");
#endif
    stage("1"); /* of masters, which are sharded: the others wait in a broadcast */
    stage("3");
    done();
}
