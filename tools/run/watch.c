/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches the ranks: passes signals and output on, and ends what is left of a job when a rank has
 * failed. The others have `grace` seconds to notice by themselves, to say what they know, to write
 * their reports and to end; then SIGTERM, then SIGKILL. A signal from outside is given as long; one
 * that comes when a rank has failed, and the second one, mean now. When only ranks
 * that are stopped are left, they have no more than a few seconds to be let go on.
 */
#include "config.h"

#include "job.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "machine/clock.h"

#define MS INT64_C(1000000)
#define VERDICT_NS (50 * MS)  /* failures within it are one event */
#define NOTICE_NS (1000 * MS) /* then whoever looks on learns what is waited for */
#define KILL_NS (600 * MS)    /* after SIGTERM */
#define STOPPED_NS (3 * ZERO_SECOND) /* for somebody to let them go on */
#define ORPHAN_NS (500 * MS)
#define GIVE_UP_NS (10 * ZERO_SECOND)
#define SILENT_MS 200 /* of a pipe that a process holds open which a rank left behind */
#define TALK_NS (10 * ZERO_SECOND) /* of such a process that goes on printing */

static int64_t after(int64_t ns)
{
    return zero__deadline_ns(ns);
}

static int64_t after_grace(const struct run_job *job)
{
    return after((int64_t)(job->options->grace_s * 1e9));
}

static void tell_ranks(struct run_job *job, int sig)
{
    for (int r = 0; r < job->options->n; r++)
        if (job->ranks[r].pid)
            kill(job->ranks[r].pid, sig);
}

/*
 * The terminal has told its foreground group already; others have to be told by us, and while the
 * ranks are being started, those that came after the signal.
 */
static void pass_on(struct run_job *job, const struct signalfd_siginfo *s)
{
    pid_t group = getpgrp();

    for (int r = 0; r < job->options->n; r++) {
        pid_t pid = job->ranks[r].pid;
        if (pid && (job->starting || s->ssi_code != SI_KERNEL || getpgid(pid) != group))
            kill(pid, (int)s->ssi_signo);
    }
}

static void take_signal(struct run_job *job, const struct signalfd_siginfo *s)
{
    int sig = (int)s->ssi_signo;

    switch (sig) {
    case SIGTSTP:
        pass_on(job, s);
        raise(SIGSTOP);
        break;
    case SIGCONT:
    case SIGUSR1:
    case SIGUSR2:
        pass_on(job, s);
        break;
    default: /* INT, TERM, HUP, QUIT */
        if (job->signal) {
            job->kill_ns = 0;
            break;
        }
        pass_on(job, s);
        job->signal = sig;
        int64_t end = job->failed < 0 ? after_grace(job) : after(KILL_NS);
        if (end < job->kill_ns)
            job->kill_ns = end;
    }
}

/*
 * The first rank that fails is to blame, unless another was killed by a signal at the same moment:
 * then the exit of the first was its answer to that.
 */
static void take_failure(struct run_job *job, int rank, pid_t pid, int status)
{
    bool first = job->failed < 0;

    if (job->signal)
        return; /* told to end */
    if (!first &&
        !(WIFSIGNALED(status) && WIFEXITED(job->failed_status) && zero__now_ns() < job->verdict_ns))
        return;
    job->failed = rank;
    job->failed_pid = pid;
    job->failed_status = status;
    if (!first)
        return;
    job->verdict_ns = after(VERDICT_NS);
    job->notice_ns = after(NOTICE_NS);
    job->term_ns = after_grace(job);
    if (job->term_ns < job->verdict_ns) /* what we end ourselves is not to blame */
        job->term_ns = job->verdict_ns;
    job->kill_ns = zero__deadline_after(job->term_ns, KILL_NS);
}

/* True when no child is left at all. */
static bool reap(struct run_job *job)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0)
        for (int r = 0; r < job->options->n; r++) {
            if (job->ranks[r].pid != pid)
                continue;
            job->ranks[r].stopped = WIFSTOPPED(status);
            if (WIFSTOPPED(status) || WIFCONTINUED(status))
                continue;
            job->ranks[r].pid = 0;
            job->alive--;
            if (status)
                take_failure(job, r, pid, status);
            else
                job->one_ended |= job->failed < 0;
        }
    return pid < 0 && errno == ECHILD;
}

static bool read_signals(struct run_job *job)
{
    struct signalfd_siginfo s;

    while (read(job->signal_fd, &s, sizeof s) == sizeof s)
        if (s.ssi_signo != SIGCHLD)
            take_signal(job, &s);
    return reap(job);
}

static const char *line_start(void)
{
    return isatty(STDERR_FILENO) ? "\r\033[K" : "";
}

/*
 * Who failed and how, once: at the end, or before it when others have not ended. Who ends first
 * with a status need not be who failed first: the ranks say that themselves.
 */
static void say_failure(struct run_job *job, bool waiting)
{
    char others[100] = "";
    int s = job->failed_status;

    if (job->said || (job->options->terse && !WIFSIGNALED(s)))
        return;
    job->said = true;
    if (waiting)
        snprintf(others, sizeof others,
                 "; the others have %.3g s to end by themselves, Ctrl-C ends them now",
                 job->options->grace_s);
    if (WIFSIGNALED(s))
        fprintf(stderr, "%szero run: rank %d (process %d) was killed by signal %d (%s)%s%s\n",
                line_start(), job->failed, (int)job->failed_pid, WTERMSIG(s),
                strsignal(WTERMSIG(s)),
                WTERMSIG(s) == SIGKILL ? ", by a person or for lack of memory" : "", others);
    else
        fprintf(stderr, "%szero run: rank %d (process %d) %s status %d%s\n", line_start(),
                job->failed, (int)job->failed_pid,
                job->options->n > 1 && !job->one_ended ? "ended first, with" : "exited with",
                WEXITSTATUS(s), others);
}

/* Who is stopped ends by no deadline: once only such ranks are left, they have less time. */
static void end_stopped(struct run_job *job)
{
    int stopped = 0;

    for (int r = 0; r < job->options->n; r++)
        stopped += job->ranks[r].pid && job->ranks[r].stopped;
    if (job->failed < 0 || !stopped || stopped < job->alive) {
        job->stopped_ns = ZERO_NEVER;
        return;
    }
    if (job->stopped_ns == ZERO_NEVER)
        job->stopped_ns = after(STOPPED_NS);
    if (zero__now_ns() < job->stopped_ns)
        return;
    job->kill_ns = 0;
    job->stopped_ns = after(GIVE_UP_NS); /* they are killed now */
    for (int r = 0; r < job->options->n; r++)
        if (job->ranks[r].pid)
            fprintf(stderr, "%szero run: rank %d (process %d) is stopped and is killed\n",
                    line_start(), r, (int)job->ranks[r].pid);
}

static void escalate(struct run_job *job)
{
    end_stopped(job);
    int64_t now = zero__now_ns();

    if (now >= job->notice_ns) {
        job->notice_ns = job->sinks[1].len ? after(100 * MS) : ZERO_NEVER; /* not within a line */
        if (job->alive && !job->signal && !job->sinks[1].len)
            say_failure(job, true);
    }
    if (now >= job->kill_ns) {
        tell_ranks(job, SIGKILL);
        run_signal_children(SIGKILL);
        job->kill_ns = after(100 * MS); /* orphans may turn up one after another */
        if (job->give_up_ns == ZERO_NEVER)
            job->give_up_ns = after(GIVE_UP_NS);
    } else if (now >= job->term_ns) {
        tell_ranks(job, SIGTERM);
        run_signal_children(SIGTERM);
        job->term_ns = ZERO_NEVER;
    }
}

/* All ranks are gone; what they left behind in a broken job has half a second. */
static void end_orphans(struct run_job *job)
{
    int64_t soon = after(ORPHAN_NS);

    job->orphans = true;
    job->term_ns = 0;
    if (job->kill_ns > soon)
        job->kill_ns = soon;
}

static int sleep_ms(const struct run_job *job)
{
    int64_t t = job->term_ns < job->kill_ns ? job->term_ns : job->kill_ns;
    t = job->notice_ns < t ? job->notice_ns : t;
    t = job->stopped_ns < t ? job->stopped_ns : t;
    int64_t left = t == ZERO_NEVER ? ZERO_NEVER : t - zero__now_ns();

    return left == ZERO_NEVER ? -1 : left <= 0 ? 0 : (int)(left / MS) + 1;
}

/*
 * What was printed last. A reader that pauses is waited for, as it was by the ranks, until it goes
 * away or a signal wants the end now. A process that a rank left behind may hold a pipe open for
 * ever, or print for ever: it is not waited for when it is silent, nor when it has printed for
 * long. Neither counts while a full sink holds it up.
 */
static void drain(struct run_job *job, struct pollfd *polls, struct output_stream **whose)
{
    int64_t talk = TALK_NS;
    size_t talked = 0, lost = 0;
    bool held;

    job->kill_ns = ZERO_NEVER; /* no rank is left: a signal that sets it is meant for us */
    while (job->kill_ns == ZERO_NEVER) {
        bool bounded = run_streams_open(job, &held) && !held;
        if (!bounded && !held && !job->sinks[0].len && !job->sinks[1].len)
            break;
        int64_t start = zero__now_ns();
        int ready = run_turn(job, polls, whose, bounded ? SILENT_MS : -1);
        read_signals(job);
        if (!bounded)
            continue;
        talk -= zero__now_ns() - start;
        if (ready == 0 || talk <= 0)
            talked += run_streams_close(job);
    }
    lost = run_streams_close(job);
    for (int i = 0; i < 2; i++)
        lost += output_finish(&job->sinks[i]);
    /* What is said now may meet the same reader: from here on a signal ends this process. */
    sigprocmask(SIG_SETMASK, &job->mask, NULL);
    if (talked)
        fprintf(stderr,
                "%szero run: %zu bytes or more are not shown: a process that a rank left in the "
                "background goes on printing; end it, or wait for it in the rank\n",
                line_start(), talked);
    if (lost)
        fprintf(stderr,
                "%szero run: %zu bytes that ranks have printed are lost: a signal came before "
                "their reader took them\n",
                line_start(), lost);
}

static int exit_status(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int verdict(struct run_job *job)
{
    int s = job->failed_status;

    if (job->failed >= 0)
        say_failure(job, false);
    else if (job->signal && !job->said)
        fprintf(stderr, "%szero run: ended by signal %d (%s)\n", line_start(), job->signal,
                strsignal(job->signal));
    return job->failed >= 0 ? exit_status(s) : job->signal ? 128 + job->signal : 0;
}

/* A signal wants its end, or a rank has failed. */
static bool broken(const struct run_job *job)
{
    return job->signal || job->failed >= 0;
}

int run_watch(struct run_job *job)
{
    size_t room = 3 + 2 * (size_t)job->options->n;
    struct pollfd *polls = calloc(room, sizeof *polls);
    struct output_stream **whose = calloc(room, sizeof(struct output_stream *));
    bool none = false;

    if (!polls || !whose) {
        fprintf(stderr, "zero run: no memory\n");
        tell_ranks(job, SIGKILL);
        free(polls);
        free(whose);
        return 1;
    }
    job->starting = true;
    none = read_signals(job);
    job->starting = false;
    /* A job that ends well leaves what its ranks put into the background; a broken one does not. */
    while (job->alive > 0 || (broken(job) && !none)) {
        run_turn(job, polls, whose, sleep_ms(job));
        none = read_signals(job);
        if (broken(job) && job->alive == 0 && !job->orphans)
            end_orphans(job);
        escalate(job);
        if (zero__now_ns() >= job->give_up_ns) {
            fprintf(stderr, "zero run: killed processes do not end: the kernel holds them\n");
            break;
        }
    }
    drain(job, polls, whose);
    free(polls);
    free(whose);
    return verdict(job);
}
