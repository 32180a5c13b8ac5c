/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repetitions of a case and of its limit in turn, so that both see the same machine; where caches
 * matter, some of each in a row, since each leaves others behind. A repetition took as long as it
 * took the slowest rank.
 */
#include "config.h"

#include "case.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tools/bench/measure/pages.h"
#include "tools/bench/measure/record.h"
#include "tools/bench/measure/watch.h"

/* The limit in each way; the bare exchange. */
enum { OP, LIMIT, BARE = LIMIT + N_BENCH_WAYS, N_SERIES };
#define BLOCK 5u    /* repetitions of a series in a row */
#define N_FIELDS 19 /* of a record, beside its loops' */

struct measure {
    struct coll_moment *own[N_SERIES], *all;
    double *seconds[N_SERIES]; /* of repetitions, in their order */
    double *sorted;
    struct bench_stats stats[N_SERIES];
    uint64_t wire; /* bytes that this rank sent in one operation */
};

static void measure_free(struct measure *m)
{
    for (int s = 0; s < N_SERIES; s++) {
        free(m->own[s]);
        free(m->seconds[s]);
    }
    free(m->all);
    free(m->sorted);
}

static int measure_alloc(struct measure *m, const struct coll_options *o)
{
    bool none = false;

    *m = (struct measure){0};
    for (int s = 0; s < N_SERIES; s++) {
        none |= !(m->own[s] = calloc(o->reps, sizeof *m->own[s]));
        none |= !(m->seconds[s] = calloc(o->reps, sizeof *m->seconds[s]));
    }
    m->all = calloc((size_t)o->reps * (size_t)o->ranks, sizeof *m->all);
    m->sorted = calloc(o->reps, sizeof *m->sorted);
    return none || !m->all || !m->sorted
               ? zero__fail(-ENOMEM, "no memory for %u repetitions", o->reps)
               : 0;
}

/*
 * The time of repetition i. With a core for each rank it is that of the slowest: none ends before
 * all have begun. Ranks that share cores begin late, so there it is from the first to the last.
 */
static double duration(const struct coll_case *c, const struct coll_moment *all, unsigned i)
{
    const struct coll_moment *m = &all[i];
    int64_t start = m->start, end = m->end, longest = 0;

    for (int r = 0; r < c->o->ranks; r++, m += c->o->reps) {
        start = m->start < start ? m->start : start;
        end = m->end > end ? m->end : end;
        longest = m->end - m->start > longest ? m->end - m->start : longest;
    }
    if (c->o->ranks > c->o->cores)
        longest = end - start;
    return (double)longest * 1e-9 / c->batch / (c->op == COLL_PING_PONG ? 2 : 1);
}

static int series_end(struct coll_case *c, struct measure *m, unsigned s)
{
    uint32_t bytes = (uint32_t)(c->o->reps * sizeof *m->own[s]);
    int err = tool_comm_gather(c->b, m->own[s], bytes, m->all);

    if (err)
        return err;
    for (unsigned i = 0; i < c->o->reps; i++)
        m->sorted[i] = m->seconds[s][i] = duration(c, m->all, i);
    m->stats[s] = bench_stats_of(m->sorted, c->o->reps);
    return 0;
}

/* Of a series to the operation, of each two repetitions. */
static struct bench_stats ratios(const struct measure *m, unsigned s, unsigned reps)
{
    for (unsigned i = 0; i < reps; i++)
        m->sorted[i] = m->seconds[OP][i] > 0 ? m->seconds[s][i] / m->seconds[OP][i] : 0;
    return bench_stats_of(m->sorted, reps);
}

static int sample(struct coll_case *c, unsigned series, struct coll_moment *m)
{
    if (series == BARE)
        return coll_sample_bare(c, m);
    return series == OP ? coll_sample(c, m)
                        : coll_sample_limit(c, (enum bench_way)(series - LIMIT), m);
}

/* Repetitions from `first` on of all series, `block` of each in a row. */
static int turn(struct coll_case *c, struct measure *m, unsigned first, unsigned block, bool timed)
{
    unsigned ways = LIMIT + coll_n_ways(c), n = ways + (c->has_bare ? 1 : 0);
    struct coll_moment warm;
    int err = 0;

    /* What comes first changes. */
    for (unsigned j = 0; !err && j < n; j++) {
        unsigned at = (first / block + j) % n, s = at < ways ? at : BARE;
        for (unsigned i = first; !err && i < first + block; i++)
            err = sample(c, s, timed ? &m->own[s][i] : &warm);
    }
    return err;
}

static int repeat(struct coll_case *c, struct measure *m)
{
    uint64_t before = 0, after = 0;
    unsigned ways = LIMIT + coll_n_ways(c), most = c->n_warm ? BLOCK : 1, reps = c->o->reps;
    int err = 0;

    for (unsigned k = 0; !err && k < c->o->warmup; k++)
        err = turn(c, m, k, 1, false);
    for (unsigned i = 0, block; !err && i < reps; i += block) {
        block = reps - i < most ? reps - i : most;
        err = turn(c, m, i, block, true);
    }
    if (!err)
        err = c->b->ops.wire_bytes(c->b->comm, &before);
    if (!err)
        err = coll_case_once(c);
    if (!err)
        err = c->b->ops.wire_bytes(c->b->comm, &after);
    m->wire = after - before;
    for (unsigned s = 0; !err && s < ways; s++)
        err = series_end(c, m, s);
    if (!err && c->has_bare)
        err = series_end(c, m, BARE);
    return err;
}

/* Bytes that cross the bus for each byte of the message, as nccl-tests counts them. */
static double bus_factor(const struct coll_case *c)
{
    double n = c->o->ranks;

    switch (c->op) {
    case COLL_ALL_GATHER:
    case COLL_REDUCE_SCATTER:
        return (n - 1) / n;
    case COLL_ALL_REDUCE:
        return 2 * (n - 1) / n;
    default:
        return 1;
    }
}

/* Operations differ in whether their limits work on private or on shared memory. */
static void head_pages(const struct coll_pages *p)
{
    char texts[3][32];

    if (p->region < 0)
        return;
    printf("pages of the plugin's memory: %s", bench_pages_text(p->region, texts[0]));
    const char *plain = bench_pages_text(p->plain, texts[1]);
    const char *board = bench_pages_text(p->board, texts[2]);
    if (p->plain >= 0 && p->board >= 0 && strcmp(plain, board) != 0)
        printf(", of the limit's: %s where it is private, %s where it is shared", plain, board);
    else if (p->plain >= 0 || p->board >= 0)
        printf(", of the limit's: %s", p->plain >= 0 ? plain : board);
    putchar('\n');
}

static void head_notes(const struct coll_options *o, const struct coll_pages *pages,
                       const char *bare_why)
{
    head_pages(pages);
    if (*bare_why)
        printf("bare exchange: %s\n", bare_why);
    for (unsigned k = 0; k < o->n_ops; k++)
        if (o->limit && !coll_has_limit(o, o->ops[k])) {
            puts("sums in f16 have no limit: there is no plain loop for them");
            break;
        }
}

void coll_head(const struct coll_options *o, const struct coll_pages *pages, const char *bare_why)
{
    if (o->json)
        return;
    const char *place = o->in_place            ? "in place"
                        : coll_has_exchange(o) ? "exchange in place"
                                               : "out of place";
    printf("comm %s, %d rank%s on %d core%s, %s, %s, %s buffers, medians of %u\n", o->comm,
           o->ranks, o->ranks == 1 ? "" : "s", o->cores, o->cores == 1 ? "" : "s",
           tool_dtype_name(o->dtype), place,
           o->cold    ? "cold"
           : o->fresh ? "fresh"
                      : "the same",
           o->reps);
    head_notes(o, pages, bare_why);
    printf("%-14s %12s %12s %7s %9s %9s %9s %9s%s  %s\n", "operation", "bytes", "us", "spread",
           "GB/s", "bus GB/s", "max GB/s", "of limit", coll_has_exchange(o) ? "   of bare" : "",
           "check");
}

static void cell(double x, const char *format)
{
    if (x > 0)
        printf(format, x);
    else
        printf(" %9s", "-");
}

/* `bare`: percents of the bare exchange, 0: none; < 0: the table has no such column. */
static void row(const struct bench_record *r, double bare)
{
    printf("%-14s %12" PRIu64 " %12.2f %6.1f%%", r->op, r->bytes, r->time.median * 1e6,
           r->time.spread * 100);
    cell(r->bandwidth_GBps, " %9.2f");
    cell(r->bus_GBps, " %9.2f");
    if (r->limit_GBps <= 0 && r->limit_s > 0) /* of what moves nothing */
        printf(" %6.2f us", r->limit_s * 1e6);
    else
        cell(r->limit_GBps, " %9.2f");
    cell(bench_record_percent(r), " %8.1f%%");
    if (bare >= 0)
        cell(bare, " %8.1f%%");
    printf("  %s\n", r->check);
    fflush(stdout);
}

/* What is beside the operation, or why nothing is any more. */
static void report_bare(const struct coll_case *c, const struct measure *m)
{
    char name[4200];
    bool bare = c->has_bare && !*c->bare_why;

    snprintf(name, sizeof name, "%s, bare", c->o->comm);
    struct bench_record r = {.bench = c->o->bench,
                             .op = c->name,
                             .comm = name,
                             .ranks = c->o->ranks,
                             .bytes = c->bytes,
                             .missing = bare ? NULL : c->bare_why,
                             .time = m->stats[BARE],
                             .n = c->o->reps,
                             .check = "ok"}; /* by itself: it ends if something is wrong */
    if (bare)
        r.bandwidth_GBps = (double)c->bytes / r.time.median * 1e-9;
    r.bus_GBps = r.bandwidth_GBps * bus_factor(c);
    if (c->o->json)
        bench_record_json(&r);
    else if (bare) {
        r.op = "bare exchange";
        row(&r, 0);
    } else if (c->has_bare) { /* it has failed meanwhile; that there is none, the head says */
        printf("%-14s %12" PRIu64 "  %s\n", "bare exchange", c->bytes, c->bare_why);
    }
}

/* Of the memory that the plugin works on. */
static int huge_of(const struct coll_case *c)
{
    return c->op == COLL_BARRIER ? -1
           : c->op == COLL_MAP   ? bench_pages_huge(c->map, c->bytes)
                                 : c->pages.region;
}

/* The series of the limit that is the best one; 0: there is no limit. */
static unsigned best_limit(const struct coll_case *c, const struct measure *m)
{
    unsigned n_ways = coll_n_ways(c), best = LIMIT;

    for (unsigned s = LIMIT; s < LIMIT + n_ways; s++)
        if (m->stats[s].median < m->stats[best].median)
            best = s;
    return n_ways ? best : 0;
}

static void report(const struct coll_case *c, const struct measure *m, bool ok)
{
    unsigned n_ways = coll_n_ways(c), limit = best_limit(c, m);
    bool rounded = c->op != COLL_BARRIER && c->bytes != c->wanted;
    double bytes = c->op == COLL_MAP ? 0 : (double)c->bytes;
    bool bare = c->has_bare && !*c->bare_why;
    double ratio = bare ? m->stats[BARE].median / m->stats[OP].median : -1;
    const struct bench_stats *best = &m->stats[limit], none = {.p10 = -1, .p90 = -1};
    struct bench_stats to_bare = bare ? ratios(m, BARE, c->o->reps) : none;
    struct bench_stats to_limit = limit ? ratios(m, limit, c->o->reps) : none;
    struct bench_field fields[N_FIELDS + N_BENCH_WAYS] = {
        {"wanted_bytes", rounded ? (double)c->wanted : -1, NULL},
        {"wire_bytes", (double)m->wire, NULL},
        {"batch", c->batch, NULL},
        {"warm", c->n_warm, NULL},
        {"limit_spread", limit ? best->spread : -1, NULL},
        {"limit_loop", -1, n_ways > 1 ? bench_way_name((enum bench_way)(limit - LIMIT)) : NULL},
        {"percent_low", limit ? 100 * to_limit.p10 : -1, NULL},
        {"percent_high", limit ? 100 * to_limit.p90 : -1, NULL},
        {"in_place", c->in_place, NULL},
        {"cold", c->o->cold, NULL},
        {"fresh", c->o->fresh, NULL},
        {"cores", c->o->cores, NULL},
        {"bare_s", bare ? m->stats[BARE].median : -1, NULL},
        {"bare_spread", bare ? m->stats[BARE].spread : -1, NULL},
        {"ratio_to_bare", ratio, NULL},
        {"ratio_low", to_bare.p10, NULL},
        {"ratio_high", to_bare.p90, NULL},
        {"huge_pages_percent", huge_of(c), NULL},
        {"limit_huge_pages_percent", coll_limit_huge(c), NULL},
    };
    for (unsigned w = 0; w < N_BENCH_WAYS; w++)
        fields[N_FIELDS + w] =
            (struct bench_field){bench_way_field((enum bench_way)w),
                                 w < n_ways && n_ways > 1 ? m->stats[LIMIT + w].median : -1, NULL};
    struct bench_record r = {.bench = c->o->bench,
                             .op = c->name,
                             .comm = c->o->comm,
                             .ranks = c->o->ranks,
                             .bytes = c->bytes,
                             .dtype = c->bytes ? tool_dtype_name(c->o->dtype) : NULL,
                             .time = m->stats[OP],
                             .n = c->o->reps,
                             .bandwidth_GBps = bytes / m->stats[OP].median * 1e-9,
                             .limit_s = limit ? best->median : 0,
                             .limit_GBps = limit ? bytes / best->median * 1e-9 : 0,
                             .check = !c->o->check ? "off"
                                      : ok         ? "ok"
                                                   : "failed",
                             .fields = fields,
                             .n_fields = sizeof fields / sizeof *fields};
    r.bus_GBps = r.bandwidth_GBps * bus_factor(c);
    if (c->is_beside)
        report_bare(c, m);
    if (c->o->json)
        bench_record_json(&r);
    else
        row(&r, !coll_has_exchange(c->o) ? -1 : bare ? 100 * ratio : 0);
}

int coll_measure(struct coll_case *c, bool *ok, unsigned *n_wide)
{
    struct measure m;
    bool good = true;
    int err = measure_alloc(&m, c->o);

    if (!err && c->o->check)
        err = coll_check(c, &good);
    if (!err)
        err = repeat(c, &m);
    if (!err && c->o->check && c->o->fresh)
        err = coll_check_fresh(c, &good);
    if (!err && c->o->check && good)
        err = coll_check(c, &good);
    if (!err && c->b->rank == 0)
        report(c, &m, good);
    if (!err)
        *n_wide += m.stats[OP].spread > BENCH_WIDE_SPREAD ||
                   m.stats[best_limit(c, &m)].spread > BENCH_WIDE_SPREAD;
    if (c->is_beside && strncmp(c->bare_why, "failed", 6) == 0) /* only rank 0 knows */
        good = false;
    *ok &= good;
    measure_free(&m);
    return err;
}
