/* SPDX-License-Identifier: Apache-2.0 */
/* A number that the kernel shows in a file of /proc or of a control group. */
#ifndef ZERO_MACHINE_NUMBER_H
#define ZERO_MACHINE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The number after `key` at the start of a line of the file; key "": the file's first number, of
 * which "max" is none. Without one *value stays as it was, for those who have a default.
 */
bool zero__number_read(const char *path, const char *key, uint64_t *value);

#endif
