/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libfabric's errors are errnos, and from FI_ERRNO_OFFSET on its own, which the C library has no
 * words for.
 */
#include <errno.h>

#include "ofi.h"

int zero__ofi_errno(int64_t err)
{
    int e = (int)(err < 0 ? -err : err);

    if (e < FI_ERRNO_OFFSET && e != ETIMEDOUT)
        return e ? -e : -EIO;
    switch (e) {
    case ETIMEDOUT: /* a connection was given up; -ETIMEDOUT are libzero's own deadlines */
        return -EHOSTUNREACH;
    case FI_ETOOSMALL:
    case FI_ETRUNC:
        return -EMSGSIZE;
    case FI_EOPBADSTATE:
    case FI_EBADFLAGS:
    case FI_EDOMAIN:
        return -EINVAL;
    case FI_ENOEQ:
    case FI_ENOCQ:
    case FI_ENOAV:
        return -ENODEV;
    case FI_ENOKEY:
        return -ENOKEY;
    case FI_ECRC:
        return -EBADMSG;
    case FI_EOVERRUN:
        return -EOVERFLOW;
    case FI_ENORX:
        return -ENOBUFS;
    case 270: /* FI_ENOMR, of later versions */
        return -ENOMEM;
    case 271: /* FI_EFIREWALLADDR */
        return -EHOSTUNREACH;
    default: /* FI_EOTHER, FI_EAVAIL, and what is new */
        return -EIO;
    }
}

const char *zero__ofi_text(int64_t err)
{
    return fi_strerror((int)(err < 0 ? -err : err));
}
