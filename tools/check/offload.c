/* SPDX-License-Identifier: Apache-2.0 */
/* `zero check offload`: every case, one after another, as TAP. */
#include "config.h"

#include "offload.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/options.h"
#include "base/status.h"
#include "plugin/loader.h"
#include "select.h"
#include "tools/check/stores/tier.h"
#include "watch.h"

static void help(FILE *f)
{
    fputs("usage: zero check offload [OPTION]... PLUGIN\n\n"
          "Tries an offload plugin, by name or as an absolute path, against what offload.h\n"
          "says and prints TAP: what is written comes back, what is wrong is refused,\n"
          "nothing stays behind.\n\n"
          "      --bytes SIZE  of a store (8M), a multiple of its plugin's offset_align, at\n"
          "                    least 16 times that; two of them are open at a time\n"
          "      --case TEXT   only cases whose name contains TEXT\n"
          "      --repeat K    all of it K times, each time with the next seed (1)\n"
          "      --seed S      another set of values, places and sizes (1)\n"
          "      --huge        half as much again as could be had is asked for, also of\n"
          "                    more than 64 GiB\n"
          "      --timeout S   a case that takes longer than S seconds has failed (120)\n"
          "      --list        the cases\n"
          "  -h, --help        this text\n\n"
          "Options of the plugin and of the library are ZERO_ variables, as everywhere:\n"
          "ZERO_NVME_PATH=/scratch zero check offload nvme. ZERO_PLUGIN_PATH names folders\n"
          "with plugins. The plugin fault, above the one to be tried, makes requests fail;\n"
          "it is in the .libs of a folder that libzero was built in, and is not installed:\n"
          "ZERO_FAULT_OFFLOAD=PLUGIN ZERO_FAULT_IO=error=EIO:op=write:n=5:times=3 \\\n"
          "    zero check offload --case fails fault\n\n"
          "The status is 0 when every case passes, 1 when one fails, 2 for bad use.\n",
          f);
}

static bool try_case(struct check_tier *t, struct check_watch *w,
                     const struct check_store_case *test, unsigned number)
{
    struct check_rank *r = &t->verdict;
    int n_bad;

    if ((t->caps.flags & test->needs) != test->needs) {
        printf("ok %u - %s # SKIP not among the plugin's flags\n", number, test->name);
        return true;
    }
    r->n_bad = 0;
    t->skipped = NULL;
    check_watch_case(w, test->name, number);
    test->run(t);
    check_watch_case(w, NULL, 0);
    n_bad = r->n_bad;
    printf("%sok %u - %s%s%s\n", n_bad ? "not " : "", number, test->name,
           n_bad || !t->skipped ? "" : " # SKIP ", n_bad || !t->skipped ? "" : t->skipped);
    for (int i = 0; i < n_bad && i < CHECK_TEXTS; i++)
        printf("# seed %" PRIu64 ": %s\n", r->seed, r->text[i]);
    fflush(stdout);
    return !n_bad;
}

static int run(const struct check_select *s, unsigned n, struct check_tier *t,
               struct check_watch *w)
{
    unsigned number = 0;
    bool good = true;

    printf("1..%llu\n# offload plugin %s, seed %llu: %s\n", (unsigned long long)(n * s->repeat),
           s->plugin, (unsigned long long)s->seed, t->caps.note);
    fflush(stdout);
    for (uint64_t k = 0; k < s->repeat; k++) {
        t->verdict.seed = s->seed + k;
        for (const struct check_store_case *test = check_offload_cases; test->name; test++)
            if (check_chosen(s, test->name))
                good &= try_case(t, w, test, ++number);
    }
    return good ? 0 : 1;
}

/* Whole blocks of the plugin's, as many as every case needs. */
static int bytes_fit(struct check_tier *t)
{
    uint64_t align = t->caps.offset_align ? t->caps.offset_align : 1, least = CHECK_BLOCKS * align;

    if (t->bytes < least)
        return zero__fail(-EINVAL,
                          "--bytes is %llu, but with the alignment of %s, %llu, the cases need "
                          "%llu at least",
                          (unsigned long long)t->bytes, t->verdict.plugin,
                          (unsigned long long)align, (unsigned long long)least);
    t->bytes = (t->bytes + align - 1) / align * align;
    return 0;
}

/* The plugin, probed. */
static int load(const struct check_select *s, uint64_t bytes, struct zero__options *options,
                const struct zero__log *log, struct zero__loader **loader, struct check_tier *t)
{
    struct zero__plugin *plugin;
    int err = zero__loader_create(options, log, NULL, 0, loader);

    if (!err)
        err = zero__loader_load(*loader, ZERO_IFACE_OFFLOAD, s->plugin, &plugin);
    if (err)
        return err;
    *t = (struct check_tier){.ops = zero__plugin_offload(plugin),
                             .host = zero__loader_host(*loader),
                             .caps.size = sizeof t->caps,
                             .verdict = {.plugin = s->plugin, .ranks = 1},
                             .bytes = bytes,
                             .huge = s->huge};
    err = t->ops->probe(t->host, &t->caps);
    return err ? zero__while(err, "offload plugin %s", s->plugin) : bytes_fit(t);
}

_Static_assert(offsetof(struct check_store_case, name) == 0, "check_ready() reads it there");

int check_offload(int argc, char **argv)
{
    static struct check_tier tier; /* too large for a stack */
    struct zero__options *options = NULL;
    struct zero__loader *loader = NULL;
    struct zero__log log = {.rank = -1};
    struct check_watch watch = {0};
    uint64_t bytes = 8 << 20;
    const struct tool_arg own =
        TOOL_ARG("bytes", BYTES, &bytes, TOOL_RANGE(1 << 16, UINT64_C(1) << 40));
    struct check_select s;
    unsigned n;
    int status = check_parse("check offload", &s, &own, 1, help, argc, argv), err;

    if (status < 0)
        status = check_ready("check offload", &s, check_offload_cases, sizeof *check_offload_cases,
                             &n);
    if (status >= 0)
        return status;
    err = zero__options_load(NULL, 0, &options);
    if (!err) {
        zero__option_levels(options, &log);
        err = load(&s, bytes, options, &log, &loader, &tier);
    }
    if (!err)
        err = check_watch_start(&watch, NULL, 0, s.timeout_s);
    status = err ? 2 : run(&s, n, &tier, &watch);
    check_watch_stop(&watch);
    if (err)
        fprintf(stderr, "zero check offload: %s\n", zero__error_text());
    zero__loader_free(loader);
    zero__options_free(options);
    return status;
}
