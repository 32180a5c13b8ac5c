/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a step out of order finds room in the host's memory: around the activations that lie there,
 * wherever the plan has put them; and what of the device's it gives back.
 */
#include "run/runner.h"
#include "step/state.h"

#include "../tap.h"

#include <errno.h>

#include "base/status.h"

#define PAGE ((uint64_t)ZERO_BUFFER_ALIGN)
enum { ROOM = 8, KEPT = 2, MOST = 3 }; /* ROOM: pages */

static struct zero__buffer planned[KEPT];
static struct zero__activation kept[KEPT];
static uint32_t away[KEPT];
static const struct zero__body body = {.buffers = planned, .n_buffers = KEPT, .away = away};
static struct zero__site site;
static struct zero__runner run;
static struct zero__step step = {.site = &site, .run = &run};

/* Activation i lies at those pages, and was saved or not. */
static void keep(int i, uint64_t first, uint64_t pages, int saved)
{
    planned[i] = (struct zero__buffer){.memory_class = ZERO_CLASS_ACTIVATIONS,
                                       .transient = 1,
                                       .tier = ZERO__T_CPU,
                                       .offset = first * PAGE,
                                       .bytes = pages * PAGE};
    away[i] = (uint32_t)i;
    kept[i].bytes = saved ? pages * PAGE - 1 : 0;
}

/* Buffers of so many pages, all at once: where they come to lie, in pages. */
static int place(uint32_t n, const uint64_t *pages, uint64_t *at)
{
    struct zero__buffer buffers[MOST];
    struct zero__body b = {.buffers = buffers, .n_buffers = n};

    for (uint32_t i = 0; i < n; i++)
        buffers[i] = (struct zero__buffer){.memory_class = ZERO_CLASS_OTHER,
                                           .transient = 1,
                                           .tier = ZERO__T_CPU,
                                           .bytes = pages[i] * PAGE};
    int err = zero__pool_place(&step, &b, NULL);
    for (uint32_t i = 0; i < n && !err; i++)
        at[i] = buffers[i].offset / PAGE;
    return err;
}

static void lies(uint64_t pages, uint64_t where, const char *what)
{
    uint64_t at = 0;
    int err = place(1, &pages, &at);

    ok(!err && at == where, "%s: %s", what, err ? zero__error_text() : "there is room");
}

static void lacks(uint64_t pages, const char *what)
{
    uint64_t at;

    is_int(place(1, &pages, &at), -ENOMEM, "%s", what);
    has_str(zero__error_text(), "zero_set_order()", "which says what would help");
}

/* What has no bytes may begin where something else does. */
static void empty_keeps_nothing(void)
{
    int err = zero__pool_keep(&step, PAGE, 0);

    if (!err)
        err = zero__pool_keep(&step, PAGE, PAGE);
    ok(!err && !zero__pool_is_free(&step, PAGE, PAGE), "a page is taken, behind nothing");
    zero__pool_drop(&step, PAGE);
    ok(zero__pool_is_free(&step, PAGE, PAGE), "and is free again");
    zero__pool_free(&step);
}

int main(void)
{
    uint64_t at[MOST];

    step.now.body = &body;
    step.activations = kept;
    site.model.n_buffers = KEPT;
    site.slabs[zero__slab(ZERO__T_CPU, 1)].bytes = ROOM * PAGE;
    step.phase = ZERO__PHASE_MICRO;

    keep(0, 5, 3, 1);
    away[1] = ZERO_NONE;
    lies(5, 0, "below an activation at the top");
    lacks(6, "not where it lies");
    is_int(place(2, (uint64_t[]){2, 3}, at), 0, "two beside each other");
    ok(at[0] == 0 && at[1] == 2, "one behind the other");

    keep(1, 1, 2, 1);
    lies(1, 0, "below both");
    lies(2, 3, "between them");
    lacks(3, "nowhere, in one piece");
    is_int(place(3, (uint64_t[]){2, 1, 1}, at), -ENOMEM, "nor in three: three are free");
    is_int(place(2, (uint64_t[]){2, 1}, at), 0, "each in its gap");
    ok(at[0] == 3 && at[1] == 0, "the lowest that takes it");

    keep(0, 5, 3, 0);
    lies(5, 3, "in the place of one that was not saved");
    planned[1].tier = ZERO__T_DISK;
    lies(ROOM, 0, "a disk's takes nothing here");
    keep(1, 1, 2, 1);
    step.phase = ZERO__PHASE_EVAL;
    lacks(6, "an evaluation keeps what was saved in it");
    step.phase = ZERO__PHASE_IDLE;
    lies(ROOM, 0, "between steps nothing is kept");
    empty_keeps_nothing();
    done();
}
