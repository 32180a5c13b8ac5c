/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers by threads that read and write, one each at a time. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "../common/wake.h"
#include "machine/thread.h"
#include "nvme.h"

#define MOST_THREADS 64u /* for all folders; more only wait for each other */

struct threads {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct nvme_transfer *todo, **todo_end, *ended;
    bool stop;
    int event_fd;
    uint32_t n;
    pthread_t thread[MOST_THREADS];
};

static struct threads *of(const struct zero_store *store)
{
    return store->engine_data;
}

static int64_t transfer(const struct zero_store *store, const struct nvme_transfer *t)
{
    int fd = store->files[t->file].fd;
    char *at = t->buffer + t->done;
    uint32_t left = t->bytes - t->done;
    off_t off = (off_t)(t->file_off + t->done);
    ssize_t n = t->op == ZERO_IO_READ    ? pread(fd, at, left, off)
                : t->op == ZERO_IO_WRITE ? pwrite(fd, at, left, off)
                                         : fdatasync(fd);

    return n < 0 ? -errno : n;
}

static void *work(void *arg)
{
    struct zero_store *store = arg;
    struct threads *e = of(store);

    pthread_mutex_lock(&e->lock);
    for (;;) {
        while (!e->todo && !e->stop)
            pthread_cond_wait(&e->more, &e->lock);
        if (!e->todo)
            break;
        struct nvme_transfer *t = e->todo;
        e->todo = t->next;
        if (!e->todo)
            e->todo_end = &e->todo;
        pthread_mutex_unlock(&e->lock);
        t->result = transfer(store, t);
        pthread_mutex_lock(&e->lock);
        t->next = e->ended;
        e->ended = t;
        zero__wake_ring(e->event_fd);
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

static void threads_close(struct zero_store *store)
{
    struct threads *e = of(store);

    pthread_mutex_lock(&e->lock);
    e->stop = true;
    pthread_cond_broadcast(&e->more);
    pthread_mutex_unlock(&e->lock);
    for (uint32_t i = 0; i < e->n; i++)
        pthread_join(e->thread[i], NULL);
    close(e->event_fd);
    pthread_cond_destroy(&e->more);
    pthread_mutex_destroy(&e->lock);
    free(e);
    store->engine_data = NULL;
}

static int threads_open(struct zero_store *store)
{
    struct threads *e = calloc(1, sizeof *e);
    uint32_t wanted = store->depth < MOST_THREADS ? store->depth : MOST_THREADS;
    int err;

    if (!e)
        return -ENOMEM;
    err = zero__wake_make(&store->voice, &e->event_fd);
    if (err) {
        free(e);
        return err;
    }
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->more, NULL);
    e->todo_end = &e->todo;
    store->engine_data = e;
    while (e->n < wanted && !err) {
        err = -zero__thread_create(&e->thread[e->n], NULL, work, store);
        e->n += !err;
    }
    if (e->n) { /* fewer than wanted are slower, no more */
        store->depth = e->n;
        return 0;
    }
    threads_close(store);
    return err;
}

static void threads_reg(struct zero_store *store, struct zero_mr *mr)
{
    (void)store;
    (void)mr;
}

static void threads_start(struct zero_store *store, struct nvme_transfer *t)
{
    struct threads *e = of(store);

    t->next = NULL;
    pthread_mutex_lock(&e->lock);
    *e->todo_end = t;
    e->todo_end = &t->next;
    pthread_cond_signal(&e->more);
    pthread_mutex_unlock(&e->lock);
}

static int threads_flush(struct zero_store *store)
{
    (void)store;
    return 0;
}

static struct nvme_transfer *threads_ended(struct zero_store *store, int64_t *result)
{
    struct threads *e = of(store);
    struct nvme_transfer *t;
    uint64_t count;

    pthread_mutex_lock(&e->lock);
    t = e->ended;
    if (t)
        e->ended = t->next;
    else if (read(e->event_fd, &count, sizeof count) < 0)
        count = 0; /* nothing has ended since we looked last */
    pthread_mutex_unlock(&e->lock);
    if (t)
        *result = t->result;
    return t;
}

static uint32_t threads_unsent(const struct zero_store *store)
{
    (void)store;
    return 0;
}

static int threads_fd(const struct zero_store *store)
{
    return of(store)->event_fd;
}

const struct nvme_engine zero__nvme_threads = {
    .name = "threads",
    .open = threads_open,
    .close = threads_close,
    .reg = threads_reg,
    .unreg = threads_reg,
    .start = threads_start,
    .flush = threads_flush,
    .ended = threads_ended,
    .fd = threads_fd,
    .unsent = threads_unsent,
};
