/* SPDX-License-Identifier: Apache-2.0 */
/* Who may join a job and who is refused, with a sentence on both sides; nobody waits for ever. */
#include "job.h"

#include <sys/socket.h>
#include <sys/un.h>

#include "job/endpoint.h"
#include "job/wire.h"

struct plan {
    char name[64];
    atomic_int done; /* ranks that have finished what the others wait for */
};

static const char *text(void)
{
    return zero_last_error();
}

static void wait_for(atomic_int *count, int n)
{
    for (int i = 0; i < 10000 && atomic_load(count) < n; i++)
        sleep_ms(1);
}

/* Rank 3 of 4 never comes. */
static void missing(struct rank *r)
{
    struct zero__job_params p = job_params(r->rank, 5, r->arg, 300, 20000);
    struct zero__job *job;
    int64_t t = now_ms();

    if (r->rank == 3)
        return;
    int e = zero__job_open(&p, &job);
    t = now_ms() - t;
    want(r, e == -ETIMEDOUT, "error %d", e);
    want(r, strstr(text(), "2 of 5 ranks did not come within 0.3 s (rank 3-4)"), "\"%s\"", text());
    want(r, t >= 250 && t < 3000, "after %d ms", (int)t);
}

static void missing_first(struct rank *r)
{
    struct zero__job_params p = job_params(r->rank, r->ranks, r->arg, 200, 20000);
    struct zero__job *job;

    if (r->rank == 0)
        return;
    int e = zero__job_open(&p, &job);
    want(r, e == -ETIMEDOUT, "error %d", e);
    want(r, strstr(text(), "found no rank 0 within 0.2 s"), "\"%s\"", text());
}

/* Ranks 0 to 2 are a job; rank 3 of this test starts rank `value` of it a second time. */
static void second_start(struct rank *r, int which)
{
    struct plan *plan = r->arg;
    bool second = r->rank == 3;
    struct zero__job_params p = job_params(second ? which : r->rank, 3, plan->name, 20000, 20000);
    struct zero__job *job;
    int64_t x = r->rank, all[3];

    if (second)
        wait_for(&plan->done, 3);
    int e = zero__job_open(&p, &job);
    if (second) {
        char word[40];
        snprintf(word, sizeof word, "rank %d is there already", which);
        want(r, e == -EEXIST, "error %d", e);
        want(r, strstr(text(), word), "\"%s\"", text());
        atomic_fetch_add(&plan->done, 1);
        return;
    }
    if (!want(r, !e, "open: %s", text()))
        return;
    atomic_fetch_add(&plan->done, 1);
    wait_for(&plan->done, 4);
    want(r, zero__job_allgather(job, &x, sizeof x, all) == 0 && all[2] == 2, "the job goes on: %s",
         text());
    want(r, zero__job_close(job, 1) == 0, "close: %s", text());
}

static void second_zero(struct rank *r)
{
    second_start(r, 0);
}

static void second_two(struct rank *r)
{
    second_start(r, 2);
}

/* The second start comes while the job still waits for rank 2: the first keeps its place. */
static void second_early(struct rank *r)
{
    struct plan *plan = r->arg;
    static const int who[] = {0, 1, 1, 2};
    struct zero__job_params p = job_params(who[r->rank], 3, plan->name, 20000, 20000);
    struct zero__job *job;

    sleep_ms(400 * r->rank);
    int e = zero__job_open(&p, &job);
    if (r->rank == 2)
        want(r, e == -EEXIST && strstr(text(), "rank 1 is there already"), "%d %s", e, text());
    else if (want(r, !e, "open: %s", text()))
        want(r, zero__job_close(job, 1) == 0, "close: %s", text());
}

static void wrong_size(struct rank *r)
{
    struct zero__job_params p = job_params(r->rank, r->rank == 2 ? 4 : 3, r->arg, 5000, 20000);
    struct zero__job *job;
    int e = zero__job_open(&p, &job);

    want(r, e == -EINVAL, "error %d", e);
    want(r, strstr(text(), "rank 2 ") && strstr(text(), "was started with 4 ranks, rank 0 with 3"),
         "\"%s\"", text());
}

static void wrong_version(struct rank *r)
{
    struct zero__job_params p = job_params(r->rank, r->ranks, r->arg, 5000, 20000);
    struct zero__job *job;

    if (r->rank == 1)
        snprintf(p.version, sizeof p.version, "9.9.9");
    int e = zero__job_open(&p, &job);
    want(r, e == -EPROTO, "error %d", e);
    want(r, strstr(text(), "rank 1 ") && strstr(text(), "runs libzero 9.9.9"), "\"%s\"", text());
}

static void wrong_interface(struct rank *r)
{
    struct zero__job_params p = job_params(r->rank, r->ranks, r->arg, 5000, 20000);
    struct zero__job *job;

    p.abi_hash += (uint64_t)r->rank;
    int e = zero__job_open(&p, &job);
    want(r, e == -EPROTO, "error %d", e);
    want(r, strstr(text(), "start all ranks with the same library"), "\"%s\"", text());
}

/* Processes only: rank 2 dies before the last rank has come. */
static void dies_joining(struct rank *r)
{
    struct zero__job_params p = job_params(r->rank, 5, r->arg, 20000, 20000);
    struct zero__job *job;

    if (r->rank == 3) {
        struct rank *victim = r - 1;
        sleep_ms(150);
        kill(victim->pid, SIGKILL);
        return;
    }
    int e = zero__job_open(&p, &job);
    want(r, e == -ECONNRESET, "error %d", e);
    want(r, strstr(text(), "rank 2: its process"), "\"%s\"", text());
}

/*
 * Processes only: rank 0 is stopped while it waits for rank 3. Rank 1 has joined, rank 2 connects
 * to a process that does not answer.
 */
static void zero_stops_joining(struct rank *r)
{
    struct plan *plan = r->arg;
    struct zero__job_params p = job_params(r->rank, 4, plan->name, 60000, 60000);
    struct zero__job *job;

    p.heartbeat_ns = 500 * MS;
    if (r->rank == 3) {
        sleep_ms(500);
        kill(r[-3].pid, SIGSTOP);
        wait_for(&plan->done, 2);
        kill(r[-3].pid, SIGKILL);
        return;
    }
    if (r->rank == 2)
        sleep_ms(1000);
    int64_t t = now_ms();
    int e = zero__job_open(&p, &job);
    t = now_ms() - t;
    atomic_fetch_add(&plan->done, 1);
    want(r, e == -ETIMEDOUT, "error %d", e);
    want(r,
         strstr(text(), r->rank == 1 ? "no sign of life for 0.5 s (ZERO_HEARTBEAT)"
                                     : "no sign of life for 5 s (ZERO_HEARTBEAT)"),
         "\"%s\"", text());
    want(r, t < 30000, "after %d ms", (int)t);
}

/* Processes only: the last rank comes after four times ZERO_HEARTBEAT, in which rank 1 was stopped
 * itself. */
static void long_wait(struct rank *r)
{
    struct zero__job_params p = job_params(r->rank, 3, r->arg, 60000, 60000);
    struct zero__job *job;

    p.heartbeat_ns = 500 * MS;
    if (r->rank == 2) {
        sleep_ms(500);
        kill(r[-1].pid, SIGSTOP);
        sleep_ms(1000);
        kill(r[-1].pid, SIGCONT);
        sleep_ms(500);
    }
    int e = zero__job_open(&p, &job);
    if (want(r, !e, "open: %s", text()))
        want(r, zero__job_close(job, 1) == 0, "close: %s", text());
}

/* Processes only: rank 1 is stopped when it has joined, and rank 2 comes after that. */
static void stops_joining(struct rank *r)
{
    struct plan *plan = r->arg;
    struct zero__job_params p = job_params(r->rank, 3, plan->name, 60000, 60000);
    struct zero__job *job;
    int64_t x = r->rank, all[3];

    p.heartbeat_ns = 500 * MS;
    if (r->rank == 2) {
        sleep_ms(500);
        kill(r[-1].pid, SIGSTOP);
    }
    int e = zero__job_open(&p, &job);
    if (want(r, !e, "open: %s", text())) {
        e = zero__job_allgather(job, &x, sizeof x, all);
        want(r, e == -ETIMEDOUT, "error %d", e);
        want(r, strstr(text(), "rank 1 failed") && strstr(text(), "no sign of life"), "\"%s\"",
             text());
        zero__job_close(job, 0);
    }
    atomic_fetch_add(&plan->done, 1);
    if (r->rank == 2) {
        wait_for(&plan->done, 2);
        kill(r[-1].pid, SIGKILL);
    }
}

/* Strangers of the same user: silent ones, early leavers, garbage, hostile lengths. */
static void strangers(struct rank *r)
{
    struct zero__job_params p = job_params(r->rank % 2, 2, r->arg, 20000, 20000);
    struct zero__job *job;
    unsigned seed = 12345;

    for (int i = 0; r->rank == 2 && i < 400; i++) {
        unsigned char junk[200];
        struct zero__wire_header h = {.magic = ZERO__WIRE_MAGIC, .type = ZERO__WIRE_HELLO};
        int64_t pid;
        int fd;
        if (zero__unix_connect(&p, &fd, &pid)) {
            sleep_ms(1);
            continue;
        }
        for (unsigned k = 0; k < sizeof junk; k++)
            junk[k] = (unsigned char)((seed = seed * 1103515245u + 12345u) >> 16);
        h.type = (uint16_t)(i % 12);
        h.bytes = i % 5 == 0 ? UINT32_MAX : i % 5 == 1 ? 65537 : sizeof(struct zero__wire_hello);
        if (i % 3 == 0)
            send(fd, junk, (size_t)(i % 200), MSG_NOSIGNAL);
        else if (i % 3 == 1)
            send(fd, &h, sizeof h, MSG_NOSIGNAL);
        if (i < 280) /* stays, silent from now on: more than there are places for guests */
            continue;
        close(fd);
    }
    if (r->rank == 2)
        return;
    if (r->rank == 1)
        sleep_ms(100);
    int e = zero__job_open(&p, &job);
    if (want(r, !e, "open: %s", text()))
        want(r, zero__job_close(job, 1) == 0, "close: %s", text());
}

int main(void)
{
    struct plan *plan = shared_memory(sizeof *plan);

    for (int how = AS_THREADS; how <= AS_PROCESSES; how++) {
        const char *as = ranks_how_name[how];
#define NAME (void *)(uintptr_t)job_name()
#define PLAN \
    (snprintf(plan->name, sizeof plan->name, "%s", job_name()), atomic_store(&plan->done, 0), plan)
        ranks_good(ranks_run(4, how, missing, NAME), 3, "missing ranks are named, %s", as);
        ranks_good(ranks_run(2, how, missing_first, NAME), 2, "so is a missing rank 0, %s", as);
        ranks_good(ranks_run(4, how, second_two, PLAN), 4, "a second rank 2 is refused, %s", as);
        ranks_good(ranks_run(4, how, second_zero, PLAN), 4, "a second rank 0 is refused, %s", as);
        ranks_good(ranks_run(4, how, second_early, PLAN), 4, "even while ranks join, %s", as);
        ranks_good(ranks_run(3, how, wrong_size, NAME), 3, "another size ends all, %s", as);
        ranks_good(ranks_run(3, how, wrong_version, NAME), 3, "another version too, %s", as);
        ranks_good(ranks_run(2, how, wrong_interface, NAME), 2, "another interface too, %s", as);
        ranks_good(ranks_run(3, how, strangers, NAME), 3, "strangers do no harm, %s", as);
    }
    struct rank *all = ranks_run(4, AS_PROCESSES, dies_joining, NAME);
    is_int(WTERMSIG(all[2].status), SIGKILL, "rank 2 was killed");
    all[2].status = 0;
    ranks_good(all, 4, "a rank that dies while others join is named");
    all = ranks_run(4, AS_PROCESSES, zero_stops_joining, PLAN);
    is_int(WTERMSIG(all[0].status), SIGKILL, "rank 0 was stopped");
    all[0].status = 0;
    ranks_good(all, 4, "a rank 0 that is stopped while others join is named by them");
    ranks_good(ranks_run(3, AS_PROCESSES, long_wait, NAME), 3,
               "one that waits, and a rank that was stopped meanwhile, are not");
    all = ranks_run(3, AS_PROCESSES, stops_joining, PLAN);
    is_int(WTERMSIG(all[1].status), SIGKILL, "rank 1 was stopped");
    all[1].status = 0;
    ranks_good(all, 3, "a rank that is stopped after it has joined is named when all are there");
    done();
}
