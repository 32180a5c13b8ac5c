/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the device in a range of addresses that is reserved once, as long as the device has
 * memory: it grows where it is, by chunks of physical memory that are mapped behind those before.
 * What is asked for at once is one chunk, since other libraries register and share single chunks.
 */
#include "cuda.h"

static uint64_t whole(const struct zero_device *dev, uint64_t bytes)
{
    uint64_t g = dev->granularity;

    return bytes / g * g + (bytes % g ? g : 0);
}

int zero__cuda_range_open(struct zero_device *dev, struct cuda_block *b, uint64_t bytes)
{
    uint64_t most = whole(dev, dev->total), least = whole(dev, bytes);

    b->reserved = most > least ? most : least;
    int result = dev->driver.range_reserve(&b->base, b->reserved, dev->granularity, 0, 0);
    if (result && b->reserved > least) { /* addresses are short: it will not grow */
        b->reserved = least;
        result = dev->driver.range_reserve(&b->base, b->reserved, dev->granularity, 0, 0);
    }
    if (result)
        b->reserved = 0;
    return result;
}

struct cuda_properties zero__cuda_chunk_properties(const struct zero_device *dev)
{
    return (struct cuda_properties){.type = CUDA_ALLOCATION_PINNED,
                                    .share = dev->shares ? CUDA_SHARE_DESCRIPTOR : 0,
                                    .location = {CUDA_LOCATION_DEVICE, dev->device},
                                    .rdma = dev->has_rdma};
}

static int chunk_create(struct zero_device *dev, uint64_t bytes, cuda_handle *handle)
{
    struct cuda_properties p = zero__cuda_chunk_properties(dev);
    int result = dev->driver.chunk_create(handle, bytes, &p, 0);

    if (result && result != CUDA_OUT_OF_MEMORY && (p.share || p.rdma)) {
        /* Said to be possible, and forbidden: in some containers. */
        dev->shares = dev->has_rdma = false;
        p = zero__cuda_chunk_properties(dev);
        result = dev->driver.chunk_create(handle, bytes, &p, 0);
    }
    return result;
}

int zero__cuda_range_map(struct zero_device *dev, struct cuda_block *b, cuda_handle handle,
                         uint64_t bytes)
{
    const struct cuda_access access = {{CUDA_LOCATION_DEVICE, dev->device}, CUDA_ACCESS_READ_WRITE};
    cuda_address at = b->base + b->mapped;
    int result = dev->driver.chunk_map(at, bytes, 0, handle, 0);

    if (result)
        return result;
    result = dev->driver.chunk_access(at, bytes, &access, 1);
    if (result) {
        dev->driver.chunk_unmap(at, bytes);
        return result;
    }
    b->chunks[b->n_chunks].handle = handle;
    b->chunks[b->n_chunks++].bytes = bytes;
    b->mapped += bytes;
    return 0;
}

int zero__cuda_range_extend(struct zero_device *dev, struct cuda_block *b, uint64_t bytes)
{
    uint64_t more = whole(dev, bytes);
    cuda_handle handle;
    int result = chunk_create(dev, more, &handle);

    if (result)
        return result;
    result = zero__cuda_range_map(dev, b, handle, more);
    if (result)
        dev->driver.chunk_release(handle);
    return result;
}

int zero__cuda_range_close(struct zero_device *dev, struct cuda_block *b)
{
    int first = 0, result;

    while (b->n_chunks) {
        uint64_t bytes = b->chunks[--b->n_chunks].bytes;
        b->mapped -= bytes;
        result = dev->driver.chunk_unmap(b->base + b->mapped, bytes);
        first = first ? first : result;
        result = dev->driver.chunk_release(b->chunks[b->n_chunks].handle);
        first = first ? first : result;
    }
    result = b->reserved ? dev->driver.range_free(b->base, b->reserved) : 0;
    return first ? first : result;
}
