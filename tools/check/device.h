/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZERO_TOOLS_CHECK_DEVICE_H
#define ZERO_TOOLS_CHECK_DEVICE_H

#include <zero/device.h>

#include "tools/common/comm.h"

struct check_device {
    struct zero_device_ops ops;
    struct zero_device *dev; /* NULL: the plugin takes no streams */
};

/* That of ZERO_DEVICE, else one with the memory that the plugin works on. */
int check_device_open(struct tool_comm *b, struct check_device *d);
void check_device_close(struct check_device *d);

#endif
