/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entries of the offload plugin `fault`. A request is kept here and goes below in pieces, which
 * are numbered: the number says where the piece is, and one that ends and is not under way is
 * noticed. It has ended when all pieces have, and is told when its delay is over.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include "machine/clock.h"
#include "plugins/common/below.h"
#include "plugins/common/entry.h"
#include "plugins/common/io.h"
#include "store.h"

#define BELOW "fault_offload" /* the option */

static int faults(const struct zero__voice *v, struct store_fault list[FAULT_MOST], int *n)
{
    const char *text = zero__param_text(v, "fault_io", "", "what befalls requests");

    return zero__store_faults(v, text, list, n);
}

static int fault_probe(const struct zero_host *host, struct zero_store_info *info)
{
    const struct zero__voice v = {host, STORE_NAME};
    struct store_fault list[FAULT_MOST];
    int n, err = faults(&v, list, &n);

    return err ? err : zero__below_probe(&v, BELOW, false, info);
}

static int fault_open(const struct zero_store_open *params, struct zero_store **out)
{
    const struct zero__voice v = {params->host, STORE_NAME};
    struct zero_store_info info = {.size = sizeof info};
    struct zero_store *s = calloc(1, sizeof *s);
    int err;

    if (!s)
        return zero__say(&v, -ENOMEM, "no memory for a store");
    s->voice = v;
    s->below = zero__below_name(&v, ZERO_IFACE_OFFLOAD, BELOW);
    s->sending_end = &s->sending;
    for (uint32_t i = 0; i < STORE_REQUESTS; i++) {
        s->requests[i].next = s->free_requests;
        s->free_requests = &s->requests[i];
    }
    err = faults(&v, s->faults, &s->n_faults);
    if (!err)
        err = zero__below_store(&v, BELOW, &s->ops);
    if (!err)
        err = s->ops.open(params, &s->inner);
    if (!err)
        err = s->ops.info(s->inner, &info);
    if (err) {
        if (s->inner)
            s->ops.close(s->inner);
        free(s);
        return err;
    }
    s->align = info.offset_align ? info.offset_align : 1;
    s->bytes = info.capacity;
    *out = s;
    return 0;
}

static int fault_info(struct zero_store *s, struct zero_store_info *info)
{
    struct zero_store_info full = {.size = sizeof full};
    int err = s->ops.info(s->inner, &full);
    int64_t now = zero__now_ns();

    if (err)
        return err;
    full.bytes_written += s->dropped; /* who drops a write says that it was done */
    for (const struct store_request *r = s->late; r; r = r->next) {
        uint64_t *moved = r->io.op == ZERO_IO_READ ? &full.bytes_read : &full.bytes_written;
        uint64_t left = zero__store_left(r, now);
        *moved -= left < *moved ? left : *moved; /* 0: the plugin below does not count */
    }
    full.flags &= ~(uint32_t)ZERO_STORE_MAPPED; /* it would not see what goes through a map */
    zero__below_describe(&s->voice, &full);
    zero__store_info_give(&full, info);
    return 0;
}

static int fault_resize(struct zero_store *s, uint64_t bytes)
{
    struct zero_store_info info = {.size = sizeof info};
    int err = s->ops.resize(s->inner, bytes);

    if (!s->ops.info(s->inner, &info))
        s->bytes = info.capacity;
    return err;
}

static int fault_reg(struct zero_store *s, void *base, uint64_t bytes, uint32_t mem,
                     struct zero_mr **mr)
{
    return s->ops.reg(s->inner, base, bytes, mem, mr);
}

static int fault_unreg(struct zero_store *s, struct zero_mr *mr)
{
    return s->ops.unreg(s->inner, mr);
}

static bool is_sent(const struct store_request *r)
{
    return r->err || (r->io.op == ZERO_IO_SYNC ? r->sent : r->sent == r->io.buf.len);
}

static struct store_piece *place(struct zero_store *s, uint64_t tag)
{
    return &s->pieces[tag % STORE_PIECES];
}

static bool has_place(struct zero_store *s)
{
    return !place(s, s->last_tag + 1)->tag;
}

/* The next piece of the request, for which there is a place; 1, 0: nothing fits, or an error. */
static int send_piece(struct zero_store *s, struct store_request *r)
{
    struct zero_io io = r->io;
    uint64_t left = io.buf.len - r->sent;
    int n;

    if (io.op != ZERO_IO_SYNC) {
        io.buf.len = r->piece && r->piece < left ? r->piece : left;
        io.buf.off += r->sent;
        io.store_off += r->sent;
    }
    io.user = s->last_tag + 1;
    n = s->ops.submit(s->inner, &io, 1);
    if (n <= 0)
        return n;
    r->sent += io.op == ZERO_IO_SYNC ? 1 : io.buf.len;
    r->below++;
    s->last_tag++;
    *place(s, io.user) = (struct store_piece){r, io.user};
    return 1;
}

/* Requests of which nothing is to come leave the list. */
static void send_more(struct zero_store *s)
{
    while (s->sending && has_place(s)) {
        struct store_request *r = s->sending;
        int n = is_sent(r) ? 1 : send_piece(s, r);
        if (n < 0)
            r->err = n;
        else if (n == 0)
            break;
        if (!is_sent(r))
            continue;
        s->sending = r->next;
        if (!s->sending)
            s->sending_end = &s->sending;
        if (!r->below)
            zero__store_end(s, r);
    }
}

static void send_later(struct zero_store *s, struct store_request *r)
{
    r->next = NULL;
    *s->sending_end = r;
    s->sending_end = &r->next;
}

/* Those of a call that are reordered go below, the last one first. */
static void send_reordered(struct zero_store *s, struct store_request *last)
{
    uint32_t n = 0;

    for (struct store_request *r = last; r; r = r->before, n++) {
        r->last = last;
        send_later(s, r);
    }
    if (last) {
        last->left = n;
        send_more(s);
    }
}

/*
 * What is wrong with a request is what the plugin below says, so the first piece goes at once. One
 * that is reordered goes later, and ends with what that plugin says of it then.
 */
static int fault_submit(struct zero_store *s, const struct zero_io *ios, uint32_t n)
{
    struct store_request *last = NULL;
    int err = 0;
    uint32_t i;

    for (i = 0; i < n && s->free_requests; i++) {
        struct store_request *r = s->free_requests;
        struct store_request fresh = {.io = ios[i]};
        if (s->sending) /* behind others that wait: it is looked at when it is their turn */
            send_more(s);
        if (s->sending || !has_place(s))
            break;
        if (zero__store_befall(s, &fresh))
            break;
        s->free_requests = r->next;
        *r = fresh;
        if (r->reordered && n > 1) {
            r->before = last;
            last = r;
            continue;
        }
        int k = r->err || r->dropped ? 1 : send_piece(s, r);
        if (k <= 0) {
            r->next = s->free_requests;
            s->free_requests = r;
            err = k < 0 && !i ? k : 0;
            break;
        }
        if (!is_sent(r))
            send_later(s, r);
        else if (!r->below)
            zero__store_end(s, r);
    }
    send_reordered(s, last);
    return err ? err : (int)i;
}

static int take(struct zero_store *s, const struct zero_cqe *c)
{
    struct store_piece *piece = place(s, c->user);
    struct store_request *r = piece->request;

    if (!c->user || piece->tag != c->user)
        return zero__below_strange(&s->voice, ZERO_IFACE_OFFLOAD, s->below, c->user);
    piece->tag = 0;
    r->below--;
    if (c->res < 0 && !r->err)
        r->err = (int)c->res;
    else if (c->res > 0)
        r->ended += (uint64_t)c->res;
    if (!r->below && is_sent(r)) {
        struct store_request **at = &s->sending;
        while (*at && *at != r)
            at = &(*at)->next;
        if (*at) { /* an error ended it before all of it was sent */
            *at = r->next;
            if (!*at)
                s->sending_end = at;
        }
        zero__store_end(s, r);
    }
    return 0;
}

static int fault_poll(struct zero_store *s, struct zero_cqe *cqes, uint32_t max, int64_t timeout_ns)
{
    int64_t until = timeout_ns > 0 ? zero__deadline_ns(timeout_ns) : 0, next;
    struct zero_cqe own[16];

    for (;;) {
        send_more(s);
        uint32_t n = zero__store_hand_out(s, cqes, max, &next);
        if (n || !max)
            return (int)n;
        int64_t left = (until < next ? until : next) - zero__now_ns();
        int k = s->ops.poll(s->inner, own, 16, timeout_ns > 0 && left > 0 ? left : 0);
        if (k < 0)
            return k;
        for (int i = 0; i < k; i++) {
            int err = take(s, &own[i]);
            if (err)
                return err;
        }
        if (k > 0)
            continue;
        /* Nothing below: something is due, the time is over, or somebody has called wake(). */
        return (int)zero__store_hand_out(s, cqes, max, &next);
    }
}

static int fault_wake(struct zero_store *s)
{
    return s->ops.wake(s->inner);
}

static int fault_close(struct zero_store *s)
{
    int err = s->ops.close(s->inner);

    if (!err) /* else what is under way still ends in requests of this store */
        free(s);
    return err;
}

static const struct zero_offload_ops ops = {
    .size = sizeof(struct zero_offload_ops),
    .probe = fault_probe,
    .open = fault_open,
    .info = fault_info,
    .resize = fault_resize,
    .reg = fault_reg,
    .unreg = fault_unreg,
    .submit = fault_submit,
    .poll = fault_poll,
    .wake = fault_wake,
    .close = fault_close,
};

ZERO__PLUGIN(STORE_NAME, OFFLOAD, &ops, __VERSION__)
