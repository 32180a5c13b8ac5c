/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to all ranks by the control channel, which works before there is a transport. */
#include <errno.h>
#include <stdlib.h>

#include "base/status.h"
#include "site/site.h"

void *zero__ranks_ask(const struct zero__site *site, const void *mine, uint32_t bytes, int *err)
{
    void *all = calloc((size_t)site->ranks, bytes);

    *err = all ? zero__job_allgather(site->job, mine, bytes, all)
               : zero__fail(-ENOMEM, "no memory for what %d ranks say", site->ranks);
    if (!*err)
        return all;
    free(all);
    return NULL;
}

int zero__ranks_missing(const struct zero__site *site, struct zero_comm *comm, int32_t *whom,
                        uint32_t max)
{
    int n = site->comm_ops.missing ? site->comm_ops.missing(comm, whom, max) : 0, good = 0;

    for (int i = 0; i < n && i < (int)max; i++)
        if (whom[i] >= 0 && whom[i] < site->ranks)
            whom[good++] = whom[i];
    return good;
}
