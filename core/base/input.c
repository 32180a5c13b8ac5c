/* SPDX-License-Identifier: Apache-2.0 */
#include "base/input.h"

#include <errno.h>
#include <string.h>

#include "base/status.h"

#define MOST_TIMES 4 /* as large as today's; who says more has not filled the size in */

int zero__input_check(const char *name, const void *input, size_t known)
{
    const unsigned char *bytes = input;
    size_t size;

    memcpy(&size, input, sizeof size);
    if (size < known || size / MOST_TIMES > known)
        return zero__fail(-EINVAL, "%s.size is %zu, not %zu: set it to sizeof(struct %s)", name,
                          size, known, name);
    for (size_t i = known; i < size; i++)
        if (bytes[i])
            return zero__fail(-EINVAL, "%s.size is %zu, of which this library knows %zu, and what "
                              "lies behind them is not zero: it is older than the program", name,
                              size, known);
    return 0;
}
