/* SPDX-License-Identifier: Apache-2.0 */
/* From the command line to ranks, and what a rank does: every operation at every size. */
#include "config.h"

#include "case.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/status.h"
#include "memory/limits.h"
#include "tools/bench/measure/loops.h"
#include "tools/bench/measure/pages.h"
#include "tools/bench/measure/watch.h"
#include "tools/run/itself.h"

/* Refuses what would end in swapping or in a kill. */
static int memory_check(const struct coll_options *o)
{
    char source[128];
    struct coll_memory m;
    uint64_t left = zero__memory_left(source, sizeof source), all;

    coll_memory(o, &m);
    if (!__builtin_mul_overflow(m.region + m.plain + m.map + m.board, (uint64_t)o->ranks, &all) &&
        all + ZERO__MEMORY_MARGIN <= left)
        return 0;
    fprintf(stderr,
            "zero bench %s: %d ranks need %" PRIu64 " MiB in all, but %s has %" PRIu64
            " MiB left: lower the largest size of --bytes%s\n",
            o->bench, o->ranks, all >> 20, source, left >> 20,
            o->cold ? ", or leave out --cold" : "");
    return 2;
}

int coll_start(struct coll_options *o, int argc, char **argv)
{
    struct zero_comm_caps caps;
    struct bench_watch watch;
    struct coll_memory m;

    if (!run_itself_may_start(o->tool))
        return 2;
    if (tool_comm_probe(&o->comm, o->ranks, o->comm_room, &caps)) {
        fprintf(stderr, "zero bench %s: %s\n", o->bench, zero__error_text());
        return 2;
    }
    if (!(caps.mem & ZERO_MEM_HOST)) {
        fprintf(stderr, "zero bench %s: comm plugin %s moves no memory of the host, which is what "
                "this measures: choose another with --comm (zero check comm %s tries it)\n",
                o->bench, o->comm, o->comm);
        return 2;
    }
    for (unsigned i = 0; i < o->n_ops; i++) {
        bool map = o->ops[i] == COLL_MAP;
        unsigned kind = o->ops[i] == COLL_PING_PONG  ? ZERO_BROADCAST
                        : o->ops[i] == COLL_EXCHANGE ? ZERO_ALL_GATHER
                                                     : (unsigned)o->ops[i];
        if (map ? caps.flags & ZERO_COMM_MAP : caps.kinds & 1u << kind)
            continue;
        fprintf(stderr, "zero bench %s: comm plugin %s has no %s: leave it out of --op\n", o->bench,
                o->comm, coll_name(o->ops[i]));
        return 2;
    }
    int status = memory_check(o);
    if (status)
        return status;
    coll_memory(o, &m);
    if (bench_board_create(o->ranks, m.board, &o->board_fd)) {
        fprintf(stderr, "zero bench %s: %s\n", o->bench, zero__error_text());
        return 1;
    }
    bench_watch_begin(&watch);
    status = run_itself("bench", o->ranks, o->bind, o->board_fd, argc, argv);
    if (!status)
        bench_watch_tell(&watch, o->json);
    return status;
}

/* Sizes that are rounded to the same one are measured once. */
static bool is_double(const struct coll_options *o, enum coll_op op, unsigned i)
{
    for (unsigned k = 0; k < i; k++)
        if (coll_bytes(o, op, o->sizes[k]) == coll_bytes(o, op, o->sizes[i]))
            return true;
    return false;
}

/* What the cases of a rank share. */
struct work {
    struct coll_memory bytes;
    struct tool_region region;
    char *plain;
    struct bench_board *board;
    struct coll_pages pages;
    struct bench_bare *bare; /* of rank 0 */
    char bare_why[BENCH_BARE_WHY];
    bool has_bare;
};

/* The processor that this rank is bound to, -1: none. */
static int bound_to(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) || CPU_COUNT(&set) != 1)
        return -1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set))
            return cpu;
    return -1;
}

/* Rank 0 starts the bare exchange, whose ranks run where these do; all hear whether it is there. */
static int bare_open(struct tool_comm *b, const struct coll_options *o, struct work *w)
{
    int mine = bound_to(), cpus[2];
    char text[32], there, all[2];
    int err;

    if (!coll_has_exchange(o))
        return 0;
    err = tool_comm_gather(b, &mine, sizeof mine, cpus);
    if (!err && b->rank == 0) {
        bool bound = cpus[0] >= 0 && cpus[1] >= 0;
        snprintf(text, sizeof text, "%d,%d", cpus[0], cpus[1]);
        w->bare = bench_bare_start(b, o->comm, bound ? text : NULL, w->bare_why);
    }
    there = w->bare != NULL;
    if (!err)
        err = tool_comm_gather(b, &there, sizeof there, all);
    w->has_bare = !err && all[0];
    return err;
}

static int measure_all(struct tool_comm *b, const struct coll_options *o, struct work *work,
                       bool *ok)
{
    unsigned n_wide = 0;
    int err = 0;

    for (unsigned k = 0; k < o->n_ops; k++)
        for (unsigned i = 0; !err && i < o->n_sizes; i++) {
            if (is_double(o, o->ops[k], i))
                continue;
            struct coll_case c = {.b = b,
                                  .o = o,
                                  .op = o->ops[k],
                                  .wanted = o->sizes[i],
                                  .region = &work->region,
                                  .plain = work->plain,
                                  .board = work->board,
                                  .pages = work->pages,
                                  .has_bare = o->ops[k] == COLL_EXCHANGE && work->has_bare,
                                  .bare = work->bare,
                                  .bare_why = work->bare_why};
            err = coll_case_open(&c);
            if (!err)
                err = coll_measure(&c, ok, &n_wide);
            coll_case_close(&c);
        }
    if (!err && b->rank == 0 && !o->json)
        bench_spread_tell(n_wide);
    return err;
}

static int work_open(struct tool_comm *b, const struct coll_options *o, struct work *w)
{
    coll_memory(o, &w->bytes);
    int err = w->bytes.region ? tool_region_create(b, w->bytes.region, &w->region) : 0;
    if (!err && w->bytes.plain && !(w->plain = bench_memory(w->bytes.plain)))
        err = zero__fail(-ENOMEM, "no memory for %" PRIu64 " bytes: lower --bytes", w->bytes.plain);
    if (!err)
        err = bench_board_open(o->board_fd, b->rank, b->ranks, w->bytes.board, o->ranks > o->cores,
                               &w->board);
    if (!err)
        err = bench_board_fill(w->board, o->board_fd, b->timeout_ns);
    if (err)
        return err;
    w->pages.region = bench_pages_huge(w->region.base, w->bytes.region);
    w->pages.plain = bench_pages_huge(w->plain, w->bytes.plain);
    w->pages.board = bench_pages_huge(bench_board_memory(w->board, b->rank), w->bytes.board);
    return 0;
}

int coll_rank(const struct coll_options *given)
{
    struct coll_options o = *given;
    struct tool_comm b = {.who = "zero bench"}; /* who speaks, also when there is no plugin */
    struct work work = {0};
    struct zero_comm_caps caps;
    bool ok = true;

    int err = tool_comm_probe(&o.comm, o.ranks, o.comm_room, &caps);
    if (!err)
        err = tool_comm_open(&b, o.comm);
    if (!err && b.ranks != o.ranks)
        err = zero__fail(-EINVAL, "%d ranks were started, not %d", b.ranks, o.ranks);
    if (!err)
        err = work_open(&b, &o, &work);
    if (!err)
        err = bare_open(&b, &o, &work);
    if (!err && b.rank == 0)
        coll_head(&o, &work.pages, work.bare_why);
    if (!err)
        err = measure_all(&b, &o, &work, &ok);
    bench_bare_end(work.bare);
    int status = tool_comm_close(&b, err);
    bench_memory_free(work.plain, work.bytes.plain);
    bench_board_close(work.board);
    return status ? status : !ok;
}
