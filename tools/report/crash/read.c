/* SPDX-License-Identifier: Apache-2.0 */
/* One rank's file: lines of JSON. Everything in it is checked, since anybody may have written it.
 */
#include "config.h"

#include "rank.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MOST 8192
#define LINES_MOST 100000u
#define RANKS_MOST 65536
#define TIME_MOST 1e11 /* seconds: some thousand years */

/* A copy that a terminal can show. */
static void text_of(const json_t *o, const char *name, char *out, size_t room)
{
    const char *s = json_string_value(json_object_get(o, name));

    snprintf(out, room, "%s", s ? s : "");
    for (char *c = out; *c; c++)
        if (!isprint((unsigned char)*c))
            *c = '?';
}

static bool integer(const json_t *o, const char *name, int64_t least, int64_t most, int64_t *out)
{
    const json_t *v = json_object_get(o, name);

    if (!json_is_integer(v) || json_integer_value(v) < least || json_integer_value(v) > most)
        return false;
    *out = json_integer_value(v);
    return true;
}

static struct report_queue *queue_of(struct report_rank *r, const json_t *o)
{
    char name[sizeof r->queues[0].name];

    text_of(o, "queue", name, sizeof name);
    for (unsigned i = 0; i < r->n_queues; i++)
        if (strcmp(r->queues[i].name, name) == 0)
            return &r->queues[i];
    if (r->n_queues == REPORT_QUEUES)
        return NULL;
    snprintf(r->queues[r->n_queues].name, sizeof name, "%s", name);
    return &r->queues[r->n_queues++];
}

static bool time_of_day(const json_t *o, const char *name, double *out)
{
    *out = json_real_value(json_object_get(o, name));
    return *out > 0 && *out < TIME_MOST;
}

static bool take_head(struct report_head *h, const json_t *o)
{
    int64_t rank, ranks, pid;

    text_of(o, "job", h->job, sizeof h->job);
    if (strlen(h->job) != sizeof h->job - 1 ||
        strspn(h->job, "0123456789abcdef") != sizeof h->job - 1 ||
        !json_is_boolean(json_object_get(o, "joined")) ||
        !integer(o, "ranks", 1, RANKS_MOST, &ranks) || !integer(o, "rank", 0, ranks - 1, &rank) ||
        !integer(o, "pid", 0, INT32_MAX, &pid) || !time_of_day(o, "began_s", &h->began_s) ||
        !time_of_day(o, "time_s", &h->time_s))
        return false;
    h->joined = json_is_true(json_object_get(o, "joined"));
    h->rank = (int)rank;
    h->ranks = (int)ranks;
    h->pid = (long)pid;
    text_of(o, "host", h->host, sizeof h->host);
    text_of(o, "key", h->key, sizeof h->key);
    text_of(o, "model", h->model, sizeof h->model);
    return true;
}

static bool take_crash(struct report_rank *r, const json_t *o)
{
    int64_t err, culprit, reporter;

    if (!take_head(&r->head, o) || !integer(o, "err", -4096, 0, &err) ||
        !integer(o, "culprit", -1, r->head.ranks - 1, &culprit) ||
        !integer(o, "reporter", -1, r->head.ranks - 1, &reporter))
        return false;
    r->err = (int)err;
    r->culprit = (int)culprit;
    r->reporter = (int)reporter;
    text_of(o, "op", r->op, sizeof r->op);
    text_of(o, "cause", r->cause, sizeof r->cause);
    text_of(o, "own", r->own, sizeof r->own);
    return true;
}

static bool take_queue(struct report_rank *r, const json_t *o)
{
    int64_t issued, started, done, sequence;
    struct report_queue *q = queue_of(r, o);

    if (!q || !integer(o, "issued", 0, INT64_MAX, &issued) ||
        !integer(o, "started", 0, issued, &started) || !integer(o, "done", 0, issued, &done) ||
        !integer(o, "sequence", 0, INT64_MAX, &sequence))
        return false;
    q->issued = (uint64_t)issued;
    q->started = (uint64_t)started;
    q->done = (uint64_t)done;
    q->sequence = (uint64_t)sequence;
    return true;
}

static bool take_op(struct report_rank *r, const json_t *o)
{
    struct report_queue *q = queue_of(r, o);
    char state[16], kind[32], unit[48];

    if (!q)
        return false;
    text_of(o, "state", state, sizeof state);
    text_of(o, "kind", kind, sizeof kind);
    text_of(o, "unit", unit, sizeof unit);
    r->n_ops += strcmp(state, "done") == 0;
    if (strcmp(state, "started") == 0 && !*q->under_way) {
        snprintf(q->under_way, sizeof q->under_way, "%s%s%s", kind, *unit ? " of " : "", unit);
        q->since_s = -json_number_value(json_object_get(o, "started_s"));
    }
    return true;
}

static int by_number(const void *a, const void *b)
{
    const struct report_coll *x = a, *y = b;

    if (x->queue != y->queue)
        return x->queue < y->queue ? -1 : 1;
    return (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

/* All that ranks must have in common, "all_gather of 640 bf16 of unit layer2, epoch 5". */
static bool take_words(struct report_coll *c, const json_t *o)
{
    char kind[32], from[16], to[16], unit[48], what[72] = "";
    int64_t count, root, reduction, scale, flags, epoch;
    uint32_t bits;
    float factor;

    if (!integer(o, "count", 0, INT64_MAX, &count) ||
        !integer(o, "root", INT32_MIN, INT32_MAX, &root) ||
        !integer(o, "reduction", 0, UINT32_MAX, &reduction) ||
        !integer(o, "scale_bits", 0, UINT32_MAX, &scale) ||
        !integer(o, "flags", 0, UINT32_MAX, &flags) || !integer(o, "epoch", 0, UINT32_MAX, &epoch))
        return false;
    text_of(o, "kind", kind, sizeof kind);
    text_of(o, "from", from, sizeof from);
    text_of(o, "to", to, sizeof to);
    text_of(o, "unit", unit, sizeof unit);
    bits = (uint32_t)scale;
    memcpy(&factor, &bits, sizeof factor);
    if (strcmp(kind, "barrier") != 0) /* which moves nothing */
        snprintf(what, sizeof what, " of %lld %s%s%s", (long long)count, from,
                 strcmp(from, to) ? " to " : "", strcmp(from, to) ? to : "");
    snprintf(c->text, sizeof c->text,
             "%s%s%s%s, root %d, reduction %u, scale %.9g, flags %u, epoch %u", kind, what,
             *unit ? " of unit " : "", unit, (int)root, (unsigned)reduction, (double)factor,
             (unsigned)flags, (unsigned)epoch);
    return true;
}

static bool take_coll(struct report_rank *r, const json_t *o)
{
    const struct report_queue *q = queue_of(r, o);
    char state[16];
    int64_t sequence;

    if (!q || !integer(o, "sequence", 1, INT64_MAX, &sequence) || r->n_colls == REPORT_COLLS_MOST)
        return false;
    if ((r->n_colls & (r->n_colls - 1)) == 0) { /* at powers of two */
        size_t room = r->n_colls ? 2 * (size_t)r->n_colls : 1;
        struct report_coll *more = realloc(r->colls, room * sizeof *more);
        if (!more)
            return false;
        r->colls = more;
    }
    struct report_coll *c = &r->colls[r->n_colls];
    *c = (struct report_coll){.queue = (unsigned)(q - r->queues), .sequence = (uint64_t)sequence};
    text_of(o, "state", state, sizeof state);
    c->waiting = strcmp(state, "waiting") == 0;
    if (!take_words(c, o))
        return false;
    r->n_colls++;
    return true;
}

const struct report_coll *report_coll_find(const struct report_rank *r, const char *queue,
                                           uint64_t sequence)
{
    struct report_coll key = {.sequence = sequence};

    while (key.queue < r->n_queues && strcmp(r->queues[key.queue].name, queue) != 0)
        key.queue++;
    return r->n_colls ? bsearch(&key, r->colls, r->n_colls, sizeof *r->colls, by_number) : NULL;
}

void report_rank_free(struct report_rank *r)
{
    free(r->colls);
    r->colls = NULL;
    r->n_colls = 0;
}

static bool take_line(struct report_rank *r, const json_t *o, bool first)
{
    const char *type = json_string_value(json_object_get(o, "type"));

    if (!type || first != (strcmp(type, "crash") == 0))
        return false;
    if (first)
        return take_crash(r, o);
    if (strcmp(type, "queue") == 0)
        return take_queue(r, o);
    if (strcmp(type, "collective") == 0)
        return take_coll(r, o);
    return strcmp(type, "op") != 0 || take_op(r, o); /* later versions may say more */
}

/* As many lines of a file as `most`. */
static bool read_lines(const char *path, unsigned most, struct report_rank *out, char *why,
                       size_t room)
{
    struct report_rank r = {.err = 0};
    char text[LINE_MOST];
    unsigned line = 0;
    bool good = true;
    FILE *f = fopen(path, "re");

    if (!f) {
        snprintf(why, room, "%s: %s", path, strerror(errno));
        return false;
    }
    while (good && line < most && fgets(text, sizeof text, f)) {
        json_t *o = ++line <= LINES_MOST ? json_loads(text, 0, NULL) : NULL;
        good = o && take_line(&r, o, line == 1);
        json_decref(o);
    }
    fclose(f);
    if (good && !line)
        snprintf(why, room, "%s is empty: its rank was ended while it wrote, or it is damaged",
                 path);
    else if (!good)
        snprintf(why, room, "%s:%u: this is no report of a rank, or it is damaged", path, line);
    if (!good || !line) {
        report_rank_free(&r);
        return false;
    }
    if (r.n_colls)
        qsort(r.colls, r.n_colls, sizeof *r.colls, by_number);
    *out = r;
    return true;
}

bool report_read(const char *path, struct report_rank *out, char *why, size_t room)
{
    return read_lines(path, UINT_MAX, out, why, room);
}

bool report_read_head(const char *path, struct report_head *out, char *why, size_t room)
{
    struct report_rank r;
    bool good = read_lines(path, 1, &r, why, room);

    if (good)
        *out = r.head;
    return good;
}
