/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks say of themselves in a split, over the library's exchange and in messages. What no
 * rank of this version can say is refused on all of them, with the rank and the value, before
 * anything is computed with it; what was there before goes on.
 */
#include "plugins/common/p2p/internal.h"

#include "comm.h"

#define RANKS 3
#define LIAR 1

enum field { MAX_MESSAGE, NEXT_ID, COLOR, STATUS };

struct lie {
    enum field field;
    int64_t value;
    bool over_oob; /* else by a message to the parent's ranks */
};

static const struct lie lies[] = {
    {MAX_MESSAGE, 0, true},
    {MAX_MESSAGE, 1, true},
    {MAX_MESSAGE, sizeof(struct p2p_message) - 1, true},
    {MAX_MESSAGE, P2P_MESSAGE_MOST + 1, true},
    {MAX_MESSAGE, 0, false},
    {MAX_MESSAGE, 63, false},
    {MAX_MESSAGE, sizeof(struct p2p_message) - 1, false},
    {NEXT_ID, P2P_IDS + 1, true},
    {NEXT_ID, UINT32_MAX, false},
    {COLOR, -2, true},
    {COLOR, INT32_MIN, true},
    {STATUS, 5, true},
    {STATUS, -4096, true},
    {STATUS, INT32_MIN, true},
};

static const char *const names[] = {"max_message", "next_id", "color", "status"};

static _Thread_local const struct lie *lie; /* of this rank, NULL: it says the truth */

static int post(void *ctx, const void *src, uint32_t len)
{
    struct p2p_notice n;

    if (!lie || !lie->over_oob || len != sizeof n)
        return oob_post(ctx, src, len);
    memcpy(&n, src, sizeof n);
    if (lie->field == MAX_MESSAGE)
        n.max_message = (uint64_t)lie->value;
    else if (lie->field == NEXT_ID)
        n.next_id = (uint32_t)lie->value;
    else if (lie->field == COLOR)
        n.color = (int32_t)lie->value;
    else
        n.status = (int32_t)lie->value;
    return oob_post(ctx, &n, sizeof n);
}

/* Where the messages of this rank get it from; returns what was there. */
static uint64_t swap(struct zero_comm_ctx *ctx, enum field field, uint64_t value)
{
    uint64_t before = field == MAX_MESSAGE ? ctx->most : ctx->next_id;

    if (field == MAX_MESSAGE)
        ctx->most = value;
    else
        ctx->next_id = (uint32_t)value;
    return before;
}

static void tell(struct rank *r, struct comm_rank *c, const struct lie *l)
{
    struct zero_comm *parent = l->over_oob ? NULL : c->world, *comm = NULL;
    bool in_ctx = !l->over_oob && r->rank == LIAR;
    char value[32];
    uint64_t before = 0;

    lie = r->rank == LIAR ? l : NULL;
    if (in_ctx)
        before = swap(c->ctx, l->field, (uint64_t)l->value);
    int err = c->ops->split(c->ctx, parent, 0, 0, &comm);
    if (in_ctx)
        swap(c->ctx, l->field, before);
    lie = NULL;
    snprintf(value, sizeof value, "%s is %" PRId64 ";", names[l->field], l->value);
    if (!want(r, err == -EPROTO, "%s %s: %d", l->over_oob ? "oob" : "message", value, err))
        return;
    want(r, strstr(zero_last_error(), "rank 1 ") && strstr(zero_last_error(), value),
         "\"%s\" lacks rank 1 or \"%s\"", zero_last_error(), value);
    want(r, comm_barrier(c, c->world) == 0, "after %s: %s", value, zero_last_error());
    if (want(r, !c->ops->split(c->ctx, parent, 0, 0, &comm), "after %s: %s", value,
             zero_last_error()))
        c->ops->comm_close(comm);
}

static void lie_all(struct rank *r)
{
    struct comm_rank c = {0};

    if (comm_open(r, &c, "mem", 4096, NULL, 0)) {
        c.oob.post = post;
        for (size_t i = 0; i < sizeof lies / sizeof *lies && !r->bad; i++)
            tell(r, &c, &lies[i]);
    }
    comm_end(r, &c);
}

int main(void)
{
    comm_test_plugins();
    ranks_good(comm_ranks(RANKS, AS_THREADS, lie_all, NULL), RANKS,
               "what no rank can say is refused, with the rank and the value");
    done();
}
