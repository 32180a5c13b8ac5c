/* SPDX-License-Identifier: Apache-2.0 */
/* What lies where, and the tables and the summary of the end; see log.h. */
#include <inttypes.h>
#include <stdlib.h>

#include "log_inside.h"

static double mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

/* The rows of a tier follow each other: where those of row i's end, and what they reserve. */
static uint32_t tier_end(const struct zero_memory_report *m, uint32_t i, uint64_t *reserved)
{
    const char *tier = m->rows[i].tier;

    for (*reserved = 0; i < m->n_rows && !strcmp(m->rows[i].tier, tier); i++)
        *reserved += m->rows[i].reserved;
    return i;
}

/* Of each tier, where there are several. */
static void say_tiers(struct gpt2_log *log, const struct zero_memory_report *m)
{
    uint64_t bytes;

    for (uint32_t i = 0, end; i < m->n_rows; i = end) {
        end = tier_end(m, i, &bytes);
        if (i || end < m->n_rows)
            gpt2_log_say(log, "  %-14s %-8s %12s %12.3f", "all", m->rows[i].tier, "", mib(bytes));
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
        const char *folders = folders_of(s, m.rows[i].tier);
        uint64_t bytes;
        end = tier_end(&m, i, &bytes);
        if (n < (int)sizeof text)
            n += snprintf(text + n, sizeof text - (size_t)n, "%s%s %.1f MiB%s%s", n ? ", " : "",
                          m.rows[i].tier, mib(bytes), *folders ? " in " : "", folders);
    }
    if (*zero_placement(s->rt))
        gpt2_log_say(log, "Outside the device: %s; of each rank: %s", zero_placement(s->rt), text);
    else
        gpt2_log_say(log, "Outside the device: nothing, all of it fits there; of each rank: %s",
                     text);
    if (gpt2_log_is_placed(s) && !zero_forecast(s->rt, &f))
        gpt2_log_say(log, "By the last job of this kind a step should take %.3f s", f.step_s);
}

/* The plan lets buffers lie at one place at different times. */
static bool is_shared(const struct zero_memory_row *r)
{
    return r->planned && !r->reserved;
}

static void say_row(struct gpt2_log *log, const struct zero_memory_row *r)
{
    char reserved[32] = "shared";

    if (!is_shared(r))
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
    bool beyond = false, shared = false;

    gpt2_log_say(log, "Memory of rank 0 in MiB:\n  %-14s %-8s %12s %12s %12s", "class", "tier",
                 "planned", "reserved", "peak");
    for (uint32_t i = 0; i < m->n_rows; i++) {
        const struct zero_memory_row *r = &m->rows[i];
        beyond |= r->peak > r->reserved || r->planned > r->reserved;
        shared |= is_shared(r);
        if (r->planned || r->reserved || r->peak)
            say_row(log, r);
    }
    say_tiers(log, m);
    gpt2_log_say(log, "  %-14s %-8s %12.3f %12.3f %12.3f", "all", "", mib(m->planned),
                 mib(m->reserved), mib(m->peak));
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
                     "  (planned and peak: of each class at its own fullest moment; reserved: its "
                     "part at\n   the fullest one of all, where what others need later lies, "
                     "too)");
    if (shared)
        gpt2_log_say(log, "  (shared: it has no part at that moment, and lies where others do)");
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
        json_array_append_new(
            rows, json_pack("{s:s, s:s, s:o, s:o, s:o}", "class", r->class_name, "tier", r->tier,
                            "planned", gpt2_json_count(r->planned), "reserved",
                            gpt2_json_count(r->reserved), "peak", gpt2_json_count(r->peak)));
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
        gpt2_log_write(log->json,
                       json_pack("{s:s, s:s, s:i, s:i, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, "
                                 "s:o, s:o, s:b}",
                                 "type", "summary", "weights_hash", hex, "stage",
                                 (int)gpt2_session_number(s, "stage"), "ranks", zero_ranks(s->rt),
                                 "comm", comm ? comm : "", "dtype", zero_dtype_name(s->shape.dtype),
                                 "parameters", gpt2_json_count(gpt2_n_parameters(&s->shape.model)),
                                 "vocab", gpt2_json_count(s->shape.model.vocab), "batch",
                                 gpt2_json_count(s->shape.batch), "seq",
                                 gpt2_json_count(s->shape.seq), "memory", memory_json(&memory),
                                 "mapped_bytes", gpt2_json_count(memory.mapped), "disk_read_bytes",
                                 gpt2_json_count(memory.disk_read), "disk_written_bytes",
                                 gpt2_json_count(memory.disk_written), "disk_direct",
                                 (int)memory.disk_direct));
    return 0;
}
