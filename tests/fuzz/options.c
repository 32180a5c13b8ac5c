/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines name=value as settings of a program: every type of option is among them, and the parameter
 * of a plugin.
 */
#include "fuzz.h"

#include "base/options.h"

#define LINES 16u

enum {
    LOADED = 1u << 0,
    REFUSED = 1u << 1, /* a value */
    CHOSEN = 1u << 2,  /* the first value, as a stage */
    GIVEN = 1u << 3,   /* the plugin's parameter */
    UNKNOWN = 1u << 4, /* a name */
};

const struct fuzz_seed fuzz_seeds[] = {
    FUZZ_TEXT("stage=2\nbucket_bytes=64M\nlr=1e-3\nmap=0", LOADED | CHOSEN),
    FUZZ_TEXT("memory_limit=device:1G,cpu:512K\nlog=warn,comm:trace\nloss_scale=dynamic", LOADED),
    FUZZ_TEXT("timeout=0.5\nheartbeat=1e9\noptimizer=sgd\nisa=auto\nx_fuzz=1", LOADED | GIVEN),
    FUZZ_TEXT("stage=2\nbuckets=1\nlog=", LOADED | CHOSEN | UNKNOWN),
    FUZZ_TEXT("bucket_bytes=64X", REFUSED),
    FUZZ_TEXT("memory_limit=device:1G,device:2G", REFUSED),
    FUZZ_TEXT("memory_limit=moon:1G", REFUSED),
    {NULL, 0, 0},
};

unsigned fuzz_reached;

/* What is asked of the options of a program; behind them stands the parameter. */
static void use(struct zero__options *options, const char *first)
{
    const char *given = zero__options_param(options, "fuzz", "x_fuzz", NULL, "help");
    struct zero__option_row row;

    if (given)
        fuzz_reached |= GIVEN;
    if (zero__options_row(options, ZERO__N_OPTIONS, &row) || !row.value)
        abort();
    zero__option_int(options, ZERO__OPT_STAGE);
    if (zero__options_finish(options, NULL, true, NULL))
        fuzz_reached |= UNKNOWN;
    if (first && zero__options_choose(options, ZERO__OPT_STAGE, first) == 0)
        fuzz_reached |= CHOSEN;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zero_setting settings[LINES];
    struct zero__options *options = NULL;
    char *text = malloc(size + 1), *rest = text, *line;
    uint32_t n = 0;

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    while (n < LINES && (line = strsep(&rest, "\n"))) {
        char *value = strchr(line, '=');
        if (value)
            *value++ = 0;
        settings[n++] = (struct zero_setting){line, value ? value : ""};
    }
    int err = zero__options_load(settings, n, &options);
    fuzz_reached |= err ? REFUSED : LOADED;
    if (!err)
        use(options, n ? settings[0].value : NULL);
    zero__options_free(options);
    free(text);
    return 0;
}
