/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration file: lines "name = value", "#" starts a comment at the start of a line or
 * after a blank. Every error names the file and the line. Knows nothing of which options exist.
 */
#ifndef ZERO_BASE_CONFIG_FILE_H
#define ZERO_BASE_CONFIG_FILE_H

#include <stddef.h>

#define ZERO__CONFIG_BYTES 65536 /* larger files are refused */
#define ZERO__CONFIG_LINES 1024  /* settings in a file */

struct zero__config_line {
    const char *name, *value; /* into the text */
    unsigned line;            /* from 1 */
};

struct zero__config_file {
    char *path; /* as errors show it */
    char *text;
    struct zero__config_line *lines;
    unsigned n_lines;
};

/*
 * Reads ZERO_CONFIG, or ./zero.conf when that variable is not set. ./zero.conf may be missing, and
 * is left alone with a sentence in warning[bytes] when another user could have written it; a file
 * that ZERO_CONFIG names must be readable. *file is all zero where nothing was read; the caller
 * ends it with zero__config_close(). Programs that run with raised rights read no file.
 */
int zero__config_open(struct zero__config_file *file, char *warning, size_t bytes);

/* Parses `text` (len bytes, not terminated); `path` is for errors. */
int zero__config_parse(const char *path, const char *text, size_t len,
                       struct zero__config_file *file);

void zero__config_close(struct zero__config_file *file);

#endif
