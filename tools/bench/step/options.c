/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `zero bench step`; see log.h. */
#include "config.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "job/job.h"
#include "log.h"
#include "tools/common/args.h"

static void help(FILE *f)
{
    fputs("usage: zero bench step [OPTION]... [-- ARG...]\n"
          "Trains GPT-2 with zero-gpt2 under zero run and shows where the time of a step\n"
          "goes, on the rank that waits longest: compute, exposed waits (nothing to compute\n"
          "until another op has ended) by the kind of that op, optimizer, other; and beside\n"
          "these, how long collectives and the disk were at work, and how much of that\n"
          "beside computing.\n"
          "\n"
          "  --preset NAME     micro, tiny, 124M, 350M, 774M or 1.5B (tiny)\n"
          "  --stage 0-3       what is sharded (ZERO_STAGE, else 3)\n"
          "  -n, --ranks N     ranks (2)\n"
          "  --batch N         sequences of a rank in a micro-batch (8; from 124M on 1)\n"
          "  --seq N           tokens of a sequence (all positions, 128 of tiny; from 124M\n"
          "                    on 256)\n"
          "  --dtype TYPE      f32, bf16 or f16 (f32; from 124M on bf16)\n"
          "  --steps N         steps that count (9); also --reps\n"
          "  --warmup N        steps before those (2)\n"
          "  --comm NAME       comm plugin, by name or path (ZERO_COMM, else what zero-gpt2\n"
          "                    takes)\n"
          "  --data FILE       a text (random letters)\n"
          "  --no-bind         do not bind ranks to cores of their own\n"
          "  --no-check        do not check losses, norms and weights; --check, the\n"
          "                    default, does\n"
          "  --cache           what goes through the page cache is no failure\n"
          "  --json            records, an object a line, instead of the table\n"
          "  -- ARG...         further options for zero-gpt2, which has the other defaults;\n"
          "                    none that is set here\n"
          "\n"
          "Figures are medians of the steps, so parts need not add up; spread is\n"
          "(90 % - 10 % quantile) / median; where it is above 100 % for 5 % of a step or\n"
          "more a line says so, as it does when others took more than a quarter of one of\n"
          "its processors. A wait is put down to the op that ended last before compute went\n"
          "on, and what is before that op's start to what it may have waited for itself.\n"
          "Kinds are those of zero-gpt2 --ops; zero(1) says what each is for. norm, the\n"
          "ranks' exchange of norms, counts as optimizer.\n"
          "\n"
          "The limit of a step is the same step without its waits; that of the disk, what\n"
          "its bytes take when it does nothing else; that of the optimizer, plain loops\n"
          "over the memory of a rank's shard on all ranks at once, after the training,\n"
          "which load and store what AdamW does and read the gradient once more for its\n"
          "norm, as zero bench optimizer has them; they find in caches what fits there.\n"
          "Below 10 MB of states there are no percent, and no limit where states are\n"
          "elsewhere, in bf16 or of another rule. compute has no limit here: its time is\n"
          "that of the application's own matrix products; libzero does none.\n"
          "The check: every loss and norm is a number and no norm is 0; both, and the\n"
          "weights at the end, are the same on all ranks; but with --weights-in, the first\n"
          "loss is about the logarithm of the vocabulary, and those of the second half of\n"
          "five steps or more are no higher. Sums that are a little wrong on all ranks\n"
          "alike pass: zero bench coll and zero check comm find those. What a tier moves to\n"
          "and from a disk goes past the page cache, and the kernel has counted 95 % of it.\n"
          "\n"
          "Exit status: 0; 1 if the training is not sound, or the disk none; 2 for bad use,\n"
          "else that of zero run.\n",
          f);
}

static bool arg_add(struct step_options *o, const char *text)
{
    if (o->n_args == STEP_MAX_ARGS) {
        fprintf(stderr, "zero bench step: more than %d words for zero-gpt2: leave some out\n",
                STEP_MAX_ARGS);
        return false;
    }
    o->args[o->n_args++] = (char *)text;
    return true;
}

bool step_pair_add(struct step_options *o, const char *name, const char *value)
{
    return arg_add(o, name) && arg_add(o, value);
}

/* What zero-gpt2 gets as it is. */
static bool whole_read(const char *tool, const struct tool_arg *arg, const char *text)
{
    uint64_t x;

    *(const char **)arg->to = text;
    return tool_count(tool, arg->name, text, 0, arg->least, arg->most, &x);
}

/*
 * Words behind "--" must not say what this program says: a record would speak of one run and have
 * the figures of another. zero-gpt2 knows options by their first letters.
 */
static bool further_check(const char *word)
{
    static const char *const ours[] = {"preset", "steps", "data",  "val", "json",
                                       "ops",    "stage", "batch", "seq", "dtype"};
    size_t len = strcspn(word, "=");

    for (unsigned i = 0; i < sizeof ours / sizeof *ours; i++) {
        if (len < 3 || strncmp(word, "--", 2) != 0 || strncmp(word + 2, ours[i], len - 2) != 0)
            continue;
        fprintf(stderr,
                "zero bench step: %s behind -- would change what is measured without a word in "
                "the record: %s\n",
                word, i >= 3 && i < 6 ? "leave it out" : "give it before --");
        return false;
    }
    return true;
}

/* --weights-in, or as many of its letters as tell it from --weights-out. */
static bool is_weights(const char *word)
{
    size_t len = strcspn(word, "=");
    return len >= strlen("--weights-i") && !strncmp(word, "--weights-in", len);
}

int step_parse(struct step_options *o, int argc, char **argv)
{
    const char *stage = NULL, *batch = NULL, *seq = NULL;
    uint32_t dtype = 0;
    const struct tool_arg args[] = {
        /* known here as well: what zero-gpt2 refuses is the failure of a job, and not bad use */
        TOOL_ARG("preset", WORD, &o->preset, .words = "micro|tiny|124M|350M|774M|1.5B"),
        TOOL_ARG("stage", OWN, &stage, TOOL_RANGE(0, 3), .read = whole_read),
        TOOL_ARG("ranks", WHOLE, &o->ranks, TOOL_RANGE(1, ZERO__JOB_MAX_RANKS), .letter = 'n'),
        TOOL_ARG("batch", OWN, &batch, TOOL_RANGE(1, 65536), .read = whole_read),
        TOOL_ARG("seq", OWN, &seq, TOOL_RANGE(1, 1 << 24), .read = whole_read),
        TOOL_ARG("dtype", DTYPE, &dtype),
        TOOL_ARG("steps", WHOLE, &o->steps, TOOL_RANGE(1, 100000)),
        TOOL_ARG("reps", WHOLE, &o->steps, TOOL_RANGE(1, 100000)),
        TOOL_ARG("warmup", WHOLE, &o->warmup, TOOL_RANGE(0, 100000)),
        TOOL_ARG("data", TEXT, &o->data),
        TOOL_ARG("comm", TEXT, &o->comm),
        TOOL_ARG("no-bind", OFF, &o->bind),
        TOOL_CHECKS(&o->check, &o->spoil),
        TOOL_ARG("cache", ON, &o->cache_allowed),
        TOOL_ARG("json", ON, &o->json),
    };

    *o = (struct step_options){.preset = "tiny",
                               .ranks = 2,
                               .steps = 9,
                               .warmup = 2,
                               .bind = true,
                               .check = true,
                               .fresh = true};
    arg_add(o, "zero-gpt2");
    int status =
        tool_args("bench step", args, sizeof args / sizeof *args, TOOL_BEHIND, help, argc, argv);
    if (status >= 0)
        return status;
    if ((stage && !step_pair_add(o, "--stage", stage)) ||
        (batch && !step_pair_add(o, "--batch", batch)) ||
        (seq && !step_pair_add(o, "--seq", seq)) ||
        (dtype && !step_pair_add(o, "--dtype", zero_dtype_name(dtype))))
        return 2;
    for (int i = optind; i < argc; i++) {
        if (!further_check(argv[i]) || !arg_add(o, argv[i]))
            return 2;
        o->fresh &= !is_weights(argv[i]);
    }
    return -1;
}
