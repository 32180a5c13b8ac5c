/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that meet by TCP: exchanges, death and silence as by Unix sockets, and everything that can
 * be wrong with addresses, ports and secrets, named within the time that was given.
 */
#include "tcp.h"

#include <zero/plugin.h>

#include "base/log.h"
#include "job/wire.h"

static const char *text(void)
{
    return zero_last_error();
}

static struct zero__job *open_it(struct rank *r, struct zero__job_params *p)
{
    struct zero__job *job = NULL;
    int e = zero__job_open(p, &job);

    want(r, !e, "open: %d %s", e, text());
    return job;
}

static void exchanges(struct rank *r)
{
    struct zero__job_params p = tcp_params(r, r->arg, 20000, 20000);
    struct zero__job *job = open_it(r, &p);
    unsigned char *big = malloc((RANKS_MAX + 1) * (size_t)ZERO__JOB_EXCHANGE_BYTES);
    unsigned char *own = big + RANKS_MAX * (size_t)ZERO__JOB_EXCHANGE_BYTES;
    int64_t x = r->rank, all[RANKS_MAX];
    bool same = true;

    if (!job)
        return;
    want(r, !p.secret.known && !p.secret.bytes[0] && !p.secret.bytes[31], "the secret is wiped");
    want(r, zero__job_one_host(job), "one host");
    want(r, zero__job_local_ranks(job) == r->ranks && zero__job_local_rank(job) == r->rank,
         "rank %d of %d here", zero__job_local_rank(job), zero__job_local_ranks(job));
    want(r, p.local_ranks == r->ranks && p.local_rank == r->rank, "which open says too");
    for (int i = 0; i < 100; i++) {
        int e = zero__job_allgather(job, &x, sizeof x, all);
        want(r, !e, "gather %d: %s", i, text());
        for (int k = 0; !e && k < r->ranks; k++)
            same &= all[k] == k;
    }
    for (size_t i = 0; i < ZERO__JOB_EXCHANGE_BYTES; i++)
        own[i] = (unsigned char)(r->rank + i * 7 + (i >> 8));
    want(r, !zero__job_allgather(job, own, ZERO__JOB_EXCHANGE_BYTES, big), "the largest: %s",
         text());
    for (int k = 0; k < r->ranks; k++)
        for (size_t i = 0; i < ZERO__JOB_EXCHANGE_BYTES; i++)
            same &= big[(size_t)k * ZERO__JOB_EXCHANGE_BYTES + i] ==
                    (unsigned char)(k + i * 7 + (i >> 8));
    want(r, same, "wrong bytes");
    sleep_ms(r->rank * 20);
    want(r, !zero__job_close(job, 1), "close: %s", text());
    free(big);
}

static void reopen(struct rank *r)
{
    for (int i = 0; i < 10; i++) {
        struct zero__job_params p = tcp_params(r, r->arg, 20000, 20000);
        struct zero__job *job = open_it(r, &p);
        if (!job)
            return;
        want(r, !zero__job_close(job, 1), "close %d: %s", i, text());
    }
}

/* Opens, wants this error and these words, within the time. */
static void fails(struct rank *r, struct zero__job_params *p, int err, int64_t most_ms,
                  const char *const *words)
{
    struct zero__job *job;
    int64_t t = now_ms();
    int e = zero__job_open(p, &job);

    t = now_ms() - t;
    want(r, e == err || (e && !err), "error %d", e);
    for (; *words; words++)
        want(r, strstr(text(), *words), "\"%s\" lacks \"%s\"", text(), *words);
    want(r, t <= most_ms, "after %d ms", (int)t);
    if (!e)
        zero__job_close(job, 0);
}

#define WORDS(...)        \
    (const char *const[]) \
    {                     \
        __VA_ARGS__, NULL \
    }

static void wrong_size(struct rank *r)
{
    struct zero__job_params p = tcp_params(r, r->arg, 5000, 20000);

    p.ranks += r->rank == 2;
    fails(r, &p, -EINVAL, 4000, WORDS("rank 2 ", "was started with 4 ranks, rank 0 with 3"));
}

/* Rank 2 of 3 never comes. */
static void missing(struct rank *r)
{
    struct zero__job_params p = tcp_params(r, r->arg, 400, 20000);
    struct tcp_job *job = r->arg;
    char where[80];

    snprintf(where, sizeof where, "rank 0 listens at 127.0.0.1:%u", job->port);
    if (r->rank < 2)
        fails(r, &p, -ETIMEDOUT, 3000,
              WORDS("1 of 3 ranks did not come within 0.4 s (rank 2)", where));
}

static void missing_first(struct rank *r)
{
    struct zero__job_params p = tcp_params(r, r->arg, 300, 20000);
    struct tcp_job *job = r->arg;
    char where[80];

    snprintf(where, sizeof where, "no rank 0 at 127.0.0.1:%u within 0.3 s (Connection refused)",
             job->port);
    if (r->rank)
        fails(r, &p, -ETIMEDOUT, 3000, WORDS(where, "ZERO_PORT"));
}

static int holder_of(const struct tcp_job *job)
{
    struct zero__address a = tcp_address(job->address, job->port);
    int fd;

    if (zero__tcp_listen(&a, zero__now_ns(), &fd))
        bail(zero_last_error());
    return fd;
}

static void port_in_use(struct rank *r)
{
    struct zero__job_params p = tcp_params(r, r->arg, 3000, 20000);
    char word[60];

    if (r->rank)
        return;
    snprintf(word, sizeof word, "port %u of 127.0.0.1 is in use", p.port);
    fails(r, &p, -EADDRINUSE, 4000, WORDS(word, "ZERO_PORT", "MASTER_PORT"));
}

/* Another program holds the port: it talks, or keeps silent. */
static void stranger(struct rank *r, const char *says, int err, const char *word)
{
    struct tcp_job *job = r->arg;
    struct zero__job_params p = tcp_params(r, job, 700, 20000);
    int fd, held[64], n = 0;

    if (r->rank) {
        tcp_wait(&job->done, 1);
        fails(r, &p, err, 3000, WORDS(word, "127.0.0.1:"));
        atomic_store(&job->done, 2);
        return;
    }
    int listener = holder_of(job);
    atomic_store(&job->done, 1);
    while (atomic_load(&job->done) < 2 && n < 64) {
        if (zero__tcp_accept(listener, &fd)) {
            sleep_ms(1);
            continue;
        }
        if (*says)
            send(fd, says, strlen(says), MSG_NOSIGNAL);
        held[n++] = fd;
    }
    while (n)
        close(held[--n]);
    close(listener);
}

static void stranger_talks(struct rank *r)
{
    stranger(r, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", -EPROTO,
             "is no rank 0 of libzero");
}

static void stranger_silent(struct rank *r)
{
    stranger(r, "", -ETIMEDOUT, "what listens there does not answer");
}

static void no_such_name(struct rank *r)
{
    struct zero__job_params p = tcp_params(r, r->arg, 3000, 20000);

    snprintf(p.address, sizeof p.address, "no-such-host.invalid");
    fails(r, &p, 0, 5000, WORDS("MASTER_ADDR is \"no-such-host.invalid\"", "does not resolve"));
}

static void not_here(struct rank *r)
{
    struct zero__job_params p = tcp_params(r, r->arg, 3000, 20000);

    snprintf(p.address, sizeof p.address, "198.51.100.7");
    if (r->rank == 0)
        fails(r, &p, -EADDRNOTAVAIL, 1000,
              WORDS("MASTER_ADDR is \"198.51.100.7\"", "not this machine", "ZERO_INTERFACE"));
}

static void no_secret(struct rank *r)
{
    struct zero__job_params p = tcp_params(r, r->arg, 3000, 20000);

    zero__secret_wipe(&p.secret);
    fails(r, &p, -EACCES, 1000, WORDS("ZERO_SECRET_FILE", "mode 0600", "ZERO_INSECURE=1"));
}

/* As launchers say it: fewer ranks are here than there are. */
static void no_secret_auto(struct rank *r)
{
    struct zero__job_params p = tcp_params(r, r->arg, 3000, 20000);

    p.how = ZERO__RENDEZVOUS_AUTO;
    p.local_known = true;
    p.local_ranks = 1;
    zero__secret_wipe(&p.secret);
    fails(r, &p, -EACCES, 1000,
          WORDS("only 1 of its 2 ranks are on this host", "ZERO_SECRET_FILE"));
}

/* Several hosts, but MASTER_ADDR is here for both: the other rank comes by Unix. */
static void several_auto(struct rank *r)
{
    struct zero__job_params p = tcp_params(r, r->arg, 20000, 20000);

    p.how = ZERO__RENDEZVOUS_AUTO;
    p.local_known = true;
    p.local_ranks = 1;
    struct zero__job *job = open_it(r, &p);
    if (!job)
        return;
    want(r, zero__job_local_ranks(job) == 2, "ranks are counted, not believed");
    want(r, !zero__job_close(job, 1), "close: %s", text());
}

static void no_port(struct rank *r)
{
    struct zero__job_params p = tcp_params(r, r->arg, 3000, 20000);

    p.port = 0;
    fails(r, &p, -EINVAL, 1000, WORDS("no port is known", "MASTER_PORT", "ZERO_PORT"));
}

static void no_address(struct rank *r)
{
    struct zero__job_params p = tcp_params(r, r->arg, 3000, 20000);

    p.address[0] = 0;
    fails(r, &p, -EINVAL, 1000, WORDS("no address is known", "MASTER_ADDR"));
}

static void by_interface(struct rank *r)
{
    struct zero__job_params p = tcp_params(r, r->arg, 20000, 20000);

    if (r->rank == 0) {
        p.address[0] = 0;
        snprintf(p.interface, sizeof p.interface, "lo");
    }
    struct zero__job *job = open_it(r, &p);
    want(r, !job || !zero__job_close(job, 1), "close: %s", text());
}

static void sink(void *arg, int level, const char *line)
{
    struct rank *r = arg;
    r->value += level == ZERO_LOG_WARN && strstr(line, "ZERO_INSECURE");
}

static void insecure(struct rank *r)
{
    struct zero__job_params p = tcp_params(r, r->arg, 20000, 20000);
    struct zero__log log = {.sink = sink, .sink_arg = r, .rank = r->rank, .level = ZERO_LOG_WARN};

    zero__secret_wipe(&p.secret);
    p.insecure = true;
    p.log = &log;
    struct zero__job *job = open_it(r, &p);
    want(r, !job || !zero__job_close(job, 1), "close: %s", text());
    want(r, r->value == (r->rank == 0), "%d warnings", (int)r->value);
}

static void wrong_secret(struct rank *r)
{
    struct zero__job_params p = tcp_params(r, r->arg, 1000, 20000);

    p.secret.bytes[31] ^= (unsigned char)(r->rank == 1);
    if (r->rank == 1)
        fails(r, &p, -EACCES, 900, WORDS("turns rank 1 away", "ZERO_SECRET_FILE"));
    else
        fails(r, &p, -ETIMEDOUT, 4000, WORDS("(rank 1)", "that were turned away: 1"));
}

/* Only one side has a secret, the other one does without. */
static void half_secret(struct rank *r, int who)
{
    struct zero__job_params p = tcp_params(r, r->arg, 1000, 20000);

    p.insecure = true;
    if (r->rank != who)
        zero__secret_wipe(&p.secret);
    if (r->rank)
        fails(r, &p, -EACCES, 900,
              WORDS(who ? "has no secret, rank 1 has one" : "has a secret, rank 1 has none",
                    "ZERO_SECRET_FILE"));
    else
        fails(r, &p, -ETIMEDOUT, 4000,
              WORDS("(rank 1)", who ? "connections with a secret, which rank 0 does not have: 1"
                                    : "connections without a secret, which rank 0 has: 1"));
}

static void only_zero_has(struct rank *r)
{
    half_secret(r, 0);
}

static void only_one_has(struct rank *r)
{
    half_secret(r, 1);
}

static void another_model(struct rank *r)
{
    struct zero__job_params p = tcp_params(r, r->arg, 1000, 20000);

    snprintf(p.model, sizeof p.model, "%s", r->rank ? "teacher" : "student");
    if (r->rank)
        fails(r, &p, -EINVAL, 900, WORDS("of model teacher", "of model student", "port"));
    else
        fails(r, &p, -ETIMEDOUT, 4000, WORDS("(rank 1)"));
}

/* Works until the job has an error; `value`: the time at which this rank knows it. */
static void work(struct rank *r, struct zero__job *job, const char *word)
{
    int32_t x = r->rank, all[RANKS_MAX];

    while (!zero__job_allgather(job, &x, sizeof x, all))
        sleep_ms(1);
    r->value = now_ms();
    zero__job_report(job);
    want(r, strstr(text(), word), "\"%s\" lacks \"%s\"", text(), word);
    zero__job_close(job, 0);
}

struct victim {
    struct tcp_job *job;
    int rank, signal;
    atomic_llong when_ms;
    atomic_int noticed;
};

static void hit(struct rank *r)
{
    struct victim *v = r->arg;
    struct zero__job_params p = tcp_params(r, v->job, 20000, 20000);
    int last = v->rank == r->ranks - 1 ? r->ranks - 2 : r->ranks - 1;
    char word[80];

    p.heartbeat_ns = 3 * ZERO_SECOND;
    struct zero__job *job = open_it(r, &p);
    if (!job)
        return;
    if (r->rank == v->rank) {
        sleep_ms(100);
        atomic_store(&v->when_ms, now_ms());
        kill(getpid(), v->signal);
        sleep_ms(RANKS_SECONDS * 1000);
    }
    snprintf(word, sizeof word, "rank %d failed: %s", v->rank,
             v->signal == SIGKILL ? "its process" : "it does not answer");
    work(r, job, word);
    r->value -= atomic_load(&v->when_ms);
    atomic_fetch_add(&v->noticed, 1);
    if (r->rank == last && v->signal == SIGSTOP) {
        tcp_wait(&v->noticed, r->ranks - 1);
        kill((r - r->rank + v->rank)->pid, SIGKILL);
    }
}

static void one_hit(struct victim *v, int rank, int signal, int most_ms, const char *what)
{
    *v = (struct victim){.job = tcp_job("127.0.0.1"), .rank = rank, .signal = signal};
    struct rank *all = ranks_run(4, AS_PROCESSES, hit, v);
    int64_t worst = 0;

    all[rank].status = 0;
    for (int i = 0; i < 4; i++)
        worst = i != rank && all[i].value > worst ? all[i].value : worst;
    ranks_good(all, 4, "rank %d of 4 is %s: the others name it", rank, what);
    ok(worst <= most_ms, "within %d ms", most_ms);
    diag("the last after %d ms", (int)worst);
}

int main(void)
{
    struct victim *v = shared_memory(sizeof *v);

    for (int how = AS_THREADS; how <= AS_PROCESSES; how++) {
        const char *as = ranks_how_name[how];
#define RUN(n, fn, host, ...) ranks_good(ranks_run(n, how, fn, tcp_job(host)), n, __VA_ARGS__)
        RUN(4, exchanges, "127.0.0.1", "exchanges of 4 %s", as);
        RUN(1, exchanges, "127.0.0.1", "and of one rank, %s", as);
        RUN(3, exchanges, "::1", "by IPv6, %s", as);
        RUN(3, exchanges, "[::1]", "in brackets, %s", as);
        RUN(3, exchanges, "localhost", "by name, %s", as);
        RUN(3, reopen, "127.0.0.1", "10 jobs in a row at one port, %s", as);
        RUN(3, wrong_size, "127.0.0.1", "another WORLD_SIZE ends all, %s", as);
        RUN(3, missing, "127.0.0.1", "a missing rank is named, %s", as);
        RUN(2, missing_first, "127.0.0.1", "so is rank 0, %s", as);
        RUN(2, stranger_talks, "127.0.0.1", "another program at the port, %s", as);
        RUN(2, stranger_silent, "127.0.0.1", "and a silent one, %s", as);
        RUN(2, no_such_name, "127.0.0.1", "a name that does not resolve, %s", as);
        RUN(2, not_here, "127.0.0.1", "an address of another machine, %s", as);
        RUN(2, no_secret, "127.0.0.1", "no secret, %s", as);
        RUN(2, no_secret_auto, "127.0.0.1", "no secret for several hosts, %s", as);
        RUN(2, several_auto, "127.0.0.1", "ranks that are here come by Unix, %s", as);
        RUN(2, no_port, "127.0.0.1", "no port, %s", as);
        RUN(2, no_address, "127.0.0.1", "no address, %s", as);
        RUN(2, by_interface, "127.0.0.1", "by interface, %s", as);
        RUN(2, insecure, "127.0.0.1", "without a secret if asked for, with a warning, %s", as);
        RUN(2, wrong_secret, "127.0.0.1", "a wrong secret, %s", as);
        RUN(2, only_zero_has, "127.0.0.1", "a rank without secret, %s", as);
        RUN(2, only_one_has, "127.0.0.1", "a rank 0 without secret, %s", as);
        RUN(2, another_model, "127.0.0.1", "two models at one port, %s", as);
    }
    struct tcp_job *job = tcp_job("127.0.0.1");
    int fd = holder_of(job);
    ranks_good(ranks_run(2, AS_THREADS, port_in_use, job), 2, "a port in use is named");
    close(fd);
    for (int rank = 0; rank < 4; rank += 3) {
        /* Before a heartbeat could tell; rank/killed counts milliseconds, a hundred times. */
        one_hit(v, rank, SIGKILL, 2500, "killed");
        one_hit(v, rank, SIGSTOP, 5000, "stopped");
    }
    done();
}
