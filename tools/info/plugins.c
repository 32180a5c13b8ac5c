/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For each plugin what it says of itself, or what is wrong with it; or a paragraph: where it is,
 * what it is, what it can do. Those of the project that are not there are named, too, and why.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/grow.h"
#include "device/host.h"
#include "plugin/loader.h"
#include "print.h"

#define INDENT "           "

/* Words for the set bits of a mask; a bit without a word is shown by its number. */
static void bits(const char *what, uint32_t mask, const char *const *words, unsigned n)
{
    if (!mask)
        return;
    printf(INDENT "%s", what);
    for (unsigned i = 0; i < 32; i++) {
        if (!(mask & UINT32_C(1) << i))
            continue;
        if (i < n && words[i])
            printf(" %s", words[i]);
        else
            printf(" bit-%u", i);
    }
    putchar('\n');
}

static void dtypes(uint32_t mask)
{
    const char *words[32] = {0};

    for (uint32_t t = 0; t < 32; t++)
        words[t] = zero_dtype_bytes(t) ? zero_dtype_name(t) : NULL;
    bits("sums of   ", mask, words, 32);
}

static void memory_kinds(uint32_t mask)
{
    static const char *const words[] = {"host", "pinned", "cuda"};
    bits("memory    ", mask, words, 3);
}

static void note(const char *text)
{
    if (text[0])
        printf(INDENT "%s\n", text);
}

static void show_comm(const struct zero_comm_caps *c)
{
    static const char *const flags[] = {"stream",     "ordered",     "map",
                                        "accumulate", "fingerprint", "network",
                                        "local-abort"};
    const char *kinds[ZERO_BARRIER + 1];

    for (uint32_t kind = 0; kind <= ZERO_BARRIER; kind++)
        kinds[kind] = zero_coll_name(kind);
    note(c->note);
    bits("collective", c->kinds, kinds, 5);
    dtypes(c->dtypes);
    bits("can       ", c->flags, flags, 7);
    memory_kinds(c->mem);
    if (c->max_ranks)
        printf(INDENT "ranks      at most %u\n", c->max_ranks);
}

static void show_offload(const struct zero_store_info *s)
{
    static const char *const flags[] = {"mapped", "direct", "memory"};
    char capacity[32];

    note(s->note);
    info_bytes(s->capacity, capacity);
    printf(INDENT "capacity   %s, requests aligned to %u bytes, %u in flight\n", capacity,
           s->offset_align, s->depth);
    bits("can       ", s->flags, flags, 3);
    memory_kinds(s->mem);
}

static void show_device(const struct zero_device_info *d)
{
    char total[32], left[32];

    note(d->note);
    info_bytes(d->memory_bytes, total);
    info_bytes(d->free_bytes, left);
    printf(INDENT "memory     %s, %s free", total, left);
    if (d->threads)
        printf("; %u thread%s", d->threads, d->threads == 1 ? "" : "s");
    putchar('\n');
}

static int show(void *arg, const struct zero__plugin_row *row)
{
    (void)arg;
    printf("  %-7s  %-8s ", row->kind_name ? row->kind_name : "?", row->name);
    if (row->error) {
        printf("cannot be loaded\n" INDENT "%s\n", row->error);
        return 0;
    }
    printf("version %s, interface", row->version);
    for (uint32_t i = 0; i < row->n_ifaces; i++)
        if (row->ifaces[i].kind == row->kind)
            printf(" %u.%u", row->ifaces[i].major, row->ifaces[i].minor);
    printf("%s\n" INDENT "%s\n", row->probe ? ": not usable here" : "", row->path);
    if (row->build && row->build[0])
        printf(INDENT "build      %s\n", row->build);
    if (row->probe)
        printf(INDENT "%s\n", row->probe_error);
    else if (row->kind == ZERO_IFACE_COMM)
        show_comm(&row->comm);
    else if (row->kind == ZERO_IFACE_OFFLOAD)
        show_offload(&row->offload);
    else
        show_device(&row->device);
    return 0;
}

/* One that can be used, in a line. */
static void describe(const struct zero__plugin_row *row, char *text, size_t room)
{
    char left[32];

    if (row->kind == ZERO_IFACE_COMM) {
        snprintf(text, room, "%s", row->comm.note);
    } else if (row->kind == ZERO_IFACE_OFFLOAD) {
        info_bytes(row->offload.capacity, left);
        snprintf(text, room, "%s; %s", row->offload.note, left);
    } else {
        info_bytes(row->device.free_bytes, left);
        snprintf(text, room, "%s%s%s free", row->device.note, row->device.note[0] ? "; " : "",
                 left);
    }
}

/* A reason without the name of the plugin, which stands before it. */
static const char *unnamed(const char *error, const char *name)
{
    const size_t n = strlen(name);
    return strncmp(error, name, n) == 0 && strncmp(error + n, ": ", 2) == 0 ? error + n + 2 : error;
}

static int show_short(void *arg, const struct zero__plugin_row *row)
{
    char text[1024];
    int at = printf("  %-7s  %-8s ", row->kind_name ? row->kind_name : "?", row->name);

    (void)arg;
    if (row->error)
        snprintf(text, sizeof text, "cannot be loaded: %s", row->error);
    else if (row->probe)
        snprintf(text, sizeof text, "not usable here: %s",
                 unnamed(row->probe_error, row->name));
    else
        describe(row, text, sizeof text);
    info_wrapped(text, at, at);
    return 0;
}

/*
 * Plugins of the project that need more than the library does, and why configure left one out: NULL
 * where it did not.
 */
#ifndef ZERO_NO_NVCC
#define ZERO_NO_NVCC NULL
#endif
#ifndef ZERO_NO_OFI
#define ZERO_NO_OFI NULL
#endif
#ifndef ZERO_NO_UCX
#define ZERO_NO_UCX NULL
#endif
#ifndef ZERO_NO_URING
#define ZERO_NO_URING NULL
#endif
static const struct {
    uint32_t kind;
    const char *kind_name, *name, *why;
} wanted[] = {
    {ZERO_IFACE_DEVICE, "device", "cuda", ZERO_NO_NVCC},
    {ZERO_IFACE_COMM, "comm", "nccl", NULL},
    {ZERO_IFACE_COMM, "comm", "ofi", ZERO_NO_OFI},
    {ZERO_IFACE_COMM, "comm", "ucx", ZERO_NO_UCX},
    {ZERO_IFACE_OFFLOAD, "offload", "nvme", ZERO_NO_URING},
};
#define N_WANTED (sizeof wanted / sizeof *wanted)

struct scan {
    const struct zero__options *options;
    struct info_kinds *kinds;
    int (*show)(void *arg, const struct zero__plugin_row *row); /* NULL: nothing is shown */
    bool there[N_WANTED];
};

/* A plugin that was loaded and probed: the options that are new are those of its kind. */
static int look(void *arg, const struct zero__plugin_row *row)
{
    struct scan *s = arg;
    struct info_kinds *k = s->kinds;
    struct zero__option_row option;

    while (!zero__options_row(s->options, ZERO__N_OPTIONS + k->n, &option) &&
           !zero__grow(&k->of, &k->room, k->n, sizeof *k->of))
        k->of[k->n++] = row->kind_name;
    for (size_t i = 0; i < N_WANTED; i++)
        if (row->kind == wanted[i].kind && strcmp(row->name, wanted[i].name) == 0)
            s->there[i] = true;
    return s->show ? s->show(NULL, row) : 0;
}

/* Those of which no file was found. */
static void show_missing(const struct scan *s)
{
    for (size_t i = 0; i < N_WANTED; i++) {
        char text[128];
        struct zero__plugin_row row = {.kind = wanted[i].kind,
                                       .kind_name = wanted[i].kind_name,
                                       .name = wanted[i].name,
                                       .error = wanted[i].why ? wanted[i].why : text};

        snprintf(text, sizeof text,
                 "no file zero-%s-%s.so in the folders below: set ZERO_PLUGIN_PATH to its folder",
                 row.kind_name, row.name);
        if (s->show && !s->there[i])
            s->show(NULL, &row);
    }
}

int info_plugins(struct zero__options *options, const struct zero__log *log,
                 enum info_plugins how, struct info_kinds *kinds)
{
    static const struct zero_plugin *const builtins[] = {&zero__host_device_plugin};
    struct scan scan = {.options = options,
                        .kinds = kinds,
                        .show = how == INFO_WHOLE   ? show
                                : how == INFO_SHORT ? show_short
                                                    : NULL};
    struct zero__loader *loader;

    if (how == INFO_WHOLE)
        puts("plugins");
    else if (how == INFO_SHORT)
        puts("plugins (zero info --plugins tells more)");
    int err = zero__loader_create(options, log, builtins, 1, &loader);
    if (err) {
        fflush(stdout);
        fprintf(stderr, "zero info: %s\n", zero_last_error());
        return 1;
    }
    zero__loader_scan(loader, look, &scan);
    show_missing(&scan);
    const char *dir;
    for (uint32_t i = 0; how != INFO_NONE && (dir = zero__loader_dir(loader, i)); i++)
        printf("%s%s", i ? ":" : "  looked for in ", dir);
    if (how != INFO_NONE)
        putchar('\n');
    zero__loader_free(loader);
    return 0;
}
