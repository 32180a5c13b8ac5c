/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A guest has said HELLO and is let in, refused with a sentence, or asked to come again because its
 * place is about to be free. While the ranks join, a rank of another size or version ends the
 * attempt for all: nobody could go on anyway. Later it only harms itself. A second start of a rank
 * is refused, the first is kept.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "job/internal.h"
#include "machine/text.h"

#define TEXT 100 /* of zero__process_text() */

static void count_refused(struct zero__job *job)
{
    job->n_refused++;
    pthread_cond_broadcast(&job->changed);
}

enum turn { FOR_GOOD, COME_AGAIN, ENDS_ALL };

/* ENDS_ALL: guest and job cannot work together, which is said to both. */
__attribute__((format(printf, 5, 6))) static void turn_away(struct zero__job *job,
                                                            struct zero__guest *guest, int err,
                                                            enum turn how, const char *fmt, ...)
{
    struct zero__wire_refused why = {.err = err, .again = how == COME_AGAIN};
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(why.text, sizeof why.text, fmt, ap);
    va_end(ap);
    zero__guest_turn_away(job, guest, &why);
    if (how != ENDS_ALL)
        return;
    zero__job_refuse(job, err, "%s", why.text);
    count_refused(job);
}

static void let_in(struct zero__job *job, struct zero__guest *guest)
{
    struct zero__peer *peer = &job->peers[guest->hello.rank];

    peer->link = guest->link;
    peer->process = guest->hello.process;
    peer->state = ZERO__PEER_HERE;
    peer->say_joined = true;
    zero__guest_free(job, guest);
    if (++job->n_joined < job->params.ranks)
        return;
    zero__hosts_count(job);
    job->state = ZERO__JOB_OPEN;
    for (int32_t r = 1; r < job->n_peers; r++)
        job->peers[r].say_welcome = true;
    pthread_cond_broadcast(&job->changed);
}

static void second(struct zero__job *job, struct zero__guest *guest)
{
    int32_t rank = guest->hello.rank;
    char first[TEXT], other[TEXT];

    zero__process_text(job, rank ? &job->peers[rank].process : &job->hello.process, first,
                       sizeof first);
    zero__process_text(job, &guest->hello.process, other, sizeof other);
    turn_away(job, guest, -EEXIST, FOR_GOOD,
              "job %s: rank %d is there already (%s), %s is a second one: start every rank once, "
              "or give a second job another MASTER_PORT or job name, a second model another name",
              job->params.key, rank, first, other);
    pthread_mutex_unlock(&job->lock); /* a sink may take its time */
    zero__log(job->params.log, ZERO_LOG_WARN, "job",
              "refused %s, a second rank %d: the first is %s", other, rank, first);
    pthread_mutex_lock(&job->lock);
}

/* The place of a rank is taken: by a living rank, or by one that is about to make room? */
static void taken(struct zero__job *job, struct zero__guest *guest)
{
    int32_t rank = guest->hello.rank;

    if (rank)
        zero__peer_read(job, rank); /* a BYE that lies there came before this HELLO */
    bool going = job->state == ZERO__JOB_LEAVING || job->clean ||
                 zero__error_state(job) != ZERO__ERROR_NONE ||
                 (rank && job->peers[rank].state != ZERO__PEER_HERE);
    if (job->state == ZERO__JOB_REFUSED) {
        zero__guest_turn_away(job, guest, &job->refusal);
        count_refused(job);
    } else if (going) {
        turn_away(job, guest, -EAGAIN, COME_AGAIN, "job %s is about to end", job->params.key);
    } else {
        second(job, guest);
    }
}

void zero__guest_admit(struct zero__job *job, struct zero__guest *guest)
{
    const struct zero__job_params *p = &job->params;
    struct zero__wire_hello *h = &guest->hello;
    char who[TEXT];

    zero__text_clean(h->version, sizeof h->version);
    zero__text_clean(h->model, sizeof h->model);
    zero__process_clean(&h->process);
    zero__process_text(job, &h->process, who, sizeof who);
    if (strcmp(h->version, p->version) || h->abi_hash != p->abi_hash)
        turn_away(job, guest, -EPROTO, ENDS_ALL,
                  "job %s: rank %d (%s) runs libzero %s (interface %016" PRIx64
                  "), rank 0 runs %s (interface %016" PRIx64 "): start all ranks with the same "
                  "library",
                  p->key, h->rank, who, h->version, h->abi_hash, p->version, p->abi_hash);
    else if (strcmp(h->model, p->model)) /* only by TCP: a Unix socket's name contains it */
        turn_away(job, guest, -EINVAL, FOR_GOOD,
                  "job %s: rank %d (%s) is of model %s, and the rank 0 that it found of model %s: "
                  "two models of one job on several hosts need a port each (setting port)",
                  p->key, h->rank, who, h->model, p->model);
    else if (h->ranks != p->ranks)
        turn_away(job, guest, -EINVAL, ENDS_ALL,
                  "job %s: rank %d (%s) was started with %d ranks, rank 0 with %d: start all ranks "
                  "with the same WORLD_SIZE",
                  p->key, h->rank, who, h->ranks, p->ranks);
    else if (h->rank < 0 || h->rank >= p->ranks)
        turn_away(job, guest, -EPROTO, FOR_GOOD,
                  "job %s: %s came as rank %d of %d: ranks go from 0 to %d, so its RANK is wrong",
                  p->key, who, h->rank, p->ranks, p->ranks - 1);
    else if (job->state != ZERO__JOB_JOINING || h->rank == 0 ||
             job->peers[h->rank].state != ZERO__PEER_ABSENT)
        taken(job, guest);
    else
        let_in(job, guest);
}
