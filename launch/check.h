/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every device refuses of a launch of zero/device.h: the host device and plugins, in the same
 * words. What gets past it can be run or planned without another look.
 */
#ifndef ZERO_LAUNCH_CHECK_H
#define ZERO_LAUNCH_CHECK_H

#include <zero/device.h>

#define ZERO__LAUNCH_WHY 256 /* bytes of any sentence */

/* Name of a kernel in reports, "?" for an unknown one. */
const char *zero__launch_name(uint32_t kernel);

/* Kernel, sizes, types, pointers: 0, or a negative errno and the sentence in `why`. */
int zero__launch_check(const struct zero_launch *launch, const char *device,
                       char why[ZERO__LAUNCH_WHY]);

#endif
