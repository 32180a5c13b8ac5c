/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A comm plugin for tests: `shm` with one defect, which ZERO_WRONG names. Contexts are those of
 * `shm`, and ranks are processes, so what is remembered is global.
 */
#include <zero/comm.h>

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct zero_comm_ops below, ops;
static struct zero_host silent, loud; /* what is below gets the first, of the second */
static bool in_open, in_progress;
static atomic_bool woken, aborted; /* the context that was opened last */
static const char *how;

static bool is(const char *defect)
{
    return strcmp(how, defect) == 0;
}

/*
 * lost: no defect. What it hears of a peer's abort is that the peer is gone, as where a connection
 * ends. gone: the same, and it declares LOCAL_ABORT.
 */
static int wrong_probe(const struct zero_host *host, struct zero_comm_caps *caps)
{
    int err = below.probe(host, caps);

    if (is("gone"))
        caps->flags |= ZERO_COMM_LOCAL_ABORT;
    return err;
}

static int heard(int64_t err)
{
    bool gone = (is("gone") || is("lost")) && err == -ECANCELED && !aborted;

    return gone ? -ECONNRESET : (int)err;
}

static int wrong_abort(struct zero_comm_ctx *ctx)
{
    aborted = true;
    return below.abort(ctx);
}

static int wrong_error(struct zero_comm *comm)
{
    return heard(below.error(comm));
}

/* apart: the collectives of a batch are posted one by one, to the first that is wrong. */
static int wrong_post(struct zero_comm *comm, const struct zero_coll *colls, uint32_t n,
                      void *stream)
{
    for (uint32_t i = 0; i < n && is("apart"); i++) {
        int err = below.post(comm, &colls[i], 1, stream);
        if (err || i == n - 1)
            return err;
    }
    return heard(below.post(comm, colls, n, stream));
}

/* deaf: a split after this context's abort waits in vain; held: one that is under way does. */
static int wrong_split(struct zero_comm_ctx *ctx, struct zero_comm *parent, int32_t color,
                       int32_t key, struct zero_comm **comm)
{
    bool before = aborted;
    int err = below.split(ctx, parent, color, key, comm);

    if (err == -ECANCELED && aborted && is(before ? "deaf" : "held"))
        return -ETIMEDOUT;
    return heard(err);
}

static void blank(char *text, const char *word)
{
    for (char *at = text; (at = strstr(at, word));)
        memset(at, '_', strlen(word));
}

/*
 * mute: what it finds in progress() it does not say there. hushed: nor anything after open(). lone:
 * no sentence names rank 0. vague: none has the word epoch.
 */
__attribute__((format(printf, 4, 5))) static int wrong_fail(void *ctx, const char *plugin, int err,
                                                            const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    if ((is("mute") && in_progress) || (is("hushed") && !in_open))
        return err;
    if (is("curt")) /* no defect */
        return loud.fail(ctx, plugin, err, "no");
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (is("lone"))
        blank(text, "rank 0");
    if (is("vague"))
        blank(text, "epoch");
    return loud.fail(ctx, plugin, err, "%s", text);
}

static void *rest(void *arg)
{
    pause();
    return arg;
}

/* descriptors, threads: each context leaves one. */
static int wrong_open(const struct zero_comm_open *params, struct zero_comm_ctx **ctx)
{
    struct zero_comm_open inner = *params;
    pthread_t thread;

    if (is("threads") && !pthread_create(&thread, NULL, rest, NULL))
        pthread_detach(thread);
    if (is("descriptors") && dup(2) < 0)
        return params->host->fail(params->host->ctx, "wrong", -EMFILE, "no descriptor");
    silent = loud = *params->host;
    silent.fail = wrong_fail;
    inner.host = &silent;
    aborted = false;
    in_open = true;
    int err = below.open(&inner, ctx);
    in_open = false;
    return err;
}

static int wrong_wake(struct zero_comm_ctx *ctx)
{
    woken = true;
    return below.wake(ctx);
}

/*
 * loses: completions that are not 0 bytes. halves: tells half of their bytes. spins: computes while
 * it waits. twice: the first completion comes twice. foreign: it has a tag that nobody gave.
 */
static int wrong_progress(struct zero_comm_ctx *ctx, struct zero_cqe *cqes, uint32_t max,
                          int64_t timeout_ns)
{
    static struct zero_cqe first;
    static bool told, again;
    struct timespec t;
    int64_t until = 0;
    int n, kept = 0;

    if (again && max) {
        again = false;
        cqes[0] = first;
        return 1;
    }
    if (is("spins") && timeout_ns > 0) {
        clock_gettime(CLOCK_MONOTONIC, &t);
        until = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec + timeout_ns;
        timeout_ns = 0;
    }
    in_progress = true;
    do {
        n = below.progress(ctx, cqes, max, timeout_ns);
        clock_gettime(CLOCK_MONOTONIC, &t);
    } while (n == 0 && !woken && (int64_t)t.tv_sec * 1000000000 + t.tv_nsec < until);
    in_progress = false;
    woken = false;
    for (int i = 0; i < n; i++) {
        if (cqes[i].res < 0)
            cqes[i].res = heard(cqes[i].res);
        if (is("halves"))
            cqes[i].res /= 2;
        if (!is("loses") || cqes[i].res == 0)
            cqes[kept++] = cqes[i];
    }
    if (kept && !told && (is("twice") || is("foreign"))) {
        told = true;
        again = is("twice");
        first = cqes[0];
        cqes[0].user = again ? first.user : 12345;
    }
    return n < 0 ? heard(n) : kept;
}

ZERO_PLUGIN_EXPORT int zero_plugin_v1(const struct zero_host *host,
                                      const struct zero_plugin **plugin)
{
    static const struct zero_iface iface = {.kind = ZERO_IFACE_COMM,
                                            .major = ZERO_COMM_MAJOR,
                                            .minor = ZERO_COMM_MINOR,
                                            .ops = &ops};
    static const struct zero_plugin me = {.size = sizeof me,
                                          .name = "wrong",
                                          .version = "1",
                                          .build = "test",
                                          .ifaces = &iface,
                                          .n_ifaces = 1};

    how = host->param(host->ctx, "wrong", "wrong", "", "What is wrong");
    below.size = sizeof below;
    int err = host->stand_on(host->ctx, "wrong", ZERO_IFACE_COMM, "ZERO_WRONG", "shm", &below);
    ops = below;
    ops.size = sizeof ops;
    ops.probe = wrong_probe;
    ops.open = wrong_open;
    ops.progress = wrong_progress;
    ops.wake = wrong_wake;
    ops.abort = wrong_abort;
    ops.split = wrong_split;
    ops.post = wrong_post;
    ops.error = wrong_error;
    *plugin = &me;
    return err;
}
