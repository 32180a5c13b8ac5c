/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The module in the library: a fat binary with code for every architecture that configure chose,
 * each with every device function, and with PTX of the last one for later devices.
 */
#include "config.h" /* for memmem(), too */

#include "../tap.h"

#include "../../plugins/cuda/kernel/launch.h"

#ifndef ZERO_CUDA_TOOLKIT /* its version is not known */
#define ZERO_CUDA_TOOLKIT 0
#endif

static const uint32_t archs[] = {ZERO_CUDA_ARCHS};
#define N_ARCHS (sizeof archs / sizeof *archs)

/* Heads of the container and of an image in it, as CUDA 11 to 13 write them. */
struct head {
    uint32_t magic;
    uint16_t version, head_bytes;
    uint64_t bytes; /* behind the head */
};
enum { PTX = 1, CODE = 2 };
struct image {
    uint16_t kind, version;
    uint32_t head_bytes;
    uint64_t bytes; /* behind the head */
    uint32_t unused[3];
    uint32_t arch;
};

/* The image at *at, and the place of the next one; NULL behind the last, or where there is none. */
static const unsigned char *image_next(size_t *at, struct image *image)
{
    const size_t from = *at;

    if (from > zero__cuda_module_bytes || zero__cuda_module_bytes - from < sizeof *image)
        return NULL;
    memcpy(image, zero__cuda_module + from, sizeof *image);
    if (image->head_bytes < sizeof *image ||
        image->bytes > zero__cuda_module_bytes - from ||
        image->head_bytes > zero__cuda_module_bytes - from - image->bytes)
        return NULL;
    *at = from + image->head_bytes + image->bytes;
    return zero__cuda_module + from + image->head_bytes;
}

/* Is a name there, as a whole word? */
static bool has_name(const unsigned char *at, uint64_t bytes, const char *name)
{
    const unsigned char *end = at + bytes;
    size_t length = strlen(name);

    while (at < end && (at = memmem(at, (size_t)(end - at), name, length))) {
        unsigned char next = at + length < end ? at[length] : 0;
        if (!(next == '_' || (next >= '0' && next <= '9') || (next >= 'a' && next <= 'z')))
            return true;
        at += length;
    }
    return false;
}

/* Code of an architecture: all of the device functions. */
static void test_code(const unsigned char *data, const struct image *image)
{
    ok(image->bytes > 10000 && !memcmp(data, "\177ELF", 4), "sm_%u: a file of code", image->arch);
    for (uint32_t i = 0; i < ZERO__CUDA_N_KERNELS; i++) {
        const char *name = zero__cuda_kernel_name(i);
        ok(has_name(data, image->bytes, name), "sm_%u: %s is in it", image->arch, name);
    }
}

int main(void)
{
    struct head head = {0};
    struct image image;
    const unsigned char *data;
    unsigned n_code[N_ARCHS] = {0}, n_ptx = 0;

    ok((uintptr_t)zero__cuda_module % 16 == 0, "the module is aligned");
    if (zero__cuda_module_bytes < sizeof head)
        bail("the module is not there");
    memcpy(&head, zero__cuda_module, sizeof head);
    ok(head.magic == 0xba55ed50 && head.version == 1, "it is a fat binary");
    diag("%zu bytes", zero__cuda_module_bytes);

    size_t at = head.head_bytes;
    while ((data = image_next(&at, &image))) {
        n_ptx += image.kind == PTX && image.arch == archs[N_ARCHS - 1];
        if (image.kind != CODE)
            continue;
        for (size_t i = 0; i < N_ARCHS; i++)
            n_code[i] += image.arch == archs[i];
        test_code(data, &image);
    }
    is_int((long long)at, (long long)(head.head_bytes + head.bytes), "images up to its end");
    for (size_t i = 0; i < N_ARCHS; i++)
        is_int(n_code[i], 1, "code for sm_%u", archs[i]);
    is_int(n_ptx, 1, "PTX of the last of them");
    /* What a toolkit of that age knows; configure leaves out what does not compile. */
    if (ZERO_CUDA_TOOLKIT >= 12080)
        ok(N_ARCHS == 3 && archs[0] == 80 && archs[1] == 90 && archs[2] == 100,
           "configure chose sm_80, sm_90 and sm_100");
    done();
}
