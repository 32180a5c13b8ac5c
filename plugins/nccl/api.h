/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is used of NCCL and of the CUDA driver, as they have it in their binary interfaces: both are
 * found at run time, so that this builds without either. A test compares it with their headers
 * where those are.
 */
#ifndef ZERO_PLUGINS_NCCL_API_H
#define ZERO_PLUGINS_NCCL_API_H

#include <limits.h>
#include <stddef.h>

/* ---- NCCL */

enum nccl_result {
    NCCL_OK = 0,
    NCCL_CUDA_ERROR = 1,
    NCCL_SYSTEM_ERROR = 2,
    NCCL_INTERNAL_ERROR = 3,
    NCCL_BAD_ARGUMENT = 4,
    NCCL_BAD_USAGE = 5,
    NCCL_REMOTE_ERROR = 6,
    NCCL_IN_PROGRESS = 7,
};

enum nccl_type {
    NCCL_I8 = 0,
    NCCL_U8 = 1,
    NCCL_I32 = 2,
    NCCL_I64 = 4,
    NCCL_F16 = 6,
    NCCL_F32 = 7,
    NCCL_F64 = 8,
    NCCL_BF16 = 9,
};

#define NCCL_SUM 0         /* an operation; others are made */
#define NCCL_HOST_SCALAR 1 /* the factor of an operation is read at once */
#define NCCL_NO_COLOR (-1) /* of a split: none for this rank */
#define NCCL_MAGIC 0xcafebeefu
#define NCCL_UNSET INT_MIN
#define NCCL_WHOLE_ALONE 22907 /* from here on one rank's sum with a factor is complete */
#define NCCL_2_27 22700 /* before, a thread has one call that goes on, whatever it is about */
#define NCCL_ABORTS 22703 /* before, ends while NCCL begins or connects may hang or crash in it */
#define NCCL_2_18 21800 /* the oldest version that is taken; it has all of the first list */

typedef struct ncclComm *nccl_comm;
typedef struct {
    char bytes[128];
} nccl_id;

/*
 * As it is in 2.18, whose end is padding: later versions read as far as `size`, and so `traffic`,
 * which has its place there from 2.26 on.
 */
struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cluster, least_blocks, most_blocks;
    const char *network;
    int shares, traffic;
};

/* ---- The driver */

#define CUDA_OK 0
#define CUDA_NO_DEVICE 100

typedef struct CUctx_st *cuda_context;
typedef struct CUstream_st *cuda_stream;

/* ---- What is used: a name, the result, the arguments. The second list may be missing. */

#define NCCL_NEEDED(X)                                                                          \
    X(GetVersion, int, (int *version))                                                          \
    X(GetErrorString, const char *, (int result))                                               \
    X(GetLastError, const char *, (nccl_comm comm))                                             \
    X(GetUniqueId, int, (nccl_id * id))                                                         \
    X(CommInitRankConfig, int,                                                                  \
      (nccl_comm * comm, int ranks, nccl_id id, int rank, struct nccl_config *config))          \
    X(CommSplit, int,                                                                           \
      (nccl_comm parent, int color, int key, nccl_comm *comm, struct nccl_config *config))      \
    X(CommFinalize, int, (nccl_comm comm))                                                      \
    X(CommDestroy, int, (nccl_comm comm))                                                       \
    X(CommAbort, int, (nccl_comm comm))                                                         \
    X(CommGetAsyncError, int, (nccl_comm comm, int *result))                                    \
    X(CommUserRank, int, (nccl_comm comm, int *rank))                                           \
    X(CommCount, int, (nccl_comm comm, int *ranks))                                             \
    X(RedOpCreatePreMulSum, int, (int *op, void *factor, int type, int where, nccl_comm comm))  \
    X(RedOpDestroy, int, (int op, nccl_comm comm))                                              \
    X(AllGather, int,                                                                           \
      (const void *src, void *dst, size_t count, int type, nccl_comm comm, cuda_stream stream)) \
    X(ReduceScatter, int,                                                                       \
      (const void *src, void *dst, size_t count, int type, int op, nccl_comm comm,              \
       cuda_stream stream))                                                                     \
    X(AllReduce, int,                                                                           \
      (const void *src, void *dst, size_t count, int type, int op, nccl_comm comm,              \
       cuda_stream stream))                                                                     \
    X(Broadcast, int,                                                                           \
      (const void *src, void *dst, size_t count, int type, int root, nccl_comm comm,            \
       cuda_stream stream))                                                                     \
    X(GroupStart, int, (void))                                                                  \
    X(GroupEnd, int, (void))
#define NCCL_WANTED(X)                                                              \
    X(CommRegister, int, (nccl_comm comm, void *base, size_t bytes, void **handle)) \
    X(CommDeregister, int, (nccl_comm comm, void *handle))
/* Of the driver: the symbols have a version in their names. */
#define CUDA_NEEDED(X)                                                                          \
    X(Init, "cuInit", (unsigned flags))                                                         \
    X(DeviceGetCount, "cuDeviceGetCount", (int *count))                                         \
    X(GetErrorString, "cuGetErrorString", (int result, const char **text))                      \
    X(StreamGetCtx, "cuStreamGetCtx", (cuda_stream stream, cuda_context * context))             \
    X(CtxPushCurrent, "cuCtxPushCurrent_v2", (cuda_context context))                            \
    X(CtxPopCurrent, "cuCtxPopCurrent_v2", (cuda_context * context))                            \
    X(CtxGetDevice, "cuCtxGetDevice", (int *device))                                            \
    X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (cuda_context * context, int device)) \
    X(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (int device))

struct nccl_library {
#define MEMBER(name, result, args) result(*name) args;
    NCCL_NEEDED(MEMBER)
    NCCL_WANTED(MEMBER)
#undef MEMBER
    int version;
};

struct cuda_library {
#define MEMBER(name, symbol, args) int(*name) args;
    CUDA_NEEDED(MEMBER)
#undef MEMBER
    int n_devices;
};

#endif
