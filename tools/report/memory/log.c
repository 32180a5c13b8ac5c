/* SPDX-License-Identifier: Apache-2.0 */
/* The summary at the end of a run's log: who it was, and what a rank of it reserved where. */
#include "config.h"

#include "columns.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* The last line that is a summary; NULL, with a sentence, where there is none. */
static json_t *summary_read(const char *path)
{
    FILE *f = fopen(path, "re");
    json_t *found = NULL;
    char *line = NULL;
    size_t room = 0;

    if (!f) {
        zero__fail(-errno, "%s: cannot open: %s", path, strerror(errno));
        return NULL;
    }
    while (getline(&line, &room, f) > 0) {
        json_t *o = json_loads(line, 0, NULL);
        const char *type = json_string_value(json_object_get(o, "type"));
        if (type && strcmp(type, "summary") == 0) {
            json_decref(found);
            found = json_incref(o);
        }
        json_decref(o);
    }
    free(line);
    fclose(f);
    if (!found)
        zero__fail(-EINVAL,
                   "%s: no summary of a run: give a file that zero-gpt2 --json FILE has written, "
                   "of a run that came to its end",
                   path);
    return found;
}

/* The number of a class; a log with more than there can be has them all in the last one. */
static unsigned class_of(struct memory_columns *to, const char *name)
{
    unsigned k = 0;

    while (k < to->n_classes && strcmp(to->classes[k], name) != 0)
        k++;
    if (k == MEMORY_CLASSES)
        return k - 1;
    if (k == to->n_classes)
        snprintf(to->classes[to->n_classes++], MEMORY_NAME, "%s", name);
    return k;
}

/* The column of a run's tier, from the first one of the run on; NULL: no memory. */
static struct memory_column *column_of(struct memory_columns *to, unsigned first, const char *run,
                                       const char *tier)
{
    for (unsigned i = first; i < to->n; i++)
        if (strcmp(to->list[i].tier, tier) == 0)
            return &to->list[i];
    struct memory_column *more = realloc(to->list, ((size_t)to->n + 1) * sizeof *more);
    if (!more) {
        zero__fail(-ENOMEM, "no memory for %u columns", to->n + 1);
        return NULL;
    }
    to->list = more;
    struct memory_column *c = &more[to->n++];
    *c = (struct memory_column){0};
    snprintf(c->run, sizeof c->run, "%s", run);
    snprintf(c->tier, sizeof c->tier, "%s", tier);
    return c;
}

static int rows_read(const char *path, const json_t *rows, const char *run,
                     struct memory_columns *to)
{
    const unsigned first = to->n;
    const json_t *row;
    size_t i;

    json_array_foreach (rows, i, row) {
        const char *class = json_string_value(json_object_get(row, "class"));
        const char *tier = json_string_value(json_object_get(row, "tier"));
        json_int_t bytes = json_integer_value(json_object_get(row, "reserved"));
        if (!class || !tier || bytes < 0)
            return zero__fail(-EINVAL, "%s: row %zu of its memory has no class, tier or bytes",
                              path, i + 1);
        struct memory_column *c = column_of(to, first, run, tier);
        if (!c)
            return -ENOMEM;
        c->bytes[class_of(to, class)] += (uint64_t)bytes;
        c->all += (uint64_t)bytes;
    }
    return to->n > first ? 0 : zero__fail(-EINVAL, "%s: the run's memory is missing", path);
}

/* "124.476 million parameters in bf16" if all runs have the same, else nothing. */
static void title_note(const json_t *summary, struct memory_columns *to)
{
    const char *dtype = json_string_value(json_object_get(summary, "dtype"));
    char title[sizeof to->title];

    snprintf(title, sizeof title, "%.3f million parameters in %s",
             (double)json_integer_value(json_object_get(summary, "parameters")) / 1e6,
             dtype ? dtype : "?");
    if (to->n == 0)
        memcpy(to->title, title, sizeof title);
    else if (strcmp(to->title, title) != 0)
        to->title[0] = '\0';
}

int memory_log_read(const char *path, struct memory_columns *to)
{
    json_t *summary = summary_read(path);
    char run[MEMORY_NAME];

    if (!summary)
        return -EINVAL;
    snprintf(run, sizeof run, "stage %" JSON_INTEGER_FORMAT ", N = %" JSON_INTEGER_FORMAT,
             json_integer_value(json_object_get(summary, "stage")),
             json_integer_value(json_object_get(summary, "ranks")));
    title_note(summary, to);
    int err = rows_read(path, json_object_get(summary, "memory"), run, to);
    json_decref(summary);
    return err;
}
