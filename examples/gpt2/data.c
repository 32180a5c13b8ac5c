/* SPDX-License-Identifier: Apache-2.0 */
/* Reading samples; see data.h. */
#include "data.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "random.h"

__attribute__((format(printf, 3, 4))) static int fail(struct gpt2_data *d, int err, const char *fmt,
                                                      ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(d->error, sizeof d->error, fmt, ap);
    va_end(ap);
    return err;
}

static int split(struct gpt2_data *d, double held)
{
    const uint64_t need = (uint64_t)d->seq + 1;

    d->n_held = (uint64_t)((double)d->n_tokens * held);
    d->n_train = d->n_tokens - d->n_held;
    if (d->n_tokens < need)
        return fail(d, -EINVAL,
                    "%s has %" PRIu64 " tokens, a sequence of %u needs %" PRIu64
                    ": give a longer file or a shorter --seq",
                    d->path, d->n_tokens, d->seq, need);
    if (d->n_train < need)
        return fail(d, -EINVAL,
                    "only %" PRIu64 " of the %" PRIu64 " tokens of %s are left for training, a "
                    "sequence of %u needs %" PRIu64 ": give a smaller --val or a shorter --seq",
                    d->n_train, d->n_tokens, d->path, d->seq, need);
    if (held > 0 && d->n_held < need)
        return fail(d, -EINVAL,
                    "the held-out part of %s has %" PRIu64
                    " tokens, a sequence of %u needs %" PRIu64
                    ": give a larger --val, a shorter --seq, or --val 0 for none",
                    d->path, d->n_held, d->seq, need);
    return 0;
}

int gpt2_data_open(struct gpt2_data *d, const char *path, const char *kind, double held,
                   uint32_t vocab, uint32_t seq, uint64_t seed)
{
    const char *dot = strrchr(path, '.');
    struct stat st;
    int err;

    memset(d, 0, sizeof *d);
    d->vocab = vocab;
    d->seq = seq;
    d->key = gpt2_key(seed, GPT2_STREAM_DATA);
    snprintf(d->path, sizeof d->path, "%s", path);
    d->token_bytes =
        kind ? (strcmp(kind, "tokens") == 0 ? 2 : 1) : (dot && strcmp(dot, ".bin") == 0 ? 2 : 1);
    d->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (d->fd < 0)
        return fail(d, -errno, "cannot open the data file %s: %m: check the path after --data",
                    path);
    if (fstat(d->fd, &st) < 0)
        err = fail(d, -errno, "cannot read the size of %s: %m", path);
    else if (!S_ISREG(st.st_mode))
        err = fail(d, -EINVAL, "%s is not a file: --data wants a text file or tokens (.bin)", path);
    else if (st.st_size == 0)
        err = fail(d, -EINVAL, "the data file %s is empty: give a text to learn from", path);
    else if ((uint64_t)st.st_size % d->token_bytes)
        err = fail(d, -EINVAL, "%s has an odd number of bytes, not 16-bit tokens: --format text?",
                   path);
    else {
        d->n_tokens = (uint64_t)st.st_size / d->token_bytes;
        err = split(d, held);
    }
    d->row = err ? NULL : calloc((size_t)seq + 1, sizeof *d->row);
    if (!err && !d->row)
        err = fail(d, -ENOMEM, "no memory for a sequence of %u tokens", seq);
    if (err)
        gpt2_data_close(d);
    return err;
}

void gpt2_data_close(struct gpt2_data *d)
{
    free(d->row);
    d->row = NULL;
    if (d->fd >= 0)
        close(d->fd);
    d->fd = -1;
}

static int read_all(struct gpt2_data *d, void *to, uint64_t bytes, uint64_t at)
{
    for (uint64_t done = 0; done < bytes;) {
        ssize_t n = pread(d->fd, (char *)to + done, bytes - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return fail(d, n < 0 ? -errno : -EIO, "cannot read %s at byte %" PRIu64 ": %s", d->path,
                        at + done, n < 0 ? strerror(errno) : "the file has become shorter");
        done += (uint64_t)n;
    }
    return 0;
}

/* Tokens first … first + seq of the file, as input and as what follows. */
static int read_row(struct gpt2_data *d, uint64_t first, int32_t *tokens, int32_t *targets)
{
    const uint64_t n = (uint64_t)d->seq + 1;
    int err = read_all(d, d->row, n * d->token_bytes, first * d->token_bytes);

    for (uint64_t i = 0; !err && i < n; i++) {
        const int32_t token = d->token_bytes == 2 ? d->row[i] : ((uint8_t *)d->row)[i];
        if ((uint32_t)token >= d->vocab)
            return fail(d, -EINVAL,
                        "token %d at position %" PRIu64 " of %s is outside the vocabulary of %u: "
                        "give %s",
                        token, first + i, d->path, d->vocab,
                        d->token_bytes == 2 ? "a larger --vocab, or --format text for a text file"
                                            : "--vocab 256 for a text");
        if (i < d->seq)
            tokens[i] = token;
        if (i > 0)
            targets[i - 1] = token;
    }
    return err;
}

int gpt2_data_sample(struct gpt2_data *d, uint64_t index, int32_t *tokens, int32_t *targets)
{
    return read_row(d, gpt2_below(d->key, index, d->n_train - d->seq), tokens, targets);
}

uint64_t gpt2_data_n_windows(const struct gpt2_data *d)
{
    return d->n_held ? (d->n_held - 1) / d->seq : 0;
}

int gpt2_data_window(struct gpt2_data *d, uint64_t window, int32_t *tokens, int32_t *targets)
{
    return read_row(d, d->n_train + window * d->seq, tokens, targets);
}

/* ---- The model of pairs of bytes ------------------------------------------------------------- */

struct pairs {
    uint32_t n[256][256];
    uint64_t single[256], first[256]; /* how often a byte occurs; how often it starts a pair */
    uint64_t total;
};

static int count_pairs(struct gpt2_data *d, struct pairs *p)
{
    uint8_t chunk[16384];
    int before = -1;

    for (uint64_t at = 0; at < d->n_train; at += sizeof chunk) {
        const uint64_t n = d->n_train - at < sizeof chunk ? d->n_train - at : sizeof chunk;
        int err = read_all(d, chunk, n, at);
        if (err)
            return err;
        for (uint64_t i = 0; i < n; i++) {
            if (before >= 0) {
                p->n[before][chunk[i]]++;
                p->first[before]++;
            }
            p->single[chunk[i]]++;
            before = chunk[i];
        }
    }
    p->total = d->n_train;
    return 0;
}

int gpt2_data_bigram(struct gpt2_data *d, uint64_t stride, uint64_t count, double *nats)
{
    static const double strengths[] = {0.5, 2, 8, 32, 128};
    enum { N = sizeof strengths / sizeof *strengths };
    double loss[N] = {0};
    uint64_t n = 0;
    int err = 0;

    if (d->token_bytes != 1 || !gpt2_data_n_windows(d))
        return fail(d, -EINVAL, "pairs of bytes are counted in text with a held-out part only");
    struct pairs *p = calloc(1, sizeof *p);
    int32_t *tokens = calloc(d->seq, sizeof *tokens), *targets = calloc(d->seq, sizeof *targets);
    if (!p || !tokens || !targets)
        err = fail(d, -ENOMEM, "no memory to count pairs of bytes");
    else
        err = count_pairs(d, p);
    for (uint64_t w = 0; !err && w < count; w++) {
        err = gpt2_data_window(d, w * stride, tokens, targets);
        for (uint32_t i = 0; !err && i < d->seq; i++, n++) {
            const int32_t a = tokens[i], b = targets[i];
            const double single = ((double)p->single[b] + 1) / ((double)p->total + 256);
            for (int k = 0; k < N; k++)
                loss[k] -= log(((double)p->n[a][b] + strengths[k] * single) /
                               ((double)p->first[a] + strengths[k]));
        }
    }
    double best = loss[0];
    for (int k = 1; k < N; k++)
        best = loss[k] < best ? loss[k] : best;
    if (!err)
        *nats = best / (double)n;
    free(targets);
    free(tokens);
    free(p);
    return err;
}
