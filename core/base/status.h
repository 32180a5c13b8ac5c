/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error sentence of the calling thread. The function that decides an error records it once with
 * zero__fail(); callers only pass the code on, or prefix what they were doing with zero__while().
 */
#ifndef ZERO_BASE_STATUS_H
#define ZERO_BASE_STATUS_H

#include <errno.h>

#define ZERO_ERROR_BYTES 4096 /* a memory table fits */

/* Records the sentence for zero_last_error() and returns err (a negative errno). */
int zero__fail(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Puts "what: " in front of the recorded sentence and returns err. */
int zero__while(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Forgets the recorded sentence: for a thread that calls plugins, which may say nothing. */
void zero__unsay(void);

/* Of an error without a sentence since then, records that `who` did not say why; returns err. */
int zero__unsaid(int err, const char *who);

/* The recorded sentence of this thread; never NULL. */
const char *zero__error_text(void);

#endif
