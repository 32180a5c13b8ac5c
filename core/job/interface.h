/* SPDX-License-Identifier: Apache-2.0 */
/* The network interfaces of this machine, and by which of them other hosts come. */
#ifndef ZERO_JOB_INTERFACE_H
#define ZERO_JOB_INTERFACE_H

#include <stddef.h>

#include "job/address.h"

#define ZERO__INTERFACE_NAME 16 /* bytes, as the kernel has it */

/*
 * The address of the interface of that name; of this family if it has one, AF_UNSPEC: IPv4 before
 * IPv6.
 */
int zero__interface_address(const char *name, int family, uint16_t port, struct zero__address *out);

/*
 * The address by which other hosts come, as far as a machine can tell: of the only interface that
 * runs but the loopback, else of the one with the default route; `why` says which. -ENODEV: there
 * is none; -ENOTUNIQ: there are several, and the sentence names them.
 */
int zero__interface_outward(uint16_t port, struct zero__address *out, char *why, size_t room);

/* The interface that has the address; false: none. */
bool zero__interface_of(const struct zero__address *a, char name[static ZERO__INTERFACE_NAME]);

/* Every loopback address is, too. */
bool zero__address_is_here(const struct zero__address *a);

#endif
