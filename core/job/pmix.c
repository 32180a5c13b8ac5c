/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See pmix.h. PMIx knows timeouts for some of its calls only, so all of them happen in a thread
 * that can be left to itself (base/call_within.h). Its convenience macros call functions of its
 * library, which is not linked: structures are filled in by hand.
 */
#include "config.h"

#include "job/pmix.h"

#include <errno.h>

#include "base/status.h"

#ifndef HAVE_PMIX

int zero__pmix_find(struct zero__job_params *p, int64_t timeout_ns)
{
    (void)p, (void)timeout_ns;
    return zero__fail(-ENOTSUP,
                      "PMIX_RANK is set and RANK is not, but this libzero was built without "
                      "PMIx: install libpmix-dev and configure it again, set RANK and "
                      "WORLD_SIZE, or start with `zero run`");
}

#else

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pmix.h>
#include <sodium.h>

#include "base/call_within.h"
#include "base/options.h"
#include "job/endpoint.h"
#include "job/interface.h"
#include "job/notice.h"
#include "machine/clock.h"

#define LIBRARY "libpmix.so.2"
#define GRACE_NS (2 * ZERO_SECOND) /* for the timeouts of PMIx, which say more */

struct api {
    __typeof__(PMIx_Init) *init;
    __typeof__(PMIx_Get) *get;
    __typeof__(PMIx_Put) *put;
    __typeof__(PMIx_Commit) *commit;
    __typeof__(PMIx_Fence) *fence;
    __typeof__(PMIx_Finalize) *finalize;
    __typeof__(PMIx_Error_string) *error_string;
};

/* The call that call_within.h makes. */
struct inquiry {
    struct zero__job_params p;
    struct api api;
    pmix_proc_t me;
    int timeout_s; /* of one call of PMIx */
    int64_t deadline_ns;
};

static int load(struct api *api)
{
    /* Never closed: it may have threads. */
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library)
        return zero__fail(-ENOENT,
                          "PMIX_RANK is set and RANK is not, but %s cannot be loaded (%s): install "
                          "libpmix2, set RANK and WORLD_SIZE, or start with `zero run`",
                          LIBRARY, dlerror());
    const struct {
        const char *name;
        void *place;
    } symbols[] = {
        {"PMIx_Init", &api->init},
        {"PMIx_Get", &api->get},
        {"PMIx_Put", &api->put},
        {"PMIx_Commit", &api->commit},
        {"PMIx_Fence", &api->fence},
        {"PMIx_Finalize", &api->finalize},
        {"PMIx_Error_string", &api->error_string},
    };
    for (unsigned i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *address = dlsym(library, symbols[i].name);
        if (!address)
            return zero__fail(-ENOENT, "%s has no %s: install libpmix2 of version 3 or later",
                              LIBRARY, symbols[i].name);
        memcpy(symbols[i].place, &address, sizeof address);
    }
    return 0;
}

static int failed(const struct api *api, const char *call, pmix_status_t status)
{
    int err = status == PMIX_ERR_TIMEOUT ? -ETIMEDOUT : -EIO;

    return zero__fail(err,
                      "PMIx: %s: %s (%d): is the launcher that set PMIX_RANK (mpirun, srun) still "
                      "there and of the same version? Without one set RANK and WORLD_SIZE, start "
                      "with `zero run`, or unset PMIX_NAMESPACE for one rank",
                      call, api->error_string(status), (int)status);
}

static void value_free(pmix_value_t *value)
{
    if (value->type == PMIX_BYTE_OBJECT && value->data.bo.bytes) {
        sodium_memzero(value->data.bo.bytes, value->data.bo.size);
        free(value->data.bo.bytes);
    }
    free(value);
}

/* A number that the launcher knows of the job. */
static int get_number(const struct inquiry *s, const char *key, int32_t min, int32_t max,
                      int32_t *out)
{
    pmix_proc_t proc = s->me;
    pmix_value_t *value = NULL;
    int64_t x = -1;

    proc.rank = PMIX_RANK_WILDCARD;
    pmix_status_t status = s->api.get(&proc, key, NULL, 0, &value);
    if (status != PMIX_SUCCESS || !value)
        return failed(&s->api, key, status);
    switch (value->type) {
    case PMIX_UINT16:
        x = value->data.uint16;
        break;
    case PMIX_UINT32:
        x = value->data.uint32;
        break;
    case PMIX_INT:
        x = value->data.integer;
        break;
    case PMIX_INT32:
        x = value->data.int32;
        break;
    case PMIX_SIZE:
        x = value->data.size <= INT32_MAX ? (int64_t)value->data.size : -1;
        break;
    default:
        break;
    }
    value_free(value);
    if (x < min || x > max)
        return zero__fail(-EINVAL, "PMIx: %s is %lld: %d to %d are allowed", key, (long long)x, min,
                          max);
    *out = (int32_t)x;
    return 0;
}

static void info_set(pmix_info_t *info, const char *key, pmix_data_type_t type, int value)
{
    memset(info, 0, sizeof *info);
    snprintf(info->key, sizeof info->key, "%s", key);
    info->value.type = type;
    if (type == PMIX_BOOL)
        info->value.data.flag = value != 0;
    else
        info->value.data.integer = value;
}

static void notice_key(const struct inquiry *s, char *key, size_t room)
{
    snprintf(key, room, "libzero.%s", s->p.model);
}

/*
 * PMIx_Get, again while there is no such thing before the deadline: a server that still cleans up
 * after the last session of the process that has published it says so (OpenPMIx 4.2.2), although
 * the fence has come after that.
 */
static pmix_status_t get_until(const struct inquiry *s, const pmix_proc_t *proc, const char *key,
                               const pmix_info_t *info, int64_t deadline_ns, pmix_value_t **value)
{
    const struct timespec pause = {.tv_nsec = ZERO_SECOND / 100};

    for (;;) {
        pmix_status_t status = s->api.get(proc, key, info, 1, value);
        if (status != PMIX_ERR_NOT_FOUND || zero__now_ns() >= deadline_ns)
            return status;
        nanosleep(&pause, NULL);
    }
}

/* What rank 0 has published; -ENOENT (no sentence): nothing that would be there at once. */
static int get_notice(const struct inquiry *s, bool at_once, struct zero__notice *out)
{
    pmix_proc_t zero = s->me;
    pmix_value_t *value = NULL;
    pmix_info_t info[1];
    char key[128];

    zero.rank = 0;
    notice_key(s, key, sizeof key);
    if (at_once)
        info_set(&info[0], PMIX_OPTIONAL, PMIX_BOOL, 1);
    else
        info_set(&info[0], PMIX_TIMEOUT, PMIX_INT, s->timeout_s);
    pmix_status_t status = get_until(s, &zero, key, info, at_once ? 0 : s->deadline_ns, &value);
    if (at_once && (status != PMIX_SUCCESS || !value))
        return -ENOENT;
    if (status != PMIX_SUCCESS || !value)
        return failed(&s->api, "PMIx_Get of rank 0's address", status);
    bool good = value->type == PMIX_BYTE_OBJECT && value->data.bo.bytes &&
                !zero__notice_read(value->data.bo.bytes, value->data.bo.size, out);
    value_free(value);
    if (!good)
        return zero__fail(-EPROTO,
                          "PMIx: rank 0 has published something that libzero %s does not "
                          "understand: start all ranks with the same library",
                          s->p.version);
    return 0;
}

/* Where other hosts come. -ENOTUNIQ: they may come by several, and nothing is guessed. */
static int own_address(const struct zero__job_params *p, struct zero__address *a)
{
    char way[80];

    if (p->interface[0])
        return zero__interface_address(p->interface, AF_UNSPEC, p->port, a);
    return zero__interface_outward(p->port, a, way, sizeof way);
}

/* Rank 0: where it will listen. A secret that was given is shared too: one is enough. */
static int make_notice(const struct inquiry *s, struct zero__notice *out)
{
    const struct zero__job_params *p = &s->p;
    struct zero__notice n;
    struct zero__secret secret = p->secret;
    struct zero__address a;
    int e;

    zero__notice_init(&n);
    n.port = p->port;
    n.has_secret = 1;
    if (!secret.known && (e = zero__secret_make(&secret)))
        return e;
    memcpy(n.secret, secret.bytes, sizeof n.secret);
    zero__secret_wipe(&secret);
    if (p->address[0] && p->port) {
        memcpy(n.address, p->address, sizeof n.address);
    } else {
        if ((e = own_address(p, &a)) || (!n.port && (e = zero__tcp_free_port(&a, &n.port))))
            return e;
        char text[ZERO__ADDRESS_TEXT];
        zero__address_host(&a, text);
        snprintf(n.address, sizeof n.address, "%s", text);
    }
    *out = n;
    sodium_memzero(&n, sizeof n);
    return 0;
}

/*
 * A process that asks a second time publishes the same again: others may remember the first. Where
 * this rank cannot listen, the others, who would wait for nothing, hear why.
 */
static int publish(const struct inquiry *s)
{
    struct zero__notice n;
    char key[128];

    if (!get_notice(s, true, &n)) {
        sodium_memzero(&n, sizeof n);
        return 0;
    }
    int e = make_notice(s, &n);
    if (e) {
        zero__notice_init(&n);
        n.err = e;
        snprintf(n.why, sizeof n.why, "%s", zero__error_text());
    }
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT};
    value.data.bo.bytes = (char *)&n;
    value.data.bo.size = sizeof n;
    notice_key(s, key, sizeof key);
    pmix_status_t status = s->api.put(PMIX_GLOBAL, key, &value);
    sodium_memzero(&n, sizeof n);
    if (status != PMIX_SUCCESS)
        return failed(&s->api, "PMIx_Put", status);
    status = s->api.commit();
    return status == PMIX_SUCCESS ? 0 : failed(&s->api, "PMIx_Commit", status);
}

static int fence(const struct inquiry *s)
{
    pmix_proc_t all = s->me;
    pmix_info_t info[2];

    all.rank = PMIX_RANK_WILDCARD;
    info_set(&info[0], PMIX_COLLECT_DATA, PMIX_BOOL, 1);
    info_set(&info[1], PMIX_TIMEOUT, PMIX_INT, s->timeout_s);
    pmix_status_t status = s->api.fence(&all, 1, info, 2);
    return status == PMIX_SUCCESS ? 0 : failed(&s->api, "PMIx_Fence", status);
}

static int share(struct inquiry *s)
{
    struct zero__job_params *p = &s->p;
    struct zero__notice n;
    int e = p->rank == 0 ? publish(s) : 0;

    if (e || (e = fence(s)) || (e = get_notice(s, false, &n)))
        return e;
    if (n.err)
        return zero__fail(n.err, "%s%s",
                          p->rank == 0 ? "" : "rank 0 cannot say where it listens: ", n.why);
    memcpy(p->address, n.address, sizeof p->address);
    p->port = n.port;
    if (!p->secret.known && n.has_secret) {
        memcpy(p->secret.bytes, n.secret, sizeof p->secret.bytes);
        p->secret.known = true;
    }
    sodium_memzero(&n, sizeof n);
    return 0;
}

static int ask(struct inquiry *s)
{
    struct zero__job_params *p = &s->p;
    int32_t most = ZERO__JOB_MAX_RANKS;
    int e;

    p->rank = (int32_t)s->me.rank;
    if ((e = get_number(s, PMIX_JOB_SIZE, 1, most, &p->ranks)) ||
        (e = get_number(s, PMIX_LOCAL_SIZE, 1, p->ranks, &p->local_ranks)))
        return e;
    if (s->me.rank >= (pmix_rank_t)p->ranks)
        return zero__fail(-EINVAL, "PMIx says that this is rank %u of %d, and ranks begin with 0: "
                          "set RANK and WORLD_SIZE, or start with `zero run`",
                          (unsigned)s->me.rank, p->ranks);
    p->local_known = true;
    snprintf(p->key, sizeof p->key, "%s", s->me.nspace);
    bool several = p->local_ranks < p->ranks && p->how != ZERO__RENDEZVOUS_UNIX;
    if (p->ranks > 1 && (several || p->how == ZERO__RENDEZVOUS_TCP))
        return share(s);
    return 0;
}

static int inquire(void *arg)
{
    struct inquiry *s = arg;
    int e = load(&s->api);

    if (e)
        return e;
    pmix_status_t status = s->api.init(&s->me, NULL, 0);
    if (status != PMIX_SUCCESS)
        return failed(&s->api, "PMIx_Init", status);
    e = ask(s);
    if (e == -EIO || e == -ETIMEDOUT)
        return e; /* PMIx itself does not answer: it would not let this rank go, either */
    status = s->api.finalize(NULL, 0);
    if (!e && status != PMIX_SUCCESS)
        e = failed(&s->api, "PMIx_Finalize", status);
    return e;
}

int zero__pmix_find(struct zero__job_params *p, int64_t timeout_ns)
{
    struct inquiry s = {.p = *p,
                        .timeout_s = (int)((timeout_ns + ZERO_SECOND - 1) / ZERO_SECOND),
                        .deadline_ns = zero__deadline_ns(timeout_ns)};
    int e = zero__call_within(zero__deadline_ns(timeout_ns + GRACE_NS), inquire, &s, sizeof s);

    if (e == -ETIMEDOUT && s.api.init == NULL) /* as it was: the call has not come back */
        e = zero__fail(e,
                       "PMIx: no answer within %.3g s: has the launcher started all ranks, and is "
                       "it still there?",
                       (double)timeout_ns / 1e9);
    if (!e)
        *p = s.p;
    sodium_memzero(&s, sizeof s);
    return e;
}

#endif
