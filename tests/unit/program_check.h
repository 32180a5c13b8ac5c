/* SPDX-License-Identifier: Apache-2.0 */
/* The checker of compiled bodies. */
#ifndef ZERO_TESTS_UNIT_PROGRAM_CHECK_H
#define ZERO_TESTS_UNIT_PROGRAM_CHECK_H

#include "schedule/program.h"

/*
 * Finds, independently of the passes: a read of a transient buffer before its first write, an
 * access outside a buffer or its life, a tile's update that finds bytes of another tile, two live
 * buffers on the same bytes, a conflict of two ops that no wait orders; also with ops of the update
 * before, NULL: there is none. 0 or -EFAULT, with the sentence.
 */
int program_check(const struct zero__states *s, const struct zero__body *update,
                  const struct zero__body *b);

#endif
