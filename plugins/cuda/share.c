/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a device in several processes: by a descriptor where addresses are managed, else by an
 * IPC handle of the driver.
 */
#include "cuda.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BY_DESCRIPTOR = 1, BY_IPC = 2 };

static int by_descriptor(struct zero_device *dev, const struct cuda_block *b,
                         struct zero_device_share *share)
{
    int fd = -1, err;

    if (b->n_chunks != 1 || !dev->shares)
        return zero__say(&dev->voice, -ENOTSUP, "memory of GPU %d cannot be shared: %s", dev->index,
                         dev->shares ? "it has grown, and lies in several pieces"
                                     : "its driver gives no descriptors of it");
    err = zero__cuda_check(
        dev, dev->driver.chunk_export(&fd, b->chunks[0].handle, CUDA_SHARE_DESCRIPTOR, 0),
        "sharing %llu bytes", (unsigned long long)b->bytes);
    if (!err)
        *share = (struct zero_device_share){
            .size = share->size, .how = BY_DESCRIPTOR, .fd = fd, .bytes = b->chunks[0].bytes};
    return err;
}

static int by_ipc(struct zero_device *dev, const struct cuda_block *b,
                  struct zero_device_share *share)
{
    struct cuda_ipc ipc;
    int err = zero__cuda_check(dev, dev->driver.ipc_get(&ipc, b->base), "sharing %llu bytes",
                               (unsigned long long)b->bytes);

    if (err)
        return err;
    *share =
        (struct zero_device_share){.size = share->size, .how = BY_IPC, .fd = -1, .bytes = b->bytes};
    memcpy(share->handle, ipc.bytes, sizeof ipc.bytes);
    return 0;
}

int zero__cuda_share(struct zero_device *dev, const void *base, struct zero_device_share *share)
{
    struct cuda_block *b;
    int err = zero__cuda_enter(dev);

    if (err)
        return err;
    b = zero__cuda_block_find(dev, base);
    if (b && b->kind == CUDA_BLOCK_VIRTUAL)
        err = by_descriptor(dev, b, share);
    else if (b && b->kind == CUDA_BLOCK_PLAIN)
        err = by_ipc(dev, b, share);
    else
        err = zero__say(&dev->voice, -EINVAL, "%p is not the beginning of memory of this device",
                        base);
    zero__cuda_leave(dev);
    return err;
}

static int map(struct zero_device *dev, const struct zero_device_share *share, struct cuda_block *b)
{
    cuda_handle handle;
    int result;

    result = dev->driver.chunk_import(&handle, (void *)(intptr_t)share->fd, CUDA_SHARE_DESCRIPTOR);
    if (result)
        return result;
    b->reserved = share->bytes;
    result = dev->driver.range_reserve(&b->base, b->reserved, dev->granularity, 0, 0);
    if (result) {
        b->reserved = 0;
        dev->driver.chunk_release(handle);
        return result;
    }
    result = zero__cuda_range_map(dev, b, handle, share->bytes);
    if (result) {
        zero__cuda_range_close(dev, b);
        dev->driver.chunk_release(handle);
    }
    return result;
}

static int open_ipc(struct zero_device *dev, const struct zero_device_share *share,
                    struct cuda_block *b)
{
    struct cuda_ipc ipc;

    memcpy(ipc.bytes, share->handle, sizeof ipc.bytes);
    return dev->driver.ipc_open(&b->base, ipc, CUDA_IPC_PEER_ACCESS);
}

int zero__cuda_attach(struct zero_device *dev, const struct zero_device_share *share, void **base)
{
    struct cuda_block *b;
    int err;

    if (share->how != BY_DESCRIPTOR && share->how != BY_IPC)
        return zero__say(&dev->voice, -EINVAL, "memory shared in way %u, which is unknown",
                         share->how);
    err = zero__cuda_block_new(
        dev, share->how == BY_DESCRIPTOR ? CUDA_BLOCK_MAPPED : CUDA_BLOCK_IPC, share->bytes, &b);
    if (err)
        return err;
    err = zero__cuda_check(
        dev, share->how == BY_DESCRIPTOR ? map(dev, share, b) : open_ipc(dev, share, b),
        "attaching %llu bytes of another process", (unsigned long long)share->bytes);
    if (err) {
        free(b);
    } else {
        *base = (void *)(uintptr_t)b->base;
        zero__cuda_block_add(dev, b);
    }
    zero__cuda_leave(dev);
    return err;
}

int zero__cuda_detach(struct zero_device *dev, void *base)
{
    return zero__cuda_give(dev, base, CUDA_BLOCKS_OF_OTHERS, "detaching memory");
}
