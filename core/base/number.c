/* SPDX-License-Identifier: Apache-2.0 */
/* Every number is read whole or not at all; overflow is an error, never a wrong value. */
#define _GNU_SOURCE
#include "base/number.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int zero__int_parse(const char *text, int64_t *value)
{
    char *end;

    if (!isdigit((unsigned char)*text) && *text != '-')
        return -EINVAL; /* strtoll() would skip blanks */
    errno = 0;
    long long x = strtoll(text, &end, 10);
    if (errno || end == text || *end)
        return -EINVAL;
    *value = x;
    return 0;
}

int zero__real_parse(const char *text, double *value)
{
    char *end;
    locale_t c;

    if (!*text || strspn(text, "0123456789+-.eE") != strlen(text))
        return -EINVAL; /* no blanks, nan, inf or hexadecimal digits */
    c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c)
        return -EINVAL;
    double x = strtod_l(text, &end, c);
    freelocale(c);
    if (end == text || *end || !isfinite(x))
        return -EINVAL;
    *value = x;
    return 0;
}

/* The power of 1024 that a suffix stands for, or -1. */
static int suffix_power(const char *suffix)
{
    static const char letters[] = "kmgt";

    if (!*suffix || strcasecmp(suffix, "b") == 0)
        return 0;
    const char *at = strchr(letters, tolower((unsigned char)*suffix));
    if (!at)
        return -1;
    suffix++;
    if (*suffix && strcasecmp(suffix, "b") != 0 && strcasecmp(suffix, "ib") != 0)
        return -1;
    return (int)(at - letters) + 1;
}

int zero__bytes_parse(const char *text, int64_t *value)
{
    char digits[24];
    size_t n = strspn(text, "-0123456789");
    int64_t x;
    int power = suffix_power(text + n);

    if (n >= sizeof digits || power < 0)
        return -EINVAL;
    memcpy(digits, text, n);
    digits[n] = 0;
    if (zero__int_parse(digits, &x) || __builtin_mul_overflow(x, INT64_C(1) << (10 * power), &x))
        return -EINVAL;
    *value = x;
    return 0;
}
