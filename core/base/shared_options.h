/* SPDX-License-Identifier: Apache-2.0 */
/* Options that shape training, which all ranks must have in common. */
#ifndef ZERO_BASE_SHARED_OPTIONS_H
#define ZERO_BASE_SHARED_OPTIONS_H

#include "base/options.h"

/* The value of one such option; zeros where ranks may differ. No padding: compared as bytes. */
struct zero__shared_option {
    double real;     /* of numbers */
    int64_t integer; /* of choices, too */
    uint64_t hash;   /* of texts that are neither */
    char text[32];   /* its beginning, for sentences */
};

void zero__shared_options(const struct zero__options *options,
                          struct zero__shared_option values[ZERO__N_OPTIONS]);
/* Texts do not count: one value may be written in several ways. */
int zero__shared_option_differs(const struct zero__shared_option *a,
                                const struct zero__shared_option *b);
uint64_t zero__shared_options_hash(const struct zero__options *options);

#endif
