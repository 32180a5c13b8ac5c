/* SPDX-License-Identifier: Apache-2.0 */
/* zero run: starts the ranks of a job on this machine and stays with them to their end. */
#include "config.h"

#include "command.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "job.h"
#include "job/job.h"
#include "machine/clock.h"
#include "tools/common/args.h"

_Static_assert(ZERO__JOB_MAX_RANKS == 4096 && RUN_GRACE_S == 15, "the texts below say so");

static void help(FILE *f)
{
    fputs("usage: zero run -n N [OPTION]... [--] PROG [ARG]...\n"
          "Starts PROG N times on this machine, as the ranks 0 to N-1 of one job.\n"
          "\n"
          "  -n, --ranks N    number of ranks, 1 to 4096\n"
          "      --bind       give every rank its own cores (and so its NUMA node)\n"
          "      --prefix     put the rank in front of every line of output\n"
          "      --no-prefix  do not; ranks write as they like\n"
          "                   (default: prefix, except rank 0 on a terminal and a single\n"
          "                   rank)\n"
          "      --grace S    seconds that ranks have to end by themselves after Ctrl-C, or\n"
          "                   when another rank has failed (default 15)\n"
          "  -h, --help       this text\n"
          "\n"
          "PROG is looked for in PATH and beside this program. Every rank finds RANK,\n"
          "WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT in its\n"
          "environment, of several ranks also OMP_NUM_THREADS=1 if it was not set. Rank 0\n"
          "has the standard input. Signals are passed on. When a rank fails, the others say\n"
          "what they know and end, or are ended.\n"
          "\n"
          "Exit status: that of the rank that failed first (128 + N if killed by signal N);\n"
          "130 after Ctrl-C; 2 if the job could not be started.\n",
          f);
}

static int bad_use(const char *what)
{
    fprintf(stderr, "zero run: %s\nTry: zero run -n 2 -- PROG, or zero run --help\n", what);
    return 2;
}

/* -1: go on; else the exit status. */
static int parse(int argc, char **argv, struct run_options *o)
{
    unsigned ranks = 0;
    const struct tool_arg args[] = {
        TOOL_ARG("ranks", UNSIGNED, &ranks, TOOL_RANGE(1, ZERO__JOB_MAX_RANKS), .letter = 'n'),
        TOOL_ARG("bind", ON, &o->bind),
        TOOL_ARG("prefix", SET, &o->prefix, .least = 1),
        TOOL_ARG("no-prefix", SET, &o->prefix, .least = 0),
        TOOL_ARG("grace", SECONDS, &o->grace_s, TOOL_RANGE(0, 1000000000)),
    };
    int status = tool_args("run", args, sizeof args / sizeof *args, TOOL_PROGRAM, help, argc, argv);

    if (status >= 0)
        return status;
    o->n = (int)ranks;
    o->argv = argv + optind;
    if (!o->n)
        return bad_use("how many ranks? -n N is missing");
    if (!o->argv[0])
        return bad_use("which program? PROG is missing");
    return run_find(o->argv[0], o->path, sizeof o->path) ? 2 : -1;
}

static int digits_of(int n)
{
    return n > 1000 ? 4 : n > 100 ? 3 : n > 10 ? 2 : 1;
}

static int prepare(struct run_job *job, const struct run_options *o)
{
    static const int passed[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGTSTP,
                                 SIGCONT, SIGUSR1, SIGUSR2, SIGCHLD};
    sigset_t set;

    *job = (struct run_job){.options = o,
                            .failed = -1,
                            .term_ns = ZERO_NEVER,
                            .kill_ns = ZERO_NEVER,
                            .give_up_ns = ZERO_NEVER,
                            .notice_ns = ZERO_NEVER,
                            .stopped_ns = ZERO_NEVER};
    job->ranks = calloc((size_t)o->n, sizeof *job->ranks);
    if (!job->ranks) {
        fputs("zero run: no memory\n", stderr);
        return -1;
    }
    for (int i = 0; i < 2; i++) {
        job->sinks[i].fd = STDOUT_FILENO + i;
        job->sinks[i].shared = o->prefix < 0 && isatty(STDOUT_FILENO + i);
    }
    for (int k = 0; k < 2 * o->n; k++)
        job->ranks[k / 2].streams[k % 2] = (struct output_stream){
            .fd = -1, .rank = k / 2, .digits = digits_of(o->n), .sink = &job->sinks[k % 2]};
    signal(SIGCHLD, SIG_DFL); /* ignored, it would hide how ranks end */
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&set);
    for (unsigned i = 0; i < sizeof passed / sizeof passed[0]; i++)
        sigaddset(&set, passed[i]);
    sigprocmask(SIG_BLOCK, &set, &job->mask);
    job->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (job->signal_fd < 0) {
        fprintf(stderr, "zero run: no signal descriptor: %s\n", strerror(errno));
        free(job->ranks);
        return -1;
    }
    return 0;
}

/* A rank that was killed could not put the terminal back as it was. */
static void restore_terminal(const struct termios *saved)
{
    if (tcgetpgrp(STDIN_FILENO) == getpgrp())
        tcsetattr(STDIN_FILENO, TCSANOW, saved);
    if (isatty(STDOUT_FILENO) && write(STDOUT_FILENO, "\033[?25h", 6) < 0)
        return;
}

int run_ranks(const struct run_options *o)
{
    struct run_job job;
    struct termios saved;
    bool terminal = tcgetattr(STDIN_FILENO, &saved) == 0;
    int status;

    if (prepare(&job, o))
        return 2;
    if (run_start(&job)) {
        job.kill_ns = 0; /* those that were started */
        job.signal = SIGTERM;
        job.said = true;
        run_watch(&job);
        status = 2;
    } else {
        status = run_watch(&job);
    }
    if (status && terminal)
        restore_terminal(&saved);
    close(job.signal_fd);
    free(job.ranks);
    return status;
}

int run_command(int argc, char **argv)
{
    static struct run_options o = {.prefix = -1, .grace_s = RUN_GRACE_S};
    int status = parse(argc, argv, &o);

    return status >= 0 ? status : run_ranks(&o);
}
