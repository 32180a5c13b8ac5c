/* SPDX-License-Identifier: Apache-2.0 */
#include "rank.h"

#include <stddef.h>

#define GATHER (1u << ZERO_ALL_GATHER)
#define MOVEMENTS (GATHER | 1u << ZERO_BROADCAST)
#define REDUCTIONS (1u << ZERO_ALL_REDUCE | 1u << ZERO_REDUCE_SCATTER)

const struct check_case check_comm_cases[] = {
    {"data is moved as it is", 1, false, 0, 0, MOVEMENTS, check_case_movements},
    {"reductions are exact", 1, false, 0, 0, REDUCTIONS, check_case_reductions},
    {"sums in any order agree", 1, false, CHECK_UNORDERED, 0, REDUCTIONS, check_case_approximate},
    {"large messages", 1, false, 0, 0, MOVEMENTS | REDUCTIONS, check_case_large},
    {"messages of more than 2 GiB", 1, true, 0, GATHER, 0, check_case_huge},
    {"what is not declared is refused", 1, false, 0, 0, 0, check_case_undeclared},
    {"descriptors that are wrong are refused", 1, false, 0, GATHER, 0, check_case_refusals},
    {"wire bytes", 1, false, 0, 0, 0, check_case_wire_bytes},
    {"memory is registered, exchanged, given back", 1, false, 0, GATHER, 0, check_case_memory},
    {"peers' memory is mapped", 1, false, ZERO_COMM_MAP, 0, 0, check_case_map},
    {"batches, and no room for more", 1, false, 0, 0, 0, check_case_batches},
    {"a batch wakes who waits for its first", 2, false, CHECK_TWO, 0, 0, check_case_batch_wakes},
    {"communicators are independent", 2, false, 0, GATHER, 0, check_case_concurrent},
    {"large collectives on several communicators", 2, false, 0, GATHER, 0, check_case_crowd},
    {"some ranks stay out of a communicator", 2, false, 0, 0, 0, check_case_leave_out},
    {"many communicators", 2, false, 0, GATHER, 0, check_case_many},
    {"collectives are ordered in streams", 1, false, ZERO_COMM_STREAM, GATHER, 0,
     check_case_streams},
    {"waiting ends in time, or by wake()", 1, false, 0, 0, 0, check_case_wakes},
    {"who is missing", 2, false, 0, 0, 0, check_case_missing},
    {"ranks that post different things hear so", 2, false, ZERO_COMM_FINGERPRINT, 0, 0,
     check_case_mismatch},
    {"ranks that call different things hear so", 2, false, 0, 0, 0, check_case_calls_apart},
    {"an abort ends everything", 2, false, 0, 0, 0, check_case_aborts},
    {"aborts in the middle of work", 3, false, 0, 0, 0, check_case_abort_in_flight},
    {"contexts leave nothing behind", 1, false, 0, 0, 0, check_case_left},
    {NULL, 0, false, 0, 0, 0, NULL},
};

bool check_can(const struct check_rank *r, const struct zero_coll *q)
{
    const struct zero_comm_caps *caps = &r->caps;

    if (q->kind >= 32 || !(caps->kinds & 1u << q->kind))
        return false;
    if (q->kind != ZERO_REDUCE_SCATTER && q->kind != ZERO_ALL_REDUCE)
        return true;
    return (caps->redops & 1u << q->redop) && (caps->dtypes & 1u << q->src_dtype) &&
           (caps->dtypes & 1u << q->dst_dtype) &&
           (!(q->flags & ZERO_COLL_ACCUMULATE) || (caps->flags & ZERO_COMM_ACCUMULATE));
}

#define LACKS "not among the plugin's capabilities: "

/* What a case needs and the plugin does not declare; NULL: nothing. */
static const char *lacks(const struct check_case *c, const struct check_rank *r)
{
    uint32_t kinds = r->caps.kinds, flags = c->needs & ~r->caps.flags;

    if (flags & ZERO_COMM_MAP)
        return LACKS "ZERO_COMM_MAP";
    if (flags & ZERO_COMM_STREAM)
        return LACKS "ZERO_COMM_STREAM";
    if (flags & ZERO_COMM_FINGERPRINT)
        return LACKS "ZERO_COMM_FINGERPRINT";
    if ((flags & CHECK_UNORDERED) && (r->caps.flags & ZERO_COMM_ORDERED))
        return "it adds in the ranks' order, which \"reductions are exact\" tries";
    if ((flags & CHECK_TWO) && r->caps.max_inflight < 2)
        return "max_inflight is 1, and there are no batches";
    if (c->kinds & ~kinds)
        return LACKS "all_gather"; /* no case needs another one */
    if (c->any == MOVEMENTS && !(c->any & kinds))
        return LACKS "all_gather, broadcast";
    if (c->any && !(c->any & kinds))
        return LACKS "reductions";
    return NULL;
}

/* No case needs more than 3 ranks. */
bool check_applies(const struct check_case *c, const struct check_rank *r, const char **why)
{
    *why = c->huge && !r->huge         ? "it takes gigabytes of memory: --huge"
           : r->ranks < c->least_ranks ? c->least_ranks > 2 ? "3 ranks are needed: -n 3"
                                                            : "2 ranks are needed: -n 2"
                                       : lacks(c, r);
    return !*why;
}
