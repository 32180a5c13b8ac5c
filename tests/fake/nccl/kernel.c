/* SPDX-License-Identifier: Apache-2.0 */
/* What runs on the streams of a communicator, one collective after the other. */
#include <string.h>
#include <time.h>

#include "inside.h"

void fake_nap(unsigned us)
{
    struct timespec t = {0, us * 1000L};
    nanosleep(&t, NULL);
}

/* ---- Meeting --------------------------------------------------------------------------------- */

bool fake_meet(nccl_comm c, bool making)
{
    atomic_store(&c->seg->turn[c->rank], ++c->turn);
    for (int p = 0; p < c->ranks; p++)
        while (atomic_load(&c->seg->turn[p]) < c->turn) {
            if (atomic_load(&c->ending))
                return false;
            if (making && atomic_load(&c->seg->gone)) {
                fake_comm_set(c, NCCL_REMOTE_ERROR);
                return false;
            }
            fake_nap(20);
        }
    return true;
}

/* ---- Kernels --------------------------------------------------------------------------------- */

/* From every rank's chunk of src to dst[p * stride], or their sum from the last rank to the first.
 */
static bool exchange(nccl_comm c, const struct fake_op *op, const char *src, size_t bytes,
                     char *dst, size_t stride, bool sums)
{
    size_t size = fake_type_bytes(op->type);

    if (src)
        fake_scale(op->type, c->seg->slot[c->rank], src, bytes / size, op->factor);
    if (!fake_meet(c, false))
        return false;
    for (int p = c->ranks - 1; p >= 0 && dst; p--)
        if (!sums || p == c->ranks - 1)
            memcpy(dst + (sums ? 0 : (size_t)p * stride), c->seg->slot[p], bytes);
        else
            fake_add(op->type, dst, c->seg->slot[p], bytes / size);
    return fake_meet(c, false);
}

static bool broadcast(nccl_comm c, const struct fake_op *op, size_t off, size_t bytes)
{
    bool root = c->rank == op->root;

    if (root)
        memcpy(c->seg->slot[c->rank], op->src + off, bytes);
    if (!fake_meet(c, false))
        return false;
    if (!root)
        memcpy(op->dst + off, c->seg->slot[op->root], bytes);
    return fake_meet(c, false);
}

/*
 * Elements that a sum with a factor reaches on one rank, before 2.29.7: a block for each 16 KiB, 32
 * at most, has as many as the division gives, in whole 16 bytes; what it leaves over has nobody.
 */
static size_t reached(const struct fake_op *op)
{
    const size_t size = fake_type_bytes(op->type), pack = 16 / size;
    size_t blocks = (op->count * size + 16383) / 16384;

    blocks = blocks < 32 ? blocks : 32;
    const size_t most = blocks ? blocks * ((op->count / blocks + pack - 1) / pack * pack) : 0;
    return most < op->count ? most : op->count;
}

/* Its memory, as the host finds it. */
static bool reach(nccl_comm c, struct fake_op *op)
{
    const size_t bytes = op->count * fake_type_bytes(op->type), all = bytes * (size_t)c->ranks;
    const bool reads = op->kind != FAKE_BROADCAST || c->rank == op->root;
    const bool writes = op->kind != FAKE_BROADCAST || c->rank != op->root;

    if (reads && bytes)
        op->src = fake_reach(c, op->src, op->kind == FAKE_SCATTER ? all : bytes);
    if (writes && bytes)
        op->dst = fake_reach(c, op->dst, op->kind == FAKE_GATHER ? all : bytes);
    return (!reads || !bytes || op->src) && (!writes || !bytes || op->dst);
}

static bool op_run(nccl_comm c, struct fake_op *op)
{
    const bool alone = c->ranks == 1 && op->factor != 1 && fake_nccl_version() < NCCL_WHOLE_ALONE;
    size_t all = (alone ? reached(op) : op->count) * fake_type_bytes(op->type), n;

    if (!reach(c, op))
        return false;
    for (size_t off = 0; off < all; off += n) {
        n = all - off < FAKE_CHUNK ? all - off : FAKE_CHUNK;
        bool good = true;
        if (op->kind == FAKE_GATHER)
            good = exchange(c, op, op->src + off, n, op->dst + off, all, false);
        else if (op->kind == FAKE_REDUCE)
            good = exchange(c, op, op->src + off, n, op->dst + off, 0, true);
        else if (op->kind == FAKE_BROADCAST)
            good = broadcast(c, op, off, n);
        for (int q = 0; q < c->ranks && op->kind == FAKE_SCATTER && good; q++)
            good = exchange(c, op, op->src + (size_t)q * all + off, n,
                            q == c->rank ? op->dst + off : NULL, 0, true);
        if (!good)
            return false;
    }
    return true;
}

void *fake_kernel_main(void *arg)
{
    nccl_comm c = arg;

    pthread_mutex_lock(&c->lock);
    for (;;) {
        struct fake_op *op = &c->ops[c->run % FAKE_OPS];
        bool ready = c->run != c->launched && atomic_load(&op->there);
        if (atomic_load(&c->ending))
            break;
        if (!ready) {
            pthread_cond_wait(&c->moved, &c->lock);
            continue;
        }
        pthread_mutex_unlock(&c->lock);
        bool good = op_run(c, op);
        pthread_mutex_lock(&c->lock);
        if (!good)
            break;
        c->run++;
        __atomic_store_n(&c->done, c->run, __ATOMIC_RELEASE);
        if (c->finalizing && c->run == c->queued)
            atomic_store(&c->state, NCCL_OK);
        pthread_cond_broadcast(&c->moved);
    }
    /* Whoever waits goes on, though nothing was done. */
    __atomic_store_n(&c->done, UINT64_MAX, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&c->moved);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}
