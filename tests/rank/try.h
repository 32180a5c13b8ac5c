/* SPDX-License-Identifier: Apache-2.0 */
/* Calls in a row, in a function that returns the first error. */
#ifndef ZERO_TESTS_TRY_H
#define ZERO_TESTS_TRY_H

#define TRY(call)             \
    do {                      \
        int try_err = (call); \
        if (try_err)          \
            return try_err;   \
    } while (0)

#endif
