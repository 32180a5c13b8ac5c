/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "ucx.h"

int zero__ucx_errno(ucs_status_t status)
{
    switch (status) {
    case UCS_OK:
        return 0;
    case UCS_INPROGRESS:
        return -EINPROGRESS;
    case UCS_ERR_NO_RESOURCE:
        return -EAGAIN;
    case UCS_ERR_NO_MEMORY:
        return -ENOMEM;
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_INVALID_ADDR:
        return -EINVAL;
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_TIMED_OUT: /* a connection was given up; -ETIMEDOUT are libzero's own deadlines */
    case UCS_ERR_ENDPOINT_TIMEOUT:
        return -EHOSTUNREACH;
    case UCS_ERR_NO_DEVICE:
    case UCS_ERR_NO_ELEM:
        return -ENODEV;
    case UCS_ERR_NOT_IMPLEMENTED:
    case UCS_ERR_UNSUPPORTED:
        return -ENOTSUP;
    case UCS_ERR_MESSAGE_TRUNCATED:
    case UCS_ERR_BUFFER_TOO_SMALL:
        return -EMSGSIZE;
    case UCS_ERR_CANCELED:
        return -ECANCELED;
    case UCS_ERR_REJECTED:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_CONNECTION_RESET:
        return -ECONNRESET;
    default:
        return -EIO;
    }
}
