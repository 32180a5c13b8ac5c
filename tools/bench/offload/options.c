/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `zero bench offload`; see tier.h. */
#include "config.h"

#include "tier.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "memory/limits.h"

#define BENCH "bench offload"

static void help(FILE *f)
{
    fputs("usage: zero bench offload [OPTION]...\n"
          "Times how fast an offload plugin reads and writes, as its interface is used in\n"
          "training, and checks what comes back. Beside a disk, fio does the same: blocks,\n"
          "depth, mix, size of the file and folder, past the page cache, through io_uring;\n"
          "beside memory, plain loops do.\n"
          "\n"
          "  --tier NAME        plugin, by name or path (nvme)\n"
          "  --op LIST          of read, write, mixed and random_read, random_write,\n"
          "                     random_mixed (read,write,mixed); mixed is a read for each\n"
          "                     write\n"
          "  --bytes LOW:HIGH   of a block (2M, as in training); also a list: 4K,256K,4M\n"
          "  --factor F         from one size to the next (4)\n"
          "  --depth LIST       blocks under way (16, as in training); 1:32 goes on by\n"
          "                     doubling\n"
          "  --size SIZE        of the store and of fio's file (1G)\n"
          "  --seconds S        of a repetition (1)\n"
          "  --reps N           repetitions, in which all that are compared take turns (5)\n"
          "  --warmup N         repetitions before those (1)\n"
          "  --beside OPTION=VALUE\n"
          "                     a second store with this option, say nvme_engine=threads\n"
          "                     (nvme: nvme_checksum=0, what checksums cost); '' for none\n"
          "  --folder PATH      of fio's file (those of ZERO_NVME_PATH)\n"
          "  --no-fio           not beside fio\n"
          "  --pages KIND       of the memory of blocks, fio's as ours: small, huge, or\n"
          "                     auto: huge where the system gives them to who asks, as in\n"
          "                     training\n"
          "  --at-least PERCENT less of fio's bandwidth, or the loops', in a median is a\n"
          "                     failure\n"
          "  --cache            what goes through the page cache is no failure\n"
          "  --no-check         do not check what is read; --check, the default, does\n"
          "  --json             records, an object a line, instead of the table\n"
          "\n"
          "on disk is what the kernel counts for this process (/proc/self/io) of what the\n"
          "plugin says it moved. Figures are medians; spread is (90 % - 10 % quantile) /\n"
          "median, and in brackets stand the lowest and the highest percentage of a\n"
          "repetition. CPU is seconds of processors for 10^9 bytes.\n"
          "\n"
          "Options of the plugin are ZERO_ variables: ZERO_NVME_PATH=/scratch\n"
          "zero bench offload.\n"
          "Exit status: 0; 1 if what is read is wrong, or if a disk's store is not past the\n"
          "page cache or less than 95 % of its bytes are on disk, or for less than\n"
          "--at-least; 2 for bad use.\n",
          f);
}

static const char *const names[2][N_OFFLOAD_OPS] = {
    {"read", "write", "mixed"}, {"random_read", "random_write", "random_mixed"}};

const char *offload_op_name(const struct offload_shape *shape)
{
    return names[shape->random][shape->op];
}

static bool parse_op(const char *word, size_t length, struct offload_shape *shape)
{
    for (int random = 0; random < 2; random++)
        for (int op = 0; op < N_OFFLOAD_OPS; op++)
            if (strlen(names[random][op]) == length && !strncmp(names[random][op], word, length)) {
                *shape = (struct offload_shape){.op = (enum offload_op)op, .random = random};
                return true;
            }
    return false;
}

static bool ops_read(const char *tool, const struct tool_arg *arg, const char *text)
{
    struct offload_options *o = arg->to;
    bool ok = true;

    o->n_ops = 0;
    for (const char *at = text; ok; at += strcspn(at, ",") + 1) {
        struct offload_shape s;
        ok = o->n_ops < 2 * N_OFFLOAD_OPS && parse_op(at, strcspn(at, ","), &s);
        for (unsigned i = 0; i < o->n_ops && ok; i++)
            ok = o->ops[i].op != s.op || o->ops[i].random != s.random;
        if (ok)
            o->ops[o->n_ops++] = s;
        if (!at[strcspn(at, ",")])
            break;
    }
    if (!ok)
        fprintf(stderr,
                "zero %s: --op is \"%s\": a list of read, write, mixed, random_read, random_write "
                "and random_mixed is wanted, each once\n",
                tool, text);
    return ok;
}

static bool beside_read(const char *tool, const struct tool_arg *arg, const char *text)
{
    const char *equals = strchr(text, '=');

    *(const char **)arg->to = text;
    if (!*text || (equals && equals > text && equals - text < 64))
        return true;
    fprintf(stderr,
            "zero %s: --beside is \"%s\": OPTION=VALUE is wanted, say nvme_checksum=0\n", tool,
            text);
    return false;
}

/* Numbers that only make sense together. */
static bool fits(struct offload_options *o)
{
    uint64_t largest = 0;
    char source[128];

    for (unsigned i = 0; i < o->n_sizes; i++) {
        if (o->sizes[i] % OFFLOAD_PAGE) {
            fprintf(stderr, "zero " BENCH ": --bytes: %" PRIu64 " is no multiple of %u\n",
                    o->sizes[i], OFFLOAD_PAGE);
            return false;
        }
        largest = o->sizes[i] > largest ? o->sizes[i] : largest;
    }
    for (unsigned i = 0; i < o->n_depths; i++)
        o->deepest = o->depths[i] > o->deepest ? o->depths[i] : o->deepest;
    if (o->deepest > OFFLOAD_MOST_DEPTH) {
        fprintf(stderr, "zero " BENCH ": --depth is %" PRIu64 ": at most %u is possible\n",
                o->deepest, OFFLOAD_MOST_DEPTH);
        return false;
    }
    o->bytes -= o->bytes % OFFLOAD_PAGE;
    if (o->bytes / largest < 2 * o->deepest) {
        fprintf(stderr,
                "zero " BENCH ": --size is %" PRIu64 ": less than twice the %" PRIu64
                " blocks of %" PRIu64 " that may be under way\n",
                o->bytes, o->deepest, largest);
        return false;
    }
    uint64_t need = offload_memory_bytes(o), left = zero__memory_left(source, sizeof source);
    if (2 * need + ZERO__MEMORY_MARGIN > left) {
        fprintf(stderr,
                "zero " BENCH ": two stores need %" PRIu64
                " MiB of memory, but %s has %" PRIu64 " MiB left: lower --bytes or --depth\n",
                2 * need >> 20, source, left >> 20);
        return false;
    }
    return true;
}

int offload_parse(struct offload_options *o, int argc, char **argv)
{
    const char *bytes = "2M", *depth = "16";
    double seconds = 1;
    uint64_t factor = 4;
    const struct tool_arg args[] = {
        TOOL_ARG("tier", TEXT, &o->tier),
        TOOL_ARG("op", OWN, o, .read = ops_read),
        TOOL_ARG("bytes", TEXT, &bytes),
        TOOL_ARG("factor", WHOLE, &factor, TOOL_RANGE(2, 1 << 20)),
        TOOL_ARG("depth", TEXT, &depth),
        TOOL_ARG("size", BYTES, &o->bytes, TOOL_RANGE(1 << 20, UINT64_C(1) << 42)),
        TOOL_ARG("seconds", SECONDS, &seconds, TOOL_RANGE(10, 3600000)),
        TOOL_ARG("reps", UNSIGNED, &o->reps, TOOL_RANGE(1, 10000)),
        TOOL_ARG("warmup", UNSIGNED, &o->warmup, TOOL_RANGE(0, 10000)),
        TOOL_ARG("beside", OWN, &o->beside, .read = beside_read),
        TOOL_ARG("folder", TEXT, &o->folder),
        TOOL_ARG("at-least", UNSIGNED, &o->least, TOOL_RANGE(1, 1000)),
        TOOL_ARG("pages", WORD, &o->pages, .words = "auto|small|huge"),
        TOOL_ARG("no-fio", OFF, &o->fio),
        TOOL_ARG("cache", ON, &o->cache_allowed),
        TOOL_CHECKS(&o->check, &o->spoil),
        TOOL_ARG("json", ON, &o->json),
    };
    int status =
        tool_args(BENCH, args, sizeof args / sizeof *args, TOOL_NO_WORDS, help, argc, argv);

    if (status >= 0)
        return status;
    o->ns = (int64_t)(seconds * 1e9);
    if (!tool_sizes(BENCH, "bytes", bytes, factor, o->sizes, &o->n_sizes) ||
        !tool_sizes(BENCH, "depth", depth, 2, o->depths, &o->n_depths) || !fits(o))
        return 2;
    return -1;
}
