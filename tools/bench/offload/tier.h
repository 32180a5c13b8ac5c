/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of `zero bench offload`. */
#ifndef ZERO_TOOLS_BENCH_OFFLOAD_TIER_H
#define ZERO_TOOLS_BENCH_OFFLOAD_TIER_H

#include <stdbool.h>
#include <stdint.h>

#include <zero/offload.h>

#include "base/log.h"
#include "base/options.h"
#include "plugin/loader.h"
#include "tools/bench/measure/loops.h"
#include "tools/bench/measure/stats.h"
#include "tools/common/args.h"

#define OFFLOAD_PAGE 4096u /* blocks are multiples; what a check names */
#define OFFLOAD_MOST_DEPTH 1024u
#define OFFLOAD_FILL_BLOCK (UINT64_C(4) << 20)
#define OFFLOAD_FILL_DEPTH 8u
#define OFFLOAD_UNKNOWN UINT64_MAX

enum offload_op { OFFLOAD_READ, OFFLOAD_WRITE, OFFLOAD_MIXED, N_OFFLOAD_OPS };

struct offload_shape {
    enum offload_op op;
    bool random;
    uint64_t block;
    unsigned depth; /* blocks under way */
};

enum offload_pages { OFFLOAD_PAGES_UNKNOWN, OFFLOAD_PAGES_SMALL, OFFLOAD_PAGES_HUGE };

struct offload_options {
    const char *tier;
    const char *folder; /* of fio's file; NULL: as the tier's */
    const char *beside; /* NAME=VALUE of a second store; "": none; NULL: not said */
    struct offload_shape ops[2 * N_OFFLOAD_OPS];
    uint64_t sizes[TOOL_MAX_SIZES], depths[TOOL_MAX_SIZES];
    unsigned n_ops, n_sizes, n_depths;
    uint64_t deepest; /* of depths */
    uint64_t bytes; /* of a store */
    unsigned reps, warmup;
    unsigned least; /* percent of the limit that are wanted; 0: whatever it is */
    int64_t ns;     /* of a repetition */
    const char *pages; /* auto, small or huge */
    bool check, spoil, json, fio, cache_allowed;
};

/* What one repetition did. */
struct offload_sample {
    double seconds, cpu_seconds;
    uint64_t bytes;
    uint64_t disk_bytes; /* of this process, as the kernel counts; OFFLOAD_UNKNOWN */
};

/* A place for a block on its way. */
struct offload_slot {
    bool reads, holds;    /* holds: what was read last is still there */
    uint64_t block, seen; /* seen: t->n_written when it was read */
};

/* A store, memory for blocks on their way, and what should be where. */
struct offload_tier {
    const struct offload_options *o;
    struct zero__options *options;
    struct zero__log log;
    struct zero__loader *loader;
    const struct zero_offload_ops *ops;
    const char *name;
    struct zero_store *store;
    struct zero_store_info info;
    void *map; /* of a store that is memory, else NULL */
    struct zero_mr *mr;
    char *memory; /* first what is written, then what is read */
    uint64_t memory_bytes;
    enum offload_pages pages; /* that were asked for */
    const char *memory_pages; /* that memory has */
    uint64_t *written;  /* by page of the store: when, and (32 bits) which page of the memory */
    uint64_t n_written; /* blocks */
    bool *busy;         /* by block: under way */
    struct offload_slot *slots;
    uint64_t random;
    int64_t timeout_ns;
};

/* The next of numbers that look like chance, in *x, which is not 0. */
static inline uint64_t offload_random(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    return *x ^= *x << 17;
}

/* Blocks in some order: until a time, or all once; compared when they are read, or not. */
struct offload_walk {
    struct offload_shape shape;
    int64_t until_ns; /* ZERO_NEVER: all once */
    bool compare;
};

/*
 * tier.c: 0 or a negative errno with a sentence. `setting` (NULL: none) is an option
 * of this store only. *t must be ended with offload_close() in any case.
 */
int offload_open(struct offload_tier *t, const struct offload_options *o,
                 const struct zero_setting *setting);
void offload_close(struct offload_tier *t);
uint64_t offload_memory_bytes(const struct offload_options *o);

/* pages.c. 0 or an error with a sentence. */
int offload_pages_choose(const struct offload_options *o, enum offload_pages *pages);
const char *offload_pages_name(enum offload_pages pages);
/* What memory that was touched has: huge, small, mixed, unknown. */
const char *offload_pages_of(const void *base);
/* What a process has that takes so many bytes for its blocks; AUTO: not known, or not so far. */
enum offload_pages offload_pages_of_process(int pid, uint64_t bytes);

/* walk.c */
int offload_walk(struct offload_tier *t, const struct offload_walk *w,
                 struct offload_sample *sample);
/* The same blocks copied by a plain loop, for a store that is memory. */
void offload_copy(struct offload_tier *t, const struct offload_walk *w, enum bench_way way,
                  struct offload_sample *sample);
/* Writes all of the store; afterwards every page has its content. */
int offload_fill(struct offload_tier *t);
/* Reads all of the store and compares; -EBADMSG with a sentence that names the page. */
int offload_compare(struct offload_tier *t);

/* fio.c: fio on files without names in the same folders. */
struct offload_fio {
    int fds[16];
    unsigned n;
    uint64_t bytes; /* of all files */
    enum offload_pages wanted, pages; /* pages: that its blocks had last; small: ever */
    char version[32];
};
/* False after a sentence when there is no fio that could be compared with. */
bool offload_fio_open(struct offload_fio *f, const struct offload_options *o, const char *folders);
void offload_fio_close(struct offload_fio *f);
int offload_fio_run(struct offload_fio *f, const struct offload_shape *shape, int64_t ns,
                    struct offload_sample *sample);

/* What takes turns. */
enum {
    OFFLOAD_STORE,
    OFFLOAD_BESIDE,
    OFFLOAD_LIMIT,
    N_OFFLOAD_SERIES = OFFLOAD_LIMIT + N_BENCH_COPIES
};

struct offload_bench {
    const struct offload_options *o;
    struct offload_tier store, beside;
    struct offload_fio fio;
    bool has_beside, has_fio;
    char option[64]; /* of beside */
    struct offload_sample *samples[N_OFFLOAD_SERIES];
    double *scratch; /* two of reps */
};

/* Figures of a shape. */
struct offload_figures {
    struct bench_stats time[N_OFFLOAD_SERIES]; /* of a block */
    double cpu[N_OFFLOAD_SERIES];              /* seconds for 10^9 bytes */
    unsigned limit;   /* the fastest series of the limit; 0: there is none */
    double low, high; /* percent of the limit, of single repetitions */
    double on_disk;   /* < 0: not known */
    const char *check;
};

static inline bool offload_is_memory(const struct offload_bench *b)
{
    return b->store.map;
}

/* print.c: the head of the table, and a shape in it or as JSON. */
void offload_head(const struct offload_bench *b);
void offload_row(const struct offload_bench *b, const struct offload_shape *shape,
                 const struct offload_figures *f);
void offload_json(const struct offload_bench *b, const struct offload_shape *shape,
                  const struct offload_figures *f);

/* options.c: -1: go on; else the exit status. */
int offload_parse(struct offload_options *o, int argc, char **argv);
const char *offload_op_name(const struct offload_shape *shape);

#endif
