/* SPDX-License-Identifier: Apache-2.0 */
#include "io.h"

#include <errno.h>

const char *zero__io_name(uint32_t op)
{
    switch (op) {
    case ZERO_IO_READ:
        return "read";
    case ZERO_IO_WRITE:
        return "write";
    case ZERO_IO_SYNC:
        return "sync";
    default:
        return "?";
    }
}

int zero__io_check(const struct zero__voice *voice, const struct zero_io *io,
                   const struct zero_store *store, uint64_t store_bytes, uint32_t offset_align,
                   uint32_t buffer_align)
{
    const struct zero__io_region *region = (const struct zero__io_region *)io->buf.mr;
    const char *what = zero__io_name(io->op);
    unsigned long long off = io->store_off, mem = io->buf.off, n = io->buf.len;

    if (*what == '?')
        return zero__say(voice, -EINVAL, "operation %u is not known", io->op);
    if (io->flags)
        return zero__say(voice, -EINVAL, "flags 0x%x of a %s are not known", io->flags, what);
    if (io->reserved[0] || io->reserved[1])
        return zero__say(voice, -EINVAL, "a reserved field of a %s is not 0", what);
    if (io->op == ZERO_IO_SYNC)
        return n ? zero__say(voice, -EINVAL, "a sync carries no bytes") : 0;
    if (!region || region->store != store || !region->base)
        return zero__say(voice, -EINVAL, "%s: the memory is not registered with this store", what);
    if (!n || n % offset_align || off % offset_align)
        return zero__say(voice, -EINVAL,
                         "%s of %llu bytes at %llu: both are multiples of %u, and bytes not 0",
                         what, n, off, offset_align);
    if (off > store_bytes || n > store_bytes - off)
        return zero__say(voice, -ERANGE, "%s of %llu bytes at %llu of a store of %llu", what, n,
                         off, (unsigned long long)store_bytes);
    if (mem > region->bytes || n > region->bytes - mem)
        return zero__say(voice, -ERANGE, "%s: bytes %llu + %llu lie outside a region of %llu", what,
                         mem, n, (unsigned long long)region->bytes);
    if ((uintptr_t)(region->base + mem) % buffer_align)
        return zero__say(voice, -EINVAL, "%s: the memory at %p does not begin at a multiple of %u",
                         what, (const void *)(region->base + mem), buffer_align);
    return 0;
}
