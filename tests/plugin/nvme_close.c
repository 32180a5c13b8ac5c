/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store of the tier nvme that is closed with transfers under way which its system refuses again
 * and again (ZERO_SHAKY_REFUSES, shaky.h): a close asks nothing again, and so has not to wait until
 * the store loses its patience.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/options.h"
#include "base/status.h"
#include "machine/clock.h"
#include "plugin/loader.h"
#include "tests/tap.h"

enum { BLOCK = 4096, N = 8 };

static const struct zero_offload_ops *load(const char *engine, struct zero__options **options,
                                           struct zero__loader **loader)
{
    static struct zero__log log = {.level = 0};
    char *folder = realpath("tests/plugin/.libs", NULL);
    struct zero_setting settings[] = {{"nvme_engine", engine}, {"plugin_path", folder}};
    struct zero__plugin *plugin;

    if (!folder)
        bail("tests/plugin/.libs is not there");
    if (zero__options_load(settings, 2, options) ||
        zero__loader_create(*options, &log, NULL, 0, loader) ||
        zero__loader_load(*loader, ZERO_IFACE_OFFLOAD, "shaky", &plugin))
        bail(zero__error_text());
    free(folder);
    return zero__plugin_offload(plugin);
}

static void closes(const char *engine)
{
    struct zero__options *options;
    struct zero__loader *loader;
    const struct zero_offload_ops *ops = load(engine, &options, &loader);
    struct zero_store_open params = {.size = sizeof params, .bytes = N * BLOCK, .device = -1,
                                     .timeout_ns = 60 * ZERO_SECOND};
    struct zero_io ios[N];
    struct zero_store *store;
    struct zero_mr *mr;
    void *memory =
        mmap(NULL, N * BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    params.host = zero__loader_host(loader);
    if (memory == MAP_FAILED || ops->open(&params, &store) ||
        ops->reg(store, memory, N * BLOCK, ZERO_MEM_HOST, &mr))
        bail(zero__error_text());
    for (int i = 0; i < N; i++)
        ios[i] = (struct zero_io){.op = ZERO_IO_WRITE, .store_off = (uint64_t)i * BLOCK,
                                  .buf = {mr, (uint64_t)i * BLOCK, BLOCK}, .user = (uint64_t)i};
    is_int(ops->submit(store, ios, N), N, "%s: %d writes are taken", engine, N);
    int64_t before = zero__now_ns();
    int err = ops->close(store);
    double seconds = (double)(zero__now_ns() - before) * 1e-9;
    ok(!err && seconds < 10, "%s: the store closes at once: %s, %.1f s", engine,
       err ? zero__error_text() : "0", seconds);
    munmap(memory, N * BLOCK);
    zero__loader_free(loader);
    zero__options_free(options);
}

int main(void)
{
    setenv("ZERO_SHAKY_REFUSES", "60000", 1);
    closes("auto");
    closes("threads");
    done();
}
