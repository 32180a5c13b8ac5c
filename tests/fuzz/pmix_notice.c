/* SPDX-License-Identifier: Apache-2.0 */
/* What rank 0 has published through PMIx, and the address in it as it is looked up and printed. */
#include "fuzz.h"

#include <errno.h>

#include "job/notice.h"

static const struct zero__notice good = {
    .magic = "zero-p1", .port = 29500, .has_secret = 1, .address = "10.0.0.1", .secret = {1, 2}};
static const struct zero__notice longest = {.magic = "zero-p1", .address = "[2001:db8::7]"};

static const struct zero__notice another = {.magic = "zero-p0", .address = "10.0.0.1"};
static const struct zero__notice reason = {
    .magic = "zero-p1", .err = -ENODEV, .why = "no interface\n"};
static const struct zero__notice blank = {.magic = "zero-p1", .address = "10.0.0.1 "};

enum { TAKEN = 1u << 0, REFUSED = 1u << 1 };

const struct fuzz_seed fuzz_seeds[] = {
    {&good, sizeof good, TAKEN},
    {&longest, sizeof longest, TAKEN},
    {&reason, sizeof reason, TAKEN},
    {&longest, sizeof longest - 1, REFUSED},
    {&another, sizeof another, REFUSED},
    {&blank, sizeof blank, REFUSED},
    {NULL, 0, 0},
};

unsigned fuzz_reached;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zero__notice n;
    unsigned char *copy = malloc(size ? size : 1); /* its end is where the input's is */

    if (!copy)
        return 0;
    memcpy(copy, data, size);
    int err = zero__notice_read(copy, size, &n);
    fuzz_reached |= err ? REFUSED : TAKEN;
    if (!err) {
        if (strlen(n.address) >= sizeof n.address)
            abort();
        for (const char *c = n.address; *c; c++)
            if ((unsigned char)*c <= ' ')
                abort();
        if (n.err > 0 || strlen(n.why) >= sizeof n.why || strchr(n.why, '\n'))
            abort();
    }
    free(copy);
    return 0;
}
