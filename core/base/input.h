/* SPDX-License-Identifier: Apache-2.0 */
/* Structs that a program fills in, of its version of the header. */
#ifndef ZERO_BASE_INPUT_H
#define ZERO_BASE_INPUT_H

#include <stddef.h>

/*
 * `input` begins with its size, which was compiled into the program. What a later version has
 * behind the `known` bytes of this one must be zero: asking for it cannot be granted, -EINVAL.
 */
int zero__input_check(const char *name, const void *input, size_t known);

#endif
