/* SPDX-License-Identifier: Apache-2.0 */
/* Flags and memory that ranks share; see board.h. */
#include "config.h"

#include "board.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/status.h"
#include "loops.h"
#include "machine/clock.h"
#include "machine/pages.h"
#include "plugins/common/memory.h"

#define SPINS 2000u /* before another rank may need this core */

/* How often a rank has raised its flag; in a cache line, and its neighbour, of its own. */
struct side {
    _Alignas(128) _Atomic uint64_t raised;
};

struct bench_board {
    struct side *sides;
    char *memory;
    uint64_t bytes, each; /* of all, of a rank's memory */
    int rank, ranks;
    unsigned spins;
};

/* The flags and each rank's memory begin at pages, at huge ones where those could be filled. */
static uint64_t rounded(uint64_t bytes, uint64_t each)
{
    uint64_t page = each < ZERO__HUGE_BYTES ? 4096 : ZERO__HUGE_BYTES;

    return (bytes + page - 1) / page * page;
}

static uint64_t head_bytes(int ranks, uint64_t each)
{
    return rounded((uint64_t)ranks * sizeof(struct side), each);
}

static uint64_t board_bytes(int ranks, uint64_t each)
{
    return head_bytes(ranks, each) + (uint64_t)ranks * rounded(each, each);
}

int bench_board_create(int ranks, uint64_t each, int *out)
{
    uint64_t bytes = board_bytes(ranks, each);
    int fd = memfd_create("zero-bench", 0); /* without CLOEXEC: the ranks get it */

    if (fd < 0 || ftruncate(fd, (off_t)bytes)) {
        int err = zero__fail(-errno, "no shared memory of %llu bytes: %s",
                             (unsigned long long)bytes, strerror(errno));
        if (fd >= 0)
            close(fd);
        return err;
    }
    *out = fd;
    return 0;
}

int bench_board_open(int fd, int rank, int ranks, uint64_t each, bool crowded,
                     struct bench_board **out)
{
    uint64_t bytes = board_bytes(ranks, each);
    struct bench_board *b = calloc(1, sizeof *b);

    if (!b)
        return zero__fail(-ENOMEM, "no memory for a board");
    void *p = zero__memory_map(bytes, PROT_READ | PROT_WRITE, fd);
    if (p == MAP_FAILED) {
        int err = zero__fail(-errno, "cannot map %llu bytes of shared memory: %s",
                             (unsigned long long)bytes, strerror(errno));
        free(b);
        return err;
    }
    *b = (struct bench_board){.sides = p,
                              .memory = (char *)p + head_bytes(ranks, each),
                              .bytes = bytes,
                              .each = rounded(each, each),
                              .rank = rank,
                              .ranks = ranks,
                              .spins = crowded ? 1 : SPINS};
    *out = b;
    return 0;
}

/* Pages lie near to whoever touches them first, so nobody looks at another's before all have. */
int bench_board_fill(struct bench_board *b, int fd, int64_t timeout_ns)
{
    char *own = bench_board_memory(b, b->rank), *base = (char *)b->sides;
    int err = b->each ? zero__memory_fill(own, b->each, fd, (uint64_t)(own - base)) : 0;

    if (err)
        return zero__fail(err, "no memory for %llu bytes that ranks share: lower --bytes",
                          (unsigned long long)b->bytes);
    bench_fill(own, b->each);
    err = bench_board_meet(b, timeout_ns);
    for (uint64_t i = 0; i < b->bytes && !err; i += 4096)
        (void)*(volatile char *)(base + i);
    return err;
}

void bench_board_close(struct bench_board *board)
{
    if (board)
        munmap(board->sides, board->bytes);
    free(board);
}

char *bench_board_memory(const struct bench_board *board, int rank)
{
    return board->memory + (uint64_t)rank * board->each;
}

/* Until a rank has raised its flag `turn` times. */
static int await(struct bench_board *board, int rank, uint64_t turn, int64_t timeout_ns)
{
    _Atomic uint64_t *raised = &board->sides[rank].raised;
    int64_t deadline = 0;

    for (unsigned i = 1; atomic_load_explicit(raised, memory_order_acquire) < turn; i++) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
        if (i % board->spins)
            continue;
        if (!deadline)
            deadline = zero__deadline_ns(timeout_ns);
        if (zero__now_ns() >= deadline)
            return zero__fail(-ETIMEDOUT,
                              "rank %d did not answer within %g s (ZERO_TIMEOUT): look at its "
                              "output; who is only slow needs a larger ZERO_TIMEOUT",
                              rank, (double)timeout_ns / 1e9);
        sched_yield();
    }
    return 0;
}

static uint64_t next_turn(struct bench_board *board)
{
    return atomic_load_explicit(&board->sides[board->rank].raised, memory_order_relaxed) + 1;
}

static void raise_flag(struct bench_board *board, uint64_t turn)
{
    atomic_store_explicit(&board->sides[board->rank].raised, turn, memory_order_release);
}

int bench_board_meet(struct bench_board *board, int64_t timeout_ns)
{
    uint64_t turn = next_turn(board);
    int err = 0;

    raise_flag(board, turn);
    for (int i = 1; !err && i < board->ranks; i++)
        err = await(board, (board->rank + i) % board->ranks, turn, timeout_ns);
    return err;
}

int bench_board_ping(struct bench_board *board, char *into, uint64_t off, uint64_t bytes,
                     enum bench_way way, int64_t timeout_ns)
{
    uint64_t turn = next_turn(board);

    if (board->rank == 0)
        raise_flag(board, turn);
    int err = await(board, !board->rank, turn, timeout_ns);
    if (err)
        return err;
    bench_loop_copy(into, bench_board_memory(board, !board->rank) + off, bytes, way);
    if (board->rank == 1)
        raise_flag(board, turn);
    return 0;
}
