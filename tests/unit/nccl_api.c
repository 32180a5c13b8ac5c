/* SPDX-License-Identifier: Apache-2.0 */
/* What the plugin nccl says of NCCL's binary interface is what NCCL's own header says. */
#include "../tap.h"

#include "plugins/nccl/api.h"

#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#include <nccl.h>

#define SAME(ours, theirs) ok((int)(ours) == (int)(theirs), #ours)
#define PLACE(ours, theirs) \
    ok(offsetof(struct nccl_config, ours) == offsetof(ncclConfig_t, theirs), "config." #ours)

static void numbers(void)
{
    SAME(NCCL_OK, ncclSuccess);
    SAME(NCCL_CUDA_ERROR, ncclUnhandledCudaError);
    SAME(NCCL_SYSTEM_ERROR, ncclSystemError);
    SAME(NCCL_INTERNAL_ERROR, ncclInternalError);
    SAME(NCCL_BAD_ARGUMENT, ncclInvalidArgument);
    SAME(NCCL_BAD_USAGE, ncclInvalidUsage);
    SAME(NCCL_REMOTE_ERROR, ncclRemoteError);
    SAME(NCCL_IN_PROGRESS, ncclInProgress);
    SAME(NCCL_I8, ncclInt8);
    SAME(NCCL_U8, ncclUint8);
    SAME(NCCL_I32, ncclInt32);
    SAME(NCCL_I64, ncclInt64);
    SAME(NCCL_F16, ncclFloat16);
    SAME(NCCL_F32, ncclFloat32);
    SAME(NCCL_F64, ncclFloat64);
    SAME(NCCL_BF16, ncclBfloat16);
    SAME(NCCL_SUM, ncclSum);
    SAME(NCCL_HOST_SCALAR, ncclScalarHostImmediate);
    SAME(NCCL_NO_COLOR, NCCL_SPLIT_NOCOLOR);
    SAME(NCCL_UNSET, NCCL_CONFIG_UNDEF_INT);
    SAME(NCCL_2_18, NCCL_VERSION(2, 18, 0));
    SAME(sizeof(nccl_id), sizeof(ncclUniqueId));
    SAME(sizeof(nccl_comm), sizeof(ncclComm_t));
    SAME(sizeof(int), sizeof(ncclRedOp_t));
}

static void config(void)
{
    ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;

    ok(theirs.magic == NCCL_MAGIC, "config.magic is that number");
    PLACE(size, size);
    PLACE(magic, magic);
    PLACE(version, version);
    PLACE(blocking, blocking);
    PLACE(cluster, cgaClusterSize);
    PLACE(least_blocks, minCTAs);
    PLACE(most_blocks, maxCTAs);
    PLACE(network, netName);
    PLACE(shares, splitShare);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 26, 0)
    PLACE(traffic, trafficClass);
#endif
    ok(sizeof(struct nccl_config) == 48 && offsetof(struct nccl_config, traffic) == 44,
       "config is that of 2.18, without padding");
}

/* As many arguments, each of them of the same size: enumerations are ints in C. */
static void functions(void)
{
#define TAKES(name, ...) \
    ok(__builtin_types_compatible_p(__typeof__(nccl##name), __VA_ARGS__), #name)
    TAKES(CommInitRankConfig, ncclResult_t(ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *));
    TAKES(CommSplit, ncclResult_t(ncclComm_t, int, int, ncclComm_t *, ncclConfig_t *));
    TAKES(CommGetAsyncError, ncclResult_t(ncclComm_t, ncclResult_t *));
    TAKES(CommRegister, ncclResult_t(const ncclComm_t, void *, size_t, void **));
    TAKES(CommDeregister, ncclResult_t(const ncclComm_t, void *));
    TAKES(RedOpCreatePreMulSum,
          ncclResult_t(ncclRedOp_t *, void *, ncclDataType_t, ncclScalarResidence_t, ncclComm_t));
    TAKES(AllGather,
          ncclResult_t(const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t));
    TAKES(ReduceScatter, ncclResult_t(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t,
                                      ncclComm_t, cudaStream_t));
    TAKES(AllReduce, ncclResult_t(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t,
                                  ncclComm_t, cudaStream_t));
    TAKES(Broadcast, ncclResult_t(const void *, void *, size_t, ncclDataType_t, int, ncclComm_t,
                                  cudaStream_t));
}

int main(void)
{
    numbers();
    config();
    functions();
    done();
}
#else
int main(void)
{
    skip_all("NCCL's header is not here");
}
#endif
