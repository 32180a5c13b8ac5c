/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The crash report: when the runtime fails, at any time from joining on, what is under way, the
 * last ops and the last collectives go to a file of ZERO_CRASH_DIR, one line of JSON each; `zero
 * report crash` reads the files of all ranks side by side. Collectives of a queue have the same
 * numbers on every rank, so the ranks that are behind, and the one that posted something else, can
 * be told. Every runtime of every job has files of its own: they bear the job's number, or, of a
 * rank that rank 0 has not let in, one that nobody else has.
 */
#define _GNU_SOURCE
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/call_within.h"
#include "base/checked.h"
#include "base/status.h"
#include "machine/clock.h"
#include "run/runner.h"

#define LINGER_NS (ZERO_SECOND / 10)
#define DISK_NS (5 * ZERO_SECOND)
#define NAME_MOST 40 /* characters of the model's name in that of a file */

/* Time of day. */
static int64_t wall_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * ZERO_SECOND + t.tv_nsec;
}

void zero__crash_begin(struct zero__runner *run, const struct zero__job_params *p)
{
    run->crash.began_ns = wall_ns();
    snprintf(run->crash.key, sizeof run->crash.key, "%s", p->key);
    snprintf(run->crash.model, sizeof run->crash.model, "%s", p->model);
}

void zero__crash_number(struct zero__runner *run, uint64_t number)
{
    run->crash.number = number;
}

/*
 * The disk of the folder may hang, and the application waits for its error: what touches it is done
 * by a thread of its own, which has a limit. `err` is errno as the disk has it, 0: none.
 */
struct folder {
    char dir[4096];
    int err;
};

static int folder_look(void *arg)
{
    struct folder *f = arg;
    struct stat st;

    if (stat(f->dir, &st) || access(f->dir, W_OK | X_OK))
        f->err = errno;
    else if (!S_ISDIR(st.st_mode))
        f->err = ENOTDIR;
    return 0;
}

int zero__crash_check(struct zero__runner *run)
{
    const char *dir = zero__option_text(run->site->options, ZERO__OPT_CRASH_DIR);
    struct folder f = {.err = 0};

    if (!*dir)
        return 0;
    snprintf(f.dir, sizeof f.dir, "%s", dir);
    int err = zero__call_within(zero__deadline_ns(DISK_NS), folder_look, &f, sizeof f);
    if (err && err != -ETIMEDOUT)
        return err;
    if (!err && !f.err)
        return 0;
    run->crash.written = 1; /* nothing more is to be said about it */
    return zero__fail(
        err ? -EIO : -f.err,
        "ZERO_CRASH_DIR is %s, and no report could be written there: %s; name a folder "
        "that every rank can write to, or clear it",
        dir, err ? "its disk does not answer" : strerror(f.err));
}

void zero__crash_linger(const struct zero__runner *run)
{
    struct timespec t = {0, LINGER_NS};

    if (*zero__option_text(run->site->options, ZERO__OPT_CRASH_DIR))
        nanosleep(&t, NULL);
}

/* Text as a JSON string; what is no printable ASCII becomes '?'. */
static void put_text(FILE *f, const char *name, const char *text)
{
    fprintf(f, ", \"%s\": \"", name);
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fputc('\\', f);
        fputc((unsigned char)*c < ' ' || (unsigned char)*c > '~' ? '?' : *c, f);
    }
    fputc('"', f);
}

/* With a point, whatever the application's locale is. */
static void put_seconds(FILE *f, const char *name, int64_t ns)
{
    int64_t us = (ns < 0 ? -ns : ns) / 1000;

    fprintf(f, ", \"%s\": %s%" PRId64 ".%06" PRId64, name, ns < 0 ? "-" : "", us / 1000000,
            us % 1000000);
}

/* Times are seconds before the report, so that those of several machines can be compared. */
static void put_op(FILE *f, struct zero__runner *run, const struct zero__flight_op *x,
                   const char *state, int64_t now_ns)
{
    fprintf(f, "{\"type\": \"op\", \"state\": \"%s\", \"queue\": \"%s\", \"number\": %" PRIu64,
            state, zero__queue_name(x->queue), x->ordinal);
    put_text(f, "kind", x->kind == ZERO_NONE ? "collective" : zero__op_name(x->kind));
    put_text(f, "unit", x->unit == ZERO_NONE ? "" : run->site->model.units[x->unit].name);
    if (x->sequence)
        fprintf(f, ", \"sequence\": %" PRIu64 ", \"collectives\": %u", x->sequence, x->n);
    if (x->start_ns)
        put_seconds(f, "started_s", x->start_ns - now_ns);
    if (x->end_ns)
        put_seconds(f, "ended_s", x->end_ns - now_ns);
    fputs("}\n", f);
}

/* Numbers only, but for names: what is equal on two ranks is so letter by letter. */
static void put_coll(FILE *f, struct zero__runner *run, const struct zero__flight_coll *c,
                     const char *state)
{
    const struct zero__model *m = &run->site->model;
    int known = c->epoch && c->epoch <= m->n_segments;

    fprintf(f,
            "{\"type\": \"collective\", \"state\": \"%s\", \"queue\": \"%s\", "
            "\"sequence\": %" PRIu64 ", \"kind\": \"%s\", \"count\": %" PRIu64
            ", \"from\": \"%s\", \"to\": \"%s\", \"root\": %d, \"reduction\": %u, "
            "\"scale_bits\": %u, \"flags\": %u, \"epoch\": %u",
            state, zero__queue_name(c->queue), c->sequence, zero_coll_name(c->kind), c->count,
            zero_dtype_name(c->src_dtype), zero_dtype_name(c->dst_dtype), c->root, c->redop,
            c->scale_bits, c->flags, c->epoch);
    put_text(f, "unit", known ? m->units[m->segments[c->epoch - 1].unit].name : "");
    fputs("}\n", f);
}

/*
 * Collectives that are issued and not posted, numbered as they would be. Of a relay it is not known
 * in how many pieces they would go; one of the runtime itself is not the program's, and the last.
 */
static void put_next(FILE *f, struct zero__runner *run, uint32_t queue)
{
    struct zero__lane *l = &run->lanes[queue];
    struct zero_coll colls[ZERO__MAX_COLLS];
    uint64_t sequence = l->sequence;

    for (uint64_t i = l->started + 1; l->kind->collective && !l->kind->in_pieces && i <= l->issued;
         i++) {
        const struct zero__slot *s = zero__lane_slot(l, i);
        if (!s->body)
            return;
        uint32_t n = zero__collectives(run, s, colls);
        for (uint32_t k = 0; k < n; k++) {
            colls[k].sequence = ++sequence;
            struct zero__flight_coll c = zero__flight_coll(queue, &colls[k]);
            put_coll(f, run, &c, "waiting");
        }
    }
}

static void put_lanes(FILE *f, struct zero__runner *run, int64_t now_ns)
{
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        struct zero__lane *l = &run->lanes[q];
        if (!l->issued)
            continue;
        fprintf(f,
                "{\"type\": \"queue\", \"queue\": \"%s\", \"issued\": %" PRIu64
                ", \"started\": %" PRIu64 ", \"done\": %" PRIu64 ", \"sequence\": %" PRIu64 "}\n",
                zero__queue_name(q), l->issued, l->started, l->done, l->sequence);
        for (uint64_t i = l->done + 1; i <= l->issued; i++) {
            struct zero__slot *s = zero__lane_slot(l, i);
            struct zero__flight_op x = zero__flight_op(s, q, i, 0);
            if (i > l->started)
                x.start_ns = 0, x.sequence = 0;
            put_op(f, run, &x, i <= l->started ? "started" : "waiting", now_ns);
        }
    }
}

/* What the application's thread waits for itself, by the control channel. */
static void put_control(FILE *f, const struct zero__flight *fl, int64_t now_ns)
{
    if (!fl->control)
        return;
    fprintf(f,
            "{\"type\": \"queue\", \"queue\": \"control\", \"issued\": %" PRIu64
            ", \"started\": %" PRIu64 ", \"done\": %" PRIu64 ", \"sequence\": %" PRIu64 "}\n",
            fl->n_control, fl->n_control, fl->n_control - 1, fl->n_control);
    fprintf(f,
            "{\"type\": \"op\", \"state\": \"started\", \"queue\": \"control\", "
            "\"number\": %" PRIu64,
            fl->n_control);
    put_text(f, "kind", fl->control);
    put_text(f, "unit", "");
    put_seconds(f, "started_s", fl->control_ns - now_ns);
    fputs("}\n", f);
}

static void put_all(FILE *f, struct zero__runner *run, uint64_t number,
                    const struct zero__job_error *e)
{
    const struct zero__flight *fl = &run->flight;
    int64_t now_ns = zero__now_ns();
    char host[128] = "?", own[sizeof run->err_text];

    gethostname(host, sizeof host - 1);
    pthread_mutex_lock(&run->lock); /* another thread may be failing, after the job did */
    memcpy(own, run->err_text, sizeof own);
    pthread_mutex_unlock(&run->lock);
    fprintf(f,
            "{\"type\": \"crash\", \"job\": \"%016" PRIx64 "\", \"joined\": %s, \"rank\": %d, "
            "\"ranks\": %d, \"pid\": %ld, \"err\": %d, \"culprit\": %d, \"reporter\": %d",
            number, run->crash.number ? "true" : "false", run->site->rank, run->site->ranks,
            (long)getpid(), e->err, e->culprit, e->reporter);
    put_seconds(f, "began_s", run->crash.began_ns);
    put_seconds(f, "time_s", wall_ns());
    put_text(f, "key", run->crash.key);
    put_text(f, "model", run->crash.model);
    put_text(f, "host", host);
    put_text(f, "comm", run->site->comm_name ? run->site->comm_name : "");
    put_text(f, "op", e->op);
    put_text(f, "cause", *e->cause ? e->cause : own);
    put_text(f, "own", own);
    fputs("}\n", f);
    pthread_mutex_lock(&run->lock);
    put_lanes(f, run, now_ns);
    put_control(f, fl, now_ns);
    const uint64_t kept = ZERO__FLIGHT_KEPT - zero__least(fl->lost, ZERO__FLIGHT_KEPT);
    for (uint64_t i = fl->end > kept ? fl->end - kept : 0; i < fl->end; i++)
        put_op(f, run, &fl->ring[i % ZERO__FLIGHT_KEPT], "done", now_ns);
    for (uint64_t i = fl->n_colls > ZERO__FLIGHT_KEPT ? fl->n_colls - ZERO__FLIGHT_KEPT : 0;
         i < fl->n_colls; i++)
        put_coll(f, run, &fl->colls[i % ZERO__FLIGHT_KEPT], "posted");
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        put_next(f, run, q);
    pthread_mutex_unlock(&run->lock);
}

struct report {
    char path[4096];
    char *text; /* the report's own */
    size_t bytes;
    int err; /* as in struct folder */
};

static void report_name(const struct zero__runner *run, uint64_t number, char *path, size_t room)
{
    char model[NAME_MOST + 1];

    snprintf(model, sizeof model, "%.*s", NAME_MOST, run->crash.model);
    for (char *c = model; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
            *c = '_';
    snprintf(path, room, "%s/zero-crash-%016" PRIx64 "-%s-%04d.jsonl",
             zero__option_text(run->site->options, ZERO__OPT_CRASH_DIR), number, model,
             run->site->rank);
}

/* A new file that only this user reads. */
static int report_write(void *arg)
{
    struct report *r = arg;
    int fd = open(r->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    r->err = fd < 0 ? errno : 0;
    for (size_t at = 0; !r->err && at < r->bytes;) {
        ssize_t n = write(fd, r->text + at, r->bytes - at);
        if (n > 0)
            at += (size_t)n;
        else if (n == 0 || errno != EINTR)
            r->err = n ? errno : EIO;
    }
    if (fd >= 0 && close(fd) && !r->err)
        r->err = errno;
    free(r->text);
    r->text = NULL;
    return 0;
}

static int report_make(struct zero__runner *run, struct report *r)
{
    struct zero__job_error e = {.culprit = -1, .reporter = -1, .err = run->err};

    if (run->site->job)
        zero__job_error(run->site->job, &e);
    uint64_t number = run->crash.number ? run->crash.number : zero__job_draw_number();
    report_name(run, number, r->path, sizeof r->path);
    FILE *f = open_memstream(&r->text, &r->bytes);
    if (!f)
        return zero__fail(-ENOMEM, "no memory");
    put_all(f, run, number, &e);
    int bad = ferror(f);
    bad |= fclose(f);
    return bad ? zero__fail(-ENOMEM, "no memory") : 0;
}

/* The report, and a line in the log about it. */
static void report(struct zero__runner *run)
{
    struct report r = {.text = NULL};
    int err = report_make(run, &r);

    if (!err)
        err = zero__call_within(zero__deadline_ns(DISK_NS), report_write, &r, sizeof r);
    if (err == -ETIMEDOUT) /* it may be done after all; what is left belongs to it */
        zero__log(&run->site->log, ZERO_LOG_WARN, "engine",
                  "writing %s (ZERO_CRASH_DIR) takes longer than %d s, and is not waited for: name "
                  "a folder that answers sooner",
                  r.path, (int)(DISK_NS / ZERO_SECOND));
    else if (err || r.err)
        zero__log(&run->site->log, ZERO_LOG_WARN, "engine", "cannot write %s (ZERO_CRASH_DIR): %s",
                  r.path, err ? zero__error_text() : strerror(r.err));
    else
        zero__log(&run->site->log, ZERO_LOG_INFO, "engine", "the last operations are in %s",
                  r.path);
    if (err != -ETIMEDOUT)
        free(r.text);
}

void zero__crash_report(struct zero__runner *run)
{
    char said[ZERO_ERROR_BYTES];

    if (!*zero__option_text(run->site->options, ZERO__OPT_CRASH_DIR) || run->crash.written ||
        !run->site->ranks)
        return;
    run->crash.written = 1;
    snprintf(said, sizeof said, "%s", zero__error_text());
    report(run);
    zero__fail(0, "%s", said); /* that of what is reported, whatever became of the report */
}
