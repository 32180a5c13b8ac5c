/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device plugin `cuda`: zero/device.h over the CUDA driver, beside whatever CUDA runtime the
 * process has. What it adds to the header's contract:
 *
 * - It works in the primary context of its device, the one that a CUDA runtime uses too: streams
 * and memory of the application can be passed to it, and its own are valid there. Every entry makes
 *   that context current and gives back the caller's.
 * - A stream is a CUstream. Those of stream_create() do not wait for the default stream.
 * - notify is called from a thread of the driver, out of a stream of the plugin's own beside the
 *   stream of the event, which is not held up by it; of a stream of stream_create() for the events
 *   that event_query() has not found.
 * - copy() takes addresses of this device, of others, and of the host. Beside the host goes only a
 *   copy from or to memory that is pinned: of alloc(), or of pin().
 * - Events are the caller's to destroy, before close().
 * - A function given to call() must not call CUDA, or anything of the device.
 * - A stream that is full makes an entry wait for room in the driver, without a deadline: a caller
 *   with less than some hundred operations under way is never made to.
 * - An error that makes the context useless is told by the entry that sees it, and again by every
 *   later one: its sentence names the entry and the last kernel that was launched.
 * - release() of the device's memory and close() wait for its own streams, and, where notify is
 *   given, for the events that were recorded in others, at most the timeout each. Where they do not
 *   end, the memory of release() stays until close(), and what close() finds stays as it is until
 *   the process ends.
 * - A thread of the application that captures a graph does not disturb the entries of others; an
 *   entry must not stand within a capture of its own thread.
 */
#ifndef ZERO_PLUGINS_CUDA_H
#define ZERO_PLUGINS_CUDA_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <zero/device.h>

#include "driver.h"
#include "kernel/launch.h"

#define CUDA_NAME "cuda"
#define CUDA_CHUNKS 64 /* times that a piece of memory can grow */
#define CUDA_BELLS 64  /* streams with a bell of their own */

enum cuda_block_kind {
    CUDA_BLOCK_VIRTUAL, /* chunks mapped into a range of addresses */
    CUDA_BLOCK_PLAIN,   /* by cuMemAlloc */
    CUDA_BLOCK_PINNED,  /* host memory, allocated */
    CUDA_BLOCK_PIN,     /* host memory of somebody else, registered */
    CUDA_BLOCK_MAPPED,  /* another process's, by descriptor */
    CUDA_BLOCK_IPC,     /* another process's, by an IPC handle */
};
#define CUDA_BLOCKS_OF_OTHERS (1u << CUDA_BLOCK_MAPPED | 1u << CUDA_BLOCK_IPC)

/* A piece of memory that the device has made or taken. */
struct cuda_block {
    struct cuda_block *next;
    enum cuda_block_kind kind;
    cuda_address base;
    uint64_t bytes;            /* as asked for */
    uint64_t reserved, mapped; /* of its range */
    uint32_t n_chunks;
    struct {
        cuda_handle handle;
        uint64_t bytes;
    } chunks[CUDA_CHUNKS];
};

/* The stream that calls notify for events of another one, which is gone where `of` is NULL. */
struct cuda_bell {
    struct cuda_stream *of, *stream;
    bool own; /* `of` is the plugin's */
};

struct zero_device {
    struct zero__voice voice;
    struct cuda_driver driver;
    int index, device;
    struct cuda_context *context;
    struct cuda_module *module;
    struct cuda_function *functions[ZERO__CUDA_N_KERNELS];
    struct cuda_stream *own; /* for what the device does itself */
    char name[96];
    uint32_t multiprocessors;
    bool has_virtual;
    _Atomic bool shares, has_rdma; /* of new memory; until the driver forbids it */
    uint64_t granularity, total;
    int64_t timeout_ns;
    void (*notify)(void *arg);
    void *notify_arg;

    pthread_mutex_t notice; /* held by who calls notify */
    bool silent;            /* nobody is told any more */
    atomic_int n_ringing;   /* notices that the driver has still to call, and of these */
    atomic_int n_bare;      /* those of an application's streams without a bell */

    pthread_mutex_t lock; /* guards what follows */
    struct cuda_block *blocks;
    struct cuda_bell bells[CUDA_BELLS];
    uint32_t n_bells;
    int urgent; /* the priority of bells */
    char why[640]; /* how the context was lost; from is_broken on it stays */

    atomic_int is_broken;         /* the context is lost: the error, written under the lock */
    _Atomic uint32_t last_kernel; /* 1 + enum zero__cuda_kernel; 0: none yet */
    _Atomic uint64_t copied;
};

/* ---- plugin.c */

extern const struct zero_device_ops zero__cuda_ops;

/* ---- context.c */

/* Makes the context current on this thread, until zero__cuda_leave(). */
int zero__cuda_enter(struct zero_device *dev);
/* The same for what ends something: a context that is lost is entered, too. */
int zero__cuda_enter_to_end(struct zero_device *dev);
void zero__cuda_leave(struct zero_device *dev);

/*
 * 0 for CUDA_SUCCESS; else records that `what`, as printf makes it, has failed, and how. A result
 * that sticks is noted.
 */
int zero__cuda_check(struct zero_device *dev, int result, const char *what, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- device.c */

int zero__cuda_probe(const struct zero_host *host, struct zero_device_info *info);
int zero__cuda_open(const struct zero_device_open *params, struct zero_device **dev);
int zero__cuda_close(struct zero_device *dev);
int zero__cuda_info(struct zero_device *dev, struct zero_device_info *info);

/* ---- memory.c */

int zero__cuda_alloc(struct zero_device *dev, uint64_t bytes, uint32_t mem, void **base);
int zero__cuda_release(struct zero_device *dev, void *base, uint64_t bytes, uint32_t mem);
int zero__cuda_grow(struct zero_device *dev, void *base, uint64_t bytes, uint64_t more);
int zero__cuda_pin(struct zero_device *dev, void *base, uint64_t bytes);
int zero__cuda_unpin(struct zero_device *dev, void *base, uint64_t bytes);
/* What nobody has released; the context is current. */
void zero__cuda_memory_end(struct zero_device *dev);
/*
 * A block that is in no list yet. On success the context is current, as what it stands for is made
 * next: the caller leaves it, by zero__cuda_leave().
 */
int zero__cuda_block_new(struct zero_device *dev, enum cuda_block_kind kind, uint64_t bytes,
                         struct cuda_block **block);
void zero__cuda_block_add(struct zero_device *dev, struct cuda_block *block);
/* The block that begins at base, or NULL. Takes the lock. */
struct cuda_block *zero__cuda_block_find(struct zero_device *dev, const void *base);
/*
 * Gives back the block of one of `kinds` (a bit each) that begins at base, when work that may be at
 * it has ended; of memory of others the caller knows that. What cannot be given back now, is when
 * the device closes.
 */
int zero__cuda_give(struct zero_device *dev, const void *base, uint32_t kinds, const char *what);

/* ---- virtual.c: memory in ranges of addresses; the context is current. Results of the driver. */

/* What chunks are made with. */
struct cuda_properties zero__cuda_chunk_properties(const struct zero_device *dev);

int zero__cuda_range_open(struct zero_device *dev, struct cuda_block *block, uint64_t bytes);
int zero__cuda_range_extend(struct zero_device *dev, struct cuda_block *block, uint64_t bytes);
/* Maps a chunk that is somewhere already, and takes it over if that succeeds. */
int zero__cuda_range_map(struct zero_device *dev, struct cuda_block *block, cuda_handle handle,
                         uint64_t bytes);
int zero__cuda_range_close(struct zero_device *dev, struct cuda_block *block);

/* ---- share.c */

int zero__cuda_share(struct zero_device *dev, const void *base, struct zero_device_share *share);
int zero__cuda_attach(struct zero_device *dev, const struct zero_device_share *share, void **base);
int zero__cuda_detach(struct zero_device *dev, void *base);

/* ---- stream.c */

int zero__cuda_stream_create(struct zero_device *dev, const char *name, void **stream);
int zero__cuda_stream_destroy(struct zero_device *dev, void *stream);
int zero__cuda_stream_sync(struct zero_device *dev, void *stream, int64_t timeout_ns);
int zero__cuda_stream_wait(struct zero_device *dev, void *stream, void *event);
int zero__cuda_copy(struct zero_device *dev, void *dst, const void *src, uint64_t bytes,
                    void *stream);
int zero__cuda_call(struct zero_device *dev, void (*fn)(void *arg), void *arg, void *stream);
/* Waits, with the context current; `what` for the sentence. */
int zero__cuda_drain(struct zero_device *dev, struct cuda_stream *stream, int64_t timeout_ns,
                     const char *what);
/*
 * The same for all of its streams, at most the device's timeout each, and for the events that were
 * recorded in an application's: it may be gone itself, its notices are not.
 */
int zero__cuda_streams_drain(struct zero_device *dev, const char *what);

/* ---- event.c */

/* The stream of a bell, if it has none yet; lock held. Returns the driver's result. */
int zero__cuda_bell_make(struct zero_device *dev, struct cuda_bell *bell);

int zero__cuda_event_create(struct zero_device *dev, void **event);
int zero__cuda_event_destroy(struct zero_device *dev, void *event);
int zero__cuda_event_record(struct zero_device *dev, void *event, void *stream);
int zero__cuda_event_query(struct zero_device *dev, void *event);
/* The driver's. */
struct cuda_event *zero__cuda_event_of(const void *event);

/* ---- launch.c */

int zero__cuda_launch(struct zero_device *dev, const struct zero_launch *launch, void *stream);
/* Loads the module and finds its functions; the context is current. */
int zero__cuda_kernels_load(struct zero_device *dev);

#endif
