/* SPDX-License-Identifier: Apache-2.0 */
#include "machine/text.h"

void zero__text_clean(char *text, size_t room)
{
    text[room - 1] = 0;
    for (unsigned char *c = (unsigned char *)text; *c; c++) {
        if (*c < ' ' || *c == 0x7f)
            *c = '?';
        else if (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0) /* U+0080 to U+009F */
            c[0] = c[1] = '?';
    }
}
