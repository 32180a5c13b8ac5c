/* SPDX-License-Identifier: Apache-2.0 */
/* What a series of repetitions says. */
#ifndef ZERO_TOOLS_BENCH_MEASURE_STATS_H
#define ZERO_TOOLS_BENCH_MEASURE_STATS_H

struct bench_stats {
    double median, p10, p90, least;
    double spread; /* (p90 - p10) / median; 0 for a median of 0 */
};

/* Of n >= 1 values, which it sorts. Quantiles lie between values where they have to. */
struct bench_stats bench_stats_of(double *x, unsigned n);

#endif
