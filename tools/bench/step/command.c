/* SPDX-License-Identifier: Apache-2.0 */
/* zero bench step: where the time of a training step goes. */
#include "config.h"

#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/status.h"
#include "log.h"
#include "tools/bench/measure/watch.h"
#include "tools/run/itself.h"
#include "tools/run/job.h"

#define TEXT_BYTES (1u << 20)
#define LEAST_ON_DISK 0.95 /* of what a tier says it moved */

/* A path in our folder; the string is the caller's to free. */
static char *file_in(const struct step_options *o, const char *name)
{
    char *path = NULL;
    return asprintf(&path, "%s/%s", o->folder, name) < 0 ? NULL : path;
}

/* The log that rank `rank` writes, whose name for zero-gpt2 ends with %r. */
static char *log_of(const struct step_options *o, const char *name, uint64_t rank)
{
    char *path = NULL;
    return asprintf(&path, "%s/%s.%" PRIu64, o->folder, name, rank) < 0 ? NULL : path;
}

/* What is trained on does not matter to the time, as long as it is there. */
static int text_write(const char *path)
{
    uint32_t x = 1;
    FILE *f = fopen(path, "we");

    if (!f)
        return zero__fail(-errno, "%s: cannot create: %s", path, strerror(errno));
    for (unsigned i = 0; i < TEXT_BYTES; i++) {
        x = x * 1664525u + 1013904223u;
        fputc('a' + (int)(x >> 24) % 26, f);
    }
    if (fclose(f))
        return zero__fail(-EIO, "%s: cannot write: is the disk full?", path);
    return 0;
}

/* The end of what the ranks printed, when something went wrong. */
static void show_output(const char *path)
{
    FILE *f = fopen(path, "re");
    char text[2048];

    if (!f)
        return;
    if (fseek(f, -(long)sizeof text, SEEK_END))
        rewind(f);
    size_t n = fread(text, 1, sizeof text, f);
    fwrite(text, 1, n, stderr);
    fclose(f);
}

/* Runs zero-gpt2 with its standard output in a file. Signals are again as they were: more ranks
 * may be started. */
static int train(struct step_options *o, const char *out)
{
    sigset_t mask;
    struct run_options run = {
        .n = (int)o->ranks, .bind = o->bind, .prefix = 0, .grace_s = RUN_GRACE_S, .argv = o->args};
    int fd = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int saved = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3), status = 2;

    fflush(stdout);
    sigprocmask(SIG_SETMASK, NULL, &mask);
    if (fd < 0 || saved < 0 || dup2(fd, STDOUT_FILENO) < 0)
        fprintf(stderr, "zero bench step: %s: cannot write: %s\n", out, strerror(errno));
    else if (!run_find(o->args[0], run.path, sizeof run.path))
        status = run_ranks(&run);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    if (saved >= 0) {
        dup2(saved, STDOUT_FILENO);
        close(saved);
    }
    if (fd >= 0)
        close(fd);
    if (status)
        show_output(out);
    return status;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static double kernel_counted(void)
{
    struct rusage used;

    getrusage(RUSAGE_CHILDREN, &used);
    return 512.0 * (double)(used.ru_inblock + used.ru_oublock);
}

/* Are the bytes where they should be? */
static bool on_disk(const struct step_options *o, const struct step_log *log, double counted)
{
    if (o->cache_allowed)
        return true;
    if (log->disk_cached) { /* of which the kernel counts what it writes later, too */
        fprintf(stderr, "zero bench step: the ranks' tier goes through the page cache, which is no "
                        "disk: set ZERO_NVME_PATH to a folder on one, and ZERO_NVME_DIRECT=1; "
                        "--cache does without\n");
        return false;
    }
    if (counted >= LEAST_ON_DISK * log->disk_moved)
        return true;
    fprintf(stderr,
            "zero bench step: of %.0f bytes that the ranks' tier says it moved the kernel has "
            "counted %.0f, not %.0f %%: something keeps them in memory, and no figure counts; "
            "--cache does without\n",
            log->disk_moved, counted, 100 * LEAST_ON_DISK);
    return false;
}

/* As if rank 0 had told another loss than what it had: with a single rank the first one is at
 * fault, with more they differ. */
static void spoil(struct step_log *root)
{
    for (unsigned i = 0; i < root->n_told; i++)
        root->told[i].loss += 1;
}

/* Of the ranks' logs the one of that which waits longest: it shows what a step is held up by. */
static int logs_read(const struct step_options *o, struct step_log *worst)
{
    struct step_log root = {0}; /* what it told */
    double moved = 0;
    bool cached = false;
    int err = 0;

    for (uint64_t rank = 0; rank < o->ranks && !err; rank++) {
        char *json = log_of(o, "steps", rank), *ops = log_of(o, "ops", rank);
        struct step_log log = {0};
        err = json && ops ? step_log_read(json, ops, (unsigned)o->warmup, &log)
                          : zero__fail(-ENOMEM, "no memory for names of files");
        log.rank = (int)rank;
        if (!err && !rank && o->spoil)
            spoil(&log);
        if (!err && o->check)
            step_log_check(rank ? &root : NULL, o->fresh, &log);
        if (!rank) {
            root = log;
            root.steps = NULL;
            log.told = NULL;
        }
        moved += log.disk_moved;
        cached |= log.disk_cached;
        bool sound = log.sound && (!rank || worst->sound);
        if (!err && (!rank || step_log_exposed(&log) > step_log_exposed(worst))) {
            struct step_log other = *worst;
            *worst = log;
            log = other;
        }
        worst->sound = sound;
        worst->disk_moved = moved;
        worst->disk_cached = cached;
        step_log_free(&log);
        free(json);
        free(ops);
    }
    step_log_free(&root);
    return err;
}

static void logs_remove(const struct step_options *o)
{
    for (uint64_t i = 0; i < 2 * o->ranks; i++) {
        char *path = log_of(o, i % 2 ? "steps" : "ops", i / 2);
        if (path)
            unlink(path);
        free(path);
    }
}

static int run(struct step_options *o)
{
    char *json = file_in(o, "steps.%r"), *ops = file_in(o, "ops.%r"), *out = file_in(o, "out"),
         *text = file_in(o, "text");
    struct step_log log = {0};
    struct step_limit limit;
    struct bench_watch watch;
    int status = 2, err = !json || !ops || !out || !text;

    char numbers[32];

    snprintf(numbers, sizeof numbers, "%" PRIu64, o->steps + o->warmup);
    if (err)
        err = zero__fail(-ENOMEM, "no memory for names of files");
    else if (!o->data)
        err = text_write(text);
    bool fits = step_pair_add(o, "--preset", o->preset) && step_pair_add(o, "--steps", numbers) &&
                step_pair_add(o, "--data", o->data ? o->data : text) &&
                step_pair_add(o, "--val", "0") && step_pair_add(o, "--json", json) &&
                step_pair_add(o, "--ops", ops);
    const double before = kernel_counted();
    bench_watch_begin(&watch);
    if (!err && fits)
        status = train(o, out);
    if (!err && fits && status == 0) {
        err = logs_read(o, &log);
        if (!err)
            err = step_limit(o, &log, &limit);
        if (!err)
            err = step_report(o, &log, &limit);
        if (!err)
            bench_watch_tell(&watch, o->json);
        status = err || (o->check && !log.sound) || !on_disk(o, &log, kernel_counted() - before);
    }
    if (err)
        fprintf(stderr, "zero bench step: %s\n", zero__error_text());
    step_log_free(&log);
    logs_remove(o);
    char *const files[] = {out, text};
    for (int i = 0; i < 2; i++) {
        if (files[i])
            unlink(files[i]);
        free(files[i]);
    }
    free(json);
    free(ops);
    return status;
}

int bench_step(int argc, char **argv)
{
    struct step_options o;
    const char *tmp = getenv("TMPDIR");
    int cores, fd;

    if (argc == 5 && run_itself_is_rank(&cores, &fd))
        return step_limit_rank(argv, cores, fd);
    int status = step_parse(&o, argc, argv);

    if (status >= 0)
        return status;
    if (!run_itself_may_start("bench step"))
        return 2;
    if (o.comm && setenv("ZERO_COMM", o.comm, 1))
        return 2;
    tmp = tmp && *tmp ? tmp : "/tmp";
    int length = snprintf(o.folder, sizeof o.folder, "%s/zero-bench-XXXXXX", tmp);
    if (length >= (int)sizeof o.folder) {
        fprintf(stderr, "zero bench step: TMPDIR is %zu bytes long, at most %zu are possible: %s\n",
                strlen(tmp), strlen(tmp) - (size_t)length + sizeof o.folder - 1, tmp);
        return 2;
    }
    if (!mkdtemp(o.folder)) {
        fprintf(stderr, "zero bench step: %s: cannot create: %s: set TMPDIR\n", o.folder,
                strerror(errno));
        return 2;
    }
    status = run(&o);
    rmdir(o.folder);
    return status;
}
