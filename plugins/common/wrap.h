/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A comm plugin that stands on another one and passes every call on. What a wrapper wants to see or
 * change it says in a struct zero__wrapper; the calls that carry collectives, post() and
 * progress(), are its own, with the helpers below.
 *
 * A collective below carries a number in place of the caller's tag, which says where its record is:
 * so a completion finds its communicator, its description and its beginning, and one that has none
 * is noticed. Records are made with the communicator; nothing is allocated on the way of a step.
 */
#ifndef ZERO_PLUGINS_COMMON_WRAP_H
#define ZERO_PLUGINS_COMMON_WRAP_H

#include "coll.h"
#include "entry.h"

#define ZERO__WRAP_INFLIGHT 1024u /* of the plugin below, more is not declared */

/* Calls that are passed on, as a wrapper sees them. */
enum zero__wrap_call {
    ZERO__CALL_OPEN,
    ZERO__CALL_CLOSE,
    ZERO__CALL_ALLOC,
    ZERO__CALL_FREE,
    ZERO__CALL_REG,
    ZERO__CALL_UNREG,
    ZERO__CALL_EXCHANGE,
    ZERO__CALL_MAP,
    ZERO__CALL_SPLIT,
    ZERO__CALL_COMM_CLOSE,
    ZERO__N_CALLS
};

struct zero__wrapper {
    const char *name;   /* of the plugin */
    const char *option; /* of what is below: "trace_comm" */
    /* Made before the context below, ended after it; ctx->own is theirs. */
    int (*begin)(struct zero_comm_ctx *ctx);
    void (*end)(struct zero_comm_ctx *ctx);
    /* (optional) An error keeps the call from being made; a close is made all the same. */
    int (*before)(struct zero_comm_ctx *ctx, enum zero__wrap_call call);
    /* (optional) `bytes` of memory, 0 where there is none. */
    void (*after)(struct zero_comm_ctx *ctx, enum zero__wrap_call call, int err, uint64_t bytes,
                  int64_t start_ns);
};

/* A collective that was posted and is not yet reported. */
struct zero__wrap_record {
    struct zero__wrap_record *next; /* in a list of free ones, or of the wrapper's */
    struct zero_comm *comm;
    struct zero_coll coll; /* as it was posted */
    uint64_t place;        /* in the order of the communicator, from 0 */
    uint64_t tag;          /* below; 0: nothing is under way here */
    int64_t start_ns;
};

struct zero_comm_ctx {
    const struct zero__wrapper *wrapper;
    struct zero__voice voice;
    struct zero_comm_ops below;
    const char *below_name;
    struct zero_comm_ctx *inner;
    int32_t rank, ranks;
    uint32_t inflight, n_comms;
    uint32_t mem; /* kinds of memory, as the probe below has them */
    struct zero_comm *comms;
    void *own;
};

struct zero_comm {
    struct zero_comm_ctx *ctx;
    struct zero_comm *inner, *next;
    uint32_t number; /* of the context's communicators, from 1 */
    struct zero__wrap_record *records, *free;
    uint32_t n_free;
    struct zero_coll *batch;        /* room for as many as there are records */
    uint64_t posted, completed;     /* collectives */
    struct zero__wrap_record *kept; /* fault: those that never went below, in order */
    struct zero__wrap_record *held; /* fault: one that goes below after the next */
    int err;                        /* fault: sticky, 0: ask below */
    char why[256];
};

const char *zero__wrap_call_name(enum zero__wrap_call call);

/*
 * For the plugin's entry: finds what is below, and gives the number of the table (bits 0 alloc and
 * free, 1 map, 2 missing) that has what it has.
 */
int zero__wrap_shape(const struct zero__wrapper *w, const struct zero_host *host, unsigned *shape);
int zero__wrap_probe(const struct zero__wrapper *w, const struct zero_host *host,
                     struct zero_comm_caps *caps);
int zero__wrap_open(const struct zero__wrapper *w, const struct zero_comm_open *params,
                    struct zero_comm_ctx **ctx);

/*
 * Takes a record for each of n collectives and copies them, with their records' tags, to
 * comm->batch. -EAGAIN, -EINVAL for a batch that can never fit. give: puts them back.
 */
int zero__wrap_take(struct zero_comm *comm, const struct zero_coll *colls, uint32_t n);
void zero__wrap_give_batch(struct zero_comm *comm, uint32_t n);
/* The record of a tag in comm->batch. */
static inline struct zero__wrap_record *zero__wrap_taken(struct zero_comm *comm, uint64_t tag)
{
    return &comm->records[tag % ZERO__WRAP_INFLIGHT];
}
/* That of what has ended below; NULL, with its sentence said: it is not under way there. */
struct zero__wrap_record *zero__wrap_ended(struct zero_comm_ctx *ctx, uint64_t tag);
/* Puts the record back and makes the completion that the caller sees. */
struct zero_cqe zero__wrap_complete(struct zero__wrap_record *record, int64_t res);

/* Entries that every wrapper has alike. */
int zero__wrap_close(struct zero_comm_ctx *ctx);
int zero__wrap_alloc(struct zero_comm_ctx *ctx, uint64_t bytes, uint32_t mem, void **base,
                     struct zero_mr **mr);
int zero__wrap_free(struct zero_comm_ctx *ctx, struct zero_mr *mr);
int zero__wrap_reg(struct zero_comm_ctx *ctx, void *base, uint64_t bytes, uint32_t mem,
                   struct zero_mr **mr);
int zero__wrap_unreg(struct zero_comm_ctx *ctx, struct zero_mr *mr);
int zero__wrap_exchange(struct zero_comm_ctx *ctx, struct zero_mr *mr);
int zero__wrap_map(struct zero_comm_ctx *ctx, struct zero_mr *mr, uint64_t off, uint64_t len,
                   void **base);
int zero__wrap_wake(struct zero_comm_ctx *ctx);
int zero__wrap_abort(struct zero_comm_ctx *ctx);
int zero__wrap_split(struct zero_comm_ctx *ctx, struct zero_comm *parent, int32_t color,
                     int32_t key, struct zero_comm **comm);
int zero__wrap_error(struct zero_comm *comm);
int zero__wrap_missing(struct zero_comm *comm, int32_t *ranks, uint32_t max);
int zero__wrap_wire_bytes(struct zero_comm *comm, uint64_t *bytes);
int zero__wrap_comm_close(struct zero_comm *comm);
int zero__wrap_memory(struct zero_comm_ctx *ctx, uint32_t *mem);

/* The table of shape n; tables are constant, so there is one for each shape of what is below. */
#define ZERO__WRAP_TABLE(n, probe_, open_, post_, progress_)                                      \
    {                                                                                             \
        .size = sizeof(struct zero_comm_ops), .probe = (probe_), .open = (open_),                 \
        .close = zero__wrap_close, .alloc = (n)&1 ? zero__wrap_alloc : NULL,                      \
        .free = (n)&1 ? zero__wrap_free : NULL, .reg = zero__wrap_reg, .unreg = zero__wrap_unreg, \
        .exchange = zero__wrap_exchange, .map = (n)&2 ? zero__wrap_map : NULL,                    \
        .progress = (progress_), .wake = zero__wrap_wake, .abort = zero__wrap_abort,              \
        .split = zero__wrap_split, .post = (post_), .error = zero__wrap_error,                    \
        .missing = (n)&4 ? zero__wrap_missing : NULL, .wire_bytes = zero__wrap_wire_bytes,        \
        .comm_close = zero__wrap_comm_close, .memory = zero__wrap_memory,                         \
    }
#define ZERO__WRAP_IFACE(n, tables_) ZERO__ENTRY_IFACE(COMM, &(tables_)[n])
#define ZERO__WRAP_ENTRY(n, name_, ifaces_) ZERO__ENTRY_PLUGIN(name_, &(ifaces_)[n], __VERSION__)
#define ZERO__WRAP_SHAPES(X, ...)                                                                 \
    {                                                                                             \
        X(0, __VA_ARGS__), X(1, __VA_ARGS__), X(2, __VA_ARGS__), X(3, __VA_ARGS__),               \
            X(4, __VA_ARGS__), X(5, __VA_ARGS__), X(6, __VA_ARGS__), X(7, __VA_ARGS__)            \
    }

/* The entry of a wrapper, as ZERO__PLUGIN() is that of a plugin with one table. */
#define ZERO__WRAP_PLUGIN(name_, wrapper_, probe_, open_, post_, progress_)                       \
    static const struct zero_comm_ops tables[] =                                                  \
        ZERO__WRAP_SHAPES(ZERO__WRAP_TABLE, probe_, open_, post_, progress_);                     \
    static const struct zero_iface ifaces[] = ZERO__WRAP_SHAPES(ZERO__WRAP_IFACE, tables);        \
    static const struct zero_plugin plugins[] =                                                   \
        ZERO__WRAP_SHAPES(ZERO__WRAP_ENTRY, name_, ifaces);                                       \
                                                                                                  \
    ZERO_PLUGIN_EXPORT int zero_plugin_v1(const struct zero_host *host,                           \
                                          const struct zero_plugin **out)                         \
    {                                                                                             \
        unsigned shape;                                                                           \
        int err = zero__wrap_shape((wrapper_), host, &shape);                                     \
                                                                                                  \
        if (!err)                                                                                 \
            *out = &plugins[shape];                                                               \
        return err;                                                                               \
    }

#endif
