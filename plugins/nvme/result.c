/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the end of a transfer means. One that the system did a part of goes on where that ended. One
 * that it did nothing of (0) is started again a few times, one that it refused for the moment
 * (EAGAIN, EINTR) until it has been refused for too long. All else is an error that says where.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "machine/clock.h"
#include "nvme.h"

#define MOST_STUCK 16 /* times in a row that a transfer may end without having come further */

/* Said when the request is handed out: others may fail before. The first reason stays. */
static int fail(const struct zero_store *store, const struct nvme_transfer *t, int err,
                const char *why)
{
    const char *folder = store->files[t->file].folder;
    struct nvme_request *r = t->request;

    if (r->err)
        return err;
    if (t->op == ZERO_IO_SYNC)
        snprintf(r->why, sizeof r->why, "sync of the file in %.300s: %s", folder, why);
    else
        snprintf(r->why, sizeof r->why, "%s of %u bytes at %llu of the file in %.300s: %s",
                 zero__io_name(t->op), t->bytes, (unsigned long long)t->file_off, folder, why);
    return err;
}

int zero__nvme_verify(const struct zero_store *store, const struct nvme_transfer *t)
{
    int64_t block = zero__nvme_sums_verify(store, t->store_off, t->buffer, t->bytes);
    char why[200];

    if (block < 0)
        return 0;
    snprintf(why, sizeof why,
             "the %u bytes at %llu are not what was written there (checksum); the disk, its cable "
             "or the memory is faulty",
             NVME_BLOCK,
             (unsigned long long)(t->file_off + ((uint64_t)block * NVME_BLOCK - t->store_off)));
    return fail(store, t, -EBADMSG, why);
}

/* EAGAIN or EINTR: once more, but not for ever. */
static int refused(struct zero_store *store, struct nvme_transfer *t, int err, bool *again)
{
    int64_t now = zero__now_ns();
    char why[160];

    store->refusal = -err;
    store->refusing = t->file;
    if (!t->refused_ns)
        t->refused_ns = now;
    *again = now - t->refused_ns <= store->patience_ns;
    if (*again)
        return 0;
    snprintf(why, sizeof why,
             "the system has refused it again and again for %.1f s (ZERO_TIMEOUT): %s",
             (double)(now - t->refused_ns) / ZERO_SECOND, strerror(-err));
    return fail(store, t, -ETIMEDOUT, why);
}

/* As soon as it is moved, and once: who waits for a slow disk looks whether it goes on. */
static void count(struct zero_store *store, const struct nvme_transfer *t, uint32_t bytes)
{
    *(t->op == ZERO_IO_WRITE ? &store->bytes_written : &store->bytes_read) += bytes;
}

/* Less than was asked: it goes on, unless the file is at its end or nothing comes of it. */
static int partly(struct zero_store *store, struct nvme_transfer *t, uint32_t bytes, bool *again)
{
    const struct nvme_file *file = &store->files[t->file];
    uint32_t more = bytes / file->align * file->align;
    struct stat s;

    if (!bytes && t->op == ZERO_IO_READ && !fstat(file->fd, &s) &&
        (uint64_t)s.st_size <= t->file_off + t->done)
        return fail(store, t, -EIO, "the file ends before; something has cut it");
    t->n_stuck = more ? 0 : t->n_stuck + 1;
    if (t->n_stuck == MOST_STUCK)
        return fail(store, t, -EIO,
                    bytes ? "the system does less than a block at a time, again and again; has "
                            "something cut the file?"
                          : "the system does nothing of it and names no error, again and again; "
                            "look at dmesg for what its disk says");
    t->done += more;
    count(store, t, more);
    *again = true;
    return 0;
}

int zero__nvme_judge(struct zero_store *store, struct nvme_transfer *t, int64_t result,
                     bool *again)
{
    uint32_t left = t->bytes - t->done;

    *again = false;
    if (result == -EAGAIN || result == -EINTR)
        return refused(store, t, (int)result, again);
    t->refused_ns = 0;
    store->stalled_ns = 0;
    if (result < 0)
        return fail(store, t, (int)result,
                    result == -EROFS ? "Read-only file system; it was mounted so meanwhile, or is "
                                       "so since an error of its disk: look at dmesg"
                                     : strerror((int)-result));
    if (t->op == ZERO_IO_SYNC)
        return 0;
    if (result > left)
        return fail(store, t, -EIO, "the system did more than was asked");
    if (result < left)
        return partly(store, t, (uint32_t)result, again);
    t->done = t->bytes;
    count(store, t, left);
    return 0;
}
