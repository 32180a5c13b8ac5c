/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Crash reports of two models that train in the same processes: none overwrites another's, and the
 * model that failed first is the one that `zero report crash` shows, since that ended the other. A
 * folder that hangs keeps nobody from its error, nor does one that takes no file.
 */
#include "../tap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "toy.h"

#define RANKS 3

#define LIMIT_S 20 /* a report is given up after 5 s */

static atomic_int first_over; /* ranks of the first model that have left */
static atomic_int hangs, full, complaints; /* hangs: reports, 2: already when it is looked at */

/* Like a file system whose server does not answer, and like one without room. */
int open(const char *path, int flags, ...)
{
    va_list ap;

    va_start(ap, flags);
    unsigned mode = flags & O_CREAT ? va_arg(ap, unsigned) : 0;
    va_end(ap);
    while (atomic_load(&hangs) && strstr(path, "-first-000"))
        usleep(10000);
    if (atomic_load(&full) && strstr(path, "-first-000")) {
        errno = ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int access(const char *path, int mode)
{
    while (atomic_load(&hangs) == 2 && strstr(path, "/zero-crash-models-"))
        usleep(10000);
    return (int)syscall(SYS_faccessat, AT_FDCWD, path, mode);
}

static void hear(void *arg, int level, const char *line)
{
    (void)arg, (void)level;
    if (strstr(line, "(ZERO_CRASH_DIR) takes longer than 5 s") ||
        (strstr(line, "cannot write ") && strstr(line, "No space left on device")))
        atomic_fetch_add(&complaints, 1);
}

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
                              .failed = failed,
                              .log = hear}};
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

static void folder_hangs(const char *job, const char *dir)
{
    struct timespec begin, end;
    char number[17];
    struct run r;
    int n[2];

    atomic_store(&hangs, 1);
    atomic_store(&complaints, 0);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    run_start(&r, job, dir, 0);
    pthread_join(r.thread, NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    ok(strstr(r.result.error, "this model failed first") && end.tv_sec - begin.tv_sec < LIMIT_S,
       "where the folder hangs, the error comes all the same: %s", r.result.error);
    is_int(atomic_load(&complaints), RANKS, "and every rank says so");
    atomic_store(&hangs, 0);
    for (int i = 0; i < 1000; i++) {
        count(dir, n, number, 0);
        if (n[0] == RANKS)
            break;
        usleep(10000);
    }
    is_int(n[0], RANKS, "the reports are written when it goes on");
    usleep(100000); /* for their threads to end */
    count(dir, n, number, 1);
}

static void folder_full(const char *job, const char *dir)
{
    struct run r;

    atomic_store(&full, 1);
    atomic_store(&complaints, 0);
    run_start(&r, job, dir, 0);
    pthread_join(r.thread, NULL);
    has_str(r.result.error, "this model failed first", "where it is full, the error is the same");
    is_int(atomic_load(&complaints), RANKS, "and every rank says so");
    atomic_store(&full, 0);
}

/* It hangs before there is anything to be reported. */
static void folder_hangs_early(const char *job, const char *dir)
{
    struct timespec begin, end;
    struct run r;

    atomic_store(&hangs, 2);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    run_start(&r, job, dir, 0);
    pthread_join(r.thread, NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    ok(end.tv_sec - begin.tv_sec < LIMIT_S, "one that hangs from the beginning holds nobody up");
    has_str(r.result.error, "its disk does not answer", "and that is said");
    atomic_store(&hangs, 0);
    usleep(100000);
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
    folder_full(job, dir);
    folder_hangs(job, dir);
    folder_hangs_early(job, dir);
    rmdir(dir);
    done();
}
