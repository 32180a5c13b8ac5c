/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of zero-gpt2, from one table; see options.h. */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { FLAG, TEXT, WHOLE, REAL, PRESET, DTYPE, FORMAT, SET_WHOLE, SET_REAL, HELP, VERSION };

/* Where a value goes and what it may be. SET: it becomes a setting of the library, as it is. */
static const struct entry {
    const char *name, *value; /* value: what the help calls it, NULL for a flag */
    enum kind kind;
    size_t at;
    double least, most;
    const char *help;
} table[] = {
/* clang-format off: a table */
#define AT(field) offsetof(struct gpt2_options, field)
    {"data", "FILE", TEXT, AT(data), 0, 0, "text, or 16-bit tokens where the name ends in .bin"},
    {"format", "KIND", FORMAT, AT(format), 0, 0, "text or tokens, whatever the name of FILE"},
    {"preset", "NAME", PRESET, 0, 0, 0, "micro, tiny, 124M, 350M, 774M or 1.5B (default tiny)"},
    {"dtype", "TYPE", DTYPE, 0, 0, 0, "fp32, bf16 or fp16 (default fp32; bf16 from 124M on)"},
    {"vocab", "N", WHOLE, AT(vocab), 1, 1 << 24, "rows of vocabulary (256; 50304 from 124M on)"},
    {"stage", "0-3", SET_WHOLE, 0, 0, 3, "what is sharded (ZERO_STAGE; 3)"},
    {"batch", "N", WHOLE, AT(batch), 1, 65536,
     "sequences in a rank's micro-batch (8; 1 from 124M on)"},
    {"seq", "N", WHOLE, AT(seq), 1, 1 << 24,
     "tokens of a sequence (all positions; 256 from 124M on)"},
    {"accum", "N", SET_WHOLE, 0, 1, 65536, "micro-batches of a step (ZERO_ACCUM)"},
    {"recompute", NULL, FLAG, AT(recompute), 0, 0, "save memory: compute activations twice"},
    {"steps", "N", WHOLE, AT(steps), 0, 1e9, "training steps (200)"},
    {"lr", "X", SET_REAL, 0, 0, 1e6, "peak learning rate (ZERO_LR), then a cosine to a tenth"},
    {"warmup", "N", WHOLE, AT(warmup), 0, 1e9, "steps up to it (a tenth of all, at most 100)"},
    {"clip", "X", SET_REAL, 0, 0, 1e30, "largest norm of the gradient (ZERO_CLIP)"},
    {"weight-decay", "X", REAL, AT(weight_decay), 0, 1e6, "of matrices (ZERO_WEIGHT_DECAY; 0.1)"},
    {"beta2", "X", REAL, AT(beta2), 0, 0.999999, "of AdamW (ZERO_BETA2; 0.95)"},
    {"seed", "N", WHOLE, AT(seed), 0, 1e15, "of weights, samples and text (1)"},
    {"val", "X", REAL, AT(held), 0, 0.9, "fraction of the data that is held out, at its end (0.1)"},
    {"eval-every", "N", WHOLE, AT(eval_every), 1, 1e9,
     "evaluate every N steps, not only at the end"},
    {"eval-windows", "N", WHOLE, AT(eval_windows), 0, 1e9, "on N held-out sequences (256); 0: all"},
    {"beat-bigram", NULL, FLAG, AT(beat_bigram), 0, 0,
     "status 3 unless better than pairs of bytes"},
    {"sample", "N", WHOLE, AT(sample), 1, 1e6, "write N tokens at the end"},
    {"prompt", "TEXT", TEXT, AT(prompt), 0, 0, "what they continue (\"The \")"},
    {"temperature", "X", REAL, AT(temperature), 0, 100, "0: always the likeliest (0.8)"},
    {"weights-in", "FILE", TEXT, AT(weights_in), 0, 0, "start from fp32 weights (safetensors)"},
    {"weights-out", "FILE", TEXT, AT(weights_out), 0, 0, "write them at the end"},
    {"json", "FILE", TEXT, AT(json), 0, 0, "a JSON line a step, and a summary; %r: a file a rank"},
    {"ops", "FILE", TEXT, AT(ops), 0, 0, "when each op of the step program ran, likewise"},
    {"program", "FILE", TEXT, AT(program), 0, 0, "that program, as text, likewise"},
    {"cublas", "FILE", TEXT, AT(cublas), 0, 0, "with ZERO_DEVICE=cuda: cuBLAS, by name or path"},
    {"memory-table", NULL, FLAG, AT(memory_table), 0, 0, "one step in each stage, and its memory"},
    {"help", NULL, HELP, 0, 0, 0, "this text"},
    {"version", NULL, VERSION, 0, 0, 0, "the library's version"},
    /* clang-format on */
};

enum { N = sizeof table / sizeof *table };

struct parse {
    struct gpt2_options *o;
    char *text; /* the sentence about an error */
    size_t bytes;
};

static int print_help(void)
{
    puts("Trains GPT-2; on N ranks: zero run -n N -- zero-gpt2 --data FILE [OPTION]…");
    for (int i = 0; i < N; i++) {
        const char *value = table[i].value ? table[i].value : "";
        printf("  --%s %-*s %s\n", table[i].name, 18 - (int)strlen(table[i].name), value,
               table[i].help);
    }
    puts("Every other setting of the library: zero info --options\n"
         "Does the model not fit? ZERO_OFFLOAD=auto or --recompute: zero(7), \"Offload\"");
    return 1;
}

__attribute__((format(printf, 2, 3))) static int fail(struct parse *p, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(p->text, p->bytes, fmt, ap);
    va_end(ap);
    return -EINVAL;
}

static int parse_whole(struct parse *p, const struct entry *e, const char *s, uint64_t *value)
{
    char *end;
    errno = 0;
    const unsigned long long x = strtoull(s, &end, 10);
    if (*s < '0' || *s > '9' || *end || errno || (double)x < e->least || (double)x > e->most)
        return fail(p, "--%s %s: a whole number from %.0f to %.0f is wanted", e->name, s, e->least,
                    e->most);
    *value = x;
    return 0;
}

static int parse_real(struct parse *p, const struct entry *e, const char *s, double *value)
{
    char *end;
    const double x = strtod(s, &end);
    if (end == s || *end || !(x >= e->least && x <= e->most))
        return fail(p, "--%s %s: a number from %g to %g is wanted", e->name, s, e->least, e->most);
    *value = x;
    return 0;
}

static int parse_dtype(struct parse *p, const char *s)
{
    static const uint32_t types[] = {ZERO_F32, ZERO_BF16, ZERO_F16};
    for (int i = 0; i < 3; i++)
        if (strcmp(s, zero_dtype_name(types[i])) == 0) {
            p->o->dtype = types[i];
            return 0;
        }
    return fail(p, "--dtype %s: fp32, bf16 or fp16 is wanted", s);
}

/*
 * The library would refuse the same values, but it would speak of its option, and not of the one
 * that was typed. The last of several counts.
 */
static int pass_on(struct parse *p, const struct entry *e, const char *value)
{
    struct gpt2_options *o = p->o;
    const char *name = e->name;
    uint32_t i = 0;
    uint64_t whole;
    double real;
    int err =
        e->kind == SET_WHOLE ? parse_whole(p, e, value, &whole) : parse_real(p, e, value, &real);

    if (err)
        return err;

    while (i < o->n_settings && strcmp(o->settings[i].name, name) != 0)
        i++;
    o->settings[i] = (struct zero_setting){name, value};
    if (i == o->n_settings)
        o->n_settings++;
    return 0;
}

static int parse_one(struct parse *p, const struct entry *e, const char *s)
{
    void *at = (char *)p->o + e->at;

    switch (e->kind) {
    case FLAG:
        *(bool *)at = true;
        return 0;
    case FORMAT:
        if (strcmp(s, "text") != 0 && strcmp(s, "tokens") != 0)
            return fail(p, "--format %s: text or tokens is wanted", s);
        *(const char **)at = s;
        return 0;
    case TEXT:
        *(const char **)at = s;
        return *s ? 0 : fail(p, "--%s wants a %s that is not empty", e->name, e->value);
    case WHOLE:
        return parse_whole(p, e, s, at);
    case REAL:
        return parse_real(p, e, s, at);
    case PRESET:
        return gpt2_config_preset(s, &p->o->model)
                   ? fail(p, "--preset %s is unknown: there are %s", s, gpt2_presets())
                   : 0;
    case DTYPE:
        return parse_dtype(p, s);
    case SET_WHOLE:
    case SET_REAL:
        return pass_on(p, e, s);
    case VERSION:
        printf("zero-gpt2 %s\n", zero_version());
        return 1;
    default:
        return print_help();
    }
}

/* What depends on several options. */
static int complete(struct parse *p)
{
    struct gpt2_options *o = p->o;
    const bool big = o->model.vocab > 256;

    if (o->vocab)
        o->model.vocab = (uint32_t)o->vocab;
    if (!o->dtype)
        o->dtype = big ? ZERO_BF16 : ZERO_F32;
    if (!o->batch)
        o->batch = big ? 1 : 8;
    if (!o->seq)
        o->seq = big ? 256 : o->model.context;
    if (o->seq > o->model.context)
        return fail(p, "--seq %u is longer than the %u positions of preset %s", (unsigned)o->seq,
                    o->model.context, o->model.name);
    if (o->warmup == UINT64_MAX)
        o->warmup = o->steps / 10 < 100 ? o->steps / 10 : 100;
    if (o->warmup > o->steps)
        return fail(p, "--warmup %u is longer than the %u steps", (unsigned)o->warmup,
                    (unsigned)o->steps);
    if (!o->data && !o->memory_table)
        return fail(p, "--data FILE is missing: a text to learn from, for example what "
                       "zcat /usr/share/doc/jargon-text/jargon.txt.gz writes");
    if ((o->beat_bigram || o->eval_every) && o->held == 0)
        return fail(p, "--%s needs held-out data, but --val is 0",
                    o->beat_bigram ? "beat-bigram" : "eval-every");
    return 0;
}

int gpt2_options_parse(struct gpt2_options *o, int argc, char **argv, char *text, size_t bytes)
{
    struct parse p = {o, text, bytes};
    struct option longs[N + 1] = {{NULL, 0, NULL, 0}};
    int option, err = 0;

    *o = (struct gpt2_options){.steps = 200,
                               .warmup = UINT64_MAX,
                               .seed = 1,
                               .held = 0.1,
                               .eval_windows = 256,
                               .temperature = 0.8,
                               .weight_decay = -1,
                               .beta2 = -1,
                               .prompt = "The "};
    gpt2_config_preset("tiny", &o->model);
    for (int i = 0; i < N; i++)
        longs[i] = (struct option){table[i].name, table[i].value ? required_argument : no_argument,
                                   NULL, 1000 + i};
    opterr = 0;
    optind = 1;
    while ((option = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
        if (option == ':')
            return fail(&p, "%s wants a value: see --help", argv[optind - 1]);
        if (option == '?')
            return fail(&p, "%s is not an option, or not with a value: see --help",
                        argv[optind - 1]);
        err = parse_one(&p, &table[option - 1000], optarg);
        if (err)
            return err;
    }
    if (optind < argc)
        return fail(&p, "%s is not an option: see --help", argv[optind]);
    return complete(&p);
}
