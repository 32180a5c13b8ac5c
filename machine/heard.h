/* SPDX-License-Identifier: Apache-2.0 */
/* An error as another process tells it, which may be any number. */
#ifndef ZERO_MACHINE_HEARD_H
#define ZERO_MACHINE_HEARD_H

#define ZERO__ERRNO_MOST 4095 /* of every Linux */

/* `otherwise` where it is no negative errno. */
static inline int zero__errno_heard(int err, int otherwise)
{
    return err < 0 && err >= -ZERO__ERRNO_MOST ? err : otherwise;
}

#endif
