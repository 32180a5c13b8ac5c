/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank whose transport ends with an error first, since a peer is going: the others hear of that
 * peer, not of the rank that noticed, whatever its transport calls it. If nobody is going, it was
 * the rank. A transport that says nothing is told to have done so.
 */
#include "../tap.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "toy.h"

#define RANKS 3
#define LATER_US 20000 /* the end of the peer, after the error */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct zero_runtime *going; /* NULL: it has failed already */
static atomic_int injected;
static char said[RANKS][1024];

static void registered(struct zero_runtime *rt, int rank, void *arg)
{
    (void)arg;
    if (rank == 2) {
        pthread_mutex_lock(&lock);
        going = rt;
        pthread_mutex_unlock(&lock);
    }
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
    if (rank == 2) { /* too late to leave */
        pthread_mutex_lock(&lock);
        going = NULL;
        pthread_mutex_unlock(&lock);
    }
    snprintf(said[rank], sizeof said[rank], "%s", error);
}

static void *leave(void *arg)
{
    (void)arg;
    while (!atomic_load(&injected))
        usleep(1000);
    usleep(LATER_US);
    pthread_mutex_lock(&lock);
    if (going)
        zero_abort(going, "this one is going");
    pthread_mutex_unlock(&lock);
    return NULL;
}

/*
 * What the transport of rank 1 says, or of the one that `how` names, and with what all begin;
 * leaves: rank 2 does. Of one that says nothing all have the words somewhere.
 */
static void run(const char *comm, const char *how, bool leaves, const char *words)
{
    char fault[80];
    struct zero_setting s[] = {{"comm", comm}, {"fault_comm", "shm"}, {"fault", fault},
                               {"timeout", "20"}};
    struct toy t = {.ranks = RANKS, .layers = 3, .steps = 5, .dtype = ZERO_F32, .width = 500,
                    .settings = s, .n_settings = 4, .seed = 1, .registered = registered,
                    .failed = failed, .log = hear};
    struct toy_result r;
    pthread_t thread;
    int good = 0;

    snprintf(fault, sizeof fault, "error=%s%s%s", how, strstr(how, ":rank=") ? "" : ":rank=1",
             strstr(how, ":n=") ? "" : ":n=20");
    atomic_store(&injected, 0);
    memset(said, 0, sizeof said);
    if (leaves && pthread_create(&thread, NULL, leave, NULL))
        bail("cannot start a thread");
    toy_train(&t, &r);
    if (leaves)
        pthread_join(thread, NULL);
    for (int i = 0; i < RANKS; i++) {
        /* Who knows the unit that it waited for says that first. */
        const char *at = strncmp(said[i], "unit ", 5) ? said[i] : strstr(said[i], ": ") + 2;
        const char *found = strstr(at, words);
        good += found && (found == at || strcmp(comm, "mute") == 0);
        diag("rank %d: %s", i, said[i]);
    }
    is_int(good, RANKS, "%s: %s, and a peer %s: all say \"%s\"", comm, how,
           leaves ? "is going" : "is not", words);
}

/* One rank opens its transport on the application's own thread. */
static void run_alone(void)
{
    const struct zero_setting s[] = {
        {"comm", "mute"}, {"fault_comm", "self"}, {"fault", "error=EIO:at=open"}};
    struct toy t = {.ranks = 1, .layers = 3, .steps = 1, .dtype = ZERO_F32, .width = 500,
                    .settings = s, .n_settings = 3, .seed = 1, .log = log_nothing};
    struct toy_result r;

    is_int(toy_train(&t, &r), -EIO, "mute: one rank cannot open it");
    has_str(r.error, "mute did not say why", "and hears who did not say why");
}

int main(void)
{
    static const char *const errors[] = {"EIO:at=done", "ETIMEDOUT:at=done", "EIO:at=progress",
                                         "EIO:at=post", "ECONNRESET:at=done"};
    static const char *const unsaid[] = {"EIO:at=done", "EPROTO:at=done", "EIO:at=progress",
                                         "EIO:at=post", "EIO:at=open:n=1", "EIO:at=split:n=1",
                                         "EAGAIN:at=done"};
    char path[8192];

    snprintf(path, sizeof path, "%s/tests/plugin/.libs:%s", getenv("ZERO_TEST_BUILD"),
             getenv("ZERO_PLUGIN_PATH"));
    setenv("ZERO_PLUGIN_PATH", path, 1);
    alarm(120);
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        run("fault", errors[i], true, "rank 2 failed in abort: this one is going");
    run("fault", "EIO:at=done", false, "rank 1 failed");
    run("fault", "ETIMEDOUT:at=done", false, "fault: "); /* nobody is blamed; its sentence stays */
    run("fault", "ETIMEDOUT:at=progress:rank=0", false, "fault: ");
    for (size_t i = 0; i < sizeof unsaid / sizeof *unsaid; i++)
        run("mute", unsaid[i], false, "mute did not say why");
    run_alone();
    done();
}
