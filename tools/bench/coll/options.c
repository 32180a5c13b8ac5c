/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `zero bench coll` and `zero bench p2p`, which has fewer options. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "case.h"
#include "tools/common/cores.h"
#include "tools/run/itself.h"

static bool is_p2p(const struct coll_options *o)
{
    return o->bench[0] == 'p';
}

static bool ops_read(const char *tool, const struct tool_arg *arg, const char *text)
{
    struct coll_options *o = arg->to;
    bool p2p = is_p2p(o);
    unsigned seen = 0;
    unsigned first = p2p ? COLL_PING_PONG : 0, end = p2p ? N_COLL_OPS : COLL_PING_PONG;

    o->n_ops = 0;
    for (const char *at = text;;) {
        size_t len = strcspn(at, ",");
        unsigned op = first;
        while (op < end && (strncmp(at, coll_name(op), len) || strlen(coll_name(op)) != len))
            op++;
        if (op == end || seen & 1u << op) {
            fprintf(stderr, "zero %s: --op is \"%s\": a list of %s is wanted, each once\n", tool,
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
        else if (o->fresh && op == COLL_BARRIER)
            bad = "--fresh", why = "a barrier has no bytes that could be written before";
        else if (o->in_place && (op == COLL_BARRIER || op == COLL_MAP || op == COLL_BROADCAST))
            bad = "--in-place", why = "barrier, map and broadcast have one place only";
        if (bad) {
            fprintf(stderr, "zero %s: %s: %s: leave %s out of --op\n", o->tool, bad, why,
                    coll_name(op));
            return false;
        }
    }
    return true;
}

#define N_OF_COLL 2 /* the first ones: of p2p the ranks are given, and the place */

int coll_parse(struct coll_options *o, void (*help)(FILE *f), int argc, char **argv)
{
    uint64_t ranks = (uint64_t)o->ranks, factor = 0;
    const struct tool_arg args[] = {
        TOOL_ARG("ranks", WHOLE, &ranks, TOOL_RANGE(1, ZERO__JOB_MAX_RANKS), .letter = 'n'),
        TOOL_ARG("in-place", ON, &o->in_place),
        TOOL_ARG("op", OWN, o, .read = ops_read),
        TOOL_ARG("bytes", TEXT, &o->bytes),
        TOOL_ARG("factor", WHOLE, &factor, TOOL_RANGE(2, 1 << 20)),
        TOOL_ARG("reps", UNSIGNED, &o->reps, TOOL_RANGE(1, 4000)),
        TOOL_ARG("warmup", UNSIGNED, &o->warmup, TOOL_RANGE(0, 1000000)),
        TOOL_ARG("comm", TEXT, &o->comm),
        TOOL_ARG("dtype", DTYPE, &o->dtype),
        TOOL_ARG("cold", ON, &o->cold),
        TOOL_ARG("fresh", ON, &o->fresh),
        TOOL_ARG("no-bind", OFF, &o->bind),
        TOOL_CHECKS(&o->check, &o->spoil),
        TOOL_ARG("no-limit", OFF, &o->limit),
        TOOL_ARG("json", ON, &o->json),
    };
    const unsigned n = sizeof args / sizeof *args;
    unsigned first = is_p2p(o) ? N_OF_COLL : 0;

    o->cores = tool_cores();
    o->board_fd = -1;
    o->limit = true;
    o->is_rank = run_itself_is_rank(&o->cores, &o->board_fd);
    int status = tool_args(o->tool, args + first, n - first, TOOL_NO_WORDS, help, argc, argv);
    if (status >= 0)
        return status;
    o->ranks = (int)ranks;
    if (!meaningful(o))
        return 2;
    if (factor && !strchr(o->bytes, ':')) {
        fprintf(stderr, "zero %s: --factor is for a range of sizes, and --bytes %s is none\n",
                o->tool, o->bytes);
        return 2;
    }
    if (!tool_sizes(o->tool, "bytes", o->bytes, factor ? factor : o->factor, o->sizes, &o->n_sizes))
        return 2;
    return -1;
}
