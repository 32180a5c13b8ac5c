/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The challenge that opens every TCP connection: rank 0 sends a nonce, the guest answers with one
 * of its own and a proof, rank 0 with its proof. A proof is HMAC-SHA-256 under the job's secret
 * over who proves, both nonces and the job's key: an old proof has the wrong nonces, one's own sent
 * back the wrong role, that of another job the wrong key.
 *
 * It keeps strangers out; it does not hide or guard what is said afterwards. Who can alter packets
 * between the hosts can alter those, too.
 */
#ifndef ZERO_JOB_AUTH_H
#define ZERO_JOB_AUTH_H

#include <stdbool.h>

#include "job/secret.h"

#define ZERO__AUTH_BYTES 32 /* of a nonce and of a proof */

enum zero__auth_role { ZERO__AUTH_GUEST = 'G', ZERO__AUTH_ZERO = '0' };

struct zero__auth_nonces {
    unsigned char zero[ZERO__AUTH_BYTES], guest[ZERO__AUTH_BYTES];
};

void zero__auth_nonce(unsigned char nonce[static ZERO__AUTH_BYTES]);
void zero__auth_prove(const struct zero__secret *secret, const char *key, enum zero__auth_role role,
                      const struct zero__auth_nonces *nonces,
                      unsigned char proof[static ZERO__AUTH_BYTES]);
/* Takes the same time whatever is wrong. */
bool zero__auth_check(const struct zero__secret *secret, const char *key, enum zero__auth_role role,
                      const struct zero__auth_nonces *nonces,
                      const unsigned char proof[static ZERO__AUTH_BYTES]);

#endif
