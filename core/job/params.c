/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who this rank is, from explicit arguments or from the variables that launchers agree on. No name
 * is looked up in the network: a resolver may block without a deadline.
 */
#include "config.h"

#include "job/job.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <xxhash.h>

#include <zero/device.h>
#include <zero/offload.h>
#include <zero/zero.h>

#include "base/clock.h"
#include "base/status.h"
#include "job/wire.h"

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
    if (errno || *end || v[0] == ' ' || v[0] == '+' || x < min || x > max)
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

static bool address_is_here(const char *name)
{
    unsigned char want[16];
    int family = inet_pton(AF_INET, name, want) == 1    ? AF_INET
                 : inet_pton(AF_INET6, name, want) == 1 ? AF_INET6
                                                        : 0;
    struct ifaddrs *all, *i;
    bool here = false;

    if (!family || getifaddrs(&all))
        return false;
    for (i = all; i && !here; i = i->ifa_next) {
        if (!i->ifa_addr || i->ifa_addr->sa_family != family)
            continue;
        here = family == AF_INET
                   ? !memcmp(&((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr, want, 4)
                   : !memcmp(&((struct sockaddr_in6 *)(void *)i->ifa_addr)->sin6_addr, want, 16);
    }
    freeifaddrs(all);
    return here || (family == AF_INET && want[0] == 127);
}

static bool host_is_here(const char *name, char *own, size_t room)
{
    if (gethostname(own, room) || !memchr(own, 0, room))
        snprintf(own, room, "?");
    if (!strcasecmp(name, "localhost") || !strcasecmp(name, own) || address_is_here(name))
        return true;
    /* "node1.example.org" and "node1" are one machine. */
    size_t a = strcspn(name, "."), b = strcspn(own, ".");
    return a == b && !strncasecmp(name, own, a) && (!name[a] || !own[b]);
}

/* All ranks must run here; LOCAL_WORLD_SIZE says so, else MASTER_ADDR must be this machine. */
static int one_host(const struct zero__job_params *p, bool local_known, const char *addr)
{
    char own[256];

    if (local_known && p->local_ranks != p->ranks)
        return zero__fail(-ENOTSUP,
                          "LOCAL_WORLD_SIZE is %d and WORLD_SIZE is %d: ranks on several "
                          "hosts are not supported yet, start all ranks on one host",
                          p->local_ranks, p->ranks);
    if (local_known || !addr || host_is_here(addr, own, sizeof own))
        return 0;
    return zero__fail(-ENOTSUP,
                      "MASTER_ADDR is \"%.100s\", which is not this machine (%.60s): "
                      "ranks on several hosts are not supported yet; if all ranks are here, set "
                      "MASTER_ADDR=127.0.0.1 or LOCAL_WORLD_SIZE=%d",
                      addr, own, p->ranks);
}

/* What the ranks of this job share and those of no other job on this machine have. */
static int key_from_environment(struct zero__job_params *p, bool local_known)
{
    const char *job = variable("ZERO_JOB"), *addr = variable("MASTER_ADDR");
    const char *run = variable("TORCHELASTIC_RUN_ID");
    const char *restart = variable("TORCHELASTIC_RESTART_COUNT");
    char a[160], r[128] = "";
    int32_t port = 0;
    int e;

    if ((e = number("MASTER_PORT", 1, 65535, &port)) || (e = one_host(p, local_known, addr)))
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
    /* Processes of an earlier attempt may still be going down: the count keeps them apart. */
    snprintf(p->key, sizeof p->key, "%s:%d%s%s%s%.20s", a, port, run ? ":" : "", r,
             restart ? ":" : "", restart ? restart : "");
    return 0;
}

static int from_environment(struct zero__job_params *p)
{
    bool rank = variable("RANK"), size = variable("WORLD_SIZE");
    bool local = variable("LOCAL_WORLD_SIZE");
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
    if ((e = number("LOCAL_WORLD_SIZE", 1, p->ranks, &p->local_ranks)))
        return e;
    p->local_rank = p->rank;
    if (p->rank >= p->local_ranks && !variable("LOCAL_RANK"))
        p->local_rank = p->rank % p->local_ranks;
    if ((e = number("LOCAL_RANK", 0, p->local_ranks - 1, &p->local_rank)))
        return e;
    if (p->ranks > 1)
        return key_from_environment(p, local);
    return 0;
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
    p->rank = c->rank;
    p->ranks = c->ranks;
    p->local_rank = c->local_ranks ? c->local_rank : c->rank;
    p->local_ranks = c->local_ranks ? c->local_ranks : c->ranks;
    if (p->local_ranks < 0 || p->local_ranks > p->ranks || p->local_rank < 0 ||
        p->local_rank >= p->local_ranks)
        return zero__fail(-EINVAL,
                          "zero_config.local_rank is %d of local_ranks %d: they must lie "
                          "within rank %d of %d",
                          c->local_rank, c->local_ranks, c->rank, c->ranks);
    if (p->local_ranks != p->ranks)
        return zero__fail(-ENOTSUP,
                          "zero_config.local_ranks is %d and ranks is %d: ranks on "
                          "several hosts are not supported yet, start all ranks on one host",
                          p->local_ranks, p->ranks);
    if (p->ranks == 1)
        return 0;
    if (!c->job)
        return zero__fail(-EINVAL,
                          "zero_config.job is NULL with %d ranks: name the job, the same "
                          "for all its ranks",
                          p->ranks);
    return name_copy("zero_config.job", c->job, p->key, 129);
}

int zero__job_params_from(const struct zero_config *cfg, struct zero__job_params *out)
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

    if (cfg && cfg->ranks == 0 && (cfg->rank || cfg->local_rank || cfg->local_ranks))
        return zero__fail(-EINVAL,
                          "zero_config.rank is %d and ranks is 0: give the number of "
                          "ranks too, or leave all of them 0 for the environment",
                          cfg->rank);
    e = cfg && cfg->ranks ? from_config(cfg, &p) : from_environment(&p);
    if (e)
        return e;
    e = name_copy("zero_config.model", cfg && cfg->model ? cfg->model : "model", p.model,
                  sizeof p.model);
    if (e)
        return e;
    snprintf(p.version, sizeof p.version, "%s", zero_version());
    p.abi_hash = XXH3_64bits(&abi, sizeof abi);
    p.timeout_ns = 600 * ZERO_SECOND;
    *out = p;
    return 0;
}
