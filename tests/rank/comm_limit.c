/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a message may be. Ranks whose transports carry different lengths cut alike, at the
 * least of them; one that does not even carry their words is refused, on all ranks.
 */
#include "cases.h"

#define RANKS 3

static const char *const *most; /* bytes of a message, by rank; "0": any number */
static const char *numerics = "ordered";
static uint64_t seed = 1;

static bool ready(struct rank *r, struct comm_rank *c)
{
    char number[24];
    const struct zero_setting settings[] = {
        {"mem_most", most[r->rank]}, {"mem_seed", number}, {"numerics", numerics}};

    snprintf(number, sizeof number, "%" PRIu64, seed);
    return comm_load(r, c, "mem", settings, 3);
}

/* Below, at and above one message; the sums of several hosts are exact for small numbers only. */
static void collectives(struct check_rank *k)
{
    static const uint64_t counts[] = {1, 125, 250, 5003};
    static const uint32_t kinds[] = {ZERO_ALL_GATHER, ZERO_REDUCE_SCATTER, ZERO_ALL_REDUCE,
                                     ZERO_BROADCAST};
    bool relaxed = strcmp(numerics, "relaxed") == 0;
    struct check_comm c;

    if (check_open(k, &c, UINT64_C(1) << 20))
        for (unsigned i = 0; i < 16; i++) {
            struct zero_coll q = {.kind = kinds[i % 4],
                                  .src_dtype = ZERO_F32,
                                  .dst_dtype = ZERO_F32,
                                  .scale = 1,
                                  .count = counts[i / 4]};
            if (relaxed && (q.kind == ZERO_REDUCE_SCATTER || q.kind == ZERO_ALL_REDUCE))
                check_approximate(&c, c.world, k->rank, k->ranks, q, i);
            else
                check_exact(&c, c.world, k->rank, k->ranks, q, i);
        }
    check_close(&c);
}

static void cut_alike(struct rank *r)
{
    struct comm_rank c = {0};
    struct check_rank k;

    if (ready(r, &c)) {
        k = case_rank(r, &c, "mem", seed);
        if (case_probe(r, &k))
            collectives(&k);
        case_complain(r, &k);
    }
    comm_end(r, &c);
}

/* Rank 1 says what is wrong, the others that it is rank 1. */
static void refuse(struct rank *r)
{
    const char *says = r->rank == 1 ? "messages of at most 423 bytes" : "failed on rank 1";
    struct comm_rank c = {0};

    if (ready(r, &c)) {
        int err = comm_context(&c);
        want(r, err == -EMSGSIZE, "open gives %d", err);
        want(r, strstr(zero_last_error(), says), "it says: %s", zero_last_error());
    }
    comm_end(r, &c);
}

static void run(void (*body)(struct rank *), const char *const *lengths, const char *what)
{
    most = lengths;
    ranks_good(comm_ranks(RANKS, AS_THREADS, body, NULL), RANKS, "%s, %s, seed %" PRIu64, what,
               numerics, seed);
}

int main(void)
{
    static const char *const different[] = {"0", "4097", "501"}, *const least[] = {"424", "0", "0"},
                             *const small[] = {"0", "423", "424"};

    comm_test_plugins();
    for (; seed <= 2; seed++) { /* with receives in time, and late */
        for (int i = 0; i < 2; i++) {
            numerics = i ? "relaxed" : "ordered";
            run(cut_alike, different, "messages of 501 bytes, since one rank carries no more");
            run(cut_alike, least, "the least that ranks need");
        }
        numerics = "ordered";
        run(refuse, small, "one byte less on one rank");
    }
    done();
}
