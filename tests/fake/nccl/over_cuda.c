/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts, streams and memory of the driver without a GPU, so that the plugins cuda and nccl go
 * together: a collective is a piece of work of a stream, as a kernel is, and holds it until it has
 * run. The rank of a GPU is its number: ranks are threads.
 */
#include <pthread.h>

#include "../cuda_driver.h"
#include "inside.h"

#define GPUS 16

static struct CUctx_st gpus[GPUS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void number_them(void)
{
    for (int i = 0; i < GPUS; i++)
        gpus[i].rank = gpus[i].number = i;
}

void fake_use(const struct zero_device_ops *ops, struct zero_device *dev, int rank)
{
    (void)ops, (void)dev, (void)rank;
}

struct CUctx_st *fake_current(void)
{
    int device;

    if (cuCtxGetDevice(&device) || device < 0 || device >= GPUS)
        return NULL;
    pthread_once(&once, number_them);
    return &gpus[device];
}

struct CUctx_st *fake_here(void)
{
    return fake_current();
}

static void hold(void *arg, int gpu)
{
    struct fake_op *op = arg;
    const uint64_t number = op->number; /* its place is another's when it has run */
    nccl_comm c = op->comm;

    (void)gpu;
    fake_arrive(op);
    pthread_mutex_lock(&c->lock);
    while (c->done < number)
        pthread_cond_wait(&c->moved, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

int fake_put(nccl_comm c, struct fake_op *op)
{
    cuda_context mine;
    int err = cuDevicePrimaryCtxRetain(&mine, c->device->number);

    if (err)
        return err;
    err = cuCtxPushCurrent_v2(mine); /* the launching thread has none */
    if (!err) {
        err = fake_cuda_enqueue((struct cuda_stream *)op->stream, hold, op);
        cuCtxPopCurrent_v2(&mine);
    }
    cuDevicePrimaryCtxRelease_v2(c->device->number);
    return err;
}

void *fake_reach(nccl_comm c, const void *p, size_t bytes)
{
    return fake_cuda_reach_all(c->device->number, p, bytes);
}
