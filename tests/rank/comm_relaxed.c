/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ZERO_NUMERICS=relaxed: rings and rings of groups, by the cases of `zero check comm`, over
 * messages that come late and in any order, and over the real transports.
 */
#include "cases.h"

static const struct check_case *current;
static const char *plugin, *group, *most = "0";
static uint64_t seed = 1;

static bool ready(struct rank *r, struct check_rank *k, struct comm_rank *c, const char *numerics)
{
    char number[24];
    const struct zero_setting settings[] = {
        {"numerics", numerics}, {"relaxed_group", group}, {"mem_seed", number}, {"mem_most", most}};
    bool mem = strcmp(plugin, "mem") == 0;

    snprintf(number, sizeof number, "%" PRIu64, seed);
    if (!comm_load(r, c, plugin, settings, mem ? 4 : 2))
        return false;
    *k = case_rank(r, c, plugin, seed * 1000);
    return case_probe(r, k);
}

static void run_case(struct rank *r)
{
    struct comm_rank c = {0};
    struct check_rank k;
    const char *why;

    if (ready(r, &k, &c, "relaxed")) {
        want(r, !(k.caps.flags & ZERO_COMM_ORDERED), "it still claims to be ordered");
        if (check_applies(current, &k, &why))
            current->run(&k);
        case_complain(r, &k);
    }
    comm_end(r, &c);
}

static void run(const struct check_case *test, int n, enum ranks_how how)
{
    current = test;
    ranks_good(comm_ranks(n, how, run_case, NULL), n,
               "%s, %s: %d %s, groups of %s, seed %" PRIu64 ", messages of %s bytes", plugin,
               test->name, n, ranks_how_name[how], group, seed,
               strcmp(most, "0") == 0 ? "all" : most);
}

/* Those about data have no least number of ranks; the others care little for who goes with whom. */
static void run_all(int n, enum ranks_how how, bool only_data)
{
    for (const struct check_case *test = check_comm_cases; test->name; test++)
        if (n >= test->least_ranks && (!only_data || test->least_ranks == 1))
            run(test, n, how);
}

/* Sizes below, around and above one chunk; fewer elements than ranks; every kind. */
static void many_ranks(struct check_rank *r)
{
    static const uint64_t some[] = {1, 130, 3001};
    uint64_t s = r->seed;
    struct check_comm c;

    for (unsigned i = 0; i < 3 && check_open(r, &c, UINT64_C(4) << 20); i++) {
        c.wait_ns = 6 * CHECK_WAIT_NS; /* dozens of ranks on a few busy cores */
        struct zero_coll q = {.kind = ZERO_REDUCE_SCATTER,
                              .src_dtype = ZERO_BF16,
                              .dst_dtype = ZERO_F32,
                              .scale = 0.125f,
                              .count = some[i]};
        check_approximate(&c, c.world, r->rank, r->ranks, q, ++s);
        q.kind = ZERO_ALL_REDUCE;
        check_approximate(&c, c.world, r->rank, r->ranks, q, ++s);
        q.flags = ZERO_COLL_ACCUMULATE;
        check_approximate(&c, c.world, r->rank, r->ranks, q, ++s);
        q.flags = ZERO_COLL_INPLACE;
        q.dst_dtype = ZERO_BF16;
        check_approximate(&c, c.world, r->rank, r->ranks, q, ++s);
        q = (struct zero_coll){.kind = ZERO_ALL_GATHER,
                               .src_dtype = ZERO_U8,
                               .dst_dtype = ZERO_U8,
                               .scale = 1,
                               .count = some[i]};
        check_exact(&c, c.world, r->rank, r->ranks, q, ++s);
        check_close(&c);
    }
}

/* What a ring or a group sends is what direct exchange would, where sums do not grow wider. */
static void counts_bytes(struct check_rank *r)
{
    static const uint32_t kinds[] = {ZERO_ALL_GATHER, ZERO_REDUCE_SCATTER, ZERO_ALL_REDUCE};
    uint64_t n = 64 * 700, others = (uint64_t)r->ranks - 1, before = 0, after = 0;
    struct check_comm c;

    if (check_open(r, &c, UINT64_C(8) << 20))
        for (unsigned i = 0; i < 3; i++, before = after) {
            struct zero_coll q = {.kind = kinds[i],
                                  .src_dtype = ZERO_F32,
                                  .dst_dtype = ZERO_F32,
                                  .scale = 1,
                                  .count = i < 2 ? n : n * (uint64_t)r->ranks};
            check_either(&c, c.world, r->rank, r->ranks, q, i);
            c.ops->wire_bytes(c.world, &after);
            /* Reductions run twice; after an all_reduce comes a small gather of hashes. */
            uint64_t want_bytes = n * 4 * others *
                                      (i == 2   ? 4
                                       : i == 1 ? 2
                                                : 1) +
                                  (i == 2) * 8 * others;
            check_want(r, after - before == want_bytes, __FILE__, __LINE__,
                       "kind %u: %" PRIu64 " bytes, want %" PRIu64, kinds[i], after - before,
                       want_bytes);
        }
    check_close(&c);
}

/* A rank that was told something else is no partner. */
static void disagree(struct rank *r)
{
    struct comm_rank c = {0};
    struct check_rank k;

    if (ready(r, &k, &c, r->rank == 1 ? "ordered" : "relaxed")) {
        want(r, comm_context(&c) == -EPROTO, "open works");
        want(r, strstr(zero_last_error(), "relaxed") && strstr(zero_last_error(), "rank 1"),
             "it says: %s", zero_last_error());
    }
    comm_end(r, &c);
}

static void run_disagree(void)
{
    ranks_good(comm_ranks(3, AS_THREADS, disagree, NULL), 3, "ranks with other settings hear so");
}

/* Processes come first: what a plugin's libraries start in this one must not be forked. */
static void run_real(const char *name, const char *all_plugins)
{
    static const struct {
        int ranks;
        const char *group;
    } ways[] = {{3, "1"}, {4, "2"}};

    setenv("ZERO_PLUGIN_PATH", all_plugins, 1);
    plugin = name;
    const bool ofi = strcmp(name, "ofi") == 0;
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++) {
        group = ways[i].group;
        if (is_whole() || i == ofi)
            run_all(ways[i].ranks, AS_PROCESSES, i == 0 || ofi);
    }
}

static bool is_built(const char *folder, const char *name)
{
    char file[4200];

    snprintf(file, sizeof file, "%s/zero-comm-%s.so", folder, name);
    return access(file, R_OK) == 0;
}

int main(void)
{
    static const struct check_case many = {"many ranks", 1, false, 0, 0, 0, many_ranks},
                                   bytes = {"bytes of the wire", 1, false, 0, 0, 0, counts_bytes};
    static const struct {
        int ranks;
        const char *group;
    } ways[] = {{2, "1"}, {3, "1"}, {4, "2"}, {5, "2"}, {6, "3"}, {6, "2"}},
      crowds[] = {{16, "4"}, {33, "1"}, {33, "11"}, {64, "8"}};
    const bool brief = is_short();
    char folder[4000];

    snprintf(folder, sizeof folder, "%s",
             getenv("ZERO_PLUGIN_PATH") ? getenv("ZERO_PLUGIN_PATH") : ".libs");
    for (unsigned i = 0; i < 2 && !brief; i++)
        if (is_built(folder, i ? "ofi" : "ucx"))
            run_real(i ? "ofi" : "ucx", folder);
    comm_test_plugins();
    plugin = "mem";
    for (unsigned k = 0; k < 2; k++) {
        for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++, seed++) {
            group = ways[i].group;
            most = k ? "4999" : "0";
            /* The parity of the seed says whether receives are late: some of either. */
            if (i == 2 || (k == 0 && (is_whole() || (!brief && i % 3 == 0))))
                run_all(ways[i].ranks, AS_THREADS, k == 1 || (i != 1 && i != 2));
            run(&bytes, ways[i].ranks, AS_THREADS);
        }
        for (unsigned i = 0; i < (k ? 1 : sizeof crowds / sizeof *crowds) && !brief; i++, seed++) {
            if (i % 2 && !is_whole())
                continue;
            group = crowds[i].group;
            most = k ? "1021" : "0";
            run(&many, crowds[i].ranks, AS_THREADS);
        }
    }
    most = "0";
    group = "0";
    run_disagree();
    done();
}
