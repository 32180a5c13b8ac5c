/* SPDX-License-Identifier: Apache-2.0 */
/* The limit of messages: every slot of a rank's memory is sent from, and all wait for all. */
#include "tools/bench/measure/board.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "../tap.h"

#define RANKS 3
#define EACH 8192u
#define PATIENCE_NS INT64_C(20000000000)

static int board_fd;
static _Atomic int came, early, bad;

static void *ping(void *arg)
{
    int rank = (int)(intptr_t)arg, err = 0;
    struct bench_board *b;
    _Alignas(64) char into[4096];

    if (bench_board_open(board_fd, rank, 2, EACH, true, &b))
        return (void *)1;
    memset(bench_board_memory(b, rank), 'a' + rank, 4096);
    memset(bench_board_memory(b, rank) + 4096, 'A' + rank, 4096);
    err = bench_board_meet(b, PATIENCE_NS);
    for (int way = 0; !err && way < 2 * N_BENCH_COPIES; way++) {
        bool second = way % 2;
        memset(into, 0, sizeof into);
        err = bench_board_ping(b, into, second ? 4096 : 0, 4096, (enum bench_way)(way / 2),
                               PATIENCE_NS);
        for (unsigned i = 0; i < sizeof into; i++)
            bad += into[i] != (second ? 'A' : 'a') + !rank;
    }
    bad += err != 0;
    bench_board_close(b);
    return NULL;
}

static void *meet(void *arg)
{
    int rank = (int)(intptr_t)arg;
    struct bench_board *b;

    if (bench_board_open(board_fd, rank, RANKS, 0, true, &b))
        return (void *)1;
    for (int i = 1; i <= 1000; i++) {
        came++;
        bad += bench_board_meet(b, PATIENCE_NS) != 0;
        early += came < i * RANKS;
    }
    bench_board_close(b);
    return NULL;
}

/* True when all ranks were there. */
static bool all(int n, uint64_t each, void *(*fn)(void *arg))
{
    pthread_t threads[RANKS];
    void *missing;
    bool there = !bench_board_create(n, each, &board_fd);

    for (int i = 0; there && i < n; i++)
        if (pthread_create(&threads[i], NULL, fn, (void *)(intptr_t)i))
            bail("no threads");
    for (int i = 0; there && i < n; i++) {
        pthread_join(threads[i], &missing);
        there &= !missing;
    }
    close(board_fd);
    return there;
}

int main(void)
{
    ok(all(2, EACH, ping), "two ranks have a board with memory");
    is_int(bad, 0, "each gets what lies in the slot of the other that is meant, in every way");
    ok(all(RANKS, 0, meet), "three have one without");
    is_int(bad + early, 0, "nobody goes on before all have come");
    done();
}
