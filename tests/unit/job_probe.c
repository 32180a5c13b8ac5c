/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What rank 0 makes of the claims that there is no way between two hosts: a verdict soon, however
 * many accuse the same rank one after the other, and none of ranks that compute or have left. And
 * the port that answers: it does so at once, also among many strangers.
 */
#include "../tap.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <unistd.h>

#include "job/internal.h"
#include "machine/clock.h"

#define RANKS 40
#define HOSTS 1000
#define ACCUSED 1
#define STRANGERS 10000 /* more than any queue takes */
#define PERIOD_NS (ZERO_SECOND / 8)

static struct zero__job *job;
static struct zero__peer peers[RANKS];

static void begin(void)
{
    static struct zero__port hosts[RANKS];
    static int32_t host_of[RANKS];
    static bool reached[RANKS];

    if (job) {
        pthread_cond_destroy(&job->changed);
        free(job);
    }
    job = calloc(1, sizeof *job);
    if (!job)
        bail("no memory");
    memset(peers, 0, sizeof peers);
    pthread_cond_init(&job->changed, NULL);
    job->params.ranks = job->n_peers = job->n_hosts = RANKS;
    job->params.heartbeat_ns = ZERO_SECOND;
    job->peers = peers;
    job->wake_fd = -1;
    zero__probe_init(job);
    job->probe.hosts = hosts; /* without ports: nobody is asked */
    job->probe.host_of = host_of;
    job->probe.reached = reached;
    job->probe.on = true;
    for (int r = 1; r < RANKS; r++)
        peers[r].state = ZERO__PEER_HERE;
}

static void beat(int rank, bool waits, int no_way)
{
    struct zero__wire_header h = {.kind = waits, .seq = (uint32_t)(no_way + 1)};

    zero__probe_heard(job, rank, &h);
}

static bool is_over(void)
{
    zero__probe(job, 0, PERIOD_NS);
    return atomic_load(&job->error_state) == ZERO__ERROR_DECIDED;
}

/* Rank 2 accuses first, the others one in every period. */
static int periods_until_over(void)
{
    for (int n = 0; n < RANKS; n++) {
        beat(ACCUSED, true, -1);
        for (int r = 2; r < RANKS; r++)
            beat(r, true, r <= 2 + n ? ACCUSED : -1);
        if (is_over())
            return n;
    }
    return RANKS;
}

static struct zero__address loopback(int family)
{
    struct zero__address a = {0};

    if (family == AF_INET) {
        struct sockaddr_in *in = (void *)&a.s;
        in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        a.bytes = sizeof *in;
    } else {
        struct sockaddr_in6 *in = (void *)&a.s;
        in->sin6_addr = in6addr_loopback;
        a.bytes = sizeof *in;
    }
    a.s.ss_family = (sa_family_t)family;
    return a;
}

static int answer(const struct zero__address *own, const struct zero__address *to)
{
    int fd, e = zero__tcp_begin(own, to, &fd);

    if (e)
        return e;
    for (int i = 0; i < 100 && (e = zero__tcp_begun(fd)) == -EINPROGRESS; i++)
        usleep(1000);
    close(fd);
    return e;
}

static void many_ask(int family, const char *name)
{
    struct zero__address own = loopback(family), to = own;
    int fd, refused = 0, e = zero__tcp_hold(&to, &fd);

    if (e) {
        skip(name, strerror(-e));
        return;
    }
    for (int i = 0; i < STRANGERS; i++)
        refused += answer(&own, &to) == -ECONNREFUSED;
    is_int(refused, STRANGERS, "%s: so many ask, and each is answered by a refusal", name);
    close(fd);
}

/* As many hosts as there may be, at one port: all are reached soon, also with few descriptors. */
static void visits(void)
{
    static struct zero__port ports[HOSTS];
    static bool reached[HOSTS];
    struct zero__address own = loopback(AF_INET);
    int fd, n = 0, all = 0;

    if (zero__tcp_hold(&own, &fd))
        bail("no port");
    for (int h = 0; h < HOSTS; h++)
        ports[h] = (struct zero__port){.family = AF_INET,
                                       .number = zero__address_port(&own),
                                       .host = (uint32_t)h,
                                       .ip = {127, 0, 0, 1}};
    begin();
    job->n_hosts = HOSTS;
    job->probe.hosts = ports;
    job->probe.reached = reached;
    for (; n < 100 && all < HOSTS - 1; n++) {
        usleep(1000);
        zero__probe(job, 0, PERIOD_NS);
        all = 0;
        for (int h = 1; h < HOSTS; h++)
            all += reached[h];
    }
    ok(all == HOSTS - 1 && n <= 20, "%d of %d hosts were reached after %d looks", all, HOSTS - 1,
       n);
    close(fd);
}

int main(void)
{
    visits();
    many_ask(AF_INET, "IPv4");
    many_ask(AF_INET6, "IPv6");
    begin();
    int n = periods_until_over();
    ok(n >= 2 && n <= 4, "a host that one more rank misses in every period: over after %d", n);
    ok(strstr(job->error.cause, "between rank 2 (") && strstr(job->error.cause, "and rank 1 ("),
       "the first two are named: %s", job->error.cause);

    begin();
    for (n = 0; n < 10; n++) {
        beat(ACCUSED, n % 4 != 3, -1);
        beat(2, true, ACCUSED);
        if (is_over())
            break;
    }
    is_int(n, 6, "who has computed once since then: when it has been heard three times again");

    begin();
    for (n = 0; n < 20; n++) {
        beat(ACCUSED, n % 3 != 2, -1);
        beat(2, true, ACCUSED);
        if (is_over())
            break;
    }
    is_int(n, 20, "who computes now and then is not accused");

    begin();
    for (n = 0; n < 8; n++)
        beat(ACCUSED, true, -1);
    for (n = 0; n < 4; n++)
        beat(2, true, ACCUSED);
    ok(!is_over(), "what it said before that does not count");

    begin();
    for (n = 0; n < 8; n++) {
        beat(ACCUSED, true, -1);
        beat(2, true, ACCUSED);
    }
    peers[2].state = ZERO__PEER_LEFT;
    ok(!is_over(), "nor what one says that has left");
    peers[2].state = ZERO__PEER_HERE;
    peers[ACCUSED].state = ZERO__PEER_LEFT;
    ok(!is_over(), "nor what is said of it");
    peers[ACCUSED].state = ZERO__PEER_HERE;
    ok(is_over(), "both are here: it is over");
    done();
}
