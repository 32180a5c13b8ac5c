/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flight recorder: the last ops of this rank, kept in a ring from the first step on, and what
 * is under way. When the runtime fails they go to a file of ZERO_CRASH_DIR, one line of JSON each;
 * `zero report crash` reads the files of all ranks side by side. Collectives of a queue have the
 * same numbers on every rank, so the ranks that are behind can be told.
 */
#define _GNU_SOURCE
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "engine/runtime.h"

#define KEPT 1024u /* a power of two */

struct flight_op {
    uint64_t ordinal, sequence; /* sequence: of the first collective, 0: none */
    int64_t start_ns, end_ns;
    uint32_t n, kind, unit, body;
    uint32_t queue;
};

int zero__flight_create(struct zero_runtime *rt)
{
    if (rt->flight.ring)
        return 0;
    rt->flight.ring = calloc(KEPT, sizeof *rt->flight.ring);
    return rt->flight.ring ? 0 : zero__fail(-ENOMEM, "no memory for the flight recorder");
}

void zero__flight_free(struct zero_runtime *rt)
{
    free(rt->flight.ring);
}

static struct flight_op op_of(const struct slot *s, uint32_t queue, uint64_t ordinal,
                              int64_t end_ns)
{
    const struct zero__op *op = s->body ? &s->body->ops[s->op] : NULL;

    return (struct flight_op){.ordinal = ordinal,
                              .sequence = s->sequence,
                              .start_ns = s->start_ns,
                              .end_ns = end_ns,
                              .n = s->n_colls,
                              .kind = op ? op->kind : ZERO_NONE,
                              .unit = op ? op->unit : ZERO_NONE,
                              .body = op ? s->body_kind : ZERO_NONE,
                              .queue = queue};
}

void zero__flight_note(struct zero_runtime *rt, const struct slot *s, uint32_t queue,
                       uint64_t ordinal, int64_t end_ns)
{
    if (rt->flight.ring)
        rt->flight.ring[rt->flight.end++ % KEPT] = op_of(s, queue, ordinal, end_ns);
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

/* Times are seconds before the report, so that those of several machines can be compared. */
static void put_op(FILE *f, struct zero_runtime *rt, const struct flight_op *x, const char *state,
                   int64_t now_ns)
{
    fprintf(f, "{\"type\": \"op\", \"state\": \"%s\", \"queue\": \"%s\", \"number\": %" PRIu64,
            state, zero__queue_name(x->queue), x->ordinal);
    put_text(f, "kind", x->kind == ZERO_NONE ? "collective" : zero__op_name(x->kind));
    put_text(f, "unit", x->unit == ZERO_NONE ? "" : rt->model.units[x->unit].name);
    if (x->sequence)
        fprintf(f, ", \"sequence\": %" PRIu64 ", \"collectives\": %u", x->sequence, x->n);
    if (x->start_ns)
        fprintf(f, ", \"started_s\": %.6f", (double)(x->start_ns - now_ns) * 1e-9);
    if (x->end_ns)
        fprintf(f, ", \"ended_s\": %.6f", (double)(x->end_ns - now_ns) * 1e-9);
    fputs("}\n", f);
}

static void put_lanes(FILE *f, struct zero_runtime *rt, int64_t now_ns)
{
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        struct lane *l = &rt->lanes[q];
        if (!l->issued)
            continue;
        fprintf(f,
                "{\"type\": \"queue\", \"queue\": \"%s\", \"issued\": %" PRIu64
                ", \"started\": %" PRIu64 ", \"done\": %" PRIu64 ", \"sequence\": %" PRIu64 "}\n",
                zero__queue_name(q), l->issued, l->started, l->done, l->sequence);
        for (uint64_t i = l->done + 1; i <= l->issued; i++) {
            struct slot *s = zero__lane_slot(l, i);
            struct flight_op x = op_of(s, q, i, 0);
            if (i > l->started)
                x.start_ns = 0, x.sequence = 0;
            put_op(f, rt, &x, i <= l->started ? "started" : "waiting", now_ns);
        }
    }
}

static void put_all(FILE *f, struct zero_runtime *rt, const struct zero__job_error *e)
{
    const struct flight *fl = &rt->flight;
    int64_t now_ns = zero__now_ns();
    char host[128] = "?";

    gethostname(host, sizeof host - 1);
    fprintf(f,
            "{\"type\": \"crash\", \"rank\": %d, \"ranks\": %d, \"pid\": %ld, \"time_s\": %lld, "
            "\"err\": %d, \"culprit\": %d, \"reporter\": %d",
            rt->rank, rt->ranks, (long)getpid(), (long long)time(NULL), e->err, e->culprit,
            e->reporter);
    put_text(f, "host", host);
    put_text(f, "comm", rt->comm_name ? rt->comm_name : "");
    put_text(f, "op", e->op);
    put_text(f, "cause", e->cause);
    put_text(f, "own", rt->err_text);
    fputs("}\n", f);
    pthread_mutex_lock(&rt->lock);
    put_lanes(f, rt, now_ns);
    for (uint64_t i = fl->end > KEPT ? fl->end - KEPT : 0; i < fl->end; i++)
        put_op(f, rt, &fl->ring[i % KEPT], "done", now_ns);
    pthread_mutex_unlock(&rt->lock);
}

/* A new file that only this user reads; an old one of the same name goes. */
static FILE *report_open(const char *dir, int rank, char *path, size_t room)
{
    int fd;

    snprintf(path, room, "%s/zero-crash-%04d.jsonl", dir, rank);
    unlink(path);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? NULL : fdopen(fd, "w");
}

void zero__flight_report(struct zero_runtime *rt)
{
    const char *dir = zero__option_text(rt->options, ZERO__OPT_CRASH_DIR);
    struct zero__job_error e = {.culprit = -1, .reporter = -1, .err = rt->err};
    char path[4096];
    FILE *f;

    if (!*dir || rt->flight.written || !rt->flight.ring)
        return;
    rt->flight.written = 1;
    if (rt->job)
        zero__job_error(rt->job, &e);
    f = report_open(dir, rt->rank, path, sizeof path);
    int bad = !f;
    if (f) {
        put_all(f, rt, &e);
        bad = ferror(f);
        bad |= fclose(f);
    }
    if (bad)
        zero__log(&rt->log, ZERO_LOG_WARN, "engine", "cannot write %s (ZERO_CRASH_DIR): %s", path,
                  strerror(errno));
    else
        zero__log(&rt->log, ZERO_LOG_INFO, "engine", "the last operations are in %s", path);
}
