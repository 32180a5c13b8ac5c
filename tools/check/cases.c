/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <stddef.h>

const struct check_case check_comm_cases[] = {
    {"data is moved as it is", 1, 0, check_case_movements},
    {"reductions are exact", 1, 0, check_case_reductions},
    {"large messages", 1, 0, check_case_large},
    {"what is not declared is refused", 1, 0, check_case_undeclared},
    {"descriptors that are wrong are refused", 1, 0, check_case_refusals},
    {"wire bytes", 1, 0, check_case_wire_bytes},
    {"memory is registered, exchanged, given back", 1, 0, check_case_memory},
    {"peers' memory is mapped", 1, ZERO_COMM_MAP, check_case_map},
    {"batches, and no room for more", 1, 0, check_case_batches},
    {"a batch wakes who waits for its first", 2, 0, check_case_batch_wakes},
    {"communicators are independent", 2, 0, check_case_concurrent},
    {"some ranks stay out of a communicator", 2, 0, check_case_leave_out},
    {"many communicators", 2, 0, check_case_many},
    {"waiting ends in time, or by wake()", 1, 0, check_case_wakes},
    {"who is missing", 2, 0, check_case_missing},
    {"ranks that post different things hear so", 2, ZERO_COMM_FINGERPRINT, check_case_mismatch},
    {"ranks that call different things hear so", 2, 0, check_case_calls_apart},
    {"an abort ends everything", 2, 0, check_case_aborts},
    {"aborts in the middle of work", 3, 0, check_case_abort_in_flight},
    {NULL, 0, 0, NULL},
};

bool check_applies(const struct check_case *c, const struct check_rank *r, const char **why)
{
    *why = r->ranks < c->least_ranks                ? "more ranks are needed"
           : (c->needs & r->caps.flags) != c->needs ? "not among the plugin's capabilities"
                                                    : NULL;
    return !*why;
}
