/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What two processes reach with nothing but memory that both map: a flag says that a message lies
 * there, the other one copies it into memory of its own and answers in the same way.
 */
#include "config.h"

#include "bench_coll.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "bench_loops.h"

#define SPINS 2000u /* before the other one may need this core */

struct p2p_board {
    struct {
        _Alignas(128) _Atomic uint64_t sent; /* messages that have lain in this rank's memory */
    } side[2];
    uint64_t bytes, half; /* of all, of a rank's memory */
    _Alignas(4096) char memory[];
};

static uint64_t board_bytes(uint64_t half)
{
    return sizeof(struct p2p_board) + 2 * half;
}

int p2p_board_create(uint64_t half, int *out)
{
    int fd = memfd_create("zero-bench", 0); /* without CLOEXEC: the ranks get it */

    if (fd < 0 || ftruncate(fd, (off_t)board_bytes(half)))
        return zero__fail(-errno, "no shared memory of %llu bytes: %s",
                          (unsigned long long)board_bytes(half), strerror(errno));
    *out = fd;
    return 0;
}

int p2p_board_map(int fd, uint64_t half, struct p2p_board **out)
{
    uint64_t bytes = board_bytes(half);
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);

    if (p == MAP_FAILED)
        return zero__fail(-errno, "cannot map %llu bytes of shared memory: %s",
                          (unsigned long long)bytes, strerror(errno));
    *out = p;
    (*out)->bytes = bytes; /* the same from both ranks */
    (*out)->half = half;
    return 0;
}

void p2p_board_unmap(struct p2p_board *board)
{
    if (board)
        munmap(board, board->bytes);
}

/* Until *counter is not below `value`. */
static int await(_Atomic uint64_t *counter, uint64_t value, int64_t timeout_ns)
{
    int64_t deadline = 0;

    for (unsigned i = 1; atomic_load_explicit(counter, memory_order_acquire) < value; i++) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
        if (i % SPINS)
            continue;
        if (!deadline)
            deadline = zero__deadline_ns(timeout_ns);
        if (zero__now_ns() >= deadline)
            return zero__fail(-ETIMEDOUT,
                              "the other rank did not answer within %g s (ZERO_TIMEOUT)",
                              (double)timeout_ns / 1e9);
        sched_yield();
    }
    return 0;
}

int p2p_board_run(struct p2p_board *board, int rank, char *into, uint64_t bytes, bool stream,
                  int64_t timeout_ns)
{
    _Atomic uint64_t *mine = &board->side[rank].sent, *theirs = &board->side[!rank].sent;
    uint64_t turn = atomic_load_explicit(mine, memory_order_relaxed) + 1;

    if (rank == 0)
        atomic_store_explicit(mine, turn, memory_order_release);
    int err = await(theirs, turn, timeout_ns);
    if (err)
        return err;
    bench_loop_copy(into, board->memory + (rank == 0 ? board->half : 0), bytes, stream);
    if (rank == 1)
        atomic_store_explicit(mine, turn, memory_order_release);
    return 0;
}
