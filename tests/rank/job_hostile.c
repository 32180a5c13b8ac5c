/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank that joined and then sends anything: the others must end with an error, never crash,
 * hang or believe a length. Lengths, types and bodies are random, half of the headers plausible.
 */
#include "job.h"

#include <fcntl.h>
#include <sys/socket.h>

#include "job/endpoint.h"
#include "job/wire.h"

#define ATTACKS 150

struct attack {
    char name[64];
    uint64_t seed;
    int from; /* rank 0 or 1 is the hostile one */
};

static uint32_t next(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*seed >> 33);
}

static struct zero__wire_header random_header(uint64_t *seed)
{
    static const uint32_t sizes[] = {0, 0, 8, 8, 512, 240, 65536, 65537, UINT32_MAX, 1};
    struct zero__wire_header h = {
        .magic = next(seed) % 16 ? ZERO__WIRE_MAGIC : next(seed),
        .type = (uint16_t)(next(seed) % 15),
        .kind = (uint16_t)(next(seed) % 4),
        .bytes = sizes[next(seed) % 10],
        .seq = next(seed) % 4,
        .len = sizes[next(seed) % 10],
        .offset = next(seed) % 8 ? 0 : (uint64_t)next(seed) << (next(seed) % 33),
    };
    if (next(seed) % 2) { /* right but for one field */
        h.magic = ZERO__WIRE_MAGIC;
        h.type = next(seed) % 2 ? ZERO__WIRE_PART : ZERO__WIRE_RESULT;
        h.seq = 1;
        h.bytes = next(seed) % 4 ? 8 : h.bytes;
        h.len = next(seed) % 4 ? 8 : h.len;
        h.offset = next(seed) % 4 ? 0 : h.offset;
    }
    return h;
}

static void send_frames(int fd, uint64_t seed)
{
    static const unsigned char body[65536 + 1] = {0x7e, 0x4a, 0x5a, 0x33, 0xff, 0xff};

    for (unsigned n = 1 + next(&seed) % 6; n; n--) {
        struct zero__wire_header h = random_header(&seed);
        uint32_t bytes = h.bytes < sizeof body ? h.bytes : sizeof body;
        if (next(&seed) % 8 == 0)
            bytes /= 2; /* the stream ends within a body, or bodies shift */
        if (send(fd, &h, sizeof h, MSG_NOSIGNAL) < 0 || send(fd, body, bytes, MSG_NOSIGNAL) < 0)
            return;
    }
}

/* What a terminal would obey: a title, a line back, and both again as one character of UTF-8. */
#define EVIL "\033]0;x\a\r\nzero: rank 0: fine\302\233 2J\177"

/* Good frames whose text is not. */
static void send_evil_text(int fd, int from)
{
    struct {
        struct zero__wire_header h;
        struct zero__job_error e;
    } m = {{.magic = ZERO__WIRE_MAGIC,
            .type = from ? ZERO__WIRE_FAIL : ZERO__WIRE_ERROR,
            .bytes = sizeof m.e},
           {.culprit = 1, .err = -EIO, .op = EVIL, .cause = EVIL}};

    if (send(fd, &m, sizeof m, MSG_NOSIGNAL) < 0)
        return;
}

static bool is_clean(const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        if (*c < ' ' || *c == 0x7f || (*c == 0xc2 && c[1] < 0xa0))
            return false;
    return true;
}

static int receive_all(int fd, void *p, size_t n)
{
    return recv(fd, p, n, MSG_WAITALL) == (ssize_t)n ? 0 : -1;
}

static void hostile_one(struct rank *r, const struct attack *a)
{
    struct zero__job_params p = job_params(1, r->ranks, a->name, 20000, 20000);
    struct {
        struct zero__wire_header h;
        struct zero__wire_hello hello;
    } m = {{.magic = ZERO__WIRE_MAGIC, .type = ZERO__WIRE_HELLO, .bytes = sizeof m.hello},
           {.abi_hash = p.abi_hash, .rank = 1, .ranks = p.ranks, .model = "model"}};
    struct zero__wire_header h = {0};
    int64_t pid;
    int fd;

    memcpy(m.hello.version, p.version, sizeof p.version);
    for (int tries = 0; zero__unix_connect(&p, &fd, &pid); tries++) {
        if (!want(r, tries < 5000, "no rank 0 to attack"))
            return;
        sleep_ms(1);
    }
    fcntl(fd, F_SETFL, 0);
    if (send(fd, &m, sizeof m, MSG_NOSIGNAL) < 0)
        return;
    while (h.type != ZERO__WIRE_WELCOME)
        if (!want(r, !receive_all(fd, &h, sizeof h), "not welcome"))
            return;
    if (!want(r, !receive_all(fd, &m.hello, sizeof(struct zero__wire_welcome)), "no welcome"))
        return;
    if (a->seed % 4 == 1)
        send_evil_text(fd, 1);
    send_frames(fd, a->seed);
    close(fd);
}

/* Plays rank 0 for everybody else. */
static void hostile_zero(struct rank *r, const struct attack *a)
{
    struct zero__job_params p = job_params(0, r->ranks, a->name, 20000, 20000);
    struct {
        struct zero__wire_header h;
        struct zero__wire_welcome w;
    } joined = {{.magic = ZERO__WIRE_MAGIC, .type = ZERO__WIRE_WELCOME, .bytes = sizeof joined.w},
                {.local_ranks = 1, .n_hosts = 1}};
    int listener, fd[RANKS_MAX];
    int64_t pid;

    if (!want(r, !zero__unix_listen(&p, &listener), "listen"))
        return;
    int n = 0;
    for (int tries = 0; tries < 1000 && n < r->ranks - 1; tries++) {
        if (zero__unix_accept(listener, &fd[n], &pid)) {
            sleep_ms(1); /* on a busy machine one may give up before it came */
            continue;
        }
        fcntl(fd[n++], F_SETFL, 0);
    }
    for (int i = 0; i < n; i++)
        if (a->seed % 3 == 0 || send(fd[i], &joined, sizeof joined, MSG_NOSIGNAL) > 0) {
            if (a->seed % 4 == 1)
                send_evil_text(fd[i], 0);
            send_frames(fd[i], a->seed + (uint64_t)i);
        }
    for (int i = 0; i < n; i++)
        close(fd[i]);
    close(listener);
}

static void honest(struct rank *r, const struct attack *a)
{
    struct zero__job_params p = job_params(r->rank, r->ranks, a->name, a->from ? 3000 : 300, 20000);
    struct zero__job_error e;
    struct zero__job *job;
    char all[8 * RANKS_MAX], mine[8] = "";

    if (zero__job_open(&p, &job))
        return; /* fine: it was hostile from the start */
    while (!zero__job_allgather(job, mine, sizeof mine, all))
        ;
    want(r, zero__job_error(job, &e) < 0, "no error");
    want(r, memchr(e.cause, 0, sizeof e.cause) && memchr(e.op, 0, sizeof e.op), "unended text");
    want(r, is_clean(e.cause) && is_clean(e.op), "text for a terminal: %s", e.cause);
    want(r, e.err < 0 && e.culprit >= -1 && e.culprit < r->ranks, "culprit %d", e.culprit);
    zero__job_close(job, 0);
}

static void attacked(struct rank *r)
{
    const struct attack *a = r->arg;

    if (r->rank == a->from && a->from == 0)
        hostile_zero(r, a);
    else if (r->rank == a->from)
        hostile_one(r, a);
    else
        honest(r, a);
}

int main(void)
{
    for (int from = 1; from >= 0; from--) {
        bool good = true;
        for (int i = 0; i < ATTACKS && good; i++) {
            struct attack a = {.seed = 1000003u * (unsigned)i + 7, .from = from};
            snprintf(a.name, sizeof a.name, "%s", job_name());
            struct rank *all = ranks_run(3, AS_THREADS, attacked, &a);
            for (int k = 0; k < 3; k++)
                good &= all[k].bad == 0;
            if (!good)
                ranks_good(all, 3, "attack with seed %" PRIu64, a.seed);
        }
        ok(good, "%d attacks by rank %d", ATTACKS, from);
    }
    done();
}
