/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The offload plugin `fault` stands on another one (ZERO_FAULT_OFFLOAD) and does to its requests
 * what ZERO_FAULT_IO says. Without ZERO_FAULT_IO it changes nothing.
 *
 *     ZERO_FAULT_IO = FAULT[,FAULT]…       FAULT = ACTION[:KEY=VALUE]…
 *
 *     delay=MS     the end of the request is told so much later
 *     cut=BYTES    it goes below in pieces of at most so many bytes, as a disk does a part only
 *     slow=BYTES   it ends when a disk of so many bytes a second has served it, one after another
 *     busy         the call that brings it takes nothing, as if there were no room
 *     reorder      those that one call brings go below behind its others, the last one first; when
 *                  all of them have ended, they are told in that order, too
 *     drop         it is acknowledged and never done; writes only
 *     error=ERRNO  it fails, by name (EIO) or number, without having been tried
 *     kill         the process gets SIGKILL
 *
 *     op=NAME      only requests that read, write or sync
 *     n=N          from the N-th of them on (1)
 *     every=K      and then each K-th only (1): of busy, a call that is made again counts again
 *     times=K      and so many of them (1); 0: all that follow
 *
 * Everything that happens but for delay, cut, slow, busy and reorder is a warning in the log.
 *
 * What is dropped here never reaches the plugin below, whose checksums know nothing of it and find
 * what was there before to be right. `zero check offload fault` notices; a job does not, since
 * libzero has no checksums of its own. Those of nvme find what is lost below them, by its system or
 * disk.
 */
#ifndef ZERO_TESTS_FAULT_STORE_H
#define ZERO_TESTS_FAULT_STORE_H

#include <stdbool.h>

#include <zero/offload.h>

#include "words.h"

#ifndef STORE_NAME /* a test compiles it under another name */
#define STORE_NAME "fault"
#endif
#define STORE_REQUESTS 256u
#define STORE_PIECES 64u /* below at a time */

enum store_action {
    STORE_DELAY,
    STORE_CUT,
    STORE_SLOW,
    STORE_BUSY,
    STORE_REORDER,
    STORE_DROP,
    STORE_ERROR,
    STORE_KILL,
    STORE_N_ACTIONS
};

struct store_fault {
    enum store_action action;
    uint64_t value; /* milliseconds, bytes, bytes a second, errno */
    uint32_t op;    /* 0: any */
    uint64_t first, every, times;
    uint64_t seen; /* requests that it could befall */
};

struct store_request {
    struct zero_io io;
    uint64_t sent, ended, piece; /* bytes; of a piece, 0: whole */
    uint32_t below;              /* pieces */
    int err;
    bool wanted; /* the error */
    bool dropped, reordered;
    uint64_t rate;                       /* bytes a second; 0: as fast as it goes */
    int64_t delay_ns, served_ns, due_ns; /* served: from when on the slow disk is at it */
    struct store_request *next;
    struct store_request *last, *before; /* of those that are reordered together */
    uint32_t left;                       /* in the last one: of them, to end */
};

/* Of a request, below. */
struct store_piece {
    struct store_request *request;
    uint64_t tag; /* 0: nothing is under way here */
};

struct zero_store {
    struct zero__voice voice;
    struct zero_offload_ops ops;
    struct zero_store *inner;
    const char *below; /* its name */
    uint32_t align;
    uint64_t bytes;
    struct store_fault faults[FAULT_MOST];
    int n_faults;
    struct store_request requests[STORE_REQUESTS], *free_requests;
    struct store_request *sending, **sending_end; /* not all of it is below */
    struct store_request *late;                   /* ended, to be told when due */
    struct store_piece pieces[STORE_PIECES]; /* of a tag: number tag % STORE_PIECES */
    uint64_t last_tag;
    uint64_t dropped; /* bytes */
    int64_t slow_ns;  /* the slow disk is busy until then */
};

/* store_parse.c: -EINVAL with a sentence that names what is wrong. */
int zero__store_faults(const struct zero__voice *voice, const char *text,
                       struct store_fault faults[FAULT_MOST], int *n);

/* store_befall.c: true: this call takes nothing more. */
bool zero__store_befall(struct zero_store *s, struct store_request *r);

/* store_late.c: the request has ended below, and is told when that is due. */
void zero__store_end(struct zero_store *s, struct store_request *r);
/* Of a request that is told later, what the slow disk has yet to move. */
uint64_t zero__store_left(const struct store_request *r, int64_t now);
/* Tells what is due, up to one that failed; *next: when the next one is. */
uint32_t zero__store_hand_out(struct zero_store *s, struct zero_cqe *cqes, uint32_t max,
                              int64_t *next);

#endif
