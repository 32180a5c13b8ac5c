/* SPDX-License-Identifier: Apache-2.0 */
/* A list of what:tier, each thing once; a tier may be several, with their fractions or without. */
#include "base/placement.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"

static const char *const names[ZERO__N_PLACED] = {"parameters", "gradients", "optimizer",
                                                  "activations"};

const char *zero__placed_name(uint32_t what)
{
    return what < ZERO__N_PLACED ? names[what] : "?";
}

static int what_of(const char *word, size_t len)
{
    for (int i = 0; i < ZERO__N_PLACED; i++)
        if (strlen(names[i]) == len && memcmp(names[i], word, len) == 0)
            return i;
    return -1;
}

/* "nvme" or "nvme:0.4"; the fraction is 0 where none is named. */
static int piece_parse(const char *text, size_t len, uint32_t what, struct zero__placement *p,
                       double *fraction, char *why, size_t bytes)
{
    const char *colon = memchr(text, ':', len);
    size_t name = colon ? (size_t)(colon - text) : len;
    struct zero__place *place = &p->places[p->n];
    char number[32];

    *fraction = 0;

    if (p->n == ZERO__MOST_PLACES) {
        snprintf(why, bytes, "more than %u places are named", ZERO__MOST_PLACES);
        return -EINVAL;
    }
    if (name >= sizeof place->tier) {
        snprintf(why, bytes,
                 "\"%.40s…\" is a name of %zu bytes, and %zu are possible: put the plugin's folder "
                 "into ZERO_PLUGIN_PATH and give its name",
                 text, name, sizeof place->tier - 1);
        return -EINVAL;
    }
    if (name == 0) {
        snprintf(why, bytes,
                 "\"%.*s\" names no tier for %s: device, cpu, nvme, or another offload "
                 "plugin",
                 (int)(len > 40 ? 40 : len), text, names[what]);
        return -EINVAL;
    }
    for (uint32_t i = 0; i < p->n; i++)
        if (p->places[i].what == what && strlen(p->places[i].tier) == name &&
            memcmp(p->places[i].tier, text, name) == 0) {
            snprintf(why, bytes, "%s has the tier %.*s twice", names[what], (int)name, text);
            return -EINVAL;
        }
    if (colon) {
        size_t n = len - name - 1;
        snprintf(number, sizeof number, "%.*s", (int)(n > 31 ? 31 : n), colon + 1);
        if (n > 31 || zero__real_parse(number, fraction) || !(*fraction > 0 && *fraction <= 1)) {
            snprintf(why, bytes, "\"%s\" of %s is no fraction above 0 and up to 1", number,
                     names[what]);
            return -EINVAL;
        }
    }
    place->what = what;
    place->parts = 0;
    snprintf(place->tier, sizeof place->tier, "%.*s", (int)name, text);
    p->n++;
    return 0;
}

/* In whole parts, at least one each: a place ends where the sum of the fractions up to it does. */
static void parts_give(struct zero__place *places, const double *fractions, uint32_t n)
{
    uint32_t before = 0;
    double sum = 0;

    for (uint32_t i = 0; i < n; i++) {
        sum += fractions[i];
        uint32_t end = (uint32_t)(sum * ZERO__PLACE_PARTS + 0.5);
        uint32_t most = ZERO__PLACE_PARTS - (n - 1 - i);
        end = end > before ? end : before + 1;
        end = end < most && i + 1 < n ? end : most;
        places[i].parts = end - before;
        before = end;
    }
}

static int entry_parse(const char *text, size_t len, struct zero__placement *p, char *why,
                       size_t bytes)
{
    const char *end = text + len, *colon = memchr(text, ':', len);
    int what = what_of(text, colon ? (size_t)(colon - text) : len);
    double fractions[ZERO__MOST_PLACES], sum = 0;
    uint32_t before = p->n, n_bare = 0;

    if (len == 4 && !memcmp(text, "auto", 4)) {
        snprintf(why, bytes,
                 "\"auto\" stands alone, and places everything: leave the rest out, or name the "
                 "tiers of each (optimizer:device+cpu+nvme)");
        return -EINVAL;
    }
    if (what < 0 || !colon) {
        snprintf(why, bytes,
                 "\"%.*s\" is not one of parameters, gradients, optimizer and "
                 "activations, a colon and a tier: write auto, or for example optimizer:nvme",
                 (int)(len > 40 ? 40 : len), text);
        return -EINVAL;
    }
    for (uint32_t i = 0; i < before; i++)
        if (p->places[i].what == (uint32_t)what) {
            snprintf(why, bytes, "%s is placed twice", names[what]);
            return -EINVAL;
        }
    for (text = colon + 1;; text++) {
        const char *plus = memchr(text, '+', (size_t)(end - text)), *stop = plus ? plus : end;
        double fraction;
        int err = piece_parse(text, (size_t)(stop - text), (uint32_t)what, p, &fraction, why,
                              bytes);
        if (err)
            return err;
        fractions[p->n - 1 - before] = fraction;
        sum += fraction;
        n_bare += fraction == 0;
        text = stop;
        if (!plus)
            break;
    }
    uint32_t n = p->n - before;
    if (n == 1 && n_bare)
        fractions[0] = sum = 1, n_bare = 0;
    if (n_bare == n) /* as much as there is room for */
        return 0;
    if (!n_bare && fabs(sum - 1) < 1e-6) {
        parts_give(&p->places[before], fractions, n);
        return 0;
    }
    if (n_bare) {
        snprintf(why, bytes,
                 "some tiers of %s have a fraction and some have none: give one to each, or to "
                 "none, for as much as there is room for",
                 names[what]);
        return -EINVAL;
    }
    snprintf(why, bytes, "the fractions of %s add up to %.6g, not to 1", names[what], sum);
    return -EINVAL;
}

int zero__placement_parse(const char *text, struct zero__placement *placement, char *why,
                          size_t bytes)
{
    struct zero__placement parsed = {.n = 0};

    if (!strcmp(text, "auto")) {
        int err = zero__placement_parse("parameters:device+cpu+nvme,gradients:device+cpu+nvme,"
                                        "optimizer:device+cpu+nvme,activations:device+cpu+nvme",
                                        placement, why, bytes);
        placement->is_auto = !err;
        return err;
    }
    if (text[strcspn(text, " \t")]) {
        snprintf(why, bytes, "there is a space in \"%.100s\": write it without", text);
        return -EINVAL;
    }
    while (*text) {
        size_t len = strcspn(text, ",");
        int err = entry_parse(text, len, &parsed, why, bytes);
        if (err)
            return err;
        text += len;
        if (*text == ',')
            text++;
    }
    *placement = parsed;
    return 0;
}
