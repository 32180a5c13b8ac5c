/* SPDX-License-Identifier: Apache-2.0 */
/* Who else worked while something was measured: what makes figures worth less than they look. */
#ifndef ZERO_TOOLS_BENCH_MEASURE_WATCH_H
#define ZERO_TOOLS_BENCH_MEASURE_WATCH_H

#include <stdbool.h>
#include <stdio.h>

#define BENCH_WIDE_SPREAD 1.0  /* half as fast again and half as slow is within it */
#define BENCH_MOST_OTHERS 0.25 /* of a processor */

struct zero__cores;

struct bench_watch {
    double at_s, busy_s, ours_s;
};

/* Seconds of processors that getrusage() tells of `who`. */
double bench_used_s(int who);

void bench_watch_begin(struct bench_watch *w);
/*
 * Of a processor, what programs other than this one and its children that have ended took since of
 * those that this process may use, and what the host of a virtual machine took of them; < 0: not
 * known. What runs elsewhere on the machine keeps nothing from it.
 */
double bench_watch_others(const struct bench_watch *w);
/*
 * Seconds that these processors have worked, or were kept from it, by the lines of /proc/stat; < 0:
 * none of them is there.
 */
double bench_watch_busy(FILE *stat, const struct zero__cores *mine);
/* A line if others took much, beneath a table; beside records (`json`) on stderr. */
void bench_watch_tell(const struct bench_watch *w, bool json);
/* Beneath a table: a line if `n_wide` rows have a wide spread. */
void bench_spread_tell(unsigned n_wide);

#endif
