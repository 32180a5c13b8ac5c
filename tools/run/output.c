/* SPDX-License-Identifier: Apache-2.0 */
/* See output.h. A line of one megabyte without an end is cut. */
#include "config.h"

#include "output.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES 16384
#define LINE_BYTES (1u << 20)
#define QUEUE_BYTES (256u << 10)

static bool grow(char **p, size_t *room, size_t want)
{
    size_t n = *room ? *room : 4096;
    while (n < want)
        n *= 2;
    char *q = n == *room ? *p : realloc(*p, n);
    if (!q)
        return false;
    *p = q;
    *room = n;
    return true;
}

static void queue(struct output_sink *sink, const char *text, size_t len)
{
    if (sink->broken || !grow(&sink->bytes, &sink->room, sink->len + len))
        return;
    memcpy(sink->bytes + sink->len, text, len);
    sink->len += len;
}

/* What a terminal would show of the line: the text after its last carriage return. */
static void queue_line(struct output_stream *s, const char *line, size_t len)
{
    char prefix[32];
    const char *cr;

    if (len && line[len - 1] == '\r')
        len--;
    if ((cr = memrchr(line, '\r', len))) {
        len -= (size_t)(cr + 1 - line);
        line = cr + 1;
    }
    if (s->sink->shared)
        queue(s->sink, "\r\033[K", 4);
    int n = snprintf(prefix, sizeof prefix, "[%*d] ", s->digits, s->rank);
    queue(s->sink, prefix, (size_t)n);
    queue(s->sink, line, len);
    queue(s->sink, "\n", 1);
}

bool output_wants(const struct output_stream *stream)
{
    return stream->fd >= 0 && stream->sink->len < QUEUE_BYTES;
}

void output_read(struct output_stream *s)
{
    if (!grow(&s->line, &s->room, s->len + READ_BYTES)) {
        output_close(s);
        return;
    }
    ssize_t n = read(s->fd, s->line + s->len, READ_BYTES);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0 || s->sink->broken) { /* a rank that goes on writing gets SIGPIPE, as in a pipe */
        output_close(s);
        return;
    }
    char *start = s->line, *end = s->line + s->len + n, *nl = s->line + s->len;
    while ((nl = memchr(nl, '\n', (size_t)(end - nl)))) {
        queue_line(s, start, (size_t)(nl - start));
        start = ++nl;
    }
    s->len = (size_t)(end - start);
    if (s->len >= LINE_BYTES) {
        queue_line(s, start, s->len);
        s->len = 0;
    }
    memmove(s->line, start, s->len);
}

void output_close(struct output_stream *s)
{
    if (s->fd < 0)
        return;
    if (s->len)
        queue_line(s, s->line, s->len);
    close(s->fd);
    free(s->line);
    s->fd = -1;
    s->line = NULL;
    s->len = s->room = 0;
}

void output_write(struct output_sink *sink)
{
    /* A pipe that poll() calls writable takes PIPE_BUF bytes without blocking. */
    size_t n = sink->len < PIPE_BUF ? sink->len : PIPE_BUF;
    ssize_t done = write(sink->fd, sink->bytes, n);

    if (done < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (done < 0) {
        sink->broken = true;
        done = (ssize_t)sink->len;
    }
    sink->len -= (size_t)done;
    memmove(sink->bytes, sink->bytes + done, sink->len);
}

size_t output_finish(struct output_sink *sink)
{
    size_t left = sink->len;

    free(sink->bytes);
    sink->bytes = NULL;
    sink->len = sink->room = 0;
    return left;
}
