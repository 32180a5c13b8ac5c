/* SPDX-License-Identifier: Apache-2.0 */
/* Progress, sentences and the JSON log; see log.h. */
#include "log.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Plain progress lines come at least this far apart, except the first and the last. */
#define PLAIN_EVERY_NS UINT64_C(2000000000)
#define IN_PLACE_EVERY_NS UINT64_C(100000000)

/* Rank 0's file, or with %r in its name one of each rank. */
static int open_file(const char *name, int rank, char *path, FILE **file, char *text, size_t bytes)
{
    const char *at = name, *number = NULL;

    while (at && (at = strstr(at, "%r")))
        number = at++; /* the last one: before it are folders */
    if (!name || (rank && !number))
        return 0;
    int n = number ? snprintf(path, GPT2_LOG_PATH, "%.*s%d%s", (int)(number - name), name, rank,
                              number + 2)
                   : snprintf(path, GPT2_LOG_PATH, "%s", name);
    if (n >= GPT2_LOG_PATH) {
        snprintf(text, bytes, "cannot create %s: the name is longer than %d", name, GPT2_LOG_PATH);
        return -ENAMETOOLONG;
    }
    *file = fopen(path, "we");
    if (*file)
        return 0;
    const int err = -errno;
    snprintf(text, bytes, "cannot create %s: %s", path, strerror(-err));
    return err;
}

int gpt2_log_open(struct gpt2_log *log, const struct gpt2_options *o, int rank, char *text,
                  size_t bytes)
{
    memset(log, 0, sizeof *log);
    log->root = rank == 0;
    log->terminal = isatty(STDOUT_FILENO);
    log->steps = o->steps;
    log->start_ns = gpt2_now_ns();
    int err = open_file(o->json, rank, log->json_path, &log->json, text, bytes);
    return err ? err : open_file(o->ops, rank, log->ops_path, &log->ops, text, bytes);
}

static int close_file(const char *path, FILE *file, char *text, size_t bytes)
{
    if (!file)
        return 0;
    const int bad = ferror(file), late = fclose(file);
    if (!bad && !late)
        return 0;
    snprintf(text, bytes, "cannot write %s: is the disk full?", path);
    return -EIO;
}

int gpt2_log_close(struct gpt2_log *log, char *text, size_t bytes)
{
    if (log->line_open)
        putchar('\n');
    fflush(stdout);
    int err = close_file(log->json_path, log->json, text, bytes);
    int err2 = close_file(log->ops_path, log->ops, text, bytes);
    memset(log, 0, sizeof *log);
    return err ? err : err2;
}

void gpt2_log_say(struct gpt2_log *log, const char *fmt, ...)
{
    va_list ap;

    if (!log->root)
        return;
    if (log->line_open)
        putchar('\n');
    log->line_open = false;
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    fflush(stdout);
}

/* One object and a newline; takes the reference. JSON has no infinity: such numbers are null. */
static void write_json(FILE *file, json_t *object)
{
    if (json_dumpf(object, file, JSON_COMPACT | JSON_REAL_PRECISION(12)) == 0)
        fputc('\n', file);
    json_decref(object);
}

static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *count(uint64_t n)
{
    return json_integer((json_int_t)n);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static void show_progress(struct gpt2_log *log, const struct gpt2_step *s)
{
    const uint64_t now = gpt2_now_ns(), every = log->terminal ? IN_PLACE_EVERY_NS : PLAIN_EVERY_NS;
    const bool edge = s->step == 1 || s->step == log->steps;

    if (!edge && now - log->shown_ns < every)
        return;
    log->shown_ns = now;
    const double left =
        (double)(now - log->start_ns) * 1e-9 / (double)s->step * (double)(log->steps - s->step);
    printf("%sstep %" PRIu64 "/%" PRIu64 "  loss %.4f  %.0f tokens/s  %u:%02u left%s",
           log->terminal ? "\r\033[K" : "", s->step, log->steps, s->loss, s->tokens_per_s,
           (unsigned)(left / 60), (unsigned)left % 60, log->terminal ? "" : "\n");
    log->line_open = log->terminal;
    fflush(stdout);
}

void gpt2_log_step(struct gpt2_log *log, const struct gpt2_step *s)
{
    if (log->json)
        write_json(log->json,
                   json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
                             "type", "step", "step", count(s->step), "loss", number(s->loss),
                             "grad_norm", number(s->grad_norm), "time_s", number(s->time_s),
                             "compute_s", number(s->compute_s), "exposed_s", number(s->exposed_s),
                             "optimizer_s", number(s->optimizer_s), "other_s", number(s->other_s),
                             "tokens_per_s", number(s->tokens_per_s), "wire_bytes",
                             count(s->wire_bytes), "disk_read_bytes", count(s->disk_read_bytes),
                             "disk_written_bytes", count(s->disk_written_bytes)));
    if (!log->root)
        return;
    if (log->forecast_s > 0 && log->n_after < GPT2_LOG_AFTER)
        log->after_s[log->n_after++] = s->time_s;
    log->done++;
    log->disk_read_bytes += s->disk_read_bytes;
    log->disk_written_bytes += s->disk_written_bytes;
    show_progress(log, s);
}

/* Where something lies outside the device, or the library was asked whether it should. */
static bool is_placed(const struct gpt2_session *s)
{
    const char *offload = zero_option(s->rt, "offload");

    return *zero_placement(s->rt) || (offload && !strcmp(offload, "auto"));
}

void gpt2_log_forecast(struct gpt2_log *log, struct gpt2_session *s)
{
    struct zero_forecast f = {.size = sizeof f};

    if (!is_placed(s))
        return;
    if (zero_forecast(s->rt, &f)) {
        gpt2_log_say(log, "There is no forecast of a step: %s", zero_last_error());
        return;
    }
    log->forecast_s = f.step_s;
    gpt2_log_say(log,
                 "A step should take %.3f s: passes %.3f s (the disk %.3f s, at the same time), "
                 "update %.3f s (the disk %.3f s)",
                 f.step_s, f.compute_s, f.compute_disk_s, f.update_s, f.update_disk_s);
    if (log->json)
        write_json(log->json,
                   json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "type", "forecast",
                             "placement", zero_placement(s->rt), "step_s", number(f.step_s),
                             "compute_s", number(f.compute_s), "compute_disk_s",
                             number(f.compute_disk_s), "update_s", number(f.update_s),
                             "update_disk_s", number(f.update_disk_s), "disk_read_rate",
                             number(f.disk_read_rate), "disk_write_rate",
                             number(f.disk_write_rate)));
}

void gpt2_log_eval(struct gpt2_log *log, uint64_t step, double loss)
{
    if (log->json)
        write_json(log->json, json_pack("{s:s, s:o, s:o}", "type", "eval", "step", count(step),
                                        "loss", number(loss)));
}

/* ---- Ops ------------------------------------------------------------------------------------- */

struct ops {
    FILE *file;
    uint64_t step;
};

static void write_op(void *arg, const struct zero_op_time *op)
{
    const struct ops *o = arg;
    write_json(o->file,
               json_pack("{s:o, s:o, s:o, s:s, s:s, s:s, s:o, s:o, s:o}", "step", count(o->step),
                         "body", count(op->body), "index", count(op->index), "kind", op->kind,
                         "unit", op->unit, "queue", op->queue, "bytes", count(op->bytes),
                         "start_ns", count(op->start_ns), "end_ns", count(op->end_ns)));
}

void gpt2_log_ops(struct gpt2_log *log, struct gpt2_session *s, uint64_t step)
{
    struct ops o = {log->ops, step};
    if (o.file)
        zero_op_times(s->rt, write_op, &o);
}

/* ---- The end --------------------------------------------------------------------------------- */

static double mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

/* Of each tier, where there are several. */
static void say_tiers(struct gpt2_log *log, const struct zero_memory_report *m)
{
    const struct zero_memory_row *rows = m->rows;

    for (uint32_t i = 0, end; i < m->n_rows; i = end) {
        uint64_t bytes = 0;
        for (end = i; end < m->n_rows && !strcmp(rows[end].tier, rows[i].tier); end++)
            bytes += rows[end].reserved;
        if (strcmp(rows[0].tier, rows[m->n_rows - 1].tier) != 0)
            gpt2_log_say(log, "  %-14s %-8s %12s %12.3f", "all", rows[i].tier, "", mib(bytes));
    }
}

/* Where a tier keeps what lies there, by the option that says so; "" where it has no folders. */
static const char *folders_of(const struct gpt2_session *s, const char *tier)
{
    char name[64];
    const char *folders;

    snprintf(name, sizeof name, "%s_path", tier);
    folders = zero_option(s->rt, name);
    return folders ? folders : "";
}

void gpt2_log_placement(struct gpt2_log *log, struct gpt2_session *s)
{
    struct zero_memory_report m = {.size = sizeof m};
    struct zero_forecast f = {.size = sizeof f};
    char text[1024] = "";
    int n = 0;

    if (zero_memory_report(s->rt, &m))
        return;
    for (uint32_t i = 0, end; i < m.n_rows; i = end) {
        uint64_t bytes = 0;
        const char *folders = folders_of(s, m.rows[i].tier);
        for (end = i; end < m.n_rows && !strcmp(m.rows[end].tier, m.rows[i].tier); end++)
            bytes += m.rows[end].reserved;
        if (n < (int)sizeof text)
            n += snprintf(text + n, sizeof text - (size_t)n, "%s%s %.1f MiB%s%s", n ? ", " : "",
                          m.rows[i].tier, mib(bytes), *folders ? " in " : "", folders);
    }
    if (*zero_placement(s->rt))
        gpt2_log_say(log, "Outside the device: %s; of each rank: %s", zero_placement(s->rt), text);
    else
        gpt2_log_say(log, "Outside the device: nothing, all of it fits there; of each rank: %s",
                     text);
    if (is_placed(s) && !zero_forecast(s->rt, &f))
        gpt2_log_say(log, "By the last job of this kind a step should take %.3f s", f.step_s);
}

/* The plan lets buffers lie at one place at different times. */
static void say_row(struct gpt2_log *log, const struct zero_memory_row *r)
{
    char reserved[32] = "shared";

    if (r->reserved || !r->planned)
        snprintf(reserved, sizeof reserved, "%.3f", mib(r->reserved));
    gpt2_log_say(log, "  %-14s %-8s %12.3f %12s %12.3f", r->class_name, r->tier, mib(r->planned),
                 reserved, mib(r->peak));
}

/* A tier that is no memory, or NULL. */
static const char *storage_in(const struct zero_memory_report *m)
{
    for (uint32_t i = 0; i < m->n_rows; i++) {
        const struct zero_memory_row *r = &m->rows[i];
        if (r->reserved && strcmp(r->tier, "device") != 0 && strcmp(r->tier, "cpu") != 0)
            return r->tier;
    }
    return NULL;
}

static void say_memory(struct gpt2_log *log, const struct zero_memory_report *m)
{
    const char *storage = storage_in(m);
    bool beyond = false;

    gpt2_log_say(log, "Memory of rank 0 in MiB:\n  %-14s %-8s %12s %12s %12s", "class", "tier",
                 "planned", "reserved", "peak");
    for (uint32_t i = 0; i < m->n_rows; i++) {
        const struct zero_memory_row *r = &m->rows[i];
        beyond |= r->peak > r->reserved;
        if (r->planned || r->reserved || r->peak)
            say_row(log, r);
    }
    say_tiers(log, m);
    gpt2_log_say(log, "  %-14s %-8s %12.3f %12.3f %12.3f", "all", "", mib(m->planned),
                 mib(m->reserved), mib(m->peak));
    gpt2_log_say(log, "  %-14s %-8s %12s %12.3f %12.3f", "unplanned", "", "", mib(m->unplanned),
                 mib(m->unplanned_peak));
    if (storage)
        gpt2_log_say(log, "  (cpu includes the buffers through which %s is read and written)",
                     storage);
    if (m->mapped)
        gpt2_log_say(log,
                     "  %-14s %-8s %12s %12.3f    parameters read where the other ranks keep "
                     "them",
                     "mapped", "", "", mib(m->mapped));
    if (beyond)
        gpt2_log_say(log,
                     "  (reserved: a class's part at the moment when all together need most; its "
                     "own peak comes at another one; shared: it has no part then, and lies where "
                     "others lie at that moment)");
}

/* What the disk bears, and what bounds the step's speed. */
static void say_disk(struct gpt2_log *log, const struct gpt2_session *s,
                     const struct zero_memory_report *m)
{
    const double own = (double)gpt2_n_parameters(&s->shape.model) / zero_ranks(s->rt);
    const double steps = (double)log->done;

    if (log->disk_read_bytes + log->disk_written_bytes)
        gpt2_log_say(
            log,
            "Disk of this rank: %.2f bytes read and %.2f written for each of its parameters "
            "and step; %.3f MiB written in all, first values included",
            (double)log->disk_read_bytes / own / steps,
            (double)log->disk_written_bytes / own / steps, mib(m->disk_written));
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* How good it was. */
static void say_forecast(struct gpt2_log *log)
{
    if (!log->n_after)
        return;
    qsort(log->after_s, log->n_after, sizeof *log->after_s, by_size);
    if (log->n_after == 1)
        gpt2_log_say(log, "The step after the forecast of %.3f s took %.3f s", log->forecast_s,
                     log->after_s[0]);
    else
        gpt2_log_say(log, "The %u steps after the forecast of %.3f s took %.3f s (median)",
                     log->n_after, log->forecast_s, log->after_s[log->n_after / 2]);
}

static json_t *memory_json(const struct zero_memory_report *m)
{
    json_t *rows = json_array();
    for (uint32_t i = 0; i < m->n_rows; i++) {
        const struct zero_memory_row *r = &m->rows[i];
        json_array_append_new(rows,
                              json_pack("{s:s, s:s, s:o, s:o, s:o}", "class", r->class_name, "tier",
                                        r->tier, "planned", count(r->planned), "reserved",
                                        count(r->reserved), "peak", count(r->peak)));
    }
    return rows;
}

int gpt2_log_summary(struct gpt2_log *log, struct gpt2_session *s)
{
    struct zero_memory_report memory = {.size = sizeof memory};
    const char *comm = zero_option(s->rt, "comm");
    char hex[17];
    uint64_t hash = 0;
    int err = zero_weights_hash(s->rt, &hash);

    if (!err)
        err = zero_memory_report(s->rt, &memory);
    if (err)
        return err;
    snprintf(hex, sizeof hex, "%016" PRIx64, hash);
    gpt2_log_ops(log, s, log->steps); /* those that ended behind their step */
    say_memory(log, &memory);
    say_disk(log, s, &memory);
    say_forecast(log);
    gpt2_log_say(log, "Weights %s", hex);
    if (log->json)
        write_json(log->json,
                   json_pack("{s:s, s:s, s:i, s:i, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, "
                             "s:o, s:o, s:b}",
                             "type", "summary",
                             "weights_hash", hex, "stage", (int)gpt2_session_number(s, "stage"),
                             "ranks", zero_ranks(s->rt), "comm", comm ? comm : "", "dtype",
                             zero_dtype_name(s->shape.dtype), "parameters",
                             count(gpt2_n_parameters(&s->shape.model)), "vocab",
                             count(s->shape.model.vocab), "batch", count(s->shape.batch), "seq",
                             count(s->shape.seq), "memory", memory_json(&memory), "mapped_bytes",
                             count(memory.mapped), "disk_read_bytes", count(memory.disk_read),
                             "disk_written_bytes", count(memory.disk_written), "disk_direct",
                             (int)memory.disk_direct));
    return 0;
}
