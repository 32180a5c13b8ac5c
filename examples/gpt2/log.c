/* SPDX-License-Identifier: Apache-2.0 */
/* Progress, sentences and the JSON log; see log.h. */
#include "log_inside.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
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
    if (!err)
        err = open_file(o->ops, rank, log->ops_path, &log->ops, text, bytes);
    return err ? err : open_file(o->program, rank, log->program_path, &log->program, text, bytes);
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
    int err3 = close_file(log->program_path, log->program, text, bytes);
    memset(log, 0, sizeof *log);
    return err ? err : err2 ? err2 : err3;
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
    const unsigned hours = (unsigned)(left / 3600), minutes = (unsigned)(left / 60) % 60;
    printf("%sstep %" PRIu64 "/%" PRIu64 "  loss %.4f  %.0f tokens/s  ",
           log->terminal ? "\r\033[K" : "", s->step, log->steps, s->loss, s->tokens_per_s);
    if (hours)
        printf("%u h %02u min left", hours, minutes);
    else
        printf("%u:%02u min left", minutes, (unsigned)left % 60);
    fputs(log->terminal ? "" : "\n", stdout);
    log->line_open = log->terminal;
    fflush(stdout);
}

void gpt2_log_step(struct gpt2_log *log, const struct gpt2_step *s)
{
    if (log->json)
        gpt2_log_write(
            log->json,
            json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "type",
                      "step", "step", gpt2_json_count(s->step), "loss", gpt2_json_real(s->loss),
                      "grad_norm", gpt2_json_real(s->grad_norm), "time_s",
                      gpt2_json_real(s->time_s), "compute_s", gpt2_json_real(s->compute_s),
                      "exposed_s", gpt2_json_real(s->exposed_s), "optimizer_s",
                      gpt2_json_real(s->optimizer_s), "other_s", gpt2_json_real(s->other_s),
                      "tokens_per_s", gpt2_json_real(s->tokens_per_s), "wire_bytes",
                      gpt2_json_count(s->wire_bytes), "disk_read_bytes",
                      gpt2_json_count(s->disk_read_bytes), "disk_written_bytes",
                      gpt2_json_count(s->disk_written_bytes)));
    if (!log->root)
        return;
    if (log->forecast_s > 0 && log->n_after < GPT2_LOG_AFTER)
        log->after_s[log->n_after++] = s->time_s;
    log->done++;
    log->disk_read_bytes += s->disk_read_bytes;
    log->disk_written_bytes += s->disk_written_bytes;
    show_progress(log, s);
}

void gpt2_log_forecast(struct gpt2_log *log, struct gpt2_session *s)
{
    struct zero_forecast f = {.size = sizeof f};

    if (!gpt2_log_is_placed(s))
        return;
    if (zero_forecast(s->rt, &f)) {
        gpt2_log_say(log, "There is no forecast of a step: %s", zero_last_error());
        return;
    }
    log->forecast_s = f.step_s;
    const double update_s = f.step_s - f.passes_s;
    if (f.compute_disk_s + f.update_disk_s > 0)
        gpt2_log_say(log,
                     "A step should take %.3f s: passes %.3f s (computing %.3f s, the disk %.3f s),"
                     " update %.3f s (computing %.3f s, the disk %.3f s)",
                     f.step_s, f.passes_s, f.compute_s, f.compute_disk_s, update_s, f.update_s,
                     f.update_disk_s);
    else
        gpt2_log_say(log, "A step should take %.3f s: passes %.3f s, update %.3f s", f.step_s,
                     f.passes_s, update_s);
    if (log->json)
        gpt2_log_write(log->json,
                       json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "type",
                                 "forecast", "placement", zero_placement(s->rt), "step_s",
                                 gpt2_json_real(f.step_s), "passes_s", gpt2_json_real(f.passes_s),
                                 "compute_s", gpt2_json_real(f.compute_s),
                                 "compute_disk_s", gpt2_json_real(f.compute_disk_s), "update_s",
                                 gpt2_json_real(f.update_s), "update_disk_s",
                                 gpt2_json_real(f.update_disk_s), "disk_read_rate",
                                 gpt2_json_real(f.disk_read_rate), "disk_write_rate",
                                 gpt2_json_real(f.disk_write_rate)));
}

void gpt2_log_eval(struct gpt2_log *log, uint64_t step, double loss)
{
    if (log->json)
        gpt2_log_write(log->json, json_pack("{s:s, s:o, s:o}", "type", "eval", "step",
                                            gpt2_json_count(step), "loss", gpt2_json_real(loss)));
}

/* ---- Ops ------------------------------------------------------------------------------------- */

struct ops {
    FILE *file;
    uint64_t step;
};

static void write_op(void *arg, const struct zero_op_time *op)
{
    const struct ops *o = arg;
    gpt2_log_write(o->file,
                   json_pack("{s:o, s:o, s:o, s:s, s:s, s:s, s:o, s:o, s:o}", "step",
                             gpt2_json_count(o->step), "body", gpt2_json_count(op->body), "index",
                             gpt2_json_count(op->index), "kind", op->kind, "unit", op->unit,
                             "queue", op->queue, "bytes", gpt2_json_count(op->bytes), "start_ns",
                             gpt2_json_count(op->start_ns), "end_ns", gpt2_json_count(op->end_ns)));
}

void gpt2_log_ops(struct gpt2_log *log, struct gpt2_session *s, uint64_t step)
{
    struct ops o = {log->ops, step};
    if (o.file)
        zero_op_times(s->rt, write_op, &o);
}
