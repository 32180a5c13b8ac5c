/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the device and of the host: a list of blocks, in which release() finds what it frees.
 */
#include "cuda.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void *address_of(const struct cuda_block *b)
{
    return (void *)(uintptr_t)b->base;
}

struct cuda_block *zero__cuda_block_find(struct zero_device *dev, const void *base)
{
    struct cuda_block *b;

    pthread_mutex_lock(&dev->lock);
    for (b = dev->blocks; b && address_of(b) != base; b = b->next)
        ;
    pthread_mutex_unlock(&dev->lock);
    return b;
}

int zero__cuda_block_new(struct zero_device *dev, enum cuda_block_kind kind, uint64_t bytes,
                         struct cuda_block **out)
{
    struct cuda_block *b = calloc(1, sizeof *b);
    int err;

    if (!b)
        return zero__say(&dev->voice, -ENOMEM, "no memory to note %llu bytes",
                         (unsigned long long)bytes);
    err = zero__cuda_enter(dev);
    if (err) {
        free(b);
        return err;
    }
    b->kind = kind;
    b->bytes = bytes;
    *out = b;
    return 0;
}

void zero__cuda_block_add(struct zero_device *dev, struct cuda_block *b)
{
    pthread_mutex_lock(&dev->lock);
    b->next = dev->blocks;
    dev->blocks = b;
    pthread_mutex_unlock(&dev->lock);
}

/* Takes the block of one of `kinds` (a bit each) out of the list, or says that there is none. */
static int block_take(struct zero_device *dev, const void *base, uint32_t kinds,
                      struct cuda_block **out)
{
    struct cuda_block **at = &dev->blocks, *b;

    pthread_mutex_lock(&dev->lock);
    while (*at && (address_of(*at) != base || !(kinds & 1u << (*at)->kind)))
        at = &(*at)->next;
    b = *at;
    if (b)
        *at = b->next;
    pthread_mutex_unlock(&dev->lock);
    if (!b)
        return zero__say(&dev->voice, -EINVAL, "%p is not the beginning of memory of this device",
                         base);
    *out = b;
    return 0;
}

/* Gives back what it stands for, and itself; the context is current. Returns the first result. */
static int block_free(struct zero_device *dev, struct cuda_block *b)
{
    const struct cuda_driver *d = &dev->driver;
    int result = 0;

    switch (b->kind) {
    case CUDA_BLOCK_VIRTUAL:
    case CUDA_BLOCK_MAPPED:
        result = zero__cuda_range_close(dev, b);
        break;
    case CUDA_BLOCK_PLAIN:
        result = d->memory_free(b->base);
        break;
    case CUDA_BLOCK_PINNED:
        result = d->host_free(address_of(b));
        break;
    case CUDA_BLOCK_PIN:
        result = d->host_unregister(address_of(b));
        break;
    case CUDA_BLOCK_IPC:
        result = d->ipc_close(b->base);
        break;
    }
    free(b);
    return result;
}

void zero__cuda_memory_end(struct zero_device *dev)
{
    while (dev->blocks) {
        struct cuda_block *b = dev->blocks;
        dev->blocks = b->next;
        block_free(dev, b);
    }
}

static int no_room(struct zero_device *dev, int result, uint64_t bytes)
{
    size_t left = 0, total = 0;

    if (result != CUDA_OUT_OF_MEMORY)
        return zero__cuda_check(dev, result, "memory of %llu bytes", (unsigned long long)bytes);
    dev->driver.memory_info(&left, &total);
    return zero__say(
        &dev->voice, -ENOMEM,
        "no memory for %llu bytes on GPU %d (%s): %zu of %zu are free (nvidia-smi shows "
        "who has the rest); use fewer ranks on this GPU, a higher ZERO_STAGE, "
        "or less of it (ZERO_OFFLOAD)",
        (unsigned long long)bytes, dev->index, dev->name, left, total);
}

static int zeros_write(struct zero_device *dev, cuda_address at, uint64_t bytes)
{
    int err = zero__cuda_check(dev, dev->driver.memory_set(at, 0, bytes, dev->own),
                               "zeroing %llu bytes", (unsigned long long)bytes);

    return err ? err : zero__cuda_drain(dev, dev->own, dev->timeout_ns, "zeroing memory");
}

/* Of the device; what it cannot have is given back by block_free(). */
static int device_alloc(struct zero_device *dev, struct cuda_block *b)
{
    int result;

    if (b->kind == CUDA_BLOCK_VIRTUAL) {
        result = zero__cuda_range_open(dev, b, b->bytes);
        if (!result)
            result = zero__cuda_range_extend(dev, b, b->bytes);
        if (result)
            zero__cuda_range_close(dev, b);
    } else {
        result = dev->driver.memory_alloc(&b->base, b->bytes);
    }
    return result ? no_room(dev, result, b->bytes) : 0;
}

static int pinned_alloc(struct zero_device *dev, struct cuda_block *b)
{
    void *base = NULL;
    int result = dev->driver.host_alloc(&base, b->bytes, CUDA_HOST_PORTABLE | CUDA_HOST_DEVICE_MAP);

    if (result == CUDA_OUT_OF_MEMORY)
        return zero__say(
            &dev->voice, -ENOMEM,
            "no pinned memory for %llu bytes: the machine has no more, or the limit of "
            "locked memory is lower (ulimit -l)",
            (unsigned long long)b->bytes);
    if (result)
        return zero__cuda_check(dev, result, "pinned memory of %llu bytes",
                                (unsigned long long)b->bytes);
    b->base = (uintptr_t)base;
    memset(base, 0, b->bytes);
    return 0;
}

int zero__cuda_alloc(struct zero_device *dev, uint64_t bytes, uint32_t mem, void **base)
{
    enum cuda_block_kind kind = mem == ZERO_MEM_PINNED ? CUDA_BLOCK_PINNED
                                : dev->has_virtual     ? CUDA_BLOCK_VIRTUAL
                                                       : CUDA_BLOCK_PLAIN;
    struct cuda_block *b = NULL;
    int err;

    if (mem != ZERO_MEM_CUDA && mem != ZERO_MEM_PINNED)
        return zero__say(&dev->voice, -ENOTSUP,
                         "memory of kind %u: there is that of the device (%u) and pinned one (%u)",
                         mem, ZERO_MEM_CUDA, ZERO_MEM_PINNED);
    err = zero__cuda_block_new(dev, kind, bytes ? bytes : 1, &b);
    if (err)
        return err;
    err = mem == ZERO_MEM_CUDA ? device_alloc(dev, b) : pinned_alloc(dev, b);
    if (err) {
        free(b);
        goto leave;
    }
    zero__cuda_block_add(dev, b); /* the device may be at it: after an error it stays until close */
    if (mem == ZERO_MEM_CUDA)
        err = zeros_write(dev, b->base, b->bytes);
    if (!err)
        *base = address_of(b);
leave:
    zero__cuda_leave(dev);
    return err;
}

int zero__cuda_give(struct zero_device *dev, const void *base, uint32_t kinds, const char *what)
{
    struct cuda_block *b = NULL;
    int err = zero__cuda_enter_to_end(dev);
    bool drains;

    if (err)
        return err;
    drains = !atomic_load(&dev->is_broken) && kinds & ~CUDA_BLOCKS_OF_OTHERS;
    if (drains && kinds & 1u << CUDA_BLOCK_VIRTUAL)
        err = zero__cuda_streams_drain(dev, what); /* unmapping waits for nothing */
    else if (drains) /* that stream zeroes memory */
        err = zero__cuda_drain(dev, dev->own, dev->timeout_ns, what);
    if (!err)
        err = block_take(dev, base, kinds, &b);
    if (!err)
        err = zero__cuda_check(dev, block_free(dev, b), "%s", what);
    zero__cuda_leave(dev);
    return err;
}

int zero__cuda_release(struct zero_device *dev, void *base, uint64_t bytes, uint32_t mem)
{
    uint32_t kinds = mem == ZERO_MEM_PINNED ? 1u << CUDA_BLOCK_PINNED
                                            : 1u << CUDA_BLOCK_VIRTUAL | 1u << CUDA_BLOCK_PLAIN;

    (void)bytes;
    return zero__cuda_give(dev, base, kinds, "releasing memory");
}

/* The context is current. */
static int grow(struct zero_device *dev, struct cuda_block *b, uint64_t bytes, uint64_t more)
{
    uint64_t missing = bytes + more > b->mapped ? bytes + more - b->mapped : 0;
    int result, err;

    if (b->reserved - bytes < more || b->n_chunks == CUDA_CHUNKS)
        return zero__say(&dev->voice, -ENOSPC,
                         "%llu bytes cannot become %llu longer where they are: %llu bytes of "
                         "addresses are theirs, and they have grown %u of %d times",
                         (unsigned long long)bytes, (unsigned long long)more,
                         (unsigned long long)b->reserved, b->n_chunks - 1, CUDA_CHUNKS - 1);
    result = missing ? zero__cuda_range_extend(dev, b, missing) : 0;
    if (result)
        return no_room(dev, result, more);
    err = zeros_write(dev, b->base + bytes, more);
    if (!err)
        b->bytes = bytes + more; /* else the chunk stays for the next time */
    return err;
}

int zero__cuda_grow(struct zero_device *dev, void *base, uint64_t bytes, uint64_t more)
{
    int err = zero__cuda_enter(dev);

    if (err)
        return err;
    struct cuda_block *b = zero__cuda_block_find(dev, base);
    if (!b || b->bytes != (bytes ? bytes : 1) ||
        (b->kind != CUDA_BLOCK_VIRTUAL && b->kind != CUDA_BLOCK_PLAIN))
        err =
            zero__say(&dev->voice, -EINVAL, "no memory of this device is at %p and %llu bytes long",
                      base, (unsigned long long)bytes);
    else if (b->kind == CUDA_BLOCK_PLAIN)
        err = zero__say(&dev->voice, -ENOTSUP,
                        "memory does not grow on GPU %d: it has no virtual memory management",
                        dev->index);
    else
        err = grow(dev, b, b->bytes, more);
    zero__cuda_leave(dev);
    return err;
}

int zero__cuda_pin(struct zero_device *dev, void *base, uint64_t bytes)
{
    struct cuda_block *b = NULL;
    int err = zero__cuda_block_new(dev, CUDA_BLOCK_PIN, bytes, &b), result;

    if (err)
        return err;
    b->base = (uintptr_t)base;
    result = dev->driver.host_register(base, bytes, CUDA_HOST_PORTABLE | CUDA_HOST_DEVICE_MAP);
    if (result == CUDA_OUT_OF_MEMORY)
        err = zero__say(&dev->voice, -ENOMEM,
                        "%llu bytes cannot be pinned: the limit of locked memory may be lower "
                        "(ulimit -l)",
                        (unsigned long long)bytes);
    else
        err = zero__cuda_check(dev, result, "pinning %llu bytes", (unsigned long long)bytes);
    if (err)
        free(b);
    else
        zero__cuda_block_add(dev, b);
    zero__cuda_leave(dev);
    return err;
}

int zero__cuda_unpin(struct zero_device *dev, void *base, uint64_t bytes)
{
    (void)bytes;
    return zero__cuda_give(dev, base, 1u << CUDA_BLOCK_PIN, "unpinning memory");
}
