/* SPDX-License-Identifier: Apache-2.0 */
/* The entry, contexts, memory and communicators of the template; comm.h tells how it works. */
#define _GNU_SOURCE
#include "comm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NAP_NS 50000 /* between looks, in calls that may block */

/* ---- Calls that all ranks make ----------------------------------------------------------------
 *
 * Before there is shared memory, the library's own exchange carries a few bytes; afterwards, boards
 * in shared memory, because the ranks of a communicator must be able to meet without the others.
 */

static void nap(void)
{
    struct timespec t = {0, NAP_NS};
    nanosleep(&t, NULL);
}

/* Waits for the library's exchange; polling is fine in a call that may block. */
static int oob_gather(const struct zero_comm_open *p, int64_t until, const void *mine,
                      uint32_t bytes, void *all)
{
    int err = p->oob->post(p->oob->ctx, mine, bytes);

    while (!err) {
        bool late = clock_ns() >= until; /* what came during a long nap still counts */
        err = p->oob->test(p->oob->ctx, all);
        if (err != -EINPROGRESS)
            return err;
        if (late)
            return say(p->host, -ETIMEDOUT,
                       "open: the other ranks did not answer within %g s (ZERO_TIMEOUT): look at "
                       "their output; who is only slow needs a larger ZERO_TIMEOUT",
                       (double)p->timeout_ns / 1e9);
        err = 0;
        nap();
    }
    return err;
}

static struct board *board_of(const struct group *g, int32_t p)
{
    return (struct board *)(void *)(g->boards + (size_t)p * g->stride);
}

static const char *call_name(uint32_t call)
{
    return call == CALL_EXCHANGE ? "exchange" : call == CALL_SPLIT ? "split" : "something unknown";
}

static int board_await(struct zero_comm_ctx *ctx, const struct group *g, int32_t p,
                       const char *doing, int64_t until)
{
    while (atomic_load(&board_of(g, p)->turn) < g->turn) {
        if (atomic_load(&ctx->aborted))
            return say(ctx->host, -ECANCELED, "%s: the context was aborted", doing);
        if (atomic_load(&ctx->seats[g->world[p]].aborted))
            return say(ctx->host, -ECANCELED, "%s: rank %d aborted", doing, g->world[p]);
        if (clock_ns() >= until)
            return say(ctx->host, -ETIMEDOUT,
                       "%s: rank %d did not take part within %g s (ZERO_TIMEOUT): look at its "
                       "output; who is only slow needs a larger ZERO_TIMEOUT",
                       doing, g->world[p], (double)ctx->timeout_ns / 1e9);
        nap();
    }
    return 0;
}

/* Gathers the notices of all ranks of the group. Fails alike on all when one has failed. */
static int board_gather(struct zero_comm_ctx *ctx, struct group *g, const struct notice *mine,
                        struct notice *all)
{
    int64_t until = deadline_ns(ctx->timeout_ns);
    struct board *own = board_of(g, g->rank);
    unsigned half = g->turn % 2;
    int err;

    own->notice[half] = *mine;
    atomic_store(&own->turn, ++g->turn);
    for (int32_t p = 0; p < g->ranks; p++) {
        err = board_await(ctx, g, p, call_name(mine->call), until);
        if (err)
            return err;
        all[p] = board_of(g, p)->notice[half];
    }
    for (int32_t p = 0; p < g->ranks; p++)
        if (all[p].call != all[0].call)
            return say(ctx->host, -EPROTO,
                       "ranks %d and %d call different things: %s and %s; every rank must make "
                       "the same calls in the same order",
                       g->world[0], g->world[p], call_name(all[0].call), call_name(all[p].call));
    for (int32_t p = 0; p < g->ranks && !mine->status; p++)
        if (all[p].status)
            return say(ctx->host, all[p].status < 0 ? all[p].status : -EPROTO,
                       "%s failed on rank %d", call_name(mine->call), g->world[p]);
    return mine->status; /* said where it failed */
}

/* ---- Contexts -------------------------------------------------------------------------------- */

/*
 * Says what the plugin can do *here*: a real one looks for its devices. Everything declared is
 * tested by `zero check comm`, everything else must be refused: post() reads the same macros. This
 * one reduces four of the seven types, gives no memory of its own (alloc) and maps nothing. It
 * fills in no more than the library knows, which may be older than this plugin.
 */
static int template_probe(const struct zero_host *host, struct zero_comm_caps *caps)
{
    if (access("/proc/self/fd", X_OK))
        return say(host, -ENODEV, "/proc is not mounted, so ranks cannot find each other's memory");
    struct zero_comm_caps full = {
        .size = caps->size,
        .flags = FLAGS,
        .kinds = KINDS,
        .redops = REDOPS,
        .dtypes = DTYPES,
        .mem = ZERO_MEM_HOST,
        .max_ranks = RANKS_MOST,
        .max_inflight = SLOTS,
        .note = "an example: ranks of one machine, through copies"};

    memcpy(caps, &full, caps->size < sizeof full ? caps->size : sizeof full);
    return 0;
}

static void comm_free(struct zero_comm *comm)
{
    segment_leave(&comm->memory);
    free(comm);
}

/* Ends what is still open; also what an open() that failed has left. */
static int template_close(struct zero_comm_ctx *ctx)
{
    while (ctx->comms) {
        struct zero_comm *comm = ctx->comms;
        ctx->comms = comm->next;
        comm_free(comm);
    }
    while (ctx->mrs) {
        struct zero_mr *mr = ctx->mrs;
        ctx->mrs = mr->next;
        free(mr);
    }
    segment_leave(&ctx->control);
    free(ctx);
    return 0;
}

/* Rank 0 makes the seats, the others join. A network would exchange its endpoints' names here. */
static int control_join(struct zero_comm_ctx *ctx, const struct zero_comm_open *params)
{
    int64_t until = deadline_ns(params->timeout_ns);
    uint64_t bytes = (uint64_t)ctx->all.ranks * sizeof(struct seat);
    struct notice mine = {0}, all[RANKS_MOST];
    int err;

    if (ctx->all.rank == 0)
        mine.status = segment_create(ctx->host, bytes, &ctx->control, &mine.where);
    for (int round = 0; round < 2; round++) { /* addresses; then whether all could join */
        err = oob_gather(params, until, &mine, sizeof mine, all);
        for (int32_t p = 0; p < ctx->all.ranks && !err && !mine.status; p++)
            if (all[p].status)
                err = say(ctx->host, all[p].status, "open failed on rank %d", p);
        if (err || mine.status)
            return err ? err : mine.status;
        if (round == 0 && ctx->all.rank != 0)
            mine.status = segment_join(ctx->host, 0, &all[0].where, bytes, &ctx->control);
    }
    if (ctx->all.rank == 0) { /* all have mapped it: the descriptor has done its work */
        close(ctx->control.fd);
        ctx->control.fd = -1;
    }
    return 0;
}

static int template_open(const struct zero_comm_open *params, struct zero_comm_ctx **out)
{
    const struct zero_oob *oob = params->oob;
    struct zero_comm_ctx *ctx;
    int err;

    if (!oob || oob->ranks < 1 || oob->ranks > RANKS_MOST)
        return say(params->host, -EINVAL, "%d ranks: this plugin is for 1 to %d",
                   oob ? oob->ranks : 0, RANKS_MOST);
    /* A device, params->device_ops, does not matter: probe() offers the host's memory only, and the
     * library copies from and to it. */
    ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return say(params->host, -ENOMEM, "no memory for a context");
    ctx->host = params->host; /* valid until close(); `params` itself is not */
    ctx->timeout_ns = params->timeout_ns;
    ctx->control.fd = -1;
    ctx->all.rank = oob->rank;
    ctx->all.ranks = oob->ranks;
    for (int32_t p = 0; p < oob->ranks; p++)
        ctx->all.world[p] = p;
    err = control_join(ctx, params);
    if (err) {
        template_close(ctx);
        return err;
    }
    ctx->seats = ctx->control.base;
    ctx->all.boards = (char *)&ctx->seats[0].board;
    ctx->all.stride = sizeof(struct seat);
    *out = ctx;
    return 0;
}

/* Any thread: nothing but atomics. */
static int template_wake(struct zero_comm_ctx *ctx)
{
    atomic_store(&ctx->woken, 1);
    seat_ring(ctx, ctx->all.rank);
    return 0;
}

/* Any thread, as often as one likes. Peers see the flag in the seat the next time they look. */
static int template_abort(struct zero_comm_ctx *ctx)
{
    atomic_store(&ctx->aborted, 1);
    atomic_store(&ctx->seats[ctx->all.rank].aborted, 1);
    for (int32_t p = 0; p < ctx->all.ranks; p++)
        seat_ring(ctx, p);
    return 0;
}

/* ---- Memory -----------------------------------------------------------------------------------
 *
 * Peers never touch this rank's memory, so a registration is a note of where it is, and any memory
 * will do. A network pins it here and gives the keys to the peers in exchange().
 */

static int template_reg(struct zero_comm_ctx *ctx, void *base, uint64_t bytes, uint32_t mem,
                        struct zero_mr **out)
{
    struct zero_mr *mr;

    if (mem != ZERO_MEM_HOST)
        return say(ctx->host, -ENOTSUP, "reg: memory kind %u, but only host memory will do", mem);
    mr = calloc(1, sizeof *mr);
    if (!mr)
        return say(ctx->host, -ENOMEM, "no memory for a registration");
    *mr = (struct zero_mr){.next = ctx->mrs, .base = base, .bytes = bytes};
    ctx->mrs = mr;
    *out = mr;
    return 0;
}

static int template_unreg(struct zero_comm_ctx *ctx, struct zero_mr *mr)
{
    struct zero_mr **link = &ctx->mrs;

    while (*link && *link != mr)
        link = &(*link)->next;
    if (!*link)
        return say(ctx->host, -EINVAL, "unreg: this registration is unknown");
    *link = mr->next;
    free(mr);
    return 0;
}

static int template_exchange(struct zero_comm_ctx *ctx, struct zero_mr *mr)
{
    struct notice mine = {.call = CALL_EXCHANGE}, all[RANKS_MOST];
    int err;

    if (mr->exchanged)
        mine.status = say(ctx->host, -EINVAL, "exchange: this registration was exchanged before");
    err = board_gather(ctx, &ctx->all, &mine, all);
    if (!err)
        mr->exchanged = true;
    return err;
}

/* ---- Communicators --------------------------------------------------------------------------- */

/* The ranks of this rank's color, by key, then by rank; *first: the first one's rank in g. */
static struct zero_comm *comm_form(struct zero_comm_ctx *ctx, const struct group *g,
                                   const struct notice *all, int32_t *first)
{
    struct zero_comm *comm = calloc(1, sizeof *comm);
    int32_t order[RANKS_MOST], n = 0;

    if (!comm)
        return NULL;
    for (int32_t p = 0; p < g->ranks; p++) {
        int32_t i = n;
        if (all[p].color != all[g->rank].color)
            continue;
        for (; i > 0 && all[order[i - 1]].key > all[p].key; i--)
            order[i] = order[i - 1];
        order[i] = p;
        n++;
    }
    comm->ctx = ctx;
    comm->memory.fd = -1;
    comm->group.ranks = n;
    for (int32_t i = 0; i < n; i++) {
        comm->group.world[i] = g->world[order[i]];
        if (order[i] == g->rank)
            comm->group.rank = i;
    }
    *first = order[0];
    return comm;
}

/* The first rank of the new communicator makes its memory; two meetings of the parent's ranks. */
static int comm_join(struct zero_comm_ctx *ctx, struct group *g, struct zero_comm *comm, int status,
                     int32_t first, struct notice *all)
{
    struct notice mine = {.call = CALL_SPLIT, .status = status};
    uint64_t bytes = comm ? (uint64_t)comm->group.ranks * sizeof(struct lane) : 0;
    bool makes = comm && comm->group.rank == 0;
    int err;

    if (makes)
        mine.status = segment_create(ctx->host, bytes, &comm->memory, &mine.where);
    err = board_gather(ctx, g, &mine, all);
    if (err)
        return err;
    if (comm && !makes)
        mine.status =
            segment_join(ctx->host, comm->group.world[0], &all[first].where, bytes, &comm->memory);
    err = board_gather(ctx, g, &mine, all);
    if (!err && makes) {
        close(comm->memory.fd);
        comm->memory.fd = -1;
    }
    return err;
}

static int template_split(struct zero_comm_ctx *ctx, struct zero_comm *parent, int32_t color,
                          int32_t key, struct zero_comm **out)
{
    struct group *g = parent ? &parent->group : &ctx->all;
    struct notice mine = {.call = CALL_SPLIT, .color = color, .key = key}, all[RANKS_MOST];
    struct zero_comm *comm = NULL;
    int32_t first = 0;
    int err;

    if (color < -1)
        mine.status = say(ctx->host, -EINVAL, "split: color %d is negative", color);
    err = board_gather(ctx, g, &mine, all);
    if (err)
        return err;
    if (color >= 0 && !(comm = comm_form(ctx, g, all, &first)))
        mine.status = say(ctx->host, -ENOMEM, "no memory for a communicator");
    err = comm_join(ctx, g, comm, mine.status, first, all);
    if (err) {
        if (comm)
            comm_free(comm);
        return err;
    }
    if (comm) {
        comm->lanes = comm->memory.base;
        comm->group.boards = (char *)&comm->lanes[0].board;
        comm->group.stride = sizeof(struct lane);
        comm->next = ctx->comms;
        ctx->comms = comm;
    }
    *out = comm; /* NULL for color -1: it took part and gets none */
    return 0;
}

static int template_comm_close(struct zero_comm *comm)
{
    struct zero_comm **link = &comm->ctx->comms;

    while (*link != comm)
        link = &(*link)->next;
    *link = comm->next;
    comm_free(comm);
    return 0;
}

/* For the error message when a deadline passes: whom the oldest unfinished collective waits for. */
static int template_missing(struct zero_comm *comm, int32_t *ranks, uint32_t max)
{
    const struct group *g = &comm->group;
    uint32_t n = 0;

    if (comm->completed == comm->posted)
        return 0;
    for (int32_t p = 0; p < g->ranks && n < max; p++)
        if (atomic_load(&comm->lanes[p].posted) <= comm->completed)
            ranks[n++] = g->world[p];
    for (int32_t p = 0; p < g->ranks && n == 0 && max > 0; p++)
        if (p != g->rank && atomic_load(&comm->lanes[p].done) <= comm->completed)
            ranks[n++] = g->world[p];
    return (int)n;
}

static int template_wire_bytes(struct zero_comm *comm, uint64_t *bytes)
{
    *bytes = comm->wire;
    return 0;
}

/* ---- The entry --------------------------------------------------------------------------------
 *
 * Everything here is constant and static: the library copies the table and never writes to it.
 * alloc, free and map are left out: they are optional, and only what is there is ever called.
 */

static const struct zero_comm_ops ops = {
    .size = sizeof(struct zero_comm_ops),
    .probe = template_probe,
    .open = template_open,
    .close = template_close,
    .reg = template_reg,
    .unreg = template_unreg,
    .exchange = template_exchange,
    .progress = template_progress,
    .wake = template_wake,
    .abort = template_abort,
    .split = template_split,
    .post = template_post,
    .error = template_error,
    .missing = template_missing,
    .wire_bytes = template_wire_bytes,
    .comm_close = template_comm_close,
};

static const struct zero_iface ifaces[] = {
    {.kind = ZERO_IFACE_COMM, .major = ZERO_COMM_MAJOR, .minor = ZERO_COMM_MINOR, .ops = &ops},
};

static const struct zero_plugin plugin = {
    .size = sizeof(struct zero_plugin),
    .name = NAME,
    .version = "1",
    .build = __VERSION__,
    .ifaces = ifaces,
    .n_ifaces = sizeof ifaces / sizeof ifaces[0],
};

/* The only exported symbol. Nothing may be started here: a listing calls this, too. */
ZERO_PLUGIN_EXPORT int zero_plugin_v1(const struct zero_host *host, const struct zero_plugin **out)
{
    (void)host;
    *out = &plugin;
    return 0;
}
