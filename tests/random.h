/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers of tests: the same ones from the same seed. */
#ifndef ZERO_TESTS_RANDOM_H
#define ZERO_TESTS_RANDOM_H

#include <stdint.h>

/* splitmix64 */
static inline uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

#endif
