/* SPDX-License-Identifier: Apache-2.0 */
/* What every rank says, for all: by the job's channel, since the transport may not be there yet. */
#include <errno.h>
#include <stdlib.h>

#include "base/status.h"
#include "engine/runtime.h"

void *zero__ranks_ask(struct zero_runtime *rt, const void *mine, uint32_t bytes, int *err)
{
    void *all = calloc((size_t)rt->ranks, bytes);

    *err = all ? zero__job_allgather(rt->job, mine, bytes, all)
               : zero__fail(-ENOMEM, "no memory for what %d ranks say", rt->ranks);
    if (!*err)
        return all;
    free(all);
    return NULL;
}
