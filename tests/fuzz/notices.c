/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What another rank says of itself when ranks open a context, split a communicator or exchange
 * memory: first over the library's exchange, where a record of the input lies over what this rank
 * says, then in words. If it is taken for a communicator, collectives run on that. Bit 0 of the
 * first byte: sums may be added in any order; bit 1: the deadline has passed.
 */
#include "fuzz.h"

#include "messages.h"
#include "plugins/common/p2p/place.h"

#define MOST 4096

/* The same as this rank, four times over the exchange; then in words, and collectives. */
struct conversation {
    unsigned char how, same[4];
    struct fake_notice notices[2];
    struct fake_good good;
} __attribute__((packed));

#define SPLIT(turn, ...) FAKE_NOTICE(turn, .call = P2P_CALL_SPLIT, __VA_ARGS__)
#define CONVERSATION(how, root, ...)                                              \
    {                                                                             \
        how, {0}, {SPLIT(0, __VA_ARGS__), SPLIT(1, __VA_ARGS__)}, FAKE_GOOD(root) \
    }
static const struct conversation agreed = CONVERSATION(0, 1, .key = 0),
                                 before = CONVERSATION(0, 0, .key = -1),
                                 alone = CONVERSATION(0, 1, .color = -1),
                                 at_once = CONVERSATION(2, 1, .key = 0);

/* Not the same in the first of them: a rank that does not know its host, with short messages. */
struct stranger {
    unsigned char how, bytes;
    struct p2p_place place;
    unsigned char same[3];
    struct fake_notice notices[2];
    struct fake_good good;
} __attribute__((packed));

#define STRANGER(how, ...)                                                         \
    {                                                                              \
        how, sizeof(struct p2p_place) / 2, {.max_message = 512, __VA_ARGS__}, {0}, \
            {SPLIT(0, .key = 0), SPLIT(1, .key = 0)}, FAKE_GOOD(1)                 \
    }
static const struct stranger in_pieces = STRANGER(0, .relaxed = 0),
                             in_a_ring = STRANGER(1, .relaxed = 1);

/* There is nobody to wait for. */
static const struct {
    unsigned char how, same, bytes;
    struct p2p_notice notice;
} __attribute__((packed)) nobody = {2,
                                    0,
                                    sizeof(struct p2p_notice) / 2,
                                    {.call = P2P_CALL_SPLIT, .color = -1, .next_id = 1}};

/* A rank that comes first in the first split. */
static const struct {
    unsigned char how, same, bytes;
    struct p2p_notice notice;
    unsigned char same_again[2];
    struct fake_notice notices[2];
    struct fake_good good;
} __attribute__((packed)) another = {0,
                                     0,
                                     sizeof(struct p2p_notice) / 2,
                                     {.call = P2P_CALL_SPLIT, .key = -7, .next_id = 5},
                                     {0},
                                     {SPLIT(0, .key = 0), SPLIT(1, .key = 0)},
                                     FAKE_GOOD(0)};

/* In an open, in the exchange or in words: what no rank says. */
struct opening {
    unsigned char how, bytes;
    struct p2p_place place;
} __attribute__((packed));
struct exchange {
    unsigned char how, same, bytes;
    struct p2p_notice notice;
} __attribute__((packed));
struct words {
    unsigned char how, same[4];
    struct fake_notice notices[2];
} __attribute__((packed));

#define OPENING(...)                                     \
    {                                                    \
        0, sizeof(struct p2p_place) / 2, { __VA_ARGS__ } \
    }
#define EXCHANGE(...)                           \
    {                                           \
        0, 0, sizeof(struct p2p_notice) / 2,    \
        {                                       \
            .call = P2P_CALL_SPLIT, __VA_ARGS__ \
        }                                       \
    }
#define WORDS(...)                                                   \
    {                                                                \
        0, {0},                                                      \
        {                                                            \
            FAKE_NOTICE(0, __VA_ARGS__), FAKE_NOTICE(1, __VA_ARGS__) \
        }                                                            \
    }
static const struct opening nothing = OPENING(.max_message = 0),
                            relaxed = OPENING(.max_message = 1000, .relaxed = 1);
static const struct exchange failed = EXCHANGE(.status = -EIO),
                             no_errno = EXCHANGE(.status = INT32_MIN),
                             color = EXCHANGE(.color = -2),
                             number = EXCHANGE(.next_id = P2P_IDS + 1),
                             last = EXCHANGE(.next_id = P2P_IDS);
static const struct words call = WORDS(.call = P2P_CALL_EXCHANGE),
                          failed_later = WORDS(.call = P2P_CALL_SPLIT, .status = -5);

const struct fuzz_seed fuzz_seeds[] = {
    {&agreed, sizeof agreed, FAKE_SPLIT | FAKE_DONE},
    {&in_pieces, sizeof in_pieces, FAKE_SPLIT | FAKE_DONE},
    {&in_a_ring, sizeof in_a_ring, FAKE_SPLIT | FAKE_DONE | FAKE_RING},
    {&before, sizeof before, FAKE_SPLIT | FAKE_DONE},
    {&alone, sizeof alone, FAKE_SPLIT | FAKE_DONE},
    {&at_once, sizeof at_once, FAKE_SPLIT | FAKE_DONE},
    {&nobody, sizeof nobody, FAKE_SPLIT | FAKE_DONE},
    {&another, sizeof another, FAKE_SPLIT | FAKE_DONE},
    {&failed, sizeof failed, FAKE_NOT_SPLIT},
    {&no_errno, sizeof no_errno, FAKE_NOT_SPLIT},
    {&nothing, sizeof nothing, FAKE_NOT_SPLIT},
    {&color, sizeof color, FAKE_NOT_SPLIT},
    {&number, sizeof number, FAKE_NOT_SPLIT},
    {&last, sizeof last, FAKE_NOT_SPLIT},
    {&relaxed, sizeof relaxed, FAKE_NOT_SPLIT},
    {&call, sizeof call, FAKE_NOT_SPLIT},
    {&failed_later, sizeof failed_later, FAKE_NOT_SPLIT},
    {NULL, 0, 0},
};

unsigned fuzz_reached;

static void hears(struct fake *f, void *said, uint32_t bytes)
{
    if (bytes == sizeof(struct p2p_place) || bytes == sizeof(struct p2p_notice))
        fake_record(f, said, bytes);
}

static void use(struct fake *f, struct fake_rank *r, struct zero_comm *comm)
{
    fake_collectives(comm, r->mr);
    fake_converse(f, r->ctx, comm);
    fake_check(zero__p2p_error(comm));
    fuzz_reached |= FAKE_SPLIT | fake_reached(f, comm);
    if (comm->way.hosts)
        fuzz_reached |= FAKE_RING;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fake fake = {.hears = hears};
    struct zero_comm *world, *part = NULL;
    struct fake_rank r;

    if (size < 1)
        return 0;
    fake.relaxed = data[0] & 1;
    fake.late = data[0] & 2;
    fake.data = data + 1;
    fake.size = size - 1;
    int err = fake_open(&fake, MOST, &r) ? 0 : -EINVAL;
    if (!err)
        err = zero__p2p_split(r.ctx, NULL, 0, 0, &world);
    if (!err)
        err = zero__p2p_exchange(r.ctx, r.mr);
    if (!err) {
        if (world->ranks == 2) { /* the peer may have left it */
            fake_must_listen(&fake);
            fake.gathers = world;
        }
        err = zero__p2p_split(r.ctx, world, 0, 0, &part);
        fake.gathers = NULL;
    }
    if (err)
        fuzz_reached |= FAKE_NOT_SPLIT;
    else
        use(&fake, &r, part);
    fake_check(err);
    fake_end(&r);
    return 0;
}
