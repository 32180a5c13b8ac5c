/* SPDX-License-Identifier: Apache-2.0 */
/* A communicator from within. */
#ifndef ZERO_TESTS_FAKE_INSIDE_H
#define ZERO_TESTS_FAKE_INSIDE_H

#include <pthread.h>

#include "segment.h"

#define NAME_BYTES 96

struct ncclComm {
    nccl_comm next, alive; /* of the dead; of those that are not */
    atomic_bool dead;
    struct fake_thread *job; /* of which a call goes on */
    struct CUctx_st *device;
    char name[NAME_BYTES];
    int rank, ranks;
    struct fake_segment *seg;
    uint64_t turn;
    unsigned n_splits, random;
    pthread_t launcher, kernel;
    bool launcher_runs, kernel_runs;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    atomic_int state, ending;
    int held;
    bool finalizing, late; /* late: the launcher launches what is queued */
    struct {
        bool wanted;
        int color, key;
        nccl_comm *out; /* NULL: none is wanted any more */
    } split;
    struct fake_op *ops;
    uint64_t queued, launched, run; /* of ops */
    _Alignas(8) uint64_t done;      /* streams wait for it */
    struct {
        bool used;
        double x;
    } factors[FAKE_FACTORS];
};

void fake_nap(unsigned us);
/* All ranks come here; false: this rank has given up, or while communicators are made, another. */
bool fake_meet(nccl_comm c, bool making);
/* The stream of an op, a struct fake_op, is there. */
void fake_arrive(void *op);
/* Puts it on its stream, which goes on when so many of the communicator's have run. Of contexts. */
int fake_put(nccl_comm c, struct fake_op *op);
/* Where the host finds bytes of the device; NULL: they are not there. Of contexts. */
void *fake_reach(nccl_comm c, const void *p, size_t bytes);
/* The thread that is its kernels. */
void *fake_kernel_main(void *comm);

#endif
