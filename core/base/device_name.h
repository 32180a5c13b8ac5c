/* SPDX-License-Identifier: Apache-2.0 */
/* What ZERO_DEVICE names: NAME or NAME:NUMBER. */
#ifndef ZERO_BASE_DEVICE_NAME_H
#define ZERO_BASE_DEVICE_NAME_H

#include <stddef.h>
#include <stdint.h>

/*
 * The plugin's name, or the path of its file, and the number of the device, -1 where there is none.
 * -EINVAL, -ENAMETOOLONG with a sentence.
 */
int zero__device_name_split(const char *text, char *name, size_t room, int32_t *index);

#endif
