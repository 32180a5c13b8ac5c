/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers from text, whatever the locale is; -EINVAL unless all of `text` is one. */
#ifndef ZERO_BASE_NUMBER_H
#define ZERO_BASE_NUMBER_H

#include <stdint.h>

int zero__int_parse(const char *text, int64_t *value);
int zero__real_parse(const char *text, double *value);
/* A whole number with a unit: K, M, G, T, with or without iB or B, powers of 1024. */
int zero__bytes_parse(const char *text, int64_t *value);

#endif
