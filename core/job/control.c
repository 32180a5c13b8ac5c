/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control thread: sleeps in poll() until a socket, a process or this rank has something to
 * say. It ends when close has set the state to LEAVING, the last words are sent, and it is decided
 * which error the job has, if this rank has reported one.
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "job/internal.h"
#include "machine/clock.h"
#include "machine/wait.h"

/* Who a pollfd belongs to: a rank, a rank's process, a guest, or one of these. */
enum {
    WHO_WAKE = -1,
    WHO_LISTEN = -2 /* minus endpoint */,
    WHO_GUEST = -100,
    WHO_PROCESS = 1 << 20
};

static void add(struct zero__job *job, nfds_t *n, int fd, short events, int32_t who)
{
    if (fd < 0 || !events)
        return;
    job->polls[*n] = (struct pollfd){.fd = fd, .events = events};
    job->poll_who[(*n)++] = who;
}

/* Rank 0: when it listens to those who knock, 0: always. */
static int64_t listen_ns(struct zero__job *job)
{
    int64_t open = job->n_slots ? zero__guests_open_ns(job) : 0;
    return open > job->deaf_until_ns ? open : job->deaf_until_ns;
}

static nfds_t gather_polls(struct zero__job *job, int64_t now_ns)
{
    nfds_t n = 0;

    add(job, &n, job->wake_fd, POLLIN, WHO_WAKE);
    for (int32_t r = 0; r < job->n_peers; r++) {
        struct zero__peer *p = &job->peers[r];
        if (p->state != ZERO__PEER_HERE)
            continue;
        short events = (short)((p->mute ? 0 : POLLIN) | (zero__peer_has_words(p) ? POLLOUT : 0));
        add(job, &n, p->link.fd, events, r);
        add(job, &n, p->mute ? -1 : p->link.pid_fd, POLLIN, WHO_PROCESS + r);
    }
    for (int32_t i = 0; job->n_guests && i < job->n_slots; i++)
        add(job, &n, job->guests[i].link.fd, POLLIN, WHO_GUEST - i);
    if (now_ns < listen_ns(job))
        return n;
    for (int i = 0; i < ZERO__N_ENDPOINTS; i++)
        add(job, &n, job->listen_fds[i], POLLIN, WHO_LISTEN - i);
    return n;
}

static void earlier(int64_t *a, int64_t b)
{
    *a = b < *a ? b : *a;
}

static int64_t next_deadline(struct zero__job *job, int64_t now_ns)
{
    int64_t t = ZERO_NEVER;

    for (int32_t i = 0; job->n_guests && i < job->n_slots; i++)
        if (job->guests[i].link.fd >= 0)
            earlier(&t, job->guests[i].since_ns + ZERO__JOB_GUEST_NS);
    earlier(&t, zero__beat_deadline(job));
    if (now_ns < listen_ns(job))
        earlier(&t, listen_ns(job));
    if (zero__error_state(job) == ZERO__ERROR_PENDING)
        earlier(&t, job->error_deadline_ns);
    else if (job->state == ZERO__JOB_LEAVING)
        earlier(&t, job->linger_ns);
    return t;
}

static void serve(struct zero__job *job, int32_t who, short events)
{
    uint64_t count;

    if (who >= WHO_PROCESS) { /* dead, but its last words may lie in the socket */
        int32_t rank = who - WHO_PROCESS;
        zero__peer_read(job, rank);
        if (job->peers[rank].state == ZERO__PEER_HERE)
            zero__peer_gone(job, rank);
    } else if (who >= 0) {
        if (events & POLLIN)
            zero__beat_heard(&job->peers[who]);
        zero__peer_read(job, who);
    } else if (who == WHO_WAKE) {
        if (read(job->wake_fd, &count, sizeof count) < 0)
            return;
    } else if (who > WHO_GUEST) {
        zero__guests_accept(job, (enum zero__endpoint)(WHO_LISTEN - who));
    } else {
        zero__guest_serve(job, &job->guests[WHO_GUEST - who]);
    }
}

/* Writes what there is to say; true while some of it is still to be said. */
static bool speak(struct zero__job *job)
{
    bool more = false;
    for (int32_t r = 0; r < job->n_peers; r++) {
        zero__peer_write(job, r);
        more |= zero__peer_has_words(&job->peers[r]);
    }
    return more;
}

/* The other ranks hear of it first: what is called may wait for a lock, and ends the transport. */
static void call_on_error(struct zero__job *job)
{
    void (*fn)(void *) = job->on_error;
    void *arg = job->on_error_arg;

    if (!fn || job->told || zero__error_state(job) != ZERO__ERROR_DECIDED)
        return;
    job->told = true;
    speak(job);
    pthread_mutex_unlock(&job->lock);
    fn(arg);
    pthread_mutex_lock(&job->lock);
}

void *zero__job_control(void *arg)
{
    struct zero__job *job = arg;

    zero__starved_name(job);
    pthread_mutex_lock(&job->lock);
    for (;;) {
        bool more = speak(job);
        int64_t now = zero__now_ns();
        if (job->state == ZERO__JOB_LEAVING && zero__error_state(job) != ZERO__ERROR_PENDING &&
            (!more || now >= job->linger_ns))
            break;
        nfds_t n = gather_polls(job, now);
        int64_t deadline = next_deadline(job, now);
        pthread_mutex_unlock(&job->lock);
        int ready = poll(job->polls, n, deadline == ZERO_NEVER ? -1 : zero__poll_ms(deadline));
        pthread_mutex_lock(&job->lock);
        for (nfds_t i = 0; ready > 0 && i < n; i++)
            if (job->polls[i].revents)
                serve(job, job->poll_who[i], job->polls[i].revents);
        now = zero__now_ns();
        zero__guests_expire(job, now);
        zero__beat(job, now);
        zero__starved_tell(job);
        zero__error_expire(job);
        call_on_error(job);
    }
    call_on_error(job);
    pthread_mutex_unlock(&job->lock);
    return NULL;
}
