/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What processes reach with nothing but memory that all of them map: a flag each, and some memory.
 * It is the limit of messages so small that telling the others costs more than moving them. The
 * launcher creates a board, ranks inherit its descriptor. Functions return 0 or a negative errno
 * with a sentence.
 */
#ifndef ZERO_TOOLS_BENCH_MEASURE_BOARD_H
#define ZERO_TOOLS_BENCH_MEASURE_BOARD_H

#include <stdbool.h>
#include <stdint.h>

#include "loops.h"

struct bench_board;

/* A board for so many ranks with `each` bytes of memory. */
int bench_board_create(int ranks, uint64_t each, int *fd);
/* `crowded`: there are more ranks than cores, so who waits gives up its core at once. */
int bench_board_open(int fd, int rank, int ranks, uint64_t each, bool crowded,
                     struct bench_board **out);
/*
 * Collective, before loops are timed: numbers in this rank's memory, as zeros move faster on some
 * machines, and all pages there, huge ones as plugins' shared memory has them.
 */
int bench_board_fill(struct bench_board *board, int fd, int64_t timeout_ns);
void bench_board_close(struct bench_board *board);

/* A rank's memory. */
char *bench_board_memory(const struct bench_board *board, int rank);
/* Raises this rank's flag and waits until all have raised theirs as often. */
int bench_board_meet(struct bench_board *board, int64_t timeout_ns);
/*
 * There and back once between two ranks: a flag says that a message lies at `off` in the memory of
 * the one, the other one copies it to `into`, and answers in the same way.
 */
int bench_board_ping(struct bench_board *board, char *into, uint64_t off, uint64_t bytes,
                     enum bench_way way, int64_t timeout_ns);

#endif
