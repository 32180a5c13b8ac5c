/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank says of itself once, when the context opens. */
#ifndef ZERO_PLUGINS_P2P_PLACE_H
#define ZERO_PLUGINS_P2P_PLACE_H

#include "internal.h"
#include "machine/host.h"

struct p2p_place {
    struct zero__host machine;
    struct zero__cores cores;
    uint64_t max_message;
    uint32_t relaxed, group; /* as its options say */
};

/*
 * All-gathers them, with room for those of all ranks, and refuses what does not go together: then
 * the context knows which ranks share a machine and its cores, and the longest message.
 */
int zero__p2p_places(struct zero_comm_ctx *ctx, struct p2p_place *all);

#endif
