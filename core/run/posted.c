/* SPDX-License-Identifier: Apache-2.0 */
/* Records of collectives as they are posted: for reports, and to compare with other ranks. */
#include "run/runner.h"

void zero__posted(struct zero__runner *run, uint32_t queue, const struct zero_coll *c)
{
    const struct zero__flight_coll coll = zero__flight_coll(queue, c);

    run->flight.colls[run->flight.n_colls++ % ZERO__FLIGHT_KEPT] = coll;
    zero__history_note(run, &coll);
}
