/* SPDX-License-Identifier: Apache-2.0 */
/* The module in the library: a fat binary that names every device function for each of its targets.
 */
#include "config.h" /* for memmem() */

#include "../tap.h"

#include "../../plugins/cuda/kernel/launch.h"

/* Occurrences of a name as a whole word. */
static unsigned count_name(const char *name)
{
    const unsigned char *at = zero__cuda_module, *end = at + zero__cuda_module_bytes;
    size_t length = strlen(name);
    unsigned n = 0;

    while (at < end && (at = memmem(at, (size_t)(end - at), name, length))) {
        unsigned char next = at + length < end ? at[length] : 0;
        n += !(next == '_' || (next >= '0' && next <= '9') || (next >= 'a' && next <= 'z'));
        at += length;
    }
    return n;
}

int main(void)
{
    uint32_t magic = 0;

    ok(zero__cuda_module_bytes > 10000, "the module is there");
    ok((uintptr_t)zero__cuda_module % 16 == 0, "and aligned");
    memcpy(&magic, zero__cuda_module, sizeof magic);
    ok(magic == 0xba55ed50, "it is a fat binary");
    diag("%zu bytes", zero__cuda_module_bytes);
    for (uint32_t i = 0; i < ZERO__CUDA_N_KERNELS; i++) {
        unsigned n = count_name(zero__cuda_kernel_name(i));
        if (!ok(n >= 2, "%s is in it", zero__cuda_kernel_name(i)))
            diag("%u times", n);
    }
    done();
}
