/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The offload plugin `nvme`: a store is one nameless file per path, striped, read and written past
 * the page cache.
 *
 *   plugin.c    the entry, probe
 *   settings.c  the options, checked
 *   store.c     open, info, resize, close
 *   disk.c      which disk a file lies on
 *   file.c      one file: made, reserved, judged
 *   request.c   requests cut into transfers, a bounded number of them under way
 *   result.c    what the end of a transfer means
 *   sums.c      a checksum for every block; sums_avx2.c, sums_avx512.c: its loop
 *   uring.c     transfers through io_uring
 *   threads.c   transfers by threads, where io_uring is forbidden
 *
 * A request (struct zero_io) is any number of whole blocks. It is cut where a stripe ends, where a
 * registered piece of memory ends, and after NVME_TRANSFER bytes; the transfers of a request end in
 * any order, and some of them may have to be continued because the system did a part only.
 */
#ifndef ZERO_PLUGINS_NVME_H
#define ZERO_PLUGINS_NVME_H

#include <stdbool.h>
#include <sys/statfs.h>
#include <sys/types.h>

#include <zero/offload.h>

#include "../common/io.h"
#include "../common/voice.h"
#include "machine/clock.h"

#ifndef NVME_NAME /* a test compiles it under another name */
#define NVME_NAME "nvme"
#endif
#define NVME_BLOCK 4096u /* of offsets and lengths; what one checksum stands for */
#define NVME_TRANSFER (UINT64_C(4) << 20)
#define NVME_REQUESTS 256u
#define NVME_PATHS 16
#define NVME_WHY 700 /* bytes of a sentence, the name of a folder included */
#define NVME_MAX_DEPTH 256u
#define NVME_ZFS_MAGIC 0x2fc12fc1ul
#define NVME_SUMS_PER_MIB ((uint32_t)((1u << 20) / NVME_BLOCK * sizeof(uint32_t)))
#ifndef NVME_MOST_IO /* a test has less */
#define NVME_MOST_IO (INT64_MAX - INT64_MAX % NVME_BLOCK) /* of one request */
#define NVME_BEST_IO NVME_TRANSFER
#endif
#ifndef NVME_TELL /* a test tells something else of a request that has ended */
#define NVME_TELL(cqe) (void)(cqe)
#endif
#ifndef NVME_ANSWER_NS /* a test waits for less */
#define NVME_ANSWER_NS (20 * ZERO_SECOND) /* for a file system to say anything: disks spin up */
#endif
#ifndef NVME_REG_BYTES /* a test has smaller ones */
#define NVME_REG_BYTES (UINT64_C(1) << 30) /* of a registered buffer: the kernel takes no more */
#endif

/* Where a folder or a file lies, and what that file system said of itself. */
struct nvme_space {
    dev_t device;
    struct statfs fs;
};

struct nvme_settings {
    char *paths; /* the folders, each ended by 0 */
    const char *path[NVME_PATHS];
    int n_paths;
    uint32_t depth;
    bool sums, direct, uring;
    bool uring_wanted; /* named: no other engine will do */
};

struct nvme_file {
    int fd;
    const char *folder;
    dev_t device;  /* that of its file system */
    char disk[64]; /* the whole one that it lies on, as the kernel calls it */
    uint32_t align; /* of offsets and lengths past the page cache; 1: not past it */
    bool is_memory; /* its file system lies there */
    bool keeps_room; /* what is reserved stays so, as far as its file system is known for it */
};

struct nvme_request {
    struct zero_io io;
    uint64_t begun;   /* bytes that transfers were made of; files, for SYNC */
    uint32_t running; /* transfers */
    int err;          /* of the first that failed */
    char why[NVME_WHY];
    struct nvme_request *next;
};

/* One read, write or sync of one file that the system is to do. */
struct nvme_transfer {
    struct nvme_request *request;
    uint32_t op; /* enum zero_io_op */
    int file;
    char *buffer;
    int registered; /* number of the registered buffer that it lies in, -1: none */
    uint64_t store_off, file_off;
    uint32_t bytes, done, n_stuck;
    int64_t refused_ns; /* since when the system does nothing of it (EAGAIN, EINTR); 0: it does */
    int64_t result; /* of the threads */
    struct nvme_transfer *next, *next_unsummed;
};

/* Who does the transfers. start() takes any transfer: there are never more than `depth`. */
struct nvme_engine {
    const char *name;
    int (*open)(struct zero_store *store);
    void (*close)(struct zero_store *store);
    void (*reg)(struct zero_store *store, struct zero_mr *mr); /* may do nothing */
    void (*unreg)(struct zero_store *store, struct zero_mr *mr);
    void (*start)(struct zero_store *store, struct nvme_transfer *t);
    /*
     * Hands what was started to the system: 0, -EAGAIN where that has no room for all of it, or an
     * error, after which nothing works any more.
     */
    int (*flush)(struct zero_store *store);
    /* The next transfer that has ended, with the system's result; NULL: none. */
    struct nvme_transfer *(*ended)(struct zero_store *store, int64_t *result);
    int (*fd)(const struct zero_store *store); /* readable when one may have ended */
    /* Transfers that were started and never handed over: after an error they never will be. */
    uint32_t (*unsent)(const struct zero_store *store);
};

extern const struct nvme_engine zero__nvme_uring, zero__nvme_threads;

/* uring.c. Does io_uring work here? 0, or why not, a negative errno. */
int zero__nvme_uring_try(void);

struct zero_mr {
    struct zero__io_region region;
    /* What is registered with the engine: pieces of NVME_REG_BYTES to the end, each a buffer. */
    uint64_t first_piece;
    int first_buffer, n_buffers; /* n_buffers is 0: nothing */
    struct zero_mr *next;
};
_Static_assert(offsetof(struct zero_mr, region) == 0, "as zero__io_check() looks at it");

struct zero_store {
    struct zero__voice voice;
    struct nvme_settings settings;
    struct nvme_file files[NVME_PATHS];
    int n_files, first_file;
    uint64_t bytes;
    bool direct;
    uint32_t depth; /* transfers, for all folders together */
    int32_t ranks;  /* of this host, each with such a store */
    int warns;      /* level of what the other ranks of a machine would say, too */
    int wake_fd;

    uint32_t *sums; /* by block; NULL: not wanted */

    const struct nvme_engine *engine;
    void *engine_data;
    struct zero_mr *mrs;

    struct nvme_request requests[NVME_REQUESTS], *free_requests;
    struct nvme_request *waiting, **waiting_end; /* not all of it has begun */
    struct nvme_request *finished, **finished_end;
    struct nvme_transfer *transfers, *free_transfers;
    struct nvme_transfer *again;    /* to be started once more, */
    int64_t again_ns;               /* then */
    struct nvme_transfer *unsummed; /* started writes whose checksums are to be made */
    uint32_t running;               /* transfers */
    uint32_t n_refused;             /* transfers with a refused_ns */
    int refusal;                    /* the last one, an errno, */
    int refusing;                   /* and of which file */
    bool stalled;                   /* the system has no room for what was started */
    int64_t stalled_ns;             /* since when; 0: it has, or something has ended since */
    int64_t patience_ns;            /* with both */
    bool closing;                   /* nothing is started again */
    int broken;                     /* the engine failed */
    char broken_why[192];
    uint64_t bytes_read, bytes_written;
};

/* settings.c. Refuses what makes no sense; *settings is to be freed. */
int zero__nvme_settings(const struct zero__voice *voice, struct nvme_settings *settings);
void zero__nvme_settings_free(struct nvme_settings *settings);

/* file.c. A nameless file in the folder, gone with its descriptor. */
int zero__nvme_file_open(const struct zero_store *store, const char *folder,
                         struct nvme_file *file);
/* So many bytes lie on the disk: writes never fail for lack of room, where that is not told. */
int zero__nvme_file_reserve(const struct zero_store *store, struct nvme_file *file,
                            uint64_t bytes);
/* -ETIMEDOUT, said: its file system does not answer; asked by a thread that may stay there. */
int zero__nvme_folder_answers(const struct zero__voice *voice, const char *folder, int64_t ns);
/* What is free in a file system; -ENODATA: it does not say, as some in user space. */
int zero__nvme_free_bytes(const struct statfs *fs, uint64_t *bytes);
/* It lies in memory. */
bool zero__nvme_is_memory(const struct statfs *fs);
/* As magic numbers are written: where f_type is signed, some of them are negative. */
unsigned long zero__nvme_type(const struct statfs *fs);
/* Says that so many bytes have no room there. */
int zero__nvme_file_full(const struct zero_store *store, const struct nvme_file *file,
                         uint64_t bytes, int err);
/* Says that no file can be made there, why, and what to do; returns err. */
int zero__nvme_folder_refuses(const struct zero__voice *voice, const char *folder, int err);

/* disk.c. Which disk a device is, or lies on; itself where that is not known. */
void zero__nvme_disk_find(dev_t device, char *disk, size_t bytes);
/* Does what one of them takes lack the other? Both were asked at the same time. */
bool zero__nvme_space_is_one(const struct nvme_space *a, const struct nvme_space *b);

/* store.c */
int zero__nvme_open(const struct zero_store_open *params, struct zero_store **store);
int zero__nvme_info(struct zero_store *store, struct zero_store_info *info);
int zero__nvme_resize(struct zero_store *store, uint64_t bytes);
int zero__nvme_reg(struct zero_store *store, void *base, uint64_t bytes, uint32_t mem,
                   struct zero_mr **mr);
int zero__nvme_unreg(struct zero_store *store, struct zero_mr *mr);
int zero__nvme_close(struct zero_store *store);
/* Bytes of file number `file` for a store of so many bytes. */
uint64_t zero__nvme_file_bytes(const struct zero_store *store, int file, uint64_t bytes);

/* request.c */
/* What lies behind the new end of a store that shrinks is forgotten. */
int zero__nvme_cut(struct zero_store *store, uint64_t bytes);
int zero__nvme_requests_make(struct zero_store *store);
int zero__nvme_submit(struct zero_store *store, const struct zero_io *ios, uint32_t n);
int zero__nvme_poll(struct zero_store *store, struct zero_cqe *cqes, uint32_t max,
                    int64_t timeout_ns);
int zero__nvme_wake(struct zero_store *store);

/* result.c */
/* What the system says of a transfer: its error, or whether it is to go on. */
int zero__nvme_judge(struct zero_store *store, struct nvme_transfer *t, int64_t result,
                     bool *again);
/* Did everything arrive as it was written? */
int zero__nvme_verify(const struct zero_store *store, const struct nvme_transfer *t);

/* sums_avx2.c, sums_avx512.c: the processor must have these instructions. */
void zero__nvme_sums_avx2(const char *data, uint64_t n_blocks, uint32_t *sums);
void zero__nvme_sums_avx512(const char *data, uint64_t n_blocks, uint32_t *sums);

/* sums.c. Of bytes that start at a block; `bytes` is a multiple of blocks. */
int zero__nvme_sums_resize(struct zero_store *store, uint64_t bytes);
void zero__nvme_sums_write(struct zero_store *store, uint64_t off, const void *data,
                           uint64_t bytes);
/* The first block that is not what was written there; -1: all are. */
int64_t zero__nvme_sums_verify(const struct zero_store *store, uint64_t off, const void *data,
                               uint64_t bytes);

#endif
