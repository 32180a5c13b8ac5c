/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cases of `zero check comm` for the plugin COMM_PLUGIN, ranks as processes and as threads, and
 * for the collectives over messages also with many more ranks than the machine has cores. Compiled
 * once per plugin.
 */
#include "cases.h"

static const struct check_case *current;
static const char *plugin = COMM_PLUGIN;
static bool has_defect; /* then the case must fail */
static uint64_t seed = 1;
static const char *most = "0"; /* bytes of a message in mem, 0: any number */

static void run_case(struct rank *r)
{
    char number[24];
    const struct zero_setting settings[] = {{"mem_seed", number}, {"mem_most", most}};
    struct comm_rank c = {0};
    struct check_rank k;
    const char *why;

    snprintf(number, sizeof number, "%" PRIu64, seed);
    if (comm_load(r, &c, plugin, settings, strcmp(plugin, "mem") == 0 ? 2 : 0)) {
        k = case_rank(r, &c, plugin, seed * 1000);
        if (case_probe(r, &k) && check_applies(current, &k, &why))
            current->run(&k);
        if (has_defect)
            want(r, k.n_bad && strstr(k.text[0], "is not refused"), "%d complaints: %s", k.n_bad,
                 k.text[0]);
        else
            case_complain(r, &k);
    }
    comm_end(r, &c);
}

static void run(const struct check_case *test, int n, enum ranks_how how)
{
    current = test;
    ranks_good(comm_ranks(n, how, run_case, NULL), n,
               "%s, %s: %d %s, seed %" PRIu64 ", messages of %s bytes", COMM_PLUGIN, test->name, n,
               ranks_how_name[how], seed, strcmp(most, "0") == 0 ? "all" : most);
}

static void run_all(int n, enum ranks_how how)
{
    if (how == AS_PROCESSES && !RANKS_PROCESSES)
        return;
    for (const struct check_case *test = check_comm_cases; test->name; test++)
        if (n >= test->least_ranks)
            run(test, n, how);
}

/* A few sizes, for as many ranks as a machine has threads to spare. */
static void many_ranks(struct check_rank *r)
{
    static const uint64_t some[] = {1, 130, 3000};
    uint64_t s = r->seed;
    struct check_comm c;

    for (unsigned i = 0; i < 3 && check_open(r, &c, UINT64_C(4) << 20); i++) {
        c.wait_ns = 6 * CHECK_WAIT_NS; /* dozens of ranks on a few busy cores */
        struct zero_coll q = {.kind = ZERO_REDUCE_SCATTER,
                              .src_dtype = ZERO_BF16,
                              .dst_dtype = ZERO_F32,
                              .scale = 0.125f,
                              .count = some[i]};
        check_exact(&c, c.world, r->rank, r->ranks, q, ++s);
        q.kind = ZERO_ALL_REDUCE;
        check_exact(&c, c.world, r->rank, r->ranks, q, ++s);
        q.flags = ZERO_COLL_ACCUMULATE;
        check_exact(&c, c.world, r->rank, r->ranks, q, ++s);
        q = (struct zero_coll){.kind = ZERO_ALL_GATHER,
                               .src_dtype = ZERO_U8,
                               .dst_dtype = ZERO_U8,
                               .scale = 1,
                               .count = some[i]};
        check_exact(&c, c.world, r->rank, r->ranks, q, ++s);
        check_close(&c);
    }
}

/* What training needs is enough to be tried in all that is not about something else. */
static void what_applies(void)
{
    static const char *const others[] = {"sums in any order", "2 GiB", "is mapped", "in streams"};
    struct check_rank k = {.caps = {.size = sizeof k.caps}, .ranks = 3};
    int left_out = 0;
    const char *why;

    k.caps.kinds = 1u << ZERO_ALL_GATHER | 1u << ZERO_REDUCE_SCATTER | 1u << ZERO_BROADCAST |
                   1u << ZERO_BARRIER;
    k.caps.flags = ZERO_COMM_ORDERED | ZERO_COMM_FINGERPRINT;
    k.caps.max_inflight = 2;
    for (const struct check_case *test = check_comm_cases; test->name; test++) {
        bool other = false;
        for (unsigned i = 0; i < sizeof others / sizeof *others; i++)
            other |= strstr(test->name, others[i]) != NULL;
        if (check_applies(test, &k, &why) != !other) {
            diag("%s: %s", test->name, why ? why : "it applies");
            left_out++;
        }
    }
    is_int(left_out, 0, "without all_reduce no other case is left out");
}

static const int threads[] = {2, 3, 8};

/*
 * The parity of the seed says whether receives are late: that of 3 ranks is the other one here.
 * Messages come whole and in pieces, both with either parity.
 */
static void in_memory(void)
{
    static const struct check_case many = {"many ranks", 1, false, 0, 0, 0, many_ranks};
    static const int crowds[] = {16, 33, 64};

    for (unsigned i = 0; i < sizeof threads / sizeof *threads; i++, seed++)
        if (is_whole() || threads[i] == 3)
            run_all(threads[i], AS_THREADS);
    for (unsigned i = 0; i < 3; i++, seed++)
        if (is_whole() || i == 1)
            run(&many, crowds[i], AS_THREADS);
    for (int k = 0; k < 2; k++, seed++) {
        most = "4999";
        run_all(threads[k], AS_THREADS);
        most = k ? "2039" : "999";
        run(&many, crowds[k], AS_THREADS);
    }
}

/* Processes come first: what a plugin's libraries start in this one must not be forked. */
int main(void)
{
    const bool mem = strcmp(COMM_PLUGIN, "mem") == 0, ofi = strcmp(COMM_PLUGIN, "ofi") == 0;
    const bool wraps = strcmp(COMM_PLUGIN, "trace") == 0 || strcmp(COMM_PLUGIN, "fault") == 0;
    const bool less = strcmp(COMM_PLUGIN, "movers") == 0 || strcmp(COMM_PLUGIN, "sums") == 0 ||
                      strcmp(COMM_PLUGIN, "least") == 0;

#ifdef COMM_WIRE
    static char wire[] = COMM_WIRE; /* NAME=VALUE, which makes it another wire than the best one */
    putenv(wire);
#endif
    if (mem || less)
        comm_test_plugins();
    comm_require(COMM_PLUGIN);
    if (strcmp(COMM_PLUGIN, "self") == 0) {
        run_all(1, AS_THREADS);
        done();
    }
    if (less) {
        run_all(3, AS_THREADS);
        if (strcmp(COMM_PLUGIN, "least") == 0) {
            what_applies();
            plugin = "lax";
            has_defect = true;
            for (const struct check_case *test = check_comm_cases; test->name; test++)
                if (test->run == check_case_undeclared)
                    run(test, 3, AS_THREADS);
        }
        done();
    }
#ifdef COMM_WIRE
    run_all(3, AS_PROCESSES);
    done();
#endif
    for (int n = 1; n <= 4 && !mem; n++)
        if (is_whole() || (!wraps && (n == 3 || (n < 3 && !is_short()))))
            run_all(n, AS_PROCESSES);
    /* libfabric's shm crashes when it sends to an endpoint that a thread of its process has closed.
     */
    for (unsigned i = 0; i < sizeof threads / sizeof *threads && !ofi; i++, seed++)
        if (is_whole() || threads[i] == (mem || wraps || is_short() ? 3 : 2))
            run_all(threads[i], AS_THREADS);
    if (mem && !is_short())
        in_memory();
    done();
}
