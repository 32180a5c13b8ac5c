/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placements without fractions: tiers are filled as far as the limits leave room, no further and
 * hardly less; all ranks come to the same; the bits are those of the device alone; and what fits
 * nowhere is refused.
 */
#include "../tap.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"
#include "machine/clock.h"
#include "toy.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define RANKS 2

static char path[4096];

struct found {
    char placement[RANKS][256];
    double rate; /* of reading the disk, in the forecast */
    int early;   /* what a forecast before the first step says */
    double early_s, chosen_s; /* which is; what the placement was chosen for */
};

static void committed(struct zero_runtime *rt, int rank, void *arg)
{
    struct found *f = arg;

    struct zero_forecast forecast = {.size = sizeof forecast};

    snprintf(f->placement[rank], sizeof f->placement[rank], "%s", zero_placement(rt));
    if (rank == 0)
        f->early = zero_forecast(rt, &forecast);
    if (rank == 0 && !f->early)
        f->early_s = forecast.step_s;
}

static void finished(struct zero_runtime *rt, int rank, void *arg)
{
    struct zero_forecast forecast = {.size = sizeof forecast}, small = {.size = 16, .compute_s = 7};
    struct found *f = arg;

    if (rank == 0 && !zero_forecast(rt, &forecast) && !zero_forecast(rt, &small) &&
        forecast.step_s > 0 && small.step_s == forecast.step_s && small.compute_s == 7 &&
        small.size == 16)
        f->rate = forecast.disk_read_rate;
}

static int run(const char *stage, const char *accum, const char *offload, const char *limit,
               struct toy_result *r, struct found *f)
{
    struct zero_setting s[] = {
        {"stage", stage},        {"accum", accum},        {"timeout", "20"},
        {"lr", "0.01"},          {"clip", "0.5"},         {"offload", offload},
        {"memory_limit", limit}, {"bucket_bytes", "64K"}, {"prefetch_bytes", "128K"},
        {"tile_bytes", "32K"},   {"nvme_path", path}};
    bool disk = strstr(offload, "nvme") || !strcmp(offload, "auto");
    struct toy t = {.ranks = RANKS,
                    .layers = 8,
                    .steps = 3,
                    .dtype = ZERO_BF16,
                    .flags = TOY_ACTIVATIONS,
                    .width = 40000,
                    .settings = s,
                    .n_settings = disk ? 11 : 10,
                    .committed = committed,
                    .finished = finished,
                    .arg = f,
                    .seed = 7};

    *f = (struct found){0};
    return toy_train(&t, r);
}

static uint64_t reserved_in(const struct toy_result *r, const char *tier)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < r->memory.n_rows; i++)
        if (!strcmp(r->memory.rows[i].tier, tier))
            bytes += r->memory.rows[i].reserved;
    return bytes;
}

/* most, least: bytes that may be reserved on the device and in the host's memory. */
static void good(const char *stage, const char *accum, const char *offload, const char *limit,
                 const uint64_t most[2], const uint64_t least[2], const char *words)
{
    struct toy_result here, there;
    struct found f;
    int err = run(stage, accum, "", "", &here, &f);

    if (!err)
        err = run(stage, accum, offload, limit, &there, &f);
    uint64_t device = err ? 0 : reserved_in(&there, "device"),
             cpu = err ? 0 : reserved_in(&there, "cpu");
    ok(!err && there.agree && there.hash == here.hash, "%s under \"%s\": the same bits", offload,
       limit);
    if (err)
        diag("%s%s", here.error, there.error);
    ok(!strcmp(f.placement[0], f.placement[RANKS - 1]) && strstr(f.placement[0], words),
       "which is \"%s\"", words);
    diag("%s; %" PRIu64 " KiB of the device, %" PRIu64 " of the host", f.placement[0], device / KIB,
         cpu / KIB);
    ok(device <= most[0] && device >= least[0] && cpu <= most[1] && cpu >= least[1],
       "as much as there is room for");
}

static void refused(const char *offload, const char *limit, const char *words)
{
    struct toy_result r;
    struct found f;
    int err = run("2", "1", offload, limit, &r, &f);

    ok(err && strstr(r.error, words), "%s under \"%s\": refused", offload, limit);
    diag("%s", r.error);
}

/* A disk that fails while it is measured is a disk that fails. */
static void measured_badly(void)
{
    struct zero_setting s[] = {{"offload", "optimizer:fault"}, {"nvme_path", path},
                               {"timeout", "20"}, {"tile_bytes", "32K"},
                               {"fault_io", "error=EIO:op=read:n=2"}};
    struct toy t = {.ranks = RANKS, .layers = 8, .steps = 3, .dtype = ZERO_BF16, .width = 40000,
                    .settings = s, .n_settings = 5, .seed = 7};
    struct toy_result r;

    ok(toy_train(&t, &r) == -EIO && strstr(r.error, "ZERO_FAULT_IO"),
       "a read fails while the disk is measured");
    diag("%s", r.error);
}

/* One that takes longer than ZERO_TIMEOUT for a request, and goes on, is measured all the same. */
static void measured_slowly(void)
{
    struct zero_setting s[] = {{"offload", "optimizer:fault"}, {"nvme_path", path},
                               {"timeout", "2"}, {"tile_bytes", "64K"}, {"nvme_depth", "1"},
                               {"fault_io", "slow=20000:times=3"}};
    struct toy t = {.ranks = 1, .layers = 8, .steps = 1, .dtype = ZERO_BF16, .width = 40000,
                    .settings = s, .n_settings = 6, .seed = 7};
    struct toy_result r;
    int64_t began = zero__now_ns();
    int err = toy_train(&t, &r);
    double took = (double)(zero__now_ns() - began) / 1e9;

    ok(!err && took > 3 * 65536.0 / 20000, "a disk that is slow while it is measured: %.1f s, %s",
       took, err ? r.error : "it trains");
}

static void text_write(const char *file, const char *text)
{
    FILE *f = fopen(file, "w");

    if (!f || fputs(text, f) < 0)
        bail("cannot write a file of speeds");
    fclose(f);
}

/* What auto has measured is kept, and used again; what is no measurement is not. */
static void remembered(void)
{
    char file[4200], other[4200], text[400], line[200] = "", again[200] = "";
    struct toy_result r;
    struct found found;
    uint64_t key = 0;
    long long when = 0;
    double x[3];

    snprintf(file, sizeof file, "%s/cache", path);
    setenv("XDG_CACHE_HOME", file, 1);
    int err = run("2", "1", "auto", "device:1500K,cpu:1200K", &r, &found);
    ok(!err && found.early == -EAGAIN, "auto measures the disk, and foretells nothing");
    if (err)
        diag("%s", r.error);
    snprintf(file, sizeof file, "%s/cache/libzero/speeds", path);
    FILE *f = fopen(file, "r");
    ok(f && fgets(line, sizeof line, f) &&
           sscanf(line, "%16" SCNx64 " %lf %lf %lf %lld", &key, &x[0], &x[1], &x[2], &when) == 5,
       "and notes it");
    diag("%s: %s", file, line);
    if (f)
        fclose(f);
    snprintf(other, sizeof other, "%s/cache/libzero/copies", path);
    f = fopen(other, "r");
    ok(f && fgets(again, sizeof again, f) && sscanf(again, "%*x %lf", &x[0]) == 1 && x[0] > 1e6,
       "before it has placed anything, and the host's copies with it");
    diag("%s: %s", other, again);
    if (f)
        fclose(f);
    snprintf(text, sizeof text,
             "garbage\n%016" PRIx64 " 1 nan -7 %lld\n%016" PRIx64
             " 1e9 2e9 3e9 %lld\n%016" PRIx64 " 1e9 2e9 3e9 1000\n",
             key, when, key + 1, when, key);
    text_write(file, text);
    err = run("2", "1", "auto", "device:1500K,cpu:1200K", &r, &found);
    f = fopen(file, "r");
    ok(!err && f && fgets(line, sizeof line, f) && fgets(again, sizeof again, f) &&
           strtoull(line, NULL, 16) == key && strtoull(again, NULL, 16) == key + 1 &&
           !fgets(line, sizeof line, f),
       "what is no measurement is replaced, another machine's stays");
    diag("%s%s", line, again);
    if (f)
        fclose(f);
    snprintf(text, sizeof text, "%016" PRIx64 " 1e9 2e9 3e9 %lld\n", key, when);
    text_write(file, text);
    err = run("2", "1", "auto", "device:1500K,cpu:1200K", &r, &found);
    ok(!err && found.rate == 1e9, "what is known is not measured again");
    is_int(found.early, 0, "and the first step is foretold");
    remove(file);
}

/*
 * What a disk is measured with is what may lie there at most, so jobs of one model that place it
 * otherwise, under other limits, find it known.
 */
static void measured_once(void)
{
    static const char *const limits[] = {"device:1500K,cpu:1200K", "device:2500K,cpu:2M"};
    char file[4200], line[2][200] = {"", ""};
    struct toy_result r;
    struct found found;
    int err = 0;

    snprintf(file, sizeof file, "%s/cache/libzero/speeds", path);
    remove(file);
    for (int i = 0; i < 2 && !err; i++) {
        err = run("2", "1", "auto", limits[i], &r, &found);
        FILE *f = err ? NULL : fopen(file, "r");
        err = err ? err : !f || !fgets(line[i], sizeof line[i], f) || fgets(line[i], 2, f);
        if (f)
            fclose(f);
    }
    ok(!err && *line[0] && !strcmp(line[0], line[1]), "a disk is measured for all placements");
    remove(file);
}

static int lines_of(const char *file)
{
    FILE *f = fopen(file, "r");
    int n = 0, c;

    while (f && (c = getc(f)) != EOF)
        n += c == '\n';
    if (f)
        fclose(f);
    return n;
}

/* A disk has a line for each way to it, whoever has chosen what lies there. */
static void disks_told_apart(void)
{
    static const struct {
        const char *offload, *limit, *folder, *name, *value;
        int lines;
    } jobs[] = {{"auto", "device:1500K,cpu:1200K", path, "nvme_depth", "16", 1},
                {"optimizer:nvme", "", path, "nvme_depth", "16", 1},
                {"optimizer:nvme", "", path, "nvme_checksum", "0", 2},
                {"auto", "device:1500K,cpu:1200K", path, "nvme_checksum", "0", 2},
                {"auto", "device:1500K,cpu:1200K", path, "nvme_engine", "threads", 3},
                {"optimizer:cpu+nvme", "cpu:2M", path, "nvme_engine", "threads", 3},
                {"auto", "device:1500K,cpu:1200K", path, "nvme_depth", "8", 4},
                {"auto", "device:1500K,cpu:1200K", "/dev/shm", "nvme_depth", "16", 5}};
    char file[4200];

    snprintf(file, sizeof file, "%s/cache/libzero/speeds", path);
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        struct zero_setting s[] = {{"offload", jobs[i].offload}, {"nvme_path", jobs[i].folder},
                                   {"timeout", "20"}, {"memory_limit", jobs[i].limit},
                                   {"tile_bytes", "32K"}, {"bucket_bytes", "64K"},
                                   {"prefetch_bytes", "128K"}, {jobs[i].name, jobs[i].value}};
        struct toy t = {.ranks = RANKS, .layers = 8, .steps = 1, .dtype = ZERO_BF16,
                        .flags = TOY_ACTIVATIONS, .width = 40000, .settings = s, .n_settings = 8,
                        .seed = 7};
        struct toy_result r;
        int err = toy_train(&t, &r);
        ok(!err && lines_of(file) == jobs[i].lines, "%s with %s=%s: %d speeds of disks are known",
           jobs[i].offload, jobs[i].name, jobs[i].value, jobs[i].lines);
        if (err || lines_of(file) != jobs[i].lines)
            diag("%d: %s", lines_of(file), err ? r.error : "");
    }
    remove(file);
}

/* The first line of a file, with other figures. */
static void figures_write(const char *name, const char *figures)
{
    char file[4200], line[200] = "", text[300];

    snprintf(file, sizeof file, "%s/cache/libzero/%s", path, name);
    FILE *f = fopen(file, "r");
    if (!f || !fgets(line, sizeof line, f) || !strrchr(line, ' '))
        bail("nothing is kept");
    fclose(f);
    snprintf(text, sizeof text, "%.16s %s%s", line, figures, strrchr(line, ' '));
    text_write(file, text);
}

/* The line of the job's kind, as if its last run had computed for so long. */
static void past_write(const char *file, const char *line, double compute_s)
{
    char text[300];

    snprintf(text, sizeof text, "%.16s %g 1e-6 1e6 1e6 1e6 %s", line, compute_s,
             strrchr(line, ' ') + 1);
    text_write(file, text);
}

/* Some of what is named so, the last of its kind in a placement. */
static bool is_on_disk(const char *placement, const char *what)
{
    const char *at = strstr(placement, what);

    return at && strstr(at, "nvme");
}

/*
 * A job that computes for longer than it moves leaves activations on the disk rather than what the
 * update reads and writes, and others do not.
 */
static void remembers_steps(void)
{
    static const char limit[] = "device:2500K,cpu:2M";
    char file[4200], line[200] = "";
    struct toy_result first, slow, quick;
    struct found at_first, slowly, quickly;

    snprintf(file, sizeof file, "%s/cache/libzero/steps", path);
    remove(file);
    int err = run("2", "1", "auto", limit, &first, &at_first);
    FILE *f = fopen(file, "r");
    ok(!err && at_first.early == -EAGAIN && f && fgets(line, sizeof line, f) && strchr(line, ' '),
       "what a step took is noted");
    diag("%s: %s%s", file, line, err ? first.error : "");
    if (f)
        fclose(f);
    if (!strchr(line, ' '))
        return;
    figures_write("speeds", "1e6 1e6 1e6");
    past_write(file, line, 5);
    err = run("2", "1", "auto", limit, &slow, &slowly);
    past_write(file, line, 1e-6);
    if (!err)
        err = run("2", "1", "auto", limit, &quick, &quickly);
    ok(!err && !strcmp(quickly.placement[0], at_first.placement[0]) &&
           !strcmp(slowly.placement[0], slowly.placement[RANKS - 1]),
       "who computes little, or nobody knows how much: as little on the disk as can be");
    ok(!err && is_on_disk(slowly.placement[0], "activations:") &&
           !is_on_disk(quickly.placement[0], "activations:") &&
           strstr(quickly.placement[0], "optimizer:nvme,") &&
           !strstr(slowly.placement[0], "optimizer:nvme,"),
       "who computes much: what the passes move, and less of what the update does");
    diag("%s; %s", quickly.placement[0], slowly.placement[0]);
    ok(!err && quickly.early == 0 && slowly.early == 0, "either has its first step foretold");
    ok(!err && slow.hash == first.hash && quick.hash == first.hash, "all with the same bits");
    remove(file);
}

static void heard(void *arg, int level, const char *line)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const char *at = strstr(line, "room given by all traffic, and ");

    (void)level;
    pthread_mutex_lock(&lock);
    if (at)
        ((struct found *)arg)->chosen_s = strtod(strstr(at, "and ") + 4, NULL);
    pthread_mutex_unlock(&lock);
}

/* A placement is chosen for what the first forecast says: by the same disk, and the same copies. */
static void said_as_chosen(void)
{
    struct zero_setting s[] = {{"offload", "auto"},        {"nvme_path", path},
                               {"timeout", "20"},          {"memory_limit", "device:2500K,cpu:2M"},
                               {"tile_bytes", "32K"},      {"bucket_bytes", "64K"},
                               {"prefetch_bytes", "128K"}, {"log", "info"}};
    struct found f = {.early = 0};
    struct toy t = {.ranks = RANKS, .layers = 8, .steps = 2, .dtype = ZERO_BF16, .width = 40000,
                    .flags = TOY_ACTIVATIONS, .settings = s, .n_settings = 8, .seed = 7,
                    .committed = committed, .log = heard, .arg = &f};
    char file[4200];
    struct toy_result r;
    int err = toy_train(&t, &r);

    if (!err) {
        figures_write("speeds", "5e6 5e6 5e6");
        figures_write("copies", "2e6");
        figures_write("steps", "1e-6 1e-6 1e6 1e6 1e6"); /* the disk was slower then */
        f = (struct found){.early = 0};
        err = toy_train(&t, &r);
    }
    ok(!err && f.chosen_s > 0 && f.early_s > 0.98 * f.chosen_s && f.early_s < 1.02 * f.chosen_s,
       "a placement is chosen for a step of %g s, and one of %g s is foretold", f.chosen_s,
       f.early_s);
    if (err)
        diag("%s", r.error);
    snprintf(file, sizeof file, "%s/cache/libzero/steps", path);
    remove(file);
    snprintf(file, sizeof file, "%s/cache/libzero/copies", path);
    remove(file);
    snprintf(file, sizeof file, "%s/cache/libzero/speeds", path);
    remove(file);
}

/* What no job can have taken is not believed, and nobody fails of it. */
static void remembers_no_nonsense(void)
{
    static const char *const figures[] = {
        "1e-300 1e-6 1e6 1e6 1e6", "1 1e-300 1e6 1e6 1e6", "1 1 1e-300 1e6 1e6",
        "1 1 1e6 1e-300 1e6",      "1 1 1e6 1e6 1e-300",   "1e300 1 1e6 1e6 1e6",
        "1 1 1e300 1e6 1e6",       "nan 1 1e6 1e6 1e6",    "1 1 inf 1e6 1e6",
        "1 1 -1e6 1e6 1e6",        "1 1 1e6 1e6",          "1e999 1 1e6 1e6 1e6"};
    char file[4200], line[200] = "", text[300];
    struct toy_result r;
    struct found found;

    snprintf(file, sizeof file, "%s/cache/libzero/steps", path);
    remove(file);
    int err = run("2", "1", "auto", "device:2500K,cpu:2M", &r, &found);
    FILE *f = fopen(file, "r");
    if (!f || !fgets(line, sizeof line, f) || !strchr(line, ' '))
        err = 1;
    if (f)
        fclose(f);
    for (size_t i = 0; i < sizeof figures / sizeof *figures && !err; i++) {
        snprintf(text, sizeof text, "%.16s %s %s", line, figures[i], strrchr(line, ' ') + 1);
        text_write(file, text);
        err = run("2", "1", "auto", "device:2500K,cpu:2M", &r, &found);
        if (err || found.early != -EAGAIN)
            diag("%s: %s, forecast %d", figures[i], err ? r.error : "it trains", found.early);
        err = err ? err : found.early != -EAGAIN;
    }
    ok(!err, "steps that cannot have been are not believed");
    remove(file);
}

/* A job that differs in what changes its time is one of another kind: it has a line of its own. */
static void told_apart(void)
{
    static const struct {
        const char *stage, *accum, *name, *value;
        uint64_t width;
        int ranks, layers;
        uint32_t dtype, flags;
    } kinds[] = {
        {"2", "1", "clip", "0", 20000, 2, 8, ZERO_BF16, TOY_ACTIVATIONS},
        {"3", "1", "clip", "0", 20000, 2, 8, ZERO_BF16, TOY_ACTIVATIONS},
        {"2", "2", "clip", "0", 20000, 2, 8, ZERO_BF16, TOY_ACTIVATIONS},
        {"2", "1", "clip", "0", 20000, 1, 8, ZERO_BF16, TOY_ACTIVATIONS},
        {"2", "1", "clip", "0", 20000, 2, 8, ZERO_F32, TOY_ACTIVATIONS},
        {"2", "1", "clip", "0", 20000, 2, 9, ZERO_BF16, TOY_ACTIVATIONS},
        {"2", "1", "clip", "0", 24000, 2, 8, ZERO_BF16, TOY_ACTIVATIONS},
        {"2", "1", "clip", "0", 20000, 2, 8, ZERO_BF16, 0},
        {"2", "1", "optimizer", "adam", 20000, 2, 8, ZERO_BF16, TOY_ACTIVATIONS},
        {"2", "1", "state_dtype", "bf16", 20000, 2, 8, ZERO_BF16, TOY_ACTIVATIONS},
        {"2", "1", "isa", "scalar", 20000, 2, 8, ZERO_BF16, TOY_ACTIVATIONS},
        {"2", "1", "bucket_bytes", "32K", 20000, 2, 8, ZERO_BF16, TOY_ACTIVATIONS},
    };
    const int n = sizeof kinds / sizeof *kinds;
    char file[4200];
    int err = 0;

    snprintf(file, sizeof file, "%s/cache/libzero/steps", path);
    for (int i = 0; i <= n && !err; i++) { /* the first one twice */
        struct zero_setting s[] = {{"stage", kinds[i % n].stage},
                                   {"accum", kinds[i % n].accum},
                                   {kinds[i % n].name, kinds[i % n].value},
                                   {"offload", "optimizer:cpu+nvme"},
                                   {"memory_limit", "cpu:1020K"},
                                   {"tile_bytes", "32K"},
                                   {"timeout", "20"},
                                   {"nvme_path", path}};
        struct toy t = {.ranks = kinds[i % n].ranks,
                        .layers = kinds[i % n].layers,
                        .steps = 2,
                        .dtype = kinds[i % n].dtype,
                        .flags = kinds[i % n].flags,
                        .width = kinds[i % n].width,
                        .settings = s,
                        .n_settings = sizeof s / sizeof *s,
                        .seed = 7};
        struct toy_result r;
        err = toy_train(&t, &r);
        if (err)
            diag("%d: %s", i, r.error);
        else if (lines_of(file) != (i < n ? i + 1 : n))
            err = 1, diag("kind %d: %d lines", i, lines_of(file));
    }
    ok(!err, "%d kinds of jobs are kept apart, and one that comes again is known", n);
    remove(file);
}

/* The most memory that a job in a process of its own has at a time. */
static long job_peak_kib(const char *measures)
{
    struct zero_setting s[] = {{"offload", "auto"},  {"nvme_path", path},
                               {"timeout", "20"},    {"memory_limit", "device:1500K,cpu:1200K"},
                               {"tile_bytes", "32K"}, {"bucket_bytes", "64K"},
                               {"prefetch_bytes", "128K"}, {"offload_measure", measures}};
    struct toy t = {.ranks = RANKS, .layers = 8, .steps = 1, .dtype = ZERO_BF16, .width = 40000,
                    .flags = TOY_ACTIVATIONS, .settings = s, .n_settings = 8, .seed = 7};
    struct rusage used;
    struct toy_result r;
    int status = -1;

    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(toy_train(&t, &r) != 0);
    return child > 0 && wait4(child, &status, 0, &used) == child && !status ? used.ru_maxrss : -1;
}

/* A sanitizer takes memory of its own for each allocation, and keeps what was freed. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_COUNTED 0
#else
#define IS_COUNTED 1
#endif

/* What is measured before anything has a place takes no memory beside the limits. */
static void within_limits(void)
{
    long without = job_peak_kib("0"), with = job_peak_kib("1");

    ok(without > 0 && with > 0 && (!IS_COUNTED || with < without + 24 * 1024),
       "measuring stays within limits of memory: %ld KiB, and %ld without it", with, without);
}

/* What a disk is measured with wears it; nothing is written there that nobody reads. */
static void counts_wear(void)
{
    static const char *const classes[] = {"master", "momentum", "variance"};
    uint64_t sample = 0, written[2] = {0, 0};
    struct toy_result r;
    int err = 0;

    for (int i = 0; i < 2 && !err; i++) {
        struct zero_setting s[] = {{"offload", "optimizer:cpu+nvme"}, {"nvme_path", path},
                                   {"timeout", "20"}, {"memory_limit", "cpu:2M"},
                                   {"tile_bytes", "32K"}, {"offload_measure", i ? "1" : "0"}};
        struct toy t = {.ranks = RANKS, .layers = 8, .steps = 1, .dtype = ZERO_BF16,
                        .width = 40000, .settings = s, .n_settings = 6, .seed = 7};
        err = toy_train(&t, &r);
        written[i] = r.memory.disk_written;
    }
    for (int i = 0; i < 3 && !err; i++)
        sample += toy_planned(&r, "cpu", classes[i]) + toy_planned(&r, "nvme", classes[i]);
    ok(!err && sample > MIB && written[1] - written[0] > sample &&
           written[1] - written[0] < 2 * sample,
       "%" PRIu64 " bytes written, %" PRIu64 " without measuring: of %" PRIu64 ", one and a half",
       written[1], written[0], sample);
    if (err)
        diag("%s", r.error);
}

/* Where ranks' options differ, that is told, whatever they would have measured together. */
static void options_apart(void)
{
    static const struct {
        const char *name, *value;
    } options[] = {{"offload_measure", "0"}, {"tile_bytes", "128K"}, {"bucket_bytes", "32K"}};

    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        struct zero_setting s[] = {{"offload", "auto"}, {"nvme_path", path}, {"timeout", "20"},
                                   {"memory_limit", "device:1500K,cpu:1200K"},
                                   {"prefetch_bytes", "128K"},
                                   {i == 1 ? "bucket_bytes" : "tile_bytes", "64K"},
                                   {options[i].name, options[i].value}};
        struct toy t = {.ranks = RANKS, .layers = 8, .steps = 1, .dtype = ZERO_BF16,
                        .flags = TOY_ACTIVATIONS, .width = 40000, .settings = s, .n_settings = 7,
                        .n_other = 1, .seed = 7};
        struct toy_result r;
        char words[64];
        int err = toy_train(&t, &r);
        snprintf(words, sizeof words, "option %s is %s on rank 1", options[i].name,
                 options[i].value);
        ok(err == -EPROTO && strstr(r.error, words), "%s on one rank alone: that is told",
           options[i].name);
        diag("%s", r.error);
    }
}

/* Without measuring: nothing is known of a disk until a job that measures has run. */
static void unmeasured(void)
{
    struct zero_setting s[] = {{"offload", "auto"},  {"nvme_path", path},
                               {"timeout", "20"},    {"memory_limit", "device:1500K,cpu:1200K"},
                               {"tile_bytes", "32K"}, {"bucket_bytes", "64K"},
                               {"prefetch_bytes", "128K"}, {"offload_measure", "0"}};
    struct toy t = {.ranks = RANKS, .layers = 8, .steps = 2, .dtype = ZERO_BF16, .width = 40000,
                    .flags = TOY_ACTIVATIONS, .settings = s, .n_settings = 8, .seed = 7};
    char file[4200], other[4200];
    struct toy_result r;

    snprintf(file, sizeof file, "%s/cache/libzero/copies", path);
    remove(file);
    snprintf(file, sizeof file, "%s/cache/libzero/speeds", path);
    remove(file);
    int err = toy_train(&t, &r);
    snprintf(other, sizeof other, "%s/cache/libzero/copies", path);
    ok(!err && access(file, F_OK) != 0 && access(other, F_OK) != 0,
       "ZERO_OFFLOAD_MEASURE=0 measures no disk, and no copies");
    if (err)
        diag("%s", r.error);
}

static void cache_remove(void)
{
    static const char *const parts[] = {"cache/libzero/speeds", "cache/libzero/copies",
                                        "cache/libzero", "cache"};
    char file[4200];

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(file, sizeof file, "%s/%s", path, parts[i]);
        remove(file);
    }
}

int main(void)
{
    static const uint64_t none[2] = {0, 0}, all[2] = {UINT64_MAX, UINT64_MAX};

    folder_make("spread", path);
    setenv("XDG_CACHE_HOME", "/proc/none", 1); /* nobody can make it */
    within_limits();
    options_apart();
    counts_wear();
    remembered();
    measured_once();
    disks_told_apart();
    remembers_steps();
    said_as_chosen();
    remembers_no_nonsense();
    told_apart();
    unmeasured();
    cache_remove();
    setenv("XDG_CACHE_HOME", "/proc/none", 1); /* nobody can make it */
    measured_badly();
    if (!is_short())
        measured_slowly();
    good("2", "1", "auto", "", all, none, "");
    good("2", "1", "optimizer:cpu+nvme", "cpu:2M", (uint64_t[]){UINT64_MAX, 2048 * KIB},
         (uint64_t[]){0, 1600 * KIB}, "optimizer:cpu:0.");
    good("3", "1", "optimizer:device+cpu", "device:4300K", (uint64_t[]){4300 * KIB, UINT64_MAX},
         (uint64_t[]){3800 * KIB, 0}, "optimizer:device:0.1");
    good("3", "1", "optimizer:device+cpu", "device:4300K,cpu:3500K",
         (uint64_t[]){4300 * KIB, 3500 * KIB}, (uint64_t[]){3800 * KIB, 2000 * KIB},
         "optimizer:device:0.");
    /* Not a unit more has room, and nothing else is said. */
    good("3", "1", "optimizer:device+cpu", "device:3968K", (uint64_t[]){3968 * KIB, UINT64_MAX},
         (uint64_t[]){3400 * KIB, 0}, "optimizer:cpu");
    good("2", "1", "auto", "device:4M", (uint64_t[]){4096 * KIB, UINT64_MAX},
         (uint64_t[]){3600 * KIB, 0}, "optimizer:");
    good("3", "3", "auto", "device:2500K,cpu:2M", (uint64_t[]){2500 * KIB, 2048 * KIB},
         (uint64_t[]){2100 * KIB, 1500 * KIB}, "nvme:0.");
    good("0", "1", "auto", "device:4M,cpu:3M", (uint64_t[]){4096 * KIB, 3072 * KIB},
         (uint64_t[]){3600 * KIB, 2200 * KIB}, "nvme:0.");
    refused("auto", "device:64K", "ZERO_MEMORY_LIMIT (device) has 64.0 KiB");
    refused("optimizer:cpu+nvme", "cpu:64K", "ZERO_MEMORY_LIMIT (cpu) has 64.0 KiB");
    refused("optimizer:cpu:0.5+nvme", "", "give one to each, or to none");
    rmdir(path);
    done();
}
