/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives on memory of a device: this rank's part is put on a stream of the communicator as
 * soon as the ranks it reads from have posted, and an event behind it tells when it is through.
 * Nothing here waits for the device. Several collectives may be on the stream; counters that peers
 * see rise when the events are reached, in order, as they do when the host executes.
 *
 * An event wakes nobody by itself: the device notifies its owner, who calls wake().
 */
#include <errno.h>
#include <stdlib.h>

#include "shm.h"

struct shm_queue {
    void *stream;
    void *through[SHM_SLOTS]; /* events: all that a collective is has been done */
    void *summed;             /* the part of the all_reduce that is begun has been summed */
    bool sums;                /* that event is waited for */
    const void **sources;     /* of each slot's sum: a launch may read them late */
};

static void queue_free(struct zero_comm *comm)
{
    const struct shm_device *d = &comm->ctx->device;
    struct shm_queue *q = comm->queue;

    for (uint32_t i = 0; i < SHM_SLOTS; i++)
        if (q->through[i])
            d->ops->event_destroy(d->dev, q->through[i]);
    if (q->summed)
        d->ops->event_destroy(d->dev, q->summed);
    if (q->stream)
        d->ops->stream_destroy(d->dev, q->stream);
    free(q->sources);
    free(q);
    comm->queue = NULL;
}

int zero__shm_queue_open(struct zero_comm *comm)
{
    const struct shm_device *d = &comm->ctx->device;
    struct shm_queue *q;
    int err;

    if (!d->takes)
        return 0;
    q = comm->queue = calloc(1, sizeof *q);
    if (q)
        q->sources = calloc((size_t)comm->ranks * SHM_SLOTS, sizeof *q->sources);
    if (!q || !q->sources) {
        free(q);
        comm->queue = NULL;
        return zero__say(&comm->ctx->voice, -ENOMEM, "no memory for a communicator of %d ranks",
                         comm->ranks);
    }
    err = d->ops->stream_create(d->dev, SHM_NAME, &q->stream);
    for (uint32_t i = 0; i < SHM_SLOTS && !err; i++)
        err = d->ops->event_create(d->dev, &q->through[i]);
    if (!err)
        err = d->ops->event_create(d->dev, &q->summed);
    if (err)
        queue_free(comm);
    return err;
}

static void drain(struct zero_comm *comm)
{
    struct shm_device *d = &comm->ctx->device;

    if (!d->stuck && d->ops->stream_sync(d->dev, comm->queue->stream, comm->ctx->timeout_ns))
        d->stuck = true;
}

void zero__shm_queues_drain(struct zero_comm_ctx *ctx)
{
    for (struct zero_comm *comm = ctx->comms; comm; comm = comm->next)
        if (comm->queue && comm->executed != comm->posted)
            drain(comm);
}

void zero__shm_queue_close(struct zero_comm *comm)
{
    if (!comm->queue)
        return;
    drain(comm);
    queue_free(comm);
}

/* ---- What a collective is on the stream ------------------------------------------------------ */

static struct shm_op *begun(struct zero_comm *comm)
{
    return &comm->ops[comm->begun % SHM_SLOTS];
}

static int record(struct zero_comm *comm, void *event)
{
    const struct shm_device *d = &comm->ctx->device;

    return d->ops->event_record(d->dev, event, comm->queue->stream);
}

static int put_copies(struct zero_comm *comm, bool *news)
{
    const struct shm_device *d = &comm->ctx->device;
    const struct shm_op *op = begun(comm);

    while (comm->n_copied < comm->ranks) {
        int32_t p = zero__shm_next_copy(comm, op);
        uint64_t bytes;
        const char *src;
        char *dst;

        if (p < 0)
            break;
        zero__shm_copy_of(comm, op, p, &src, &dst, &bytes);
        int err = bytes ? d->ops->copy(d->dev, dst, src, bytes, comm->queue->stream) : 0;
        if (err)
            return err;
        comm->parts[p].copied = true;
        comm->n_copied++;
        *news = true;
    }
    return 0;
}

static int put_sum(struct zero_comm *comm)
{
    const struct shm_device *d = &comm->ctx->device;
    const struct shm_op *op = begun(comm);
    const struct zero_coll *c = &op->coll;
    const void **sources = comm->queue->sources + comm->begun % SHM_SLOTS * (uint64_t)comm->ranks;
    uint64_t first, count, to;

    zero__shm_sum_of(comm, op, &first, &count, &to);
    if (!count)
        return 0;
    for (int32_t p = 0; p < comm->ranks; p++)
        sources[p] = comm->parts[p].src + first * zero_dtype_bytes(c->src_dtype);
    const struct zero_sum_args args = {
        .dst = op->dst + to * zero_dtype_bytes(c->dst_dtype),
        .src = sources,
        .count = count,
        .n = (uint32_t)comm->ranks,
        .src_dtype = c->src_dtype,
        .dst_dtype = c->dst_dtype,
        .accumulate = (c->flags & ZERO_COLL_ACCUMULATE) != 0,
        .scale = c->scale,
    };
    const struct zero_launch launch = {
        .kernel = ZERO_KERNEL_SUM, .args = &args, .args_bytes = sizeof args};

    return d->ops->launch(d->dev, &launch, comm->queue->stream);
}

/*
 * The sum of a reduction. Peers copy that of an all_reduce, so it has to be there before anything
 * else of it begins; and they hear of it when all before it is executed.
 */
static int reduce(struct zero_comm *comm, bool *news)
{
    const struct shm_device *d = &comm->ctx->device;
    struct shm_queue *q = comm->queue;
    const struct shm_op *op = begun(comm);
    bool in_parts = op->coll.kind == ZERO_ALL_REDUCE && !zero__shm_sums_all(comm, op);
    int err;

    if (!q->sums) {
        if (comm->n_checked < comm->ranks)
            return 0;
        *news = true;
        err = put_sum(comm);
        if (!err && in_parts)
            err = record(comm, q->summed);
        if (err)
            return err;
        q->sums = in_parts;
        comm->reduced = !in_parts;
        if (!in_parts)
            return 0;
    }
    err = comm->executed == comm->begun ? d->ops->event_query(d->dev, q->summed) : -EINPROGRESS;
    if (err)
        return err == -EINPROGRESS ? 0 : err;
    q->sums = false;
    *news = true;
    zero__shm_publish_sum(comm);
    return 0;
}

static int put(struct zero_comm *comm, bool *news)
{
    const struct shm_op *op = begun(comm);
    uint32_t kind = op->coll.kind;
    int err = 0;

    if (zero__coll_reduces(kind) && !comm->reduced)
        err = reduce(comm, news);
    if (err || (zero__coll_reduces(kind) && !comm->reduced))
        return err;
    if (kind != ZERO_REDUCE_SCATTER && !zero__shm_sums_all(comm, op)) {
        err = put_copies(comm, news);
        if (err || comm->n_copied < comm->ranks)
            return err;
    }
    if (comm->n_checked < comm->ranks)
        return 0;
    err = record(comm, comm->queue->through[comm->begun % SHM_SLOTS]);
    if (!err)
        zero__shm_begin_next(comm);
    *news = true;
    return err;
}

bool zero__shm_enqueue(struct zero_comm *comm)
{
    bool news = false;
    int err = put(comm, &news);

    if (err)
        zero__comm_fail_device(comm, err);
    return news || err;
}

bool zero__shm_queue_look(struct zero_comm *comm)
{
    const struct shm_device *d = &comm->ctx->device;
    bool news = false;

    while (comm->executed < comm->begun) {
        int err = d->ops->event_query(d->dev, comm->queue->through[comm->executed % SHM_SLOTS]);
        if (err == -EINPROGRESS)
            break;
        news = true;
        if (err) {
            zero__comm_fail_device(comm, err);
            break;
        }
        zero__shm_executed(comm);
    }
    return news;
}
