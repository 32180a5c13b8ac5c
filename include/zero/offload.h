/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file offload.h
 * The interface of an offload plugin (ZERO_IFACE_OFFLOAD, major 0): a tier of storage.
 *
 * A store is a flat range of bytes, zeros at first; what lies where in it is the library's
 * business. The library serialises all calls to one store, except wake(). Only probe, open, resize,
 * reg and close may block. Returns 0 or a negative errno, after zero_host.fail() said what and why.
 */
#ifndef ZERO_OFFLOAD_H
#define ZERO_OFFLOAD_H

#include <zero/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZERO_OFFLOAD_MAJOR 0
#define ZERO_OFFLOAD_MINOR 5

struct zero_store;

enum zero_io_op {
    ZERO_IO_READ = 1,
    ZERO_IO_WRITE = 2,
    /** All writes completed before it are durable when it completes; no store_off, no buf. Not
     * submitted by this version, whose stores do not outlive their process; `zero check offload`
     * tries it. */
    ZERO_IO_SYNC = 3,
};

enum zero_store_flags {
    ZERO_STORE_MAPPED = 1u << 0, /**< the bytes are memory: map() gives their address */
    ZERO_STORE_DIRECT = 1u << 1, /**< no page cache in between */
    /** Since minor 5, of probe(), too: what it stores takes the host's memory, as on tmpfs. */
    ZERO_STORE_MEMORY = 1u << 2,
};

/** Properties of a tier (probe) or of an open store (info). */
struct zero_store_info {
    size_t size; /**< set by the caller */
    uint32_t flags;
    uint32_t mem;          /**< mask of enum zero_mem that slices may lie in, ZERO_MEM_HOST too */
    uint64_t capacity;     /**< bytes; what could be had, or what the store holds */
    uint32_t offset_align; /**< of store offsets and lengths; power of two, at most 4096 */
    uint32_t buffer_align; /**< of memory addresses; power of two, at most 4096 */
    uint64_t max_io, best_io; /**< bytes of one request; a disk's max_io is 4096 at least */
    uint32_t depth;           /**< requests in flight that pay */
    /** Since minor 3: of host memory that it takes beside each MiB stored, for checksums say. */
    uint32_t bytes_per_mib;
    char note[128]; /**< for people: paths, devices, fallbacks taken */
    /**
     * Since minor 2; of an open store, so far: bytes that were moved, counted as soon as they are
     * and none twice; 0: not told. They tell what a disk has borne; and a store that ends nothing
     * is waited for as long as they grow, so what is merely tried must not count.
     */
    uint64_t bytes_read, bytes_written;
};

/** What open() is given; valid only during the call, except `host`. */
struct zero_store_open {
    size_t size;
    const struct zero_host *host;
    /**
     * Preallocated: later writes never fail for lack of room. What cannot be had is refused before
     * any of it is taken: a disk that is full for a moment fails others, too.
     */
    uint64_t bytes;
    int32_t device;     /**< -1; the device it is near to is `pci` */
    int32_t local_rank; /**< of this process on the machine */
    /**
     * ZERO_TIMEOUT. What has not come back half a second after it is left to itself, and the job
     * ends: a probe, submit or poll, and an open or resize, where the store is not MAPPED. So it
     * does when a request is older and nothing has moved for as long. Give up sooner, and the
     * sentence is your own: nvme does at 7/8 of it.
     */
    int64_t timeout_ns;
    int32_t local_ranks; /**< since minor 4; on the machine, which share its limits; 0: unknown */
    int32_t reserved;
    /** Since minor 4: of the device that uses it, "0000:3b:00.0"; NULL: the host, or unknown. */
    const char *pci;
};

/** One request; offset and lengths are multiples of offset_align. */
struct zero_io {
    uint32_t op, flags; /**< enum zero_io_op; 0, else it is refused */
    uint64_t store_off;
    struct zero_slice buf;
    uint64_t user;
    uint64_t reserved[2]; /**< 0, else it is refused */
};

/** The table. Entries marked (optional) may be NULL. */
struct zero_offload_ops {
    size_t size;
    /** What a store would be here, or why there can be none (-ENODEV …). Writes no more than
     * info->size bytes. */
    int (*probe)(const struct zero_host *host, struct zero_store_info *info);
    /** A store of params->bytes zeros. */
    int (*open)(const struct zero_store_open *params, struct zero_store **store);
    /** As probe(), of an open store. */
    int (*info)(struct zero_store *store, struct zero_store_info *info);
    /** Grows, by zeros, or shrinks; no request is in flight. Voids what map() gave, either way. */
    int (*resize)(struct zero_store *store, uint64_t bytes);
    /** The caller's memory may stand in requests until unreg(). -ENOTSUP: not of this kind. */
    int (*reg)(struct zero_store *store, void *base, uint64_t bytes, uint32_t mem,
               struct zero_mr **mr);
    /** No request uses the memory any more; it stays the caller's. */
    int (*unreg)(struct zero_store *store, struct zero_mr *mr);
    /** (optional, MAPPED) The address of byte 0, a multiple of 4096. */
    int (*map)(struct zero_store *store, void **base);
    /**
     * Accepts the first k ≥ 0 of n requests and returns k; the rest is to be submitted again.
     * Each accepted request completes exactly once, whole or with an error: short transfers are
     * the plugin's to resume. The order of completions is free. 0: no room just now. A request that
     * is wrong (op, flags, reserved, bytes, alignment, past the end, memory that is not registered)
     * is an error if it is the first of the n, and else where k ends. Any errno will do, with a
     * sentence.
     */
    int (*submit)(struct zero_store *store, const struct zero_io *ios, uint32_t n);
    /**
     * Up to `max` completions (≥ 0) or an error; waits at most timeout_ns for the first, and
     * returns as soon as it is there. One that failed is the last of them, and the call has said
     * why.
     */
    int (*poll)(struct zero_store *store, struct zero_cqe *cqes, uint32_t max, int64_t timeout_ns);
    /** Any thread: makes a waiting poll() return soon, or the next one return at once. */
    int (*wake)(struct zero_store *store);
    /**
     * Ends requests in flight, and registrations, and removes what is stored. 0: nothing touches
     * registered memory any more. An error: something may, so the library keeps the host's memory,
     * too, until the process ends, and makes no other call. The whole end of a runtime with a disk
     * has 40 s: nvme gives requests 30 s, then it is -ETIMEDOUT, and the store stays.
     */
    int (*close)(struct zero_store *store);
};

#ifdef __cplusplus
}
#endif
#endif
