/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled into the plugins fault, makes ones that never say why they let something fail. */
#define _GNU_SOURCE /* before any header of the system, as the files of the plugins want it */
#include "plugins/common/voice.h"

#define FAULT_NAME "mute"
#define STORE_NAME "mute"

__attribute__((unused, format(printf, 3, 4))) static int mute_say(const struct zero__voice *voice,
                                                                  int err, const char *fmt, ...)
{
    (void)voice, (void)fmt;
    return err;
}

#undef zero__say
#define zero__say mute_say
