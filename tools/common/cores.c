/* SPDX-License-Identifier: Apache-2.0 */
#include "cores.h"

#include <stddef.h>
#include <stdint.h>

#include "machine/cores.h"

int tool_cores(void)
{
    struct zero__cores here;

    zero__cores_here(&here);
    uint32_t n = zero__cores_busy(&here, NULL);
    return n ? (int)n : 1;
}
