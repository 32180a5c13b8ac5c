/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thread-local, because the sentence belongs to the call that just failed on this thread; it is the
 * only state outside a runtime.
 */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <zero/zero.h>

static _Thread_local char sentence[ZERO_ERROR_BYTES] = "no error";

int zero__fail(int err, const char *fmt, ...)
{
    char text[ZERO_ERROR_BYTES];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    memcpy(sentence, text, sizeof sentence); /* an argument may be the old sentence itself */
    return err;
}

int zero__while(int err, const char *fmt, ...)
{
    char text[ZERO_ERROR_BYTES];
    va_list ap;

    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof text)
        snprintf(text + n, sizeof text - (size_t)n, ": %.*s", (int)sizeof text - n - 3, sentence);
    memcpy(sentence, text, sizeof sentence);
    return err;
}

void zero__unsay(void)
{
    sentence[0] = 0;
}

int zero__unsaid(int err, const char *who)
{
    return *sentence ? err : zero__fail(err, "%s did not say why", who);
}

const char *zero__error_text(void)
{
    return sentence;
}

const char *zero_last_error(void)
{
    return sentence;
}
