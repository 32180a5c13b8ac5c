/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the ranks. They stay in this process group, so the terminal's Ctrl-C and Ctrl-Z reach them
 * as if they had been started alone; the kernel kills them when the launcher dies.
 */
#include "config.h"

#include "job.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* What is the same for all ranks. */
struct common {
    char id[40];
    char port[8];
    struct run_binding *binding;
    pid_t launcher;
};

/* A port that is free now, for programs that want one; libzero itself does not use it. */
static void free_port(char *text, size_t room)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = 29500;

    if (s >= 0 && !bind(s, (struct sockaddr *)&a, sizeof a) &&
        !getsockname(s, (struct sockaddr *)&a, &len))
        port = ntohs(a.sin_port);
    if (s >= 0)
        close(s);
    snprintf(text, room, "%d", port);
}

static int random_id(char *text, size_t room)
{
    unsigned char bytes[16];

    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
        fprintf(stderr, "zero run: no random numbers: %s\n", strerror(errno));
        return -1;
    }
    for (size_t i = 0; i < sizeof bytes && 2 * i + 2 < room; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static void set_environment(const struct common *c, int rank, int n)
{
    set_number("RANK", rank);
    set_number("WORLD_SIZE", n);
    set_number("LOCAL_RANK", rank);
    set_number("LOCAL_WORLD_SIZE", n);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", c->port, 1);
    setenv("ZERO_JOB", c->id, 1);
    if (n > 1)
        setenv("OMP_NUM_THREADS", "1", 0); /* else every rank starts a thread per core */
}

/* Does this rank's output come to us through a pipe? Else it has our own descriptor. */
static bool piped(const struct run_options *o, int rank, int which)
{
    if (o->prefix >= 0)
        return o->prefix;
    return o->n > 1 && (rank > 0 || !isatty(STDOUT_FILENO + which));
}

/* In the child: never returns; tells the reason through report_fd. */
static void become_rank(const struct run_job *job, const struct common *c, int rank,
                        const int pipes[2], int report_fd)
{
    int e = 0;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != c->launcher)
        _exit(1); /* it died before it could be watched */
    for (int i = 0; i < 2; i++)
        if (pipes[i] >= 0 && dup2(pipes[i], STDOUT_FILENO + i) < 0)
            e = errno;
    if (rank > 0) {
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (null < 0 || dup2(null, STDIN_FILENO) < 0)
            e = errno;
    }
    set_environment(c, rank, job->options->n);
    if (c->binding)
        run_bind(c->binding, rank); /* an unbound rank is slower, not wrong */
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &job->mask, NULL);
    if (!e) {
        execv(job->options->path, job->options->argv);
        e = errno;
    }
    if (write(report_fd, &e, sizeof e) < 0)
        _exit(126);
    _exit(127);
}

static int start_one(struct run_job *job, const struct common *c, int rank, const int report[2])
{
    int ends[2][2] = {{-1, -1}, {-1, -1}}, theirs[2];
    struct run_rank *r = &job->ranks[rank];

    for (int i = 0; i < 2; i++) {
        if (piped(job->options, rank, i) && pipe2(ends[i], O_CLOEXEC))
            goto err_close;
        theirs[i] = ends[i][1];
    }
    pid_t pid = fork();
    if (pid < 0)
        goto err_close;
    if (pid == 0)
        become_rank(job, c, rank, theirs, report[1]);
    r->pid = pid;
    job->alive++;
    for (int i = 0; i < 2; i++) {
        if (ends[i][1] >= 0)
            close(ends[i][1]);
        r->streams[i].fd = ends[i][0];
        if (ends[i][0] >= 0)
            fcntl(ends[i][0], F_SETFL, O_NONBLOCK);
    }
    return 0;
err_close:
    fprintf(stderr,
            "zero run: cannot start rank %d: %s; ulimit -u, ulimit -n and the control group's "
            "pids.max are limits of processes\n",
            rank, strerror(errno));
    for (int i = 0; i < 4; i++)
        if (ends[i / 2][i % 2] >= 0)
            close(ends[i / 2][i % 2]);
    return -1;
}

/* Two pipes for each rank here, and a socket for each in rank 0. */
static void raise_limit(int n)
{
    const rlim_t enough = 4 * (rlim_t)n + 1024;
    struct rlimit limit;

    if (n <= 64 || getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= enough)
        return;
    limit.rlim_cur = limit.rlim_max < enough ? limit.rlim_max : enough;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* All children have executed the program, or one says why it could not. */
static int wait_executed(const struct run_options *o, int report_fd)
{
    int e;
    ssize_t n;

    while ((n = read(report_fd, &e, sizeof e)) < 0 && errno == EINTR)
        ;
    if (n != sizeof e)
        return 0;
    fprintf(stderr, "zero run: cannot execute %s: %s%s\n", o->path, strerror(e),
            e == ENOEXEC  ? " (a script needs a first line like #!/bin/sh)"
            : e == ENOENT ? " (the interpreter in its first line, or its loader)"
                          : "");
    return -1;
}

int run_start(struct run_job *job)
{
    const struct run_options *o = job->options;
    struct common c = {.launcher = getpid()};
    int report[2], e = -1;

    if (random_id(c.id, sizeof c.id))
        return -1;
    free_port(c.port, sizeof c.port);
    raise_limit(o->n);
    if (o->bind && !(c.binding = run_binding_create(o->n)))
        return -1;
    if (pipe2(report, O_CLOEXEC)) {
        fprintf(stderr, "zero run: no pipe: %s\n", strerror(errno));
        goto out_binding;
    }
    /* Orphans of ranks come to us, so that they can be ended too. */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (int rank = 0; rank < o->n; rank++) {
        e = start_one(job, &c, rank, report);
        if (e)
            break;
    }
    close(report[1]);
    if (!e)
        e = wait_executed(o, report[0]);
    close(report[0]);
out_binding:
    run_binding_free(c.binding);
    return e;
}
