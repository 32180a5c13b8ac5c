/* SPDX-License-Identifier: Apache-2.0 */
#include "place/placer.h"

#include <errno.h>
#include <stdlib.h>

#include "base/status.h"

int zero__placer_create(struct zero__site *site, struct zero__runner *run,
                        struct zero__placer **out)
{
    struct zero__placer *placer = calloc(1, sizeof *placer);

    if (!placer)
        return zero__fail(-ENOMEM, "no memory for a runtime");
    placer->site = site;
    placer->run = run;
    *out = placer;
    return 0;
}

void zero__placer_free(struct zero__placer *placer)
{
    free(placer);
}

const char *zero__placement(const struct zero__placer *placer)
{
    return placer->placement;
}
