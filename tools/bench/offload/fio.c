/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fio with the same shape as what was just measured: same folders, size, blocks, depth and mix,
 * past the page cache, through io_uring with files and memory registered. Its files have no names
 * and are written before, as stores are; it finds them under /proc/self/fd.
 */
#include "config.h"

#include "tier.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "machine/clock.h"
#include "plugins/common/locked.h"

#define GRACE_MS 60000 /* for fio to start and to end */
#define LOOK_AGAIN_NS (ZERO_SECOND / 10)
#define MOST_ARGS 32
#define MOST_FOLDERS (sizeof((struct offload_fio *)0)->fds / sizeof(int))

/* At fio's memory, while it works. */
struct look {
    int after_ms;
    uint64_t bytes; /* of its blocks */
    enum offload_pages seen; /* UNKNOWN: they were not there when it was looked at */
};

/* Waits for a child, which is killed when it has not ended after so long; its status. */
static int wait_for(pid_t pid, int timeout_ms, struct look *look)
{
    int64_t until = zero__deadline_ns(timeout_ms * INT64_C(1000000));
    int64_t then = look ? zero__deadline_ns(look->after_ms * INT64_C(1000000)) : until;
    int fd = (int)syscall(SYS_pidfd_open, pid, 0), status = -1, n = -1;
    struct pollfd p = {.fd = fd, .events = POLLIN};

    while (fd >= 0) {
        int64_t left_ms = ((look ? then : until) - zero__now_ns()) / 1000000;
        n = poll(&p, 1, left_ms > 0 ? (int)left_ms : 0);
        if (n > 0 || (n < 0 && errno != EINTR) || (n == 0 && !look))
            break; /* a signal to this process does not end fio */
        if (n == 0) {
            look->seen = offload_pages_of_process(pid, look->bytes);
            then = zero__deadline_ns(LOOK_AGAIN_NS); /* it may have its memory later */
            look = look->seen || then >= until ? NULL : look;
        }
    }
    if (n <= 0)
        kill(pid, SIGKILL);
    if (fd >= 0)
        close(fd);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

/* fio with its output in a file of memory, which the caller closes; < 0: it could not be run. */
static int run(char **args, int out, int timeout_ms, struct look *look)
{
    pid_t parent = getpid(), pid = fork();

    if (pid < 0)
        return zero__fail(-errno, "fio: fork: %s", strerror(errno));
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent || dup2(out, STDOUT_FILENO) < 0)
            _exit(127);
        execvp("fio", args);
        _exit(127);
    }
    int status = wait_for(pid, timeout_ms, look);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return zero__fail(-ENOENT,
                          "fio is not installed (it is the package fio of Debian and Fedora)");
    return status ? zero__fail(-EIO, "fio failed, or did not end in time (status %d)", status) : 0;
}

static int version(char text[32])
{
    char *args[] = {"fio", "--version", NULL};
    int out = memfd_create("fio", MFD_CLOEXEC);
    int err = out < 0 ? zero__fail(-errno, "memfd_create: %s", strerror(errno))
                      : run(args, out, GRACE_MS, NULL);
    ssize_t n = err ? 0 : pread(out, text, 31, 0);

    text[n > 0 ? n : 0] = 0;
    text[strcspn(text, "\n")] = 0;
    if (out >= 0)
        close(out);
    return err;
}

/* A file without a name, written: blocks that never were are not read from the disk. */
static int file_make(const char *folder, uint64_t bytes, int *fd)
{
    enum { PIECE = 4 << 20 };
    char *piece = bench_memory(PIECE);
    int err = piece ? 0 : -ENOMEM;
    uint64_t x = 1;

    *fd = open(folder, O_TMPFILE | O_RDWR, 0600);
    if (*fd < 0)
        err = -errno;
    if (!err)
        fcntl(*fd, F_SETFL, fcntl(*fd, F_GETFL) | O_DIRECT); /* not everywhere, then without */
    for (uint64_t i = 0; !err && i < PIECE / sizeof x; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        memcpy(piece + i * sizeof x, &x, sizeof x);
    }
    for (uint64_t at = 0; !err && at < bytes;) {
        uint64_t left = bytes - at;
        ssize_t n = pwrite(*fd, piece, left < PIECE ? left : PIECE, (off_t)at);
        if (n <= 0)
            err = n < 0 ? -errno : -EIO;
        else
            at += (uint64_t)n;
    }
    bench_memory_free(piece, PIECE);
    return err;
}

bool offload_fio_open(struct offload_fio *f, const struct offload_options *o, const char *folders)
{
    char *copy = strdup(folders), *rest = copy, *folder;
    unsigned n = 1;
    int err = copy ? version(f->version) : zero__fail(-ENOMEM, "no memory");

    for (const char *at = folders; *at; at++)
        n += *at == ':';
    f->bytes = o->bytes;
    while (!err && f->n < MOST_FOLDERS && (folder = strsep(&rest, ":"))) {
        err = file_make(folder, o->bytes / n / OFFLOAD_PAGE * OFFLOAD_PAGE, &f->fds[f->n]);
        f->n += f->fds[f->n] >= 0;
        if (err)
            zero__fail(err, "%s: a file for fio: %s", folder, strerror(-err));
    }
    free(copy);
    if (err) {
        fprintf(stderr, "zero bench offload: not beside fio: %s\n", zero__error_text());
        offload_fio_close(f);
    }
    return !err;
}

void offload_fio_close(struct offload_fio *f)
{
    while (f->n)
        close(f->fds[--f->n]);
}

/* May so much memory be locked? Registered memory is. */
static bool may_lock(uint64_t bytes)
{
    uint64_t limit = zero__locked_limit();

    return limit == UINT64_MAX || bytes < limit / 2;
}

/* The command line; the texts are the caller's to free. */
static unsigned arguments(const struct offload_fio *f, const struct offload_shape *s, int64_t ns,
                          int out, char *args[MOST_ARGS])
{
    static const char *const patterns[2][N_OFFLOAD_OPS] = {{"read", "write", "rw"},
                                                           {"randread", "randwrite", "randrw"}};
    static const char *const always[] = {"fio",
                                         "--name=zero",
                                         "--ioengine=io_uring",
                                         "--direct=1",
                                         "--thread",
                                         "--time_based",
                                         "--rwmixread=50",
                                         "--norandommap",
                                         "--randrepeat=0",
                                         "--invalidate=0",
                                         "--scramble_buffers=0",
                                         "--gtod_reduce=1",
                                         "--fallocate=none",
                                         "--output-format=json"};
    char files[MOST_FOLDERS * 24] = "";
    unsigned n = 0;

    for (; n < sizeof always / sizeof *always; n++)
        args[n] = strdup(always[n]);
    for (unsigned i = 0, at = 0; i < f->n; i++)
        at += (unsigned)snprintf(files + at, sizeof files - at, "%s/proc/self/fd/%d", i ? ":" : "",
                                 f->fds[i]);
    bool ok = asprintf(&args[n++], "--filename=%s", files) > 0 &&
              asprintf(&args[n++], "--output=/proc/self/fd/%d", out) > 0 &&
              asprintf(&args[n++], "--rw=%s", patterns[s->random][s->op]) > 0 &&
              asprintf(&args[n++], "--size=%" PRIu64, f->bytes) > 0 &&
              asprintf(&args[n++], "--bs=%" PRIu64, s->block) > 0 &&
              asprintf(&args[n++], "--iodepth=%u", s->depth) > 0 &&
              asprintf(&args[n++], "--runtime=%" PRId64 "ms", ns / 1000000) > 0;
    if (ok && may_lock(s->block * s->depth)) {
        args[n++] = strdup("--fixedbufs");
        args[n++] = strdup("--registerfiles");
    }
    args[n] = NULL;
    for (unsigned i = 0; i < n; i++)
        ok &= args[i] != NULL;
    return ok ? n : 0;
}

static int parse(int out, struct offload_sample *sample)
{
    double bytes[2], ms[2], usr, sys;
    json_error_t why;
    int fd = dup(out), c = 0;
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");

    if (!f) {
        int err = zero__fail(-errno, "fio's output: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return err;
    }
    rewind(f);
    while ((c = getc(f)) != EOF && c != '{') /* notes stand before */
        ;
    ungetc(c, f);
    json_t *root = json_loadf(f, JSON_DISABLE_EOF_CHECK, &why);
    int err = !root || json_unpack(root, "{s:[{s:{s:F,s:F},s:{s:F,s:F},s:F,s:F}]}", "jobs", "read",
                                   "io_bytes", &bytes[0], "runtime", &ms[0], "write", "io_bytes",
                                   &bytes[1], "runtime", &ms[1], "usr_cpu", &usr, "sys_cpu", &sys);

    fclose(f);
    json_decref(root);
    double longest = ms[0] > ms[1] ? ms[0] : ms[1];
    if (err || !(longest > 0))
        return zero__fail(-EPROTO, "fio's output is not understood");
    *sample = (struct offload_sample){.seconds = longest * 1e-3,
                                      .cpu_seconds = (usr + sys) / 100 * longest * 1e-3,
                                      .bytes = (uint64_t)(bytes[0] + bytes[1]),
                                      .disk_bytes = OFFLOAD_UNKNOWN};
    return sample->bytes ? 0 : zero__fail(-EIO, "fio moved nothing");
}

int offload_fio_run(struct offload_fio *f, const struct offload_shape *shape, int64_t ns,
                    struct offload_sample *sample)
{
    int ms = (int)(ns / 1000000), out = memfd_create("fio", 0);
    struct look look = {ms / 2, shape->block * shape->depth, 0};
    char *args[MOST_ARGS] = {0};

    if (out < 0)
        return zero__fail(-errno, "memfd_create: %s", strerror(errno));
    int err = arguments(f, shape, ns, out, args) ? 0 : zero__fail(-ENOMEM, "no memory");
    if (!err)
        err = run(args, STDERR_FILENO, ms + GRACE_MS, &look);
    if (!err)
        err = parse(out, sample);
    if (f->wanted == OFFLOAD_PAGES_HUGE && look.seen == OFFLOAD_PAGES_SMALL &&
        f->pages != OFFLOAD_PAGES_SMALL)
        fprintf(stderr, "zero bench offload: fio's blocks lie in small pages and ours in huge "
                        "ones: its C library asks for none (glibc does from 2.35 on), or there "
                        "were none; the two compare nothing, --pages small gives both the same\n");
    if (f->wanted == OFFLOAD_PAGES_HUGE && f->pages != OFFLOAD_PAGES_SMALL)
        f->pages = look.seen;
    for (unsigned i = 0; i < MOST_ARGS; i++)
        free(args[i]);
    close(out);
    return err;
}
