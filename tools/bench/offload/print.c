/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of `zero bench offload`, as a table or as JSON. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>

#include "tier.h"
#include "tools/bench/measure/record.h"

static const char *limit_name(const struct offload_bench *b, const struct offload_figures *f)
{
    return !f->limit    ? NULL
           : b->has_fio ? b->fio.version
                        : bench_way_name((enum bench_way)(f->limit - OFFLOAD_LIMIT));
}

static const char *limit_pages(const struct offload_bench *b, const struct offload_figures *f)
{
    return !f->limit    ? NULL
           : b->has_fio ? offload_pages_name(b->fio.pages)
                        : b->store.memory_pages;
}

void offload_json(const struct offload_bench *b, const struct offload_shape *shape,
                  const struct offload_figures *f)
{
    bool beside = b->has_beside;
    double block = (double)shape->block;
    const struct bench_field fields[] = {
        {"tier", 0, b->store.name},
        {"store", 0, b->store.info.note},
        {"depth", shape->depth, NULL},
        {"store_bytes", (double)b->o->bytes, NULL},
        {"cpu_s_per_GB", f->cpu[OFFLOAD_STORE], NULL},
        {"on_disk_percent", offload_is_memory(b) || f->on_disk < 0 ? -1 : 100 * f->on_disk, NULL},
        {"limit", -1, limit_name(b, f)},
        {"pages", 0, b->store.memory_pages},
        {"limit_pages", -1, limit_pages(b, f)},
        {"limit_cpu_s_per_GB", f->limit ? f->cpu[f->limit] : -1, NULL},
        {"percent_low", f->limit ? f->low : -1, NULL},
        {"percent_high", f->limit ? f->high : -1, NULL},
        {"beside", -1, beside ? b->option : NULL},
        {"beside_GBps", beside ? block / f->time[OFFLOAD_BESIDE].median * 1e-9 : -1, NULL},
        {"beside_cpu_s_per_GB", beside ? f->cpu[OFFLOAD_BESIDE] : -1, NULL},
    };
    struct bench_record r = {.bench = "offload",
                             .op = offload_op_name(shape),
                             .bytes = shape->block,
                             .time = f->time[OFFLOAD_STORE],
                             .n = b->o->reps,
                             .bandwidth_GBps = block / f->time[OFFLOAD_STORE].median * 1e-9,
                             .limit_GBps = f->limit ? block / f->time[f->limit].median * 1e-9 : 0,
                             .limit_s = f->limit ? f->time[f->limit].median : 0,
                             .check = f->check,
                             .fields = fields,
                             .n_fields = sizeof fields / sizeof *fields};
    bench_record_json(&r);
}

static void put_optional(bool there, const char *format, int width, double x)
{
    char text[32] = "-";

    if (there)
        snprintf(text, sizeof text, "%.*f%s", *format - '0', x, format + 1);
    printf(" %*s", width, text);
}

void offload_row(const struct offload_bench *b, const struct offload_shape *shape,
                 const struct offload_figures *f)
{
    double block = (double)shape->block, own = f->time[OFFLOAD_STORE].median;
    double limit = f->time[f->limit].median, other = f->time[OFFLOAD_BESIDE].median;
    char range[32] = "";

    if (f->limit)
        snprintf(range, sizeof range, "[%.0f..%.0f]", f->low, f->high);
    printf("%-12s %9" PRIu64 " %5u", offload_op_name(shape), shape->block, shape->depth);
    put_optional(true, "3", 8, block / own * 1e-9);
    put_optional(true, "1%", 6, 100 * f->time[OFFLOAD_STORE].spread);
    put_optional(f->limit, "3", 8, block / limit * 1e-9);
    put_optional(f->limit, "1%", 7, 100 * limit / own);
    printf(" %10s", range);
    put_optional(true, "3", 7, f->cpu[OFFLOAD_STORE]);
    put_optional(f->limit, "3", 7, f->cpu[f->limit]);
    if (b->has_beside) {
        put_optional(true, "3", 8, block / other * 1e-9);
        put_optional(true, "3", 7, f->cpu[OFFLOAD_BESIDE]);
    }
    put_optional(f->on_disk >= 0 && !offload_is_memory(b), "1%", 7, 100 * f->on_disk);
    printf("  %s\n", f->check);
    fflush(stdout);
}

void offload_head(const struct offload_bench *b)
{
    const struct offload_options *o = b->o;
    char name[40] = "nothing to compare with";

    if (o->json)
        return;
    if (b->has_fio)
        snprintf(name, sizeof name, "%s", b->fio.version);
    else if (offload_is_memory(b))
        snprintf(name, sizeof name, "plain loops");
    printf("%s: %s; %" PRIu64 " MiB; %u repetitions of %g s in turn with %s%s%s", b->store.name,
           b->store.info.note, o->bytes >> 20, o->reps, (double)o->ns * 1e-9, name,
           b->has_beside ? " and " : "", b->option);
    printf("; blocks in %s pages", b->store.memory_pages);
    if (b->has_fio)
        printf(", fio's are to be %s ones, too", offload_pages_name(b->fio.wanted));
    putchar('\n');
    printf("%-12s %9s %5s %8s %6s %8s %7s %10s %7s %7s", "operation", "block", "depth", "GB/s",
           "spread", b->has_fio ? "fio" : "limit", "of it", "", "s/GB", "its");
    if (b->has_beside)
        printf(" %16.16s", b->option);
    printf(" %7s  %s\n", "on disk", "check");
    fflush(stdout);
}
