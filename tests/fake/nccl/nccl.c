/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of NCCL: what they refuse, and what they hand to the communicator's threads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fake.h"

#define MOST_IN_GROUP 256u

static _Thread_local struct {
    int depth, result;
    bool late;
    unsigned n;
    struct fake_op ops[MOST_IN_GROUP];
} group;
static _Thread_local char last_error[200];

static int say(int result, const char *text)
{
    snprintf(last_error, sizeof last_error, "%s", text);
    return result;
}

/* What every call with a communicator must see: it lives, is idle. */
static int ready(const char *name, nccl_comm comm, bool *later)
{
    int r;

    *later = false;
    if (!comm || fake_comm_is_dead(comm)) {
        fake_misuse("%s with a communicator that has ended", name);
        return NCCL_BAD_ARGUMENT;
    }
    if (fake_comm_state(comm) == NCCL_IN_PROGRESS) {
        fake_misuse("%s while another call is in progress", name);
        return NCCL_BAD_USAGE;
    }
    fake_job_end(comm, false);
    r = fake_call(name, comm, later);
    return r && !*later ? say(r, "the test wants it so") : r;
}

/* The same, on this thread's device. */
static int enter(const char *name, nccl_comm comm, bool *later)
{
    if (comm && !fake_comm_is_dead(comm) && fake_current() != fake_comm_context(comm)) {
        *later = false;
        fake_misuse("%s while another device is current", name);
        return NCCL_CUDA_ERROR;
    }
    return ready(name, comm, later);
}

int fake_nccl_version(void)
{
    const char *v = getenv("FAKE_NCCL_VERSION");

    return v ? atoi(v) : 22809;
}

FAKE_EXPORT int ncclGetVersion(int *version)
{
    bool later;

    *version = fake_nccl_version();
    return fake_call("GetVersion", NULL, &later);
}

FAKE_EXPORT const char *ncclGetErrorString(int result)
{
    static const char *const text[] = {
        "no error",         "unhandled cuda error", "unhandled system error", "internal error",
        "invalid argument", "invalid usage",        "remote process exited",  "in progress"};

    return result >= 0 && result < 8 ? text[result] : "unknown result code";
}

FAKE_EXPORT const char *ncclGetLastError(nccl_comm comm)
{
    if (comm && !fake_comm_is_dead(comm) && fake_comm_state(comm) == NCCL_BAD_USAGE &&
        getenv("FAKE_NCCL_DUPLICATE"))
        return "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1b000";
    return last_error;
}

FAKE_EXPORT int ncclGetUniqueId(nccl_id *id)
{
    static atomic_uint n;
    struct timespec t;
    bool later;
    int r = fake_call("GetUniqueId", NULL, &later);

    if (r)
        return say(r, "the test wants it so");
    clock_gettime(CLOCK_MONOTONIC, &t);
    memset(id, 0, sizeof *id);
    snprintf(id->bytes, sizeof id->bytes, "/zero-fake-%d-%u-%lx", (int)getpid(),
             atomic_fetch_add(&n, 1), (unsigned long)t.tv_nsec);
    return NCCL_OK;
}

static bool is_good(const struct nccl_config *how)
{
    return how && how->size == sizeof *how && how->magic == NCCL_MAGIC &&
           how->version == NCCL_2_18 && how->blocking == 0 && how->traffic == NCCL_UNSET;
}

FAKE_EXPORT int ncclCommInitRankConfig(nccl_comm *comm, int ranks, nccl_id id, int rank,
                                       struct nccl_config *config)
{
    bool later;
    int r = fake_call("CommInitRankConfig", NULL, &later);

    *comm = NULL;
    if (r && !later)
        return say(r, "the test wants it so");
    if (!fake_current() || !is_good(config) || rank < 0 || rank >= ranks || ranks > FAKE_RANKS ||
        id.bytes[0] != '/') {
        fake_misuse("CommInitRankConfig of rank %d of %d", rank, ranks);
        return NCCL_BAD_ARGUMENT;
    }
    if (later) /* it never meets the others */
        snprintf(id.bytes, sizeof id.bytes, "/zero-fake-none-%d", (int)getpid());
    *comm = fake_comm_make(fake_current(), id.bytes, rank, ranks);
    if (*comm)
        fake_job_begin("CommInitRankConfig", *comm);
    if (*comm && later)
        fake_comm_set(*comm, r);
    return *comm ? NCCL_IN_PROGRESS : NCCL_SYSTEM_ERROR;
}

FAKE_EXPORT int ncclCommSplit(nccl_comm parent, int color, int key, nccl_comm *comm,
                              struct nccl_config *config)
{
    bool later;
    int r = enter("CommSplit", parent, &later);

    *comm = NULL;
    if (r && !later)
        return r;
    if (color < NCCL_NO_COLOR || !is_good(config))
        return NCCL_BAD_ARGUMENT;
    fake_job_begin("CommSplit", parent);
    if (!later)
        fake_comm_split(parent, color, key, comm);
    else
        fake_comm_set(parent, r);
    return NCCL_IN_PROGRESS;
}

FAKE_EXPORT int ncclCommFinalize(nccl_comm comm)
{
    bool later;
    int r = enter("CommFinalize", comm, &later);

    if (!r || later)
        fake_job_begin("CommFinalize", comm);
    if (later)
        fake_comm_set(comm, r);
    else if (!r)
        fake_comm_finalize(comm);
    return r && !later ? r : NCCL_IN_PROGRESS;
}

FAKE_EXPORT int ncclCommDestroy(nccl_comm comm)
{
    bool later;
    int r = enter("CommDestroy", comm, &later);

    if (comm && !fake_comm_is_dead(comm)) {
        if (!fake_comm_idle(comm))
            fake_misuse("CommDestroy while collectives run");
        if (fake_comm_held(comm))
            fake_misuse("CommDestroy while %d registrations are left", fake_comm_held(comm));
        fake_comm_end(comm);
    }
    return r;
}

FAKE_EXPORT int ncclCommAbort(nccl_comm comm)
{
    const char *slow = getenv("FAKE_NCCL_ABORT_MS");
    bool later;
    int r;

    if (!comm || fake_comm_is_dead(comm)) {
        fake_misuse("CommAbort of a communicator that has ended");
        return NCCL_BAD_ARGUMENT;
    }
    r = fake_call("CommAbort", comm, &later);
    if (slow)
        usleep((useconds_t)atoi(slow) * 1000);
    fake_comm_end(comm);
    return r;
}

FAKE_EXPORT int ncclCommGetAsyncError(nccl_comm comm, int *result)
{
    bool later;
    int r;

    if (!comm || fake_comm_is_dead(comm)) {
        fake_misuse("CommGetAsyncError of a communicator that has ended");
        return NCCL_BAD_ARGUMENT;
    }
    r = fake_call("CommGetAsyncError", comm, &later);
    if (later)
        fake_comm_set(comm, r);
    *result = fake_comm_state(comm);
    if (*result != NCCL_IN_PROGRESS)
        fake_job_end(comm, true);
    return later ? NCCL_OK : r;
}

FAKE_EXPORT int ncclCommUserRank(nccl_comm comm, int *rank)
{
    bool later;
    int r = ready("CommUserRank", comm, &later);

    *rank = r ? -1 : fake_comm_rank(comm);
    return r;
}

FAKE_EXPORT int ncclCommCount(nccl_comm comm, int *ranks)
{
    bool later;
    int r = ready("CommCount", comm, &later);

    *ranks = r ? -1 : fake_comm_ranks(comm);
    return r;
}

FAKE_EXPORT int ncclRedOpCreatePreMulSum(int *op, void *factor, int type, int where, nccl_comm comm)
{
    bool later;
    int r = enter("RedOpCreatePreMulSum", comm, &later);
    float x = 0;
    double wide = 0;

    if (r)
        return r;
    if (where != NCCL_HOST_SCALAR || (type != NCCL_F32 && type != NCCL_F64))
        return NCCL_BAD_ARGUMENT;
    memcpy(type == NCCL_F32 ? (void *)&x : &wide, factor, type == NCCL_F32 ? 4 : 8);
    *op = fake_factor_make(comm, type == NCCL_F32 ? (double)x : wide);
    return *op < 0 ? NCCL_INTERNAL_ERROR : NCCL_OK;
}

FAKE_EXPORT int ncclRedOpDestroy(int op, nccl_comm comm)
{
    bool later;
    int r = enter("RedOpDestroy", comm, &later);

    if (!r && !fake_factor_end(comm, op)) {
        fake_misuse("RedOpDestroy of %d, which there is not", op);
        return NCCL_BAD_ARGUMENT;
    }
    return r;
}

#ifndef FAKE_NCCL_2_18
FAKE_EXPORT int ncclCommRegister(nccl_comm comm, void *base, size_t bytes, void **handle)
{
    bool later;
    int r = enter("CommRegister", comm, &later);

    if (r)
        return r;
    fake_comm_hold(comm, 1);
    *handle = base;
    return bytes ? NCCL_OK : NCCL_BAD_ARGUMENT;
}

FAKE_EXPORT int ncclCommDeregister(nccl_comm comm, void *handle)
{
    bool later;
    int r = enter("CommDeregister", comm, &later);

    (void)handle;
    fake_comm_hold(comm, -1); /* asked once: after an error the caller can do no more */
    return r;
}
#endif

/* ---- Collectives ----------------------------------------------------------------------------- */

static int flush(int result)
{
    nccl_comm comm = group.ops[0].comm;
    int r = result;

    if (r == NCCL_OK && group.n) {
        fake_job_check("a group", comm);
        r = fake_comm_launch(comm, group.ops, group.n, group.late);
        if (r == NCCL_IN_PROGRESS)
            fake_job_begin("a group", comm);
    }
    group.n = 0;
    group.late = false;
    return r;
}

/* At once, or at the end of the group. */
static int collective(const char *name, struct fake_op op, int how)
{
    bool later;
    int r = enter(name, op.comm, &later);

    if (later) { /* nothing of it gets on a stream */
        fake_comm_set(op.comm, r);
        return group.depth ? (group.result = NCCL_IN_PROGRESS, NCCL_OK) : NCCL_IN_PROGRESS;
    }
    if (!r && (!fake_type_bytes(op.type) || !fake_factor(op.comm, how, &op.factor) ||
               group.n == MOST_IN_GROUP || (group.n && group.ops[0].comm != op.comm)))
        r = say(NCCL_BAD_ARGUMENT, "a type, an operation or a group that there is not");
    if (r) {
        group.result = group.depth ? r : NCCL_OK;
        return r;
    }
    group.ops[group.n++] = op;
    return group.depth ? NCCL_OK : flush(NCCL_OK);
}

FAKE_EXPORT int ncclGroupStart(void)
{
    bool later;
    int r = fake_call("GroupStart", NULL, &later);

    if (r)
        return say(r, "the test wants it so");
    if (group.depth++)
        fake_misuse("a group within a group");
    group.result = NCCL_OK;
    group.n = 0;
    return NCCL_OK;
}

FAKE_EXPORT int ncclGroupEnd(void)
{
    bool later;
    int r = fake_call("GroupEnd", NULL, &later);

    if (group.depth == 0) {
        fake_misuse("a group ends that nobody began");
        return NCCL_BAD_USAGE;
    }
    group.depth--;
    if (later && group.n) {
        fake_comm_set(group.ops[0].comm, r);
        return group.n = 0, NCCL_IN_PROGRESS;
    }
    if (r) {
        group.n = 0;
        return say(r, "the test wants it so");
    }
    return flush(group.result);
}

static struct fake_op of(nccl_comm comm, enum fake_kind kind, const void *src, void *dst,
                         size_t count, int type, int root, cuda_stream stream)
{
    return (struct fake_op){.comm = comm, .kind = kind, .src = src, .dst = dst, .count = count,
                            .type = type, .root = root, .factor = 1, .stream = stream};
}

FAKE_EXPORT int ncclAllGather(const void *src, void *dst, size_t count, int type, nccl_comm comm,
                              cuda_stream stream)
{
    return collective("AllGather", of(comm, FAKE_GATHER, src, dst, count, type, 0, stream),
                      NCCL_SUM);
}

FAKE_EXPORT int ncclReduceScatter(const void *src, void *dst, size_t count, int type, int op,
                                  nccl_comm comm, cuda_stream stream)
{
    return collective("ReduceScatter", of(comm, FAKE_SCATTER, src, dst, count, type, 0, stream),
                      op);
}

FAKE_EXPORT int ncclAllReduce(const void *src, void *dst, size_t count, int type, int op,
                              nccl_comm comm, cuda_stream stream)
{
    return collective("AllReduce", of(comm, FAKE_REDUCE, src, dst, count, type, 0, stream), op);
}

FAKE_EXPORT int ncclBroadcast(const void *src, void *dst, size_t count, int type, int root,
                              nccl_comm comm, cuda_stream stream)
{
    return collective("Broadcast", of(comm, FAKE_BROADCAST, src, dst, count, type, root, stream),
                      NCCL_SUM);
}
