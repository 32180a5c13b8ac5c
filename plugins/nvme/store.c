/* SPDX-License-Identifier: Apache-2.0 */
/* A store: its files, its memory, its engine. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "../common/list.h"
#include "../common/locked.h"
#include "../common/open.h"
#include "../common/wake.h"
#include "machine/clock.h"
#include "machine/thread.h"
#include "nvme.h"

#define REFUSAL 256 /* bytes of a sentence */
#define LONG_NS (600 * ZERO_SECOND)
#define BROKEN_MS 10
#define CLOSE_NS (30 * ZERO_SECOND) /* for a disk to end what it is at */

/* Of all files at one time, since what is free changes. */
static int spaces_ask(const struct zero_store *store, struct nvme_space space[NVME_PATHS])
{
    for (int i = 0; i < store->n_files; i++) {
        space[i].device = store->files[i].device;
        if (fstatfs(store->files[i].fd, &space[i].fs))
            return -errno;
    }
    return 0;
}

/* Tells of files that lie on one disk: as one file system, or as several. */
static void disks_compare(const struct zero_store *store)
{
    struct nvme_space space[NVME_PATHS];
    bool known = !spaces_ask(store, space);

    for (int i = 1; i < store->n_files; i++)
        for (int k = 0; k < i; k++) {
            const struct nvme_file *a = &store->files[k], *b = &store->files[i];
            if ((known && zero__nvme_space_is_one(&space[k], &space[i])) ||
                (*a->disk && strcmp(a->disk, b->disk) == 0))
                zero__tell(&store->voice, store->warns,
                           "%s and %s (ZERO_NVME_PATH) lie on one disk (%s): two folders of one "
                           "disk are not faster than one; name one of each",
                           a->folder, b->folder, a->disk);
        }
}

static int files_open(struct zero_store *store)
{
    const struct nvme_settings *s = &store->settings;
    int err = 0;

    store->direct = true;
    while (!err && store->n_files < s->n_paths) {
        struct nvme_file *f = &store->files[store->n_files];
        err = zero__nvme_folder_answers(&store->voice, s->path[store->n_files],
                                        store->patience_ns < NVME_ANSWER_NS ? store->patience_ns
                                                                            : NVME_ANSWER_NS);
        if (!err)
            err = zero__nvme_file_open(store, s->path[store->n_files], f);
        if (err)
            break;
        store->direct &= f->align > 1;
        store->n_files++;
    }
    if (!err)
        disks_compare(store);
    return err;
}

/* What a file has to grow by for a store of so many bytes. */
static uint64_t growth(const struct zero_store *store, int file, uint64_t bytes)
{
    uint64_t now = zero__nvme_file_bytes(store, file, store->bytes);
    uint64_t then = zero__nvme_file_bytes(store, file, bytes);

    return then > now ? then - now : 0;
}

/*
 * Is there room for all of it? Asked before any is taken: a disk that is filled up, if for a
 * moment, fails others, too. File systems that do not say how large they are (f_blocks) find out.
 */
static int room_check(const struct zero_store *store, uint64_t bytes)
{
    struct nvme_space space[NVME_PATHS];

    if (spaces_ask(store, space))
        return 0; /* reserving tells more */
    for (int i = 0; i < store->n_files; i++) {
        uint64_t more = 0, room;
        for (int k = 0; k < store->n_files; k++)
            more += zero__nvme_space_is_one(&space[k], &space[i]) ? growth(store, k, bytes) : 0;
        if (more && !zero__nvme_free_bytes(&space[i].fs, &room) && more > room)
            return zero__nvme_file_full(store, &store->files[i], more, -ENOSPC);
    }
    return 0;
}

static int reserve(struct zero_store *store, uint64_t bytes)
{
    int err = 0;

    for (int i = 0; i < store->n_files && !err; i++)
        err = zero__nvme_file_reserve(store, &store->files[i],
                                      zero__nvme_file_bytes(store, i, bytes));
    return err;
}

/* Some kernels count the rings of io_uring as locked memory. */
static const char *uring_refusal(int err, char text[REFUSAL])
{
    uint64_t limit = zero__locked_limit();

    if (err == -ENOMEM && limit != UINT64_MAX)
        snprintf(text, REFUSAL,
                 "%s (the limit of locked memory is %llu bytes for all that the processes of this "
                 "user have in rings: ulimit -l)",
                 strerror(-err), (unsigned long long)limit);
    else
        snprintf(text, REFUSAL, "%s", strerror(-err));
    return text;
}

static int engine_open(struct zero_store *store)
{
    const struct nvme_settings *s = &store->settings;
    char why[REFUSAL];
    int err = 0;

    if (s->uring) {
        store->engine = &zero__nvme_uring;
        err = store->engine->open(store);
        if (!err)
            return 0;
        uring_refusal(err, why);
        if (s->uring_wanted)
            return zero__say(&store->voice, err,
                             "io_uring (ZERO_NVME_ENGINE): %s; the system or its container forbids "
                             "it, ZERO_NVME_ENGINE=threads does without",
                             why);
        zero__tell(&store->voice, store->warns,
                   "io_uring: %s; threads read and write instead, which takes more of the "
                   "processors (ZERO_NVME_ENGINE=threads says so without this warning)",
                   why);
    }
    uint32_t wanted = store->depth;
    store->engine = &zero__nvme_threads;
    err = store->engine->open(store);
    if (err)
        return zero__say(&store->voice, err, "threads that read and write: %s%s", strerror(-err),
                         err == -EAGAIN ? ZERO__THREAD_LIMITS : "");
    if (store->depth < wanted)
        zero__tell(&store->voice, store->warns,
                   "%u transfers at a time in %d folder%s (ZERO_NVME_DEPTH) are %u, since threads "
                   "do them: each does one",
                   wanted, store->n_files, store->n_files > 1 ? "s" : "", store->depth);
    return 0;
}

static void store_free(struct zero_store *store)
{
    while (store->mrs) {
        struct zero_mr *mr = store->mrs;
        store->mrs = mr->next;
        free(mr);
    }
    if (store->engine_data)
        store->engine->close(store);
    for (int i = 0; i < store->n_files; i++)
        close(store->files[i].fd);
    if (store->wake_fd >= 0)
        close(store->wake_fd);
    zero__nvme_settings_free(&store->settings);
    free(store->transfers);
    free(store->sums);
    free(store);
}

int zero__nvme_open(const struct zero_store_open *params, struct zero_store **out)
{
    const struct zero__voice voice = {params->host, NVME_NAME};
    struct zero_store *store = calloc(1, sizeof *store);
    int err;

    if (!store)
        return zero__say(&voice, -ENOMEM, "no memory for a store");
    store->voice = voice;
    store->wake_fd = -1;
    /* A little less than the library has: it cannot know what a request waits for. */
    store->patience_ns = (params->timeout_ns > 0 ? params->timeout_ns : LONG_NS) / 8 * 7;
    store->ranks = zero__open_local_ranks(params);
    store->warns = params->local_rank > 0 ? ZERO_LOG_INFO : ZERO_LOG_WARN;
    err = zero__nvme_settings(&voice, &store->settings);
    if (err)
        goto fail;
    store->depth = store->settings.depth * (uint32_t)store->settings.n_paths;
    err = files_open(store);
    if (err)
        goto fail;
    /* Ranks of one machine begin with a disk each. */
    store->first_file = params->local_rank > 0 ? params->local_rank % store->n_files : 0;
    err = zero__wake_make(&voice, &store->wake_fd);
    if (!err)
        err = zero__nvme_resize(store, params->bytes);
    if (err)
        goto fail;
    err = engine_open(store);
    if (!err) /* as many transfers as the engine does at once */
        err = zero__nvme_requests_make(store);
    if (err)
        goto fail;
    *out = store;
    return 0;
fail:
    store_free(store);
    return err;
}

int zero__nvme_resize(struct zero_store *store, uint64_t bytes)
{
    uint64_t whole;
    int err;

    if (__builtin_add_overflow(bytes, NVME_BLOCK - 1, &whole) || whole > INT64_MAX)
        return zero__say(&store->voice, -EFBIG, "no store has %llu bytes",
                         (unsigned long long)bytes);
    whole -= whole % NVME_BLOCK;
    err = whole < store->bytes ? zero__nvme_cut(store, whole) : room_check(store, whole);
    if (!err)
        err = reserve(store, whole); /* first: a size that no disk has asks for no memory */
    if (!err)
        err = zero__nvme_sums_resize(store, whole);
    if (err)
        reserve(store, store->bytes);
    else
        store->bytes = whole;
    return err;
}

/*
 * Asks the system nothing: who waits for a file server that is gone would wait here, too, instead
 * of saying so.
 */
int zero__nvme_info(struct zero_store *store, struct zero_store_info *info)
{
    struct zero_store_info full = {
        .flags = store->direct ? ZERO_STORE_DIRECT : 0,
        .mem = ZERO_MEM_HOST | ZERO_MEM_PINNED,
        .capacity = store->bytes,
        .offset_align = NVME_BLOCK,
        .buffer_align = NVME_BLOCK,
        .max_io = NVME_MOST_IO,
        .best_io = NVME_BEST_IO,
        .depth = store->depth,
        .bytes_per_mib = store->settings.sums ? NVME_SUMS_PER_MIB : 0,
        .bytes_read = store->bytes_read,
        .bytes_written = store->bytes_written,
    };

    for (int i = 0; i < store->n_files; i++)
        full.flags |= store->files[i].is_memory ? ZERO_STORE_MEMORY : 0;
    /* With its device: another disk may be mounted there tomorrow. */
    snprintf(full.note, sizeof full.note, "%s, %s the page cache, %s, in %s (device %u:%u)%s",
             store->engine->name, store->direct ? "past" : "through",
             store->sums ? "checksums" : "no checksums", store->files[0].folder,
             major(store->files[0].device), minor(store->files[0].device),
             store->n_files > 1 ? " and other folders" : "");
    if (store->n_refused)
        snprintf(full.note, sizeof full.note,
                 "the system refuses %u transfers again and again: %s; in %s", store->n_refused,
                 strerror(store->refusal), store->files[store->refusing].folder);
    zero__store_info_give(&full, info);
    return 0;
}

int zero__nvme_reg(struct zero_store *store, void *base, uint64_t bytes, uint32_t mem,
                   struct zero_mr **out)
{
    struct zero_mr *mr;

    if (mem != ZERO_MEM_HOST && mem != ZERO_MEM_PINNED)
        return zero__say(&store->voice, -ENOTSUP,
                         "reg: memory kind %u; disks read and write host memory", mem);
    mr = calloc(1, sizeof *mr);
    if (!mr)
        return zero__say(&store->voice, -ENOMEM, "no memory for a registration");
    *mr = (struct zero_mr){.region = {store, base, bytes}, .next = store->mrs};
    store->mrs = mr;
    store->engine->reg(store, mr);
    *out = mr;
    return 0;
}

int zero__nvme_unreg(struct zero_store *store, struct zero_mr *mr)
{
    ZERO__UNLINK(&store->mrs, mr);
    store->engine->unreg(store, mr);
    free(mr);
    return 0;
}

/* What is under way is waited for: until then the system may write to memory of others. */
int zero__nvme_close(struct zero_store *store)
{
    int64_t until = zero__deadline_ns(CLOSE_NS);
    struct zero_cqe cqes[16];

    for (; store->again; store->again = store->again->next)
        store->running--; /* it was refused: the system does not have it */
    store->closing = true;
    store->waiting = NULL;
    store->waiting_end = &store->waiting;
    while (store->running > store->engine->unsent(store) && zero__now_ns() < until)
        if (zero__nvme_poll(store, cqes, 16, ZERO_SECOND / 10) < 0)
            poll(NULL, 0, BROKEN_MS); /* the engine is broken: what the system has still ends */
    /* Then the store stays: what is under way will still end in it. */
    if (store->running > store->engine->unsent(store))
        return zero__say(&store->voice, -ETIMEDOUT,
                         "%u transfers to %s%s have not ended within %d s; their files and memory "
                         "stay until the process ends",
                         store->running - store->engine->unsent(store), store->files[0].folder,
                         store->n_files > 1 ? " and the other folders" : "",
                         (int)(CLOSE_NS / ZERO_SECOND));
    store_free(store);
    return 0;
}
