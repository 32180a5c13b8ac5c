/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What another rank says of itself when ranks split a communicator or exchange memory: first over
 * the library's exchange, where a record of the input lies over what this rank says, then in words.
 * If it is taken for a communicator, collectives run on that. Bit 0 of the first byte: sums may be
 * added in any order.
 */
#include "fuzz.h"

#include "messages.h"

#define MOST 4096

struct word {
    unsigned char bytes;
    struct {
        uint32_t word;
        int32_t err;
        uint64_t index, granted;
        struct p2p_notice notice;
    } __attribute__((packed)) m;
} __attribute__((packed));

#define NOTICE(turn, ...)           \
    {                               \
        sizeof(struct word) / 2,    \
        {                           \
            P2P_NOTICE, 0, turn, 0, \
            {                       \
                __VA_ARGS__         \
            }                       \
        }                           \
    }

/* The same as this rank, three times over the exchange; then in words. */
static const struct {
    unsigned char relaxed, same[3];
    struct word words[2];
} __attribute__((packed))
agreed = {0,
          {0},
          {NOTICE(0, .call = P2P_CALL_SPLIT, .next_id = 1, .host = 1, .max_message = MOST),
           NOTICE(1, .call = P2P_CALL_SPLIT, .next_id = 1, .host = 1, .max_message = MOST)}};

static const struct {
    unsigned char relaxed, same[3];
    struct word words[2];
} __attribute__((packed)) in_a_ring = {
    1,
    {0},
    {NOTICE(0, .call = P2P_CALL_SPLIT, .next_id = 1, .relaxed = 1, .host = 1, .max_message = 512),
     NOTICE(1, .call = P2P_CALL_SPLIT, .next_id = 1, .relaxed = 1, .host = 1, .max_message = 512)}};

/* Not the same in the first of them. */
static const struct {
    unsigned char relaxed, bytes;
    struct p2p_notice notice;
    unsigned char same[2];
} __attribute__((packed)) another = {
    0,
    sizeof(struct p2p_notice) / 2,
    {.call = P2P_CALL_SPLIT, .color = 0, .key = -7, .next_id = 5, .host = 9, .max_message = 1000},
    {0}};

/* Messages that carry nothing. */
static const struct {
    unsigned char relaxed, same[3];
    struct word words[2];
} __attribute__((packed))
nothing = {0,
           {0},
           {NOTICE(0, .call = P2P_CALL_SPLIT, .next_id = 1, .max_message = 0),
            NOTICE(1, .call = P2P_CALL_SPLIT, .next_id = 1, .max_message = 0)}};

static const struct {
    unsigned char relaxed, bytes;
    struct p2p_notice notice;
} __attribute__((packed)) failed = {
    0,
    sizeof(struct p2p_notice) / 2,
    {.call = P2P_CALL_SPLIT, .status = INT32_MIN, .color = 0, .host = 9, .max_message = 1000}};

const struct fuzz_seed fuzz_seeds[] = {
    {&agreed, sizeof agreed, 0},   {&in_a_ring, sizeof in_a_ring, 0}, {&another, sizeof another, 0},
    {&nothing, sizeof nothing, 0}, {&failed, sizeof failed, 0},       {NULL, 0, 0},
};

unsigned fuzz_reached;

static void hears(struct fake *f, void *said, uint32_t bytes)
{
    if (bytes == sizeof(struct p2p_notice))
        fake_record(f, said, bytes);
}

static void use(struct fake *f, struct fake_rank *r, struct zero_comm *comm)
{
    fake_collective(comm, r->mr, ZERO_ALL_REDUCE);
    fake_collective(comm, r->mr, ZERO_ALL_GATHER);
    fake_collective(comm, r->mr, ZERO_BARRIER);
    fake_turn(r->ctx);
    while (fake_say(f))
        fake_turn(r->ctx);
    fake_check(zero__p2p_error(comm));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fake fake = {.hears = hears};
    struct zero_comm *world, *part = NULL;
    struct fake_rank r;

    if (size < 1)
        return 0;
    fake.relaxed = data[0] & 1;
    fake.data = data + 1;
    fake.size = size - 1;
    int err = fake_open(&fake, MOST, &r) ? 0 : -EINVAL;
    if (!err)
        err = zero__p2p_split(r.ctx, NULL, 0, 0, &world);
    if (!err)
        err = zero__p2p_exchange(r.ctx, r.mr);
    if (!err) {
        if (world->ranks == 2) /* the peer may have left it */
            fake_must_listen(&fake);
        fake.flows = true;
        err = zero__p2p_split(r.ctx, world, 0, 0, &part);
        fake.flows = false;
    }
    if (!err)
        use(&fake, &r, part);
    fake_check(err);
    fake_end(&r);
    return 0;
}
