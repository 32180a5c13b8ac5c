/* SPDX-License-Identifier: Apache-2.0 */
/* What rank 0 publishes through PMIx: where it listens, and the secret. */
#ifndef ZERO_JOB_NOTICE_H
#define ZERO_JOB_NOTICE_H

#include <stddef.h>
#include <stdint.h>

#include "job/address.h"
#include "job/secret.h"

/* All ranks have the same byte order: they agree on interfaces later. */
struct zero__notice {
    char magic[8];
    uint16_t port;
    uint16_t has_secret;
    uint32_t reserved;
    char address[ZERO__ADDRESS_HOST];
    unsigned char secret[ZERO__SECRET_BYTES];
};

void zero__notice_init(struct zero__notice *n);

/* Bytes that came from elsewhere; -EPROTO (no sentence) when they are no notice of this version. */
int zero__notice_read(const void *bytes, size_t size, struct zero__notice *out);

#endif
