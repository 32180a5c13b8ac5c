/* SPDX-License-Identifier: Apache-2.0 */
/* Who goes with whom under ZERO_NUMERICS=relaxed, and what the buffers for it take. */
#include "plugins/common/p2p/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"

#define MOST 4096

static int keep_error(void *ctx, const char *plugin, int err, const char *fmt, ...)
{
    (void)ctx, (void)plugin, (void)fmt;
    return err;
}

static const char *numerics, *group_text;

static const char *give_param(void *ctx, const char *plugin, const char *key, const char *dflt,
                              const char *help)
{
    (void)ctx, (void)plugin, (void)help;
    return strcmp(key, "numerics") == 0        ? numerics
           : strcmp(key, "relaxed_group") == 0 ? group_text
                                               : dflt;
}

static const struct zero_host host = {.size = sizeof host, .fail = keep_error, .param = give_param};
static const struct zero__voice voice = {&host, "test"};
static struct zero_comm_ctx ctx = {.voice = {&host, "test"}, .relaxed = true};
static struct zero_comm comm = {.ctx = &ctx};

/* The way of a rank; hosts[p]: a number that rank p and the others of its host have. */
static const struct p2p_way *way(int32_t rank, int32_t ranks, int32_t group, int32_t *hosts)
{
    static int32_t world[MOST];

    for (int32_t p = 0; p < ranks; p++)
        world[p] = p;
    comm.world = world;
    free(comm.way.grid);
    comm.way = (struct p2p_way){0};
    comm.rank = rank;
    comm.ranks = ranks;
    comm.piece = UINT64_MAX;
    ctx.group = group;
    ctx.hosts = hosts;
    if (zero__p2p_way_make(&comm))
        bail("no memory");
    return &comm.way;
}

static bool grid_is(const struct p2p_way *w, const int32_t *wanted)
{
    for (int32_t i = 0; i < comm.ranks; i++)
        if (w->grid[i] != wanted[i])
            return false;
    return true;
}

static void test_grids(void)
{
    static int32_t one[4] = {7, 7, 7, 7}, mixed[6] = {9, 4, 9, 4, 9, 4},
                   uneven[5] = {9, 4, 9, 4, 9}, apart[3] = {3, 2, 1};
    const struct p2p_way *w = way(1, 4, 0, one);

    ok(w->hosts == 0 && !w->grid, "ranks of one host exchange directly");
    w = way(3, 6, 0, mixed);
    ok(w->hosts == 2 && w->locals == 3, "two hosts of three ranks each");
    ok(grid_is(w, (int32_t[]){0, 2, 4, 1, 3, 5}), "whose ranks lie anyhow");
    ok(w->host == 1 && w->local == 1, "a rank knows its place");
    w = way(3, 5, 0, uneven);
    ok(w->hosts == 5 && w->locals == 1, "hosts of unequal size are a ring");
    ok(grid_is(w, (int32_t[]){0, 2, 4, 1, 3}), "which leaves each host once");
    ok(w->host == 4 && w->local == 0, "a rank knows its place there");
    w = way(0, 3, 0, apart);
    ok(w->hosts == 3 && w->locals == 1, "a rank on each host: a ring");
    w = way(2, 4, 2, one);
    ok(w->hosts == 2 && w->locals == 2 && w->host == 1 && w->local == 0, "groups by number");
    w = way(2, 5, 2, (int32_t[]){1, 1, 1, 1, 1});
    ok(w->hosts == 5, "groups that do not divide the ranks are a ring");
    w = way(0, 4, 4, one);
    ok(w->hosts == 0, "one group of all exchanges directly");
    w = way(0, 1, 1, one);
    ok(w->hosts == 0, "a rank alone, too");
}

/* Bounded whatever the number of ranks and the message: 4 MiB, or the least that pieces take. */
static void test_buffers(void)
{
    static int32_t hosts[MOST];
    unsigned bad = 0;

    for (int32_t ranks = 2; ranks <= MOST; ranks *= 2)
        for (int32_t group = 1; group < ranks; group *= 2) {
            uint64_t bytes, n, least = 4096 * (uint64_t)P2P_WINDOW * (uint64_t)group;
            way(0, ranks, group, hosts);
            n = zero__p2p_step_buffers(&comm);
            bytes = zero__p2p_chunk_bytes(&comm, n);
            bad += bytes == 0 || n * bytes > (least > P2P_BUFFER ? least : P2P_BUFFER);
        }
    is_int(bad, 0, "buffers are bounded");
}

static void test_options(void)
{
    static const struct {
        const char *numerics, *group;
        int err;
    } words[] = {{"ordered", "0", 0},        {"relaxed", "8", 0},      {"fast", "0", -EINVAL},
                 {"relaxed", "-1", -EINVAL}, {"relaxed", "", -EINVAL}, {"relaxed", "4097", -EINVAL},
                 {"relaxed", "2x", -EINVAL}};
    int32_t group;
    bool relaxed;

    for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
        numerics = words[i].numerics;
        group_text = words[i].group;
        is_int(zero__p2p_numerics(&voice, &relaxed, &group), words[i].err, "%s, groups of \"%s\"",
               numerics, group_text);
    }
}

int main(void)
{
    test_grids();
    test_buffers();
    test_options();
    free(comm.way.grid);
    done();
}
