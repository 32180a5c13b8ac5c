/* SPDX-License-Identifier: Apache-2.0 */
/* What rank 0 publishes through PMIx: where it listens, and the secret; or why it cannot say so. */
#ifndef ZERO_JOB_NOTICE_H
#define ZERO_JOB_NOTICE_H

#include <stddef.h>
#include <stdint.h>

#include "job/address.h"
#include "job/secret.h"

#define ZERO__NOTICE_WHY 1024

/* All ranks have the same byte order: they agree on interfaces later. */
struct zero__notice {
    char magic[8];
    uint16_t port;
    uint16_t has_secret;
    int32_t err; /* 0, or rank 0 listens nowhere, as `why` says */
    char address[ZERO__ADDRESS_HOST];
    unsigned char secret[ZERO__SECRET_BYTES];
    char why[ZERO__NOTICE_WHY];
};

void zero__notice_init(struct zero__notice *n);

/* Bytes that came from elsewhere; -EPROTO (no sentence) when they are no notice of this version. */
int zero__notice_read(const void *bytes, size_t size, struct zero__notice *out);

#endif
