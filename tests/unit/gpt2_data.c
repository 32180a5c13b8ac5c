/* SPDX-License-Identifier: Apache-2.0 */
/* The GPT-2 example's samples, held-out windows, pairs of bytes, initial values; bad files. */
#include <errno.h>
#include <math.h>
#include <sys/stat.h>

#include "examples/gpt2/data.h"
#include "examples/gpt2/model.h"
#include "examples/gpt2/random.h"
#include "tests/tap.h"

static char folder[] = "/tmp/gpt2_data_XXXXXX";
static char path[64];

static const char *file_of(const char *name, const void *bytes, size_t n)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f))
        bail("cannot write a file");
    return path;
}

static void test_samples(void)
{
    enum { SEQ = 8 };
    static uint8_t text[1000];
    int32_t x[SEQ], y[SEQ], again[SEQ];
    uint64_t least = UINT64_MAX, most = 0;
    struct gpt2_data d;

    for (int i = 0; i < 1000; i++)
        text[i] = (uint8_t)(i % 251);
    is_int(gpt2_data_open(&d, file_of("text", text, 1000), NULL, 0.1, 256, SEQ, 3), 0, "open");
    is_int(d.n_train, 900, "tokens for training");
    is_int(d.n_held, 100, "tokens held out");
    bool follows = true;
    for (uint64_t i = 0; i < 20000; i++) {
        const uint64_t first = gpt2_below(d.key, i, d.n_train - SEQ);
        least = first < least ? first : least;
        most = first > most ? first : most;
        if (gpt2_data_sample(&d, i, x, y))
            bail(d.error);
        for (int t = 0; t < SEQ; t++)
            follows &= x[t] == text[first + (uint64_t)t] && y[t] == text[first + (uint64_t)t + 1];
    }
    ok(follows, "targets are what follows");
    is_int(least, 0, "the first position is drawn");
    is_int(most + SEQ, 899, "the last one too, and nothing behind it");
    gpt2_data_sample(&d, 5, again, y);
    gpt2_data_sample(&d, 6, x, y);
    ok(memcmp(x, again, sizeof x) != 0, "samples differ");
    gpt2_data_sample(&d, 5, x, y);
    ok(memcmp(x, again, sizeof x) == 0, "a sample depends on its number only");
    is_int(gpt2_data_n_windows(&d), 12, "windows");
    is_int(gpt2_data_window(&d, 11, x, y), 0, "the last window");
    is_int(x[0], text[900 + 88], "starts where the eleven before it end");
    gpt2_data_close(&d);
}

/* What opening a file says; the file need not be there. */
static void bad(const char *file, const char *kind, double held, uint32_t seq, int err,
                const char *word)
{
    struct gpt2_data d;
    is_int(gpt2_data_open(&d, file, kind, held, 256, seq, 1), err, "refused: %s", word);
    has_str(d.error, word, "says so");
}

static void test_bad_files(void)
{
    uint8_t text[100] = {0};
    int32_t x[8], y[8];
    struct gpt2_data d;

    bad("/nonexistent/file", NULL, 0, 8, -ENOENT, "/nonexistent/file");
    bad(folder, NULL, 0, 8, -EINVAL, "not a file");
    bad(file_of("empty", text, 0), NULL, 0, 8, -EINVAL, "empty");
    bad(file_of("short", text, 8), NULL, 0, 8, -EINVAL, "longer file");
    bad(file_of("odd.bin", text, 99), NULL, 0, 8, -EINVAL, "odd number");
    bad(file_of("train", text, 100), NULL, 0.95, 8, -EINVAL, "smaller --val");
    bad(file_of("held", text, 100), NULL, 0.05, 8, -EINVAL, "larger --val");

    const uint16_t tokens[12] = {1, 2, 3, 4, 5, 6, 7, 8, 300, 10, 11, 12};
    is_int(gpt2_data_open(&d, file_of("t.bin", tokens, 24), NULL, 0, 301, 8, 1), 0, "open tokens");
    is_int(d.n_tokens, 12, "two bytes a token");
    is_int(gpt2_data_window(&d, 0, x, y), -EIO, "no window behind the end");
    gpt2_data_close(&d);
    is_int(gpt2_data_open(&d, path, NULL, 0, 300, 8, 1), 0, "open with a smaller vocabulary");
    is_int(gpt2_data_sample(&d, 0, x, y), -EINVAL, "a token outside the vocabulary");
    has_str(d.error, "token 300 at position 8", "is named");
    gpt2_data_close(&d);
    is_int(gpt2_data_open(&d, file_of("shrinks", text, 100), NULL, 0, 256, 8, 1), 0, "open");
    if (truncate(path, 4))
        bail("cannot truncate");
    is_int(gpt2_data_sample(&d, 1, x, y), -EIO, "a file that became shorter");
    has_str(d.error, "shorter", "says so");
    gpt2_data_close(&d);
}

/* A chain in which 'a' is followed by 'a' or 'b' with equal chance and 'b' always by 'a'. */
static void test_pairs(void)
{
    enum { N = 400000 };
    static char text[N];
    const uint64_t key = gpt2_key(1, 77);
    struct gpt2_data d;
    double nats;

    for (int i = 0; i < N; i++)
        text[i] = i > 0 && text[i - 1] == 'a' && gpt2_random(key, (uint64_t)i) & 1 ? 'b' : 'a';
    if (gpt2_data_open(&d, file_of("chain", text, N), "text", 0.25, 256, 50, 1))
        bail(d.error);
    is_int(gpt2_data_bigram(&d, 1, gpt2_data_n_windows(&d), &nats), 0, "count pairs");
    /* Two of three bytes are 'a', and only what follows those is uncertain. */
    ok(fabs(nats - log(2) * 2 / 3) < 0.005, "%.4f nats, the chain has %.4f", nats, log(2) * 2 / 3);
    gpt2_data_close(&d);
}

static void test_initial_values(void)
{
    enum { N = 100000 };
    static float x[N], y[1000];
    struct gpt2_config c;
    struct gpt2_tensor t;
    double sum = 0, squares = 0, fourth = 0;

    gpt2_config_preset("124M", &c);
    is_int(gpt2_n_parameters(&c), 124475904, "parameters of 124M with 50,304 rows");
    gpt2_config_preset("1.5B", &c);
    is_int(gpt2_n_parameters(&c), 1557686400, "parameters of 1.5B with 50,304 rows");
    gpt2_tensor(&c, 0, &t);
    gpt2_initial(&t, 0, 1, 0, N, x);
    gpt2_initial(&t, 0, 1, 777, 1000, y);
    ok(memcmp(x + 777, y, sizeof y) == 0, "any range alone has the same bits");
    for (int i = 0; i < N; i++) {
        const double z = (double)x[i] / 0.02;
        sum += z;
        squares += z * z;
        fourth += z * z * z * z;
    }
    ok(fabs(sum / N) < 0.015, "mean %.4f", sum / N);
    ok(fabs(squares / N - 1) < 0.02, "variance %.4f", squares / N);
    ok(fabs(fourth / N - 3) < 0.15, "fourth moment %.4f", fourth / N);
}

int main(void)
{
    if (!mkdtemp(folder))
        bail("cannot make a folder");
    test_samples();
    test_bad_files();
    test_pairs();
    test_initial_values();
    static const char *const names[] = {"text", "empty", "short",   "odd.bin", "train",
                                        "held", "t.bin", "shrinks", "chain"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
    done();
}
