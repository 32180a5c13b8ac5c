/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of collectives over messages are counted as they are handed to the transport: the case
 * "wire bytes" of `zero check comm`, which has them in closed form, finds a plugin that sends more
 * than it should (`again`, see mem.c), and nothing wrong with the same one without that.
 */
#include "cases.h"

static const char *plugin;
static uint64_t seed;

static bool finds_more(const char *complaint)
{
    const char *at = strstr(complaint, "wire bytes ");
    uint64_t got, wanted;

    return at && sscanf(at, "wire bytes %" SCNu64 ", want %" SCNu64, &got, &wanted) == 2 &&
           got > wanted;
}

static void count(struct rank *r)
{
    char number[24];
    const struct zero_setting settings[] = {{"mem_seed", number}};
    struct comm_rank c = {0};
    struct check_rank k;

    snprintf(number, sizeof number, "%" PRIu64, seed);
    if (comm_load(r, &c, plugin, settings, 1)) {
        k = case_rank(r, &c, plugin, seed);
        if (case_probe(r, &k))
            check_case_wire_bytes(&k);
        if (strcmp(plugin, "mem") == 0)
            want(r, !k.n_bad, "%s", k.text[0]);
        else
            want(r, k.n_bad == 1 && finds_more(k.text[0]), "%d complaints: %s", k.n_bad,
                 k.text[0]);
    }
    comm_end(r, &c);
}

static void run(const char *name, int ranks, const char *what)
{
    plugin = name;
    ranks_good(comm_ranks(ranks, AS_THREADS, count, NULL), ranks, "%s, %d ranks, seed %" PRIu64,
               what, ranks, seed);
}

int main(void)
{
    comm_test_plugins();
    for (seed = 1; seed <= 2; seed++) /* the parity says whether receives are late */
        for (int n = 2; n <= 4; n++) {
            run("mem", n, "what is sent is what should be");
            run("again", n, "more is sent than should be, which the check finds");
        }
    done();
}
