/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stranger sends to rank 0: PROOF, or HELLO when it is believed, and whatever follows. Bit 0
 * of the first byte: it is believed; bit 1: the job has begun already.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "job/internal.h"

#define RANKS 2

static const struct __attribute__((packed)) {
    uint8_t how;
    struct zero__wire_header h;
    struct zero__wire_proof proof;
} proof = {0, {.magic = ZERO__WIRE_MAGIC, .type = ZERO__WIRE_PROOF, .bytes = sizeof proof.proof},
           {{1}, {2}}};

static const struct __attribute__((packed)) {
    uint8_t how;
    struct zero__wire_header h;
    struct zero__wire_hello hello;
    struct zero__wire_header part;
    char body[8];
    struct zero__wire_header fail;
    struct zero__job_error error;
    struct zero__wire_header bye;
} hello = {1,
           {.magic = ZERO__WIRE_MAGIC, .type = ZERO__WIRE_HELLO, .bytes = sizeof hello.hello},
           {.version = "0.1.0", .rank = 1, .ranks = RANKS, .model = "model",
            .process = {7, "host", "host:1"}},
           {.magic = ZERO__WIRE_MAGIC, .type = ZERO__WIRE_PART, .kind = ZERO__ROUND_GATHER,
            .bytes = 8, .seq = 1, .len = 8},
           "a body",
           {.magic = ZERO__WIRE_MAGIC, .type = ZERO__WIRE_FAIL, .bytes = sizeof hello.error},
           {.culprit = 1, .err = -5, .op = "op", .cause = "cause"},
           {.magic = ZERO__WIRE_MAGIC, .type = ZERO__WIRE_BYE}};

const struct fuzz_seed fuzz_seeds[] = {
    {&proof, sizeof proof, 0},
    {&hello, sizeof hello, 0},
    {NULL, 0, 0},
};

unsigned fuzz_reached;

static struct zero__secret secret = {.known = true};

static void job_fill(struct zero__job *job, struct zero__peer *peers, struct zero__guest *guest)
{
    job->params = (struct zero__job_params){
        .rank = 0, .ranks = RANKS, .key = "job", .model = "model", .version = "0.1.0"};
    job->params.secret.known = true;
    job->secret = &secret;
    job->hello = hello.hello;
    job->hello.rank = 0;
    job->wake_fd = job->listen_fds[0] = job->listen_fds[1] = -1;
    job->peers = peers;
    job->n_peers = RANKS;
    job->guests = guest;
    job->n_slots = job->n_guests = job->n_joined = 1;
    for (int r = 0; r < RANKS; r++)
        peers[r].link.fd = peers[r].link.pid_fd = -1;
    pthread_mutex_init(&job->lock, NULL);
    pthread_cond_init(&job->changed, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct zero__job job;
    static struct zero__peer peers[RANKS];
    static struct zero__guest guest;
    int fds[2];

    if (size < 1 || size > 65536 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds))
        return 0;
    memset(&job, 0, sizeof job);
    memset(peers, 0, sizeof peers);
    memset(&guest, 0, sizeof guest);
    job_fill(&job, peers, &guest);
    job.state = data[0] & 2 ? ZERO__JOB_OPEN : ZERO__JOB_JOINING;
    zero__link_init(&guest.link, fds[1], 0);
    guest.trusted = data[0] & 1;
    if (send(fds[0], data + 1, size - 1, MSG_NOSIGNAL) == (ssize_t)size - 1)
        shutdown(fds[0], SHUT_WR);
    pthread_mutex_lock(&job.lock);
    zero__guest_serve(&job, &guest);
    if (peers[1].state == ZERO__PEER_HERE)
        zero__peer_read(&job, 1);
    pthread_mutex_unlock(&job.lock);
    zero__link_close(&guest.link);
    for (int r = 0; r < RANKS; r++)
        zero__link_close(&peers[r].link);
    close(fds[0]);
    free(job.rounds[0].data);
    free(job.rounds[1].data);
    pthread_cond_destroy(&job.changed);
    pthread_mutex_destroy(&job.lock);
    return 0;
}
