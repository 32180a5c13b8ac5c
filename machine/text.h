/* SPDX-License-Identifier: Apache-2.0 */
/* Text that came from elsewhere, made fit for a terminal and a log. */
#ifndef ZERO_MACHINE_TEXT_H
#define ZERO_MACHINE_TEXT_H

#include <stddef.h>

/*
 * Ends the text of a field of `room` bytes, and puts a '?' for every control character, those of
 * UTF-8 too, which could move a terminal's cursor or forge a line of a log.
 */
void zero__text_clean(char *text, size_t room);

#endif
