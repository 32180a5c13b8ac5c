/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who goes with whom where sums may be added in another order. The ranks of a communicator form a
 * grid, hosts x locals. What a rank owns goes round the hosts, from each rank to the one with the
 * same place on the next host; the ranks of a host exchange directly. So a host sends as much as
 * one rank would, not as much as all of its ranks. With one local the grid is a plain ring, with
 * one host it would be direct exchange, so there is none.
 */
#include <errno.h>
#include <stdlib.h>

#include "../param.h"
#include "internal.h"

int zero__p2p_numerics(const struct zero__voice *v, bool *relaxed, int32_t *group)
{
    uint64_t n;
    int word, err;

    err = zero__param_word(v, "numerics", "ordered", "ordered|relaxed",
                           "ordered: sums in the order of the ranks; relaxed: in any order",
                           &word);
    if (!err)
        err = zero__param_number(v, "relaxed_group", "0", 0, ZERO__P2P_MAX_RANKS,
                                 "ranks that exchange directly when sums are relaxed; 0: those of "
                                 "a host, 1: none, a plain ring",
                                 &n);
    if (err)
        return err;
    *relaxed = word == 1;
    *group = (int32_t)n;
    return 0;
}

static int32_t host_of(const struct zero_comm *comm, int32_t p)
{
    return comm->ctx->hosts[comm->world[p]];
}

/* The ranks of each host, hosts in the order of their first ranks; *even: all have as many. */
static int32_t by_host(const struct zero_comm *comm, int32_t *grid, bool *even)
{
    int32_t n = 0, n_hosts = 0, first = 0;

    *even = true;
    for (int32_t p = 0; p < comm->ranks; p++) {
        bool seen = false;
        for (int32_t q = 0; q < p && !seen; q++)
            seen = host_of(comm, q) == host_of(comm, p);
        if (seen)
            continue;
        int32_t begin = n;
        for (int32_t q = p; q < comm->ranks; q++)
            if (host_of(comm, q) == host_of(comm, p))
                grid[n++] = q;
        first = n_hosts++ ? first : n;
        *even &= n - begin == first;
    }
    return n_hosts;
}

int zero__p2p_way_make(struct zero_comm *comm)
{
    int32_t group = comm->ctx->group, *grid, n_hosts;
    struct p2p_way *way = &comm->way;
    bool even;

    grid = calloc((size_t)comm->ranks, sizeof *grid);
    if (!grid)
        return zero__say(&comm->ctx->voice, -ENOMEM, "no memory for %d ranks", comm->ranks);
    n_hosts = by_host(comm, grid, &even);
    if (group > 0) {
        for (int32_t p = 0; p < comm->ranks; p++)
            grid[p] = p;
        even = comm->ranks % group == 0;
        n_hosts = even ? comm->ranks / group : comm->ranks;
    }
    if (n_hosts < 2) { /* all exchange directly */
        free(grid);
        return 0;
    }
    *way = (struct p2p_way){.hosts = even ? n_hosts : comm->ranks, .grid = grid};
    way->locals = comm->ranks / way->hosts;
    for (int32_t i = 0; i < comm->ranks; i++)
        if (grid[i] == comm->rank) {
            way->host = i / way->locals;
            way->local = i % way->locals;
        }
    return 0;
}
