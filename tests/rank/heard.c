/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank whose transport ends with an error first, since a peer is going: the others hear of that
 * peer, not of the rank that noticed, whatever its transport calls it. If nobody is going, it was
 * the rank.
 */
#include "../tap.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "toy.h"

#define RANKS 3
#define LATER_US 150000 /* the end of the peer, after the error */

static struct zero_runtime *_Atomic going;
static atomic_int injected;
static char said[RANKS][1024];

static void registered(struct zero_runtime *rt, int rank, void *arg)
{
    (void)arg;
    if (rank == 2)
        atomic_store(&going, rt);
}

static void hear(void *arg, int level, const char *line)
{
    (void)arg, (void)level;
    if (strstr(line, "error=") && strstr(line, "number"))
        atomic_store(&injected, 1);
}

static void failed(int rank, int err, const char *error, void *arg)
{
    (void)err, (void)arg;
    if (rank == 2)
        atomic_store(&going, NULL); /* too late to leave */
    snprintf(said[rank], sizeof said[rank], "%s", error);
}

static void *leave(void *arg)
{
    (void)arg;
    while (!atomic_load(&injected))
        usleep(1000);
    usleep(LATER_US);
    struct zero_runtime *rt = atomic_load(&going);
    if (rt)
        zero_abort(rt, "this one is going");
    return NULL;
}

/* What rank 1's transport says, and who is named by all; leaves: rank 2 does. */
static void run(const char *how, bool leaves, const char *words)
{
    char fault[80];
    struct zero_setting s[] = {{"comm", "fault"}, {"fault_comm", "shm"}, {"fault", fault},
                               {"timeout", "20"}};
    struct toy t = {.ranks = RANKS, .layers = 3, .steps = 5, .dtype = ZERO_F32, .width = 500,
                    .settings = s, .n_settings = 4, .seed = 1, .registered = registered,
                    .failed = failed, .log = hear};
    struct toy_result r;
    pthread_t thread;
    int good = 0;

    snprintf(fault, sizeof fault, "error=%s:rank=1:n=20", how);
    atomic_store(&injected, 0);
    memset(said, 0, sizeof said);
    if (leaves && pthread_create(&thread, NULL, leave, NULL))
        bail("cannot start a thread");
    toy_train(&t, &r);
    if (leaves)
        pthread_join(thread, NULL);
    for (int i = 0; i < RANKS; i++) {
        good += strstr(said[i], words) != NULL;
        diag("rank %d: %s", i, said[i]);
    }
    is_int(good, RANKS, "%s, and a peer %s: all say \"%s\"", how, leaves ? "is going" : "is not",
           words);
}

int main(void)
{
    static const char *const errors[] = {"EIO:at=done", "ETIMEDOUT:at=done", "EIO:at=progress",
                                         "ECONNRESET:at=done"};

    alarm(60);
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        run(errors[i], true, "rank 2 failed in abort: this one is going");
    run("EIO:at=done", false, "rank 1 failed");
    run("ETIMEDOUT:at=done", false, "rank 1");
    done();
}
