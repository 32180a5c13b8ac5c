/* SPDX-License-Identifier: Apache-2.0 */
/* For tests that run cases of `zero check comm`: a rank of a case on a plugin that is loaded. */
#ifndef ZERO_TESTS_CASES_H
#define ZERO_TESTS_CASES_H

#include "tools/check/cases/rank.h"
#undef want /* ranks.h has another */

#include "comm.h"

static struct check_rank case_rank(const struct rank *r, struct comm_rank *c, const char *plugin,
                                   uint64_t seed)
{
    return (struct check_rank){.ops = c->ops,
                               .host = zero__loader_host(c->loader),
                               .oob = &c->oob,
                               .caps = {.size = sizeof(struct zero_comm_caps)},
                               .plugin = plugin,
                               .rank = r->rank,
                               .ranks = r->ranks,
                               .seed = seed};
}

__attribute__((unused)) static bool case_probe(struct rank *r, struct check_rank *k)
{
    return want(r, !k->ops->probe(k->host, &k->caps), "probe: %s", zero_last_error());
}

/* What the case complains about becomes what the rank complains about. */
__attribute__((unused)) static void case_complain(struct rank *r, const struct check_rank *k)
{
    for (int i = 0; i < k->n_bad && i < CHECK_TEXTS; i++)
        want(r, false, "%s", k->text[i]);
}

#endif
