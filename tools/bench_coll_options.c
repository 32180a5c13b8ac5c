/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `zero bench coll` and `zero bench p2p`, which has fewer options. */
#include "config.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "bench_coll.h"
#include "bench_ranks.h"

static bool is_p2p(const struct coll_options *o)
{
    return o->bench[0] == 'p';
}

static bool ops_read(const char *text, struct coll_options *o)
{
    unsigned seen = 0;

    bool p2p = is_p2p(o);
    unsigned first = p2p ? COLL_PING_PONG : 0, end = p2p ? N_COLL_OPS : COLL_PING_PONG;

    o->n_ops = 0;
    for (const char *at = text;;) {
        size_t len = strcspn(at, ",");
        unsigned op = first;
        while (op < end && (strncmp(at, coll_name(op), len) || strlen(coll_name(op)) != len))
            op++;
        if (op == end || seen & 1u << op) {
            fprintf(stderr, "zero %s: --op is \"%s\": a list of %s is wanted, each once\n", o->tool,
                    text,
                    p2p ? "exchange and ping_pong"
                        : "all_gather, reduce_scatter, all_reduce, broadcast, barrier and map");
            return false;
        }
        seen |= 1u << op;
        o->ops[o->n_ops++] = op;
        if (!at[len])
            return true;
        at += len + 1;
    }
}

enum { OP = 256, BYTES, FACTOR, REPS, WARMUP, COMM, DTYPE };
enum { IN_PLACE = 512, COLD, FRESH, NO_BIND, NO_CHECK, NO_LIMIT, SPOIL, JSON };

#define N_OF_COLL 2 /* the first ones: of p2p the ranks are given, and the place */

static const struct option longs[] = {
    {"ranks", required_argument, NULL, 'n'},   {"in-place", no_argument, NULL, IN_PLACE},
    {"op", required_argument, NULL, OP},
    {"bytes", required_argument, NULL, BYTES}, {"factor", required_argument, NULL, FACTOR},
    {"reps", required_argument, NULL, REPS},   {"warmup", required_argument, NULL, WARMUP},
    {"comm", required_argument, NULL, COMM},   {"dtype", required_argument, NULL, DTYPE},
    {"cold", no_argument, NULL, COLD},         {"fresh", no_argument, NULL, FRESH},
    {"no-bind", no_argument, NULL, NO_BIND},   {"no-check", no_argument, NULL, NO_CHECK},
    {"no-limit", no_argument, NULL, NO_LIMIT},
    {"spoil", no_argument, NULL, SPOIL},       {"json", no_argument, NULL, JSON},
    {"help", no_argument, NULL, 'h'},          {0},
};

static void flag(int c, struct coll_options *o)
{
    o->in_place |= c == IN_PLACE;
    o->cold |= c == COLD;
    o->fresh |= c == FRESH;
    o->spoil |= c == SPOIL;
    o->limit &= c != NO_LIMIT;
    o->json |= c == JSON;
    o->bind &= c != NO_BIND;
    o->check &= c != NO_CHECK;
}

static bool value(int c, const char *text, struct coll_options *o)
{
    unsigned ranks;

    switch (c) {
    case OP:
        return ops_read(text, o);
    case BYTES:
        o->bytes = text;
        return true;
    case COMM:
        o->comm = text;
        return true;
    case FACTOR:
        o->factor_given = true;
        return bench_number(o->tool, "--factor", text, 2, 1u << 20, &o->factor);
    case DTYPE:
        return bench_dtype(o->tool, "--dtype", text, &o->dtype);
    case 'n':
        if (!bench_unsigned(o->tool, "--ranks", text, 1, ZERO__JOB_MAX_RANKS, &ranks))
            return false;
        o->ranks = (int)ranks;
        return true;
    case REPS:
        return bench_unsigned(o->tool, "--reps", text, 1, 4000, &o->reps);
    case WARMUP:
        return bench_unsigned(o->tool, "--warmup", text, 0, 1000000, &o->warmup);
    default:
        flag(c, o);
        return true;
    }
}

static const struct option *longs_of(const struct coll_options *o)
{
    return is_p2p(o) ? longs + N_OF_COLL : longs;
}

/* What changes nothing would stand in the records as if it did. */
static bool meaningful(const struct coll_options *o)
{
    for (unsigned k = 0; k < o->n_ops; k++) {
        enum coll_op op = o->ops[k];
        const char *bad = NULL, *why = NULL;
        if (o->spoil && op == COLL_BARRIER)
            bad = "--spoil", why = "a barrier brings nothing that could be spoiled";
        else if (o->cold && (op == COLL_BARRIER || op == COLL_MAP))
            bad = "--cold", why = "neither a barrier nor a mapped gather touches memory";
        else if (o->in_place &&
                 (op == COLL_BARRIER || op == COLL_MAP || op == COLL_BROADCAST))
            bad = "--in-place", why = "barrier, map and broadcast have one place only";
        if (bad) {
            fprintf(stderr, "zero %s: %s: %s: leave %s out of --op\n", o->tool, bad, why,
                    coll_name(op));
            return false;
        }
    }
    return true;
}

int coll_parse(struct coll_options *o, void (*help)(FILE *f), int argc, char **argv)
{
    const struct option *known = longs_of(o);
    int c;

    o->cores = bench_cores();
    o->board_fd = -1;
    o->limit = true;
    o->is_rank = bench_ranks_is_rank(&o->cores, &o->board_fd);
    opterr = 0;
    optind = 1;
    while ((c = getopt_long(argc, argv, known == longs ? ":n:h" : ":h", known, NULL)) != -1) {
        if (c == 'h') {
            help(stdout);
            return 0;
        }
        if (c == '?' || c == ':')
            return bench_bad_option(o->tool, known, c, argv);
        if (!value(c, optarg, o))
            return 2;
    }
    if (optind < argc)
        return bench_bad_option(o->tool, known, -1, argv);
    if (!meaningful(o))
        return 2;
    if (o->factor_given && !strchr(o->bytes, ':')) {
        fprintf(stderr, "zero %s: --factor is for a range of sizes, and --bytes %s is none\n",
                o->tool, o->bytes);
        return 2;
    }
    if (!bench_sizes(o->tool, "--bytes", o->bytes, o->factor, o->sizes, &o->n_sizes))
        return 2;
    return -1;
}
