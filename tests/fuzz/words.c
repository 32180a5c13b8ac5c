/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words between ranks over messages, which are the input, and how its data arrives. This rank has
 * one collective of every kind under way. Of the first byte bit 0: large receives begin after own
 * sends; bit 1: the transport has little room; bit 2: sends take their time.
 */
#include "fuzz.h"

#include "messages.h"

#define MOST 512 /* bytes of a message; small buffers allow many inputs a second */
#define LATE 256

struct conversation {
    unsigned char how;
    struct fake_good good;
    struct fake_notice notice;
    struct fake_word bye;
} __attribute__((packed));

#define CONVERSATION(how)                              \
    {                                                  \
        how, FAKE_GOOD(1), FAKE_NOTICE(0, .key = 0),   \
            FAKE_WORD(P2P_BYE, FAKE_GOOD_WORDS + 1, 0) \
    }
static const struct conversation good = CONVERSATION(0), late = CONVERSATION(1),
                                 full = CONVERSATION(2), slow = CONVERSATION(4),
                                 all = CONVERSATION(7);

/* A transport keeps no order between words. */
static const struct {
    unsigned char how;
    struct fake_word bye, credit;
    struct fake_post posts[FAKE_COLLECTIVES];
    struct fake_data data[FAKE_MESSAGES];
} __attribute__((packed)) bye_first = {0, FAKE_WORD(P2P_BYE, FAKE_COLLECTIVES + 1, 0),
                                       FAKE_WORD(P2P_CREDIT, 2, 5), FAKE_POSTS(1), FAKE_ALL_DATA};

static const struct {
    unsigned char how;
    struct fake_word bye;
} __attribute__((packed)) gone = {0, FAKE_WORD(P2P_BYE, 0, 0)};

static const struct {
    unsigned char how;
    struct fake_post post;
} __attribute__((packed))
differs = {0, FAKE_POST(0, 1, .count = FAKE_SUM, .kind = ZERO_ALL_GATHER)};

static const struct {
    unsigned char how;
    struct fake_post posts[2];
} __attribute__((packed)) twice = {0,
                                   {FAKE_POST(0, 1, .kind = ZERO_ALL_REDUCE, .count = FAKE_SUM),
                                    FAKE_POST(0, 1, .kind = ZERO_ALL_REDUCE, .count = FAKE_SUM)}};

/* Data that is too short, as it is and of a sum; longer than its place; and none at all. */
struct bad_data {
    unsigned char how;
    struct fake_post posts[FAKE_COLLECTIVES];
    struct fake_data data;
} __attribute__((packed));
static const struct bad_data too_short = {0, FAKE_POSTS(1), {FAKE_DATA, 4}},
                             short_chunk = {0, FAKE_POSTS(1), {FAKE_DATA + 3, 4}},
                             too_long = {0, FAKE_POSTS(1), {FAKE_DATA + 3, -EMSGSIZE}},
                             failed = {0, FAKE_POSTS(1), {FAKE_DATA + 1, -ECONNRESET}};

const struct fuzz_seed fuzz_seeds[] = {
    {&good, sizeof good, FAKE_DONE | FAKE_HEARD | FAKE_BYE | FAKE_CLOSED},
    {&late, sizeof late, FAKE_DONE | FAKE_HEARD | FAKE_BYE | FAKE_CLOSED},
    {&full, sizeof full, FAKE_DONE | FAKE_HEARD | FAKE_BYE | FAKE_CLOSED},
    {&slow, sizeof slow, FAKE_DONE | FAKE_HEARD | FAKE_BYE | FAKE_CLOSED},
    {&all, sizeof all, FAKE_DONE | FAKE_HEARD | FAKE_BYE | FAKE_CLOSED},
    {&bye_first, sizeof bye_first, FAKE_DONE | FAKE_BYE | FAKE_CLOSED},
    {&gone, sizeof gone, FAKE_BYE | FAKE_GONE},
    {&differs, sizeof differs, FAKE_DIFFER},
    {&twice, sizeof twice, FAKE_DISORDER},
    {&too_short, sizeof too_short, FAKE_SHORT},
    {&short_chunk, sizeof short_chunk, FAKE_SHORT},
    {&too_long, sizeof too_long, FAKE_LONG},
    {&failed, sizeof failed, FAKE_BROKE},
    FUZZ_TEXT(
        "\0\x18\x03\0\0\0\xfb\xff\xff\xff\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0 a reason for an end\n",
        FAKE_TOLD),
    FUZZ_TEXT("\0\x18\x03\0\0\0\0\0\0\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0 a reason, and no error",
              FAKE_TOLD),
    FUZZ_TEXT(
        "\0\x18\x04\0\0\0\x83\xff\xff\xff\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0 rank 1 aborted, or so",
        FAKE_TOLD | FAKE_ABORTED),
    {NULL, 0, 0},
};

unsigned fuzz_reached;

/* The peer has left, and so may this rank, without waiting for anybody. */
static unsigned leave(struct fake *f, struct zero_comm *comm)
{
    struct zero_comm_ctx *ctx = comm->ctx;

    zero__p2p_comm_close(comm);
    fake_progress_twice(f, ctx);
    return ctx->comms || ctx->closed ? 0 : FAKE_CLOSED;
}

static void use(struct fake *f, struct fake_rank *r, struct zero_comm *comm)
{
    fake_collectives(comm, r->mr);
    fake_must_listen(f);
    fake_converse(f, r->ctx, comm);
    fake_check(zero__p2p_error(comm));

    unsigned reached = fake_reached(f, comm);
    if ((reached & FAKE_DONE) && (reached & FAKE_BYE) && !comm->err)
        reached |= leave(f, comm);
    fuzz_reached |= reached;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fake fake = {.p2p = {.n_ended = 0}};
    struct fake_rank r;
    struct zero_comm *comm;

    if (!size)
        return 0;
    fake.data = data + 1;
    fake.size = size - 1;
    fake.p2p.late_bytes = data[0] & 1 ? LATE : 0;
    fake.full = data[0] & 2;
    fake.slow = data[0] & 4;
    if (fake_open(&fake, MOST, &r) && !zero__p2p_split(r.ctx, NULL, 0, 0, &comm) &&
        !zero__p2p_exchange(r.ctx, r.mr))
        use(&fake, &r, comm);
    fake_end(&r);
    return 0;
}
