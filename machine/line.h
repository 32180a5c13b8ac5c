/* SPDX-License-Identifier: Apache-2.0 */
/* A line in which the kernel shows something, in a file of /proc, /sys or a control group. */
#ifndef ZERO_MACHINE_LINE_H
#define ZERO_MACHINE_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The first line of the file that begins with `key`, without its end, as far as there is room; key
 * "": the first of all. False, and the text empty: there is none.
 */
bool zero__line_read(const char *path, const char *key, char *text, size_t room);

/*
 * The number behind `key` in that line, of which "max" is none. Without one *value stays as it was,
 * for those who have a default.
 */
bool zero__number_read(const char *path, const char *key, uint64_t *value);

#endif
