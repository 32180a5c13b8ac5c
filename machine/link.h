/* SPDX-License-Identifier: Apache-2.0 */
/* What the system knows of network devices. */
#ifndef ZERO_MACHINE_LINK_H
#define ZERO_MACHINE_LINK_H

#include <stddef.h>

/*
 * The speed of a network device as the system has it, " 10 Gb/s", of an interface (eth0) or a port
 * of an adapter (mlx5_0:1); empty where nobody knows, as for the loopback.
 */
void zero__link_speed(const char *device, char *text, size_t room);

#endif
