/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who this rank is, from explicit arguments, from the variables that launchers agree on, or from
 * PMIx; and by which address and secret the ranks meet. No name is looked up here.
 */
#include "config.h"

#include "job/job.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include <zero/device.h>
#include <zero/offload.h>
#include <zero/zero.h>

#include "base/options.h"
#include "base/status.h"
#include "job/pmix.h"
#include "job/wire.h"
#include "machine/clock.h"

#define AUTO_JOIN_NS (60 * ZERO_SECOND)

/* An empty variable counts as not set: that is how a shell clears one for a single command. */
static const char *variable(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

/* Reads a variable that must be an integer in [min, max]; leaves *out alone when it is not set. */
static int number(const char *name, int64_t min, int64_t max, int32_t *out)
{
    const char *v = variable(name);
    char *end;

    if (!v)
        return 0;
    errno = 0;
    long long x = strtoll(v, &end, 10);
    if (errno || *end || !strchr("-0123456789", v[0]) || x < min || x > max)
        return zero__fail(-EINVAL,
                          "%s is \"%.40s\": it must be an integer from %" PRId64 " to %" PRId64,
                          name, v, min, max);
    *out = (int32_t)x;
    return 0;
}

/* Copies text that names something; printable and short, because errors quote it. */
static int name_copy(const char *what, const char *v, char *dst, size_t room)
{
    size_t n = strnlen(v, room);

    if (n == 0 || n >= room)
        return zero__fail(-EINVAL, "%s \"%.40s\" has %s characters: 1 to %zu are allowed", what, v,
                          n ? "too many" : "no", room - 1);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)v[i] < 0x20 || v[i] == 0x7f)
            return zero__fail(-EINVAL,
                              "%s contains a control character at position %zu: use "
                              "printable characters",
                              what, i + 1);
    memcpy(dst, v, n + 1);
    return 0;
}

/* What the ranks of this job share and those of no other job on this machine have. */
static int key_from_environment(struct zero__job_params *p)
{
    const char *job = variable("ZERO_JOB"), *addr = variable("MASTER_ADDR");
    const char *run = variable("TORCHELASTIC_RUN_ID");
    const char *restart = variable("TORCHELASTIC_RESTART_COUNT");
    char a[160], r[128] = "";
    int32_t port = p->port;
    int e = number("MASTER_PORT", 1, 65535, &port);

    if (e)
        return e;
    if (job)
        return name_copy("ZERO_JOB", job, p->key, 129);
    if (!addr || !port)
        return zero__fail(-EINVAL,
                          "RANK and WORLD_SIZE are set but %s is not: start with "
                          "`zero run -n %d -- PROG`, or set MASTER_ADDR=127.0.0.1 and MASTER_PORT "
                          "to a number of your choice, the same for all ranks",
                          addr ? "MASTER_PORT" : "MASTER_ADDR", p->ranks);
    if ((e = name_copy("MASTER_ADDR", addr, a, sizeof a)) ||
        (run && (e = name_copy("TORCHELASTIC_RUN_ID", run, r, sizeof r))))
        return e;
    if (*a == '[' && a[strlen(a) - 1] == ']') { /* it is the same address without */
        a[strlen(a) - 1] = 0;
        memmove(a, a + 1, strlen(a));
    }
    /* Processes of an earlier attempt may still be going down: the count keeps them apart. */
    snprintf(p->key, sizeof p->key, "%s:%d%s%s%s%.20s", a, port, run ? ":" : "", r,
             restart ? ":" : "", restart ? restart : "");
    return 0;
}

static int from_environment(struct zero__job_params *p)
{
    bool rank = variable("RANK"), size = variable("WORLD_SIZE");
    int e;

    p->ranks = 1;
    if ((e = number("WORLD_SIZE", 1, ZERO__JOB_MAX_RANKS, &p->ranks)))
        return e;
    if (rank != size && (rank || p->ranks > 1))
        return zero__fail(-EINVAL,
                          "%s is set but %s is not: set both for every rank, or start "
                          "with `zero run -n N -- PROG`",
                          rank ? "RANK" : "WORLD_SIZE", rank ? "WORLD_SIZE" : "RANK");
    if ((e = number("RANK", 0, p->ranks - 1, &p->rank)))
        return e;
    p->local_ranks = p->ranks;
    p->local_known = variable("LOCAL_WORLD_SIZE");
    if ((e = number("LOCAL_WORLD_SIZE", 1, p->ranks, &p->local_ranks)))
        return e;
    return p->ranks > 1 ? key_from_environment(p) : 0;
}

/* mpirun and srun speak PMIx and set no RANK. */
static bool started_by_pmix(void)
{
    return variable("PMIX_RANK") && variable("PMIX_NAMESPACE") && !variable("RANK");
}

static int from_pmix(struct zero__job_params *p)
{
    const char *job = variable("ZERO_JOB");
    int e = zero__pmix_find(p, p->join_ns);

    return e || !job ? e : name_copy("ZERO_JOB", job, p->key, 129);
}

static int from_config(const struct zero_config *c, struct zero__job_params *p)
{
    if (c->ranks < 0 || c->ranks > ZERO__JOB_MAX_RANKS)
        return zero__fail(-EINVAL,
                          "zero_config.ranks is %d: 1 to %d are allowed, 0 takes the "
                          "environment",
                          c->ranks, ZERO__JOB_MAX_RANKS);
    if (c->rank < 0 || c->rank >= c->ranks)
        return zero__fail(-EINVAL, "zero_config.rank is %d: 0 to %d are allowed with %d ranks",
                          c->rank, c->ranks - 1, c->ranks);
    if (c->local_ranks < 0 || c->local_ranks > c->ranks)
        return zero__fail(-EINVAL,
                          "zero_config.local_ranks is %d: 1 to %d are allowed, 0 stands for all "
                          "ranks",
                          c->local_ranks, c->ranks);
    p->rank = c->rank;
    p->ranks = c->ranks;
    p->local_ranks = c->local_ranks ? c->local_ranks : c->ranks;
    p->local_known = true;
    if (p->ranks == 1)
        return 0;
    if (!c->job)
        return zero__fail(-EINVAL,
                          "zero_config.job is NULL with %d ranks: name the job, the same "
                          "for all its ranks",
                          p->ranks);
    return name_copy("zero_config.job", c->job, p->key, 129);
}

/* Where rank 0 is to be found, as far as options and launcher say. */
static int read_address(const struct zero__options *o, struct zero__job_params *p)
{
    const char *addr = variable("MASTER_ADDR");
    const char *interface = zero__option_text(o, ZERO__OPT_INTERFACE);
    int32_t port = 0, own = (int32_t)zero__option_int(o, ZERO__OPT_PORT);
    int e = number("MASTER_PORT", 1, 65535, &port);

    if (e || (addr && (e = name_copy("MASTER_ADDR", addr, p->address, sizeof p->address))) ||
        (*interface &&
         (e = name_copy("ZERO_INTERFACE", interface, p->interface, sizeof p->interface))))
        return e;
    if (port && variable("TORCHELASTIC_RUN_ID"))
        port++; /* torchrun itself listens at MASTER_PORT */
    p->port = (uint16_t)(own ? own : port <= 65535 ? port : 0);
    return 0;
}

static int read_secret(const struct zero__options *o, struct zero__secret *secret)
{
    const char *file = zero__option_text(o, ZERO__OPT_SECRET_FILE);
    int64_t fd = zero__option_int(o, ZERO__OPT_SECRET_FD);

    if (*file)
        return zero__secret_from_file(file, secret);
    return fd >= 0 ? zero__secret_from_fd((int)fd, secret) : 0;
}

/* The options that say how ranks meet; of no interest to one rank alone. */
static int read_options(const struct zero__options *o, struct zero__job_params *p)
{
    int e;

    p->how = (int32_t)zero__option_int(o, ZERO__OPT_RENDEZVOUS);
    p->insecure = zero__option_int(o, ZERO__OPT_INSECURE) != 0;
    if ((e = read_address(o, p)))
        return e;
    return read_secret(o, &p->secret);
}

/* Is there a chance of several ranks? */
static bool may_be_several(const struct zero_config *cfg)
{
    const char *size = variable("WORLD_SIZE");

    if (cfg && cfg->ranks)
        return cfg->ranks > 1;
    return started_by_pmix() || (size && strcmp(size, "1"));
}

static int read_all(const struct zero_config *cfg, const struct zero__options *o,
                    struct zero__job_params *p)
{
    int e = may_be_several(cfg) ? read_options(o, p) : 0;

    if (e)
        return e;
    p->timeout_ns = zero__option_ns(o, ZERO__OPT_TIMEOUT);
    p->heartbeat_ns = zero__option_ns(o, ZERO__OPT_HEARTBEAT);
    p->join_ns = zero__option_ns(o, ZERO__OPT_JOIN_TIMEOUT);
    if (!p->join_ns) /* auto */
        p->join_ns = p->timeout_ns < AUTO_JOIN_NS ? p->timeout_ns : AUTO_JOIN_NS;
    if (cfg && cfg->ranks)
        return from_config(cfg, p);
    return started_by_pmix() ? from_pmix(p) : from_environment(p);
}

int zero__job_params_from(const struct zero_config *cfg, const struct zero__options *options,
                          struct zero__job_params *out)
{
    struct zero__job_params p = {.rank = 0, .ranks = 1, .local_rank = 0, .local_ranks = 1};
    const struct {
        uint32_t magic, pointer, comm, offload, device, zero;
        char version[32];
    } abi = {
        .magic = ZERO__WIRE_MAGIC,
        .pointer = sizeof(void *),
        .comm = ZERO_COMM_MAJOR << 16 | ZERO_COMM_MINOR,
        .offload = ZERO_OFFLOAD_MAJOR << 16 | ZERO_OFFLOAD_MINOR,
        .device = ZERO_DEVICE_MAJOR << 16 | ZERO_DEVICE_MINOR,
    };
    int e;

    if (cfg && cfg->ranks == 0 && (cfg->rank || cfg->local_ranks))
        return zero__fail(-EINVAL,
                          "zero_config.rank is %d, local_ranks %d and ranks 0: give the number of "
                          "ranks too, or leave all of them 0 for the environment",
                          cfg->rank, cfg->local_ranks);
    e = name_copy("zero_config.model", cfg && cfg->model ? cfg->model : "model", p.model,
                  sizeof p.model);
    if (!e)
        e = read_all(cfg, options, &p);
    if (!e) {
        snprintf(p.version, sizeof p.version, "%s", zero_version());
        p.abi_hash = XXH3_64bits(&abi, sizeof abi);
        *out = p;
    }
    zero__secret_wipe(&p.secret);
    return e;
}
