/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A collective under way: first its receives, but for late ones, then word to the peers, then to
 * each peer that agrees what it is to get. Sends begin with the next rank, so that not all ranks
 * send to one at a time.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "../copy.h"
#include "internal.h"

/* What goes to rank p as it is, and what comes from it so. */
static void plain_parts(const struct zero_comm *comm, struct p2p_run *run, int32_t p)
{
    const struct zero_coll *c = &run->coll->c;
    struct p2p_part *part = &run->parts[p];
    uint64_t size = zero_dtype_bytes(c->dst_dtype), first, n;

    if (c->kind == ZERO_ALL_GATHER) {
        part->out_at = run->coll->src;
        part->in_at = run->coll->dst + (uint64_t)p * c->count * size;
        part->out_bytes = part->in_bytes = c->count * size;
    } else if (c->kind == ZERO_BROADCAST) {
        part->out_at = run->coll->src;
        part->in_at = run->coll->dst;
        part->out_bytes = comm->rank == c->root ? c->count * size : 0;
        part->in_bytes = p == c->root ? c->count * size : 0;
    } else if (zero__p2p_gathers(c)) {
        zero__coll_part(c->count, comm->rank, comm->ranks, &first, &n);
        part->out_at = run->coll->dst + first * size;
        part->out_bytes = n * size;
        zero__coll_part(c->count, p, comm->ranks, &first, &n);
        part->in_at = run->coll->dst + first * size;
        part->in_bytes = n * size;
    }
}

/* Chunks of `elements` that `count` fill. */
static uint64_t chunks_of(uint64_t count, uint64_t elements)
{
    return count / elements + (count % elements != 0);
}

static void reduction_fill(struct zero_comm *comm, struct p2p_run *run)
{
    const struct zero_coll *c = &run->coll->c;

    run->chunk = comm->chunk_bytes / zero_dtype_bytes(c->src_dtype);
    zero__p2p_sum_range(c, comm->rank, comm->ranks, &run->first, &run->count);
    run->chunks = chunks_of(run->count, run->chunk);
    for (int32_t p = 0; p < comm->ranks; p++) {
        uint64_t first, count;
        zero__p2p_sum_range(c, p, comm->ranks, &first, &count);
        run->parts[p].chunks = p == comm->rank ? 0 : chunks_of(count, run->chunk);
    }
}

static void part_clear(struct p2p_part *part)
{
    *part = (struct p2p_part){.message = part->message, .feeds = true};
}

static void run_begin(struct zero_comm *comm)
{
    uint64_t s = comm->started;
    struct p2p_run *run = zero__p2p_run_at(comm, s);
    struct p2p_part *parts = run->parts;
    struct p2p_coll *coll = &comm->colls[s % P2P_SLOTS];

    *run = (struct p2p_run){.coll = coll, .index = s, .parts = parts, .n_agreed = 1};
    zero__fingerprint_make(&coll->c, s, &run->print);
    const bool stepped = zero__p2p_is_stepped(comm, &coll->c);
    for (int32_t p = 0; p < comm->ranks; p++) {
        part_clear(&parts[p]);
        if (p != comm->rank && !stepped)
            plain_parts(comm, run, p);
    }
    if (coll->c.kind == ZERO_ALL_GATHER && !(coll->c.flags & ZERO_COLL_INPLACE))
        run->own_bytes = coll->c.src.len;
    run->streams = zero__coll_streams(&coll->c, comm->ranks, &comm->ctx->caches);
    if (stepped)
        zero__p2p_steps_fill(comm, run);
    else if (zero__coll_reduces(coll->c.kind))
        reduction_fill(comm, run);
    comm->started++;
    comm->stirred = true;
}

void zero__p2p_start(struct zero_comm *comm)
{
    while (comm->started < comm->posted && comm->started - comm->completed < P2P_RUNS)
        run_begin(comm);
}

struct p2p_run *zero__p2p_next(struct zero_comm *comm, uint64_t *number)
{
    if (comm->next_index < comm->completed) { /* it had none, or they are taken */
        comm->next_index = comm->completed;
        comm->next_number = 0;
    }
    for (; comm->next_index < comm->started; comm->next_index++, comm->next_number = 0) {
        struct p2p_run *run = zero__p2p_run_at(comm, comm->next_index);
        if (comm->next_number < (comm->way.hosts ? run->steps : run->chunks)) {
            *number = comm->next_number++;
            return run;
        }
    }
    return NULL;
}

static uint64_t at_most(uint64_t bytes, uint64_t most)
{
    return bytes < most ? bytes : most;
}

/* The next piece of what comes from rank p as it is. */
static int ask(struct zero_comm *comm, struct p2p_run *run, int32_t p)
{
    struct p2p_part *part = &run->parts[p];
    uint64_t bytes = at_most(part->in_bytes - part->in_asked, comm->piece);
    int err;

    if (bytes == 0)
        return 0;
    err = zero__p2p_recv(
        comm, p, zero__p2p_data_tag(comm, p, run->index, part->in_asked / comm->piece, false),
        part->in_at + part->in_asked, bytes, run->coll->dst_handle, &part->in);
    if (!err)
        part->in_asked += bytes;
    return err;
}

/* Receives come before the word that lets peers send, unless they are late. */
static void ask_all(struct zero_comm *comm, struct p2p_run *run)
{
    while (run->asked < comm->ranks && !comm->err) {
        if (!zero__p2p_is_late(comm, run->parts[run->asked].in_bytes) && ask(comm, run, run->asked))
            return;
        run->asked++;
    }
}

static void take_in(struct zero_comm *comm, struct p2p_run *run, int32_t p)
{
    struct p2p_part *part = &run->parts[p];

    if (part->in.busy || part->in_got == part->in_bytes)
        return;
    if (part->in_asked > part->in_got) {
        if (!zero__p2p_arrived(comm, p, &part->in, part->in_asked - part->in_got, "data"))
            return;
        part->in_got = part->in_asked;
        comm->stirred = true;
    }
    if (run->asked == comm->ranks && (part->agreed || !zero__p2p_is_late(comm, part->in_bytes)))
        ask(comm, run, p);
}

static void put_out(struct zero_comm *comm, struct p2p_run *run, int32_t p)
{
    struct p2p_part *part = &run->parts[p];
    uint64_t bytes;
    void *handle = run->coll->src_handle;

    if (part->out.busy || part->out_gone == part->out_bytes)
        return;
    if (part->out_sent > part->out_gone) {
        if (!zero__p2p_arrived(comm, p, &part->out, part->out_sent - part->out_gone, "data"))
            return;
        part->out_gone = part->out_sent;
        comm->stirred = true;
    }
    bytes = at_most(part->out_bytes - part->out_sent, comm->piece);
    if (bytes == 0 || (zero__p2p_gathers(&run->coll->c) && run->summed < run->chunks) ||
        (zero__p2p_is_late(comm, part->out_bytes) && !part->said))
        return;
    if (zero__p2p_gathers(&run->coll->c))
        handle = run->coll->dst_handle;
    if (!zero__p2p_send(
            comm, p,
            zero__p2p_data_tag(comm, comm->rank, run->index, part->out_sent / comm->piece, false),
            part->out_at + part->out_sent, bytes, handle, &part->out))
        part->out_sent += bytes;
}

/* Bytes of chunk k of what rank p sums, and where it begins in this rank's source. */
static uint64_t chunk_at(const struct zero_comm *comm, const struct p2p_run *run, int32_t p,
                         uint64_t k, uint64_t *off)
{
    const struct zero_coll *c = &run->coll->c;
    uint64_t size = zero_dtype_bytes(c->src_dtype), first, count, done = k * run->chunk;

    zero__p2p_sum_range(c, p, comm->ranks, &first, &count);
    *off = (first + done) * size;
    return at_most(count - done, run->chunk) * size;
}

/* May chunk k go to rank p? It was granted and, if it is late, the word that lets p send is out. */
static bool may_go(const struct zero_comm *comm, const struct p2p_run *run, int32_t p, uint64_t k,
                   uint64_t bytes)
{
    const struct p2p_part *part = &run->parts[p];

    if (k >= comm->peers[p].inbox[run->index % P2P_INBOX].granted)
        return false;
    return !zero__p2p_is_late(comm, bytes) ||
           (part->said && (part->told == run->chunks || k < part->told));
}

/* They end in any order, their places are used in turn. */
static void put_chunks(struct zero_comm *comm, struct p2p_run *run, int32_t p)
{
    struct p2p_part *part = &run->parts[p];
    uint64_t off, bytes;

    while (part->chunks_gone < part->chunks_sent &&
           !part->chunk[part->chunks_gone % P2P_DEPTH].busy) {
        bytes = chunk_at(comm, run, p, part->chunks_gone, &off);
        if (!zero__p2p_arrived(comm, p, &part->chunk[part->chunks_gone % P2P_DEPTH], bytes,
                               "a chunk"))
            return;
        part->chunks_gone++;
    }
    while (part->chunks_sent < part->chunks && part->chunks_sent - part->chunks_gone < P2P_DEPTH) {
        uint64_t k = part->chunks_sent;
        bytes = chunk_at(comm, run, p, k, &off);
        if (!may_go(comm, run, p, k, bytes))
            return;
        if (zero__p2p_send(comm, p, zero__p2p_data_tag(comm, comm->rank, run->index, k, true),
                           run->coll->src + off, bytes, run->coll->src_handle,
                           &part->chunk[k % P2P_DEPTH])) {
            part->refused = true;
            return;
        }
        part->chunks_sent++;
    }
}

static void agree(struct zero_comm *comm, struct p2p_run *run, int32_t p)
{
    const struct p2p_inbox *box = &comm->peers[p].inbox[run->index % P2P_INBOX];
    char why[P2P_WHY];

    if (!box->posted || box->index != run->index) {
        if (zero__p2p_has_left(&comm->peers[p]))
            zero__p2p_fail(comm, -EPIPE,
                           "rank %d has closed the communicator, on which this rank posted %s",
                           comm->world[p], zero_coll_name(run->coll->c.kind));
        return;
    }
    if (box->print.index != run->index) {
        zero__p2p_fail(comm, -EPROTO,
                       "rank %d broke the protocol: it speaks of collective %" PRIu64
                       " in the place of %" PRIu64,
                       comm->world[p], box->print.index, run->index);
        return;
    }
    if (zero__fingerprint_differs(comm->world[comm->rank], &run->print, comm->world[p], &box->print,
                                  why, sizeof why)) {
        zero__p2p_fail(comm, -EPROTO, "%s", why);
        return;
    }
    run->parts[p].agreed = true;
    run->n_agreed++;
    comm->stirred = true;
}

/* This rank's own part of a gather. */
static void copy_own(struct zero_comm *comm, struct p2p_run *run, uint64_t *budget)
{
    uint64_t n = at_most(run->own_bytes - run->copied, *budget);

    if (n == 0)
        return;
    zero__copy(comm->ctx->isa, run->coll->dst + (uint64_t)comm->rank * run->own_bytes + run->copied,
               run->coll->src + run->copied, n,
               run->streams & ZERO__STREAM_COPIES ? ZERO__COPY_STREAM : ZERO__COPY_ANY);
    run->copied += n;
    *budget -= n;
    comm->stirred = true;
}

void zero__p2p_run(struct zero_comm *comm, struct p2p_run *run, uint64_t *budget)
{
    if (run->asked < comm->ranks)
        ask_all(comm, run);
    for (int32_t i = 1; i < comm->ranks && !comm->err; i++) {
        int32_t p = (comm->rank + i) % comm->ranks;
        if (!run->parts[p].agreed)
            agree(comm, run, p);
        if (comm->err)
            return;
        if (run->parts[p].agreed) {
            put_out(comm, run, p);
            if (run->parts[p].chunks && !comm->err)
                put_chunks(comm, run, p);
        }
        if (!comm->err)
            take_in(comm, run, p);
    }
    if (!comm->err)
        copy_own(comm, run, budget);
}

bool zero__p2p_is_done(const struct zero_comm *comm, const struct p2p_run *run)
{
    if (run->n_agreed < comm->ranks || run->summed < run->chunks || run->copied < run->own_bytes ||
        run->asked < comm->ranks || run->steps_gone < run->steps)
        return false;
    for (int32_t p = 0; p < comm->ranks; p++) {
        const struct p2p_part *part = &run->parts[p];
        if (p == comm->rank)
            continue;
        if (!part->said || part->word.busy || part->in_got < part->in_bytes ||
            part->out_gone < part->out_bytes || part->chunks_gone < part->chunks)
            return false;
    }
    return true;
}
