/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that are stopped and do not die. One alone is named by all others within 5 seconds, with
 * the options as they are by default, and by itself when it goes on. All together may stop for as
 * long as they like, and ranks that only get little of the machine are left in peace.
 */
#include "ranks.h"

#include "toy.h"

#define LIMIT_MS 5000
#define MAX_RANKS 8
#define WATCHDOG_S 100

struct seat {
    atomic_llong steps;
    int err;
    int64_t failed_ms;
    char error[512];
};

static struct seat *seats;
static pid_t pids[MAX_RANKS];

static void stepped(struct zero_runtime *rt, int rank, int step, const struct zero_step_info *info,
                    void *arg)
{
    (void)rt, (void)step, (void)info, (void)arg;
    atomic_fetch_add(&seats[rank].steps, 1);
}

static void failed(int rank, int err, const char *error, void *arg)
{
    (void)arg;
    seats[rank].failed_ms = now_ms();
    seats[rank].err = err;
    snprintf(seats[rank].error, sizeof seats[rank].error, "%s", error);
}

static void rank_main(int rank, int ranks, const char *job)
{
    struct zero_setting s[] = {{"stage", "3"}, {"threads", "1"}};
    struct toy t = {.ranks = ranks, .layers = 3, .steps = 100000000, .dtype = ZERO_BF16,
                    .width = 3000, .settings = s, .n_settings = 2, .seed = 1,
                    .stepped = stepped, .failed = failed};
    struct toy_result r;

    alarm(WATCHDOG_S);
    toy_rank(&t, rank, job, &r);
    _exit(0);
}

static long long slowest(int ranks)
{
    long long least = INT64_MAX;

    for (int i = 0; i < ranks; i++)
        least = atomic_load(&seats[i].steps) < least ? atomic_load(&seats[i].steps) : least;
    return least;
}

/* All ranks have taken so many steps more. */
static bool go_on(int ranks, long long steps)
{
    long long target = slowest(ranks) + steps;

    for (int i = 0; i < 3000 && slowest(ranks) < target; i++)
        sleep_ms(10);
    return slowest(ranks) >= target;
}

static void start(int ranks)
{
    static int number;
    char job[64];

    memset(seats, 0, MAX_RANKS * sizeof *seats);
    snprintf(job, sizeof job, "stopped-%d-%d", (int)getpid(), number++);
    fflush(stdout);
    for (int i = 0; i < ranks; i++) {
        pids[i] = fork();
        if (pids[i] < 0)
            bail("cannot fork");
        if (pids[i] == 0)
            rank_main(i, ranks, job);
    }
}

static void signal_all(int ranks, int sig)
{
    for (int i = 0; i < ranks; i++)
        kill(pids[i], sig);
}

static void end(int ranks)
{
    signal_all(ranks, SIGKILL);
    for (int i = 0; i < ranks; i++)
        waitpid(pids[i], NULL, 0);
}

static bool names(const struct seat *s, int rank)
{
    char text[64];

    snprintf(text, sizeof text, "rank %d failed: it does not answer", rank);
    return s->err == -ETIMEDOUT && strstr(s->error, text) && strstr(s->error, "ZERO_HEARTBEAT");
}

/*
 * Rank 0 decides of another rank, and says in what it waits for that one: long before the silence
 * is too long it waits.
 */
static bool names_operation(const struct seat *s, int victim)
{
    static const char *const kinds[] = {"gather of ", "reduce of ", "publish of ", "map of ",
                                        "norm"};
    const char *at = strstr(s->error, "; rank 0 waited in ");

    for (unsigned i = 0; at && i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(at + strlen("; rank 0 waited in "), kinds[i], strlen(kinds[i])) == 0)
            return victim && strstr(at, " (#") != NULL;
    return !victim && !at;
}

static void one_stopped(int ranks, int victim)
{
    bool good;

    start(ranks);
    good = go_on(ranks, 10);
    int64_t t = now_ms(), worst = 0;
    kill(pids[victim], SIGSTOP);
    for (int i = 0; i < ranks; i++) {
        if (i == victim)
            continue;
        waitpid(pids[i], NULL, 0);
        worst = seats[i].failed_ms - t > worst ? seats[i].failed_ms - t : worst;
        good &= names(&seats[i], victim) && seats[i].failed_ms - t < LIMIT_MS;
        good &= names_operation(&seats[i], victim);
        good &= !strcmp(seats[i].error, seats[victim ? 0 : 1].error);
    }
    ok(good, "rank %d of %d is stopped: all others name it within %d ms", victim, ranks, LIMIT_MS);
    diag("\"%s\", the last after %d ms", seats[victim ? 0 : 1].error, (int)worst);
    kill(pids[victim], SIGCONT);
    waitpid(pids[victim], NULL, 0);
    if (!ok(names(&seats[victim], victim), "and it says the same when it goes on"))
        diag("%d \"%s\"", seats[victim].err, seats[victim].error);
}

static void all_stopped(int ranks)
{
    bool good;

    start(ranks);
    good = go_on(ranks, 10);
    signal_all(ranks, SIGSTOP);
    sleep_ms(8000);
    signal_all(ranks, SIGCONT);
    good &= go_on(ranks, 10);
    sleep_ms(4000); /* whoever had counted the time would say so by now */
    good &= go_on(ranks, 10);
    for (int i = 0; i < ranks; i++)
        if (seats[i].err)
            diag("rank %d: \"%s\"", i, seats[i].error);
    ok(good, "all %d ranks are stopped for 8 s and go on", ranks);
    end(ranks);
}

/* Processes that never sleep take the cores away. */
static void starved(int ranks, int burners)
{
    pid_t others[64];
    int errors = 0;

    for (int i = 0; i < burners; i++)
        if ((others[i] = fork()) == 0) {
            alarm(WATCHDOG_S);
            for (volatile int k = 0;; k++)
                ;
        }
    start(ranks);
    bool good = go_on(ranks, 1);
    sleep_ms(8000);
    good &= go_on(ranks, 1);
    for (int i = 0; i < ranks; i++)
        if (seats[i].err && errors++ == 0)
            diag("rank %d: \"%s\"", i, seats[i].error);
    ok(good && !errors, "%d ranks beside %d busy processes are left in peace", ranks, burners);
    end(ranks);
    for (int i = 0; i < burners; i++) {
        kill(others[i], SIGKILL);
        waitpid(others[i], NULL, 0);
    }
}

int main(void)
{
    unsetenv("ZERO_HEARTBEAT");
    seats = shared_memory(MAX_RANKS * sizeof *seats);
    one_stopped(3, 2);
    one_stopped(3, 0);
    all_stopped(3);
    starved(8, 8);
    done();
}
