/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of TCP endpoints: from names, of interfaces, of this machine, and as text. */
#ifndef ZERO_JOB_ADDRESS_H
#define ZERO_JOB_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define ZERO__ADDRESSES 16     /* of one name; more are not tried */
#define ZERO__ADDRESS_TEXT 80  /* of zero__address_text() */
#define ZERO__ADDRESS_HOST 256 /* a name or a number, as MASTER_ADDR has it */

struct zero__address {
    struct sockaddr_storage s;
    socklen_t bytes;
};

struct zero__addresses {
    uint32_t n;
    bool named; /* of a name, not of a number */
    struct zero__address at[ZERO__ADDRESSES];
};

/*
 * All addresses of `name`, a number (IPv6 also in brackets) or a name, with the port; `what` is the
 * variable that the name comes from. An error says what did not resolve, and why.
 */
int zero__address_find(const char *what, const char *name, uint16_t port, int64_t deadline_ns,
                       struct zero__addresses *out);

/* Is it the address in b, whatever the ports? b may be NULL. */
bool zero__address_is(const struct zero__address *a, const struct sockaddr *b);
bool zero__address_is_loopback(const struct zero__address *a);

/* Does a host's name, not looked up anywhere, mean this machine? */
bool zero__host_is_here(const char *name);
/* Is it one that every machine uses for itself ("localhost")? */
bool zero__host_is_loopback(const char *name);

/* "192.0.2.1:29500", "[2001:db8::1]:29500"; and without the port, as zero__address_find() reads. */
void zero__address_text(const struct zero__address *a, char text[static ZERO__ADDRESS_TEXT]);
void zero__address_host(const struct zero__address *a, char text[static ZERO__ADDRESS_TEXT]);
uint16_t zero__address_port(const struct zero__address *a);

#endif
