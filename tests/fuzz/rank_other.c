/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What answers for rank 0 sends to another rank: CHALLENGE and PROOF, WELCOME or REFUSED, and
 * whatever follows, while the rank takes part in an exchange. Bit 0 of the first byte: the rank has
 * a secret; bit 1: no challenge, as by a Unix socket. The functions under test are static, so their
 * file is a part of this one.
 */
#include "config.h"

#include "fuzz.h"

#include <sys/socket.h>
#include <unistd.h>

#include "control.h"

/* Else no proof of an input could be right. */
static void fixed_nonce(unsigned char nonce[static ZERO__AUTH_BYTES])
{
    memset(nonce, 0, ZERO__AUTH_BYTES);
    nonce[0] = 2;
}
#define zero__auth_nonce fixed_nonce
#include "job/join.c"

#define RANKS 4

#define CHALLENGE_OF(known)                                     \
    FRAME(CHALLENGE, .kind = known, .bytes = ZERO__AUTH_BYTES), \
    {                                                           \
        1                                                       \
    }
#define PROOF_OF(...)                                       \
    FRAME(PROOF, .bytes = sizeof(struct zero__wire_proof)), \
    {                                                       \
        {0},                                                \
        {                                                   \
            __VA_ARGS__                                     \
        }                                                   \
    }
#define JOINED_NOW FRAME(JOINED, .len = 1000, .offset = 5, .seq = 1000)
#define WELCOME_NOW                                                            \
    FRAME(WELCOME, .bytes = sizeof(struct zero__wire_welcome)),                \
    {                                                                          \
        .local_ranks = RANKS, .n_hosts = 1, .process = { 7, "host", "host:1" } \
    }
#define RESULT_NOW \
    FRAME(RESULT, .bytes = 8 * RANKS, .seq = 1, .len = 8), "a result"

static const struct __attribute__((packed)) {
    uint8_t how;
    struct zero__wire_header h;
    unsigned char nonce[ZERO__AUTH_BYTES];
    struct zero__wire_header answer;
    struct zero__wire_proof proof;
} wrong_proof = {1, CHALLENGE_OF(1), PROOF_OF(1)}, unlike = {0, CHALLENGE_OF(1), PROOF_OF(1)};

static const struct __attribute__((packed)) {
    uint8_t how;
    struct zero__wire_header h;
    unsigned char nonce[ZERO__AUTH_BYTES];
    struct zero__wire_header answer;
} denied = {1, CHALLENGE_OF(1), FRAME(DENIED)};

/* The proof belongs to the nonces of both sides, a secret of zeros and the job's key. */
static const struct __attribute__((packed)) {
    uint8_t how;
    struct zero__wire_header h;
    unsigned char nonce[ZERO__AUTH_BYTES];
    struct zero__wire_header answer;
    struct zero__wire_proof proof;
    struct zero__wire_header joined, yes;
    struct zero__wire_welcome welcome;
    struct zero__wire_header beat, result;
    char body[8 * RANKS];
    struct zero__wire_header bye;
} proved = {1,
            CHALLENGE_OF(1),
            PROOF_OF(0x5d, 0x5e, 0x01, 0x69, 0xd5, 0x92, 0xc8, 0xa2, 0xb8, 0x5e, 0x37, 0xf3, 0xd8,
                     0x39, 0x20, 0x11, 0x26, 0x49, 0xfc, 0x22, 0x71, 0x7d, 0x5f, 0x9d, 0xf0, 0x7d,
                     0xdc, 0x34, 0x00, 0xd1, 0x65, 0xa9),
            JOINED_NOW,
            WELCOME_NOW,
            FRAME(BEAT, .len = 2),
            RESULT_NOW,
            FRAME(BYE)};

/* No secret; the result in two pieces, then an error that is decided. */
static const struct __attribute__((packed)) {
    uint8_t how;
    struct zero__wire_header h;
    unsigned char nonce[ZERO__AUTH_BYTES];
    struct zero__wire_header joined, beat, yes;
    struct zero__wire_welcome welcome;
    struct zero__wire_header piece;
    char a[8];
    struct zero__wire_header rest;
    char b[8 * RANKS - 8];
    struct zero__wire_header failed;
    struct zero__job_error error;
} open_door = {0,
               CHALLENGE_OF(0),
               JOINED_NOW,
               FRAME(BEAT),
               WELCOME_NOW,
               FRAME(RESULT, .bytes = 8, .seq = 1, .len = 8),
               "a result",
               FRAME(RESULT, .bytes = sizeof open_door.b, .seq = 1,
                     .len = 8, .offset = 8),
               "its rest",
               FRAME(ERROR, .bytes = sizeof open_door.error),
               {.culprit = 1, .err = -5, .op = "op", .cause = "cause"}};

/* By a Unix socket, and rank 0 leaves where a result is due, ends, or says what it must not. */
#define WELCOMED                          \
    uint8_t how;                          \
    struct zero__wire_header joined, yes; \
    struct zero__wire_welcome welcome
static const struct __attribute__((packed)) {
    WELCOMED;
    struct zero__wire_header bye;
} leaves = {2, JOINED_NOW, WELCOME_NOW, FRAME(BYE)},
  wrong = {2, JOINED_NOW, WELCOME_NOW, FRAME(PART)};

static const struct __attribute__((packed)) {
    WELCOMED;
} ends = {2, JOINED_NOW, WELCOME_NOW};

static const struct __attribute__((packed)) {
    WELCOMED;
    struct zero__wire_header failed;
    struct zero__job_error error;
} no_errno = {2,
              JOINED_NOW,
              WELCOME_NOW,
              FRAME(ERROR, .bytes = sizeof no_errno.error),
              {.culprit = RANKS, .err = INT32_MIN, .reporter = 9, .op = "op", .cause = "\33"}};

static const struct __attribute__((packed)) {
    uint8_t how;
    struct zero__wire_header h;
    struct zero__wire_refused no;
} refused = {2, FRAME(REFUSED, .bytes = sizeof refused.no), {-22, 0, "another job"}},
  refused_oddly = {2, FRAME(REFUSED, .bytes = sizeof refused.no), {INT32_MIN, 0, "no errno"}},
  come_again = {2, FRAME(REFUSED, .bytes = sizeof refused.no), {-11, 1, "about to end"}},
  nonsense = {2, FRAME(WELCOME, .bytes = sizeof(struct zero__wire_welcome)), {0, 0, ""}};

enum { JOINS = 1u << 24, IS_REFUSED = 1u << 25, COMES_AGAIN = 1u << 26 };

const struct fuzz_seed fuzz_seeds[] = {
    {&wrong_proof, sizeof wrong_proof, SAYS(PROOF) | IS_REFUSED},
    {&unlike, sizeof unlike, SAYS(DENIED) | IS_REFUSED},
    {&denied, sizeof denied, SAYS(PROOF) | IS_REFUSED},
    {&proved, sizeof proved, SAYS(PROOF) | JOINS | SAYS(PART) | EXCHANGED | WORKED | HAS_LEFT},
    {&open_door, sizeof open_door, JOINS | SAYS(PART) | EXCHANGED | IS_OVER | IS_LOST},
    {&leaves, sizeof leaves, JOINS | SAYS(PART) | IS_OVER | HAS_LEFT},
    {&wrong, sizeof wrong, JOINS | SAYS(PART) | SAYS(FAIL) | IS_OVER},
    {&ends, sizeof ends, JOINS | SAYS(PART) | IS_OVER | IS_LOST},
    {&no_errno, sizeof no_errno, JOINS | SAYS(PART) | IS_OVER | IS_LOST},
    {&refused, sizeof refused, IS_REFUSED},
    {&refused_oddly, sizeof refused_oddly, IS_REFUSED},
    {&come_again, sizeof come_again, COMES_AGAIN},
    {&nonsense, sizeof nonsense, IS_REFUSED},
    {NULL, 0, 0},
};

unsigned fuzz_reached;

/* As attempt() does; what is there was sent before, so nothing waits. */
static int join(struct search *s, struct zero__link *link, bool by_unix)
{
    int e = by_unix ? 0 : challenge(s, link);

    if (!e)
        e = wait_welcome(s, link, zero__deadline_ns(ZERO_SECOND));
    if (e > 0 || e < -4095)
        abort();
    fuzz_reached |= !e ? JOINS : e == -EAGAIN ? COMES_AGAIN : IS_REFUSED;
    return e;
}

/* An exchange, and what rank 0 says then. */
static void talk(struct zero__job *job)
{
    job->peers[0].state = ZERO__PEER_HERE;
    job->state = ZERO__JOB_OPEN;
    pthread_mutex_lock(&job->lock);
    if (zero__round_of(job, 1))
        zero__round_post(job, 1, "my part.", 8);
    zero__peer_write(job, 0);
    zero__peer_read(job, 0);
    zero__peer_write(job, 0);
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
        .rank = 1, .ranks = RANKS, .key = "job", .model = "model", .version = PACKAGE_VERSION};
    job.params.secret.known = data[0] & 1;
    job.secret = &key;
    job.wake_fd = -1;
    job.peers = &peer;
    job.n_peers = 1;
    job.join_deadline_ns = zero__deadline_ns(ZERO_SECOND);
    pthread_mutex_init(&job.lock, NULL);
    pthread_cond_init(&job.changed, NULL);
    if (send(fds[0], data + 1, size - 1, MSG_NOSIGNAL) != (ssize_t)size - 1)
        abort();
    shutdown(fds[0], SHUT_WR);
    zero__link_init(&peer.link, fds[1], 0);
    if (!join(&s, &peer.link, data[0] & 2))
        talk(&job);
    fuzz_reached |= frames_said(fds[0]) | job_reached(&job, &peer);
    zero__link_close(&peer.link);
    close(fds[0]);
    job_free(&job);
    return 0;
}
