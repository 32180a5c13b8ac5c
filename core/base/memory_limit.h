/* SPDX-License-Identifier: Apache-2.0 */
/* ZERO_MEMORY_LIMIT: bytes that a rank may reserve in each tier, "device:8G,cpu:16G". */
#ifndef ZERO_BASE_MEMORY_LIMIT_H
#define ZERO_BASE_MEMORY_LIMIT_H

#include <stddef.h>
#include <stdint.h>

#define ZERO__NO_LIMIT UINT64_MAX

struct zero__memory_limit {
    uint64_t device_bytes, cpu_bytes; /* ZERO__NO_LIMIT where the text names none */
};

/* Parses `text`; -EINVAL with the reason in why[bytes], *limit untouched. Empty: no limits. */
int zero__memory_limit_parse(const char *text, struct zero__memory_limit *limit, char *why,
                             size_t bytes);

#endif
