/* SPDX-License-Identifier: Apache-2.0 */
#include "base/shared_options.h"

#include <string.h>
#include <xxhash.h>

/* The groups of options that shape training. */
static int is_shared(const struct zero__options *options, uint32_t id)
{
    struct zero__option_row row;

    return zero__options_row(options, id, &row) == 0 &&
           (!strcmp(row.group, "Sharding") || !strcmp(row.group, "Optimizer") ||
            !strcmp(row.group, "Offload"));
}

void zero__shared_options(const struct zero__options *options,
                          struct zero__shared_option values[ZERO__N_OPTIONS])
{
    memset(values, 0, ZERO__N_OPTIONS * sizeof *values);
    for (uint32_t i = 0; i < ZERO__N_OPTIONS; i++) {
        enum zero__option_id id = (enum zero__option_id)i;
        if (!is_shared(options, i))
            continue;
        const char *text = zero__option_text(options, id);
        values[i].real = zero__option_real(options, id);
        values[i].integer = zero__option_int(options, id);
        if (id == ZERO__OPT_OFFLOAD) /* no number: the text counts */
            values[i].hash = XXH3_64bits(text, strlen(text));
        strncpy(values[i].text, text, sizeof values[i].text - 1);
    }
}

int zero__shared_option_differs(const struct zero__shared_option *a,
                                const struct zero__shared_option *b)
{
    return a->real != b->real || a->integer != b->integer || a->hash != b->hash;
}

uint64_t zero__shared_options_hash(const struct zero__options *options)
{
    struct zero__shared_option values[ZERO__N_OPTIONS];
    uint64_t h = 0;

    zero__shared_options(options, values);
    for (uint32_t i = 0; i < ZERO__N_OPTIONS; i++) {
        h = XXH3_64bits_withSeed(&values[i].real, sizeof values[i].real, h);
        h = XXH3_64bits_withSeed(&values[i].integer, sizeof values[i].integer, h);
        h = XXH3_64bits_withSeed(&values[i].hash, sizeof values[i].hash, h);
    }
    return h;
}
