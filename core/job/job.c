/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing a job; job.h says what a job is. */
#include "config.h"

#include "job/job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/status.h"
#include "job/exchange.h"
#include "job/internal.h"
#include "machine/clock.h"
#include "machine/thread.h"

#define STACK_BYTES (256u << 10) /* poll, a few small frames, and the on_error callback */

int zero__job_rank(const struct zero__job *job)
{
    return job->params.rank;
}

int zero__job_ranks(const struct zero__job *job)
{
    return job->params.ranks;
}

int zero__job_local_rank(const struct zero__job *job)
{
    return job->params.local_rank;
}

int zero__job_local_ranks(const struct zero__job *job)
{
    return job->params.local_ranks;
}

int zero__job_host(const struct zero__job *job)
{
    return job->host;
}

bool zero__job_one_host(const struct zero__job *job)
{
    return job->n_hosts == 1;
}

const char *zero__job_interface(const struct zero__job *job)
{
    return job->interface[0] ? job->interface : NULL;
}

const struct zero_oob *zero__job_oob(struct zero__job *job)
{
    return &job->oob;
}

static void fd_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* What others see of it: its places, and the connections. */
static void hang_up(struct zero__job *job)
{
    for (int32_t r = 0; r < job->n_peers; r++)
        zero__link_close(&job->peers[r].link);
    for (int32_t i = 0; i < job->n_slots; i++)
        zero__link_close(&job->guests[i].link);
    for (int i = 0; i < ZERO__N_ENDPOINTS; i++)
        fd_close(&job->listen_fds[i]);
    zero__probe_hang_up(job);
}

static void destroy(struct zero__job *job)
{
    hang_up(job);
    if (job->wake_fd >= 0)
        close(job->wake_fd);
    zero__probe_close(job);
    free(job->rounds[0].data);
    free(job->rounds[1].data);
    free(job->guests);
    free(job->polls);
    free(job->poll_who);
    free(job->peers);
    pthread_cond_destroy(&job->changed);
    pthread_mutex_destroy(&job->lock);
    zero__secret_drop(job->secret);
    free(job);
}

static int create(const struct zero__job_params *params, struct zero__job **out)
{
    struct zero__job *job = calloc(1, sizeof *job);

    if (!job)
        return zero__fail(-ENOMEM, "job: no memory");
    job->params = *params;
    zero__secret_wipe(&job->params.secret);
    job->params.secret.known = params->secret.known;
    int e = params->secret.known ? zero__secret_keep(&params->secret, &job->secret) : 0;
    if (e) {
        free(job);
        return e;
    }
    job->oob = (struct zero_oob){sizeof job->oob, job,           params->rank, params->ranks,
                                 zero__oob_post,  zero__oob_test};
    pthread_mutex_init(&job->lock, NULL);
    zero__cond_init(&job->changed);
    job->wake_fd = -1;
    zero__probe_init(job);
    for (int i = 0; i < ZERO__N_ENDPOINTS; i++)
        job->listen_fds[i] = -1;
    *out = job;
    return 0;
}

/* What only several ranks need. */
static int equip(struct zero__job *job)
{
    const struct zero__job_params *p = &job->params;
    size_t n = p->rank == 0 ? (size_t)p->ranks : 1;
    size_t n_slots = p->rank == 0 ? n + ZERO__JOB_GUESTS : 0;
    size_t n_polls = 2 * n + n_slots + ZERO__N_ENDPOINTS + 1;

    job->peers = calloc(n, sizeof *job->peers);
    job->guests = calloc(n_slots + 1, sizeof *job->guests);
    job->polls = calloc(n_polls, sizeof *job->polls);
    job->poll_who = calloc(n_polls, sizeof *job->poll_who);
    if (!job->peers || !job->guests || !job->polls || !job->poll_who)
        return zero__fail(-ENOMEM, "job: no memory for %d ranks", p->ranks);
    job->n_peers = (int32_t)n;
    job->n_slots = (int32_t)n_slots;
    for (size_t i = 0; i < n_slots; i++)
        job->guests[i].link.fd = job->guests[i].link.pid_fd = -1;
    for (size_t r = 0; r < n; r++)
        job->peers[r].link.fd = job->peers[r].link.pid_fd = -1;
    job->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (job->wake_fd < 0)
        return zero__fail(-errno, "job: cannot create an event descriptor: %s", strerror(errno));
    job->hello =
        (struct zero__wire_hello){.abi_hash = p->abi_hash, .rank = p->rank, .ranks = p->ranks};
    zero__process_own(&job->hello.process);
    memcpy(job->hello.version, p->version, sizeof job->hello.version);
    memcpy(job->hello.model, p->model, sizeof job->hello.model);
    job->join_deadline_ns = zero__deadline_ns(p->join_ns);
    job->n_joined = 1;
    return 0;
}

uint64_t zero__job_draw_number(void)
{
    uint64_t number = 0;

    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != (ssize_t)sizeof number)
        number = (uint64_t)zero__now_ns() ^ (uint64_t)getpid() << 40; /* it has just booted */
    return number ? number : 1;
}

static int start_thread(struct zero__job *job)
{
    pthread_attr_t attr;
    int e;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    e = zero__thread_create(&job->thread, &attr, zero__job_control, job);
    pthread_attr_destroy(&attr);
    if (e)
        return zero__fail(-e, "job: cannot start the control thread: %s" ZERO__THREAD_LIMITS,
                          strerror(e));
    job->threaded = true;
    return 0;
}

static int listen_or_ask(struct zero__job *job)
{
    for (;;) {
        int e = zero__unix_listen(&job->params, &job->listen_fds[ZERO__UNIX]);
        if (e != -EADDRINUSE)
            return e;
        e = zero__job_ask(job);
        if (e != -EAGAIN)
            return e;
        if (zero__now_ns() >= job->join_deadline_ns)
            return zero__fail(-EADDRINUSE,
                              "job %s: an earlier rank 0 holds its place since %.3g s: "
                              "end it, or choose another MASTER_PORT",
                              job->params.key, (double)job->params.join_ns / 1e9);
        poll(NULL, 0, 10);
    }
}

/* The Unix socket first: it tells whether the job has a rank 0 already. */
static int listen_to_all(struct zero__job *job)
{
    int e = listen_or_ask(job);

    if (e || !job->meet.tcp)
        return e;
    e = zero__tcp_listen(&job->meet.at.at[0], zero__deadline_ns(ZERO__JOB_PORT_NS),
                         &job->listen_fds[ZERO__TCP]);
    return e ? zero__while(e, "job %s", job->params.key) : 0;
}

static void leave(struct zero__job *job, bool bye)
{
    pthread_mutex_lock(&job->lock);
    for (int32_t r = 0; bye && r < job->n_peers; r++)
        job->peers[r].say_bye = job->peers[r].state == ZERO__PEER_HERE;
    job->state = ZERO__JOB_LEAVING;
    job->linger_ns = zero__deadline_ns(ZERO__JOB_LINGER_NS);
    pthread_mutex_unlock(&job->lock);
    zero__job_wake(job);
    pthread_join(job->thread, NULL);
}

/* The ranks that are several find each other. */
static int meet(struct zero__job *job)
{
    int e = equip(job);

    if (!e)
        e = zero__rendezvous_find(job);
    if (e)
        return e;
    if (job->params.rank == 0) {
        if ((e = listen_to_all(job)) || (e = start_thread(job)))
            return e;
        e = zero__job_wait(job);
        return e ? e : zero__probe_open(job);
    }
    e = zero__job_join(job);
    zero__secret_drop(job->secret); /* rank 0 keeps it for those who come late */
    job->secret = NULL;
    if (e)
        return e;
    job->state = ZERO__JOB_OPEN;
    e = start_thread(job);
    return e ? e : zero__probe_open(job);
}

static int check_rank(const struct zero__job_params *params)
{
    if (params->ranks < 1 || params->ranks > ZERO__JOB_MAX_RANKS || params->rank < 0 ||
        params->rank >= params->ranks)
        return zero__fail(-EINVAL, "job: rank %d of %d is impossible: 1 to %d ranks are allowed",
                          params->rank, params->ranks, ZERO__JOB_MAX_RANKS);
    return 0;
}

int zero__job_open(struct zero__job_params *params, struct zero__job **out)
{
    struct zero__job *job = NULL;
    int e = check_rank(params);

    if (!e)
        e = create(params, &job);
    zero__secret_wipe(&params->secret);
    params->number = 0;
    if (e)
        return e;
    job->params.number = params->rank == 0 ? zero__job_draw_number() : 0;
    if (params->ranks == 1) {
        job->state = ZERO__JOB_OPEN;
        job->n_hosts = job->params.local_ranks = 1;
        job->params.local_rank = 0;
    } else if ((e = meet(job))) {
        if (job->threaded)
            leave(job, false);
        params->number = job->params.number;
        destroy(job);
        return e;
    }
    params->local_rank = job->params.local_rank;
    params->local_ranks = job->params.local_ranks;
    params->number = job->params.number;
    *out = job;
    return 0;
}

static bool is_here(struct zero__job *job, int32_t rank)
{
    return rank < job->n_peers && job->peers[rank].state == ZERO__PEER_HERE;
}

/* Rank 0 goes last: without it nobody would hear of the others' end. */
static int wait_for_byes(struct zero__job *job)
{
    int64_t deadline = zero__deadline_ns(job->params.timeout_ns);
    char ranks[160] = "";

    pthread_mutex_lock(&job->lock);
    job->clean = true;
    if (job->params.rank == 0)
        zero__round_left(job, 0); /* one that the others have begun without this rank */
    while (job->params.rank == 0 && zero__error_state(job) == ZERO__ERROR_NONE &&
           zero__ranks_text(job, is_here, ranks, sizeof ranks) >= 0)
        if (zero__cond_until(&job->changed, &job->lock, deadline) == ETIMEDOUT)
            break;
    pthread_mutex_unlock(&job->lock);
    if (!ranks[0] || zero__error_state(job) != ZERO__ERROR_NONE)
        return 0;
    return zero__fail(-ETIMEDOUT,
                      "job %s: rank %s did not end within %.3g s of rank 0: all ranks "
                      "must destroy the runtime",
                      job->params.key, ranks, (double)job->params.timeout_ns / 1e9);
}

void zero__job_quit(struct zero__job *job, int clean)
{
    if (job->threaded)
        leave(job, clean && zero__error_state(job) == ZERO__ERROR_NONE);
    pthread_mutex_lock(&job->lock);
    hang_up(job);
    pthread_mutex_unlock(&job->lock);
}

int zero__job_close(struct zero__job *job, int clean)
{
    int e = 0;

    if (job->threaded) {
        if (clean)
            e = wait_for_byes(job);
        leave(job, clean && zero__error_state(job) == ZERO__ERROR_NONE);
    }
    if (!e)
        e = zero__job_report(job);
    destroy(job);
    return e;
}
