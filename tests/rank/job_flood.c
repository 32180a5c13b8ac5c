/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strangers at the TCP port of rank 0, a thousand of them, or as many as are asked for: they
 * connect and leave, keep silent, drip bytes, send garbage and lengths that no frame has, replay
 * and reflect proofs, guess secrets. None gets in, whoever sends what nobody may send is hung up
 * on, and the ranks start at most a second later than without them.
 */
#include "tcp.h"

#include <sys/resource.h>

#include "job/auth.h"
#include "job/wire.h"

#define CONNECTIONS 1000 /* without an argument */
#define STRANGERS 4      /* threads or processes that make them */
#define HELD 200         /* connections that one of them keeps open: all of them more than places */
#define RANKS 3
#define MOST_MS 1000
#define WAIT_MS 300 /* for an answer that must not come */
#define END_MS 3000 /* for the end of a connection: less than a guest may keep silent */

enum kind {
    LEAVES,
    SILENT,
    DRIPS,
    GARBAGE,
    WRONG_SECRET,
    REPLAYED,
    REFLECTED,
    OTHER_JOB,
    HELLO_AT_ONCE,
    HUGE_LENGTH,
    N_KINDS
};

struct flood {
    struct tcp_job *job;
    int connections;
    atomic_int n_open, n_accepted, n_denied, n_kept, n_huge, stop;
    struct zero__wire_proof old; /* a right answer to an earlier challenge */
    bool few;                    /* rank 0 may have few descriptors */
    bool with;                   /* strangers, or none: how long does it take without them? */
};

/* 0; -1: the connection has ended; -ETIMEDOUT: it has not, nor has all come. */
static int receive_within(int fd, void *p, size_t n, int ms)
{
    char *to = p;

    for (int64_t end = now_ms() + ms; n;) {
        ssize_t k = recv(fd, to, n, MSG_DONTWAIT);
        if (k == 0 || (k < 0 && errno != EAGAIN))
            return -1;
        if (k < 0 && now_ms() > end)
            return -ETIMEDOUT;
        if (k < 0) {
            sleep_ms(1);
            continue;
        }
        to += k;
        n -= (size_t)k;
    }
    return 0;
}

static int receive_all(int fd, void *p, size_t n)
{
    return receive_within(fd, p, n, WAIT_MS);
}

/* A right proof, and then everything that is wrong with it. */
static void make_proof(struct flood *f, enum kind kind, const unsigned char *nonce_zero,
                       struct zero__wire_proof *out)
{
    struct zero__secret secret = f->job->secret;
    struct zero__auth_nonces n;
    enum zero__auth_role role = kind == REFLECTED ? ZERO__AUTH_ZERO : ZERO__AUTH_GUEST;

    memcpy(n.zero, nonce_zero, sizeof n.zero);
    zero__auth_nonce(n.guest);
    if (kind == WRONG_SECRET)
        secret.bytes[now_ms() % 32] ^= 1;
    memcpy(out->nonce, n.guest, sizeof out->nonce);
    zero__auth_prove(&secret, kind == OTHER_JOB ? "another job" : f->job->name, role, &n,
                     out->proof);
    if (kind == REPLAYED)
        *out = f->old;
}

/* Was a stranger believed? Only DENIED or the end of the connection may follow. */
static void judge(struct flood *f, int fd)
{
    struct zero__wire_header h = {0};

    if (receive_all(fd, &h, sizeof h))
        return;
    if (h.type == ZERO__WIRE_DENIED)
        atomic_fetch_add(&f->n_denied, 1);
    else
        atomic_fetch_add(&f->n_accepted, 1);
}

/* After what no rank would send nothing but the challenge and the end may come. */
static void judge_end(struct flood *f, int fd)
{
    struct zero__wire_header h;
    unsigned char nonce[ZERO__AUTH_BYTES];
    int e = receive_within(fd, &h, sizeof h, END_MS);

    if (!e && h.type == ZERO__WIRE_CHALLENGE && !receive_within(fd, nonce, sizeof nonce, END_MS))
        e = receive_within(fd, &h, sizeof h, END_MS);
    if (!e)
        atomic_fetch_add(&f->n_accepted, 1);
    else if (e == -ETIMEDOUT)
        atomic_fetch_add(&f->n_kept, 1);
}

/* One stranger; the descriptor if it stays connected. */
static int attack(struct flood *f, const struct zero__address *a, enum kind kind)
{
    struct {
        struct zero__wire_header h;
        unsigned char body[256];
    } m = {.h = {.magic = ZERO__WIRE_MAGIC}};
    static const uint32_t huge[] = {ZERO__WIRE_BODY_BYTES, ZERO__WIRE_BODY_BYTES + 1, INT32_MAX,
                                    UINT32_MAX};
    struct zero__wire_proof proof;
    int fd;

    if (zero__tcp_connect(a, zero__deadline_ns(ZERO_SECOND), &fd))
        return -1;
    atomic_fetch_add(&f->n_open, 1);
    switch (kind) {
    case LEAVES:
        close(fd);
        return -1;
    case SILENT:
        return fd;
    case DRIPS:
        send(fd, &m, 5, MSG_NOSIGNAL);
        return fd;
    case GARBAGE:
        memset(m.body, 0x5a, sizeof m.body);
        send(fd, m.body, sizeof m.body, MSG_NOSIGNAL);
        judge_end(f, fd);
        break;
    case HELLO_AT_ONCE:
        m.h.type = ZERO__WIRE_HELLO;
        m.h.bytes = sizeof(struct zero__wire_hello);
        send(fd, &m, sizeof m.h + m.h.bytes, MSG_NOSIGNAL);
        if (!receive_all(fd, &m, sizeof m.h + ZERO__AUTH_BYTES))
            judge(f, fd);
        break;
    case HUGE_LENGTH:
        m.h.type = ZERO__WIRE_PROOF;
        m.h.bytes = huge[atomic_fetch_add(&f->n_huge, 1) % 4];
        send(fd, &m, sizeof m, MSG_NOSIGNAL);
        judge_end(f, fd);
        break;
    default:
        if (receive_all(fd, &m, sizeof m.h + ZERO__AUTH_BYTES)) {
            close(fd);
            return -1;
        }
        make_proof(f, kind, m.body, &proof);
        m.h = (struct zero__wire_header){
            .magic = ZERO__WIRE_MAGIC, .type = ZERO__WIRE_PROOF, .bytes = sizeof proof};
        send(fd, &m.h, sizeof m.h, MSG_NOSIGNAL);
        send(fd, &proof, sizeof proof, MSG_NOSIGNAL);
        judge(f, fd);
        break;
    }
    close(fd);
    return -1;
}

/* Some stay connected, as many as the kernel lets them, and send a byte now and then. */
static void strangers(struct flood *f)
{
    struct zero__address a = tcp_address("127.0.0.1", f->job->port);
    int held[HELD], n = 0, oldest = 0, first;

    while (zero__tcp_connect(&a, zero__deadline_ns(ZERO_SECOND), &first)) {
        if (atomic_load(&f->stop))
            return;
        sleep_ms(1); /* rank 0 does not listen yet */
    }
    close(first);
    for (int i = 0; i < f->connections / STRANGERS; i++) {
        int kind = i % (2 * N_KINDS); /* more than half keep silent */
        int fd = attack(f, &a, kind < N_KINDS ? (enum kind)kind : SILENT);
        if (fd >= 0 && n < HELD) {
            held[n++] = fd;
        } else if (fd >= 0) {
            close(held[oldest]);
            held[oldest] = fd;
            oldest = (oldest + 1) % HELD;
        }
    }
    while (!atomic_load(&f->stop)) {
        for (int i = 0; i < n; i++) /* slowly */
            send(held[i], "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        sleep_ms(50);
    }
    while (n)
        close(held[--n]);
}

static void limit_descriptors(rlim_t n)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit))
        return;
    limit.rlim_cur = limit.rlim_max < n ? limit.rlim_max : n;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static void flooded(struct rank *r)
{
    struct flood *f = r->arg;
    struct rank real = *r;

    real.ranks = RANKS;
    if (r->rank >= RANKS) {
        if (f->with)
            strangers(f);
        return;
    }
    if (r->rank == 0 && f->few)
        limit_descriptors(64);
    struct zero__job_params p = tcp_params(&real, f->job, 150000, 150000);
    struct zero__job *job;
    if (r->rank && f->with) /* in the middle of it, when all places are taken */
        tcp_wait(&f->n_open, f->connections * 6 / 10);
    int64_t t = now_ms();
    int e = zero__job_open(&p, &job);
    r->value = now_ms() - t;
    if (!want(r, !e, "open: %s", zero_last_error()))
        return;
    if (f->with) /* those that come later are not believed either */
        tcp_wait(&f->n_open, f->connections * 9 / 10);
    int32_t x = r->rank, all[RANKS];
    want(r, !zero__job_allgather(job, &x, sizeof x, all) && all[2] == 2, "the job works: %s",
         zero_last_error());
    if (r->rank == 0)
        sleep_ms(WAIT_MS);
    atomic_store(&f->stop, 1);
    want(r, !zero__job_close(job, 1), "close: %s", zero_last_error());
}

static int64_t run(struct flood *f, enum ranks_how how, bool with, int connections)
{
    *f = (struct flood){.job = tcp_job("127.0.0.1"),
                        .connections = connections,
                        .with = with,
                        .few = how == AS_PROCESSES};
    struct zero__auth_nonces n;
    zero__auth_nonce(n.zero);
    zero__auth_nonce(n.guest);
    memcpy(f->old.nonce, n.guest, sizeof f->old.nonce);
    zero__auth_prove(&f->job->secret, f->job->name, ZERO__AUTH_GUEST, &n, f->old.proof);
    struct rank *all = ranks_run(RANKS + STRANGERS, how, flooded, f);
    ranks_good(all, RANKS + STRANGERS, "a job starts %s %d strangers%s",
               with ? "beside" : "without", connections, f->few ? ", with few descriptors" : "");
    return all[1].value > all[2].value ? all[1].value : all[2].value;
}

static void compare(struct flood *f, enum ranks_how how, int n)
{
    int64_t quiet = run(f, how, false, n), loud = run(f, how, true, n);

    diag("ranks 1 and 2 are in after %d ms alone, after %d ms among %d strangers", (int)quiet,
         (int)loud, atomic_load(&f->n_open));
    ok(loud <= quiet + MOST_MS, "at most %d ms later", MOST_MS);
    ok(atomic_load(&f->n_open) >= n * 9 / 10, "strangers did connect: %d", atomic_load(&f->n_open));
    ok(f->few || atomic_load(&f->n_denied) >= n / 8, "proofs were refused: %d",
       atomic_load(&f->n_denied));
    ok(atomic_load(&f->n_huge) >= 4, "impossible lengths were sent: %d", atomic_load(&f->n_huge));
    is_int(atomic_load(&f->n_kept), 0, "who sent what no rank sends was hung up on");
    is_int(atomic_load(&f->n_accepted), 0, "no stranger was believed");
}

int main(int argc, char **argv)
{
    struct flood *f = shared_memory(sizeof *f);
    int n = argc > 1 ? atoi(argv[1]) : CONNECTIONS;

    limit_descriptors(4096);
    compare(f, AS_THREADS, n);
    compare(f, AS_PROCESSES, n);
    done();
}
