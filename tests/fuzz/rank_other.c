/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What answers for rank 0 sends to another rank: CHALLENGE and PROOF, WELCOME or REFUSED, and
 * whatever follows. Bit 0 of the first byte: the rank has a secret; bit 1: no challenge, as by a
 * Unix socket. The functions under test are static, so their file is a part of this one.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "job/join.c"

#define RANKS 4

static const struct __attribute__((packed)) {
    uint8_t how;
    struct zero__wire_header h;
    unsigned char nonce[ZERO__AUTH_BYTES];
    struct zero__wire_header answer;
    struct zero__wire_proof proof;
} secret = {1,
            {.magic = ZERO__WIRE_MAGIC, .type = ZERO__WIRE_CHALLENGE, .kind = 1,
             .bytes = ZERO__AUTH_BYTES},
            {1},
            {.magic = ZERO__WIRE_MAGIC, .type = ZERO__WIRE_PROOF, .bytes = sizeof secret.proof},
            {{1}, {2}}};

static const struct __attribute__((packed)) {
    uint8_t how;
    struct zero__wire_header h;
    unsigned char nonce[ZERO__AUTH_BYTES];
    struct zero__wire_header joined, yes;
    struct zero__wire_welcome welcome;
    struct zero__wire_header result;
    char body[8 * RANKS];
    struct zero__wire_header failed;
    struct zero__job_error error;
} open_door = {0,
               {.magic = ZERO__WIRE_MAGIC, .type = ZERO__WIRE_CHALLENGE, .bytes = ZERO__AUTH_BYTES},
               {0},
               {.magic = ZERO__WIRE_MAGIC, .type = ZERO__WIRE_JOINED, .len = 1000},
               {.magic = ZERO__WIRE_MAGIC, .type = ZERO__WIRE_WELCOME,
                .bytes = sizeof open_door.welcome},
               {.local_ranks = RANKS, .n_hosts = 1, .process = {7, "host", "host:1"}},
               {.magic = ZERO__WIRE_MAGIC, .type = ZERO__WIRE_RESULT, .kind = ZERO__ROUND_GATHER,
                .bytes = 8 * RANKS, .seq = 1, .len = 8},
               "a result",
               {.magic = ZERO__WIRE_MAGIC, .type = ZERO__WIRE_ERROR,
                .bytes = sizeof open_door.error},
               {.culprit = 1, .err = -5, .op = "op", .cause = "cause"}};

static const struct __attribute__((packed)) {
    uint8_t how;
    struct zero__wire_header h;
    struct zero__wire_refused no;
} refused = {2,
             {.magic = ZERO__WIRE_MAGIC, .type = ZERO__WIRE_REFUSED, .bytes = sizeof refused.no},
             {-22, 0, "another job"}};

const struct fuzz_seed fuzz_seeds[] = {
    {&secret, sizeof secret, 0},
    {&open_door, sizeof open_door, 0},
    {&refused, sizeof refused, 0},
    {NULL, 0, 0},
};

unsigned fuzz_reached;

/* As attempt() does; what is there was sent before, so nothing waits. */
static void talk(struct search *s, struct zero__link *link, bool by_unix)
{
    struct zero__job *job = s->job;
    int64_t deadline = zero__deadline_ns(ZERO_SECOND);
    struct zero__wire_header part = {
        .kind = ZERO__ROUND_GATHER, .seq = 1, .bytes = 8, .len = 8};
    struct zero__round *round;

    if ((!by_unix && challenge(s, link)) || wait_welcome(s, link, deadline))
        return;
    job->peers[0].state = ZERO__PEER_HERE;
    job->state = ZERO__JOB_OPEN;
    pthread_mutex_lock(&job->lock);
    round = zero__round_of(job, 1);
    if (round)
        zero__round_post(job, &part, "my part.");
    zero__peer_read(job, 0);
    pthread_mutex_unlock(&job->lock);
}

static struct zero__secret key = {.known = true};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct zero__job job;
    static struct zero__peer peer;
    struct search s = {.job = &job, .by = ZERO__TCP, .where = "here"};
    int fds[2];

    if (size < 1 || size > 65536 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds))
        return 0;
    memset(&job, 0, sizeof job);
    memset(&peer, 0, sizeof peer);
    job.params = (struct zero__job_params){
        .rank = 1, .ranks = RANKS, .key = "job", .model = "model", .version = "0.1.0"};
    job.params.secret.known = data[0] & 1;
    job.secret = &key;
    job.wake_fd = -1;
    job.peers = &peer;
    job.n_peers = 1;
    job.join_deadline_ns = zero__deadline_ns(ZERO_SECOND);
    pthread_mutex_init(&job.lock, NULL);
    pthread_cond_init(&job.changed, NULL);
    if (send(fds[0], data + 1, size - 1, MSG_NOSIGNAL) == (ssize_t)size - 1)
        shutdown(fds[0], SHUT_WR);
    zero__link_init(&peer.link, fds[1], 0);
    talk(&s, &peer.link, data[0] & 2);
    zero__link_close(&peer.link);
    close(fds[0]);
    free(job.rounds[0].data);
    free(job.rounds[1].data);
    pthread_cond_destroy(&job.changed);
    pthread_mutex_destroy(&job.lock);
    return 0;
}
