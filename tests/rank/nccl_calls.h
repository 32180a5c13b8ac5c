/* SPDX-License-Identifier: Apache-2.0 */
/* What the plugin nccl calls of NCCL and of the driver, and what comes of it where a call fails. */
#ifndef ZERO_TESTS_RANK_NCCL_CALLS_H
#define ZERO_TESTS_RANK_NCCL_CALLS_H

#include <stdbool.h>
#include <string.h>

#include "plugins/nccl/api.h"

/* What a failure does that a good run can meet: */
enum harm {
    ENDS,   /* training ends with an error that says so */
    NONE,   /* it goes on, and ends well */
    EITHER, /* none where a communicator ends already */
    UNMET,  /* a good run does not call it */
};

struct call {
    const char *name, *says;
    enum harm harm;
    bool lingers; /* it may fail later, too */
    int rank;     /* where; rank 0 has another role for one of them */
};

/* All that the plugin calls: a test sees that none is missing. */
static const struct call calls[] = {
    {"GetVersion", "version", ENDS, false, 1},
    {"GetErrorString", "", UNMET, false, 1},
    {"GetLastError", "", UNMET, false, 1},
    {"GetUniqueId", "ncclGetUniqueId", ENDS, false, 0},
    {"CommInitRankConfig", "ncclCommInitRankConfig", ENDS, true, 1},
    {"CommSplit", "", UNMET, true, 1},  /* see comm_nccl.c */
    {"CommFinalize", "", NONE, true, 1},
    {"CommDestroy", "", NONE, false, 1},
    {"CommAbort", "", UNMET, false, 1}, /* see abort_fails() */
    {"CommGetAsyncError", "system error", EITHER, true, 1},
    {"CommUserRank", "", UNMET, false, 1}, /* see comm_nccl.c */
    {"CommCount", "system error", ENDS, false, 1},
    {"RedOpCreatePreMulSum", "reduce", ENDS, false, 1},
    {"RedOpDestroy", "", NONE, false, 1},
    {"AllGather", "all_gather", ENDS, true, 1},
    {"ReduceScatter", "reduce_scatter", ENDS, true, 1},
    {"AllReduce", "", UNMET, true, 1},  /* see comm_nccl.c */
    {"Broadcast", "broadcast", ENDS, true, 1},
    {"GroupStart", "system error", ENDS, false, 1},
    {"GroupEnd", "system error", ENDS, true, 1},
    {"CommRegister", "ZERO_NCCL_REGISTER=0", ENDS, false, 1},
    {"CommDeregister", "", NONE, false, 1},
    {"cuInit", "no GPU can be used", ENDS, false, 1},
    {"cuDeviceGetCount", "no GPU can be used", ENDS, false, 1},
    {"cuGetErrorString", "", UNMET, false, 1},
    {"cuStreamGetCtx", "none of CUDA's", ENDS, false, 1},
    {"cuCtxPushCurrent", "context cannot be made current", EITHER, false, 1},
    {"cuCtxPopCurrent", "", NONE, false, 1},
    {"cuCtxGetDevice", "primary context", ENDS, false, 1},
    {"cuDevicePrimaryCtxRetain", "primary context", ENDS, false, 1},
    {"cuDevicePrimaryCtxRelease", "", NONE, false, 1},
};

static bool is_listed(const char *name)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(calls[i].name, name) == 0)
            return true;
    return false;
}

static bool calls_are_listed(void)
{
    bool all = true;

#define LISTED(name, ...) all = all && is_listed(#name);
    NCCL_NEEDED(LISTED)
    NCCL_WANTED(LISTED)
#undef LISTED
#define LISTED(name, ...) all = all && is_listed("cu" #name);
    CUDA_NEEDED(LISTED)
#undef LISTED
    return all;
}

#endif
