/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a comm plugin on every rank of a test, as threads or processes, with an exchange of its own
 * in memory that the ranks share.
 */
#ifndef ZERO_TESTS_COMM_H
#define ZERO_TESTS_COMM_H

#include "ranks.h"

#include "base/log.h"
#include "base/options.h"
#include "plugin/loader.h"

#define OOB_BYTES 4096
#define WAIT_NS (INT64_C(10) * 1000 * 1000 * 1000)

struct oob_board {
    _Atomic uint64_t turn[RANKS_MAX];
    char data[2][RANKS_MAX][OOB_BYTES];
};

struct oob_end {
    struct oob_board *board;
    int rank, ranks;
    uint64_t turn;
    uint32_t len;
};

/* One rank's plugin. */
struct comm_rank {
    struct zero__log log;
    struct zero__options *options;
    struct zero__loader *loader;
    const struct zero_comm_ops *ops;
    struct oob_end end;
    struct zero_oob oob;
    struct zero_comm_ctx *ctx;
    struct zero_comm *world;
    struct zero_mr *mr; /* of memory, exchanged */
    char *memory;
    uint64_t bytes;
};

static struct oob_board *comm_board;

/* Before ranks are started: each process would make one of its own. */
static void comm_board_make(void)
{
    if (!comm_board)
        comm_board = shared_memory(sizeof *comm_board);
    memset(comm_board, 0, sizeof *comm_board);
}

/* ranks_run(), of ranks that have exchanged nothing yet. */
__attribute__((unused)) static struct rank *comm_ranks(int n, enum ranks_how how,
                                                       void (*fn)(struct rank *), void *arg)
{
    comm_board_make();
    return ranks_run(n, how, fn, arg);
}

static int oob_post(void *ctx, const void *src, uint32_t len)
{
    struct oob_end *e = ctx;

    if (len > OOB_BYTES)
        return -EMSGSIZE;
    memcpy(e->board->data[e->turn % 2][e->rank], src, len);
    e->len = len;
    atomic_store(&e->board->turn[e->rank], ++e->turn);
    return 0;
}

static int oob_test(void *ctx, void *dst)
{
    struct oob_end *e = ctx;

    for (int p = 0; p < e->ranks; p++)
        if (atomic_load(&e->board->turn[p]) < e->turn)
            return -EINPROGRESS;
    for (int p = 0; p < e->ranks; p++)
        memcpy((char *)dst + (size_t)p * e->len, e->board->data[(e->turn - 1) % 2][p], e->len);
    return 0;
}

/* Where memory comes from: the plugin, or whoever opens it. */
__attribute__((unused)) static int comm_alloc(struct comm_rank *c, uint64_t bytes, void **base,
                                              struct zero_mr **mr)
{
    if (c->ops->alloc)
        return c->ops->alloc(c->ctx, bytes, ZERO_MEM_HOST, base, mr);
    *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (*base == MAP_FAILED)
        return -ENOMEM;
    return c->ops->reg(c->ctx, *base, bytes, ZERO_MEM_HOST, mr);
}

/* Plugins are those that only tests have. */
__attribute__((unused)) static void comm_test_plugins(void)
{
    const char *build = getenv("ZERO_TEST_BUILD");
    char path[4096];

    snprintf(path, sizeof path, "%s/tests/plugin/.libs", build ? build : ".");
    setenv("ZERO_PLUGIN_PATH", path, 1);
}

#define COMM_ABSENT "the plugin was not built: its library is missing"

__attribute__((unused)) static bool comm_has(const char *name)
{
    const char *path = getenv("ZERO_PLUGIN_PATH");
    char file[4096];

    for (const char *p = path ? path : ""; *p; p += strcspn(p, ":"), p += *p == ':') {
        snprintf(file, sizeof file, "%.*s/zero-comm-%s.so", (int)strcspn(p, ":"), p, name);
        if (access(file, R_OK) == 0)
            return true;
    }
    return false;
}

/* Leaves the test when the plugin was not built. */
__attribute__((unused)) static void comm_require(const char *name)
{
    if (!comm_has(name))
        skip_all(COMM_ABSENT);
}

/* Loads plugin `name` for this rank; settings may be NULL. */
__attribute__((unused)) static bool comm_load(struct rank *r, struct comm_rank *c, const char *name,
                                              const struct zero_setting *settings, uint32_t n)
{
    struct zero__plugin *plugin;

    *c = (struct comm_rank){.log = {.rank = r->rank, .level = ZERO_LOG_WARN}};
    if (!want(r, comm_board, "ranks that exchange something are started by comm_ranks()"))
        return false;
    c->end = (struct oob_end){.board = comm_board,
                              .rank = r->rank,
                              .ranks = r->ranks,
                              .turn = atomic_load(&comm_board->turn[r->rank])};
    c->oob = (struct zero_oob){.size = sizeof c->oob,
                               .ctx = &c->end,
                               .rank = r->rank,
                               .ranks = r->ranks,
                               .post = oob_post,
                               .test = oob_test};
    if (!want(r, !zero__options_load(settings, n, &c->options), "options: %s", zero_last_error()) ||
        !want(r, !zero__loader_create(c->options, &c->log, NULL, 0, &c->loader), "loader: %s",
              zero_last_error()) ||
        !want(r, !zero__loader_load(c->loader, ZERO_IFACE_COMM, name, &plugin), "load: %s",
              zero_last_error()))
        return false;
    c->ops = zero__plugin_comm(plugin);
    return true;
}

/* A context for all ranks, as the plugin opens it without a device. */
__attribute__((unused)) static int comm_context(struct comm_rank *c)
{
    const struct zero_comm_open open = {.size = sizeof open,
                                        .host = zero__loader_host(c->loader),
                                        .oob = &c->oob,
                                        .device = -1,
                                        .timeout_ns = WAIT_NS};

    return c->ops->open(&open, &c->ctx);
}

/* Opens plugin `name` with `bytes` of exchanged memory; settings may be NULL. */
__attribute__((unused)) static bool comm_open(struct rank *r, struct comm_rank *c, const char *name,
                                              uint64_t bytes, const struct zero_setting *settings,
                                              uint32_t n)
{
    void *memory;

    if (!comm_load(r, c, name, settings, n))
        return false;
    c->bytes = bytes;
    if (!want(r, !comm_context(c), "open: %s", zero_last_error()) ||
        !want(r, !c->ops->split(c->ctx, NULL, 0, 0, &c->world), "split: %s", zero_last_error()) ||
        !want(r, !comm_alloc(c, bytes, &memory, &c->mr), "alloc: %s", zero_last_error()) ||
        !want(r, !c->ops->exchange(c->ctx, c->mr), "exchange: %s", zero_last_error()))
        return false;
    c->memory = memory;
    return true;
}

__attribute__((unused)) static void comm_end(struct rank *r, struct comm_rank *c)
{
    if (c->ctx)
        want(r, !c->ops->close(c->ctx), "close: %s", zero_last_error());
    if (c->ops && !c->ops->alloc && c->memory)
        munmap(c->memory, c->bytes);
    zero__loader_free(c->loader);
    zero__options_free(c->options);
}

__attribute__((unused)) static struct zero_slice comm_slice(struct comm_rank *c, uint64_t off,
                                                            uint64_t len)
{
    return (struct zero_slice){c->mr, off, len};
}

/* Waits for one completion; its result, or an error of progress(). */
__attribute__((unused)) static int64_t comm_wait(struct comm_rank *c, uint64_t *user)
{
    int64_t until = now_ms() + WAIT_NS / 1000000;
    struct zero_cqe cqe;

    while (now_ms() < until) {
        int n = c->ops->progress(c->ctx, &cqe, 1, 100000000);
        if (n < 0)
            return n;
        if (n == 1) {
            if (user)
                *user = cqe.user;
            return cqe.res;
        }
    }
    return -ETIMEDOUT;
}

/* Posts one collective and waits for it. */
__attribute__((unused)) static int64_t comm_run(struct comm_rank *c, struct zero_comm *comm,
                                                const struct zero_coll *coll)
{
    uint64_t user;
    int err = c->ops->post(comm, coll, 1, NULL);
    int64_t res;

    if (err)
        return err;
    res = comm_wait(c, &user);
    return res < 0 || user == coll->user ? res : -EBADMSG;
}

__attribute__((unused)) static int64_t comm_barrier(struct comm_rank *c, struct zero_comm *comm)
{
    struct zero_coll coll = {.kind = ZERO_BARRIER, .scale = 1, .user = 77};
    return comm_run(c, comm, &coll);
}

#endif
