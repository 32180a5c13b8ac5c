/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank 0 and those who knock. A guest has a few seconds to say HELLO and is then let in, refused
 * with a sentence, or asked to come again because its place is about to be free. While the ranks
 * join, a rank of another size or version ends the attempt for all: nobody could go on anyway.
 * Later it only harms itself. A second start of a rank is refused, the first is kept.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "job/endpoint.h"
#include "job/internal.h"

static struct zero__guest *free_guest(struct zero__job *job)
{
    for (int i = 0; i < ZERO__JOB_GUESTS; i++)
        if (job->guests[i].link.fd < 0)
            return &job->guests[i];
    return NULL;
}

/* A rank can be missed without its process descriptor, not without its socket. */
static bool give_up_pid_fds(struct zero__job *job)
{
    bool first = !job->few_fds;

    job->few_fds = true;
    for (int32_t r = 1; r < job->n_peers; r++)
        zero__link_forget_process(&job->peers[r].link);
    return first;
}

void zero__guests_accept(struct zero__job *job)
{
    struct zero__guest *guest;
    int64_t pid;
    int fd;

    while ((guest = free_guest(job))) {
        int e = zero__endpoint_accept(job->listen_fd, &fd, &pid);
        if (e == -EAGAIN)
            return;
        if ((e == -EMFILE || e == -ENFILE) && give_up_pid_fds(job))
            continue;
        if (e) {
            job->deaf_until_ns = zero__deadline_ns(ZERO_SECOND / 10);
            zero__job_refuse(job, e,
                             "job %s: rank 0 cannot let all %d ranks in (%d are): %s: raise "
                             "the limit of open files (ulimit -n)",
                             job->params.key, job->params.ranks, job->n_joined, strerror(-e));
            return;
        }
        zero__link_init(&guest->link, fd, pid);
        if (job->few_fds)
            zero__link_forget_process(&guest->link);
        guest->deadline_ns = zero__deadline_ns(ZERO__JOB_GUEST_NS);
    }
}

void zero__guests_expire(struct zero__job *job, int64_t now_ns)
{
    for (int i = 0; i < ZERO__JOB_GUESTS; i++)
        if (job->guests[i].link.fd >= 0 && now_ns >= job->guests[i].deadline_ns)
            zero__link_close(&job->guests[i].link);
}

void zero__job_refuse(struct zero__job *job, int err, const char *fmt, ...)
{
    va_list ap;

    if (job->state != ZERO__JOB_JOINING)
        return;
    va_start(ap, fmt);
    vsnprintf(job->refusal.text, sizeof job->refusal.text, fmt, ap);
    va_end(ap);
    job->refusal.err = err;
    job->state = ZERO__JOB_REFUSED;
    for (int32_t r = 1; r < job->n_peers; r++)
        job->peers[r].say_refused = job->peers[r].state == ZERO__PEER_HERE;
    pthread_cond_broadcast(&job->changed);
    zero__job_wake(job);
}

/* The buffer of a fresh connection is empty: one attempt to write is enough. */
static void turn_away(struct zero__guest *guest, const struct zero__wire_refused *why)
{
    struct zero__wire_header h = {.type = ZERO__WIRE_REFUSED, .bytes = sizeof *why};

    zero__link_put(&guest->link, &h, why);
    zero__link_flush(&guest->link);
    zero__link_close(&guest->link);
}

static void count_refused(struct zero__job *job)
{
    job->n_refused++;
    pthread_cond_broadcast(&job->changed);
}

__attribute__((format(printf, 4, 5))) static void turn_away_f(struct zero__guest *guest, int err,
                                                              bool again, const char *fmt, ...)
{
    struct zero__wire_refused why = {.err = err, .again = again};
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(why.text, sizeof why.text, fmt, ap);
    va_end(ap);
    turn_away(guest, &why);
}

/* Guest and job cannot work together: said to both. */
__attribute__((format(printf, 4, 5))) static void
mismatch(struct zero__job *job, struct zero__guest *guest, int err, const char *fmt, ...)
{
    struct zero__wire_refused why = {.err = err};
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(why.text, sizeof why.text, fmt, ap);
    va_end(ap);
    turn_away(guest, &why);
    zero__job_refuse(job, err, "%s", why.text);
    count_refused(job);
}

static void let_in(struct zero__job *job, struct zero__guest *guest)
{
    struct zero__peer *peer = &job->peers[guest->hello.rank];

    peer->link = guest->link;
    peer->state = ZERO__PEER_HERE;
    peer->say_joined = true;
    guest->link.fd = guest->link.pid_fd = -1;
    if (++job->n_joined < job->params.ranks)
        return;
    job->state = ZERO__JOB_OPEN;
    for (int32_t r = 1; r < job->n_peers; r++)
        job->peers[r].say_welcome = true;
    pthread_cond_broadcast(&job->changed);
}

static void second(struct zero__job *job, struct zero__guest *guest, int64_t pid)
{
    int64_t other = guest->hello.pid;
    int32_t rank = guest->hello.rank;

    turn_away_f(guest, -EEXIST, false,
                "job %s: rank %d is there already (process %" PRId64 "), process %" PRId64
                " is a second one: start every rank once, or give a second "
                "job another MASTER_PORT or job name, a second model another name",
                job->params.key, rank, pid, other);
    pthread_mutex_unlock(&job->lock); /* a sink may take its time */
    zero__log(job->params.log, ZERO_LOG_WARN, "job",
              "refused process %" PRId64 ", a second rank "
              "%d: the first is process %" PRId64,
              other, rank, pid);
    pthread_mutex_lock(&job->lock);
}

/* The place of a rank is taken: by a living rank, or by one that is about to make room? */
static void taken(struct zero__job *job, struct zero__guest *guest)
{
    int32_t rank = guest->hello.rank;
    int64_t pid = rank ? job->peers[rank].link.pid : getpid();

    if (rank)
        zero__peer_read(job, rank); /* a BYE that lies there came before this HELLO */
    bool going = job->state == ZERO__JOB_LEAVING || job->clean ||
                 atomic_load_explicit(&job->error_state, memory_order_acquire) ||
                 (rank && job->peers[rank].state != ZERO__PEER_HERE);
    if (job->state == ZERO__JOB_REFUSED) {
        turn_away(guest, &job->refusal);
        count_refused(job);
    } else if (going) {
        turn_away_f(guest, -EAGAIN, true, "job %s is about to end", job->params.key);
    } else {
        second(job, guest, pid);
    }
}

static void examine(struct zero__job *job, struct zero__guest *guest)
{
    const struct zero__job_params *p = &job->params;
    struct zero__wire_hello *h = &guest->hello;

    h->version[sizeof h->version - 1] = h->model[sizeof h->model - 1] = 0;
    if (strcmp(h->version, p->version) || h->abi_hash != p->abi_hash)
        mismatch(job, guest, -EPROTO,
                 "job %s: rank %d (process %" PRId64 ") runs libzero %s "
                 "(interface %016" PRIx64 "), rank 0 runs %s (interface %016" PRIx64 "): start all "
                 "ranks with the same library",
                 p->key, h->rank, h->pid, h->version, h->abi_hash, p->version, p->abi_hash);
    else if (h->ranks != p->ranks)
        mismatch(job, guest, -EINVAL,
                 "job %s: rank %d (process %" PRId64 ") was started with %d "
                 "ranks, rank 0 with %d: start all ranks with the same WORLD_SIZE",
                 p->key, h->rank, h->pid, h->ranks, p->ranks);
    else if (h->rank < 0 || h->rank >= p->ranks)
        turn_away_f(guest, -EPROTO, false, "job %s: rank %d of %d is impossible", p->key, h->rank,
                    p->ranks);
    else if (job->state != ZERO__JOB_JOINING || h->rank == 0 ||
             job->peers[h->rank].state != ZERO__PEER_ABSENT)
        taken(job, guest);
    else
        let_in(job, guest);
}

void zero__guest_serve(struct zero__job *job, struct zero__guest *guest)
{
    while (guest->link.fd >= 0) {
        int e = zero__link_read(&guest->link);
        const struct zero__wire_header *h = &guest->link.in;
        if (e == ZERO__LINK_WAIT)
            return;
        if (e == ZERO__LINK_HEADER && h->type == ZERO__WIRE_HELLO &&
            h->bytes == sizeof guest->hello)
            guest->link.in_body = &guest->hello;
        else if (e == ZERO__LINK_MESSAGE && h->bytes)
            examine(job, guest);
        else if (e == -EPIPE)
            zero__link_close(&guest->link);
        else
            turn_away_f(guest, -EPROTO, false,
                        "job %s: process %" PRId64 " speaks another "
                        "protocol than libzero %s of rank 0: start all ranks with the same library",
                        job->params.key, guest->link.pid, job->params.version);
    }
}
