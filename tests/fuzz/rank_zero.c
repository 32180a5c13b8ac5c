/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stranger sends to rank 0: PROOF, or HELLO when it is believed, and whatever follows, while
 * rank 0 takes part in an exchange, waits and looks for links that are cut. Of the first byte bit
 * 0: it is believed; bit 1: the job has begun already; bit 2: its rank is there already; bit 3:
 * rank 0 gathers twice what does not fit into the connection, and of the last bytes (struct hasty)
 * those of a round come when it has posted that one.
 */
#include "config.h"

#include "fuzz.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control.h"

#define RANKS 2
#define LARGE 8000 /* whole headers */
#define LOOKS 4 /* for cut links: so many make a verdict */

#define HELLO_AT(rank_, ranks_, model_, version_, host)                                    \
    FRAME(HELLO, .bytes = sizeof(struct zero__wire_hello)),                                \
    {                                                                                      \
        .version = version_, .rank = rank_, .ranks = ranks_, .model = model_, .process = { \
            7,                                                                             \
            "host",                                                                        \
            host                                                                           \
        }                                                                                  \
    }
#define HELLO_OF(...) HELLO_AT(__VA_ARGS__, "host:2")
#define HELLO HELLO_OF(1, RANKS, "model", PACKAGE_VERSION)
#define PART FRAME(PART, .bytes = 8, .seq = 1, .len = 8), "my part"

static const struct __attribute__((packed)) {
    uint8_t how;
    struct zero__wire_header h;
    struct zero__wire_proof proof;
} wrong_proof = {0, FRAME(PROOF, .bytes = sizeof wrong_proof.proof), {{1}, {2}}};

static const struct __attribute__((packed)) {
    uint8_t how;
    struct zero__wire_header h;
} denied = {0, FRAME(DENIED)};

struct __attribute__((packed)) hello {
    uint8_t how;
    struct zero__wire_header h;
    struct zero__wire_hello hello;
};
static const struct hello here = {1, HELLO_AT(1, RANKS, "model", PACKAGE_VERSION, "host:1")},
                          alone = {1, HELLO}, begun = {3, HELLO}, second = {5, HELLO},
                          first = {1, HELLO_OF(0, RANKS, "model", PACKAGE_VERSION)},
                          beyond = {1, HELLO_OF(RANKS, RANKS, "model", PACKAGE_VERSION)},
                          many = {1, HELLO_OF(1, RANKS + 1, "model", PACKAGE_VERSION)},
                          other_model = {1, HELLO_OF(1, RANKS, "another", PACKAGE_VERSION)},
                          other_version = {1, HELLO_OF(1, RANKS, "model", "0.0.9")};

/* The proof belongs to a nonce of zeros, the guest's below, a secret of zeros and this key. */
static const struct __attribute__((packed)) {
    uint8_t how;
    struct zero__wire_header h;
    struct zero__wire_proof proof;
    struct zero__wire_header h2;
    struct zero__wire_hello hello;
} proved = {0,
            FRAME(PROOF, .bytes = sizeof proved.proof),
            {{1}, {0x79, 0xcb, 0x6d, 0x85, 0xbb, 0x6d, 0xd3, 0x0d, 0x47, 0x6b, 0xce,
                   0xa2, 0x46, 0x9c, 0xb1, 0x47, 0xb8, 0x82, 0x2d, 0x91, 0x0e, 0x43,
                   0xbc, 0x53, 0x5a, 0xa5, 0x73, 0xfe, 0x93, 0x40, 0x4a, 0xe3}},
            HELLO};

/* A part, then a peaceful end; the work that it tells of. */
static const struct __attribute__((packed)) {
    struct hello hello;
    struct zero__wire_header part;
    char body[8];
    struct zero__wire_header beat, bye;
} leaves = {{1, HELLO}, PART, FRAME(BEAT, .len = 3), FRAME(BYE)};

/* It has no way to rank 0, and both wait. */
static const struct __attribute__((packed)) {
    struct hello hello;
    struct zero__wire_header part;
    char body[8];
    struct zero__wire_header beats[3];
} claims = {{1, HELLO},
            PART,
            {FRAME(BEAT, .kind = 1, .seq = 1), FRAME(BEAT, .kind = 1, .seq = 1),
             FRAME(BEAT, .kind = 1, .seq = 1)}};

/* The same, but it waits no more. */
static const struct __attribute__((packed)) {
    struct hello hello;
    struct zero__wire_header beats[4];
} goes_on = {{1, HELLO},
             {FRAME(BEAT, .kind = 1, .seq = 1), FRAME(BEAT, .kind = 1, .seq = 1),
              FRAME(BEAT, .kind = 1, .seq = 1), FRAME(BEAT)}};

static const struct __attribute__((packed)) fails {
    struct hello hello;
    struct zero__wire_header fail;
    struct zero__job_error error;
} fails = {{1, HELLO},
           FRAME(FAIL, .bytes = sizeof fails.error),
           {.culprit = 1, .err = -5, .op = "op", .cause = "cause"}},
  late = {{1, HELLO},
          FRAME(FAIL, .bytes = sizeof fails.error),
          {.culprit = -1, .err = -ETIMEDOUT, .place = 7, .op = "op", .cause = "cause"}},
  no_errno = {{1, HELLO},
              FRAME(FAIL, .bytes = sizeof fails.error),
              {.culprit = 9, .err = INT32_MIN, .op = "op\n", .cause = "cause"}};

/* Its part is of another length than that of rank 0. */
static const struct __attribute__((packed)) {
    struct hello hello;
    struct zero__wire_header part;
    char body[32];
} differs = {{1, HELLO}, FRAME(PART, .seq = 1, .bytes = 32, .len = 32), "more than others have"};

/* Parts that are out of turn, without their bytes, or behind the end of the job. */
static const struct __attribute__((packed)) {
    struct hello hello;
    struct zero__wire_header part;
} ahead = {{1, HELLO}, FRAME(PART, .seq = 2, .bytes = 8, .len = 8)},
  hollow = {{1, HELLO}, FRAME(PART, .seq = 1, .len = 1u << 30)};

#define PIECE(seq_, bytes_) FRAME(PART, .seq = seq_, .bytes = bytes_, .len = bytes_)
struct __attribute__((packed)) hasty {
    struct __attribute__((packed)) {
        struct zero__wire_header part;
        char body[LARGE];
    } first;
    struct zero__wire_header second[1 + LARGE / sizeof(struct zero__wire_header)], third;
};
/* Goes on without having read a result, up to the round that takes the first one's place. */
static const struct __attribute__((packed)) {
    struct hello hello;
    struct hasty parts;
} hasty = {{9, HELLO}, {{PIECE(1, LARGE), ""}, {PIECE(2, LARGE)}, PIECE(3, LARGE + LARGE / 2)}},
  in_time = {{9, HELLO},
             {{PIECE(1, LARGE), ""},
              {[0 ... LARGE / sizeof(struct zero__wire_header)] = FRAME(BEAT)},
              FRAME(BEAT)}};

static const struct __attribute__((packed)) {
    struct fails fails;
    struct zero__wire_header part;
} after = {{{1, HELLO},
            FRAME(FAIL, .bytes = sizeof fails.error),
            {.culprit = 1, .err = -5, .op = "op", .cause = "cause"}},
           FRAME(PART, .seq = 1, .bytes = 8, .len = 8)};

#define JOINS (SAYS(JOINED) | SAYS(WELCOME))
const struct fuzz_seed fuzz_seeds[] = {
    {&wrong_proof, sizeof wrong_proof, SAYS(DENIED)},
    {&denied, sizeof denied, IS_UNLIKE},
    {&proved, sizeof proved, SAYS(PROOF) | JOINS | IS_LOST | IS_OVER},
    {&here, sizeof here, JOINS | IS_LOST | IS_OVER},
    {&alone, sizeof alone, JOINS | IS_LOST | IS_OVER},
    {&begun, sizeof begun, SAYS(REFUSED)},
    {&second, sizeof second, SAYS(REFUSED)},
    {&first, sizeof first, SAYS(REFUSED)},
    {&beyond, sizeof beyond, SAYS(REFUSED)},
    {&many, sizeof many, SAYS(REFUSED)},
    {&other_model, sizeof other_model, SAYS(REFUSED)},
    {&other_version, sizeof other_version, SAYS(REFUSED)},
    {&leaves, sizeof leaves, JOINS | HAS_LEFT | EXCHANGED | WORKED},
    {&claims, sizeof claims,
     JOINS | SAYS(RESULT) | SAYS(ERROR) | EXCHANGED | IS_CUT | IS_OVER | IS_LOST},
    {&goes_on, sizeof goes_on, JOINS | IS_LOST | IS_OVER},
    {&fails, sizeof fails, JOINS | SAYS(ERROR) | IS_OVER | IS_LOST},
    {&late, sizeof late, JOINS | IS_PENDING | IS_OVER | IS_LOST},
    {&no_errno, sizeof no_errno, JOINS | SAYS(ERROR) | IS_OVER | IS_LOST},
    {&differs, sizeof differs, JOINS | SAYS(ERROR) | IS_OVER | IS_LOST},
    {&ahead, sizeof ahead, JOINS | SAYS(ERROR) | IS_OVER},
    {&hollow, sizeof hollow, JOINS | SAYS(ERROR) | IS_OVER},
    {&after, sizeof after, JOINS | SAYS(ERROR) | IS_OVER},
    {&hasty, sizeof hasty, JOINS | EXCHANGED | IS_OVER},
    {&in_time, sizeof in_time, JOINS | EXCHANGED | IS_OVER | IS_LOST},
    FUZZ_TEXT("\1 another protocol says something else", SAYS(REFUSED)),
    {NULL, 0, 0},
};

unsigned fuzz_reached;

static struct zero__secret secret = {.known = true};

static void doing(void *arg, char *text, size_t room)
{
    (void)arg;
    snprintf(text, room, "an operation");
}

static void job_fill(struct zero__job *job, struct zero__peer *peers, struct zero__guest *guest)
{
    job->params = (struct zero__job_params){.rank = 0,
                                            .ranks = RANKS,
                                            .key = "job",
                                            .model = "model",
                                            .version = PACKAGE_VERSION,
                                            .interface = "lo",
                                            .heartbeat_ns = ZERO_SECOND};
    job->params.secret.known = true;
    job->secret = &secret;
    job->hello = alone.hello;
    job->hello.rank = 0;
    memcpy(job->hello.process.host_id, "host:1", 7);
    job->wake_fd = job->listen_fds[0] = job->listen_fds[1] = -1;
    job->peers = peers;
    job->n_peers = RANKS;
    job->guests = guest;
    job->n_slots = job->n_guests = job->n_joined = 1;
    job->say_doing = doing;
    for (int r = 0; r < RANKS; r++)
        peers[r].link.fd = peers[r].link.pid_fd = -1;
    pthread_mutex_init(&job->lock, NULL);
    pthread_cond_init(&job->changed, NULL);
}

/* Rank 0's own part in the exchange, and its looks at links. No host has a port to ask at. */
static void live(struct zero__job *job)
{
    static struct zero__port hosts[RANKS];
    static bool reached[RANKS];
    static int32_t host_of[RANKS];

    zero__probe_init(job);
    job->probe.hosts = hosts;
    job->probe.reached = reached;
    job->probe.host_of = host_of;
    job->probe.on = job->probe.waits = true;
    if (!atomic_load(&job->error_state))
        zero__round_post(job, 1, "my part", 8);
    zero__peer_write(job, 1);
    for (int i = 0; i < LOOKS && !atomic_load(&job->error_state); i++)
        zero__probe(job, i, 1);
    zero__peer_write(job, 1);
}

/* Rank 0 gathers, and nobody reads what it sends. */
static void live_hastily(struct zero__job *job, int fd, const struct hasty *parts)
{
    static const char data[LARGE];
    int small = 4096;

    setsockopt(job->peers[1].link.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    for (uint32_t seq = 1; seq <= 2 && !atomic_load(&job->error_state); seq++) {
        const void *from = seq == 1 ? (const void *)&parts->first : parts->second;
        size_t bytes = seq == 1 ? sizeof parts->first : sizeof *parts - sizeof parts->first;

        zero__round_post(job, seq, data, sizeof data);
        if (send(fd, from, bytes, MSG_NOSIGNAL) < 0)
            return;
        zero__peer_read(job, 1);
        zero__peer_write(job, 1);
        if (!zero__round_of(job, seq)->done)
            return;
    }
}

static void serve(struct zero__job *job, struct zero__guest *guest)
{
    pthread_mutex_lock(&job->lock);
    zero__guest_serve(job, guest);
    if (job->peers[1].state == ZERO__PEER_HERE) {
        zero__peer_write(job, 1);
        zero__peer_read(job, 1);
    }
    pthread_mutex_unlock(&job->lock);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct zero__job job;
    static struct zero__peer peers[RANKS];
    static struct zero__guest guest;
    static struct hasty parts;
    int fds[2], other[2] = {-1, -1};

    if (size < 1 || size > 65536 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds))
        return 0;
    memset(&job, 0, sizeof job);
    memset(peers, 0, sizeof peers);
    memset(&guest, 0, sizeof guest);
    job_fill(&job, peers, &guest);
    job.state = data[0] & 2 ? ZERO__JOB_OPEN : ZERO__JOB_JOINING;
    if ((data[0] & 4) && !socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, other)) {
        zero__link_init(&peers[1].link, other[1], 0);
        peers[1].state = ZERO__PEER_HERE;
    }
    zero__link_init(&guest.link, fds[1], 0);
    guest.trusted = data[0] & 1;
    size_t later = (data[0] & 8) && size > sizeof parts ? sizeof parts : 0;
    memcpy(&parts, data + size - later, later);
    if (send(fds[0], data + 1, size - 1 - later, MSG_NOSIGNAL) != (ssize_t)(size - 1 - later))
        abort();
    serve(&job, &guest);
    pthread_mutex_lock(&job.lock);
    if (job.state == ZERO__JOB_OPEN && job.peers[1].state != ZERO__PEER_ABSENT) {
        if (later && job.peers[1].state == ZERO__PEER_HERE)
            live_hastily(&job, fds[0], &parts);
        else
            live(&job);
    }
    pthread_mutex_unlock(&job.lock);
    fuzz_reached |= frames_said(fds[0]) | job_reached(&job, &peers[1]);
    shutdown(fds[0], SHUT_WR);
    serve(&job, &guest);
    fuzz_reached |= job_reached(&job, &peers[1]);
    zero__link_close(&guest.link);
    for (int r = 0; r < RANKS; r++)
        zero__link_close(&peers[r].link);
    close(fds[0]);
    if (other[0] >= 0)
        close(other[0]);
    job_free(&job);
    return 0;
}
