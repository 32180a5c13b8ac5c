/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening finds out whether the ranks can share memory at all, then they share one control block:
 * a seat each, with a bell, a flag for aborts and a board. The library's exchange is used for this
 * only; everything after goes through shared memory.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/oob.h"
#include "../common/reduce.h"
#include "machine/host.h"
#include "shm.h"

#define PROTOCOL 4u /* of what lies in shared memory */

/* What ranks must have in common to share memory. */
struct hello {
    uint32_t protocol, seat_bytes, lane_bytes, uid;
    uint64_t pid_namespace;
    struct zero__host machine;
    struct zero__cores cores;
    uint32_t mem; /* of a device that could share it; 0: none */
    struct shm_correspondent self;
};

int zero__shm_probe(const struct zero_host *host, struct zero_comm_caps *caps)
{
    struct zero__voice v = {host, SHM_NAME};
    enum zero__isa isa;
    bool wanted;
    int wrong = zero__isa_select(host, SHM_NAME, &isa);
    int err = zero__shm_device_wish(&v, &wanted); /* also then: a listing has it */

    if (err || wrong)
        return err ? err : wrong;
    if (access("/proc/self/fd", X_OK))
        return zero__say(&v, -ENODEV,
                         "/proc is not mounted, so ranks cannot find each other's memory");
    zero__caps_of_host(
        caps, ZERO_COMM_ORDERED | ZERO_COMM_ACCUMULATE | ZERO_COMM_FINGERPRINT | ZERO_COMM_MAP,
        SHM_MAX_RANKS, SHM_SLOTS);
    snprintf(caps->note, sizeof caps->note, "ranks of one machine, sums with %s",
             zero__isa_name(isa));
    return 0;
}

static void hello_fill(struct hello *h)
{
    struct stat st;

    memset(h, 0, sizeof *h);
    h->protocol = PROTOCOL;
    h->seat_bytes = sizeof(struct shm_seat);
    h->lane_bytes = sizeof(struct shm_lane);
    h->uid = geteuid();
    if (stat("/proc/self/ns/pid", &st) == 0)
        h->pid_namespace = st.st_ino;
    zero__host_here(&h->machine);
    zero__cores_here(&h->cores);
}

static int hello_check(const struct zero__voice *v, const struct hello *all, int32_t ranks)
{
    for (int32_t p = 1; p < ranks; p++) {
        const struct hello *a = &all[0], *b = &all[p];
        if (!zero__host_same_kernel(&a->machine, &b->machine))
            return zero__say(v, -EXDEV,
                             "ranks 0 and %d run on different machines: shm works on one, choose "
                             "another plugin with ZERO_COMM",
                             p);
        if (a->protocol != b->protocol || a->seat_bytes != b->seat_bytes ||
            a->lane_bytes != b->lane_bytes)
            return zero__say(v, -EPROTO,
                             "ranks 0 and %d run different versions of the plugin: start all with "
                             "the same libzero",
                             p);
        if (a->uid != b->uid)
            return zero__say(v, -EPERM,
                             "rank 0 runs as user %u, rank %d as user %u: start all "
                             "ranks as one user",
                             a->uid, p, b->uid);
        if (a->pid_namespace != b->pid_namespace)
            return zero__say(v, -EXDEV,
                             "ranks 0 and %d run in different PID namespaces (containers): start "
                             "all ranks in one",
                             p);
    }
    return 0;
}

/* Rank 0 makes the control block, all others join it. */
static int control_join(struct zero_comm_ctx *ctx, const struct zero_oob *oob, int64_t until,
                        struct shm_notice *all)
{
    struct shm_notice mine = {.call = SHM_CALL_OPEN};
    uint64_t bytes = (uint64_t)ctx->ranks * sizeof(struct shm_seat);
    int err;

    if (ctx->rank == 0) {
        mine.status = zero__segment_create(&ctx->voice, bytes, &ctx->control);
        if (!mine.status)
            mine.status = zero__segment_address(ctx->control, &mine.memory);
    }
    err = zero__oob_gather(&ctx->voice, oob, until, "open", &mine, sizeof mine, all);
    if (err)
        return err;
    err = zero__notices_check(ctx, &ctx->table, all, "open");
    if (err)
        return err;
    if (ctx->rank != 0)
        mine.status =
            zero__segment_join(&ctx->voice, 0, &all[0].memory, bytes, true, &ctx->control);
    err = zero__oob_gather(&ctx->voice, oob, until, "open", &mine, sizeof mine, all);
    return err ? err : zero__notices_check(ctx, &ctx->table, all, "open");
}

/* What all ranks may use together; a bound one alone would know of its own core only. */
static void cores_find(struct zero_comm_ctx *ctx, const struct hello *all)
{
    struct zero__cores cores = {{0}};

    for (int32_t p = 0; p < ctx->ranks; p++)
        zero__cores_add(&cores, &all[p].cores);
    zero__caches_find(&ctx->caches, &cores, NULL);
    ctx->idle.shared = (uint32_t)ctx->ranks > zero__cores_busy(&cores, NULL);
}

/*
 * Could all ranks share memory of a device? Sockets meet in one network namespace only. Every rank
 * comes to the same answer.
 */
static bool could_share(const struct zero_comm_ctx *ctx, const struct hello *all)
{
    for (int32_t p = 0; p < ctx->ranks; p++)
        if (!all[p].mem || all[p].mem != all[0].mem || !all[p].self.name_bytes ||
            all[p].self.name_bytes > SHM_SOCKET_NAME ||
            !zero__host_same(&all[p].machine, &all[0].machine))
            return false;
    return true;
}

static int context_join(struct zero_comm_ctx *ctx, const struct zero_comm_open *params,
                        bool *shares)
{
    int64_t until = zero__deadline_ns(ctx->timeout_ns);
    struct hello mine, *hellos = calloc((size_t)ctx->ranks, sizeof *hellos);
    const struct zero_oob *oob = params->oob;
    int err;

    ctx->notices = calloc((size_t)ctx->ranks, sizeof *ctx->notices);
    if (!hellos || !ctx->notices) {
        err = zero__say(&ctx->voice, -ENOMEM, "no memory for a context");
        goto end;
    }
    hello_fill(&mine);
    zero__shm_device_find(ctx, params, &mine.self);
    mine.mem = ctx->device.mem;
    err = zero__oob_gather(&ctx->voice, oob, until, "open", &mine, sizeof mine, hellos);
    if (!err)
        err = hello_check(&ctx->voice, hellos, ctx->ranks);
    if (!err)
        cores_find(ctx, hellos);
    if (!err)
        err = control_join(ctx, oob, until, ctx->notices);
    *shares = !err && could_share(ctx, hellos);
    for (int32_t p = 0; p < ctx->ranks && *shares; p++)
        ctx->device.ranks[p] = hellos[p].self;
end:
    free(hellos);
    return err;
}

int zero__shm_open(const struct zero_comm_open *params, struct zero_comm_ctx **out)
{
    struct zero__voice v = {params->host, SHM_NAME};
    const struct zero_oob *oob = params->oob;
    enum zero__isa isa;
    int err = zero__isa_select(params->host, SHM_NAME, &isa);
    struct zero_comm_ctx *ctx;
    bool wanted, shares;

    if (!err)
        err = zero__oob_check(&v, oob, SHM_MAX_RANKS);
    if (!err)
        err = zero__shm_device_wish(&v, &wanted);
    if (err)
        return err;
    if (params->device >= 0)
        return zero__say(&v, -ENOTSUP, "shm takes a device by its table, not by its number");
    ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return zero__say(&v, -ENOMEM, "no memory for a context");
    ctx->voice = v;
    ctx->isa = isa;
    ctx->timeout_ns = params->timeout_ns;
    ctx->rank = ctx->table.rank = oob->rank;
    ctx->ranks = ctx->table.ranks = oob->ranks;
    ctx->device.wanted = wanted;
    ctx->device.socket = -1;
    err = context_join(ctx, params, &shares);
    if (!err) {
        ctx->seats = (struct shm_seat *)ctx->control->base;
        ctx->table.first = (char *)&ctx->seats[0].board;
        ctx->table.stride = sizeof(struct shm_seat);
    }
    if (!err && shares)
        err = zero__shm_device_try(ctx);
    if (err) {
        zero__shm_close(ctx);
        return err;
    }
    *out = ctx;
    return 0;
}

int zero__shm_close(struct zero_comm_ctx *ctx)
{
    while (ctx->comms)
        zero__shm_comm_close(ctx->comms);
    while (ctx->mrs)
        zero__shm_unreg(ctx, ctx->mrs);
    zero__shm_device_leave(ctx);
    zero__segment_leave(ctx->control);
    free(ctx->regions);
    free(ctx->notices);
    free(ctx);
    return 0;
}

int zero__shm_wake(struct zero_comm_ctx *ctx)
{
    atomic_store(&ctx->woken, 1);
    zero__bell_ring(&ctx->seats[ctx->rank].bell);
    return 0;
}

int zero__shm_abort(struct zero_comm_ctx *ctx)
{
    atomic_store(&ctx->aborted, 1);
    atomic_store(&ctx->seats[ctx->rank].aborted, 1);
    for (int32_t p = 0; p < ctx->ranks; p++)
        zero__bell_ring(&ctx->seats[p].bell);
    return 0;
}
