/* SPDX-License-Identifier: Apache-2.0 */
/* Every number is checked; times of up to 64 bits are replaced by their ranks. */
#define _GNU_SOURCE
#include "lifetimes.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/status.h"

enum column { LOWER, UPPER, SIZE, N_COLUMNS };
static const char *const column_names[N_COLUMNS] = {"lower", "upper", "size"};

#define MAX_FIELDS 64
#define MAX_BUFFERS 100000000u

struct row {
    uint64_t value[N_COLUMNS];
};

struct reader {
    const char *path;
    unsigned line;
    int place[N_COLUMNS]; /* field number of each column */
    struct row *rows;
    uint32_t n, room;
};

/* Digits only, and they fit into 64 bits. */
static bool number_parse(const char *text, uint64_t *out)
{
    uint64_t x = 0;

    if (!*text)
        return false;
    for (; *text; text++) {
        if (!isdigit((unsigned char)*text) || __builtin_mul_overflow(x, 10, &x) ||
            __builtin_add_overflow(x, (uint64_t)(*text - '0'), &x))
            return false;
    }
    *out = x;
    return true;
}

/* Cuts a line at its commas, in place; blanks around a field are dropped. */
static int fields_split(char *line, char **field)
{
    int n = 0;

    for (char *next = line; next && n < MAX_FIELDS; n++) {
        field[n] = strsep(&next, ",");
        while (isspace((unsigned char)*field[n]))
            field[n]++;
        char *end = field[n] + strlen(field[n]);
        while (end > field[n] && isspace((unsigned char)end[-1]))
            *--end = '\0';
    }
    return n;
}

static int header_read(struct reader *r, char *line)
{
    char *field[MAX_FIELDS];
    int n = fields_split(line, field);

    for (int c = 0; c < N_COLUMNS; c++) {
        r->place[c] = -1;
        for (int k = 0; k < n; k++)
            if (strcmp(field[k], column_names[c]) == 0)
                r->place[c] = k;
        if (r->place[c] < 0)
            return zero__fail(-EINVAL,
                              "%s: the first line has no column \"%s\"; it must name id, lower, "
                              "upper and size",
                              r->path, column_names[c]);
    }
    return 0;
}

static int row_read(struct reader *r, char *line)
{
    char *field[MAX_FIELDS];
    int n = fields_split(line, field);
    struct row row;

    if (n == 1 && !*field[0])
        return 0;
    for (int c = 0; c < N_COLUMNS; c++) {
        const char *text = r->place[c] < n ? field[r->place[c]] : "";
        if (!number_parse(text, &row.value[c]))
            return zero__fail(-EINVAL, "%s:%u: %s is \"%s\", which is no whole number below 2^64",
                              r->path, r->line, column_names[c], text);
    }
    if (row.value[LOWER] > row.value[UPPER])
        return zero__fail(-EINVAL, "%s:%u: upper (%" PRIu64 ") lies before lower (%" PRIu64 ")",
                          r->path, r->line, row.value[UPPER], row.value[LOWER]);
    if (r->n == r->room) {
        uint32_t room = r->room ? 2 * r->room : 1024;
        struct row *rows = room <= MAX_BUFFERS ? reallocarray(r->rows, room, sizeof *rows) : NULL;
        if (!rows)
            return zero__fail(-ENOMEM, "%s: no memory for more than %" PRIu32 " buffers", r->path,
                              r->n);
        r->rows = rows;
        r->room = room;
    }
    r->rows[r->n++] = row;
    return 0;
}

static int rows_read(struct reader *r)
{
    FILE *f = fopen(r->path, "re");
    char *line = NULL;
    size_t room = 0;
    int err = 0;

    if (!f)
        return zero__fail(-errno, "%s: cannot open: %s", r->path, strerror(errno));
    while (!err && getline(&line, &room, f) >= 0) {
        r->line++;
        err = r->line == 1 ? header_read(r, line) : row_read(r, line);
    }
    if (!err && ferror(f))
        err = zero__fail(-EIO, "%s: cannot read beyond line %u", r->path, r->line);
    if (!err && r->line == 0)
        err = zero__fail(-EINVAL, "%s: the file is empty", r->path);
    free(line);
    fclose(f);
    return err;
}

static int time_compare(const void *pa, const void *pb)
{
    const uint64_t *a = pa, *b = pb;
    return *a < *b ? -1 : *a > *b;
}

static uint32_t time_rank(const uint64_t *times, uint32_t n, uint64_t t)
{
    uint32_t lo = 0;
    for (uint32_t hi = n; lo < hi;) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (times[mid] < t)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static int buffers_make(const struct reader *r, struct lifetimes *out)
{
    uint64_t *times = calloc(2 * (size_t)r->n + 1, sizeof *times);
    struct zero__plan_buffer *buffers = calloc((size_t)r->n + 1, sizeof *buffers);
    uint32_t n_times = 0;

    if (!times || !buffers) {
        free(times);
        free(buffers);
        return zero__fail(-ENOMEM, "%s: no memory for %" PRIu32 " buffers", r->path, r->n);
    }
    for (uint32_t i = 0; i < r->n; i++) {
        times[n_times++] = r->rows[i].value[LOWER];
        times[n_times++] = r->rows[i].value[UPPER];
    }
    qsort(times, n_times, sizeof *times, time_compare);
    for (uint32_t i = 0; i < r->n; i++) {
        buffers[i].bytes = r->rows[i].value[SIZE];
        buffers[i].first = time_rank(times, n_times, r->rows[i].value[LOWER]);
        buffers[i].last = time_rank(times, n_times, r->rows[i].value[UPPER]);
    }
    free(times);
    out->buffers = buffers;
    out->n = r->n;
    return 0;
}

/* The number between the last two dots of NAME.CAPACITY.csv. */
static uint64_t capacity_of(const char *path)
{
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    const char *end = strrchr(name, '.');
    char text[24];
    uint64_t capacity;

    if (!end || strcmp(end, ".csv") != 0)
        return 0;
    const char *dot = memrchr(name, '.', (size_t)(end - name));
    if (!dot || end - dot > (ptrdiff_t)sizeof text)
        return 0;
    size_t n = (size_t)(end - dot - 1);
    memcpy(text, dot + 1, n);
    text[n] = '\0';
    return number_parse(text, &capacity) ? capacity : 0;
}

int lifetimes_read(const char *path, struct lifetimes *out)
{
    struct reader r = {.path = path};
    struct lifetimes l = {.capacity = capacity_of(path)};
    int err = rows_read(&r);

    if (!err)
        err = buffers_make(&r, &l);
    free(r.rows);
    if (!err)
        *out = l;
    return err;
}

void lifetimes_destroy(struct lifetimes *l)
{
    free(l->buffers);
    *l = (struct lifetimes){0};
}
