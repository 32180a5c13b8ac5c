/* SPDX-License-Identifier: Apache-2.0 */
/* What is within the time of a bare exchange: nothing of how the two ranks meet. */
#define main exchange_main
int exchange_main(int argc, char **argv);
#include "tools/exchange/pair.h"
#undef main

#include <sys/resource.h>

#include "../tap.h"

#define LATE_US 20000
#define BYTES 100u
#define N 3u

static size_t moved[2 * N];
static unsigned n_moved;
static double first_end;

static void transport_open(int peer_fd)
{
    char theirs[ADDRESS_MOST], mine = 0;

    swap_addresses(peer_fd, &mine, sizeof mine, theirs);
}

static void transport_exchange(const char *out, char *in, size_t bytes)
{
    memcpy(in, out, bytes);
    if (n_moved < 2 * N)
        moved[n_moved] = bytes;
    if (n_moved++)
        return;
    usleep(LATE_US);
    first_end = seconds();
}

static void transport_close(void)
{
}

/* How often this thread has slept. */
static long slept(void)
{
    struct rusage u;

    if (getrusage(RUSAGE_THREAD, &u))
        bail("no usage");
    return u.ru_nvcsw;
}

/* The other rank: late to meet, and then as fast as can be. */
static void peer(int fd)
{
    char byte = 0;
    double none = 0;

    for (int i = 0; i < 2; i++) {
        usleep(LATE_US);
        say(fd, &byte, 1);
        hear(fd, &byte, 1);
    }
    say(fd, &none, sizeof none);
    _exit(0);
}

int main(void)
{
    static char out[BYTES], in[BYTES];
    struct side s = {.bytes = BYTES, .out = out, .in = in};
    int fds[2], status = 1;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
        bail("no sockets");
    pid_t child = fork();
    if (child < 0)
        bail("no process");
    close(fds[child != 0]);
    if (!child)
        peer(fds[1]);
    s.fd = fds[0];

    long before = slept();
    meet(s.fd);
    is_int(slept() - before, 0, "who waits for the other rank stays awake");

    double taken = side_sample(&s, N), since = seconds() - first_end;
    ok(n_moved == N + 1 && moved[0] == 1 && moved[1] == BYTES && moved[N] == BYTES,
       "the exchanges follow one of a byte");
    ok(taken > 0 && taken <= since, "whose time is none of theirs");

    ok(waitpid(child, &status, 0) == child && !status, "the other rank has ended");
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) || shutdown(fds[1], SHUT_WR))
        bail("no sockets");
    child = fork();
    if (!child) {
        meet(fds[0]);
        _exit(0);
    }
    ok(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 1,
       "and nobody waits for it any more");
    done();
}
