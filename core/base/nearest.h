/* SPDX-License-Identifier: Apache-2.0 */
/* How far two names are apart, for "did you mean". */
#ifndef ZERO_BASE_NEAREST_H
#define ZERO_BASE_NEAREST_H

/*
 * Least number of letters to insert, delete, replace or swap with the neighbour so that a becomes
 * b, upper and lower case being equal. Names of more than 64 letters are far from everything.
 */
unsigned zero__distance(const char *a, const char *b);

#endif
