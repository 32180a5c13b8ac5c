/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An offload plugin to start from: a store is a plain file, one thread reads and writes it. A
 * faster one would use io_uring, O_DIRECT and several files; what surrounds that stays as it is.
 *
 * What the library promises: one call at a time to a store, wake() excepted; offsets and lengths
 * are multiples of what info() says; memory stays where it is while a request is in flight.
 * What the plugin promises: submit() and poll() do not wait for the disk (poll() up to its
 * timeout); every accepted request completes exactly once, whole or with an error, so a short
 * read or a signal in between is the plugin's business; a write that has completed need not be
 * durable, a ZERO_IO_SYNC that has completed means that all writes before it are.
 *
 * The caller's thread and the worker share a ring of requests: submitted >= finished >= reported.
 * Requests between `finished` and `submitted` belong to the worker, those between `reported` and
 * `finished` wait for poll(). One lock guards the three numbers; no transfer happens under it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <zero/offload.h>

#if !defined NAME || !defined FOLDER_VARIABLE /* "template", "ZERO_TEMPLATE_DIR" */
#error "the Makefile says what the plugins are called: -DNAME, -DFOLDER_VARIABLE"
#endif
#define DEPTH 32u                   /* requests in flight */
#define IO_MOST (UINT64_C(1) << 30) /* bytes of one request */
#define IO_BEST (UINT64_C(1) << 20)
#define STORE_MOST ((uint64_t)INT64_MAX) /* what an off_t can say */

#define say(host, err, ...) ((host)->fail((host)->ctx, NAME, (err), __VA_ARGS__))

struct zero_mr {
    struct zero_mr *next;
    const struct zero_store *store;
    char *base;
    uint64_t bytes;
};

struct request {
    struct zero_io io;
    char *memory;
    int64_t res; /* when finished */
};

struct zero_store {
    const struct zero_host *host;
    int fd;
    uint64_t bytes;
    struct zero_mr *mrs;
    pthread_t worker;
    pthread_mutex_t lock;
    pthread_cond_t work, news; /* something was submitted; was finished, or wake() */
    struct request ring[DEPTH];
    uint64_t submitted, finished, reported;
    bool woken, stop;
    _Atomic uint64_t moved[2]; /* bytes that were read, written; a sign of life, see transfer() */
};

/* ---- The worker ------------------------------------------------------------------------------ */

/*
 * The whole transfer: 0 or a negative errno. The kernel may do less than it was asked for. What it
 * has done counts at once: the library waits longer for a slow disk on which something moves.
 */
static int transfer(struct zero_store *store, uint32_t op, char *memory, uint64_t bytes,
                    uint64_t off)
{
    int fd = store->fd;

    while (bytes > 0) {
        size_t most = bytes < SSIZE_MAX ? (size_t)bytes : SSIZE_MAX;
        ssize_t n = op == ZERO_IO_READ ? pread(fd, memory, most, (off_t)off)
                                       : pwrite(fd, memory, most, (off_t)off);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0) /* the file ends early: somebody else has cut it */
            return -EIO;
        atomic_fetch_add(&store->moved[op == ZERO_IO_WRITE], (uint64_t)n);
        memory += n;
        bytes -= (uint64_t)n;
        off += (uint64_t)n;
    }
    return 0;
}

static int64_t execute(struct zero_store *store, const struct request *r)
{
    int err;

    if (r->io.op == ZERO_IO_SYNC) {
        while (fdatasync(store->fd))
            if (errno != EINTR)
                return -errno;
        return 0;
    }
    err = transfer(store, r->io.op, r->memory, r->io.buf.len, r->io.store_off);
    return err ? err : (int64_t)r->io.buf.len;
}

/* In the order of submission, so everything before a SYNC has been written when it is its turn. */
static void *worker_main(void *arg)
{
    struct zero_store *store = arg;

    pthread_mutex_lock(&store->lock);
    for (;;) {
        while (store->finished == store->submitted && !store->stop)
            pthread_cond_wait(&store->work, &store->lock);
        if (store->stop)
            break;
        struct request *r = &store->ring[store->finished % DEPTH];
        pthread_mutex_unlock(&store->lock);
        r->res = execute(store, r);
        pthread_mutex_lock(&store->lock);
        store->finished++;
        pthread_cond_signal(&store->news);
    }
    pthread_mutex_unlock(&store->lock);
    return NULL;
}

/* ---- Stores ---------------------------------------------------------------------------------- */

/* The plugin's own option, ZERO_TEMPLATE_DIR; `zero info --options` shows it with this text. */
static const char *folder(const struct zero_host *host)
{
    return host->param(host->ctx, NAME, NAME "_dir", "/var/tmp",
                       "Folder of the files of the offload plugin " NAME);
}

/*
 * Says what a store can, up to the size that the caller knows: it may be older than this plugin.
 * `moved`: bytes that an open one has read and written; NULL: it is not open.
 */
static void describe(struct zero_store_info *info, uint64_t capacity, const char *what,
                     const char *dir, _Atomic uint64_t *moved)
{
    struct zero_store_info full = {.size = info->size,
                                   .mem = ZERO_MEM_HOST,
                                   .capacity = capacity,
                                   .offset_align = 1,
                                   .buffer_align = 1,
                                   .max_io = IO_MOST,
                                   .best_io = IO_BEST,
                                   .depth = DEPTH,
                                   .bytes_read = moved ? atomic_load(&moved[0]) : 0,
                                   .bytes_written = moved ? atomic_load(&moved[1]) : 0};

    snprintf(full.note, sizeof full.note, "%s in %.100s", what, dir);
    memcpy(info, &full, info->size < sizeof full ? info->size : sizeof full);
}

static int template_probe(const struct zero_host *host, struct zero_store_info *info)
{
    const char *dir = folder(host);
    struct statvfs st;

    if (dir[0] != '/')
        return say(host, -EINVAL, FOLDER_VARIABLE " is \"%.200s\": give an absolute path", dir);
    if (access(dir, W_OK | X_OK) || statvfs(dir, &st))
        return say(host, -errno, "cannot make files in %s: %m; set " FOLDER_VARIABLE, dir);
    describe(info, (uint64_t)st.f_bavail * st.f_frsize, "files", dir, NULL);
    return 0;
}

/* A file without a name: nothing of it remains, however the process ends. */
static int file_open(const struct zero_host *host, const char *dir)
{
    char path[PATH_MAX];
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
        return fd >= 0 ? fd : say(host, -errno, "cannot make a file in %s: %m", dir);
    if ((size_t)snprintf(path, sizeof path, "%s/zero-" NAME "-XXXXXX", dir) >= sizeof path)
        return say(host, -ENAMETOOLONG, "the path %.200s is too long", dir);
    fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return say(host, -errno, "cannot make a file in %s: %m", dir);
    unlink(path);
    return fd;
}

/*
 * Room now instead of an error in the middle of a run. What is free is looked at first: where a
 * file system cannot preallocate, the C library writes every block, and would only stop when it is
 * full.
 */
static int file_fill(const struct zero_host *host, int fd, uint64_t from, uint64_t bytes)
{
    uint64_t more = bytes > from ? bytes - from : 0;
    struct statvfs st;
    int err = 0;

    if (bytes > STORE_MOST)
        err = EFBIG;
    else if (!more)
        err = ftruncate(fd, (off_t)bytes) ? errno : 0;
    else if (fstatvfs(fd, &st))
        err = errno;
    else if (more / st.f_frsize >= st.f_bavail)
        err = ENOSPC;
    else
        do
            err = posix_fallocate(fd, (off_t)from, (off_t)more);
        while (err == EINTR);
    return err ? say(host, -err,
                     "cannot make the store %llu bytes long: %s; set " FOLDER_VARIABLE
                     " to a folder "
                     "with more room",
                     (unsigned long long)bytes, strerror(err))
               : 0;
}

static int worker_start(struct zero_store *store)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    pthread_condattr_t monotonic;
    sigset_t others, before;
    int err;

    pthread_mutex_init(&store->lock, NULL);
    pthread_cond_init(&store->work, NULL);
    pthread_condattr_init(&monotonic); /* deadlines must not jump when the date is set */
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&store->news, &monotonic);
    pthread_condattr_destroy(&monotonic);
    sigfillset(&others); /* signals are for the threads of the application, but for those that */
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) /* a thread's own instruction raises */
        sigdelset(&others, own[i]);
    pthread_sigmask(SIG_SETMASK, &others, &before);
    err = pthread_create(&store->worker, NULL, worker_main, store);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!err)
        return 0;
    pthread_cond_destroy(&store->news);
    pthread_cond_destroy(&store->work);
    pthread_mutex_destroy(&store->lock);
    return say(store->host, -err,
               "cannot start a thread: %s; ulimit -u and the control group's pids.max are the "
               "limits of threads",
               strerror(err));
}

static int template_open(const struct zero_store_open *params, struct zero_store **out)
{
    const struct zero_host *host = params->host;
    struct zero_store *store = calloc(1, sizeof *store);
    int err;

    if (!store)
        return say(host, -ENOMEM, "no memory for a store");
    store->host = host; /* stays valid until close() */
    store->fd = file_open(host, folder(host));
    err = store->fd < 0 ? store->fd : file_fill(host, store->fd, 0, params->bytes);
    if (!err)
        err = worker_start(store);
    if (err) {
        if (store->fd >= 0)
            close(store->fd);
        free(store);
        return err;
    }
    store->bytes = params->bytes;
    *out = store;
    return 0;
}

static int template_info(struct zero_store *store, struct zero_store_info *info)
{
    describe(info, store->bytes, "a file", folder(store->host), store->moved);
    return 0;
}

/* The library calls it when nothing is in flight, so the worker sleeps. */
static int template_resize(struct zero_store *store, uint64_t bytes)
{
    int err = file_fill(store->host, store->fd, store->bytes, bytes);

    if (!err)
        store->bytes = bytes;
    return err;
}

/* Drops requests that have not begun, waits for the one that has. */
static int template_close(struct zero_store *store)
{
    pthread_mutex_lock(&store->lock);
    store->stop = true;
    pthread_cond_signal(&store->work);
    pthread_mutex_unlock(&store->lock);
    pthread_join(store->worker, NULL);
    pthread_cond_destroy(&store->news);
    pthread_cond_destroy(&store->work);
    pthread_mutex_destroy(&store->lock);
    while (store->mrs) {
        struct zero_mr *mr = store->mrs;
        store->mrs = mr->next;
        free(mr);
    }
    close(store->fd);
    free(store);
    return 0;
}

/* ---- Memory: this tier can work with any ----------------------------------------------------- */

static int template_reg(struct zero_store *store, void *base, uint64_t bytes, uint32_t mem,
                        struct zero_mr **out)
{
    struct zero_mr *mr;

    if (mem != ZERO_MEM_HOST)
        return say(store->host, -ENOTSUP, "reg: memory kind %u, but only host memory will do", mem);
    mr = calloc(1, sizeof *mr);
    if (!mr)
        return say(store->host, -ENOMEM, "no memory for a registration");
    *mr = (struct zero_mr){.next = store->mrs, .store = store, .base = base, .bytes = bytes};
    store->mrs = mr;
    *out = mr;
    return 0;
}

static int template_unreg(struct zero_store *store, struct zero_mr *mr)
{
    struct zero_mr **link = &store->mrs;

    while (*link && *link != mr)
        link = &(*link)->next;
    if (!*link)
        return say(store->host, -EINVAL, "unreg: this registration is unknown");
    *link = mr->next;
    free(mr);
    return 0;
}

/* ---- Requests -------------------------------------------------------------------------------- */

static int check(const struct zero_store *store, const struct zero_io *io)
{
    const struct zero_slice *s = &io->buf;

    if (io->op < ZERO_IO_READ || io->op > ZERO_IO_SYNC || io->flags)
        return say(store->host, -ENOTSUP, "request %u with flags 0x%x is unknown to this version",
                   io->op, io->flags);
    if (io->reserved[0] || io->reserved[1])
        return say(store->host, -EINVAL, "a reserved field of the request is not 0");
    if (io->op == ZERO_IO_SYNC)
        return s->len == 0 ? 0 : say(store->host, -EINVAL, "a SYNC carries no bytes");
    if (s->mr && s->mr->store != store)
        return say(store->host, -EINVAL, "the memory is registered with another store");
    if (s->len == 0 || s->len > IO_MOST || !s->mr)
        return say(store->host, -EINVAL, "a request of %llu bytes%s; 1 to %llu are possible",
                   (unsigned long long)s->len, s->mr ? "" : " without memory",
                   (unsigned long long)IO_MOST);
    if (s->off > s->mr->bytes || s->len > s->mr->bytes - s->off)
        return say(store->host, -ERANGE, "bytes %llu + %llu lie outside memory of %llu",
                   (unsigned long long)s->off, (unsigned long long)s->len,
                   (unsigned long long)s->mr->bytes);
    if (io->store_off > store->bytes || s->len > store->bytes - io->store_off)
        return say(store->host, -ERANGE, "bytes %llu + %llu lie outside a store of %llu",
                   (unsigned long long)io->store_off, (unsigned long long)s->len,
                   (unsigned long long)store->bytes);
    return 0;
}

/* Accepts as many as there is room for; a bad one is an error only when it is the first. */
static int template_submit(struct zero_store *store, const struct zero_io *ios, uint32_t n)
{
    uint32_t k = 0;
    int err = 0;

    pthread_mutex_lock(&store->lock);
    for (; k < n && store->submitted - store->reported < DEPTH; k++) {
        err = check(store, &ios[k]);
        if (err)
            break;
        store->ring[store->submitted++ % DEPTH] = (struct request){
            .io = ios[k], .memory = ios[k].buf.mr ? ios[k].buf.mr->base + ios[k].buf.off : NULL};
    }
    if (k)
        pthread_cond_signal(&store->work);
    pthread_mutex_unlock(&store->lock);
    return k ? (int)k : err;
}

static struct timespec deadline(int64_t timeout_ns)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += timeout_ns / 1000000000;
    t.tv_nsec += timeout_ns % 1000000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

static int template_poll(struct zero_store *store, struct zero_cqe *cqes, uint32_t max,
                         int64_t timeout_ns)
{
    static const char *const names[] = {"?", "read", "write", "sync"};
    struct timespec until = deadline(timeout_ns > 0 ? timeout_ns : 0);
    uint32_t n = 0;
    int err = 0;

    pthread_mutex_lock(&store->lock);
    while (store->reported == store->finished && !store->woken && timeout_ns > 0)
        if (pthread_cond_timedwait(&store->news, &store->lock, &until) == ETIMEDOUT)
            break;
    store->woken = false;
    for (; n < max && !err && store->reported != store->finished; n++, store->reported++) {
        const struct request *r = &store->ring[store->reported % DEPTH];
        cqes[n] = (struct zero_cqe){r->io.user, r->res};
        if (r->res <
            0) /* the sentence is the thread's that polls, and there is one: no more follow */
            err = say(store->host, (int)r->res, "%s of %llu bytes at %llu: %s", names[r->io.op],
                      (unsigned long long)r->io.buf.len, (unsigned long long)r->io.store_off,
                      strerror((int)-r->res));
    }
    pthread_mutex_unlock(&store->lock);
    return (int)n;
}

/* Any thread, so the lock is never held for long. Remembered: poll() may be about to wait. */
static int template_wake(struct zero_store *store)
{
    pthread_mutex_lock(&store->lock);
    store->woken = true;
    pthread_cond_signal(&store->news);
    pthread_mutex_unlock(&store->lock);
    return 0;
}

/* ---- The entry ------------------------------------------------------------------------------- */

static const struct zero_offload_ops ops = {
    .size = sizeof(struct zero_offload_ops),
    .probe = template_probe,
    .open = template_open,
    .info = template_info,
    .resize = template_resize,
    .reg = template_reg,
    .unreg = template_unreg,
    .submit = template_submit,
    .poll = template_poll,
    .wake = template_wake,
    .close = template_close,
};

static const struct zero_iface ifaces[] = {
    {.kind = ZERO_IFACE_OFFLOAD,
     .major = ZERO_OFFLOAD_MAJOR,
     .minor = ZERO_OFFLOAD_MINOR,
     .ops = &ops},
};

static const struct zero_plugin plugin = {
    .size = sizeof(struct zero_plugin),
    .name = NAME,
    .version = "1",
    .build = __VERSION__,
    .ifaces = ifaces,
    .n_ifaces = sizeof ifaces / sizeof ifaces[0],
};

ZERO_PLUGIN_EXPORT int zero_plugin_v1(const struct zero_host *host, const struct zero_plugin **out)
{
    (void)host;
    *out = &plugin;
    return 0;
}
