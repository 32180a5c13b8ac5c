/* SPDX-License-Identifier: Apache-2.0 */
/* JSON records; see record.h. */
#include "record.h"

#include <inttypes.h>
#include <stdio.h>

static void put_name(const char *name)
{
    printf("%s\"%s\":", name ? "," : "{", name ? name : "bench");
}

/* The only texts from outside are names of plugins, which may be paths. */
static void put_text(const char *name, const char *text)
{
    if (!text)
        return;
    put_name(name);
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if ((unsigned char)*text < ' ')
            printf("\\u%04x", (unsigned)(unsigned char)*text);
        else
            putchar(*text);
    }
    putchar('"');
}

static void put_real(const char *name, double x)
{
    put_name(name);
    if (x > -0x1p53 && x < 0x1p53 && x == (double)(int64_t)x)
        printf("%.0f", x); /* bytes, say, to the last one */
    else
        printf("%.9g", x);
}

static void put_nonzero(const char *name, double x)
{
    if (x > 0)
        put_real(name, x);
}

double bench_record_percent(const struct bench_record *r)
{
    return r->limit_s > 0 && r->time.median > 0 && !r->no_percent
               ? 100 * r->limit_s / r->time.median
               : 0;
}

void bench_record_json(const struct bench_record *r)
{
    put_text(NULL, r->bench);
    put_text("op", r->op);
    put_text("comm", r->comm);
    if (r->ranks) {
        put_name("ranks");
        printf("%d", r->ranks);
    }
    if (r->bytes) {
        put_name("bytes");
        printf("%" PRIu64, r->bytes);
    }
    if (r->missing) {
        put_text("missing", r->missing);
        puts("}");
        fflush(stdout);
        return;
    }
    put_text("dtype", r->dtype);
    put_real("median_s", r->time.median);
    if (r->n != 1) /* one time has none */
        put_real("spread", r->time.spread);
    put_nonzero("bandwidth_GBps", r->bandwidth_GBps);
    put_nonzero("limit_GBps", r->limit_GBps);
    put_text("check", r->check);
    put_nonzero("bus_GBps", r->bus_GBps);
    put_nonzero("limit_s", r->limit_s);
    put_nonzero("percent_of_limit", bench_record_percent(r));
    put_real("min_s", r->time.least);
    if (r->n) {
        put_name("repetitions");
        printf("%u", r->n);
    }
    for (unsigned i = 0; i < r->n_fields; i++)
        if (r->fields[i].text)
            put_text(r->fields[i].name, r->fields[i].text);
        else if (r->fields[i].value >= 0)
            put_real(r->fields[i].name, r->fields[i].value);
    puts("}");
    fflush(stdout);
}
