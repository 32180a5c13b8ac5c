/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of one model in every stage, by formula and as it was really reserved. */
#ifndef GPT2_TABLE_H
#define GPT2_TABLE_H

#include <stddef.h>

#include "options.h"

/*
 * Commits the model once in each of the stages 0 to 3, trains one step, and prints a table on rank
 * 0. Collective. 0 or a negative errno, with a sentence in `text` or zero_last_error() set.
 */
int gpt2_memory_table(const struct gpt2_options *o, char *text, size_t bytes);

#endif
