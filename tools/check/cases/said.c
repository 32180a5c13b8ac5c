/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the plugin returned and said, as complaints print it. A mark takes the place of the sentence
 * before a call: whoever finds it afterwards knows that the plugin has given none, and nobody takes
 * the sentence of an earlier call for that of this one.
 */
#define _GNU_SOURCE /* strerrorname_np() */
#include <stdio.h>
#include <string.h>

#include <zero/zero.h>

#include "rank.h"

#define MARK "zero check has heard no reason"

void check_mark(const struct zero_host *host)
{
    host->fail(host->ctx, "check", -EINVAL, MARK);
}

bool check_said(void)
{
    return !strstr(zero_last_error(), MARK);
}

const char *check_error(void)
{
    return check_said() ? zero_last_error() : "no reason is given (zero_host.fail())";
}

static const char *name_of(int64_t value)
{
#if defined __GLIBC__ && __GLIBC_PREREQ(2, 32)
    return value < 0 && value >= -4095 ? strerrorname_np((int)-value) : NULL;
#else
    (void)value;
    return NULL;
#endif
}

const char *check_value(struct check_rank *r, int64_t value)
{
    char *text = r->value[r->n_values++ % CHECK_VALUES];
    const char *name = name_of(value);

    if (name)
        snprintf(text, sizeof r->value[0], "-%s", name);
    else
        snprintf(text, sizeof r->value[0], "%" PRId64, value);
    return text;
}

int64_t check_ended(struct check_rank *r, const char *how, int64_t value)
{
    bool reason = value < 0 && value != -EAGAIN;

    snprintf(r->ended, sizeof r->ended, "%s %s%s%s", how, check_value(r, value),
             reason ? ": " : "", reason ? check_error() : "");
    return value;
}
