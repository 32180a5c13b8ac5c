/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Crash reports of two models that train in the same processes: none overwrites another's, and the
 * model that failed first is the one that `zero report crash` shows, since that ended the other.
 */
#include "../tap.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "toy.h"

#define RANKS 3

static atomic_int first_over; /* ranks of the first model that have left */

struct run {
    struct toy toy;
    struct zero_setting settings[2];
    struct toy_result result;
    pthread_t thread;
    int second;
};

/* Rank 1 gives the first model up; then rank 0 the second one. */
static void stepped(struct zero_runtime *rt, int rank, int step, const struct zero_step_info *info,
                    void *arg)
{
    struct run *r = arg;

    (void)info;
    if (!r->second && rank == 1 && step == 1)
        zero_abort(rt, "this model failed first");
    while (r->second && step == 1 && atomic_load(&first_over) < RANKS)
        usleep(1000);
    if (r->second && rank == 0 && step == 2)
        zero_abort(rt, "the other model is gone");
}

static void failed(int rank, int err, const char *error, void *arg)
{
    struct run *r = arg;

    (void)rank, (void)err, (void)error;
    if (!r->second)
        atomic_fetch_add(&first_over, 1);
}

static void *run_main(void *arg)
{
    struct run *r = arg;
    toy_train(&r->toy, &r->result);
    return NULL;
}

static void run_start(struct run *r, const char *job, const char *dir, int second)
{
    *r = (struct run){.second = second,
                      .settings = {{"crash_dir", dir}, {"timeout", "20"}},
                      .toy = {.ranks = RANKS,
                              .layers = 4,
                              .steps = 100,
                              .dtype = ZERO_F32,
                              .width = 900,
                              .n_settings = 2,
                              .job = job,
                              .model = second ? "second/model" : "first",
                              .stepped = stepped,
                              .failed = failed}};
    r->toy.settings = r->settings;
    r->toy.arg = r;
    if (pthread_create(&r->thread, NULL, run_main, r))
        bail("cannot start a thread");
}

/* What the command says about the folder. */
static void report(const char *dir, const char *how, char *text, size_t room)
{
    const char *build = getenv("ZERO_TEST_BUILD");
    char command[1024];

    snprintf(command, sizeof command, "%s/zero report crash %s %s 2>&1", build ? build : ".", how,
             dir);
    FILE *f = popen(command, "r");
    size_t n = f ? fread(text, 1, room - 1, f) : 0;
    text[n] = 0;
    if (f)
        pclose(f);
}

/* Counts the files of both models, removes them all; the number of the second one's job. */
static void count(const char *dir, int n[2], char number[17], int remove_them)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    char path[600];

    n[0] = n[1] = 0;
    while (d && (e = readdir(d))) {
        n[0] += strstr(e->d_name, "-first-000") != NULL;
        if (strstr(e->d_name, "-second_model-000") && strlen(e->d_name) > 27) {
            n[1]++;
            snprintf(number, 17, "%.16s", e->d_name + 11);
        }
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (remove_them)
            unlink(path);
    }
    if (d)
        closedir(d);
}

int main(void)
{
    char job[64], dir[] = "/tmp/zero-crash-models-XXXXXX", text[8192], how[32], number[17] = "";
    struct run both[2];
    int n[2];

    if (!mkdtemp(dir))
        bail("cannot make a folder");
    snprintf(job, sizeof job, "crash-models-%d", (int)getpid());
    alarm(60);
    for (int i = 0; i < 2; i++)
        run_start(&both[i], job, dir, i);
    for (int i = 0; i < 2; i++)
        pthread_join(both[i].thread, NULL);
    count(dir, n, number, 0);
    ok(n[0] == RANKS && n[1] == RANKS, "every rank of both models has a report: %d and %d", n[0],
       n[1]);
    report(dir, "", text, sizeof text);
    ok(strstr(text, "this model failed first") && strstr(text, "culprit: rank 1") &&
           strstr(text, "in the same processes"),
       "the model that failed first is shown");
    diag("%s", text);
    snprintf(how, sizeof how, "--job %s", number);
    report(dir, how, text, sizeof text);
    ok(strstr(text, "the other model is gone") && strstr(text, "culprit: rank 0"),
       "and the other one by its number");
    count(dir, n, number, 1);
    rmdir(dir);
    done();
}
