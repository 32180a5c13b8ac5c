/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast the disk is for this job: it is measured once, by all ranks of a host at the same time
 * and in requests of a tile, as they will use it, before anything lies there, for a few seconds at
 * most. The figures are kept in a file of the user, by a fingerprint of the machine, the folders
 * and the ranks that share them; whoever cannot read or write that file measures every time.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/runtime.h"

/* Of a rank, in each direction: a sixteenth of its store within these; disks have caches, too. */
#define LEAST_BYTES (UINT64_C(256) << 20)
#define MOST_BYTES (UINT64_C(2) << 30)
#define WALK_NS (2 * ZERO_SECOND) /* then no more is begun */
#define MOST_CQES 16
#define MOST_DEPTH 64
#define KEPT 32u       /* lines, of so many jobs */
#define MOST_LINES 256 /* that are read */
#define LINE 160
#define KEPT_S (30 * 24 * 3600) /* a line is believed for so long */
#define POLL_NS (ZERO_SECOND / 4)

/* How much of a store is measured. */
static uint64_t sample_bytes(uint64_t store)
{
    uint64_t share = store / 16 > LEAST_BYTES ? store / 16 : LEAST_BYTES;

    return zero__least(store, zero__least(share, MOST_BYTES));
}

/* ---- The file -------------------------------------------------------------------------------- */

/* -ENOENT: there is no place for it. */
static int file_path(char *path, size_t bytes, int makes)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int own = cache && *cache == '/';
    int n = own ? snprintf(path, bytes, "%s", cache)
                : snprintf(path, bytes, "%s/.cache", home && *home == '/' ? home : "");

    if ((!own && (!home || *home != '/')) || n < 0 || (size_t)n + 16 > bytes)
        return -ENOENT;
    if (makes)
        mkdir(path, 0700);
    n += snprintf(path + n, bytes - (size_t)n, "/libzero");
    if (makes)
        mkdir(path, 0700);
    snprintf(path + n, bytes - (size_t)n, "/speeds");
    return 0;
}

static uint64_t fingerprint(const struct zero_runtime *rt)
{
    const struct zero_store_info *info = &rt->tiers[ZERO__T_DISK].info;
    const char *folders = zero__option_find(rt->options, "nvme_path"); /* NULL: another plugin */
    struct utsname u;
    char text[5000];

    memset(&u, 0, sizeof u);
    uname(&u);
    int n = snprintf(text, sizeof text, "%s %s %s %s %s %" PRIu64 " %u %d %u %" PRIu64, u.nodename,
                     u.machine, rt->tiers[ZERO__T_DISK].name, info->note, folders ? folders : "",
                     info->best_io, info->depth, rt->local_ranks, rt->recipe.tile,
                     sample_bytes(rt->slabs[zero__slab(ZERO__T_DISK, 0)].bytes) >> 20);
    return XXH3_64bits(text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

static int is_speed(double x)
{
    return isfinite(x) && x > 1e3 && x < 1e15;
}

/* A fingerprint, bytes a second, and when that was, in whole numbers. */
static int line_parse(const char *line, uint64_t *key, struct speeds *s)
{
    int64_t when, now = (int64_t)time(NULL);

    return sscanf(line, "%16" SCNx64 " %lf %lf %lf %" SCNd64, key, &s->read, &s->write, &s->both,
                  &when) == 5 &&
           is_speed(s->read) && is_speed(s->write) && is_speed(s->both) && when <= now &&
           when > now - KEPT_S;
}

/* Lines of other jobs are copied to `others`, if it is not NULL. 1: found. */
static int file_read(const char *path, uint64_t key, struct speeds *speeds, char *others)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), found = 0;
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    char line[LINE];
    uint32_t n = 0;

    for (int i = 0; f && i < MOST_LINES && fgets(line, sizeof line, f); i++) {
        struct speeds s;
        uint64_t k;
        if (!strchr(line, '\n') || !line_parse(line, &k, &s))
            continue;
        if (k == key) {
            *speeds = s;
            found = 1;
        } else if (others && n++ < KEPT - 1) {
            others += sprintf(others, "%s", line);
        }
    }
    if (f)
        fclose(f);
    else if (fd >= 0)
        close(fd);
    return found;
}

/* Replaced as a whole, so that nobody reads a part. */
static int file_write(const char *path, uint64_t key, const struct speeds *s)
{
    char others[KEPT * LINE] = "", new[1100];
    struct speeds old;
    int err = 0;

    file_read(path, key, &old, others);
    snprintf(new, sizeof new, "%s.%d", path, (int)getpid());
    int fd = open(new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f) {
        err = -errno;
        if (fd >= 0)
            close(fd);
        return err;
    }
    fprintf(f, "%016" PRIx64 " %.0f %.0f %.0f %" PRId64 "\n%s", key, s->read, s->write, s->both,
            (int64_t)time(NULL), others);
    err = fclose(f) ? -errno : 0;
    if (!err && rename(new, path))
        err = -errno;
    if (err)
        unlink(new);
    return err;
}

/* ---- Measuring ------------------------------------------------------------------------------- */

struct walk {
    struct zero__job *job;
    struct tier *t;
    uint8_t *memory;
    uint64_t block, blocks; /* of the store: bytes of one, how many */
    uint32_t depth;         /* blocks of memory, all registered: one for each request */
};

/* Reads the first blocks and writes others, from `first_write` on, in turn. */
struct mix {
    uint64_t reads, writes, first_write;
    int64_t most_ns; /* 0: however long it takes */
};

/* How many were moved, and in which time. A store that ends nothing for a timeout has failed. */
static int walk_run(const struct walk *w, const struct mix *m, int64_t timeout_ns, uint64_t *moved,
                    double *seconds)
{
    uint64_t n = m->reads + m->writes, begun = 0, ended = 0, r = 0;
    int64_t began = zero__now_ns(), heard = began;
    uint32_t free[MOST_DEPTH], n_free = 0;

    while (n_free < w->depth)
        free[n_free] = n_free, n_free++;

    while (ended < n) {
        struct zero_cqe cqes[MOST_CQES];
        int k = 1;
        if (m->most_ns && zero__now_ns() - began > m->most_ns)
            n = begun;
        while (k > 0 && begun < n && n_free) {
            int is_read = r < m->reads && (begun % 2 == 0 || begun - r >= m->writes);
            uint64_t block = is_read ? r : m->first_write + begun - r;
            struct zero_io io = {.op = is_read ? ZERO_IO_READ : ZERO_IO_WRITE,
                                 .store_off = block * w->block,
                                 .buf = {w->t->mr, free[n_free - 1] * w->block, w->block},
                                 .user = free[n_free - 1]};
            k = w->t->ops.submit(w->t->store, &io, 1);
            if (k < 0)
                return k;
            r += k > 0 && is_read;
            begun += k > 0;
            n_free -= k > 0;
        }
        if (ended == n)
            break;
        k = w->t->ops.poll(w->t->store, cqes, MOST_CQES, k == 0 ? ZERO__STORE_FULL_NS : POLL_NS);
        if (k < 0)
            return k;
        for (int i = 0; i < k; i++) {
            if (cqes[i].res < 0)
                return (int)cqes[i].res;
            if (n_free == w->depth || cqes[i].user >= w->depth)
                return zero__fail(-EPROTO,
                                  "%s reported a completion that was never asked for: %llu",
                                  w->t->name, (unsigned long long)cqes[i].user);
            free[n_free++] = (uint32_t)cqes[i].user;
        }
        ended += (uint64_t)k;
        if (k > 0) {
            heard = zero__now_ns();
            zero__job_worked(w->job);
        }
        if (zero__now_ns() - heard > timeout_ns)
            return zero__fail(-ETIMEDOUT, "%s has not ended a request for %g s (ZERO_TIMEOUT)",
                              w->t->name, (double)timeout_ns / 1e9);
    }
    *moved = begun;
    *seconds = (double)(zero__now_ns() - began) / 1e9;
    return 0;
}

/* What no disk can leave out or make smaller. */
static void memory_fill(const struct walk *w)
{
    uint64_t x = 88172645463325252u;

    for (uint64_t i = 0; i < w->depth * w->block / sizeof x; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        memcpy(w->memory + i * sizeof x, &x, sizeof x);
    }
}

/*
 * What has never been written costs no reading, so writing comes first; then reading it, then both;
 * and last all is zero again, as a store is at first.
 */
static int measure(struct zero_runtime *rt, struct speeds *s)
{
    const struct slab *host = &rt->slabs[zero__slab(ZERO__T_CPU, 0)];
    uint64_t bytes = sample_bytes(rt->slabs[zero__slab(ZERO__T_DISK, 0)].bytes);
    uint64_t n = 0, half = 0, k = 0;
    struct walk w = {.job = rt->job,
                     .t = &rt->tiers[ZERO__T_DISK],
                     .memory = host[0].base,
                     .block = (uint64_t)rt->recipe.tile * sizeof(float)};
    uint64_t span = host[0].bytes + host[1].bytes;
    double written = 0, read = 0, both = 0, zeroed;

    if (w.block > span)
        w.block = span / ZERO_BUFFER_ALIGN * ZERO_BUFFER_ALIGN;
    w.blocks = w.block ? bytes / w.block : 0;
    if (w.blocks < 2) /* so little that it does not matter */
        return 0;
    w.depth = (uint32_t)zero__least(zero__least(span / w.block, MOST_DEPTH),
                                    w.t->info.depth ? w.t->info.depth : 1);
    zero__log(&rt->log, ZERO_LOG_INFO, "engine", "measuring how fast %s is", w.t->name);
    memory_fill(&w);
    int err = walk_run(&w, &(struct mix){0, w.blocks, 0, WALK_NS}, rt->timeout_ns, &n, &written);
    if (!err) {
        half = n / 2;
        s->write = (double)(n * w.block) / written;
        err = walk_run(&w, &(struct mix){n, 0, 0, WALK_NS}, rt->timeout_ns, &k, &read);
        s->read = (double)(k * w.block) / read;
    }
    if (!err) {
        err = walk_run(&w, &(struct mix){half, half, half, WALK_NS}, rt->timeout_ns, &k, &both);
        s->both = (double)(k * w.block) / both;
    }
    memset(w.memory, 0, w.depth * w.block);
    if (!err)
        err = walk_run(&w, &(struct mix){0, n, 0, 0}, rt->timeout_ns, &k, &zeroed);
    if (err || !is_speed(s->read) || !is_speed(s->write) || !is_speed(s->both))
        *s = (struct speeds){0};
    return err;
}

/* Collective: what the slowest rank has is every rank's. `have`: whether all have something. */
static int least(struct zero_runtime *rt, struct speeds *s, int *have)
{
    struct speeds *all = calloc((size_t)rt->ranks, sizeof *all);
    int err = all ? zero__job_allgather(rt->job, s, sizeof *s, all)
                  : zero__fail(-ENOMEM, "no memory for the speeds of %d ranks", rt->ranks);

    *have = 1;
    for (int i = 0; i < rt->ranks && !err; i++) {
        *have = *have && all[i].read > 0;
        s->read = fmin(s->read, all[i].read);
        s->write = fmin(s->write, all[i].write);
        s->both = fmin(s->both, all[i].both);
    }
    free(all);
    return err;
}

int zero__speeds_find(struct zero_runtime *rt)
{
    struct speeds s = {0};
    char path[1024];
    int have = 0;

    if (!rt->tiers[ZERO__T_DISK].name)
        return 0;
    int there = rt->tiers[ZERO__T_DISK].store && !file_path(path, sizeof path, 0);
    if (there)
        file_read(path, fingerprint(rt), &s, NULL);
    int err = least(rt, &s, &have);
    if (!err && !have) {
        s = (struct speeds){0};
        int own = rt->tiers[ZERO__T_DISK].store ? measure(rt, &s) : 0;
        err = least(rt, &s, &have);
        err = own ? own : err;
        if (!err && have && there && zero__job_local_rank(rt->job) == 0 &&
            !file_path(path, sizeof path, 1))
            if (file_write(path, fingerprint(rt), &s))
                zero__log(&rt->log, ZERO_LOG_DEBUG, "engine", "%s cannot be written", path);
    }
    rt->speeds = have && !err ? s : (struct speeds){0};
    return err;
}
