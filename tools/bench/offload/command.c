/* SPDX-License-Identifier: Apache-2.0 */
/* zero bench offload: blocks to and from a tier, beside what fio or plain loops do with them. */
#include "config.h"

#include "command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "machine/clock.h"
#include "tier.h"

#define LEAST_ON_DISK 0.95

static bool takes_part(const struct offload_bench *b, unsigned series)
{
    if (series == OFFLOAD_BESIDE)
        return b->has_beside;
    if (series == OFFLOAD_LIMIT)
        return b->has_fio || offload_is_memory(b);
    return series == OFFLOAD_STORE || offload_is_memory(b);
}

static int sample(struct offload_bench *b, const struct offload_shape *shape, unsigned series,
                  struct offload_sample *out)
{
    if (series == OFFLOAD_LIMIT && b->has_fio)
        return offload_fio_run(&b->fio, shape, b->o->ns, out);
    struct offload_walk w = {.shape = *shape, .until_ns = zero__deadline_ns(b->o->ns)};
    if (series < OFFLOAD_LIMIT)
        return offload_walk(series == OFFLOAD_STORE ? &b->store : &b->beside, &w, out);
    w.until_ns = zero__deadline_ns(b->o->ns / N_BENCH_COPIES);
    offload_copy(&b->store, &w, (enum bench_way)(series - OFFLOAD_LIMIT), out);
    return 0;
}

static double cpu_of(const struct offload_sample *s)
{
    return s->cpu_seconds / (double)s->bytes * 1e9;
}

static double time_of(const struct offload_sample *s, const struct offload_shape *shape)
{
    return s->seconds / (double)s->bytes * (double)shape->block;
}

static void figures_of(const struct offload_bench *b, const struct offload_shape *shape,
                       struct offload_figures *f)
{
    unsigned n = b->o->reps;
    double moved = 0, on_disk = 0;

    *f = (struct offload_figures){.on_disk = -1, .check = "off"};
    for (unsigned s = 0; s < N_OFFLOAD_SERIES; s++) {
        if (!takes_part(b, s))
            continue;
        for (unsigned k = 0; k < n; k++) {
            b->scratch[k] = time_of(&b->samples[s][k], shape);
            b->scratch[n + k] = cpu_of(&b->samples[s][k]);
        }
        f->time[s] = bench_stats_of(b->scratch, n);
        f->cpu[s] = bench_stats_of(b->scratch + n, n).median;
        if (s >= OFFLOAD_LIMIT && (!f->limit || f->time[s].median < f->time[f->limit].median))
            f->limit = s;
    }
    for (unsigned k = 0; k < n && f->limit; k++) {
        double percent = 100 * time_of(&b->samples[f->limit][k], shape) /
                         time_of(&b->samples[OFFLOAD_STORE][k], shape);
        f->low = k && f->low < percent ? f->low : percent;
        f->high = f->high > percent ? f->high : percent;
    }
    for (unsigned k = 0; k < n; k++) {
        const struct offload_sample *s = &b->samples[OFFLOAD_STORE][k];
        if (s->disk_bytes == OFFLOAD_UNKNOWN)
            return;
        moved += (double)s->bytes;
        on_disk += (double)s->disk_bytes;
    }
    f->on_disk = on_disk / moved;
}

/* What is read is compared once more in the same shape; what was written, all of it. */
static int check(struct offload_tier *t, const struct offload_shape *shape)
{
    const struct offload_walk w = {
        .shape = *shape, .until_ns = zero__deadline_ns(t->o->ns), .compare = true};
    int err = shape->op == OFFLOAD_WRITE ? 0 : offload_walk(t, &w, NULL);

    return err ? err : offload_compare(t);
}

/* The shape of all series, and a complaint where something is not as it should be. */
static int measure(struct offload_bench *b, const struct offload_shape *shape,
                   struct offload_figures *f)
{
    const struct offload_options *o = b->o;
    unsigned parts[N_OFFLOAD_SERIES], n = 0;
    int err = 0;

    for (unsigned s = 0; s < N_OFFLOAD_SERIES; s++)
        if (takes_part(b, s))
            parts[n++] = s;
    for (unsigned k = 0; k < o->warmup + o->reps && !err; k++)
        for (unsigned j = 0; j < n && !err; j++) {
            unsigned s = parts[(k + j) % n]; /* another one is first each time */
            err = sample(b, shape, s, &b->samples[s][k < o->warmup ? 0 : k - o->warmup]);
        }
    if (err)
        return err;
    figures_of(b, shape, f);
    if (o->check) {
        err = check(&b->store, shape);
        if (!err && b->has_beside)
            err = check(&b->beside, shape);
        f->check = err ? "failed" : "ok";
    }
    return err;
}

/* Are the bytes where they should be? */
static bool on_disk(const struct offload_bench *b, const struct offload_shape *shape,
                    const struct offload_figures *f)
{
    if (offload_is_memory(b) || b->o->cache_allowed || f->on_disk >= LEAST_ON_DISK)
        return true;
    if (f->on_disk < 0)
        fprintf(stderr, "zero bench offload: this kernel does not count what a process reads and "
                        "writes (/proc/self/io): no figure counts; --cache does without\n");
    else
        fprintf(stderr,
                "zero bench offload: %s of %" PRIu64
                " bytes: %s says what it moved, and %.1f %% of "
                "it is on disk (/proc/self/io), not %.0f: something keeps it in memory\n",
                offload_op_name(shape), shape->block, b->store.name, 100 * f->on_disk,
                100 * LEAST_ON_DISK);
    return false;
}

/* Of what was asked for. */
static bool fast_enough(const struct offload_bench *b, const struct offload_shape *shape,
                        const struct offload_figures *f)
{
    double percent = f->limit ? 100 * f->time[f->limit].median / f->time[OFFLOAD_STORE].median : 0;

    bool apart = b->fio.wanted == OFFLOAD_PAGES_HUGE && b->fio.pages == OFFLOAD_PAGES_SMALL;
    if (!b->o->least || (percent >= b->o->least && !apart))
        return true;
    if (apart)
        fprintf(stderr, "zero bench offload: fio's blocks lie in other pages than ours, so its "
                        "bandwidth is no measure for --at-least\n");
    else if (!f->limit)
        fprintf(stderr, "zero bench offload: nothing ran beside it that --at-least could count "
                        "from: install fio, and name a folder of a disk\n");
    else
        fprintf(stderr,
                "zero bench offload: %s of %" PRIu64 " bytes: %.1f %% of what it ran beside "
                "(%.1f to %.1f), and at least %u were wanted (--at-least)\n",
                offload_op_name(shape), shape->block, percent, f->low, f->high, b->o->least);
    return false;
}

/* What is in the store's way to be what it should. */
static bool sound(const struct offload_bench *b)
{
    const struct offload_options *o = b->o;

    if (!offload_is_memory(b) && o->deepest > b->store.info.depth) {
        fprintf(stderr,
                "zero bench offload: %s has %u transfers under way at most, fewer than the depth "
                "%" PRIu64 ", which fio would have: set its option for the depth, "
                "ZERO_NVME_DEPTH=%" PRIu64 " for nvme\n",
                b->store.name, b->store.info.depth, o->deepest, o->deepest);
        return false;
    }
    if (offload_is_memory(b) || o->cache_allowed || b->store.info.flags & ZERO_STORE_DIRECT)
        return true;
    fprintf(
        stderr,
        "zero bench offload: %s: %s: figures of the page cache say nothing about a disk; choose "
        "another folder, or --cache for what it is worth\n",
        b->store.name, b->store.info.note);
    return false;
}

static int beside_open(struct offload_bench *b)
{
    const struct offload_options *o = b->o;
    const char *text = o->beside, *sums = zero__option_find(b->store.options, "nvme_checksum");

    if (!text)
        text = sums && strcmp(sums, "1") == 0 ? "nvme_checksum=0" : "";
    if (!*text)
        return 0;
    char name[64];
    const char *equals = strchr(text, '=');
    snprintf(name, sizeof name, "%.*s", (int)(equals - text), text);
    snprintf(b->option, sizeof b->option, "%s", text);
    const struct zero_setting setting = {name, equals + 1};
    b->has_beside = true;
    return offload_open(&b->beside, o, &setting);
}

static void fio_open(struct offload_bench *b)
{
    const struct offload_options *o = b->o;
    const char *folders = o->folder ? o->folder : zero__option_find(b->store.options, "nvme_path");

    if (o->fio && !offload_is_memory(b) && folders && *folders)
        b->has_fio = offload_fio_open(&b->fio, o, folders);
    b->fio.wanted = b->fio.pages = b->store.pages;
}

static int run(struct offload_bench *b)
{
    const struct offload_options *o = b->o;
    bool ok = true;

    offload_head(b);
    for (unsigned op = 0; op < o->n_ops; op++)
        for (unsigned i = 0; i < o->n_sizes; i++)
            for (unsigned k = 0; k < o->n_depths; k++) {
                struct offload_shape shape = o->ops[op];
                struct offload_figures f;
                shape.block = o->sizes[i];
                shape.depth = (unsigned)o->depths[k];
                int err = measure(b, &shape, &f);
                if (err)
                    fprintf(stderr, "zero bench offload: %s of %" PRIu64 " bytes: %s\n",
                            offload_op_name(&shape), shape.block, zero__error_text());
                if (err && err != -EBADMSG)
                    return 1;
                (o->json ? offload_json : offload_row)(b, &shape, &f);
                ok &= !err && on_disk(b, &shape, &f) && fast_enough(b, &shape, &f);
            }
    return ok ? 0 : 1;
}

static int bench_open(struct offload_bench *b)
{
    unsigned reps = b->o->reps;
    int err = offload_open(&b->store, b->o, NULL);

    if (!err)
        err = beside_open(b);
    b->scratch = calloc(2 * (size_t)reps, sizeof *b->scratch);
    bool there = b->scratch;
    for (unsigned s = 0; s < N_OFFLOAD_SERIES; s++)
        there &= (b->samples[s] = calloc(reps, sizeof *b->samples[s])) != NULL;
    return err || there ? err : zero__fail(-ENOMEM, "no memory for %u repetitions", reps);
}

int bench_offload(int argc, char **argv)
{
    struct offload_options o = {
        .tier = "nvme",
        .ops = {{.op = OFFLOAD_READ}, {.op = OFFLOAD_WRITE}, {.op = OFFLOAD_MIXED}},
        .n_ops = 3,
        .bytes = UINT64_C(1) << 30,
        .reps = 5,
        .warmup = 1,
        .pages = "auto",
        .check = true,
        .fio = true};
    int status = offload_parse(&o, argc, argv);

    if (status >= 0)
        return status;
    struct offload_bench b = {.o = &o};
    if (bench_open(&b)) {
        fprintf(stderr, "zero bench offload: %s\n", zero__error_text());
        status = 2;
    } else if (!sound(&b)) {
        status = 1;
    } else {
        fio_open(&b);
        status = run(&b);
    }
    offload_fio_close(&b.fio);
    if (b.has_beside)
        offload_close(&b.beside);
    offload_close(&b.store);
    for (unsigned s = 0; s < N_OFFLOAD_SERIES; s++)
        free(b.samples[s]);
    free(b.scratch);
    return status;
}
