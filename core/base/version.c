/* SPDX-License-Identifier: Apache-2.0 */
/* The version of the library that runs, as configure knows it. */
#include "config.h"

#include <zero/zero.h>

const char *zero_version(void)
{
    return PACKAGE_VERSION;
}
