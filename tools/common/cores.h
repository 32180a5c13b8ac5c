/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZERO_TOOLS_COMMON_CORES_H
#define ZERO_TOOLS_COMMON_CORES_H

/*
 * Cores that this process may keep busy, at least 1. A container that has the processor time of a
 * few cores among many (docker --cpus) has those few, as it has for the transports.
 */
int tool_cores(void);

#endif
