/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tier cpu grows and shrinks with its bytes where they are: nothing is there twice, for what it
 * holds may be most of the machine's memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "base/options.h"
#include "base/status.h"
#include "machine/line.h"
#include "plugin/loader.h"
#include "tests/tap.h"

enum { MIB = 1 << 20, MORE = 3 * MIB + 4096 };

static uint64_t before_bytes = 64 * MIB;

/* That it shrinks to. */
static uint64_t left_bytes(void)
{
    return before_bytes / 8 + 4096;
}

static struct zero__log quiet = {.level = 0};

/* Of this process, in KiB: "VmRSS:" now, or "VmHWM:", the most since peak_reset(). */
static long memory_of(const char *key)
{
    uint64_t kib;

    return zero__number_read("/proc/self/status", key, &kib) ? (long)kib : -1;
}

static bool peak_reset(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write(fd, "5", 1) == 1;

    if (fd >= 0)
        close(fd);
    return done;
}

static bool holds(const uint8_t *base, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i += 512)
        if (base[i] != (uint8_t)(i / 512 % 251))
            return false;
    return true;
}

static bool zeros(const uint8_t *base, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (base[i])
            return false;
    return true;
}

struct tier {
    const struct zero_offload_ops *ops;
    struct zero__options *options;
    struct zero__loader *loader;
};

static void tier_load(const char *lock, struct tier *t)
{
    struct zero_setting settings[] = {{"cpu_lock", lock}};
    struct zero__plugin *plugin;

    if (zero__options_load(settings, 1, &t->options) ||
        zero__loader_create(t->options, &quiet, NULL, 0, &t->loader) ||
        zero__loader_load(t->loader, ZERO_IFACE_OFFLOAD, "cpu", &plugin))
        bail(zero__error_text());
    t->ops = zero__plugin_offload(plugin);
}

/* What the kernel was asked for the pages at an address: "hg", "lo"; 0: not that, -1: unknown. */
static int has_flag(const void *at, const char *flag)
{
    FILE *f = fopen("/proc/self/smaps", "re");
    unsigned long first, end;
    char line[4096];
    int here = 0, found = -1;

    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "%lx-%lx ", &first, &end) == 2)
            here = first <= (uintptr_t)at && (uintptr_t)at < end;
        else if (here && !strncmp(line, "VmFlags:", 8))
            found = strstr(line, flag) != NULL;
    }
    if (f)
        fclose(f);
    return found;
}

/* Huge pages are asked for, at addresses where there can be some. */
static void huge(const uint8_t *base, uint64_t bytes, const char *when)
{
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK)) {
        skip("huge pages", "the kernel has none");
        return;
    }
    int first = has_flag(base, " hg"), last = has_flag(base + bytes - 1, " hg");
    if (first < 0)
        skip("huge pages", "the kernel does not say what it was asked for");
    else
        ok(first && last && (uintptr_t)base % (2 * MIB) == 0, "%s: huge pages are asked for", when);
}

static struct zero_store *store_open(const struct tier *t, uint8_t **base)
{
    struct zero_store_open params = {.size = sizeof params, .bytes = before_bytes, .device = -1,
                                     .timeout_ns = 1000000000};
    struct zero_store *store;
    void *map;

    params.host = zero__loader_host(t->loader);
    if (t->ops->open(&params, &store) || t->ops->map(store, &map))
        bail(zero__error_text());
    *base = map;
    for (uint64_t i = 0; i < before_bytes; i += 512)
        (*base)[i] = (uint8_t)(i / 512 % 251);
    return store;
}

static uint8_t *mapped(const struct tier *t, struct zero_store *store)
{
    void *map = NULL;

    t->ops->map(store, &map);
    return map;
}

static void tier_end(struct tier *t, struct zero_store *store)
{
    t->ops->close(store);
    zero__loader_free(t->loader);
    zero__options_free(t->options);
}

static void cycle(struct tier *t, const char *lock)
{
    uint8_t *base;
    struct zero_store *store = store_open(t, &base);
    huge(base, before_bytes, lock);
    bool known = peak_reset();
    long before = memory_of("VmRSS:");
    is_int(t->ops->resize(store, before_bytes + MORE), 0, "%s: a store grows", lock);
    long most = memory_of("VmHWM:");
    base = mapped(t, store);
    ok(holds(base, before_bytes), "%s: it holds what it held", lock);
    ok(zeros(base + before_bytes, MORE), "%s: and zeros behind", lock);
    huge(base, before_bytes + MORE, "grown");
    ok(!known || most - before < MORE / 1024 + 8 * 1024,
       "%s: growing by %d KiB took %ld KiB%s", lock, MORE / 1024, most - before,
       known ? "" : " (not known here)");
    is_int(t->ops->resize(store, left_bytes()), 0, "%s: it shrinks", lock);
    ok(holds(mapped(t, store), left_bytes()), "%s: what is left is what it held", lock);
    unsigned char there;
    base = mapped(t, store);
    ok(mincore(base + left_bytes(), 1, &there) && errno == ENOMEM, "%s: the rest is given back",
       lock);
    tier_end(t, store);
}

/* As somebody who may lock what the store has, but not what it grows by. */
__attribute__((unused)) static void limited(struct tier *t)
{
    struct rlimit limit;

    getrlimit(RLIMIT_MEMLOCK, &limit);
    limit.rlim_cur = limit.rlim_max < 8 * MIB ? limit.rlim_max : 8 * MIB;
    if (limit.rlim_cur < 2 * MORE - MIB || setrlimit(RLIMIT_MEMLOCK, &limit) ||
        (geteuid() == 0 && seteuid(65534))) {
        skip("a limit of locked memory", "less than 5 MiB may be locked here");
        return;
    }
    before_bytes = limit.rlim_cur - MIB;
    prctl(PR_SET_DUMPABLE, 1); /* or /proc/self is root's */
    cycle(&t[0], "locked, up to the limit");

    uint8_t *base;
    struct zero_store *store = store_open(&t[1], &base);
    ok(has_flag(base, " lo") && has_flag(base + before_bytes - 1, " lo"),
       "locked by all means: it is locked");
    int err = t[1].ops->resize(store, before_bytes + MORE);
    ok(err == -ENOMEM && strstr(zero__error_text(), "ulimit -l"),
       "locked by all means: refused: %s", zero__error_text());
    ok(holds(mapped(&t[1], store), before_bytes), "and it holds what it held");
    tier_end(&t[1], store);
}

int main(void)
{
    static const char *const locks[] = {"0", "auto", "auto", "1"};
    struct tier t[4];

    for (int i = 0; i < 4; i++)
        tier_load(locks[i], &t[i]);
    cycle(&t[0], "not locked");
    cycle(&t[1], "locked, if that is allowed");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    limited(&t[2]); /* with a sanitizer munlock() does nothing */
#endif
    done();
}
