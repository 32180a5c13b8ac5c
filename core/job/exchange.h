/* SPDX-License-Identifier: Apache-2.0 */
/* The two entries of struct zero_oob; ctx is the job. */
#ifndef ZERO_JOB_EXCHANGE_H
#define ZERO_JOB_EXCHANGE_H

#include <stdint.h>

int zero__oob_post(void *ctx, const void *src, uint32_t len);
int zero__oob_test(void *ctx, void *dst);

#endif
