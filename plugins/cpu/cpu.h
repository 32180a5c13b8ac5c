/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The offload plugin `cpu`: a store is memory of the host, next to the device that uses it or
 * to the processors of its process, in huge pages where the machine gives them, locked where the
 * limit of locked memory allows it.
 *
 *   plugin.c   the entry, probe, the table
 *   memory.c   the memory: taken, locked, given back
 *   place.c    where it lies
 *   store.c    stores and requests
 */
#ifndef ZERO_PLUGINS_CPU_H
#define ZERO_PLUGINS_CPU_H

#include <stdatomic.h>
#include <stdbool.h>

#include <zero/offload.h>

#include "../common/bell.h"
#include "../common/io.h"
#include "../common/voice.h"

#ifndef CPU_NAME /* tests compile others of it */
#define CPU_NAME "cpu"
#endif
#define CPU_REQUESTS 256u
#define CPU_DEPTH 8u
#define CPU_BEST_IO (UINT64_C(4) << 20)

/* As ZERO_CPU_LOCK says it: auto, 0, 1. */
enum cpu_lock { CPU_LOCK_IF_ALLOWED, CPU_LOCK_NO, CPU_LOCK_YES };

struct cpu_memory {
    char *base;
    uint64_t bytes; /* whole pages */
    bool locked;
    bool told;      /* that it is not locked */
    char where[64]; /* for people; "": wherever the system likes */
};

/* How the memory of a store should be. */
struct cpu_wish {
    enum cpu_lock lock;
    int32_t ranks; /* of this host, which want about as much each */
    char pci[16];  /* of the device that it is next to; "": next to this process */
    int warns;     /* level of what the other ranks of the host would say, too */
};

struct zero_mr {
    struct zero__io_region region;
    struct zero_mr *next;
};
_Static_assert(offsetof(struct zero_mr, region) == 0, "as zero__io_check() looks at it");

struct zero_store {
    struct zero__voice voice;
    struct cpu_memory memory;
    uint64_t bytes;
    struct cpu_wish wish;
    struct zero_mr *mrs;
    struct zero_io queue[CPU_REQUESTS];
    uint64_t submitted, ended, done; /* requests; bytes of the oldest */
    uint64_t bytes_read, bytes_written;
    struct zero__bell bell;
    atomic_bool woken;
};

/* memory.c. The sentence is recorded. */
int zero__cpu_lock(const struct zero__voice *voice, enum cpu_lock *lock);
int zero__cpu_memory_take(const struct zero__voice *voice, uint64_t bytes,
                          const struct cpu_wish *wish, struct cpu_memory *memory);
/* May move; what fits into both sizes stays, and so does everything when it fails. */
int zero__cpu_memory_resize(const struct zero__voice *voice, uint64_t bytes,
                            const struct cpu_wish *wish, struct cpu_memory *memory);
void zero__cpu_memory_give(struct cpu_memory *memory);

/* place.c. Asks for the nearest nodes; `where`: what came of it, "" on a machine of one node. */
void zero__cpu_place(void *base, uint64_t bytes, const char *pci, char *where, size_t where_bytes);

/* store.c */
void zero__cpu_describe(struct zero_store_info *info);
int zero__cpu_open(const struct zero_store_open *params, struct zero_store **store);
int zero__cpu_info(struct zero_store *store, struct zero_store_info *info);
int zero__cpu_resize(struct zero_store *store, uint64_t bytes);
int zero__cpu_reg(struct zero_store *store, void *base, uint64_t bytes, uint32_t mem,
                  struct zero_mr **mr);
int zero__cpu_unreg(struct zero_store *store, struct zero_mr *mr);
int zero__cpu_map(struct zero_store *store, void **base);
int zero__cpu_submit(struct zero_store *store, const struct zero_io *ios, uint32_t n);
int zero__cpu_poll(struct zero_store *store, struct zero_cqe *cqes, uint32_t max,
                   int64_t timeout_ns);
int zero__cpu_wake(struct zero_store *store);
int zero__cpu_close(struct zero_store *store);

#endif
