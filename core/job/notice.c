/* SPDX-License-Identifier: Apache-2.0 */
#include "job/notice.h"

#include <errno.h>
#include <string.h>

#include "base/status.h"
#include "machine/heard.h"
#include "machine/text.h"

static const char magic[8] = "zero-p1";

void zero__notice_init(struct zero__notice *n)
{
    memset(n, 0, sizeof *n);
    memcpy(n->magic, magic, sizeof n->magic);
}

int zero__notice_read(const void *bytes, size_t size, struct zero__notice *out)
{
    const char *address = (const char *)bytes + offsetof(struct zero__notice, address);

    if (size != sizeof *out || memcmp(bytes, magic, sizeof magic) != 0 ||
        !memchr(address, 0, sizeof out->address))
        return -EPROTO;
    for (const char *c = address; *c; c++) /* errors quote it */
        if ((unsigned char)*c <= ' ' || *c == 0x7f)
            return -EPROTO;
    memcpy(out, bytes, sizeof *out);
    out->err = out->err ? zero__errno_heard(out->err, -EPROTO) : 0;
    zero__text_clean(out->why, sizeof out->why);
    return 0;
}
