/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes on what ranks print, whole lines with the rank in front. Never blocks: a reader that does
 * not read holds up the ranks' output, not the launcher.
 */
#ifndef ZERO_TOOLS_RUN_OUTPUT_H
#define ZERO_TOOLS_RUN_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

struct output_sink {
    int fd;
    bool shared; /* a rank writes to this terminal too: erase its unfinished line first */
    bool broken; /* nobody reads any more */
    char *bytes;
    size_t len, room;
};

struct output_stream {
    int fd; /* -1: closed */
    int rank, digits;
    struct output_sink *sink;
    char *line; /* what has come of the current line */
    size_t len, room;
};

/* May more be read? No while the sink is full. */
bool output_wants(const struct output_stream *stream);
/* Reads once and queues the lines that are complete; closes the stream at its end. */
void output_read(struct output_stream *stream);
/* Queues what is left of an unfinished line, closes the stream and frees it. */
void output_close(struct output_stream *stream);

/* Writes what the descriptor takes without blocking (poll said it takes something). */
void output_write(struct output_sink *sink);
/* Frees the sink; returns how many bytes it has not written. */
size_t output_finish(struct output_sink *sink);

#endif
