/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank that gets no processor is not taken for one that is stopped: its threads run only when
 * nobody else wants their processor (SCHED_IDLE), and others always want it. One that is stopped
 * there is found all the same.
 */
#define _GNU_SOURCE
#include "../tap.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "job.h"
#include "job/internal.h"

#define HEARTBEAT_MS 100
#define BURNERS 3
#define STARVE_MS (20 * HEARTBEAT_MS)

static struct board {
    pid_t burners[BURNERS];
    _Atomic int stops;
    int known;
    int64_t waited_ns;
} *board;

static int last_cpu(void)
{
    cpu_set_t set;
    int last = 0;

    if (sched_getaffinity(0, sizeof set, &set))
        bail("sched_getaffinity");
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        last = CPU_ISSET(cpu, &set) ? cpu : last;
    return last;
}

static bool bind_to(pid_t task, int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return !sched_setaffinity(task, sizeof set, &set);
}

static pid_t burner(int cpu)
{
    pid_t parent = getpid(), child = fork();

    if (child)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (bind_to(0, cpu) && getppid() == parent)
        for (volatile int i = 0; i < 1000000; i++)
            ;
    _exit(0);
}

static void burners_end(void)
{
    for (int i = 0; i < BURNERS; i++)
        kill(board->burners[i], SIGKILL);
}

/* All threads of this process, the control thread among them. */
static bool make_idle(void)
{
    const struct sched_param none = {0};
    const struct dirent *entry;
    DIR *tasks = opendir("/proc/self/task");
    bool good = tasks;

    while (good && (entry = readdir(tasks)))
        if (entry->d_name[0] != '.') {
            pid_t task = (pid_t)strtol(entry->d_name, NULL, 10);
            good = bind_to(task, last_cpu()) && !sched_setscheduler(task, SCHED_IDLE, &none);
        }
    if (tasks)
        closedir(tasks);
    return good;
}

static struct zero__job *job_open(struct rank *r)
{
    struct zero__job_params p = job_params(r->rank, r->ranks, r->arg, 20000, 20000);
    struct zero__job *job = NULL;

    p.heartbeat_ns = HEARTBEAT_MS * MS;
    int e = zero__job_open(&p, &job);
    want(r, !e, "open: %d %s", e, zero_last_error());
    if (!e && r->rank == 1)
        want(r, make_idle(), "SCHED_IDLE");
    return e ? NULL : job;
}

static void starves(struct rank *r)
{
    struct zero__job *job = job_open(r);
    struct zero__running x = {0};
    char mine = 1, all[2];

    if (!job)
        return;
    sleep_ms(STARVE_MS);
    if (r->rank == 0) {
        board->known = zero__starved_read(job, 1, &x);
        board->waited_ns = x.waited_ns;
        burners_end(); /* rank 1 gets its processor back */
    }
    int e = zero__job_allgather(job, &mine, 1, all);
    want(r, !e, "exchange: %d %s", e, zero_last_error());
    zero__job_close(job, !e);
}

static void stops(struct rank *r)
{
    struct zero__job *job = job_open(r);
    struct zero__job_error error = {0};
    char mine = 1, all[2];

    if (r->rank == 1) {
        board->stops = job ? 1 : -1;
        raise(job ? SIGSTOP : SIGKILL);
        return;
    }
    for (int i = 0; job && !board->stops && i < 20000; i++)
        sleep_ms(1);
    int64_t before = now_ms();
    int e = job ? zero__job_allgather(job, &mine, 1, all) : -EINVAL;
    want(r, e && job && zero__job_error(job, &error) && error.culprit == 1,
         "exchange: %d, culprit %d", e, (int)error.culprit);
    want(r, strstr(error.cause, "no sign of life"), "%s", error.cause);
    want(r, now_ms() - before < 10000, "after %d ms", (int)(now_ms() - before));
    kill((r - r->rank + 1)->pid, SIGKILL);
    if (job)
        zero__job_close(job, 0);
}

int main(void)
{
    const char *what = "a rank without a processor is waited for";
    struct rank *all;

    board = shared_memory(sizeof *board);
    for (int i = 0; i < BURNERS; i++)
        board->burners[i] = burner(last_cpu());
    all = ranks_run(2, AS_PROCESSES, starves, (void *)(uintptr_t)job_name());
    if (!board->known)
        skip(what, "this system does not show how long a thread waits to run");
    else if (board->waited_ns < 2 * HEARTBEAT_MS * MS)
        skip(what, "it got one all the same");
    else
        ranks_good(all, 2, "%s: its control thread had waited to run for %d ms of %d", what,
                   (int)(board->waited_ns / MS), STARVE_MS);
    for (int i = 0; i < BURNERS; i++)
        board->burners[i] = burner(last_cpu());
    all = ranks_run(2, AS_PROCESSES, stops, (void *)(uintptr_t)job_name());
    if (WIFSIGNALED(all[1].status) && WTERMSIG(all[1].status) == SIGKILL && board->stops == 1)
        all[1].status = 0;
    ranks_good(all, 2, "one that is stopped is found beside them");
    burners_end();
    done();
}
