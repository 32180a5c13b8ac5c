/* SPDX-License-Identifier: Apache-2.0 */
/* How far two names are apart, and which of many is nearest, for "did you mean". */
#ifndef ZERO_BASE_NEAREST_H
#define ZERO_BASE_NEAREST_H

#include <stdbool.h>

/*
 * Least number of letters to insert, delete, replace or swap with the neighbour so that a becomes
 * b, upper and lower case being equal. Names of more than 64 letters are far from everything.
 */
unsigned zero__distance(const char *a, const char *b);
/* Are they less than *best apart? Then *best becomes how far they are. */
bool zero__nearer(const char *a, const char *b, unsigned *best);

#endif
