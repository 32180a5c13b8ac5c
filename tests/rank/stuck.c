/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank that dies with a lock which its peers spin for inside of their transport's library, where
 * nothing knows a deadline: libfabric's shared memory has one that is met by chance. Here UCX is
 * the library, and some of its functions never return once a rank was killed: while endpoints are
 * made, in zero_commit(), during steps, and when all have done their work. The others say at once
 * who is lost, end soon after without their transport, and the process can exit, or meet others
 * again under the same name. And where UCX hears first that a rank is gone, and says that time is
 * up, it is not the rank that hears who is to blame; nor, when nobody knows of a death, those whose
 * part of zero_sum() has not come.
 */
#include "ranks.h"

#include <dlfcn.h>
#include <limits.h>
#include <ucp/api/ucp.h>

#include "comm.h"
#include "job.h"
#include "toy.h"

#include "engine/runtime.h"
#include "run/runner.h"

#define RANKS 3
#define VICTIM 1
#define VISIBLE __attribute__((visibility("default"))) /* to plugins */
#define ERROR_MS 1000 /* from the death to the others' error */
#define END_MS 4000   /* to the end of their processes; other work may have the cores */
#define TIMEOUT "3"   /* ZERO_TIMEOUT, where nothing else ends a good end */
#define SLEEP_END_MS 20000
/* Where nothing has failed one rank after the other computes 3 s before it is given up, on cores
   that others use as well; without that none of them ends before the alarm. */
#define LATE_END_MS 40000

enum when { MEETING, COMMITTING, STEPPING, ENDING, SLEEPING, HOLDING, HEARING, SUMMING, N_WHEN };

#define HOLD_MS 200  /* of the lock, from the death on */
#define FIRST_MS 350 /* that UCX hears of the end before it comes */

static const struct {
    enum when at; /* what the victim is at when it dies */
    const char *death, *then;
} cases[] = {
    [MEETING] = {MEETING, "a rank dies in zero_create()", "its peers spin, and end"},
    [COMMITTING] = {COMMITTING, "a rank dies in zero_commit()", "its peers spin, and end"},
    [STEPPING] = {STEPPING, "a rank dies during steps", "its peers spin, and end"},
    [ENDING] = {ENDING, "a rank dies when all is done", "its peers spin, and end"},
    [SLEEPING] = {ENDING, "a rank dies when all is done", "its peers sleep, and end"},
    [HOLDING] = {STEPPING, "a rank dies during steps", "its peers spin, their lock was held"},
    [HEARING] = {N_WHEN, "a rank dies which UCX hears first", "its peers name it"},
    [SUMMING] = {N_WHEN, NULL, "UCX says that time is up, and nobody is named"},
};

struct board {
    atomic_int spin;       /* from now on nothing returns */
    _Atomic int64_t since; /* ms */
};

static struct board *board;
static enum when when;    /* of the death */
static atomic_int now;    /* what this rank is at */
static struct rank *self; /* this rank; NULL: the test */
static struct zero_runtime *runtime;
static atomic_int over, late; /* zero_destroy() has returned; a line was logged after it */
static pthread_t worker;  /* that moves the transport during steps */

/* At the end the worker may still look around, and nobody waits for anybody. */
static bool is_moment(void)
{
    enum when at = cases[when].at;

    return self->rank == VICTIM && atomic_load(&now) == (int)at &&
           (at != ENDING || !pthread_equal(worker, pthread_self()));
}

/* The library that the plugin brought along. */
static void *ucx(const char *name)
{
    void *library = dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD);
    return library ? dlsym(library, name) : NULL;
}

static void die_or_spin(void)
{
    if (is_moment()) {
        atomic_store(&board->since, now_ms());
        atomic_store(&board->spin, 1);
        raise(SIGKILL);
    }
    if (when == HOLDING && atomic_load(&board->spin)) { /* as one who gets nothing of the machine */
        pthread_mutex_lock(&runtime->run->lock);
        sleep_ms(HOLD_MS);
        pthread_mutex_unlock(&runtime->run->lock);
    }
    while (when < HEARING && atomic_load_explicit(&board->spin, memory_order_relaxed)) {
        if (when == SLEEPING)
            sleep_ms(10);
        if (atomic_load_explicit(&over, memory_order_relaxed) && runtime) { /* its last word */
            zero__log(&runtime->site.log, ZERO_LOG_WARN, "stuck", "it speaks again");
            for (;;)
                pause();
        }
    }
}

VISIBLE ucs_status_t ucp_ep_create(ucp_worker_h w, const ucp_ep_params_t *params, ucp_ep_h *ep)
{
    ucs_status_t (*real)(ucp_worker_h, const ucp_ep_params_t *, ucp_ep_h *) =
        (ucs_status_t(*)(ucp_worker_h, const ucp_ep_params_t *, ucp_ep_h *))ucx(__func__);

    if (self->rank != VICTIM && when == MEETING) /* until it is dead */
        while (!atomic_load(&board->spin))
            sleep_ms(1);
    die_or_spin();
    return real(w, params, ep);
}

VISIBLE unsigned ucp_worker_progress(ucp_worker_h w)
{
    static unsigned (*real)(ucp_worker_h);

    if (!real)
        real = (unsigned (*)(ucp_worker_h))ucx(__func__);
    die_or_spin();
    if (atomic_load(&now) == STEPPING)
        worker = pthread_self();
    return real(w);
}

/* The last thing that is done with peers, even where nothing is left to be moved. */
VISIBLE ucs_status_ptr_t ucp_worker_flush_nbx(ucp_worker_h w, const ucp_request_param_t *param)
{
    ucs_status_ptr_t (*real)(ucp_worker_h, const ucp_request_param_t *) =
        (ucs_status_ptr_t(*)(ucp_worker_h, const ucp_request_param_t *))ucx(__func__);

    die_or_spin();
    return real(w, param);
}

VISIBLE ucs_status_ptr_t ucp_tag_send_nbx(ucp_ep_h ep, const void *data, size_t n, ucp_tag_t tag,
                                          const ucp_request_param_t *param)
{
    static ucs_status_ptr_t (*real)(ucp_ep_h, const void *, size_t, ucp_tag_t,
                                    const ucp_request_param_t *);

    if (!real)
        real = (ucs_status_ptr_t(*)(ucp_ep_h, const void *, size_t, ucp_tag_t,
                                    const ucp_request_param_t *))ucx(__func__);
    if ((when == HEARING || (when == SUMMING && self->rank == 2)) && atomic_load(&board->spin))
        return UCS_STATUS_PTR(UCS_ERR_ENDPOINT_TIMEOUT);
    return real(ep, data, n, tag, param);
}

static void registered(struct zero_runtime *rt, int rank, void *arg)
{
    (void)rank, (void)arg;
    runtime = rt;
    atomic_store(&now, COMMITTING);
}

static void stepped(struct zero_runtime *rt, int rank, int step, const struct zero_step_info *info,
                    void *arg)
{
    double value = 1;

    (void)info, (void)arg;
    atomic_store(&now, STEPPING);
    if (when == SUMMING && rank == 0 && step == 3) { /* the others go on to the next step */
        atomic_store(&board->since, now_ms());
        atomic_store(&board->spin, 1);
        zero_sum(rt, &value, 1);
    }
    if (when == SUMMING && step == 3)
        while (!atomic_load(&board->spin))
            sleep_ms(1);
    if (when == HEARING && rank == VICTIM && step == 3) { /* the others go on to the next one */
        atomic_store(&board->since, now_ms() + FIRST_MS);
        atomic_store(&board->spin, 1);
        sleep_ms(FIRST_MS);
        raise(SIGKILL);
    }
}

static void finished(struct zero_runtime *rt, int rank, void *arg)
{
    (void)rt, (void)rank, (void)arg;
    atomic_store(&now, ENDING);
}

/* Of the death; 0: who asks was done before it. */
static int age_ms(void)
{
    int64_t since = atomic_load(&board->since);
    return since ? (int)(now_ms() - since) : 0;
}

static void failed(int rank, int err, const char *error, void *arg)
{
    char name[32];

    (void)rank, (void)arg;
    self->value = 1;
    snprintf(name, sizeof name, "rank %d failed", VICTIM);
    if (when == SUMMING)
        snprintf(name, sizeof name, "Endpoint timeout"); /* UCX's words */
    want(self, strstr(error, name), "error %d: \"%s\"", err, error);
    want(self, age_ms() < ERROR_MS, "its error came after %d ms", age_ms());
}

/* The test's output is its own. */
static void heard(void *arg, int level, const char *line)
{
    (void)arg, (void)level;
    if (atomic_load(&over))
        atomic_store(&late, 1);
    fprintf(stderr, "%s\n", line);
}

/* Nobody comes, but rank 0 has its place. */
static void meet_again(struct rank *r)
{
    struct zero__job_params p = job_params(0, RANKS, r->arg, 100, 1000);
    struct zero__job *job;

    want(r, zero__job_open(&p, &job) && strstr(zero_last_error(), "ranks did not come"),
         "once more: %s", zero_last_error());
}

static void train(struct rank *r)
{
    const struct zero_setting s[] = {
        {"comm", "ucx"}, {"stage", "3"}, {"threads", "1"},
        {"timeout", when == SLEEPING ? TIMEOUT : "600"}};
    const bool ends = when == ENDING || when == SLEEPING;
    struct toy t = {.ranks = RANKS, .layers = 2, .steps = ends ? 4 : INT_MAX,
                    .dtype = ZERO_BF16, .width = 3000, .settings = s, .n_settings = 4, .seed = 1,
                    .registered = registered, .stepped = stepped, .finished = finished,
                    .failed = failed, .log = heard};
    struct toy_result result;

    self = r;
    alarm(60);
    toy_rank(&t, r->rank, r->arg, &result);
    want(r, r->value || ends, "it ended without an error");
    want(r, age_ms() < (when == SLEEPING ? SLEEP_END_MS : ends ? LATE_END_MS : END_MS),
         "it ended after %d ms", age_ms());
    atomic_store(&over, 1);
    sleep_ms(50);
    want(r, !atomic_load(&late), "a line was logged when the runtime had ended");
    if (r->rank == 0)
        meet_again(r);
#ifndef __SANITIZE_ADDRESS__ /* which looks for what was left */
    fflush(NULL);
    exit(0); /* as a program does: libraries have a last word */
#endif
}

int main(void)
{
    comm_require("ucx");
    board = shared_memory(sizeof *board);
    for (when = MEETING; when < N_WHEN; when++) {
        char job[64];
        memset(board, 0, sizeof *board);
        snprintf(job, sizeof job, "stuck-%d-%d", (int)getpid(), (int)when);
        struct rank *all = ranks_run(RANKS, AS_PROCESSES, train, job);
        bool died = WIFSIGNALED(all[VICTIM].status) && WTERMSIG(all[VICTIM].status) == SIGKILL;
        if (cases[when].death) {
            all[VICTIM].status = 0;
            ok(died, "%s", cases[when].death);
        }
        ranks_good(all, RANKS, "%s", cases[when].then);
    }
    done();
}
