/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of libfabric that are no errnos: each has one that fits, and keeps libfabric's words. */
#include "plugins/ofi/ofi.h"

#include <errno.h>
#include <string.h>

#include "tests/tap.h"

int main(void)
{
    static const struct {
        int fi, err;
    } pairs[] = {{FI_ETRUNC, -EMSGSIZE},
                 {FI_ETOOSMALL, -EMSGSIZE},
                 {FI_EOPBADSTATE, -EINVAL},
                 {FI_EBADFLAGS, -EINVAL},
                 {FI_EDOMAIN, -EINVAL},
                 {FI_ENOEQ, -ENODEV},
                 {FI_ENOCQ, -ENODEV},
                 {FI_ENOAV, -ENODEV},
                 {FI_ENOKEY, -ENOKEY},
                 {FI_ECRC, -EBADMSG},
                 {FI_EOVERRUN, -EOVERFLOW},
                 {FI_ENORX, -ENOBUFS},
                 {FI_EOTHER, -EIO},
                 {FI_EAVAIL, -EIO},
                 {270, -ENOMEM},
                 {271, -EHOSTUNREACH},
                 {1000, -EIO},
                 {ECONNRESET, -ECONNRESET},
                 {FI_ETIMEDOUT, -EHOSTUNREACH}, /* no deadline of libzero */
                 {FI_EAGAIN, -EAGAIN},
                 {0, -EIO}};
    struct zero__p2p t = {0};
    int unknown = 0;

    for (unsigned i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        is_int(zero__ofi_errno(-pairs[i].fi), pairs[i].err, "-%d, %s", pairs[i].fi,
               zero__ofi_text(-pairs[i].fi));
        is_int(zero__ofi_errno(pairs[i].fi), pairs[i].err, "%d", pairs[i].fi);
    }
    for (int e = FI_EOTHER; e < FI_ERRNO_MAX; e++) {
        const char *text = strerror(-zero__ofi_errno(e));
        unknown += !text || strstr(text, "Unknown error") || zero__ofi_errno(e) < -255;
    }
    is_int(unknown, 0, "no error of libfabric is an unknown errno");
    ok(strcmp(zero__ofi_text(-FI_ENOCQ), fi_strerror(FI_ENOCQ)) == 0, "the words are libfabric's");
    is_int(zero__p2p_explain(&t, -EIO, "%s (%s)", zero__ofi_text(FI_ECRC), "cable"), -EIO,
           "explaining keeps the error");
    ok(strstr(t.why, "(cable)") && strstr(t.why, fi_strerror(FI_ECRC)), "and both words");
    done();
}
