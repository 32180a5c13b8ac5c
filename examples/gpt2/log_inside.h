/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the log share. */
#ifndef GPT2_LOG_INSIDE_H
#define GPT2_LOG_INSIDE_H

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "log.h"

/* One object and a newline; takes the reference. JSON has no infinity: such numbers are null. */
static inline void gpt2_log_write(FILE *file, json_t *object)
{
    if (json_dumpf(object, file, JSON_COMPACT | JSON_REAL_PRECISION(12)) == 0)
        fputc('\n', file);
    json_decref(object);
}

static inline json_t *gpt2_json_real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static inline json_t *gpt2_json_count(uint64_t n)
{
    return json_integer((json_int_t)n);
}

/* Where something lies outside the device, or the library was asked whether it should. */
static inline bool gpt2_log_is_placed(const struct gpt2_session *s)
{
    const char *offload = zero_option(s->rt, "offload");

    return *zero_placement(s->rt) || (offload && !strcmp(offload, "auto"));
}

#endif
