/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures that outlive a job: a file in the folder libzero of the user's cache has a line for each
 * key, "KEY FIGURE… SECONDS", the latest first. Whoever cannot read or write it does without. A
 * file is replaced as a whole, so that nobody reads a part; of two jobs that end at the same time
 * one may lose its line.
 */
#ifndef ZERO_BASE_KEPT_H
#define ZERO_BASE_KEPT_H

#include <stdint.h>

#define ZERO__KEPT_FIGURES 6u /* of a line at most; all are positive and finite */

/* The key of figures of this machine that were measured with what the text says. */
uint64_t zero__kept_key(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* 1: figures[0 … n - 1] are what was noted under the key in the last 30 days; else 0. */
int zero__kept_find(const char *file, uint64_t key, double *figures, uint32_t n);

/* 0, or why it could not be written: -ENOENT without a place for it, or another errno. */
int zero__kept_note(const char *file, uint64_t key, const double *figures, uint32_t n);

#endif
