/* SPDX-License-Identifier: Apache-2.0 */
/* A rank of a benchmark or a check; see comm.h. */
#include "config.h"

#include "comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/status.h"
#include "device/host.h"
#include "machine/clock.h"
#include "machine/pages.h"
#include "plugins/common/list.h"

#define PATIENCE_NS INT64_C(100000000) /* of one call of progress() */

static int options_load(struct tool_comm *b)
{
    int err = zero__options_load(NULL, 0, &b->options);

    b->log.rank = -1;
    if (!err)
        zero__option_levels(b->options, &b->log);
    return err;
}

static int plugin_load(struct tool_comm *b, const char *name, int ranks)
{
    struct zero__plugin *plugin;
    static const struct zero_plugin *const builtins[] = {&zero__host_device_plugin};
    int err = zero__loader_create(b->options, &b->log, builtins, 1, &b->loader);

    if (!err)
        err = zero__loader_load(b->loader, ZERO_IFACE_COMM, name, &plugin);
    if (err)
        return err;
    b->ops = *zero__plugin_comm(plugin);
    b->caps.size = sizeof b->caps;
    err = b->ops.probe(zero__loader_host(b->loader), &b->caps);
    if (err)
        return zero__while(err, "comm plugin %s", name);
    if (b->caps.max_ranks && (uint32_t)ranks > b->caps.max_ranks)
        return zero__fail(-EINVAL,
                          "comm plugin %s works for at most %u rank%s, not %d: choose another with "
                          "--comm, or start fewer ranks",
                          name, b->caps.max_ranks, b->caps.max_ranks == 1 ? "" : "s", ranks);
    return 0;
}

int tool_comm_probe(const char **name, int ranks, char *room, struct zero_comm_caps *caps)
{
    struct tool_comm b = {0};
    const char *chosen = *name;
    int err = options_load(&b);

    if (!err && !chosen) {
        snprintf(room, TOOL_COMM_NAME, "%s", zero__option_text(b.options, ZERO__OPT_COMM));
        chosen = room;
    }
    if (!err && !*chosen)
        chosen = ranks == 1 ? "self" : "shm";
    if (!err)
        err = plugin_load(&b, chosen, ranks);
    if (!err) {
        *name = chosen;
        *caps = b.caps;
    }
    zero__loader_free(b.loader);
    zero__options_free(b.options);
    return err;
}

/* A rank has died or failed: nobody waits for it any longer. */
static void job_failed(void *arg)
{
    struct tool_comm *b = arg;

    b->ops.abort(b->ctx);
    b->ops.wake(b->ctx);
}

static int job_open(struct tool_comm *b)
{
    struct zero__job_params p;
    int err = zero__job_params_from(NULL, b->options, &p);

    if (err)
        return err;
    b->timeout_ns = p.timeout_ns;
    p.log = &b->log;
    err = zero__job_open(&p, &b->job);
    if (err)
        return err;
    b->rank = zero__job_rank(b->job);
    b->ranks = zero__job_ranks(b->job);
    b->log.rank = b->ranks > 1 ? b->rank : -1;
    return 0;
}

int tool_comm_join(struct tool_comm *b, const char *name)
{
    int err;

    *b = (struct tool_comm){.who = "zero bench"};
    err = options_load(b);
    if (!err)
        err = job_open(b);
    return err ? err : plugin_load(b, name, b->ranks);
}

int tool_comm_open(struct tool_comm *b, const char *name)
{
    int err = tool_comm_join(b, name);

    if (err)
        return err;
    struct zero_comm_open params = {.size = sizeof params,
                                    .host = zero__loader_host(b->loader),
                                    .oob = zero__job_oob(b->job),
                                    .device = -1,
                                    .timeout_ns = b->timeout_ns,
                                    .interface = zero__job_interface(b->job)};
    err = b->ops.open(&params, &b->ctx);
    if (err)
        return err;
    zero__job_on_error(b->job, job_failed, b);
    return b->ops.split(b->ctx, NULL, 0, b->rank, &b->comm);
}

/* By one of the others, of a rank that says nothing itself, since it was stopped or is dead. */
static void lost_tell(const struct tool_comm *b)
{
    struct zero__job_error e;

    if (b->job && zero__job_error(b->job, &e) && e.reporter != e.culprit &&
        b->rank == (e.culprit == 0))
        fprintf(stderr, "%s: rank %d failed: %s\n", b->who, e.culprit, e.cause);
}

int tool_comm_close(struct tool_comm *b, int err)
{
    char mine = 0, all[ZERO__JOB_MAX_RANKS];

    if (!err && b->ranks > 1) /* nobody leaves while a peer may still read its memory */
        err = zero__job_allgather(b->job, &mine, 1, all);
    if (err == -ECANCELED || err == -ECONNABORTED) {
        lost_tell(b);
    } else if (err) {
        fprintf(stderr, "%s: rank %d: %s\n", b->who, b->rank, zero__error_text());
        if (b->job)
            zero__job_fail(b->job, b->rank, err, b->who, zero__error_text());
    }
    if (err && b->ctx)
        b->ops.abort(b->ctx);
    if (b->comm)
        b->ops.comm_close(b->comm);
    if (b->job)
        zero__job_close(b->job, !err); /* its thread may call abort until now */
    while (b->regions)
        tool_region_free(b, b->regions);
    if (b->ctx)
        b->ops.close(b->ctx);
    zero__loader_free(b->loader);
    zero__options_free(b->options);
    return err ? 1 : 0;
}

/* Memory of our own for a plugin that has none to give; in huge pages, as that of training is. */
static int region_register(struct tool_comm *b, uint64_t bytes, struct tool_region *out)
{
    void *p;

    if (posix_memalign(&p, bytes < ZERO__HUGE_BYTES ? 4096 : ZERO__HUGE_BYTES, bytes))
        return zero__fail(-ENOMEM, "no memory for %llu bytes: lower --bytes",
                          (unsigned long long)bytes);
    madvise(p, bytes / ZERO__HUGE_BYTES * ZERO__HUGE_BYTES, MADV_HUGEPAGE); /* a wish */
    memset(p, 0, bytes);
    int err = b->ops.reg(b->ctx, p, bytes, ZERO_MEM_HOST, &out->mr);
    if (err) {
        free(p);
        return err;
    }
    out->base = p;
    out->registered = 1;
    return 0;
}

int tool_region_create(struct tool_comm *b, uint64_t bytes, struct tool_region *out)
{
    struct tool_region r = {.next = b->regions, .bytes = bytes};
    void *base = NULL;
    int err;

    if (b->ops.alloc) {
        err = b->ops.alloc(b->ctx, bytes, ZERO_MEM_HOST, &base, &r.mr);
        r.base = base;
    } else {
        err = region_register(b, bytes, &r);
    }
    if (err)
        return err;
    *out = r;
    b->regions = out;
    err = b->ops.exchange(b->ctx, r.mr);
    if (err)
        tool_region_free(b, out);
    return err;
}

void tool_region_free(struct tool_comm *b, struct tool_region *r)
{
    if (!r->mr)
        return;
    ZERO__UNLINK(&b->regions, r);
    if (!r->registered) {
        b->ops.free(b->ctx, r->mr);
    } else {
        b->ops.unreg(b->ctx, r->mr);
        free(r->base);
    }
    r->mr = NULL;
}

static int too_late(struct tool_comm *b)
{
    int32_t who[1] = {-1};
    int n = b->ops.missing ? b->ops.missing(b->comm, who, 1) : 0;
    char whom[32] = "the other ranks";

    if (n > 0)
        snprintf(whom, sizeof whom, "rank %d", who[0]);
    return zero__fail(-ETIMEDOUT,
                      "a collective waited %g s (ZERO_TIMEOUT) for %s: look at the output there; "
                      "who is only slow needs a larger ZERO_TIMEOUT",
                      (double)b->timeout_ns / 1e9, whom);
}

int tool_comm_run(struct tool_comm *b, struct zero_coll *c)
{
    struct zero_cqe cqe;
    int64_t deadline = 0;
    int n;

    c->sequence = c->user = ++b->sequence;
    int err = b->ops.post(b->comm, c, 1, NULL);
    if (err)
        return err;
    while ((n = b->ops.progress(b->ctx, &cqe, 1, PATIENCE_NS)) == 0) {
        if (!deadline) /* the clock is read only when something is slow */
            deadline = zero__deadline_ns(b->timeout_ns);
        else if (zero__now_ns() >= deadline)
            return too_late(b);
    }
    if (n < 0)
        return n;
    if (cqe.user != c->user)
        return zero__fail(-EPROTO, "the plugin completed a collective that was not posted: %llu",
                          (unsigned long long)cqe.user);
    return cqe.res < 0 ? (int)cqe.res : 0;
}

int tool_comm_barrier(struct tool_comm *b)
{
    struct zero_coll c = {.kind = ZERO_BARRIER, .scale = 1};
    char all[ZERO__JOB_MAX_RANKS], mine = 0;

    if (b->caps.kinds & 1u << ZERO_BARRIER)
        return tool_comm_run(b, &c);
    return tool_comm_gather(b, &mine, 1, all); /* ranks leave it less evenly */
}

int tool_comm_gather(struct tool_comm *b, const void *src, uint32_t bytes, void *dst)
{
    if (b->ranks == 1) {
        memcpy(dst, src, bytes);
        return 0;
    }
    return zero__job_allgather(b->job, src, bytes, dst);
}
