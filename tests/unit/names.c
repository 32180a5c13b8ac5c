/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of names, and registration, which asks it: names whose hashes are alike, growth,
 * duplicates, long names, and ids that would not fit. Work is counted in slots that the table looks
 * at.
 */
#include "../tap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/names.h"
#include "base/status.h"
#include "model/model.h"

enum { NAMES = 300000, PARAMS = 20000, LONG = 200 };
/* Slots that a search may look at on average, in a table that is at most half full. */
enum { PROBES = 4 };

static char names[NAMES][16];

static int by_value(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Pairs of names that the table can tell apart by their bytes alone. */
static uint32_t alike(void)
{
    uint32_t *hashes = calloc(NAMES, sizeof *hashes), n = 0;

    if (!hashes)
        bail("no memory");
    for (uint32_t i = 0; i < NAMES; i++)
        hashes[i] = (uint32_t)XXH3_64bits(names[i], strlen(names[i]));
    qsort(hashes, NAMES, sizeof *hashes, by_value);
    for (uint32_t i = 1; i < NAMES; i++)
        n += hashes[i] == hashes[i - 1];
    free(hashes);
    return n;
}

static void table_try(void)
{
    struct zero__names t = {0};
    uint32_t wrong = 0, early = 0;

    is_int(zero__names_find(&t, "layer"), UINT32_MAX, "an empty table has no name");
    for (uint32_t i = 0; i < NAMES; i++)
        snprintf(names[i], sizeof names[i], "layer.%u", i);
    for (uint32_t i = 0; i < NAMES; i++) {
        early += zero__names_find(&t, names[i]) != UINT32_MAX;
        wrong += zero__names_add(&t, names[i], i) != 0;
    }
    is_int(early, 0, "no name is found before it is added");
    is_int(wrong, 0, "%u names are added", NAMES);
    ok(t.n == NAMES && t.capacity >= 2 * NAMES && (t.capacity & (t.capacity - 1)) == 0,
       "the table has %u names in %u slots", t.n, t.capacity);
    ok(t.probes < (uint64_t)PROBES * 3 * NAMES, "that took %" PRIu64 " looks at slots", t.probes);
    for (uint32_t i = 0; i < NAMES; i++)
        wrong += zero__names_find(&t, names[i]) != i;
    is_int(wrong, 0, "each is found with its number");
    ok(alike() > 0, "also %u pairs that have one hash", alike());
    is_int(zero__names_find(&t, "layer."), UINT32_MAX, "a beginning of a name is another name");
    is_int(zero__names_find(&t, "layer.300000"), UINT32_MAX, "and so is one that was not added");
    zero__names_free(&t);
    is_int(t.n + t.capacity, 0, "freed, it is empty");
}

static struct zero_param_desc param(const char *name)
{
    return (struct zero_param_desc){.size = sizeof(struct zero_param_desc),
                                    .name = name,
                                    .dtype = ZERO_F32,
                                    .n_dims = 1,
                                    .dims = {64}};
}

static struct zero_activation_desc activation(const char *name)
{
    return (struct zero_activation_desc){.size = sizeof(struct zero_activation_desc),
                                         .name = name,
                                         .bytes = 64,
                                         .to_pass = ZERO_BACKWARD};
}

static void model_begin(struct zero__model *m)
{
    struct zero_group_desc g = {
        .size = sizeof g, .name = "default", .beta1 = .9f, .beta2 = .99f, .eps = 1e-8f};
    uint32_t id;

    if (zero__model_add_group(m, &g, &id) || zero__model_add_unit(m, "unit", &id))
        bail(zero__error_text());
}

static void many_try(void)
{
    struct zero__model m = {0};
    int err = 0;

    model_begin(&m);
    for (uint32_t i = 0; i < PARAMS && !err; i++) {
        struct zero_param_desc d = param(names[i]);
        uint32_t id;
        err = zero__model_add_param(&m, 0, &d, &id);
    }
    is_int(err, 0, "%u parameters are registered", PARAMS);
    ok(m.param_names.probes < (uint64_t)PROBES * 3 * PARAMS,
       "that took %" PRIu64 " looks at names, not their square", m.param_names.probes);
    zero__model_free(&m);
}

static void said(int err, int want, const char *sentence)
{
    ok(err == want && strcmp(zero__error_text(), sentence) == 0, "%s", sentence);
    if (err != want || strcmp(zero__error_text(), sentence) != 0)
        diag("%d: %s", err, zero__error_text());
}

static void duplicates_try(void)
{
    struct zero_param_desc d = param("weight");
    struct zero_activation_desc a = activation("input");
    struct zero_buffer_desc b = {
        .size = sizeof b, .name = "input", .bytes = 64, .memory_class = ZERO_CLASS_ACTIVATIONS};
    struct zero__model m = {0};
    uint32_t id = 0;

    model_begin(&m);
    said(zero__model_add_unit(&m, "unit", &id), -EEXIST,
         "unit unit is there already: unit names are unique");
    is_int(zero__model_add_unit(&m, "weight", &id), 0, "a unit may be called like a parameter");
    is_int(zero__model_add_param(&m, 0, &d, &id), 0, "a parameter is added");
    said(zero__model_add_param(&m, 1, &d, &id), -EEXIST,
         "parameter weight is there already: names are unique");
    is_int(zero__model_add_activation(&m, &a, &id), 0, "an activation is added");
    said(zero__model_add_activation(&m, &a, &id), -EEXIST,
         "activation input is there already: names are unique");
    is_int(zero__model_add_buffer(&m, &b, &id), 0, "a buffer may be called like an activation");
    is_int(zero__model_add_buffer(&m, &b, &id), 0, "and like another buffer");
    is_int((int)(m.n_units + m.n_params + m.n_buffers), 2 + 1 + 3, "what was refused is not there");
    zero__model_free(&m);
}

static void long_try(void)
{
    char name[LONG + 2], other[LONG + 1];
    struct zero_param_desc d = param(name), e = param(other);
    struct zero__model m = {0};
    uint32_t id;

    model_begin(&m);
    memset(name, 'x', LONG);
    name[LONG] = 0;
    memcpy(other, name, LONG);
    other[LONG] = 0;
    other[LONG - 1] = 'y';
    is_int(zero__model_add_param(&m, 0, &d, &id), 0, "a name of %d bytes", LONG);
    is_int(zero__model_add_param(&m, 0, &e, &id), 0, "another one that differs in its last byte");
    is_int(zero__model_add_param(&m, 0, &e, &id), -EEXIST, "twice it is refused");
    name[LONG] = 'x';
    name[LONG + 1] = 0;
    said(zero__model_add_param(&m, 0, &d, &id), -EINVAL,
         "the name of parameter xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx… is longer than 200 "
         "bytes");
    zero__model_free(&m);
}

/* A model that says to have so many of a kind is asked for one more, and touches none of them. */
static void ids_try(void)
{
    struct zero_param_desc d = param("weight");
    struct zero_activation_desc a = activation("input");
    struct zero_group_desc g = {
        .size = sizeof g, .name = "decay", .beta1 = .9f, .beta2 = .99f, .eps = 1e-8f};
    struct zero__model m = {
        .n_units = INT32_MAX, .n_params = INT32_MAX, .n_groups = INT32_MAX, .n_buffers = INT32_MAX};
    uint32_t id;

    said(zero__model_add_unit(&m, "unit", &id), -EOVERFLOW,
         "unit unit: the model has 2147483647 of them, and no more are possible: register fewer "
         "and larger ones");
    said(zero__model_add_param(&m, 0, &d, &id), -EOVERFLOW,
         "parameter weight: the model has 2147483647 of them, and no more are possible: register "
         "fewer and larger ones");
    said(zero__model_add_group(&m, &g, &id), -EOVERFLOW,
         "group decay: the model has 2147483647 of them, and no more are possible: register fewer "
         "and larger ones");
    said(zero__model_add_activation(&m, &a, &id), -EOVERFLOW,
         "buffer input: the model has 2147483647 of them, and no more are possible: register fewer "
         "and larger ones");
    ok(!m.units && !m.params && !m.groups && !m.buffers, "and nothing was allocated");
}

int main(void)
{
    table_try();
    many_try();
    duplicates_try();
    long_try();
    ids_try();
    done();
}
