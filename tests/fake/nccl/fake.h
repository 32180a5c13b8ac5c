/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libnccl and the few calls of a CUDA driver, in one library, for machines without a GPU (or over
 * the whole driver of tests/fake, with the plugin cuda: over_cuda.c): what is put on a stream of a
 * device with ordinary memory runs there in order, by a thread for each
 * communicator as if it were a kernel, between ranks that are threads or processes.
 *
 * It is as hard to please as NCCL: a communicator begins, splits and may launch in a thread of its
 * own (FAKE_NCCL_SLOW=SEED: at random, late), calls meanwhile are bad usage, a kernel whose
 * peers have gone runs until it is aborted, sums are added from the last rank to the first. An
 * abort takes FAKE_NCCL_ABORT_MS, and until then a split that failed may write where its part was
 * wanted. It gives memory of the device back, which waits for all that runs there, as a destruction
 * does. Bad usage that NCCL would not notice is noted, too.
 */
#ifndef ZERO_TESTS_FAKE_NCCL_H
#define ZERO_TESTS_FAKE_NCCL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <zero/device.h>

#include "../../../plugins/nccl/api.h"

/* 22809, or FAKE_NCCL_VERSION. */
int fake_nccl_version(void);

#define FAKE_RANKS 64
#define FAKE_CHUNK 65536u /* of a message at once */
#define FAKE_OPS 2048u
#define FAKE_FACTORS 64
#define FAKE_EXPORT __attribute__((visibility("default")))

/* A device of a rank, and its CUDA context. */
struct CUctx_st {
    struct CUctx_st *next;
    const struct zero_device_ops *ops;
    struct zero_device *dev;
    int rank, number;
    atomic_int retained;
};

/* What a test asks of the library; by dlsym(). */
struct fake_api {
    /* What the next open of a context on this thread finds. */
    void (*use)(const struct zero_device_ops *ops, struct zero_device *dev, int rank);
    /* The k-th call (from 1) of "CommSplit" and so on on that rank has that result, at once or
     * later; k 0: none. */
    void (*fail)(int rank, const char *name, unsigned k, int result, bool later);
    /* The same at once, and of all calls from the k-th on. */
    void (*fail_from)(int rank, const char *name, unsigned k, int result);
    /* Has it failed? */
    bool (*has_failed)(void);
    /* Calls of that name on that rank since the last fail(). */
    unsigned (*calls)(int rank, const char *name);
    /* Communicators, registrations, operations, contexts that are still there. */
    int (*live)(void);
    /* Bad usage since the last question, and the last one. */
    int (*misused)(char *text, size_t bytes);
};
extern const struct fake_api fake_nccl_api;

/* The functions of both, as the plugin thinks of them. */
#define FAKE_NCCL(name, result, args) result nccl##name args;
NCCL_NEEDED(FAKE_NCCL)
NCCL_WANTED(FAKE_NCCL)
int cuInit(unsigned flags);
int cuDeviceGetCount(int *count);
int cuGetErrorString(int result, const char **text);
int cuStreamGetCtx(cuda_stream stream, cuda_context *context);
int cuCtxPushCurrent_v2(cuda_context context);
int cuCtxPopCurrent_v2(cuda_context *context);
int cuCtxGetDevice(int *device);
int cuDevicePrimaryCtxRetain(cuda_context *context, int device);
int cuDevicePrimaryCtxRelease_v2(int device);

/* ---- driver.c, or over_cuda.c: contexts, and what runs in streams of theirs */

struct CUctx_st *fake_current(void); /* NULL: none */
struct CUctx_st *fake_here(void); /* whose a call without a communicator is; NULL: nobody knows */
void fake_use(const struct zero_device_ops *ops, struct zero_device *dev, int rank);

/* ---- noted.c */

void fake_misuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The result that this call shall have: 0, or an error; *later: not at once. comm may be NULL. */
int fake_call(const char *name, nccl_comm comm, bool *later);
int fake_call_of(const char *name, const struct CUctx_st *c, bool *later); /* c NULL: any */
void fake_count(int n); /* of what is live */

/* ---- comm.c */

enum fake_kind { FAKE_GATHER, FAKE_SCATTER, FAKE_REDUCE, FAKE_BROADCAST };

struct fake_op {
    nccl_comm comm;
    enum fake_kind kind;
    const char *src;
    char *dst;
    size_t count;
    int type, root;
    double factor;
    cuda_stream stream;
    uint64_t number;  /* of the communicator's, from 1 */
    atomic_int there; /* the stream is */
};

/* The communicator's thread begins it. */
nccl_comm fake_comm_make(struct CUctx_st *device, const char *name, int rank, int ranks);
bool fake_comm_is_dead(nccl_comm comm);
/* Its thread splits it; *out is written then. */
void fake_comm_split(nccl_comm comm, int color, int key, nccl_comm *out);
struct CUctx_st *fake_comm_context(nccl_comm comm);
int fake_comm_state(nccl_comm comm);
void fake_comm_set(nccl_comm comm, int state);
int fake_comm_rank(nccl_comm comm);
int fake_comm_ranks(nccl_comm comm);
/* Puts them on their streams, now or, with `late`, by and by. */
int fake_comm_launch(nccl_comm comm, const struct fake_op *ops, unsigned n, bool late);
/* Has all run that was launched? */
bool fake_comm_idle(nccl_comm comm);
/* In progress until all has run. */
void fake_comm_finalize(nccl_comm comm);
/* Ends it; what has not run by then never does. Waits for kernels of others on its device. */
void fake_comm_end(nccl_comm comm);
/* A factor's number, and back; -1 none is free. */
int fake_factor_make(nccl_comm comm, double x);
bool fake_factor_end(nccl_comm comm, int op);
bool fake_factor(nccl_comm comm, int op, double *x);
void fake_comm_hold(nccl_comm comm, int n); /* registrations */
int fake_comm_held(nccl_comm comm);

/* ---- job.c */

/* A call of this thread with c that goes on; one that does not; it is over, and seen to be so. */
void fake_job_begin(const char *name, nccl_comm c);
void fake_job_check(const char *name, nccl_comm c);
void fake_job_end(nccl_comm c, bool asks);

/* ---- reduce.c */

size_t fake_type_bytes(int type); /* 0: not one that it adds */
/* dst = src * factor; dst += src. */
void fake_scale(int type, char *dst, const char *src, size_t n, double factor);
void fake_add(int type, char *dst, const char *src, size_t n);

#endif
