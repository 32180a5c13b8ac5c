/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a command line by a table of its options; see args.h. */
#include "args.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zero/types.h>

#include "base/number.h"
#include "base/option_value.h"

#define MOST_BYTES (UINT64_C(1) << 40)

/* Reads digits and perhaps a unit up to any of `ends`; NULL when there is something else. */
static const char *scan(const char *text, uint64_t unit, const char *ends, uint64_t *out)
{
    static const char units[] = "KMGT";
    char *end;

    errno = 0;
    unsigned long long x = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || errno)
        return NULL;
    bool letter = (*end >= 'A' && *end <= 'Z') || (*end >= 'a' && *end <= 'z');
    const char *u = letter && unit ? strchr(units, *end & ~0x20) : NULL;
    for (long i = u ? u - units + 1 : 0; i > 0; i--)
        if (__builtin_mul_overflow(x, unit, &x))
            return NULL;
    end += u != NULL;
    if (u && unit == 1024 && !strncmp(end, "iB", 2))
        end += 2;
    if (*end && !strchr(ends, *end))
        return NULL;
    *out = x;
    return end;
}

bool tool_count(const char *tool, const char *name, const char *text, uint64_t unit, uint64_t least,
                uint64_t most, uint64_t *out)
{
    uint64_t x;

    if (!scan(text, unit, "", &x) || x < least || x > most) {
        fprintf(stderr,
                "zero %s: --%s is \"%s\": a whole number from %" PRIu64 " to %" PRIu64
                "%s is wanted\n",
                tool, name, text, least, most, unit ? ", perhaps with K, M, G or T," : "");
        return false;
    }
    *out = x;
    return true;
}

/* f32, bf16 or f16 (fp32 and fp16 too). */
static bool dtype(const char *tool, const char *name, const char *text, uint32_t *out)
{
    static const struct {
        const char *name;
        uint32_t dtype;
    } known[] = {{"f32", ZERO_F32},
                 {"fp32", ZERO_F32},
                 {"bf16", ZERO_BF16},
                 {"f16", ZERO_F16},
                 {"fp16", ZERO_F16}};

    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(text, known[i].name)) {
            *out = known[i].dtype;
            return true;
        }
    fprintf(stderr, "zero %s: --%s is \"%s\": f32, bf16 or f16 is wanted\n", tool, name, text);
    return false;
}

/* One of `words`, in its own letters. */
static bool word(const char *tool, const struct tool_arg *a, const char *text)
{
    size_t len = strlen(text), n;
    const char *at;

    for (at = a->words; *at; at += n + (at[n] == '|')) {
        n = strcspn(at, "|");
        if (n == len && !strncmp(at, text, n)) {
            *(const char **)a->to = text;
            return true;
        }
    }
    fprintf(stderr, "zero %s: --%s is \"%s\": ", tool, a->name, text);
    for (at = a->words; *at; at += n + (at[n] == '|')) {
        n = strcspn(at, "|");
        fprintf(stderr, "%s%.*s", at == a->words ? "" : at[n] ? ", " : " or ", (int)n, at);
    }
    fputs(" is wanted\n", stderr);
    return false;
}

static bool seconds(const char *tool, const struct tool_arg *a, const char *text)
{
    double x, least = (double)a->least * 1e-3, most = (double)a->most * 1e-3;

    if (zero__real_parse(text, &x) || x < least || x > most) {
        fprintf(stderr, "zero %s: --%s is \"%s\": seconds from %.10g to %.10g are wanted\n", tool,
                a->name, text, least, most);
        return false;
    }
    *(double *)a->to = x;
    return true;
}

const char *tool_dtype_name(uint32_t dtype)
{
    return dtype == ZERO_F32 ? "f32" : dtype == ZERO_BF16 ? "bf16" : "f16";
}

/* One element of a list; sizes from `low` on, each `factor` times the one before. */
static bool add_sizes(uint64_t low, uint64_t high, uint64_t factor, uint64_t *sizes, unsigned *n)
{
    if (low == 0 || low > high || high > MOST_BYTES)
        return false;
    for (uint64_t b = low; b <= high; b *= factor) {
        if (*n == TOOL_MAX_SIZES)
            return false;
        sizes[(*n)++] = b;
    }
    return true;
}

bool tool_sizes(const char *tool, const char *name, const char *text, uint64_t factor,
                uint64_t sizes[TOOL_MAX_SIZES], unsigned *n)
{
    const char *at = text;
    uint64_t low, high;

    *n = 0;
    do {
        at += *at == ',';
        at = scan(at, 1024, ":,", &low);
        high = low;
        if (at && *at == ':')
            at = scan(at + 1, 1024, ",", &high);
        if (!at || !add_sizes(low, high, factor, sizes, n)) {
            fprintf(stderr,
                    "zero %s: --%s is \"%s\": sizes from 1 to 1T are wanted, at most %u, like "
                    "4K:64M or 4K,1M,64M\n",
                    tool, name, text, TOOL_MAX_SIZES);
            return false;
        }
    } while (*at == ',');
    return true;
}

/* A long option of that value, or NULL. */
static const struct option *long_of(const struct option *longs, int val)
{
    while (longs->name && longs->val != val)
        longs++;
    return longs->name ? longs : NULL;
}

/* How many options the text after the dashes may be the beginning of. */
static unsigned n_meant(const struct option *longs, const char *text)
{
    size_t len = strcspn(text, "=");
    unsigned n = 0;

    for (; longs->name; longs++)
        n += !strncmp(longs->name, text, len);
    return n;
}

/*
 * Why getopt_long() returned c, '?' or ':', or, -1, where it stopped; the word in question is put
 * into word.
 */
static const char *option_fault(const struct option *longs, int c, char **argv, char word[256])
{
    snprintf(word, 256, "%s", argv[c == -1 ? optind : optind - 1]);
    if (c == -1)
        return "is not an option, and nothing else is wanted";
    if (c == ':')
        return "needs a value";
    if (optopt && !long_of(longs, optopt)) { /* getopt may still be within the word */
        snprintf(word, 256, "-%c", optopt);
        return "is not an option";
    }
    if (optopt)
        return "has a value, but that option takes none";
    return n_meant(longs, word + 2) > 1 ? "may be one of several options" : "is not an option";
}

/*
 * Says what is wrong where getopt_long() returned c, '?' or ':', or, -1, where it stopped; returns
 * 2. opterr is 0, and what begins with ':' or "+:" are the short options.
 */
static int bad_option(const char *tool, const struct option *longs, int c, char **argv)
{
    char word[256];
    const char *fault = option_fault(longs, c, argv, word);

    fprintf(stderr, "zero %s: %s %s: see zero %s --help\n", tool, word, fault, tool);
    return 2;
}

/* ---- The table ------------------------------------------------------------------------------- */

#define MOST_ARGS 32u
#define FIRST 256 /* getopt_long() returns that and the number of an option */

static bool has_value(const struct tool_arg *a)
{
    return a->kind != TOOL_ON && a->kind != TOOL_OFF && a->kind != TOOL_SET;
}

static bool take(const char *tool, const struct tool_arg *a, const char *text)
{
    uint64_t unit = a->kind == TOOL_COUNT ? 1000 : a->kind == TOOL_BYTES ? 1024 : 0, x;

    switch (a->kind) {
    case TOOL_ON:
    case TOOL_OFF:
        *(bool *)a->to = a->kind == TOOL_ON;
        return true;
    case TOOL_SET:
        *(int *)a->to = (int)a->least;
        return true;
    case TOOL_TEXT:
        *(const char **)a->to = text;
        return true;
    case TOOL_DTYPE:
        return dtype(tool, a->name, text, a->to);
    case TOOL_WORD:
        return word(tool, a, text);
    case TOOL_SECONDS:
        return seconds(tool, a, text);
    case TOOL_OWN:
        return a->read(tool, a, text);
    default:
        if (!tool_count(tool, a->name, text, unit, a->least, a->most, &x))
            return false;
        if (a->kind == TOOL_UNSIGNED)
            *(unsigned *)a->to = (unsigned)x;
        else
            *(uint64_t *)a->to = x;
        return true;
    }
}

/* As getopt_long() wants them; h is the help's letter. */
static void convert(const struct tool_arg *args, unsigned n, struct option longs[MOST_ARGS + 2],
                    char letters[2 * MOST_ARGS + 4], enum tool_words words)
{
    char *at = letters;

    if (words == TOOL_BEHIND || words == TOOL_PROGRAM)
        *at++ = '+';
    *at++ = ':';
    *at++ = 'h';
    for (unsigned i = 0; i < n; i++) {
        int value = has_value(&args[i]) ? required_argument : no_argument;
        int called = args[i].letter ? args[i].letter : FIRST + (int)i;
        longs[i] = (struct option){args[i].name, value, NULL, called};
        if (args[i].letter)
            *at++ = args[i].letter;
        if (args[i].letter && value == required_argument)
            *at++ = ':';
    }
    longs[n] = (struct option){"help", no_argument, NULL, 'h'};
    longs[n + 1] = (struct option){0};
    *at = 0;
}

int tool_args(const char *tool, const struct tool_arg *args, unsigned n, enum tool_words words,
              void (*help)(FILE *f), int argc, char **argv)
{
    char letters[2 * MOST_ARGS + 4];
    struct option longs[MOST_ARGS + 2];
    int c;

    convert(args, n, longs, letters, words);
    opterr = 0;
    optind = 0; /* from the start, also after another one with other letters */
    while ((c = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
        unsigned i = 0;
        if (c == 'h') {
            help(stdout);
            return 0;
        }
        if (c == '?' || c == ':')
            return bad_option(tool, longs, c, argv);
        while (longs[i].val != c)
            i++;
        if (!take(tool, &args[i], optarg))
            return 2;
    }
    bool behind = words == TOOL_BEHIND && !strcmp(argv[optind - 1], "--");
    if (optind < argc && words != TOOL_WORDS && words != TOOL_PROGRAM && !behind)
        return bad_option(tool, longs, -1, argv);
    return -1;
}

int tool_plugin(const char *tool, int argc, char **argv, const char **out)
{
    if (optind == argc - 1) {
        *out = argv[optind];
        return -1;
    }
    fprintf(stderr, "zero %s: %s; zero %s --help tells more\n", tool,
            optind == argc ? "no plugin is named" : "more than one plugin is named", tool);
    return 2;
}
