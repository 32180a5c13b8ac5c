/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `zero check comm`: every case on N ranks, one after another, as TAP. Ranks are processes; they
 * tell rank 0 over the job's control channel what they think of a case, so a plugin that fails
 * cannot take the verdict with it.
 */
#include "config.h"

#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "device.h"
#include "select.h"
#include "tools/check/cases/rank.h"
#include "tools/common/comm.h"
#include "tools/run/itself.h"
#include "watch.h"

static void help(FILE *f)
{
    fputs("usage: zero check comm [OPTION]... PLUGIN\n\n"
          "Tries a communication plugin, by name or as an absolute path, against what\n"
          "comm.h says and prints TAP. What the plugin declares must work, bit by bit; what\n"
          "it does not declare must be refused. Ranks are processes on this machine; no\n"
          "model is needed.\n\n"
          "  -n, --ranks N     ranks (2)\n"
          "      --case TEXT   only cases whose name contains TEXT\n"
          "      --repeat K    every case K times in a row, with the seeds S, S+1 ... (1)\n"
          "      --seed S      another set of values and orders (1)\n"
          "      --huge        also cases that take N x N x 2 GiB of memory\n"
          "      --timeout S   a case that takes longer than S seconds has failed (120);\n"
          "                    30 at least\n"
          "      --list        the cases\n"
          "  -h, --help        this text\n\n"
          "Options of the plugin and of the library are ZERO_ variables, as everywhere;\n"
          "ZERO_PLUGIN_PATH names folders with plugins. The status is 0 when every case\n"
          "passes, 1 when one fails, 2 for bad use.\n",
          f);
}

struct verdict {
    int32_t n_bad;
    char text[CHECK_TEXTS][sizeof((struct check_rank *)0)->text[0]];
};

/* One run of a case. */
struct turn {
    const struct check_case *test;
    unsigned number;
    uint64_t seed;
    bool repeated;
};

static void print_name(const struct turn *t, bool good)
{
    printf("%sok %u - %s", good ? "" : "not ", t->number, t->test->name);
    if (t->repeated)
        printf(", seed %" PRIu64, t->seed);
}

static void print_complaints(const struct verdict *v)
{
    for (int i = 0; i < v->n_bad && i < CHECK_TEXTS; i++)
        printf("# %.*s\n", (int)sizeof v->text[i], v->text[i]);
}

/* What all ranks think of a case, printed by rank 0. */
static void print_verdict(const struct verdict *all, int ranks, const struct turn *t)
{
    bool good = true;

    for (int p = 0; p < ranks; p++)
        good &= all[p].n_bad == 0;
    print_name(t, good);
    putchar('\n');
    for (int p = 0; p < ranks; p++)
        print_complaints(&all[p]);
    fflush(stdout);
}

/* A rank is not there any more to say what it thinks. */
static void print_broken(const struct verdict *mine, const struct turn *t)
{
    print_name(t, false);
    printf("\n# %s\n", zero__error_text());
    print_complaints(mine);
    fflush(stdout);
}

/* One case on this rank. *failed: on any. */
static int try_case(struct tool_comm *b, const struct check_device *d, const struct check_select *s,
                    struct check_watch *w, const struct turn *t, struct verdict *all, bool *failed)
{
    static struct check_rank r; /* too large for a stack */
    static struct verdict mine;
    const char *why;

    r = (struct check_rank){.ops = &b->ops,
                            .host = zero__loader_host(b->loader),
                            .oob = zero__job_oob(b->job),
                            .interface = zero__job_interface(b->job),
                            .device_ops = d->dev ? &d->ops : NULL,
                            .device = d->dev,
                            .caps = b->caps,
                            .plugin = s->plugin,
                            .rank = b->rank,
                            .ranks = b->ranks,
                            .huge = s->huge,
                            .seed = t->seed * 1000};
    if (!check_applies(t->test, &r, &why)) {
        if (b->rank == 0) {
            print_name(t, true);
            printf(" # SKIP %s\n", why);
        }
        return 0;
    }
    char shown[sizeof w->name];
    snprintf(shown, sizeof shown, t->repeated ? "%s, seed %" PRIu64 : "%s", t->test->name, t->seed);
    w->seconds = s->timeout_s * (t->test->huge ? CHECK_HUGE_TIMES : 1);
    check_watch_case(w, shown, t->number);
    t->test->run(&r);
    check_watch_case(w, NULL, 0);
    mine = (struct verdict){.n_bad = r.n_bad};
    memcpy(mine.text, r.text, sizeof mine.text);
    int err = tool_comm_gather(b, &mine, sizeof mine, all);
    if (b->rank == 0 && err) /* the ranks are out of step: no further case can tell anything */
        print_broken(&mine, t);
    else if (b->rank == 0)
        print_verdict(all, b->ranks, t);
    if (w->board && b->rank == 0)
        atomic_store(&w->board->told, t->number);
    for (int p = 0; p < b->ranks && !err; p++)
        *failed |= all[p].n_bad != 0;
    return err;
}

static int run_rank(const struct check_select *s, unsigned n, int fd)
{
    struct verdict *all = NULL;
    struct check_device device = {0};
    struct check_watch watch = {0};
    struct tool_comm b;
    bool failed = false;
    int err = tool_comm_join(&b, s->plugin);

    b.who = "zero check comm";
    if (!err)
        err = check_device_open(&b, &device);
    if (!err)
        err = check_watch_start(&watch, b.job, b.rank, s->timeout_s);
    watch.board = check_board_open(fd);
    if (!err && !(all = calloc((size_t)b.ranks, sizeof *all)))
        err = zero__fail(-ENOMEM, "no memory for the verdicts of %d ranks", b.ranks);
    struct turn t = {.repeated = s->repeat > 1};
    if (!err && b.rank == 0)
        printf("1..%" PRIu64 "\n# comm plugin %s, %d rank%s, seed %" PRIu64 ": %s\n",
               n * s->repeat, s->plugin, b.ranks, b.ranks == 1 ? "" : "s", s->seed, b.caps.note);
    fflush(stdout);
    for (t.test = check_comm_cases; t.test->name && !err; t.test++)
        for (uint64_t k = 0; k < s->repeat && check_chosen(s, t.test->name) && !err; k++) {
            t.number++;
            t.seed = s->seed + k;
            err = try_case(&b, &device, s, &watch, &t, all, &failed);
        }
    if (err && all && b.rank == 0)
        puts("Bail out! no further case could tell anything");
    if (watch.board && all && b.rank == 0)
        atomic_store(&watch.board->finished, 1);
    check_watch_stop(&watch);
    free(all);
    check_device_close(&device);
    int status = tool_comm_close(&b, err);
    return status ? status : failed;
}

/* Runs the ranks; what rank 0 could not say any more is said here. */
static int start_ranks(int ranks, int fd, int argc, char **argv)
{
    const struct check_board *board = check_board_open(fd);
    int status = run_itself("check", ranks, false, fd, argc, argv);

    close(fd);
    if (!board || atomic_load(&board->finished))
        return status > 2 ? 1 : status; /* a rank was killed: the plugin has failed */
    if (atomic_load(&board->number) > atomic_load(&board->told))
        printf("not ok %u - %.*s\n# rank 0 has ended in it\n", atomic_load(&board->number),
               (int)sizeof board->name, board->name);
    puts("Bail out! rank 0 has ended before the last case");
    return 1;
}

_Static_assert(offsetof(struct check_case, name) == 0, "check_ready() reads it there");

int check_comm(int argc, char **argv)
{
    uint64_t ranks = 2;
    const struct tool_arg own =
        TOOL_ARG("ranks", WHOLE, &ranks, TOOL_RANGE(1, CHECK_RANKS), .letter = 'n');
    struct zero_comm_caps caps;
    struct check_select s;
    unsigned n;
    int cores, fd;
    int status = check_parse("check comm", &s, &own, CHECK_WATCH_LEAST_S, help, argc, argv);

    if (status < 0)
        status = check_ready("check comm", &s, check_comm_cases, sizeof *check_comm_cases, &n);
    if (status >= 0)
        return status;
    if (run_itself_is_rank(&cores, &fd))
        return run_rank(&s, n, fd);
    if (!run_itself_may_start("check comm"))
        return 2;
    if (tool_comm_probe(&s.plugin, (int)ranks, NULL, &caps)) {
        fprintf(stderr, "zero check comm: %s\n", zero__error_text());
        return 2;
    }
    if (!(caps.kinds & (1u << ZERO_BARRIER | 1u << ZERO_ALL_GATHER)) &&
        (!(caps.kinds & (1u << ZERO_REDUCE_SCATTER | 1u << ZERO_ALL_REDUCE)) ||
         !(caps.dtypes & 1u << ZERO_F32) || !(caps.redops & 1u << ZERO_SUM))) {
        fprintf(stderr,
                "zero check comm: %s declares no barrier, no all_gather and no sum of fp32: its "
                "ranks have nothing to meet by; declare one of them\n",
                s.plugin);
        return 2;
    }
    fd = check_board_create();
    if (fd < 0)
        return 2;
    return start_ranks((int)ranks, fd, argc, argv);
}
