/* SPDX-License-Identifier: Apache-2.0 */
/* What would make a plan fit that does not: settings with which one was laid out that does. */
#ifndef ZERO_PLACE_REMEDY_H
#define ZERO_PLACE_REMEDY_H

#include <stddef.h>

struct zero__placer;

/*
 * Writes settings as "NAME=VALUE; or NAME=VALUE NAME=VALUE", each of which is enough by itself:
 * first what variables bring about, the cheapest first, then what takes a change of what the
 * program sets, and last larger limits; where nothing else is enough, the least that was found,
 * too, with the limits that hold it. Empty: nothing that was tried is. Not collective; before
 * anything is reserved.
 */
int zero__remedies_find(struct zero__placer *placer, char *text, size_t bytes);

#endif
