/* SPDX-License-Identifier: Apache-2.0 */
/* A bare exchange as another program; see bare.h. */
#include "config.h"

#include "bare.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "machine/clock.h"
#include "tools/common/path.h"

#define PROGRAM "zero-exchange-"
#define LEAVE_MS 2000

extern char **environ;

struct bench_bare {
    pid_t pid;
    int fd;                    /* its standard input and output */
    char line[BENCH_BARE_WHY]; /* of its answers, what has come */
    size_t used;
};

/* "ucx" of "ucx" and of "/a/zero-comm-ucx.so". */
static void plain_name(const char *comm, char *name, size_t room)
{
    const char *slash = strrchr(comm, '/'), *from = slash ? slash + 1 : comm;

    if (strncmp(from, "zero-comm-", 10) == 0)
        from += 10;
    snprintf(name, room, "%.*s", (int)strcspn(from, "."), from);
}

/* Beside `zero`, as in a build tree; where it was to be installed; there in a tree that moved. */
static bool find(const char *name, char *path, size_t room)
{
    char own[4096], *slash = tool_own_path(own, sizeof own) ? strrchr(own, '/') : NULL;

    if (slash)
        *slash = 0;
    if (slash && snprintf(path, room, "%s/" PROGRAM "%s", own, name) < (int)room &&
        access(path, X_OK) == 0)
        return true;
    if (snprintf(path, room, "%s/" PROGRAM "%s", ZERO_LIBEXEC_DIR, name) < (int)room &&
        access(path, X_OK) == 0)
        return true;
    return slash &&
           snprintf(path, room, "%s/../libexec/libzero/" PROGRAM "%s", own, name) < (int)room &&
           access(path, X_OK) == 0;
}

/* What was set for the plugin by a file, say, the program finds in its environment. */
static void options_export(const struct zero__options *options, const char *owner)
{
    struct zero__option_row row;
    char name[128];

    for (uint32_t i = 0; !zero__options_row(options, i, &row); i++) {
        if (!row.group || strcmp(row.group, owner) != 0 || strcmp(row.source, "default") == 0 ||
            strlen(row.name) + sizeof "ZERO_" > sizeof name)
            continue;
        setenv(zero__option_variable(row.name, name, sizeof name), row.value, 1);
    }
}

static int start(struct bench_bare *bare, char **argv)
{
    posix_spawn_file_actions_t files;
    int fds[2], err;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
        return errno;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, fds[1], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, fds[1], STDOUT_FILENO);
    err = posix_spawn(&bare->pid, argv[0], &files, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    close(fds[1]);
    bare->fd = fds[0];
    if (err)
        close(fds[0]);
    return err;
}

/* The next line; 0, or a negative errno and why there is none. */
static int answer(struct bench_bare *bare, int64_t timeout_ns, char line[BENCH_BARE_WHY],
                  char why[BENCH_BARE_WHY])
{
    int64_t until = zero__deadline_ns(timeout_ns);

    for (;;) {
        char *end = memchr(bare->line, '\n', bare->used);
        if (end) {
            size_t n = (size_t)(end - bare->line);
            memcpy(line, bare->line, n);
            line[n] = 0;
            bare->used -= n + 1;
            memmove(bare->line, end + 1, bare->used);
            break;
        }
        struct pollfd p = {.fd = bare->fd, .events = POLLIN};
        int64_t left_ms = (until - zero__now_ns()) / 1000000;
        int ready = left_ms > 0 ? poll(&p, 1, left_ms < 1000 ? (int)left_ms : 1000) : -1;
        if (ready < 0 && (left_ms <= 0 || errno != EINTR)) {
            snprintf(why, BENCH_BARE_WHY,
                     "it did not answer within %g s: ZERO_TIMEOUT gives it longer",
                     (double)timeout_ns * 1e-9);
            return -ETIMEDOUT;
        }
        if (ready <= 0)
            continue;
        ssize_t n = read(bare->fd, bare->line + bare->used, sizeof bare->line - bare->used);
        if (n <= 0) {
            snprintf(why, BENCH_BARE_WHY, "it ended without a word");
            return -EPIPE;
        }
        bare->used += (size_t)n;
    }
    if (strncmp(line, "error ", 6) != 0)
        return 0;
    snprintf(why, BENCH_BARE_WHY, "%s", line + 6);
    return -EIO;
}

struct bench_bare *bench_bare_start(const struct tool_comm *b, const char *comm, const char *cpus,
                                    char why[BENCH_BARE_WHY])
{
    char name[64], path[4200], line[BENCH_BARE_WHY], reason[BENCH_BARE_WHY];
    char *argv[] = {path, (char *)(uintptr_t)cpus, NULL};
    struct bench_bare *bare;

    plain_name(comm, name, sizeof name);
    if (strcmp(name, "shm") == 0) {
        snprintf(why, BENCH_BARE_WHY,
                 "none: shm stands on no library; the limit, both cores copying, is in its place");
        return NULL;
    }
    if (!find(name, path, sizeof path)) {
        snprintf(why, BENCH_BARE_WHY,
                 "not built: no program " PROGRAM "%s beside zero or in %s; ucx and ofi have one "
                 "where their library was there",
                 name, ZERO_LIBEXEC_DIR);
        return NULL;
    }
    options_export(b->options, name);
    bare = calloc(1, sizeof *bare);
    int err = bare ? start(bare, argv) : ENOMEM;
    if (err) {
        snprintf(why, BENCH_BARE_WHY, "failed: %.180s: %s", path, strerror(err));
        free(bare);
        return NULL;
    }
    if (answer(bare, b->timeout_ns, line, reason) == 0)
        return bare;
    snprintf(why, BENCH_BARE_WHY, "failed: %.240s", reason);
    bench_bare_end(bare);
    return NULL;
}

int bench_bare_run(struct bench_bare *bare, uint64_t bytes, unsigned n, unsigned warm,
                   int64_t timeout_ns, double *seconds, char why[BENCH_BARE_WHY])
{
    char line[BENCH_BARE_WHY], reason[BENCH_BARE_WHY];
    int len = snprintf(line, sizeof line, "%llu %u %u\n", (unsigned long long)bytes, n, warm);
    int err = send(bare->fd, line, (size_t)len, MSG_NOSIGNAL) == len ? 0 : -EPIPE;
    char *end;

    if (err)
        snprintf(reason, sizeof reason, "it has ended");
    else
        err = answer(bare, timeout_ns, line, reason);
    if (!err) {
        *seconds = strtod(line, &end);
        if (end != line && !*end && *seconds > 0)
            return 0;
        err = -EPROTO;
        snprintf(reason, sizeof reason, "it answered \"%.100s\"", line);
    }
    snprintf(why, BENCH_BARE_WHY, "failed: %.240s", reason);
    return err;
}

void bench_bare_end(struct bench_bare *bare)
{
    bool gone;

    if (!bare)
        return;
    shutdown(bare->fd, SHUT_WR); /* no more requests: it gives back its memory and ends */
    for (int ms = 0; !(gone = waitpid(bare->pid, NULL, WNOHANG) != 0) && ms < LEAVE_MS; ms++)
        usleep(1000);
    if (!gone) {
        kill(bare->pid, SIGKILL);
        waitpid(bare->pid, NULL, 0);
    }
    close(bare->fd);
    free(bare);
}
