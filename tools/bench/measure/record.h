/* SPDX-License-Identifier: Apache-2.0 */
/* A figure as a line of JSON; the same names in every benchmark. */
#ifndef ZERO_TOOLS_BENCH_MEASURE_RECORD_H
#define ZERO_TOOLS_BENCH_MEASURE_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "stats.h"

/* A further number of one benchmark, left out when it is negative; or a text. */
struct bench_field {
    const char *name;
    double value;
    const char *text;
};

/* Texts that are NULL and numbers that are 0 do not apply and are left out. */
struct bench_record {
    const char *bench, *op, *comm;
    int ranks;
    uint64_t bytes;
    const char *dtype;
    struct bench_stats time; /* seconds */
    unsigned n;              /* repetitions */
    double bandwidth_GBps, bus_GBps, limit_GBps, limit_s;
    bool no_percent;     /* the limit is none: the data are too small */
    const char *check;   /* "ok", "failed", "off" */
    const char *missing; /* why there are no figures: then the record has nothing else */
    const struct bench_field *fields;
    unsigned n_fields;
};

/* Of the limit's speed; 0: there is no limit. */
double bench_record_percent(const struct bench_record *r);
/* One object and a newline, on standard output. */
void bench_record_json(const struct bench_record *r);

#endif
