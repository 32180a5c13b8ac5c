/* SPDX-License-Identifier: Apache-2.0 */
/* A runner's beginning and end. */
#include "run/runner.h"

#include <errno.h>
#include <stdlib.h>

#include "base/status.h"
#include "machine/thread.h"

static const struct zero__lane_kind *const kinds[ZERO__N_QUEUES] = {
    [ZERO__Q_COMPUTE] = &zero__kind_application, [ZERO__Q_GATHER] = &zero__kind_transport,
    [ZERO__Q_REDUCE] = &zero__kind_transport,    [ZERO__Q_CPU] = &zero__kind_kernels,
    [ZERO__Q_FETCH] = &zero__kind_store,         [ZERO__Q_WRITEBACK] = &zero__kind_store,
    [ZERO__Q_LOAD] = &zero__kind_copies,         [ZERO__Q_STORE] = &zero__kind_copies,
    [ZERO__Q_UPDATE] = &zero__kind_kernels,      [ZERO__Q_HOST] = &zero__kind_kernels,
    [ZERO__Q_RETURN] = &zero__kind_copies,
};

int zero__runner_create(const struct zero__site *site, struct zero__runner **out)
{
    struct zero__runner *run = calloc(1, sizeof *run);

    if (run)
        run->inside = calloc(1, sizeof *run->inside);
    if (!run || !run->inside) {
        free(run);
        return zero__fail(-ENOMEM, "no memory for a runtime");
    }
    run->site = site;
    run->order = &zero__by_host;
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        run->lanes[q].kind = kinds[q];
    run->servers[ZERO__PROGRESS] =
        (struct zero__server){.run = run, .kind = &zero__progress_kind, .id = ZERO__PROGRESS};
    run->servers[ZERO__STORAGE] =
        (struct zero__server){.run = run, .kind = &zero__storage_kind, .id = ZERO__STORAGE};
    pthread_mutex_init(&run->lock, NULL);
    zero__cond_init(&run->moved);
    *out = run;
    return 0;
}

int zero__runner_equip(struct zero__runner *run)
{
    uint32_t segments = run->site->model.n_segments + 1;

    run->scratch = malloc(run->site->states.staging_bytes);
    run->zero_count = calloc(segments, sizeof *run->zero_count);
    return run->scratch && run->zero_count
               ? 0
               : zero__fail(-ENOMEM, "no memory for a model of %u segments", segments - 1);
}

int zero__runner_fit(struct zero__runner *run)
{
    int err = zero__lanes_size(run);

    if (!err)
        err = zero__times_size(run);
    if (!err && !run->flight.ring)
        err = zero__flight_create(run);
    if (!err && !run->history)
        err = zero__history_create(run);
    return err;
}

void zero__runner_end(struct zero__runner *run)
{
    pthread_cond_destroy(&run->moved);
    pthread_mutex_destroy(&run->lock);
}

void zero__runner_free(struct zero__runner *run)
{
    zero__callback_free(run);
    zero__flight_free(run);
    zero__history_free(run);
    zero__times_free(run);
    free(run->sums);
    free(run->scratch);
    free(run->zero_count);
    free(run);
}

struct zero__inside *zero__runner_inside(struct zero__runner *run)
{
    return run->inside;
}

int zero__runner_is_left(const struct zero__runner *run)
{
    return run->left;
}
