/* SPDX-License-Identifier: Apache-2.0 */
/* A list of what:tier, each thing once; a tier may be several, with their fractions or without. */
#include "base/placement.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/option_value.h"

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

/* "nvme" or "nvme:0.4"; parts are 0 where no fraction is named. */
static int piece_parse(const char *text, size_t len, uint32_t what, struct zero__placement *p,
                       char *why, size_t bytes)
{
    const char *colon = memchr(text, ':', len);
    size_t name = colon ? (size_t)(colon - text) : len;
    struct zero__place *place = &p->places[p->n];
    double fraction = 0;
    char number[32];

    if (p->n == ZERO__MOST_PLACES) {
        snprintf(why, bytes, "more than %u places are named", ZERO__MOST_PLACES);
        return -EINVAL;
    }
    if (name == 0 || name >= sizeof place->tier) {
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
        if (n > 31 || zero__real_parse(number, &fraction) || !(fraction > 0 && fraction <= 1)) {
            snprintf(why, bytes, "\"%s\" of %s is no fraction above 0 and up to 1", number,
                     names[what]);
            return -EINVAL;
        }
    }
    place->what = what;
    place->parts = (uint32_t)(fraction * ZERO__PLACE_PARTS + 0.5);
    snprintf(place->tier, sizeof place->tier, "%.*s", (int)name, text);
    p->n++;
    return 0;
}

static int entry_parse(const char *text, size_t len, struct zero__placement *p, char *why,
                       size_t bytes)
{
    const char *end = text + len, *colon = memchr(text, ':', len);
    int what = what_of(text, colon ? (size_t)(colon - text) : len);
    uint32_t before = p->n, parts = 0, n_bare = 0;

    if (what < 0 || !colon) {
        snprintf(why, bytes,
                 "\"%.*s\" is not one of parameters, gradients, optimizer and "
                 "activations, a colon and a tier",
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
        int err = piece_parse(text, (size_t)(stop - text), (uint32_t)what, p, why, bytes);
        if (err)
            return err;
        parts += p->places[p->n - 1].parts;
        n_bare += p->places[p->n - 1].parts == 0;
        text = stop;
        if (!plus)
            break;
    }
    if (n_bare == 1 && p->n == before + 1) {
        p->places[before].parts = parts = ZERO__PLACE_PARTS;
        n_bare = 0;
    }
    if (n_bare == (parts == ZERO__PLACE_PARTS ? 0 : p->n - before))
        return 0;
    if (n_bare) {
        snprintf(why, bytes,
                 "some tiers of %s have a fraction and some have none: give one to each, or to "
                 "none, for as much as there is room for",
                 names[what]);
        return -EINVAL;
    }
    snprintf(why, bytes, "the fractions of %s add up to %u.%03u, not to 1", names[what],
             parts / ZERO__PLACE_PARTS, parts % ZERO__PLACE_PARTS);
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
