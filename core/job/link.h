/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection of the control channel: frames in and out of a non-blocking stream socket. Knows
 * framing and nothing of what the messages mean; works on any stream socket.
 */
#ifndef ZERO_JOB_LINK_H
#define ZERO_JOB_LINK_H

#include <stdbool.h>

#include "job/wire.h"

struct zero__link {
    int64_t pid;    /* of the peer on this host; 0: not known */
    int fd, pid_fd; /* -1: none; pid_fd becomes readable when the peer's process is gone */
    int error;      /* errno that ended the connection, 0: the peer closed it */
    struct zero__wire_header in, out;
    uint32_t in_have;  /* bytes of header and body read so far */
    uint32_t out_sent; /* bytes of header and body written so far */
    void *in_body;     /* where the body goes; set by the reader's owner after the header */
    const void *out_body;
    bool sending;
};

enum zero__link_event {
    ZERO__LINK_WAIT = 0, /* nothing (more) for now */
    ZERO__LINK_HEADER,   /* in is complete and has a body: check it, set in_body, read on */
    ZERO__LINK_MESSAGE,  /* in (and its body) is complete; the next read starts a new one */
};

/* Takes over fd; a peer in another process of this machine (pid > 0) is also watched by its pid. */
void zero__link_init(struct zero__link *link, int fd, int64_t pid);
void zero__link_close(struct zero__link *link);
/* Closes the descriptor of the process only. */
void zero__link_forget_process(struct zero__link *link);

/*
 * Never blocks. An event, -EPIPE when the connection has ended (link->error says how), -EPROTO for
 * a header out of bounds.
 */
int zero__link_read(struct zero__link *link);

/* Starts a frame; the body must stay until it is sent. Only when nothing is being sent. */
void zero__link_put(struct zero__link *link, const struct zero__wire_header *h, const void *body);

/* Never blocks. 0: all sent; -EAGAIN: wait for room; or a lost connection. */
int zero__link_flush(struct zero__link *link);

/* Sends one frame, waiting for room until the deadline. */
int zero__link_send(struct zero__link *link, const struct zero__wire_header *h, const void *body,
                    int64_t deadline_ns);

/*
 * Waits for one frame until the deadline. A body is read into `body` if it has at most `room`
 * bytes, else -EPROTO. -ETIMEDOUT, -EPIPE.
 */
int zero__link_receive(struct zero__link *link, void *body, uint32_t room, int64_t deadline_ns);

#endif
