/* SPDX-License-Identifier: Apache-2.0 */
/* How many cores a benchmark counts, on a machine of 64 that gives it the time of some. */
#include "tools/common/cores.h"

#include <stdint.h>
#include <string.h>

#include "../tap.h"
#include "machine/cores.h"

static uint32_t given;

void zero__cores_here(struct zero__cores *c)
{
    memset(c, 0, sizeof *c);
    c->bits[0] = UINT64_MAX;
}

uint32_t zero__cores_busy(const struct zero__cores *c, const char *root)
{
    return c->bits[0] == UINT64_MAX && !root ? given : UINT32_MAX;
}

int main(void)
{
    given = 64;
    is_int(tool_cores(), 64, "all of them, where nothing limits");
    given = 2;
    is_int(tool_cores(), 2, "the time of two of them is two");
    given = 0;
    is_int(tool_cores(), 1, "that of half a one is one");
    done();
}
