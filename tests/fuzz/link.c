/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of the control channel, as the other end of a connection may send them. */
#include "config.h"

#include "fuzz.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "job/link.h"

static const struct {
    struct zero__wire_header h;
    struct zero__wire_hello hello;
} hello = {{.magic = ZERO__WIRE_MAGIC, .type = ZERO__WIRE_HELLO, .bytes = sizeof hello.hello},
           {.version = PACKAGE_VERSION, .rank = 1, .ranks = 2, .model = "model"}};
static const struct {
    struct zero__wire_header h, next;
    char body[8];
} part = {{.magic = ZERO__WIRE_MAGIC, .type = ZERO__WIRE_PART, .seq = 1},
          {.magic = ZERO__WIRE_MAGIC, .type = ZERO__WIRE_RESULT, .bytes = 8, .len = 8},
          "body"};

enum { MESSAGE = 1u << 0, BODY = 1u << 1, MALFORMED = 1u << 2, ENDED = 1u << 3 };

const struct fuzz_seed fuzz_seeds[] = {
    {&hello, sizeof hello, MESSAGE | BODY | ENDED},
    {&part, sizeof part, MESSAGE | BODY | ENDED},
    {&part, sizeof part.h - 1, ENDED},
    {&part, sizeof part - 1, MESSAGE | ENDED},
    FUZZ_TEXT("another protocol says something", ENDED),
    FUZZ_TEXT("another protocol says something!", MALFORMED),
    {NULL, 0, 0},
};

unsigned fuzz_reached;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char body[ZERO__WIRE_BODY_BYTES];
    struct zero__link link;
    int fds[2], e = 0;

    if (size > 65536 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds))
        return 0;
    if (send(fds[0], data, size, MSG_NOSIGNAL) != (ssize_t)size)
        e = -1;
    close(fds[0]);
    zero__link_init(&link, fds[1], 0);
    while (e >= 0) {
        e = zero__link_read(&link);
        if (e == ZERO__LINK_HEADER)
            link.in_body = body; /* a header that is out of bounds never comes so far */
        else if (e == ZERO__LINK_MESSAGE)
            fuzz_reached |= link.in.bytes ? MESSAGE | BODY : MESSAGE;
        else if (e == ZERO__LINK_WAIT)
            break;
    }
    fuzz_reached |= e == -EPIPE ? ENDED : e == -EPROTO ? MALFORMED : 0;
    zero__link_close(&link);
    return 0;
}
