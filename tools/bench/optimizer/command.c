/* SPDX-License-Identifier: Apache-2.0 */
/* zero bench optimizer: the update of the states, beside what their memory allows. */
#include "config.h"

#include "command.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "memory/limits.h"
#include "states.h"
#include "tools/bench/measure/record.h"
#include "tools/bench/measure/watch.h"
#include "tools/common/args.h"
#include "tools/common/cores.h"

static void help(FILE *f)
{
    fputs("usage: zero bench optimizer [OPTION]...\n"
          "Times the update of a rank's states on the host device, as a training step\n"
          "launches it, checks what it computes, and measures in the same run what limits\n"
          "it.\n"
          "\n"
          "  --params N         parameters (100M; K, M, G: powers of 1000)\n"
          "  --dtype TYPE       of the parameters: f32, bf16 or f16 (bf16); states are fp32\n"
          "  --grad-dtype TYPE  of the gradients (that of the parameters)\n"
          "  --threads T        of the device (as many as cores)\n"
          "  --unit N           parameters of one launch, as a unit of a model has (8M)\n"
          "  --reps N           repetitions (11)\n"
          "  --warmup N         repetitions before those (2)\n"
          "  --no-check         do not check results; --check, the default, does\n"
          "  --json             records, an object a line, instead of the table\n"
          "\n"
          "update is everything: the gradient's norm, clipping, and AdamW with unscaling\n"
          "and the 16-bit copy of the parameters; norm and adamw are its two passes. GB/s\n"
          "counts every load and store that has to be: 12 bytes of states and the gradient\n"
          "read, 12 bytes and the copy written, and once more the gradient read for the\n"
          "norm.\n"
          "\n"
          "The limit (max GB/s) is plain loops over the same memory that load and store the\n"
          "same bytes and compute nothing, on the same threads, at most one for each core,\n"
          "measured in turn with the update, another one first in each repetition: two or\n"
          "four vectors of each array a turn, ordinary or non-temporal stores; the best\n"
          "median counts. More than 100 % means that the update used the memory better than\n"
          "any of them; below 10 MB of data there are no percent, since waking threads\n"
          "takes as long as the work. Figures are medians; spread is (90 % - 10 % quantile)\n"
          "/ median. ZERO_ISA chooses the instruction set of the update.\n"
          "\n"
          "Exit status: 0; 1 if a result is wrong or there is no memory; 2 for bad use.\n",
          f);
}

/* Bytes that a pass has to load and store for each parameter. */
static double pass_bytes(const struct optimizer_options *o, enum optimizer_series pass)
{
    double grad = zero_dtype_bytes(o->grad_dtype), out = o->dtype == ZERO_F32 ? 0 : 2;
    double norm = pass == OPTIMIZER_ADAMW ? 0 : grad;

    return pass == OPTIMIZER_NORM ? norm : norm + 24 + grad + out;
}

static void report(const struct optimizer_options *o, const struct bench_stats *stats,
                   enum optimizer_series pass, const char *check)
{
    static const char *const names[] = {"update", "norm", "adamw"};
    const unsigned n_ways = o->dtype == ZERO_F32 ? N_BENCH_STORES : N_BENCH_UPDATES;
    unsigned way = 0;
    for (unsigned w = 1; w < n_ways; w++)
        if (stats[OPTIMIZER_MOVE + w].median < stats[OPTIMIZER_MOVE + way].median)
            way = w;
    double best = stats[OPTIMIZER_MOVE + way].median;
    double read = fmin(stats[OPTIMIZER_READ].median, stats[OPTIMIZER_READ + 1].median);
    double limit = (pass == OPTIMIZER_ADAMW ? 0 : read) +
                   (pass == OPTIMIZER_NORM ? 0 : best);
    double bytes = pass_bytes(o, pass) * (double)o->params, n = (double)o->params;
    char percent[16] = "-";
    struct bench_field fields[7 + N_BENCH_UPDATES] = {
        {"parameters", n, NULL},
        {"grad_dtype", 0, tool_dtype_name(o->grad_dtype)},
        {"threads", o->threads, NULL},
        {"unit", (double)o->unit, NULL},
        {"ns_per_param", stats[pass].median * 1e9 / n, NULL},
        {"limit_ns_per_param", limit * 1e9 / n, NULL},
        {"limit_loop", -1, pass == OPTIMIZER_NORM ? NULL : bench_update_name(way)},
    };
    for (unsigned w = 0; w < N_BENCH_UPDATES; w++)
        fields[7 + w] = (struct bench_field){
            bench_update_field(w),
            pass == OPTIMIZER_ADAMW ? stats[OPTIMIZER_MOVE + w].median : -1, NULL};
    struct bench_record r = {.bench = "optimizer",
                             .op = names[pass],
                             .bytes = (uint64_t)bytes,
                             .dtype = tool_dtype_name(o->dtype),
                             .time = stats[pass],
                             .n = o->reps,
                             .bandwidth_GBps = bytes / stats[pass].median * 1e-9,
                             .limit_GBps = bytes / limit * 1e-9,
                             .limit_s = limit,
                             .no_percent =
                                 pass_bytes(o, OPTIMIZER_UPDATE) * n < OPTIMIZER_LEAST_BYTES,
                             .check = check,
                             .fields = fields,
                             .n_fields = sizeof fields / sizeof *fields};

    if (bench_record_percent(&r) > 0)
        snprintf(percent, sizeof percent, "%.1f%%", bench_record_percent(&r));
    if (o->json)
        bench_record_json(&r);
    else
        printf("%-10s %12.3f %6.1f%% %9.3f %9.2f %9.2f %9s  %s\n", r.op, r.time.median * 1e3,
               r.time.spread * 100, fields[4].value, r.bandwidth_GBps, r.limit_GBps, percent,
               check);
}

static void head(const struct optimizer_options *o)
{
    if (o->json)
        return;
    printf("%" PRIu64 " parameters, %s with %s gradients, %u thread%s, units of %" PRIu64
           ", medians of %u\n",
           o->params, tool_dtype_name(o->dtype), tool_dtype_name(o->grad_dtype), o->threads,
           o->threads == 1 ? "" : "s", o->unit, o->reps);
    printf("%-10s %12s %7s %9s %9s %9s %9s  %s\n", "operation", "ms", "spread", "ns/param", "GB/s",
           "max GB/s", "of limit", "check");
    fflush(stdout);
}

static int run(const struct optimizer_options *o)
{
    if (o->threads > (unsigned)tool_cores())
        fprintf(stderr,
                "zero bench optimizer: %u threads share %d core%s: the limit is that of a thread "
                "for each core\n",
                o->threads, tool_cores(), tool_cores() == 1 ? "" : "s");
    struct bench_stats stats[N_OPTIMIZER_SERIES];
    struct bench_watch watch;
    unsigned n_wide = 0;
    struct optimizer x;
    bool ok = true;
    int err = optimizer_open(&x, o);

    if (!err) {
        head(o);
        optimizer_fill(&x);
    }
    if (!err && o->check)
        err = optimizer_check(&x, &ok);
    bench_watch_begin(&watch);
    if (!err)
        err = optimizer_measure(&x, stats);
    if (!err && o->check && ok)
        err = optimizer_check(&x, &ok);
    for (int pass = OPTIMIZER_UPDATE; !err && pass <= OPTIMIZER_ADAMW; pass++)
        report(o, stats, (enum optimizer_series)pass, !o->check ? "off" : ok ? "ok" : "failed");
    for (int pass = OPTIMIZER_UPDATE; !err && pass <= OPTIMIZER_ADAMW; pass++)
        n_wide += stats[pass].spread > BENCH_WIDE_SPREAD;
    if (!err && !o->json)
        bench_spread_tell(n_wide);
    if (!err)
        bench_watch_tell(&watch, o->json);
    if (err)
        fprintf(stderr, "zero bench optimizer: %s\n", zero__error_text());
    optimizer_close(&x);
    return err || !ok;
}

int bench_optimizer(int argc, char **argv)
{
    struct optimizer_options o = {.params = 100000000,
                                  .unit = 8000000,
                                  .dtype = ZERO_BF16,
                                  .threads = (unsigned)tool_cores(),
                                  .reps = 11,
                                  .warmup = 2,
                                  .check = true};
    const struct tool_arg args[] = {
        TOOL_ARG("params", COUNT, &o.params, TOOL_RANGE(1, UINT64_C(1) << 40)),
        TOOL_ARG("dtype", DTYPE, &o.dtype),
        TOOL_ARG("grad-dtype", DTYPE, &o.grad_dtype),
        TOOL_ARG("threads", UNSIGNED, &o.threads, TOOL_RANGE(1, 1024)),
        TOOL_ARG("unit", COUNT, &o.unit, TOOL_RANGE(64, UINT64_C(1) << 40)),
        TOOL_ARG("reps", UNSIGNED, &o.reps, TOOL_RANGE(1, 1000000)),
        TOOL_ARG("warmup", UNSIGNED, &o.warmup, TOOL_RANGE(0, 1000000)),
        TOOL_CHECKS(&o.check, &o.spoil),
        TOOL_ARG("json", ON, &o.json),
    };
    char source[128];
    int status = tool_args("bench optimizer", args, sizeof args / sizeof *args, TOOL_NO_WORDS, help,
                           argc, argv);

    if (status >= 0)
        return status;
    if (!o.grad_dtype)
        o.grad_dtype = o.dtype;
    o.unit = (o.unit < o.params ? o.unit + 63 : o.params + 63) / 64 * 64;
    uint64_t need = optimizer_bytes(&o), left = zero__memory_left(source, sizeof source);
    if (need + ZERO__MEMORY_MARGIN > left) {
        fprintf(stderr,
                "zero bench optimizer: %" PRIu64 " parameters need %" PRIu64
                " MiB, but %s has %" PRIu64 " MiB left: lower --params\n",
                o.params, need >> 20, source, left >> 20);
        return 2;
    }
    return run(&o);
}
