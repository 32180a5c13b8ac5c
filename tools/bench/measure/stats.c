/* SPDX-License-Identifier: Apache-2.0 */
/* Median and spread; see stats.h. */
#include "stats.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(const double *x, unsigned n, double q)
{
    double at = q * (double)(n - 1);
    unsigned i = (unsigned)at;

    return i + 1 < n ? x[i] + (at - i) * (x[i + 1] - x[i]) : x[n - 1];
}

struct bench_stats bench_stats_of(double *x, unsigned n)
{
    struct bench_stats s;

    qsort(x, n, sizeof *x, by_value);
    s.least = x[0];
    s.median = quantile(x, n, 0.5);
    s.p10 = quantile(x, n, 0.1);
    s.p90 = quantile(x, n, 0.9);
    s.spread = s.median > 0 ? (s.p90 - s.p10) / s.median : 0;
    return s;
}
