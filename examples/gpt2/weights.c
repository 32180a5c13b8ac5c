/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing weights; see weights.h. */
#include "weights.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the file format is little-endian"
#endif

enum { RUN = 1 << 20, MOST_HEADER = 64 << 20 }; /* values at once; bytes of a header */

/* One side of the work: errors stay local until agree(). */
struct file {
    struct gpt2_session *s;
    const char *path;
    int fd, err;
    uint64_t data; /* where the values start */
    float *run;
    char *text;
    size_t bytes;
};

__attribute__((format(printf, 3, 4))) static int fail(struct file *f, int err, const char *fmt, ...)
{
    va_list ap;
    if (f->err)
        return f->err;
    va_start(ap, fmt);
    vsnprintf(f->text, f->bytes, fmt, ap);
    va_end(ap);
    return f->err = err;
}

static int library(struct file *f, int err)
{
    return err ? fail(f, err, "%s", zero_last_error()) : 0;
}

/* An error on any rank becomes one on all. */
static int agree(struct file *f)
{
    double failed = f->err != 0;
    int err = zero_sum(f->s->rt, &failed, 1);
    if (err)
        return library(f, err);
    return failed > 0 ? fail(f, -EIO, "another rank cannot use %s", f->path) : 0;
}

static int move(struct file *f, bool write, void *at, uint64_t bytes, uint64_t offset)
{
    for (uint64_t done = 0; done < bytes && !f->err;) {
        char *p = (char *)at + done;
        const ssize_t n = write ? pwrite(f->fd, p, bytes - done, (off_t)(offset + done))
                                : pread(f->fd, p, bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail(f, -errno, "cannot %s %s: %m", write ? "write" : "read", f->path);
        if (n == 0)
            return fail(f, -EINVAL, "%s ends early: it is no complete set of weights", f->path);
        done += (uint64_t)n;
    }
    return f->err;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static char *make_header(const struct gpt2_config *c)
{
    json_t *all = json_object();
    uint64_t at = 0;

    for (uint32_t i = 0; i < gpt2_n_tensors(c); i++) {
        struct gpt2_tensor t;
        gpt2_tensor(c, i, &t);
        json_t *shape = json_array();
        for (uint32_t d = 0; d < t.n_dims; d++)
            json_array_append_new(shape, json_integer((json_int_t)t.dims[d]));
        json_object_set_new(all, t.name,
                            json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", shape,
                                      "data_offsets", (json_int_t)at,
                                      (json_int_t)(at + 4 * t.elements)));
        at += 4 * t.elements;
    }
    char *header = json_dumps(all, JSON_COMPACT | JSON_PRESERVE_ORDER);
    json_decref(all);
    return header;
}

static void write_header(struct file *f)
{
    char *header = make_header(&f->s->shape.model);
    const char blanks[8] = "        ";

    if (!header) {
        fail(f, -ENOMEM, "no memory for the header of %s", f->path);
        return;
    }
    const uint64_t length = strlen(header), padded = (length + 7) / 8 * 8;
    uint64_t word = padded;
    move(f, true, &word, sizeof word, 0);
    move(f, true, header, length, 8);
    move(f, true, (void *)blanks, padded - length, 8 + length);
    f->data = 8 + padded;
    free(header);
}

/* All ranks take part in reading the values, whatever happens to the file. */
static void write_values(struct file *f)
{
    const struct gpt2_config *c = &f->s->shape.model;
    uint64_t at = f->data;

    for (uint32_t i = 0; i < gpt2_n_tensors(c); i++) {
        struct gpt2_tensor t;
        gpt2_tensor(c, i, &t);
        for (uint64_t first = 0; first < t.elements; first += RUN) {
            const uint64_t n = t.elements - first < RUN ? t.elements - first : RUN;
            int err = zero_param_read(f->s->rt, f->s->params[i], first, n, f->run);
            if (err) {
                library(f, err);
                return;
            }
            if (f->fd >= 0)
                move(f, true, f->run, n * sizeof *f->run, at);
            at += n * sizeof *f->run;
        }
    }
}

/* Nothing is made or opened: what lies there, perhaps a pipe that is read, stays as it is. */
int gpt2_weights_try(const char *path, char *text, size_t bytes)
{
    struct file f = {.path = path, .text = text, .bytes = bytes};
    char *copy = strdup(path);
    struct stat st;

    if (!copy)
        return fail(&f, -ENOMEM, "no memory to write %s", path);
    const char *folder = dirname(copy);
    if (access(folder, W_OK | X_OK))
        fail(&f, -errno, "--weights-out: cannot create %s in %s: %m", path, folder);
    else if (!stat(path, &st) && S_ISDIR(st.st_mode))
        fail(&f, -EISDIR, "--weights-out: %s is a folder: name a file in it", path);
    free(copy);
    return f.err;
}

int gpt2_weights_save(struct gpt2_session *s, const char *path, char *text, size_t bytes)
{
    struct file f = {s, path, -1, 0, 0, malloc(RUN * sizeof(float)), text, bytes};
    char *temporary = malloc(strlen(path) + 8);
    const bool root = zero_rank(s->rt) == 0;

    if (!f.run || !temporary)
        fail(&f, -ENOMEM, "no memory to write %s", path);
    else if (root) {
        sprintf(temporary, "%s.part", path);
        f.fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (f.fd < 0)
            fail(&f, -errno, "cannot create %s: %m", temporary);
        else
            write_header(&f);
    }
    if (!agree(&f))
        write_values(&f);
    if (f.fd >= 0) {
        if (!f.err && fsync(f.fd))
            fail(&f, -errno, "cannot write %s: %m", temporary);
        if (close(f.fd))
            fail(&f, -errno, "cannot write %s: %m", temporary);
        if (!f.err && rename(temporary, path))
            fail(&f, -errno, "cannot rename %s to %s: %m", temporary, path);
        if (f.err)
            unlink(temporary);
    }
    agree(&f);
    free(temporary);
    free(f.run);
    return f.err;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static json_t *read_header(struct file *f)
{
    uint64_t length = 0;
    json_error_t error;

    if (move(f, false, &length, sizeof length, 0))
        return NULL;
    if (length < 2 || length > MOST_HEADER) {
        fail(f, -EINVAL, "%s is no safetensors file: its header would have %" PRIu64 " bytes",
             f->path, length);
        return NULL;
    }
    char *header = malloc(length);
    json_t *all = NULL;
    if (!header)
        fail(f, -ENOMEM, "no memory for the header of %s", f->path);
    else if (!move(f, false, header, length, 8)) {
        all = json_loadb(header, length, 0, &error);
        if (!json_is_object(all))
            fail(f, -EINVAL, "the header of %s is not JSON: %s", f->path, error.text);
    }
    free(header);
    f->data = 8 + length;
    return all;
}

static int another_shape(struct file *f, const struct gpt2_tensor *t, const json_t *shape)
{
    char *found = json_dumps(shape, JSON_ENCODE_ANY | JSON_COMPACT), wanted[48];

    snprintf(wanted, sizeof wanted, t->n_dims > 1 ? "[%" PRIu64 ",%" PRIu64 "]" : "[%" PRIu64 "]",
             t->dims[0], t->dims[1]);
    fail(f, -EINVAL,
         "tensor %s of %s has the shape %.60s, and preset %s wants %s: give the --preset and the "
         "--vocab that it was trained with",
         t->name, f->path, found ? found : "of nothing", f->s->shape.model.name, wanted);
    free(found);
    return f->err;
}

/* Where a tensor's values are, after checking that they are what the model wants. */
static int find(struct file *f, const json_t *all, const struct gpt2_tensor *t, uint64_t *at)
{
    const json_t *one = json_object_get(all, t->name);
    const json_t *shape = json_object_get(one, "shape");
    const json_t *places = json_object_get(one, "data_offsets");
    const char *dtype = json_string_value(json_object_get(one, "dtype"));
    bool same = json_array_size(shape) == t->n_dims;

    if (!one)
        return fail(f, -EINVAL, "%s has no tensor %s", f->path, t->name);
    if (!dtype || strcmp(dtype, "F32") != 0)
        return fail(f, -EINVAL, "tensor %s of %s is %s, F32 is wanted", t->name, f->path,
                    dtype ? dtype : "of no type");
    for (uint32_t d = 0; same && d < t->n_dims; d++)
        same = json_integer_value(json_array_get(shape, d)) == (json_int_t)t->dims[d];
    if (!same)
        return another_shape(f, t, shape);
    const json_int_t from = json_integer_value(json_array_get(places, 0));
    const json_int_t to = json_integer_value(json_array_get(places, 1));
    if (from < 0 || to < from || (uint64_t)(to - from) != 4 * t->elements)
        return fail(f, -EINVAL, "tensor %s of %s has the wrong length", t->name, f->path);
    *at = f->data + (uint64_t)from;
    return 0;
}

/* Reads (and with `load` sets) all tensors; the first pass finds what is wrong with the file. */
static void read_values(struct file *f, const json_t *all, bool load)
{
    const struct gpt2_config *c = &f->s->shape.model;

    for (uint32_t i = 0; i < gpt2_n_tensors(c) && !f->err; i++) {
        struct gpt2_tensor t;
        uint64_t at = 0;
        gpt2_tensor(c, i, &t);
        if (find(f, all, &t, &at))
            return;
        if (!load) { /* is the last value there? */
            move(f, false, f->run, sizeof *f->run, at + 4 * (t.elements - 1));
            continue;
        }
        for (uint64_t first = 0; first < t.elements && !f->err; first += RUN) {
            const uint64_t n = t.elements - first < RUN ? t.elements - first : RUN;
            if (!move(f, false, f->run, n * sizeof *f->run, at + 4 * first))
                library(f, zero_param_write(f->s->rt, f->s->params[i], first, n, f->run));
        }
    }
}

int gpt2_weights_load(struct gpt2_session *s, const char *path, char *text, size_t bytes)
{
    struct file f = {s, path, -1, 0, 0, malloc(RUN * sizeof(float)), text, bytes};
    json_t *all = NULL;

    if (!f.run)
        fail(&f, -ENOMEM, "no memory to read %s", path);
    else if ((f.fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        fail(&f, -errno, "--weights-in: cannot open %s: %m", path);
    else
        all = read_header(&f);
    if (!f.err)
        read_values(&f, all, false);
    if (!agree(&f))
        read_values(&f, all, true);
    json_decref(all);
    if (f.fd >= 0)
        close(f.fd);
    free(f.run);
    return f.err;
}
