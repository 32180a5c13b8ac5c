/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An offload plugin for tests: `cpu` with one defect, which ZERO_WRONG_STORE names. Stores are
 * those of `cpu`, one at a time.
 */
#include <zero/offload.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static struct zero_offload_ops below, ops;
static const char *how;
static unsigned under_way, ended; /* requests */
static bool early; /* the next poll() comes back for nothing */

static bool is(const char *defect)
{
    return strcmp(how, defect) == 0;
}

static void sleep_ms(int ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};

    nanosleep(&t, NULL);
}

static void *rest(void *arg)
{
    pause();
    return arg;
}

/* threads: each store leaves one. */
static int wrong_open(const struct zero_store_open *params, struct zero_store **store)
{
    pthread_t thread;

    if (is("threads") && !pthread_create(&thread, NULL, rest, NULL))
        pthread_detach(thread);
    under_way = ended = 0;
    return below.open(params, store);
}

static struct rlimit files;

static void allow_files(void)
{
    setrlimit(RLIMIT_NOFILE, &files);
}

/* full: behind the 17th store nothing can be opened, as where descriptors were left without end. */
static int wrong_close(struct zero_store *store)
{
    static unsigned closed;
    int err = below.close(store);

    if (is("full") && ++closed == 17 && !getrlimit(RLIMIT_NOFILE, &files)) {
        const struct rlimit none = {0, files.rlim_max};
        atexit(allow_files); /* who looks for leaks opens files then */
        setrlimit(RLIMIT_NOFILE, &none);
    }
    return err;
}

static int wrong_submit(struct zero_store *store, const struct zero_io *ios, uint32_t n)
{
    int k = below.submit(store, ios, n);

    under_way += k > 0 ? (unsigned)k : 0;
    return k;
}

/*
 * dull: what ends does not wake a poll() that waits for long. stuck: of what ends the first 100 are
 * handed out. No defects: slow: a request takes 6 ms; early: every other poll() comes back for
 * nothing.
 */
static int wrong_poll(struct zero_store *store, struct zero_cqe *cqes, uint32_t max,
                      int64_t timeout_ns)
{
    if (is("dull") && under_way && timeout_ns > INT64_C(6000000000))
        sleep_ms(6000);
    if (is("stuck") && ended >= 100) {
        sleep_ms(10);
        return 0;
    }
    early = is("early") && under_way && max && !early;
    if (early)
        return 0;
    if (is("slow") && under_way && max)
        sleep_ms(6);
    int n = below.poll(store, cqes, max && (is("slow") || is("stuck")) ? 1 : max, timeout_ns);
    under_way -= n > 0 ? (unsigned)n : 0;
    ended += n > 0 ? (unsigned)n : 0;
    return n;
}

ZERO_PLUGIN_EXPORT int zero_plugin_v1(const struct zero_host *host,
                                      const struct zero_plugin **plugin)
{
    static const struct zero_iface iface = {.kind = ZERO_IFACE_OFFLOAD,
                                            .major = ZERO_OFFLOAD_MAJOR,
                                            .minor = ZERO_OFFLOAD_MINOR,
                                            .ops = &ops};
    static const struct zero_plugin me = {.size = sizeof me,
                                          .name = "wrong_store",
                                          .version = "1",
                                          .build = "test",
                                          .ifaces = &iface,
                                          .n_ifaces = 1};

    how = host->param(host->ctx, "wrong_store", "wrong_store", "", "What is wrong");
    below.size = sizeof below;
    int err = host->stand_on(host->ctx, "wrong_store", ZERO_IFACE_OFFLOAD, "ZERO_WRONG_STORE",
                             "cpu", &below);
    ops = below;
    ops.size = sizeof ops;
    ops.open = wrong_open;
    ops.close = wrong_close;
    ops.submit = wrong_submit;
    ops.poll = wrong_poll;
    *plugin = &me;
    return err;
}
