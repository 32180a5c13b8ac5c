/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command lines of the commands of `zero`: a table of what options are called, what values they
 * have and where these go. `tool` is what stands after "zero" in a sentence on standard error,
 * "run" or "check comm"; a function that reads a value returns true, or false after one.
 */
#ifndef ZERO_TOOLS_COMMON_ARGS_H
#define ZERO_TOOLS_COMMON_ARGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum tool_kind {
    TOOL_ON,       /* bool, to true; there is no value */
    TOOL_OFF,      /* to false */
    TOOL_SET,      /* int, to `least`; there is no value */
    TOOL_TEXT,     /* const char *, of argv */
    TOOL_WHOLE,    /* uint64_t, a number from least to most, as the next three */
    TOOL_UNSIGNED, /* unsigned */
    TOOL_COUNT,    /* uint64_t, perhaps with K, M, G or T of 1000 */
    TOOL_BYTES,    /* and of 1024 */
    TOOL_DTYPE,    /* uint32_t */
    TOOL_WORD,     /* const char *, of argv: one of `words` */
    TOOL_SECONDS,  /* double, with a fraction; least and most are thousandths */
    TOOL_OWN       /* what read() makes of it */
};

struct tool_arg {
    const char *name;
    enum tool_kind kind;
    void *to;
    uint64_t least, most;
    const char *words; /* "auto|small|huge" */
    bool (*read)(const char *tool, const struct tool_arg *arg, const char *text);
    char letter; /* short for it, or 0 */
};

/* A row of the table: TOOL_ARG("reps", UNSIGNED, &reps, TOOL_RANGE(1, 4000)). */
#define TOOL_ARG(name_, kind_, to_, ...)                                \
    {                                                                   \
        .name = (name_), .kind = TOOL_##kind_, .to = (to_), __VA_ARGS__ \
    }
#define TOOL_RANGE(low, high) .least = (low), .most = (high)

/*
 * Three rows that benchmarks have in common. --spoil makes a result wrong, so that the check is
 * seen to fail; zero(1) tells of it, no help does.
 */
#define TOOL_CHECKS(check_, spoil_) \
    TOOL_ARG("check", ON, check_), TOOL_ARG("no-check", OFF, check_), TOOL_ARG("spoil", ON, spoil_)

/* What may stand there beside options. */
enum tool_words {
    TOOL_NO_WORDS,
    TOOL_WORDS,   /* anywhere; from optind on, in the end */
    TOOL_BEHIND,  /* behind --, from optind on */
    TOOL_PROGRAM, /* from the first word on, where options end; -- may stand before it */
};

/*
 * Reads a command line; --help is known. -1: go on; else the exit status, after the help or a
 * sentence. At most 32 options.
 */
int tool_args(const char *tool, const struct tool_arg *args, unsigned n, enum tool_words words,
              void (*help)(FILE *f), int argc, char **argv);

/* The one word of a command that tries a plugin. -1, or 2 after a sentence. */
int tool_plugin(const char *tool, int argc, char **argv, const char **out);

/* A whole number with the units K, M, G and T of 1000 ("100M parameters") or 1024; unit 0: none. */
bool tool_count(const char *tool, const char *name, const char *text, uint64_t unit, uint64_t least,
                uint64_t most, uint64_t *out);
const char *tool_dtype_name(uint32_t dtype);

#define TOOL_MAX_SIZES 64u

/* Sizes in bytes: "4K:64M" with a factor between neighbours, "1M", and lists of these. */
bool tool_sizes(const char *tool, const char *name, const char *text, uint64_t factor,
                uint64_t sizes[TOOL_MAX_SIZES], unsigned *n);

#endif
