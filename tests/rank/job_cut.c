/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network between two hosts is cut, and neither is that of rank 0: all ranks name both. Who
 * computes meanwhile is not accused, nor a link that is whole, or that nobody has ever seen at
 * work.
 *
 * The hosts are made up: the three ranks are threads whose network namespaces seem to differ, each
 * at an address of the loopback of its own; their data goes through memory and may be dropped.
 * Packets that a host never answers are those to a listener whose queue is full.
 */
#include "ranks.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "comm.h"
#include "tcp.h"
#include "toy.h"

#define RANKS 3
#define STEPS 5
#define LIMIT_MS 10000
#define BUSY_MS 6000      /* longer than it takes to find a link cut */
#define SHORT_TIMEOUT "8" /* where it is to pass */

enum kind {
    IS_CUT,  /* both the link and the data that goes over it */
    IS_APART, /* the same, and rank 0 has no part in what the others wait for */
    IS_BUSY, /* rank 1 computes, the others wait for it */
    IS_DEAF, /* the same, and nothing answers between ranks 1 and 2 meanwhile */
    IS_SLOW, /* the link answers, and the data does not come: whose fault that is, nobody knows */
    IS_GUARDED, /* like IS_CUT, where nothing has ever answered between the two */
};

static _Thread_local int own_rank = -1; /* not of the job's own threads */
static enum kind kind;
static struct sockaddr_in silent; /* nothing answers there */
static atomic_int deaf;           /* ranks 1 and 2 to each other */
static atomic_int drop[RANKS];    /* peers, as bits */
static atomic_int asked;          /* how often one of them wanted to know */
static int64_t begin_ms;
static char port[8], job[64];

/* ---- Hosts ----------------------------------------------------------------------------------- */

int stat(const char *restrict path, struct stat *restrict st)
{
    int e = fstatat(AT_FDCWD, path, st, 0);

    if (!strcmp(path, "/proc/self/ns/net"))
        st->st_ino += (ino_t)(own_rank + 1);
    return e;
}

static struct sockaddr_in at(int rank, uint16_t in_port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons(in_port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK + (uint32_t)rank)};
}

static int rank_at(const struct sockaddr_in *a)
{
    return (int)(ntohl(a->sin_addr.s_addr) - INADDR_LOOPBACK);
}

/* Ranks connect from the address of their host. */
int connect(int fd, const struct sockaddr *to, socklen_t bytes)
{
    struct sockaddr_in own = at(own_rank, 0);
    socklen_t n = sizeof own;

    if (to->sa_family == AF_INET && own_rank >= 0) {
        if (bind(fd, (const struct sockaddr *)&own, n))
            return -1;
    } else if (to->sa_family == AF_INET && !getsockname(fd, (struct sockaddr *)&own, &n)) {
        int a = rank_at(&own), b = rank_at((const struct sockaddr_in *)(const void *)to);
        if (a + b == 3 && a * b == 2) {
            atomic_fetch_add(&asked, 1);
            if (atomic_load(&deaf))
                to = (const struct sockaddr *)&silent;
        }
    }
    return (int)syscall(SYS_connect, fd, to, bytes);
}

/* The kernel drops what comes when as many wait as may. */
static void silence_make(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t n = sizeof silent;

    silent = at(100, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&silent, n) || listen(fd, 0) ||
        getsockname(fd, (struct sockaddr *)&silent, &n))
        bail("no socket that is silent");
    for (int i = 0; i < 3; i++) {
        int s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        syscall(SYS_connect, s, &silent, sizeof silent);
    }
    sleep_ms(50);
}

/* ---- Jobs ------------------------------------------------------------------------------------ */

static void lose(void)
{
    begin_ms = now_ms();
    if (kind != IS_SLOW)
        atomic_store(&deaf, 1);
    atomic_store(&drop[1], 1 << 2);
    atomic_store(&drop[2], 1 << 1);
}

static void stepped(struct zero_runtime *rt, int rank, int step, const struct zero_step_info *info,
                    void *arg)
{
    (void)info, (void)arg;
    if (step == 0) { /* the hosts are visited */
        tcp_wait(&asked, 2);
        sleep_ms(1000);
    }
    if (step == 2 && rank == 0 && kind == IS_APART)
        zero_barrier(rt);
    if (step != 2 || rank != 1)
        return;
    if (kind == IS_DEAF)
        atomic_store(&deaf, 1);
    if (kind == IS_BUSY || kind == IS_DEAF)
        sleep_ms(BUSY_MS);
    else
        lose();
}

static void failed(int rank, int err, const char *error, void *arg)
{
    (void)rank, (void)err, (void)error, (void)arg;
}

static void rank_main(struct rank *r)
{
    char address[24];
    const struct zero_setting settings[] = {
        {"comm", "mem"},       {"mem_drop", address},
        {"rendezvous", "tcp"}, {"insecure", "1"},
        {"heartbeat", "1"},    {"timeout", kind < IS_SLOW ? "60" : SHORT_TIMEOUT},
        {"port", port},        {"threads", "1"},
        {"stage", "3"},
    };
    const struct toy t = {.ranks = RANKS,
                          .layers = 3,
                          .steps = STEPS,
                          .dtype = ZERO_BF16,
                          .width = 3000,
                          .settings = settings,
                          .n_settings = sizeof settings / sizeof *settings,
                          .seed = 1,
                          .stepped = stepped,
                          .failed = failed,
                          .log = log_nothing};
    struct toy_result result;

    own_rank = r->rank;
    snprintf(address, sizeof address, "%" PRIuPTR, (uintptr_t)&drop[r->rank]);
    int err = toy_rank(&t, r->rank, job, &result);
    r->value = now_ms() - begin_ms;
    own_rank = -1;
    if (kind == IS_BUSY || kind == IS_DEAF) {
        want(r, !err, "%d %s", err, result.error);
        return;
    }
    const char *waited = kind == IS_APART
                             ? "; rank 0 waited in an exchange of the control channel"
                             : "; rank 0 waited in ";
    bool named = strstr(result.error, "the network between rank 1 (process ") &&
                 strstr(result.error, " and rank 2 (process ");
    bool other = strstr(result.error, "the network between rank 2 (process ") &&
                 strstr(result.error, " and rank 1 (process ");
    if (kind == IS_CUT || kind == IS_APART)
        want(r,
             err == -EHOSTUNREACH && (named || other) && strstr(result.error, waited) &&
                 r->value < LIMIT_MS,
             "%d after %d ms: %s", err, (int)r->value, result.error);
    else
        want(r, err == -ETIMEDOUT && strstr(result.error, "ZERO_TIMEOUT"), "%d after %d ms: %s",
             err, (int)r->value, result.error);
}

static void case_of(enum kind k, const char *what)
{
    struct tcp_job *tcp = tcp_job("127.0.0.1");

    kind = k;
    atomic_store(&deaf, k == IS_GUARDED);
    atomic_store(&asked, 0);
    for (int i = 0; i < RANKS; i++)
        atomic_store(&drop[i], 0);
    snprintf(port, sizeof port, "%u", tcp->port);
    snprintf(job, sizeof job, "%s", tcp->name);
    const struct rank *all = ranks_run(RANKS, AS_THREADS, rank_main, NULL);
    ranks_good(all, RANKS, "%s", what);
    if (k == IS_CUT)
        diag("the last rank had ended after %d ms",
             (int)(all[0].value > all[2].value ? all[0].value : all[2].value));
    ok(atomic_load(&asked) >= 2, "they have asked each other %d times", atomic_load(&asked));
}

int main(void)
{
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    unsetenv("ZERO_SECRET_FILE");
    comm_test_plugins();
    silence_make();
    case_of(IS_CUT, "the network between two hosts is cut: all ranks name both");
    case_of(IS_APART, "also while rank 0 waits for something else, and it says for what");
    case_of(IS_BUSY, "a rank that computes for long is waited for");
    case_of(IS_DEAF, "also when it cannot be asked");
    case_of(IS_SLOW, "where the network is whole, the deadline counts");
    case_of(IS_GUARDED, "and where it has never answered");
    done();
}
