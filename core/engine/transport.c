/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which communication plugin moves the data: the one that was asked for, else `self` for one rank,
 * `nccl` where it works on all ranks and sums need no order, `shm` for ranks of one host, and for
 * several hosts the first of a list that works on all of them.
 * Ranks compare what they were told and what they found, so that all open the same plugin or all
 * hear why not; a network that cannot be opened is followed by the next one, on all ranks. A plugin
 * that was asked for is never replaced by another one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "engine/runtime.h"
#include "machine/text.h"
#include "run/inside.h"

#define NAME_BYTES 64
#define WHY_BYTES 256

/* That of GPUs, on one host and on several. */
static const char nccl[] = "nccl";
/* Those that reach other hosts, the better one first. */
static const char *const networks[] = {"ucx", "ofi"};
#define N_NETWORKS (sizeof networks / sizeof *networks)

/* What a rank thinks of a plugin. */
struct finding {
    int32_t err;
    char why[WHY_BYTES];
};

/* What a step needs and the plugin does not have; NULL: nothing. `mem`: of the device. */
static const char *lacks(const struct zero_comm_caps *caps, bool relaxed, uint32_t mem)
{
    static const uint32_t kinds[] = {ZERO_ALL_GATHER, ZERO_REDUCE_SCATTER, ZERO_BROADCAST,
                                     ZERO_BARRIER};

    if (!(caps->mem & (mem | ZERO_MEM_HOST))) /* to and from the host's memory there is the relay */
        return mem == ZERO_MEM_HOST
                   ? "memory of the host (ZERO_DEVICE is one; cuda gives each rank a GPU)"
                   : "memory of ZERO_DEVICE";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!(caps->kinds & 1u << kinds[i]))
            return zero_coll_name(kinds[i]);
    if (!relaxed && !(caps->flags & ZERO_COMM_ORDERED))
        return "sums in the order of the ranks (ORDERED; ZERO_NUMERICS=relaxed does without)";
    if (!(caps->redops & 1u << ZERO_SUM) || !(caps->dtypes & 1u << ZERO_F32))
        return "sums of fp32";
    return caps->max_inflight ? NULL : "room for a collective (max_inflight)";
}

static bool is_relaxed(const struct zero_runtime *rt)
{
    return zero__option_int(rt->site.options, ZERO__OPT_NUMERICS) == ZERO__NUMERICS_RELAXED;
}

/* Loads the plugin and asks it whether it would do for this job. */
static int examine(struct zero_runtime *rt, const char *name, struct zero__plugin **plugin)
{
    bool relaxed = is_relaxed(rt);
    struct zero_comm_caps caps = {.size = sizeof caps};
    int err = zero__loader_load(rt->site.loader, ZERO_IFACE_COMM, name, plugin);

    if (err)
        return err;
    zero__unsay();
    err = zero__plugin_comm(*plugin)->probe(zero__loader_host(rt->site.loader), &caps);
    if (err)
        return zero__while(zero__unsaid(err, name), "comm plugin");
    if (caps.max_ranks && (uint32_t)rt->site.ranks > caps.max_ranks)
        return zero__fail(-EINVAL,
                          "comm plugin %s works for at most %u rank%s, not %d: choose another with "
                          "ZERO_COMM, or start fewer ranks",
                          name, caps.max_ranks, caps.max_ranks == 1 ? "" : "s", rt->site.ranks);
    if (lacks(&caps, relaxed, rt->site.device_mem))
        return zero__fail(-ENOTSUP,
                          "comm plugin %s does not offer %s, which training needs: choose another "
                          "with ZERO_COMM",
                          name, lacks(&caps, relaxed, rt->site.device_mem));
    rt->site.caps = caps;
    return 0;
}

/* The name in "ucx" and in "/some/where/zero-comm-ucx.so", which may lie elsewhere on each host. */
static void name_of(const char *text, char name[NAME_BYTES])
{
    const char *slash = strrchr(text, '/');
    int n;

    text = slash ? slash + 1 : text;
    if (slash && strncmp(text, "zero-comm-", 10) == 0)
        text += 10;
    n = (int)strlen(text);
    if (slash && n > 3 && strcmp(text + n - 3, ".so") == 0)
        n -= 3;
    memset(name, 0, NAME_BYTES);
    snprintf(name, NAME_BYTES, "%.*s", n, text);
}

/* Ranks that were told different things would wait for each other in different plugins. */
static int compare_wishes(struct zero_runtime *rt, const char *wish)
{
    struct {
        char name[NAME_BYTES];
        int32_t relaxed;
    } mine = {.relaxed = is_relaxed(rt)}, *all;
    int err;

    name_of(wish, mine.name);
    all = zero__ranks_ask(&rt->site, &mine, sizeof mine, &err);
    for (int r = 1; r < rt->site.ranks && !err; r++) {
        zero__text_clean(all[r].name, NAME_BYTES);
        zero__text_clean(all[0].name, NAME_BYTES);
        if (strcmp(all[r].name, all[0].name) != 0)
            err = zero__fail(-EPROTO,
                             "the comm plugin is %s on rank %d and %s on rank 0: give all ranks "
                             "the same ZERO_COMM, or none of them",
                             *all[r].name ? all[r].name : "not given", r,
                             *all[0].name ? all[0].name : "not given");
        else if (all[r].relaxed != all[0].relaxed)
            err = zero__fail(-EPROTO,
                             "ZERO_NUMERICS is %s on rank %d and not on rank 0: give all ranks "
                             "the same",
                             all[r].relaxed ? "relaxed" : "ordered", r);
        if (err)
            zero__job_fail(rt->site.job, -1, err, "", zero__error_text());
    }
    free(all);
    return err;
}

/* Ranks whose times differ give up one while another still waits: legal, and hardly ever meant. */
static int compare_times(struct zero_runtime *rt)
{
    static const struct {
        const char *name, *then;
    } what[] = {{"ZERO_TIMEOUT", "each goes by its own"},
                {"ZERO_HEARTBEAT", "that of rank 0 counts"}};
    double mine[] = {zero__option_real(rt->site.options, ZERO__OPT_TIMEOUT),
                     zero__option_real(rt->site.options, ZERO__OPT_HEARTBEAT)};
    int err;
    double(*all)[2] = zero__ranks_ask(&rt->site, mine, sizeof mine, &err);

    for (int i = 0; i < 2 && !err && rt->site.rank == 0; i++) {
        int r = 1;
        while (r < rt->site.ranks && all[r][i] == all[0][i])
            r++;
        if (r < rt->site.ranks)
            zero__log(&rt->site.log, ZERO_LOG_WARN, "engine",
                      "%s is %g s on rank 0 and %g s on rank %d: %s; give all ranks the same",
                      what[i].name, all[0][i], all[r][i], r, what[i].then);
    }
    free(all);
    return err;
}

/* Does every rank find (err) the plugin good? Else `who` is the first that does not, and why. */
static int ask_all(struct zero_runtime *rt, int err, int *who, char why[WHY_BYTES])
{
    struct finding mine = {.err = err}, *all;

    if (err)
        snprintf(mine.why, sizeof mine.why, "%s", zero__error_text());
    *who = -1;
    all = zero__ranks_ask(&rt->site, &mine, sizeof mine, &err);
    for (int r = 0; r < rt->site.ranks && !err && *who < 0; r++)
        if (all[r].err) {
            *who = r;
            zero__text_clean(all[r].why, WHY_BYTES);
            snprintf(why, WHY_BYTES, "%s", all[r].why);
        }
    free(all);
    return err;
}

/* The same for ranks on several hosts: a plugin may work here, and lead nowhere. */
static int examine_network(struct zero_runtime *rt, const char *name, struct zero__plugin **plugin)
{
    int err = examine(rt, name, plugin);

    if (!err && strcmp(name, nccl) == 0 && rt->site.device_sharers > 1 &&
        !zero__device_is_host(&rt->site))
        return zero__fail(-EBUSY, "%u ranks share this rank's GPU", rt->site.device_sharers);
    if (err || rt->site.caps.flags & ZERO_COMM_NETWORK)
        return err;
    return zero__fail(-ENODEV, "comm plugin %s finds no network that reaches other hosts: %.127s",
                      name, rt->site.caps.note);
}

static int context_open(void *owner, void *arg)
{
    struct zero_runtime *rt = owner;
    struct zero__plugin *plugin = arg;
    const struct zero_comm_open params = {.size = sizeof params,
                                          .host = zero__loader_host(rt->site.loader),
                                          .oob = zero__job_oob(rt->site.job),
                                          .device = -1,
                                          .timeout_ns = rt->site.timeout_ns,
                                          .interface = zero__job_interface(rt->site.job),
                                          .device_ops = &rt->site.dev_ops,
                                          .device_handle = rt->site.dev};

    rt->site.comm_ops = *zero__plugin_comm(plugin);
    int err = rt->site.comm_ops.open(&params, &rt->site.ctx);
    if (!err && rt->site.comm_ops.memory) /* of the device, too: the probe knew of none */
        err = rt->site.comm_ops.memory(rt->site.ctx, &rt->site.caps.mem);
    return err;
}

static int context_close(void *owner, void *arg)
{
    struct zero_runtime *rt = owner;

    (void)arg;
    rt->site.comm_ops.close(rt->site.ctx);
    rt->site.ctx = NULL;
    return 0;
}

/*
 * Opens a network on all ranks, or on none. What fails here (err) or elsewhere is said in `who` and
 * `why`; the result is 0 then.
 */
static int try_network(struct zero_runtime *rt, const char *name, int *who, char why[WHY_BYTES])
{
    struct zero__plugin *plugin;
    int err = ask_all(rt, examine_network(rt, name, &plugin), who, why);

    if (err || *who >= 0)
        return err;
    err = zero__inside_call(rt->run, name, context_open, rt, plugin);
    if (err == -ETIMEDOUT ||
        zero__runner_is_left(rt->run)) /* they do not answer, and would not answer now */
        return err;
    err = ask_all(rt, err, who, why);
    return !err && *who >= 0 && rt->site.ctx
               ? zero__inside_call(rt->run, name, context_close, rt, NULL)
               : err;
}

/* The first network that works on all ranks. */
static int open_network(struct zero_runtime *rt, const char **name)
{
    char refused[N_NETWORKS * (WHY_BYTES + 40)] = "", why[WHY_BYTES] = "";
    int who = -1, err;

    for (size_t i = 0; i < N_NETWORKS; i++) {
        err = try_network(rt, networks[i], &who, why);
        if (err)
            return err;
        if (who < 0) {
            zero__log(&rt->site.log, ZERO_LOG_INFO, "engine",
                      "comm %s: the ranks are on several hosts%s", networks[i], refused);
            *name = networks[i];
            return 0;
        }
        size_t n = strlen(refused);
        snprintf(refused + n, sizeof refused - n, "; not %s, on rank %d: %s", networks[i], who,
                 why);
    }
    err =
        zero__fail(-ENODEV,
                   "the ranks are on several hosts, and no comm plugin that reaches them works on "
                   "all%s. Install UCX or libfabric on every host and build libzero with it "
                   "(`zero info` shows what works), or name another plugin in ZERO_COMM",
                   refused);
    return zero__job_fail(rt->site.job, -1, err, "", zero__error_text());
}

static int open_named(struct zero_runtime *rt, const char *name)
{
    struct zero__plugin *plugin;
    int err = examine(rt, name, &plugin);

    return err ? err : zero__inside_call(rt->run, name, context_open, rt, plugin);
}

/* *name stays as it is where NCCL does not work on all ranks. */
static int open_nccl(struct zero_runtime *rt, const char **name)
{
    char why[WHY_BYTES] = "";
    int who = -1, err = try_network(rt, nccl, &who, why);

    if (err)
        return err;
    if (who < 0)
        *name = nccl;
    zero__log(&rt->site.log, ZERO_LOG_INFO, "engine", "%scomm nccl: %s", who < 0 ? "" : "not ",
              who < 0 ? "every rank has a GPU, and sums need no order" : why);
    return 0;
}

/*
 * Says so where numerics alone keep NCCL out, by what this rank knows without asking the plugin:
 * NCCL itself may not be installed. Whether the plugin's file is there the loader tells.
 */
static void say_without_nccl(struct zero_runtime *rt)
{
    if (zero__device_is_host(&rt->site) || rt->site.device_sharers > 1 ||
        !zero__loader_may_ask(rt->site.loader, "nccl_library", false))
        return;
    zero__log(&rt->site.log, ZERO_LOG_INFO, "engine",
              "not comm nccl: ZERO_NUMERICS is ordered, and NCCL, if it is installed, moves the "
              "data between GPUs with ZERO_NUMERICS=relaxed alone");
}

/* Where the choice is left to the runtime. */
static int open_any(struct zero_runtime *rt, const char **name)
{
    bool alone = rt->site.ranks == 1;
    int err = 0;

    *name = NULL;
    if (!alone && is_relaxed(rt))
        err = open_nccl(rt, name);
    else if (!alone)
        say_without_nccl(rt);
    if (!err && !*name && !alone && !zero__job_one_host(rt->site.job)) {
        err = open_network(rt, name);
    } else if (!err && !*name) {
        *name = alone ? "self" : "shm";
        zero__log(&rt->site.log, ZERO_LOG_INFO, "engine", "comm %s: %s", *name,
                  alone ? "there is one rank" : "all ranks are on this host");
        err = open_named(rt, *name);
    }
    return err ? err : zero__options_choose(rt->site.options, ZERO__OPT_COMM, *name);
}

int zero__transport_open(struct zero_runtime *rt)
{
    const char *name = zero__option_text(rt->site.options, ZERO__OPT_COMM);
    int err = rt->site.ranks > 1 ? compare_wishes(rt, name) : 0;

    if (!err && rt->site.ranks > 1)
        err = compare_times(rt);
    if (!err)
        err = *name ? open_named(rt, name) : open_any(rt, &name);
    if (!err)
        rt->site.comm_name = name;
    return err;
}
