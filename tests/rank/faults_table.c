/* SPDX-License-Identifier: Apache-2.0 */
/* Results of many faults: as lines of a file, from which a run goes on, and as a table. */
#include "faults.h"

#include <stdlib.h>
#include <string.h>

/* What a seed means, as it stands in its line. */
static void describe(const struct faults_case *c, char text[FAULTS_TEXT])
{
    snprintf(text, FAULTS_TEXT, "%s %s stage %s, %d ranks%s: ", faults_comms[c->comm].name,
             c->fault, c->stage, c->ranks, c->large ? ", large messages" : "");
}

void faults_print_line(FILE *f, const struct faults_case *c, const struct faults_verdict *v)
{
    char text[FAULTS_TEXT];

    describe(c, text);
    fprintf(f, "%u %d %d %d %d %d %d %d %d %s%s\n", c->seed, v->happened, v->detected, v->named,
            v->hung, v->wrong, v->late, v->ms, v->end_ms, text, v->why);
    fflush(f);
}

bool faults_read_line(const char *line, unsigned *seed, struct faults_verdict *v)
{
    char text[FAULTS_TEXT];
    struct faults_case c;
    int b[6], ms, end_ms, at = 0;

    if (sscanf(line, "%u %d %d %d %d %d %d %d %d %n", seed, &b[0], &b[1], &b[2], &b[3], &b[4],
               &b[5], &ms, &end_ms, &at) != 9 ||
        !strchr(line, '\n'))
        return false;
    faults_draw(*seed, &c);
    describe(&c, text);
    if (strncmp(line + at, text, strlen(text)) != 0)
        return false;
    *v = (struct faults_verdict){.happened = b[0],
                                 .detected = b[1],
                                 .named = b[2],
                                 .hung = b[3],
                                 .wrong = b[4],
                                 .late = b[5],
                                 .ms = ms,
                                 .end_ms = end_ms};
    return true;
}

struct row {
    unsigned n, large, detected, named, hung, wrong, late, missed, n_ms;
    int *ms, end_ms;
};

static int compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* The smallest value that so many percent do not exceed. */
static int quantile(const struct row *r, unsigned percent)
{
    return r->n_ms ? r->ms[(r->n_ms * percent + 99) / 100 - 1] : 0;
}

static void row_add(struct row *r, const struct faults_case *c, const struct faults_verdict *v)
{
    r->n++;
    r->large += c->large;
    r->detected += v->detected;
    r->named += v->named;
    r->hung += v->hung;
    r->wrong += v->wrong;
    r->late += v->late;
    r->missed += !v->happened;
    r->end_ms = v->end_ms > r->end_ms ? v->end_ms : r->end_ms;
    if (v->happened && v->detected)
        r->ms[r->n_ms++] = v->ms;
}

static void row_print(FILE *f, const char *comm, const char *action, const char *phase,
                      struct row *r)
{
    qsort(r->ms, r->n_ms, sizeof *r->ms, compare);
    fprintf(f, "| %s | %s | %s | %u | %u | %u | %u | %u | %u | %u | %d | %d | %d | %d |\n", comm,
            action, phase, r->n, r->large, r->detected, r->named, r->hung, r->wrong, r->late,
            quantile(r, 50), quantile(r, 99), quantile(r, 100), r->end_ms);
    if (r->missed)
        fprintf(f, "| | | did not happen | %u |\n", r->missed);
}

/* comm < 0: all; action NULL: all. */
static void row_of(FILE *f, const struct faults_verdict *all, const bool *known, unsigned n,
                   int comm, const char *action, int phase)
{
    struct row r = {.ms = calloc(n, sizeof *r.ms)};

    for (unsigned s = 0; s < n && r.ms; s++) {
        struct faults_case c;
        if (!known[s])
            continue;
        faults_draw(s, &c);
        const struct faults_kind *k = &faults_kinds[c.kind];
        if ((comm < 0 || c.comm == comm) &&
            (!action || (strcmp(k->action, action) == 0 && (int)k->phase == phase)))
            row_add(&r, &c, &all[s]);
    }
    if (r.n)
        row_print(f, comm < 0 ? "all" : faults_comms[comm].name, action ? action : "all",
                  action ? faults_phase_names[phase] : "", &r);
    free(r.ms);
}

int faults_kill_ms(const struct faults_verdict *all, const bool *known, unsigned n,
                   unsigned percent)
{
    struct row r = {.ms = calloc(n, sizeof *r.ms)};

    for (unsigned s = 0; s < n && r.ms; s++) {
        struct faults_case c;
        if (!known[s])
            continue;
        faults_draw(s, &c);
        const struct faults_kind *k = &faults_kinds[c.kind];
        if (strcmp(k->action, "kill") == 0 && k->phase != FAULTS_SHUTDOWN &&
            (!faults_signal(&c) || k->phase != FAULTS_INIT))
            row_add(&r, &c, &all[s]);
    }
    qsort(r.ms, r.n_ms, sizeof *r.ms, compare);
    int ms = quantile(&r, percent);
    free(r.ms);
    return ms;
}

void faults_print_table(FILE *f, const struct faults_verdict *all, const bool *known, unsigned n)
{
    static const char *const actions[] = {"kill", "stop", "skip", "size", "dtype", "order"};

    fprintf(f, "| transport | fault | at | count | large messages | detected | named | hung |"
               " wrong numbers | late | p50 ms | p99 ms | max ms |"
               " ended ms |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (int comm = 0; comm < FAULTS_COMMS; comm++)
        for (unsigned a = 0; a < sizeof actions / sizeof *actions; a++)
            for (int phase = 0; phase < FAULTS_PHASES; phase++)
                row_of(f, all, known, n, comm, actions[a], phase);
    for (unsigned a = 0; a < sizeof actions / sizeof *actions; a++)
        for (int phase = 0; phase < FAULTS_PHASES; phase++)
            row_of(f, all, known, n, -1, actions[a], phase);
    row_of(f, all, known, n, -1, NULL, 0);
    fflush(f);
}
