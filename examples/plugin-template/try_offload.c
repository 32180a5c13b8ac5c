/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tries an offload plugin without the library: try_offload /abs/path/zero-offload-NAME.so. It plays
 * the library's part with the smallest possible services and prints TAP.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <zero/offload.h>

#define BYTES (UINT64_C(8) << 20)
#define PIECES 64u
#define PIECE (BYTES / PIECES)
#define WAIT_NS INT64_C(10000000000)

static int n_tests, n_failed;
static char sentence[512] = "no error";

static void ok(bool good, const char *what)
{
    n_failed += !good;
    printf("%sok %d - %s\n", good ? "" : "not ", ++n_tests, what);
    if (!good)
        printf("# the last error was: %s\n", sentence);
}

static void host_log(void *ctx, const char *plugin, int level, const char *fmt, ...)
{
    (void)ctx, (void)plugin, (void)level, (void)fmt;
}

static int host_fail(void *ctx, const char *plugin, int err, const char *fmt, ...)
{
    va_list ap;

    (void)ctx, (void)plugin;
    va_start(ap, fmt);
    vsnprintf(sentence, sizeof sentence, fmt, ap);
    va_end(ap);
    return err;
}

/* Options come from the environment here: ZERO_<KEY>. */
static const char *host_param(void *ctx, const char *plugin, const char *key, const char *dflt,
                              const char *help)
{
    char name[128] = "ZERO_";
    const char *value;

    (void)ctx, (void)plugin, (void)help;
    for (size_t i = 0; key[i] && i + 6 < sizeof name; i++)
        name[5 + i] = (char)(key[i] >= 'a' && key[i] <= 'z' ? key[i] - 'a' + 'A' : key[i]);
    value = getenv(name);
    return value && *value ? value : dflt;
}

static const struct zero_host host = {
    .size = sizeof host,
    .offload_minor = ZERO_OFFLOAD_MINOR,
    .log = host_log,
    .fail = host_fail,
    .param = host_param,
};

static const struct zero_offload_ops *load(const char *path)
{
    int (*entry)(const struct zero_host *, const struct zero_plugin **);
    const struct zero_plugin *plugin = NULL;
    void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

    if (!file) {
        snprintf(sentence, sizeof sentence, "%s", dlerror());
        return NULL;
    }
    *(void **)&entry = dlsym(file, "zero_plugin_v1");
    if (!entry || entry(&host, &plugin) || !plugin)
        return NULL;
    for (uint32_t i = 0; i < plugin->n_ifaces; i++)
        if (plugin->ifaces[i].kind == ZERO_IFACE_OFFLOAD &&
            plugin->ifaces[i].major == ZERO_OFFLOAD_MAJOR)
            return plugin->ifaces[i].ops;
    return NULL;
}

/* All n requests, each completed once with its bytes. */
static bool run(const struct zero_offload_ops *ops, struct zero_store *store,
                const struct zero_io *ios, uint32_t n)
{
    uint32_t sent = 0, done = 0, seen[PIECES] = {0};
    struct zero_cqe cqes[8];

    while (done < n) {
        int k = sent < n ? ops->submit(store, ios + sent, n - sent) : 0;
        if (k < 0)
            return false;
        sent += (uint32_t)k;
        k = ops->poll(store, cqes, 8, WAIT_NS);
        if (k <= 0)
            return false;
        for (int i = 0; i < k; i++, done++)
            if (cqes[i].user >= n || seen[cqes[i].user]++ ||
                cqes[i].res != (int64_t)ios[cqes[i].user].buf.len)
                return false;
    }
    return true;
}

static void make(struct zero_io *ios, uint32_t op, struct zero_mr *mr, uint64_t off)
{
    for (uint32_t i = 0; i < PIECES; i++)
        ios[i] = (struct zero_io){
            .op = op, .store_off = i * PIECE, .buf = {mr, off + i * PIECE, PIECE}, .user = i};
}

struct later {
    const struct zero_offload_ops *ops;
    struct zero_store *store;
};

static void *wake_later(void *arg)
{
    struct timespec t = {0, 50000000};
    struct later *l = arg;

    nanosleep(&t, NULL);
    l->ops->wake(l->store);
    return NULL;
}

static void try_waiting(const struct zero_offload_ops *ops, struct zero_store *store)
{
    struct later later = {ops, store};
    struct timespec from, to;
    struct zero_cqe cqe;
    pthread_t thread;

    ok(ops->poll(store, &cqe, 1, 0) == 0, "no completion of nothing");
    clock_gettime(CLOCK_MONOTONIC, &from);
    pthread_create(&thread, NULL, wake_later, &later);
    ok(ops->poll(store, &cqe, 1, WAIT_NS) == 0, "wake() ends a wait");
    pthread_join(thread, NULL);
    clock_gettime(CLOCK_MONOTONIC, &to);
    ok(to.tv_sec - from.tv_sec < 5, "soon");
}

static void try_refusals(const struct zero_offload_ops *ops, struct zero_store *store,
                         struct zero_mr *mr)
{
    const struct zero_io good = {.op = ZERO_IO_READ, .buf = {mr, 0, 64}};
    struct zero_io io = good;
    struct zero_mr *other;

    io.op = 77;
    ok(ops->submit(store, &io, 1) == -ENOTSUP, "an unknown request is refused");
    io = good, io.reserved[1] = 1;
    ok(ops->submit(store, &io, 1) == -EINVAL, "a reserved field that is not 0");
    io = good, io.store_off = BYTES;
    ok(ops->submit(store, &io, 1) == -ERANGE, "what lies behind the store");
    io = good, io.store_off = UINT64_MAX - 63;
    ok(ops->submit(store, &io, 1) == -ERANGE, "an offset that wraps around");
    io = good, io.buf.off = 2 * BYTES;
    ok(ops->submit(store, &io, 1) == -ERANGE, "what lies behind the memory");
    ok(ops->reg(store, sentence, 64, ZERO_MEM_CUDA, &other) == -ENOTSUP, "memory of a GPU");
}

static void try_store(const struct zero_offload_ops *ops, struct zero_store *store)
{
    struct zero_io ios[PIECES], sync = {.op = ZERO_IO_SYNC};
    struct zero_store_info info = {.size = sizeof info};
    unsigned char *memory = malloc(2 * BYTES);
    struct zero_mr *mr = NULL;

    ok(memory && ops->reg(store, memory, 2 * BYTES, ZERO_MEM_HOST, &mr) == 0, "memory registers");
    if (!mr)
        return;
    ok(ops->info(store, &info) == 0 && info.capacity >= BYTES && info.depth > 0, "info");
    for (uint64_t i = 0; i < 2 * BYTES; i++)
        memory[i] = (unsigned char)(i < BYTES ? i * 2654435761u >> 13 : 0);
    make(ios, ZERO_IO_WRITE, mr, 0);
    ok(run(ops, store, ios, PIECES), "writes, more of them than fit at once");
    ok(run(ops, store, &sync, 1), "a sync");
    make(ios, ZERO_IO_READ, mr, BYTES);
    ok(run(ops, store, ios, PIECES), "reads");
    ok(memcmp(memory, memory + BYTES, BYTES) == 0, "what was written is read");
    try_waiting(ops, store);
    try_refusals(ops, store, mr);
    ok(ops->resize(store, 2 * BYTES) == 0, "a store grows");
    ok(ops->info(store, &info) == 0 && info.capacity >= 2 * BYTES, "and says so");
    memset(memory + BYTES, 0, BYTES);
    ok(run(ops, store, ios, PIECES) && memcmp(memory, memory + BYTES, BYTES) == 0,
       "with what was in it");
    ok(ops->unreg(store, mr) == 0, "the registration ends");
    free(memory);
}

int main(int argc, char **argv)
{
    struct zero_store_open open = {
        .size = sizeof open, .host = &host, .bytes = BYTES, .device = -1, .timeout_ns = WAIT_NS};
    struct zero_store_info info = {.size = sizeof info};
    const struct zero_offload_ops *ops = argc == 2 && argv[1][0] == '/' ? load(argv[1]) : NULL;
    struct zero_store *store = NULL;

    if (!ops) {
        fprintf(stderr, "usage: try_offload /abs/path/zero-offload-NAME.so: %s\n", sentence);
        return 2;
    }
    ok(ops->probe(&host, &info) == 0, "probe");
    printf("# %.127s\n", info.note);
    ok(ops->open(&open, &store) == 0 && store, "open");
    if (store) {
        try_store(ops, store);
        ok(ops->close(store) == 0, "close");
    }
    open.bytes = UINT64_C(1) << 62;
    ok(ops->open(&open, &store) < 0 && strlen(sentence) > 10, "a store of 4 EiB is refused");
    printf("1..%d\n", n_tests);
    return n_failed != 0;
}
