/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The secret of a job: 256 bits that its ranks know and nobody else. It comes from a file, a
 * descriptor or the launcher, never from an argument or a variable, which other users can read.
 */
#ifndef ZERO_JOB_SECRET_H
#define ZERO_JOB_SECRET_H

#include <stdbool.h>

#define ZERO__SECRET_BYTES 32

struct zero__secret {
    bool known;
    unsigned char bytes[ZERO__SECRET_BYTES];
};

/* 64 hex digits and at most a line's end, in a file that only this user may read. */
int zero__secret_from_file(const char *path, struct zero__secret *out);

/*
 * The same from an inherited descriptor. A file or memfd is read from its start, by as many ranks
 * as like; a pipe gives its contents to the first only, and need not be closed.
 */
int zero__secret_from_fd(int fd, struct zero__secret *out);

int zero__secret_make(struct zero__secret *out);
void zero__secret_wipe(struct zero__secret *secret);
/* A copy for as long as the job may need it, which no core dump shows; to be dropped, or NULL. */
int zero__secret_keep(const struct zero__secret *secret, struct zero__secret **kept);
void zero__secret_drop(struct zero__secret *kept);

#endif
