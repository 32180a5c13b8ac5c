/* SPDX-License-Identifier: Apache-2.0 */
/* What befalls a request when it comes: each fault that could counts it, and marks it if so. */
#include <signal.h>
#include <string.h>

#include "plugins/common/io.h"
#include "store.h"

/* Does it befall this request? Each request that it could befall counts once. */
static bool happens(struct store_fault *f, const struct zero_io *io)
{
    if (f->op && f->op != io->op)
        return false;
    f->seen++;
    if (f->seen < f->first || (f->seen - f->first) % f->every)
        return false;
    return f->times == 0 || (f->seen - f->first) / f->every < f->times;
}

static bool is_whole(const struct zero_store *s, const struct zero_io *io)
{
    return io->buf.len % s->align == 0 && io->store_off <= s->bytes &&
           io->buf.len <= s->bytes - io->store_off;
}

/* As far as can be told here; what is wrong goes below as it comes, where it is refused. */
static bool is_sound(const struct zero_store *s, const struct zero_io *io)
{
    return (io->op == ZERO_IO_READ || io->op == ZERO_IO_WRITE) && !io->flags && !io->reserved[0] &&
           !io->reserved[1] && io->buf.mr && io->buf.len && is_whole(s, io);
}

static void drop(const struct zero_store *s, struct store_request *r)
{
    if (!is_sound(s, &r->io))
        return;
    r->dropped = true;
    r->sent = r->ended = r->io.buf.len;
    zero__tell(&s->voice, ZERO_LOG_WARN,
               "a write of %llu bytes at %llu is acknowledged and not done, as ZERO_FAULT_IO wants",
               (unsigned long long)r->io.buf.len, (unsigned long long)r->io.store_off);
}

bool zero__store_befall(struct zero_store *s, struct store_request *r)
{
    for (int i = 0; i < s->n_faults; i++) {
        struct store_fault *f = &s->faults[i];
        if (!happens(f, &r->io))
            continue;
        switch (f->action) {
        case STORE_DELAY:
            r->delay_ns = (int64_t)f->value * 1000000;
            break;
        case STORE_CUT:
            if (is_whole(s, &r->io)) /* else it is wrong, and no piece of it may be right */
                r->piece = f->value < s->align ? s->align : f->value / s->align * s->align;
            break;
        case STORE_SLOW:
            r->rate = f->value;
            break;
        case STORE_BUSY:
            return true;
        case STORE_REORDER:
            r->reordered = is_sound(s, &r->io);
            break;
        case STORE_DROP:
            drop(s, r);
            break;
        case STORE_ERROR:
            r->err = -(int)f->value;
            r->wanted = true;
            zero__tell(&s->voice, ZERO_LOG_WARN,
                       "a %s of %llu bytes at %llu fails, as ZERO_FAULT_IO wants: %s",
                       zero__io_name(r->io.op), (unsigned long long)r->io.buf.len,
                       (unsigned long long)r->io.store_off, strerror(-r->err));
            break;
        default:
            zero__tell(&s->voice, ZERO_LOG_WARN, "%s",
                       "the process is killed, as ZERO_FAULT_IO wants");
            raise(SIGKILL);
        }
    }
    return false;
}
