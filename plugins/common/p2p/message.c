/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of a communicator: ranks become those of the context, errors become sentences. */
#include <errno.h>
#include <string.h>

#include "internal.h"

const char *zero__p2p_words(const struct zero__p2p *t, int err)
{
    return t->explained == err ? t->why : strerror(-err);
}

static int begin_failed(struct zero_comm *comm, int32_t p, int err, const char *doing)
{
    if (err == -EAGAIN) {
        comm->stirred = true;
        return err;
    }
    return zero__p2p_fail(comm, err == -EIO ? -ECONNRESET : err, "cannot %s rank %d: %s%s", doing,
                          comm->world[p], zero__p2p_words(comm->ctx->t, err), comm->ctx->t->way);
}

int zero__p2p_send(struct zero_comm *comm, int32_t p, uint64_t tag, const void *data,
                   uint64_t bytes, void *handle, struct zero__p2p_op *op)
{
    struct zero__p2p *t = comm->ctx->t;
    int err;

    *op = (struct zero__p2p_op){.t = t, .bytes = bytes, .busy = true};
    err = t->ops->send(t, comm->world[p], tag, data, bytes, handle, op);
    if (!err && !zero__p2p_tag_is_word(tag))
        zero__p2p_tag_run(comm, tag)->wire += bytes;
    if (!err)
        return 0;
    op->busy = false;
    return begin_failed(comm, p, err, "send to");
}

int zero__p2p_recv(struct zero_comm *comm, int32_t p, uint64_t tag, void *data, uint64_t bytes,
                   void *handle, struct zero__p2p_op *op)
{
    struct zero__p2p *t = comm->ctx->t;
    int err;

    *op = (struct zero__p2p_op){.t = t, .bytes = bytes, .busy = true, .receives = true};
    err = t->ops->recv(t, comm->world[p], tag, data, bytes, handle, op);
    if (!err)
        return 0;
    op->busy = false;
    return begin_failed(comm, p, err, "receive from");
}

void zero__p2p_cancel(struct zero_comm *comm, struct zero__p2p_op *op)
{
    struct zero__p2p *t = comm->ctx->t;

    if (op->busy && !comm->ctx->stopped)
        t->ops->cancel(t, op);
}

bool zero__p2p_arrived(struct zero_comm *comm, int32_t p, const struct zero__p2p_op *op,
                       uint64_t bytes, const char *what)
{
    if (op->res >= 0 && (uint64_t)op->res == bytes)
        return true;
    if (comm->err)
        return false;
    if (op->res == -EMSGSIZE)
        zero__p2p_fail(comm, -EPROTO, "rank %d sent more than the %llu bytes of %s",
                       comm->world[p], (unsigned long long)op->bytes, what);
    else if (op->res >= 0)
        zero__p2p_fail(comm, -EPROTO, "rank %d sent %lld bytes of %s where %llu were expected",
                       comm->world[p], (long long)op->res, what, (unsigned long long)bytes);
    else /* a transport may call the end of its peer anything; the caller asks the job who ended */
        zero__p2p_fail(comm, op->res == -ECANCELED ? -ECANCELED : -ECONNRESET,
                       "the connection to rank %d broke (%s): %s%s", comm->world[p], what,
                       zero__p2p_words(comm->ctx->t, (int)op->res), comm->ctx->t->way);
    return false;
}
