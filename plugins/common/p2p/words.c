/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words between the ranks of a communicator. One receive per peer waits for them; how many can be
 * on their way is bounded, so what comes faster waits in the transport. Nothing in a word is used
 * before it was checked.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "internal.h"
#include "machine/heard.h"
#include "machine/text.h"

#define HEAD_BYTES offsetof(struct p2p_message, print)

/*
 * type 1 | communicator 14 | from 12 | collective 6 | of a sum 1 | chunk 14. Collectives and chunks
 * wrap around: of a communicator and a peer no more are under way than P2P_INBOX and a window.
 */
#define CHUNK_BITS 14
#define COLL_BITS 6
#define COLL_AT (CHUNK_BITS + 1)
#define FROM_AT (COLL_AT + COLL_BITS)
#define ID_AT (FROM_AT + 12)

_Static_assert(P2P_INBOX <= 1u << COLL_BITS, "collectives under way have a tag each");
_Static_assert((1u << COLL_BITS) % P2P_RUNS == 0, "which of them is under way is in the tag");
_Static_assert(ZERO__P2P_MAX_RANKS <= 1 << (ID_AT - FROM_AT), "ranks have a tag each");
_Static_assert(P2P_IDS <= 1u << (ZERO__P2P_TAG_BITS - 1 - ID_AT), "and so have communicators");

static uint64_t tag_of(const struct zero_comm *comm, int32_t from, bool word, uint64_t low)
{
    return (uint64_t)word << (ZERO__P2P_TAG_BITS - 1) | (uint64_t)comm->id << ID_AT |
           (uint64_t)(uint32_t)from << FROM_AT | low;
}

uint64_t zero__p2p_data_tag(const struct zero_comm *comm, int32_t from, uint64_t index,
                            uint64_t chunk, bool of_sum)
{
    return tag_of(comm, from, false,
                  (index & ((1u << COLL_BITS) - 1)) << COLL_AT | (uint64_t)of_sum << CHUNK_BITS |
                      (chunk & ((1u << CHUNK_BITS) - 1)));
}

struct p2p_run *zero__p2p_tag_run(struct zero_comm *comm, uint64_t tag)
{
    return zero__p2p_run_at(comm, tag >> COLL_AT & ((1u << COLL_BITS) - 1));
}

static int word_recv(struct zero_comm *comm, int32_t p)
{
    struct p2p_peer *peer = &comm->peers[p];

    return zero__p2p_recv(comm, p, tag_of(comm, p, true, 0), peer->message_in,
                          sizeof *peer->message_in, comm->handle, &peer->word_in);
}

int zero__p2p_word_send(struct zero_comm *comm, int32_t p, struct p2p_message *m,
                        struct zero__p2p_op *op)
{
    uint64_t bytes = HEAD_BYTES;

    if (m->word == P2P_POST)
        bytes += sizeof m->print;
    else if (m->word == P2P_NOTICE)
        bytes += sizeof m->notice;
    else if (m->word == P2P_FAIL || m->word == P2P_ABORT)
        bytes += strnlen(m->why, sizeof m->why - 1) + 1;
    int err =
        zero__p2p_send(comm, p, tag_of(comm, comm->rank, true, 0), m, bytes, comm->handle, op);
    if (!err && m->word != P2P_BYE)
        comm->peers[p].n_said++;
    return err;
}

static void disorder(struct zero_comm *comm, int32_t p, const struct p2p_message *m)
{
    zero__p2p_fail(comm, -EPROTO,
                   "rank %d broke the protocol: word %u about collective %llu, this rank is at "
                   "%llu; do all ranks use the same version of the plugin?",
                   comm->world[p], m->word, (unsigned long long)m->index,
                   (unsigned long long)comm->completed);
}

/* The peer's place for collective m->index; NULL after an error. */
static struct p2p_inbox *inbox_of(struct zero_comm *comm, int32_t p, const struct p2p_message *m)
{
    struct p2p_inbox *box = &comm->peers[p].inbox[m->index % P2P_INBOX];

    if (m->index < comm->completed || m->index >= comm->started + P2P_RUNS) {
        disorder(comm, p, m);
        return NULL;
    }
    if (box->index != m->index)
        *box = (struct p2p_inbox){.index = m->index};
    return box;
}

static void hear_post(struct zero_comm *comm, int32_t p, const struct p2p_message *m)
{
    struct p2p_inbox *box = inbox_of(comm, p, m);

    if (!box)
        return;
    if (box->posted) {
        disorder(comm, p, m);
        return;
    }
    box->posted = true;
    box->print = m->print;
    if (m->granted > box->granted)
        box->granted = m->granted;
}

/* A credit may come after its collective is complete here: all it grants was sent already. */
static void hear_credit(struct zero_comm *comm, int32_t p, const struct p2p_message *m)
{
    struct p2p_inbox *box;

    if (m->index < comm->completed)
        return;
    box = inbox_of(comm, p, m);
    if (box && m->granted > box->granted)
        box->granted = m->granted;
}

/* What this rank sees itself says more than the peer's words. */
static void hear_fail(struct zero_comm *comm, struct p2p_message *m)
{
    if (m->word == P2P_ABORT && m->index < (uint64_t)comm->ctx->ranks)
        comm->ctx->left = (int32_t)m->index;
    zero__text_clean(m->why, sizeof m->why);
    zero__p2p_fail(comm, zero__errno_heard(m->err, -EPROTO), "%s", m->why);
}

static void hear(struct zero_comm *comm, int32_t p, struct p2p_message *m, uint64_t bytes)
{
    struct p2p_peer *peer = &comm->peers[p];

    if (bytes < HEAD_BYTES)
        m->word = 0;
    peer->n_heard += m->word != P2P_BYE;
    switch (m->word) {
    case P2P_POST:
        if (bytes == HEAD_BYTES + sizeof m->print) {
            hear_post(comm, p, m);
            return;
        }
        break;
    case P2P_CREDIT:
        if (bytes == HEAD_BYTES) {
            hear_credit(comm, p, m);
            return;
        }
        break;
    case P2P_BYE:
        if (bytes == HEAD_BYTES && !peer->bye) {
            peer->bye = true;
            peer->last_word = m->index;
            return;
        }
        break;
    case P2P_NOTICE:
        /* This rank has not left turn n_notices - 1 yet, so the peer is not beyond the next. */
        if (bytes == HEAD_BYTES + sizeof m->notice && m->index <= comm->n_notices &&
            m->index + 1 >= comm->n_notices && peer->notice_turns[m->index % 2] != m->index + 1) {
            peer->notices[m->index % 2] = m->notice;
            peer->notice_turns[m->index % 2] = m->index + 1;
            return;
        }
        break;
    case P2P_FAIL:
    case P2P_ABORT:
        if (bytes > HEAD_BYTES) {
            if (bytes < sizeof *m)
                ((char *)m)[bytes] = 0;
            hear_fail(comm, m);
            return;
        }
        break;
    default:
        break;
    }
    disorder(comm, p, m);
}

void zero__p2p_listen(struct zero_comm *comm)
{
    for (int32_t p = 0; p < comm->ranks && !comm->err; p++) {
        struct p2p_peer *peer = &comm->peers[p];
        if (p == comm->rank || peer->word_in.busy || zero__p2p_has_left(peer))
            continue;
        if (peer->word_in.res < 0) {
            zero__p2p_arrived(comm, p, &peer->word_in, 0, "a word");
            return;
        }
        if (peer->word_in.res > 0) {
            hear(comm, p, peer->message_in, (uint64_t)peer->word_in.res);
            peer->word_in.res = 0;
            comm->stirred = true;
        }
        if (!comm->err && !zero__p2p_has_left(peer))
            word_recv(comm, p);
    }
}

/* POST, and credits after it, for one peer; one word at a time. */
static void talk_to(struct zero_comm *comm, struct p2p_run *run, int32_t p)
{
    struct p2p_part *part = &run->parts[p];
    struct p2p_message *m = part->message;

    if (part->word.busy || (part->said && (part->told == run->granted || !part->feeds)))
        return;
    if (part->said && part->word.res < 0) {
        zero__p2p_arrived(comm, p, &part->word, 0, "a word");
        return;
    }
    m->word = part->said ? P2P_CREDIT : P2P_POST;
    m->index = run->index;
    m->granted = run->granted;
    m->print = run->print;
    if (!zero__p2p_word_send(comm, p, m, &part->word)) {
        part->said = true;
        part->told = run->granted;
        comm->stirred |= comm->ctx->t->late_bytes != 0; /* data may go now */
    }
}

/* Starts with the next rank, so that not all talk to the same one first. */
void zero__p2p_talk(struct zero_comm *comm)
{
    for (uint64_t s = comm->completed; s < comm->started && !comm->err; s++) {
        struct p2p_run *run = zero__p2p_run_at(comm, s);
        if (run->asked < comm->ranks)
            break;
        for (int32_t i = 1; i < comm->ranks && !comm->err; i++)
            talk_to(comm, run, (comm->rank + i) % comm->ranks);
    }
}
