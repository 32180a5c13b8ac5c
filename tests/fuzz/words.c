/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words between ranks over messages, which are the input. This rank has an all_reduce, a gather and
 * a barrier under way.
 */
#include "fuzz.h"

#include "messages.h"

#define MOST 4096 /* bytes of a message; small buffers allow many inputs a second */

static const struct {
    unsigned char bytes;
    struct {
        uint32_t word;
        int32_t err;
        uint64_t index, granted;
        struct zero__fingerprint print;
    } __attribute__((packed)) post;
    unsigned char more;
    struct {
        uint32_t word;
        int32_t err;
        uint64_t index, granted;
    } __attribute__((packed)) credit;
} __attribute__((packed)) good = {sizeof good.post,
                                  {P2P_POST, 0, 0, 1, {.count = 64}},
                                  sizeof good.credit,
                                  {P2P_CREDIT, 0, 0, 2}};

const struct fuzz_seed fuzz_seeds[] = {
    {&good, sizeof good, 0},
    FUZZ_TEXT("\x30\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0 a reason for an end", 0),
    FUZZ_TEXT("\x30\x03\0\0\0\0\0\0\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0 a reason, and no error", 0),
    FUZZ_TEXT("\x38\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 0),
    {NULL, 0, 0},
};

unsigned fuzz_reached;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fake fake = {.data = data, .size = size};
    struct fake_rank r;
    struct zero_comm *comm;

    if (fake_open(&fake, MOST, &r) && !zero__p2p_split(r.ctx, NULL, 0, 0, &comm) &&
        !zero__p2p_exchange(r.ctx, r.mr)) {
        fake_collective(comm, r.mr, ZERO_ALL_REDUCE);
        fake_collective(comm, r.mr, ZERO_ALL_GATHER);
        fake_collective(comm, r.mr, ZERO_BARRIER);
        fake_must_listen(&fake);
        while (fake_say(&fake))
            fake_turn(r.ctx);
        fake_check(zero__p2p_error(comm));
    }
    fake_end(&r);
    return 0;
}
