/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of the control channel: a header of 32 bytes and at most 64 KiB of body. Everything in
 * a header is checked before its body is read. ZERO__WIRE_MAGIC carries the version of the
 * protocol; HELLO and REFUSED keep their layout in all versions, so that any two can say no.
 *
 * A TCP connection begins with CHALLENGE and PROOF, see auth.h; a Unix socket with HELLO.
 */
#ifndef ZERO_JOB_WIRE_H
#define ZERO_JOB_WIRE_H

#include <stdint.h>

#include "job/auth.h"
#include "job/job.h"

#define ZERO__WIRE_MAGIC 0x365a4a7eu
#define ZERO__WIRE_BODY_BYTES 65536u

enum zero__wire_type {
    ZERO__WIRE_HELLO = 1, /* to rank 0, first: struct zero__wire_hello */
    ZERO__WIRE_REFUSED,   /* from rank 0: struct zero__wire_refused */
    ZERO__WIRE_JOINED,    /* from rank 0: known; len: nanoseconds until it gives up waiting, offset:
                             the job's number, seq: milliseconds of silence that are an error, 0:
                             none are; BEATs follow until WELCOME */
    ZERO__WIRE_WELCOME,   /* from rank 0: all ranks are there; struct zero__wire_welcome */
    ZERO__WIRE_PART,      /* to rank 0: this rank's part of round `seq` */
    ZERO__WIRE_RESULT,    /* from rank 0: a piece of the result at `offset` */
    ZERO__WIRE_FAIL,      /* to rank 0: struct zero__job_error as this rank sees it */
    ZERO__WIRE_ERROR,     /* from rank 0: struct zero__job_error, decided */
    ZERO__WIRE_BYE,       /* the sender leaves in peace */
    ZERO__WIRE_BEAT,      /* the sender lives; len: work that was ended, see beat.c; to rank 0, see
                             probe.c: kind: 1, it waits for others; seq: 1 + the rank to which
                             there is no way any more, 0: none */
    ZERO__WIRE_CHALLENGE, /* from rank 0, first: its nonce; kind: 1, or 0 when it has no secret */
    ZERO__WIRE_PROOF,     /* struct zero__wire_proof of the guest, then of rank 0 */
    ZERO__WIRE_DENIED, /* from rank 0: the guest's proof is wrong; to it: not with this challenge,
                          one side has a secret and the other none */
};

struct zero__wire_header {
    uint32_t magic;
    uint16_t type, kind; /* kind: of CHALLENGE and BEAT */
    uint32_t bytes, seq; /* bytes of the body that follows */
    uint64_t len;        /* PART, RESULT: bytes of one part */
    uint64_t offset;     /* RESULT: place in the result */
};

/* A rank's process. Ranks are on one host when their host_id is the same, see hosts.c. */
struct zero__wire_process {
    int64_t pid;
    char host[64]; /* for people */
    char host_id[56];
};

struct zero__wire_hello {
    char version[32];
    uint64_t abi_hash;
    int32_t rank, ranks;
    char model[64];
    struct zero__wire_process process;
};

struct zero__wire_welcome {
    int64_t heartbeat_ns;              /* of rank 0, for all */
    int32_t local_rank, local_ranks;   /* of the receiver, on its host */
    int32_t host, n_hosts;             /* of the receiver: an index */
    struct zero__wire_process process; /* of rank 0 */
    char interface[16];                /* of rank 0, see hosts.c */
};

struct zero__wire_proof {
    unsigned char nonce[ZERO__AUTH_BYTES]; /* the sender's */
    unsigned char proof[ZERO__AUTH_BYTES];
};

struct zero__wire_refused {
    int32_t err;
    uint32_t again; /* 1: the place is about to be free, try once more */
    char text[504];
};

_Static_assert(sizeof(struct zero__wire_header) == 32, "layout of the wire");
_Static_assert(sizeof(struct zero__wire_process) == 128, "layout of the wire");
_Static_assert(sizeof(struct zero__wire_hello) == 240, "layout of the wire");
_Static_assert(sizeof(struct zero__wire_welcome) == 168, "layout of the wire");
_Static_assert(sizeof(struct zero__wire_proof) == 64, "layout of the wire");
_Static_assert(sizeof(struct zero__wire_refused) == 512, "layout of the wire");
_Static_assert(sizeof(struct zero__job_error) == 512, "layout of the wire");

#endif
