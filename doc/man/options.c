/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the section OPTIONS of zero(7) from the table of options, so that the page cannot differ
 * from the library: `make update-man` puts it into the page, `make check` compares.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/option_value.h"
#include "base/options.h"

/* Text as roff: a hyphen is a minus, a backslash and a leading dot are themselves. */
static void text_print(const char *text)
{
    for (; *text; text++) {
        if (*text == '-')
            fputs("\\-", stdout);
        else if (*text == '\\')
            fputs("\\e", stdout);
        else
            putchar(*text);
    }
}

static void option_print(const char *name, enum zero__option_type type, const char *dflt,
                         const char *allowed, const char *help)
{
    char text[256];

    fputs(".TP\n.B ZERO_", stdout);
    for (; *name; name++)
        putchar(toupper((unsigned char)*name));
    printf(" \\fR(default: %s%s)\n", *dflt ? "" : "empty", dflt);
    text_print(help);
    fputs(".\n", stdout);
    if (type == ZERO__TEXT)
        return;
    zero__option_allowed(type, allowed, text, sizeof text);
    fputs("Allowed: ", stdout);
    text_print(text);
    fputs(".\n", stdout);
}

int main(void)
{
    const char *last = "";

#define ZERO__OPTION(id, name, type, dflt, allowed, group, help)                                   \
    if (strcmp(last, group) != 0)                                                                  \
        printf(".SS %s\n", group);                                                                 \
    last = group;                                                                                  \
    option_print(#name, ZERO__##type, dflt, allowed, help);
#include "base/options_table.h"
    return fflush(stdout) != 0;
}
