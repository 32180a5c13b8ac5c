/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A comm plugin for threads of one process whose messages go through queues in memory: what the
 * collectives over messages are tried with. Messages arrive late and in any order, and every now
 * and then there is no room for one, as the seed of the option ZERO_MEM_SEED has it; with even
 * seeds receives are late, and there is room for a few large messages only. ZERO_MEM_MOST is how
 * many bytes a message may have. ZERO_MEM_CUT is the address of an atomic_int: the peers in these
 * bits are lost to this rank. ZERO_MEM_DROP is that of another one: what is sent to the peers in
 * these bits never arrives, and nobody is told. ZERO_MEM_HOLD is that of a third: large messages
 * that have met their receive are counted there, cannot be cancelled, and come when the transport
 * is stopped, as those of a transport that has to be moved for that. ZERO_MEM_BROKEN is the address
 * of one that breaks the transport when it is not 0, ZERO_MEM_REFUSE of one with the peers to which
 * nothing can be sent.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../plugins/common/oob.h"
#include "../../plugins/common/p2p/internal.h"
#include "../../plugins/common/wake.h"
#include "machine/clock.h"

/*
 * Variants declare less, and refuse the rest: `movers` no reductions, `sums` one kind of sums, and
 * `least` what training needs.
 */
#ifndef MEM_NAME
#define MEM_NAME "mem"
#endif
#ifndef MEM_KINDS
#define MEM_KINDS ZERO__ALL_KINDS
#endif
#ifndef MEM_DTYPES
#define MEM_DTYPES ZERO__ALL_DTYPES
#endif
#ifndef MEM_REDOPS
#define MEM_REDOPS (1u << ZERO_SUM | 1u << ZERO_MAX)
#endif
#ifndef MEM_FLAGS
#define MEM_FLAGS (ZERO_COMM_ORDERED | ZERO_COMM_ACCUMULATE | ZERO_COMM_FINGERPRINT)
#endif
/* `again` has a defect: after each message of data goes a short one that nobody waits for. */
#ifndef MEM_AGAIN
#define MEM_AGAIN 0
#endif
/* `lax` has another one: it takes what it does not declare. */
#ifndef MEM_LAX
#define MEM_LAX 0
#endif
#define NAME MEM_NAME
#define EAGER 4096 /* bytes that a send copies and forgets */
#define ROOM 2     /* large messages of a rank under way, with late receives */

/* A message on its way: from a sender to the inbox of its peer, and back when it was large. */
struct message {
    struct message *next;
    uint64_t tag, bytes;
    const void *data;        /* the sender's, or `copy` */
    struct zero__p2p_op *op; /* of a large send, ended by the sender */
    int32_t from;
    unsigned late; /* turns to wait */
    char copy[];
};

struct wanted {
    struct wanted *next;
    uint64_t tag;
    void *data;
    struct zero__p2p_op *op;
    struct message *held; /* what it has met */
};

struct mailbox {
    pthread_mutex_t lock;
    int fd; /* of wake.h: rung while there is a message */
    bool closed;
    struct message *arrived, *returned;
};

/* Shared by all ranks; the last one to leave frees it. */
struct hub {
    atomic_int users;
    int32_t ranks;
    struct mailbox boxes[];
};

struct mem {
    struct zero__p2p p2p; /* first */
    struct hub *hub;
    int32_t rank;
    uint64_t random;
    int under_way;         /* large messages */
    const atomic_int *cut; /* NULL: nobody */
    const atomic_int *drop; /* NULL: nothing is dropped */
    const atomic_int *broken; /* NULL: never */
    const atomic_int *refuse; /* NULL: nobody */
    atomic_int *hold;         /* NULL: nothing is held */
    struct wanted *held;
    struct message *here; /* arrived, not yet matched */
    struct wanted *wanted;
    struct zero_comm_ctx *ctx;
    struct zero__p2p_op again; /* of what goes after a message */
};

static uint64_t roll(struct mem *m)
{
    m->random ^= m->random << 13;
    m->random ^= m->random >> 7;
    m->random ^= m->random << 17;
    return m->random;
}

/* The tag is of the same collective, and of a chunk that no small one has. */
static void send_again(struct mem *m, int32_t peer, uint64_t tag, const void *data, uint64_t bytes)
{
    struct zero_comm *comm = m->ctx->comms; /* the test has one */
    int32_t p = 0;

    while (comm->world[p] != peer)
        p++;
    zero__p2p_send(comm, p, tag ^ 1u << 13, data, bytes < 8 ? bytes : 8, NULL, &m->again);
}

static int mem_send(struct zero__p2p *t, int32_t peer, uint64_t tag, const void *data,
                    uint64_t bytes, void *handle, struct zero__p2p_op *op)
{
    struct mem *m = (struct mem *)(void *)t;
    struct mailbox *box = &m->hub->boxes[peer];
    bool eager = bytes <= EAGER;
    struct message *msg;

    (void)handle;
    if (t->max_message && bytes > t->max_message)
        return -EMSGSIZE;
    if (m->refuse && (atomic_load(m->refuse) & 1 << peer))
        return -EHOSTUNREACH;
    if (roll(m) % 16 == 0 || (t->late_bytes && m->under_way >= ROOM))
        return -EAGAIN;
    msg = malloc(sizeof *msg + (eager ? bytes : 0));
    if (!msg)
        return -ENOMEM;
    *msg = (struct message){.tag = tag,
                            .bytes = bytes,
                            .data = data,
                            .op = eager ? NULL : op,
                            .from = m->rank,
                            .late = (unsigned)(roll(m) % 8)};
    if (eager) {
        memcpy(msg->copy, data, bytes);
        msg->data = msg->copy;
    }
    bool dropped = m->drop && (atomic_load(m->drop) & 1 << peer);
    pthread_mutex_lock(&box->lock);
    bool gone = box->closed || dropped;
    if (!gone) {
        msg->next = box->arrived;
        box->arrived = msg;
        zero__wake_ring(box->fd);
    }
    pthread_mutex_unlock(&box->lock);
    if (gone) { /* as a network would: nobody knows */
        free(msg);
        if (!eager)
            return 0;
    }
    if (eager)
        zero__p2p_end(op, (int64_t)bytes);
    else
        m->under_way++;
    if (MEM_AGAIN && !zero__p2p_tag_is_word(tag) && op != &m->again)
        send_again(m, peer, tag, data, bytes);
    return 0;
}

static int mem_recv(struct zero__p2p *t, int32_t peer, uint64_t tag, void *data, uint64_t bytes,
                    void *handle, struct zero__p2p_op *op)
{
    struct mem *m = (struct mem *)(void *)t;
    struct wanted *w;

    (void)peer;
    (void)handle;
    if (t->max_message && bytes > t->max_message)
        return -EMSGSIZE;
    if (roll(m) % 16 == 0)
        return -EAGAIN;
    w = malloc(sizeof *w);
    if (!w)
        return -ENOMEM;
    *w = (struct wanted){m->wanted, tag, data, op, NULL};
    m->wanted = w;
    return 0;
}

static void mem_cancel(struct zero__p2p *t, struct zero__p2p_op *op)
{
    struct mem *m = (struct mem *)(void *)t;

    for (struct wanted **link = &m->wanted; *link; link = &(*link)->next) {
        struct wanted *w = *link;
        if (w->op == op) {
            *link = w->next;
            free(w);
            zero__p2p_end(op, -ECANCELED);
            return;
        }
    }
}

/* The message has met its receive, or nobody will ever want it. */
static void message_end(struct mem *m, struct message *msg)
{
    struct mailbox *box = &m->hub->boxes[msg->from];

    if (!msg->op) {
        free(msg);
        return;
    }
    pthread_mutex_lock(&box->lock);
    if (box->closed) {
        free(msg);
    } else {
        msg->next = box->returned;
        box->returned = msg;
        zero__wake_ring(box->fd);
    }
    pthread_mutex_unlock(&box->lock);
}

/* The memory of a large message is its sender's, who may have left. */
static int64_t fetch(struct mem *m, const struct message *msg, const struct wanted *w)
{
    struct mailbox *box = &m->hub->boxes[msg->from];

    if (msg->bytes > w->op->bytes)
        return -EMSGSIZE;
    pthread_mutex_lock(&box->lock);
    if (!msg->op || !box->closed)
        memcpy(w->data, msg->data, msg->bytes);
    pthread_mutex_unlock(&box->lock);
    return (int64_t)msg->bytes;
}

/* The message, which is not arrived any more, meets its receive. */
static void meet(struct mem *m, struct message *msg, struct wanted *w)
{
    if (m->hold && msg->op) {
        w->held = msg;
        w->next = m->held;
        m->held = w;
        atomic_fetch_add(m->hold, 1);
        return;
    }
    zero__p2p_end(w->op, fetch(m, msg, w));
    free(w);
    message_end(m, msg);
}

/* The receive that the message is for; NULL: there is none yet. */
static struct wanted *match(struct mem *m, const struct message *msg)
{
    for (struct wanted **link = &m->wanted; *link; link = &(*link)->next) {
        struct wanted *w = *link;
        if (w->tag != msg->tag)
            continue;
        *link = w->next;
        return w;
    }
    return NULL;
}

static int mem_progress(struct zero__p2p *t)
{
    struct mem *m = (struct mem *)(void *)t;
    struct mailbox *box = &m->hub->boxes[m->rank];
    struct message *news, *back;

    if (m->broken && atomic_load(m->broken))
        return zero__p2p_explain(t, -EIO, "the cable is out");
    if (m->cut)
        t->n_lost = __builtin_popcount((unsigned)atomic_load(m->cut));
    pthread_mutex_lock(&box->lock);
    news = box->arrived;
    back = box->returned;
    box->arrived = box->returned = NULL;
    zero__wake_sleep(box->fd, -1, 0); /* only takes the ring */
    pthread_mutex_unlock(&box->lock);
    while (back) {
        struct message *next = back->next;
        zero__p2p_end(back->op, (int64_t)back->bytes);
        free(back);
        m->under_way--;
        back = next;
    }
    while (news) {
        struct message *next = news->next;
        news->next = m->here;
        m->here = news;
        news = next;
    }
    for (struct message **link = &m->here; *link;) {
        struct message *msg = *link;
        struct wanted *w = msg->late && --msg->late ? NULL : match(m, msg);
        if (w) {
            *link = msg->next;
            meet(m, msg, w);
        } else {
            link = &msg->next;
        }
    }
    return 0;
}

static int mem_lost(const struct zero__p2p *t, int32_t peer)
{
    const struct mem *m = (const struct mem *)(const void *)t;

    return atomic_load(m->cut) & 1 << peer ? -EPIPE : 0;
}

static void mem_wait(struct zero__p2p *t, int64_t timeout_ns)
{
    struct mem *m = (struct mem *)(void *)t;

    for (struct message *msg = m->here; msg; msg = msg->next)
        if (msg->late) /* as if it came a little later */
            return;
    zero__wake_sleep(t->wake_fd, m->hub->boxes[m->rank].fd, timeout_ns);
}

static int mem_reg(struct zero__p2p *t, void *base, uint64_t bytes, void **handle)
{
    (void)t;
    (void)base;
    (void)bytes;
    *handle = malloc(1); /* so that a forgotten unreg() is a leak */
    return *handle ? 0 : -ENOMEM;
}

static void mem_unreg(struct zero__p2p *t, void *handle)
{
    (void)t;
    free(handle);
}

static void drop(struct mem *m, struct message *list)
{
    while (list) {
        struct message *next = list->next;
        message_end(m, list);
        list = next;
    }
}

static void mem_stop(struct zero__p2p *t, bool aborted)
{
    struct mem *m = (struct mem *)(void *)t;
    struct mailbox *box = &m->hub->boxes[m->rank];
    struct message *news, *back;

    (void)aborted; /* what was sent is in the peers' hands */
    m->hold = NULL;
    while (m->held) {
        struct wanted *w = m->held;
        m->held = w->next;
        meet(m, w->held, w);
    }
    pthread_mutex_lock(&box->lock);
    box->closed = true;
    news = box->arrived;
    back = box->returned;
    box->arrived = box->returned = NULL;
    pthread_mutex_unlock(&box->lock);
    drop(m, news);
    drop(m, m->here);
    m->here = NULL;
    while (back) {
        struct message *next = back->next;
        free(back);
        back = next;
    }
    while (m->wanted) {
        struct wanted *next = m->wanted->next;
        free(m->wanted);
        m->wanted = next;
    }
}

static void mem_close(struct zero__p2p *t)
{
    struct mem *m = (struct mem *)(void *)t;
    struct hub *hub = m->hub;

    if (atomic_fetch_sub(&hub->users, 1) == 1) {
        for (int32_t p = 0; p < hub->ranks; p++) {
            pthread_mutex_destroy(&hub->boxes[p].lock);
            close(hub->boxes[p].fd);
        }
        free(hub);
    }
    free(m);
}

static const struct zero__p2p_ops transport = {
    .send = mem_send,
    .recv = mem_recv,
    .cancel = mem_cancel,
    .progress = mem_progress,
    .lost = mem_lost,
    .wait = mem_wait,
    .reg = mem_reg,
    .unreg = mem_unreg,
    .stop = mem_stop,
    .close = mem_close,
};

static struct hub *hub_new(const struct zero__voice *voice, int32_t ranks)
{
    struct hub *hub = calloc(1, sizeof *hub + (size_t)ranks * sizeof hub->boxes[0]);

    if (!hub)
        return NULL;
    hub->ranks = ranks;
    atomic_init(&hub->users, ranks);
    for (int32_t p = 0; p < ranks; p++) {
        pthread_mutex_init(&hub->boxes[p].lock, NULL);
        if (zero__wake_make(voice, &hub->boxes[p].fd))
            abort();
    }
    return hub;
}

struct hello {
    uint64_t pid, hub;
};

static int mem_open(const struct zero_comm_open *params, struct zero_comm_ctx **ctx)
{
    const struct zero_host *host = params->host;
    const struct zero__voice voice = {host, NAME};
    const struct zero_oob *oob = params->oob;
    const char *seed = host->param(host->ctx, NAME, "mem_seed", "1", "order of messages");
    const char *most = host->param(host->ctx, NAME, "mem_most", "0", "bytes of a message");
    const char *cut = host->param(host->ctx, NAME, "mem_cut", "0", "address of the peers to lose");
    const char *hold = host->param(host->ctx, NAME, "mem_hold", "0", "address of messages held");
    const char *lose = host->param(host->ctx, NAME, "mem_drop", "0", "address of deaf peers");
    const char *broken = host->param(host->ctx, NAME, "mem_broken", "0", "address of its end");
    const char *refuse = host->param(host->ctx, NAME, "mem_refuse", "0", "address of refusals");
    struct hello mine = {(uint64_t)getpid(), 0}, all[ZERO__P2P_MAX_RANKS];
    struct zero__p2p *t;
    int err = zero__p2p_new(&voice, params, &transport, sizeof(struct mem), &t);

    if (err)
        return err;
    struct mem *m = (struct mem *)(void *)t;
    if (oob->rank == 0)
        mine.hub = (uintptr_t)hub_new(&voice, oob->ranks);
    err = zero__oob_gather(&voice, oob, zero__deadline_ns(params->timeout_ns), "open", &mine,
                           sizeof mine, all);
    if (!err && all[0].pid != mine.pid)
        err = zero__say(&voice, -EXDEV, "ranks of other processes");
    if (err) {
        free(m);
        return err;
    }
    m->hub = (struct hub *)(uintptr_t)all[0].hub;
    m->rank = oob->rank;
    m->cut = (const atomic_int *)(uintptr_t)strtoull(cut, NULL, 0);
    m->hold = (atomic_int *)(uintptr_t)strtoull(hold, NULL, 0);
    m->broken = (const atomic_int *)(uintptr_t)strtoull(broken, NULL, 0);
    m->refuse = (const atomic_int *)(uintptr_t)strtoull(refuse, NULL, 0);
    m->drop = (const atomic_int *)(uintptr_t)strtoull(lose, NULL, 0);
    t->max_message = strtoull(most, NULL, 0);
    t->late_bytes = strtoull(seed, NULL, 0) % 2 ? 0 : EAGER + 1;
    m->random = strtoull(seed, NULL, 0) * 0x9e3779b97f4a7c15u + (uint64_t)oob->rank + 1;
    err = zero__p2p_open(params, t, ctx);
    if (!err)
        m->ctx = *ctx;
    return err;
}

static int mem_probe(const struct zero_host *host, struct zero_comm_caps *caps)
{
    const struct zero__voice voice = {host, NAME};

    int err = zero__p2p_caps(&voice, caps);

    caps->flags &= MEM_FLAGS;
    caps->kinds &= MEM_KINDS;
    caps->redops &= MEM_REDOPS;
    caps->dtypes &= MEM_DTYPES;
    return err;
}

static int is_declared(const struct zero_coll *c)
{
    if (c->kind > ZERO_BARRIER || c->src_dtype >= 32 || c->dst_dtype >= 32 || c->redop >= 32)
        return 1; /* wrong in itself */
    if (!(MEM_KINDS & 1u << c->kind))
        return 0;
    return !zero__coll_reduces(c->kind) ||
           ((MEM_REDOPS & 1u << c->redop) && (MEM_DTYPES & 1u << c->src_dtype) &&
            (MEM_DTYPES & 1u << c->dst_dtype) &&
            (!(c->flags & ZERO_COLL_ACCUMULATE) || (MEM_FLAGS & ZERO_COMM_ACCUMULATE) != 0));
}

static int mem_post(struct zero_comm *comm, const struct zero_coll *colls, uint32_t n, void *stream)
{
    for (uint32_t i = 0; i < n && !MEM_LAX; i++)
        if (!is_declared(&colls[i]))
            return zero__say(&comm->ctx->voice, -ENOTSUP,
                             "%s of this kind is not among what this plugin declares",
                             zero_coll_name(colls[i].kind));
    return zero__p2p_post(comm, colls, n, stream);
}

static const struct zero_comm_ops ops = {
    .size = sizeof(struct zero_comm_ops),
    .probe = mem_probe,
    .open = mem_open,
    .close = zero__p2p_close,
    .reg = zero__p2p_reg,
    .unreg = zero__p2p_unreg,
    .exchange = zero__p2p_exchange,
    .progress = zero__p2p_progress,
    .wake = zero__p2p_wake,
    .abort = zero__p2p_abort,
    .split = zero__p2p_split,
    .post = mem_post,
    .error = zero__p2p_error,
    .missing = zero__p2p_missing,
    .wire_bytes = zero__p2p_wire_bytes,
    .comm_close = zero__p2p_comm_close,
};

static const struct zero_iface ifaces[] = {
    {.kind = ZERO_IFACE_COMM, .major = ZERO_COMM_MAJOR, .minor = ZERO_COMM_MINOR, .ops = &ops},
};

static const struct zero_plugin plugin = {
    .size = sizeof(struct zero_plugin),
    .name = NAME,
    .version = "1",
    .build = __VERSION__,
    .ifaces = ifaces,
    .n_ifaces = 1,
};

ZERO_PLUGIN_EXPORT int zero_plugin_v1(const struct zero_host *host, const struct zero_plugin **out)
{
    (void)host;
    *out = &plugin;
    return 0;
}
