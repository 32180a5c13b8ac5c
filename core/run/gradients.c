/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients to which no use contributed become zero before an update, in whatever tier they lie. */
#include <string.h>

#include "base/checked.h"
#include "run/runner.h"

static int zeros_write(struct zero__runner *run, const struct zero__gradient *g)
{
    uint64_t piece = run->site->states.staging_bytes;
    int err = 0;

    memset(run->scratch, 0, piece);
    for (uint64_t off = g->used_off, end = off + g->used_bytes; off < end && !err; off += piece)
        err = zero__storage_write(run, g->home, off, zero__least(end - off, piece), run->scratch);
    return err;
}

/* Zeroes a gradient outside the device as far as the update reads it, and its sums of squares. */
static int elsewhere_zero(struct zero__runner *run, uint32_t segment,
                          const struct zero__gradient *g)
{
    uint64_t blocks = zero__sumsq_blocks(&run->site->model.segments[segment]);
    uint64_t off = run->site->states.homes[segment].partials * sizeof(double);
    int err = zero__zeros_launch(run, segment,
                                 zero__home_address(run->site, run->site->states.partials, off),
                                 blocks * sizeof(double) / sizeof(float));

    if (!err) /* its count is the next one's, and other queues may load what is zeroed now */
        err = run->site->dev_ops.stream_sync(run->site->dev, run->lanes[ZERO__Q_CPU].stream,
                                             run->site->timeout_ns);
    if (err)
        return err;
    if (g->tier == ZERO__T_DISK)
        return zeros_write(run, g);
    memset(zero__home_address(run->site, g->home, g->used_off), 0, g->used_bytes);
    return 0;
}

int zero__gradients_zero(struct zero__runner *run, uint32_t unit)
{
    FOR_TRAINABLE (&run->site->model, unit, i) {
        struct zero__gradient g =
            zero__gradient_of(&run->site->model, &run->site->recipe, &run->site->states, i);
        int err = g.tier == ZERO__T_DEVICE
                      ? zero__zeros_launch(run, i, zero__home_address(run->site, g.home, 0),
                                           run->site->states.buffers[g.home].bytes / sizeof(float))
                      : elsewhere_zero(run, i, &g);
        if (err)
            return err;
    }
    return 0;
}
