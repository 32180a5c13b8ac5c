/* SPDX-License-Identifier: Apache-2.0 */
/* Whom a collective waits for, as a plugin says that does not keep to comm.h. */
#include "site/site.h"

#include "../tap.h"

#define MOST 4
#define OWN 77 /* what lies behind */

static struct zero__site site = {.ranks = 3};
static int returned;
static int32_t told[MOST];

static int liar(struct zero_comm *comm, int32_t *ranks, uint32_t max)
{
    (void)comm;
    for (uint32_t i = 0; i < max; i++)
        ranks[i] = told[i];
    return returned;
}

static int ask(int n, int32_t *whom)
{
    returned = n;
    for (int i = 0; i < MOST + 1; i++)
        whom[i] = OWN;
    return zero__ranks_missing(&site, NULL, whom, MOST);
}

int main(void)
{
    int32_t whom[MOST + 1];

    is_int(ask(1, whom), 0, "a plugin that does not know");
    site.comm_ops.missing = liar;
    told[0] = 2, told[1] = 3, told[2] = -1, told[3] = 1;
    is_int(ask(-5, whom), 0, "a number below zero");
    is_int(ask(MOST, whom), 2, "no ranks among them are left out");
    ok(whom[0] == 2 && whom[1] == 1, "the others stay");
    is_int(ask(1000, whom), 2, "more than there is room for");
    is_int(whom[MOST], OWN, "what lies behind is untouched");
    done();
}
