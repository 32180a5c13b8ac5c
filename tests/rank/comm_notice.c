/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks say of themselves in an open, and in a split, over the library's exchange and in
 * messages. What no rank of this version can say is refused on all of them, with the rank and the
 * value, before anything is computed with it; what was there before goes on.
 */
#include "plugins/common/p2p/place.h"

#include "comm.h"

#define RANKS 3
#define LIAR 1

enum field { NEXT_ID, COLOR, STATUS };

struct lie {
    enum field field;
    int64_t value;
    bool over_oob; /* else by a message to the parent's ranks */
};

static const struct lie lies[] = {
    {NEXT_ID, P2P_IDS + 1, true},
    {NEXT_ID, UINT32_MAX, false},
    {COLOR, -2, true},
    {COLOR, INT32_MIN, true},
    {STATUS, 5, true},
    {STATUS, -4096, true},
    {STATUS, INT32_MIN, true},
};

static const char *const names[] = {"next_id", "color", "status"};

/* Of this rank, NULL: it says the truth. */
static _Thread_local const struct lie *lie;
static _Thread_local const uint64_t *most; /* bytes of a message, in an open */

static int post(void *ctx, const void *src, uint32_t len)
{
    struct p2p_place place;
    struct p2p_notice n;

    if (most && len == sizeof place) {
        memcpy(&place, src, sizeof place);
        place.max_message = *most;
        return oob_post(ctx, &place, sizeof place);
    }
    if (!lie || !lie->over_oob || len != sizeof n)
        return oob_post(ctx, src, len);
    memcpy(&n, src, sizeof n);
    if (lie->field == NEXT_ID)
        n.next_id = (uint32_t)lie->value;
    else if (lie->field == COLOR)
        n.color = (int32_t)lie->value;
    else
        n.status = (int32_t)lie->value;
    return oob_post(ctx, &n, sizeof n);
}

static void tell(struct rank *r, struct comm_rank *c, const struct lie *l)
{
    struct zero_comm *parent = l->over_oob ? NULL : c->world, *comm = NULL;
    bool in_ctx = !l->over_oob && r->rank == LIAR;
    char value[32];
    uint32_t before = 0;

    lie = r->rank == LIAR ? l : NULL;
    if (in_ctx) { /* where the messages of this rank get it from */
        before = c->ctx->next_id;
        c->ctx->next_id = (uint32_t)l->value;
    }
    int err = c->ops->split(c->ctx, parent, 0, 0, &comm);
    if (in_ctx)
        c->ctx->next_id = before;
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

static void lie_in_open(struct rank *r)
{
    static const uint64_t values[] = {0, 1, sizeof(struct p2p_message) - 1, P2P_MESSAGE_MOST + 1};
    char value[64];

    for (size_t i = 0; i < sizeof values / sizeof *values && !r->bad; i++) {
        struct comm_rank c = {0};
        if (comm_load(r, &c, "mem", NULL, 0)) {
            c.oob.post = post;
            most = r->rank == LIAR ? &values[i] : NULL;
            int err = comm_context(&c);
            most = NULL;
            snprintf(value, sizeof value, "max_message is %" PRIu64 ";", values[i]);
            want(r, err == -EPROTO, "%s: %d", value, err);
            want(r, strstr(zero_last_error(), "rank 1 ") && strstr(zero_last_error(), value),
                 "\"%s\" lacks rank 1 or \"%s\"", zero_last_error(), value);
        }
        comm_end(r, &c);
    }
}

int main(void)
{
    comm_test_plugins();
    ranks_good(comm_ranks(RANKS, AS_THREADS, lie_in_open, NULL), RANKS,
               "what no rank can say in an open is refused, with the rank and the value");
    ranks_good(comm_ranks(RANKS, AS_THREADS, lie_all, NULL), RANKS,
               "what no rank can say is refused, with the rank and the value");
    done();
}
