/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Those who knock at rank 0. A guest has a few seconds to say HELLO, by TCP after it has shown that
 * it knows the job's secret; then it leaves this room (admit.c). Until then it may be anybody, and
 * must not keep the ranks out: it has one of many places that exist from the start, sends one frame
 * of a known size, and when all places are taken, the one that came first gives its up. A rank that
 * loses its place so comes again.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "job/internal.h"
#include "machine/clock.h"

#define ACCEPTS 64 /* in one turn of the control thread, which has other things to do */

void zero__guest_free(struct zero__job *job, struct zero__guest *guest)
{
    guest->link.fd = guest->link.pid_fd = -1;
    job->n_guests--;
}

static void hang_up(struct zero__job *job, struct zero__guest *guest)
{
    zero__link_close(&guest->link);
    zero__guest_free(job, guest);
}

/* Whom to drop for another guest; a rank with the secret only has to say HELLO. */
static struct zero__guest *oldest(struct zero__job *job)
{
    struct zero__guest *found = NULL;

    for (int32_t i = 0; i < job->n_slots; i++) {
        struct zero__guest *g = &job->guests[i];
        if (g->link.fd >= 0 && !g->proved && (!found || g->since_ns < found->since_ns))
            found = g;
    }
    return found;
}

int64_t zero__guests_open_ns(struct zero__job *job)
{
    if (job->n_guests < job->n_slots)
        return 0;
    struct zero__guest *first = oldest(job);
    return first ? first->since_ns + ZERO__JOB_UNTOUCHED_NS : ZERO_NEVER;
}

static struct zero__guest *place_for(struct zero__job *job, int64_t now_ns)
{
    if (now_ns < zero__guests_open_ns(job))
        return NULL;
    if (job->n_guests == job->n_slots)
        hang_up(job, oldest(job));
    struct zero__guest *guest = job->guests;
    while (guest->link.fd >= 0)
        guest++;
    job->n_guests++;
    return guest;
}

/* By TCP rank 0 speaks first. The buffer of a fresh connection is empty: one attempt is enough. */
static void challenge(struct zero__job *job, struct zero__guest *guest)
{
    struct zero__wire_header h = {.type = ZERO__WIRE_CHALLENGE,
                                  .kind = job->params.secret.known,
                                  .bytes = sizeof guest->nonces.zero};

    memset(&guest->nonces, 0, sizeof guest->nonces);
    if (job->params.secret.known)
        zero__auth_nonce(guest->nonces.zero);
    zero__link_put(&guest->link, &h, guest->nonces.zero);
    if (zero__link_flush(&guest->link))
        hang_up(job, guest);
}

static void receive(struct zero__job *job, enum zero__endpoint by, int fd, int64_t pid)
{
    int64_t now_ns = zero__now_ns();
    struct zero__guest *guest = place_for(job, now_ns);

    if (!guest) {
        close(fd);
        return;
    }
    zero__link_init(&guest->link, fd, pid);
    if (job->few_fds)
        zero__link_forget_process(&guest->link);
    guest->since_ns = now_ns;
    guest->pid = pid;
    guest->trusted = by == ZERO__UNIX || !job->params.secret.known;
    guest->proved = false;
    if (by == ZERO__TCP)
        challenge(job, guest);
}

/*
 * No descriptor is left. A rank can be missed without its process's descriptor, not without its
 * socket, and guests who have had their time not at all. When to accept again; ZERO_NEVER: the
 * ranks alone are too many.
 */
static int64_t make_descriptors(struct zero__job *job, int64_t now_ns)
{
    struct zero__guest *guest;
    bool made = !job->few_fds;

    job->few_fds = true;
    for (int32_t r = 1; r < job->n_peers; r++)
        zero__link_forget_process(&job->peers[r].link);
    while ((guest = oldest(job)) && now_ns >= guest->since_ns + ZERO__JOB_UNTOUCHED_NS) {
        hang_up(job, guest);
        made = true;
    }
    if (made)
        return now_ns;
    return guest ? guest->since_ns + ZERO__JOB_UNTOUCHED_NS : ZERO_NEVER;
}

void zero__guests_accept(struct zero__job *job, enum zero__endpoint by)
{
    for (int n = 0; n < ACCEPTS; n++) {
        int64_t pid = 0;
        int fd, e = by == ZERO__TCP ? zero__tcp_accept(job->listen_fds[by], &fd)
                                    : zero__unix_accept(job->listen_fds[by], &fd, &pid);
        if (e == -EAGAIN)
            return;
        if (!e) {
            receive(job, by, fd, pid);
            continue;
        }
        bool few_fds = e == -EMFILE || e == -ENFILE;
        int64_t again = few_fds ? make_descriptors(job, zero__now_ns()) : ZERO_NEVER;
        if (again != ZERO_NEVER) {
            job->deaf_until_ns = again;
            return;
        }
        job->deaf_until_ns = zero__deadline_ns(ZERO_SECOND / 10);
        if (!few_fds) { /* the kernel has no memory now, or the guest's network is gone */
            bool told = job->accept_told;
            job->accept_told = true;
            if (told)
                return;
            pthread_mutex_unlock(&job->lock); /* a sink may take its time */
            zero__log(job->params.log, ZERO_LOG_WARN, "job",
                      "job %s: rank 0 cannot take a connection: %s; it goes on trying",
                      job->params.key, strerror(-e));
            pthread_mutex_lock(&job->lock);
            return;
        }
        zero__job_refuse(job, e,
                         "job %s: rank 0 cannot let all %d ranks in (%d are): %s: raise "
                         "the limit of open files (ulimit -n)",
                         job->params.key, job->params.ranks, job->n_joined, strerror(-e));
        return;
    }
}

void zero__guests_expire(struct zero__job *job, int64_t now_ns)
{
    for (int32_t i = 0; job->n_guests && i < job->n_slots; i++) {
        struct zero__guest *guest = &job->guests[i];
        if (guest->link.fd >= 0 && now_ns >= guest->since_ns + ZERO__JOB_GUEST_NS)
            hang_up(job, guest);
    }
}

void zero__guest_turn_away(struct zero__job *job, struct zero__guest *guest,
                           const struct zero__wire_refused *why)
{
    struct zero__wire_header h = {.type = ZERO__WIRE_REFUSED, .bytes = sizeof *why};

    zero__link_put(&guest->link, &h, why);
    zero__link_flush(&guest->link);
    hang_up(job, guest);
}

/* It speaks another language. A stranger is told nothing, one of ours what is wrong. */
static void misunderstood(struct zero__job *job, struct zero__guest *guest)
{
    struct zero__wire_refused why = {.err = -EPROTO};

    if (!guest->trusted) {
        hang_up(job, guest);
        return;
    }
    snprintf(why.text, sizeof why.text,
             "job %.200s: process %" PRId64
             " speaks another protocol than libzero %s of rank 0: start "
             "all ranks with the same library",
             job->params.key, guest->pid, job->params.version);
    zero__guest_turn_away(job, guest, &why);
}

/* Said when the number of such guests has doubled: a flood of them must not fill the log. */
static void deny(struct zero__job *job, struct zero__guest *guest)
{
    struct zero__wire_header h = {.type = ZERO__WIRE_DENIED};
    struct zero__address peer = {.bytes = sizeof peer.s};
    char text[ZERO__ADDRESS_TEXT] = "?";
    int32_t n = ++job->n_denied;

    if (!getpeername(guest->link.fd, (struct sockaddr *)&peer.s, &peer.bytes))
        zero__address_text(&peer, text);
    zero__link_put(&guest->link, &h, NULL);
    zero__link_flush(&guest->link);
    hang_up(job, guest);
    if (n & (n - 1))
        return;
    pthread_mutex_unlock(&job->lock); /* a sink may take its time */
    zero__log(job->params.log, ZERO_LOG_WARN, "job",
              "turned %s away, which has another secret or is of another job than %s (%d so far)",
              text, job->params.key, n);
    pthread_mutex_lock(&job->lock);
}

/*
 * It says that it has a secret and rank 0 has none, or the other way round. Anybody may say so: it
 * counts only for what is said when ranks are missing.
 */
static void part(struct zero__job *job, struct zero__guest *guest)
{
    int32_t n = ++job->n_unlike;

    hang_up(job, guest);
    if (n & (n - 1))
        return;
    pthread_mutex_unlock(&job->lock); /* a sink may take its time */
    zero__log(job->params.log, ZERO_LOG_WARN, "job",
              "a rank %s a secret came, and rank 0 %s (%d so far): give all ranks the same "
              "(ZERO_SECRET_FILE), or none of them",
              job->params.secret.known ? "without" : "with",
              job->params.secret.known ? "has one" : "has none", n);
    pthread_mutex_lock(&job->lock);
}

static void examine(struct zero__job *job, struct zero__guest *guest)
{
    const struct zero__job_params *p = &job->params;
    struct zero__wire_header h = {.type = ZERO__WIRE_PROOF, .bytes = sizeof guest->proof};

    memcpy(guest->nonces.guest, guest->proof.nonce, sizeof guest->nonces.guest);
    if (!zero__auth_check(job->secret, p->key, ZERO__AUTH_GUEST, &guest->nonces,
                          guest->proof.proof)) {
        deny(job, guest);
        return;
    }
    guest->trusted = guest->proved = true;
    memcpy(guest->proof.nonce, guest->nonces.zero, sizeof guest->proof.nonce);
    zero__auth_prove(job->secret, p->key, ZERO__AUTH_ZERO, &guest->nonces, guest->proof.proof);
    zero__link_put(&guest->link, &h, &guest->proof);
    if (zero__link_flush(&guest->link))
        hang_up(job, guest);
}

/* Where the body of the one frame goes that the guest may send now; NULL for any other. */
static void *place(struct zero__guest *guest)
{
    const struct zero__wire_header *h = &guest->link.in;

    if (guest->trusted)
        return h->type == ZERO__WIRE_HELLO && h->bytes == sizeof guest->hello ? &guest->hello
                                                                              : NULL;
    return h->type == ZERO__WIRE_PROOF && h->bytes == sizeof guest->proof ? &guest->proof : NULL;
}

void zero__guest_serve(struct zero__job *job, struct zero__guest *guest)
{
    while (guest->link.fd >= 0) {
        int e = zero__link_read(&guest->link);
        if (e == ZERO__LINK_WAIT)
            return;
        if (e == ZERO__LINK_HEADER && (guest->link.in_body = place(guest)))
            continue;
        if (e == ZERO__LINK_MESSAGE && guest->link.in.bytes) {
            if (guest->trusted)
                zero__guest_admit(job, guest);
            else
                examine(job, guest);
        } else if (e == -EPIPE) {
            hang_up(job, guest);
        } else if (e == ZERO__LINK_MESSAGE && guest->link.in.type == ZERO__WIRE_DENIED) {
            part(job, guest);
        } else {
            misunderstood(job, guest);
        }
    }
}
