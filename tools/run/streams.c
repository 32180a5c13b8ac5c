/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks print: all of their streams, and the sinks, in one poll(). */
#include "config.h"

#include "job.h"

#include <poll.h>
#include <sys/ioctl.h>

static nfds_t gather(struct run_job *job, struct pollfd *polls, struct output_stream **whose)
{
    nfds_t n = 0;

    polls[n++] = (struct pollfd){.fd = job->signal_fd, .events = POLLIN};
    for (int i = 0; i < 2; i++)
        polls[n++] =
            (struct pollfd){.fd = job->sinks[i].len ? job->sinks[i].fd : -1, .events = POLLOUT};
    for (int k = 0; k < 2 * job->options->n; k++) {
        struct output_stream *s = &job->ranks[k / 2].streams[k % 2];
        if (!output_wants(s))
            continue;
        whose[n] = s;
        polls[n++] = (struct pollfd){.fd = s->fd, .events = POLLIN};
    }
    return n;
}

int run_turn(struct run_job *job, struct pollfd *polls, struct output_stream **whose, int ms)
{
    nfds_t n = gather(job, polls, whose);
    int ready = poll(polls, n, ms);

    for (nfds_t i = 1; ready > 0 && i < n; i++) {
        if (!polls[i].revents)
            continue;
        if (i < 3)
            output_write(&job->sinks[i - 1]);
        else
            output_read(whose[i]);
    }
    return ready;
}

bool run_streams_open(const struct run_job *job, bool *held)
{
    bool open = false;

    *held = false;
    for (int k = 0; k < 2 * job->options->n; k++) {
        const struct output_stream *s = &job->ranks[k / 2].streams[k % 2];
        open |= s->fd >= 0;
        *held |= s->fd >= 0 && !output_wants(s);
    }
    return open;
}

size_t run_streams_close(struct run_job *job)
{
    size_t lost = 0;

    for (int k = 0; k < 2 * job->options->n; k++) {
        struct output_stream *s = &job->ranks[k / 2].streams[k % 2];
        int n = 0;
        if (s->fd >= 0 && !s->sink->broken && !ioctl(s->fd, FIONREAD, &n) && n > 0)
            lost += (size_t)n;
        output_close(s);
    }
    return lost;
}
