/* SPDX-License-Identifier: Apache-2.0 */
/* Proofs of the challenge; see auth.h. libsodium is ready: there is a secret. */
#include "job/auth.h"

#include <string.h>

#include <sodium.h>

_Static_assert(ZERO__AUTH_BYTES == crypto_auth_hmacsha256_BYTES, "a proof is one HMAC");
_Static_assert(ZERO__SECRET_BYTES == crypto_auth_hmacsha256_KEYBYTES, "a secret is its key");

void zero__auth_nonce(unsigned char nonce[static ZERO__AUTH_BYTES])
{
    randombytes_buf(nonce, ZERO__AUTH_BYTES);
}

/* The parts before the key have fixed sizes, so that no two inputs read alike. */
void zero__auth_prove(const struct zero__secret *secret, const char *key, enum zero__auth_role role,
                      const struct zero__auth_nonces *nonces,
                      unsigned char proof[static ZERO__AUTH_BYTES])
{
    static const unsigned char label[16] = "libzero job v1";
    unsigned char who = (unsigned char)role;
    crypto_auth_hmacsha256_state state;

    crypto_auth_hmacsha256_init(&state, secret->bytes, sizeof secret->bytes);
    crypto_auth_hmacsha256_update(&state, label, sizeof label);
    crypto_auth_hmacsha256_update(&state, &who, 1);
    crypto_auth_hmacsha256_update(&state, nonces->zero, sizeof nonces->zero);
    crypto_auth_hmacsha256_update(&state, nonces->guest, sizeof nonces->guest);
    crypto_auth_hmacsha256_update(&state, (const unsigned char *)key, strlen(key));
    crypto_auth_hmacsha256_final(&state, proof);
    sodium_memzero(&state, sizeof state);
}

bool zero__auth_check(const struct zero__secret *secret, const char *key, enum zero__auth_role role,
                      const struct zero__auth_nonces *nonces,
                      const unsigned char proof[static ZERO__AUTH_BYTES])
{
    unsigned char right[ZERO__AUTH_BYTES];

    zero__auth_prove(secret, key, role, nonces, right);
    bool same = sodium_memcmp(right, proof, sizeof right) == 0;
    sodium_memzero(right, sizeof right);
    return same;
}
