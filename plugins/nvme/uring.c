/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers through io_uring: files and memory registered, everything that was started in one call.
 */
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/locked.h"
#include "machine/clock.h"
#include "nvme.h"

/*
 * liburing maps and unmaps by calls of its own, of which the thread sanitizer knows nothing: that
 * one ring's memory was given back before another thread's ring got it has to be said.
 */
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
static char rings;
#define RING_NEW() __tsan_acquire(&rings)
#define RING_GOES() __tsan_release(&rings)
#else
#define RING_NEW() (void)0
#define RING_GOES() (void)0
#endif

#define BUFFERS 64 /* of at most NVME_REG_BYTES */
#define TRY_NS (5 * ZERO_SECOND)
#define TRY_MS 10 /* before what the system had no room for is tried again */

struct uring {
    struct io_uring ring;
    bool files;  /* registered */
    int refusal; /* of places for memory, an errno */
    bool told;   /* why some memory is not registered */
    bool told_full;
    bool used[BUFFERS];
    uint64_t own_bytes; /* of the ring, which the limit of locked memory counts, too */
    uint64_t bytes;     /* of memory that is registered */
};

static struct uring *of(const struct zero_store *store)
{
    return store->engine_data;
}

static uint64_t whole_pages(uint64_t bytes)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    return (bytes + page - 1) / page * page;
}

static uint64_t own_bytes(const struct io_uring *ring)
{
    return whole_pages(ring->sq.ring_sz) + whole_pages(ring->cq.ring_sz) +
           whole_pages(ring->sq.ring_entries * sizeof(struct io_uring_sqe));
}

/* Which operations there are is not told by kernels before 5.6, and where that is forbidden. */
static int try_ops(struct io_uring *ring)
{
    static const uint8_t wanted[] = {IORING_OP_NOP,        IORING_OP_READ,        IORING_OP_WRITE,
                                     IORING_OP_READ_FIXED, IORING_OP_WRITE_FIXED, IORING_OP_FSYNC};
    struct io_uring_probe *known = io_uring_get_probe_ring(ring);
    bool all = known || ring->features & IORING_FEAT_RW_CUR_POS; /* as old as plain reads */

    for (size_t i = 0; i < sizeof wanted && known; i++)
        all &= io_uring_opcode_supported(known, wanted[i]);
    io_uring_free_probe(known);
    return all ? 0 : -ENOSYS;
}

/* What does nothing goes there and back: a system may let rings be made and not be entered. */
static int try_nothing(struct io_uring *ring, int64_t patience_ns)
{
    int64_t until = zero__deadline_ns(patience_ns < TRY_NS ? patience_ns : TRY_NS);
    struct pollfd fd = {.fd = ring->ring_fd, .events = POLLIN};
    struct io_uring_cqe *cqe;

    io_uring_prep_nop(io_uring_get_sqe(ring));
    for (;;) {
        int n = io_uring_sq_ready(ring) ? io_uring_submit(ring) : 0;
        if (n < 0 && n != -EAGAIN && n != -EBUSY && n != -EINTR)
            return n;
        if (!io_uring_peek_cqe(ring, &cqe))
            break;
        if (zero__now_ns() > until)
            return -ETIMEDOUT;
        poll(&fd, 1, TRY_MS);
    }
    io_uring_cqe_seen(ring, cqe);
    return 0;
}

static void ring_close(struct io_uring *ring)
{
    RING_GOES();
    io_uring_queue_exit(ring);
}

/* A ring that works. */
static int ring_open(struct io_uring *ring, uint32_t depth, int64_t patience_ns)
{
    /* One thread at a time works on a store, so the kernel need not interrupt it. */
    int err = io_uring_queue_init(depth, ring, IORING_SETUP_COOP_TASKRUN);

    if (err == -EINVAL) /* a kernel that does not know the flag */
        err = io_uring_queue_init(depth, ring, 0);
    if (err)
        return err;
    RING_NEW();
    err = try_ops(ring);
    if (!err)
        err = try_nothing(ring, patience_ns);
    if (err)
        ring_close(ring);
    return err;
}

int zero__nvme_uring_try(void)
{
    struct io_uring ring;
    int err = ring_open(&ring, 1, TRY_NS);

    if (!err)
        ring_close(&ring);
    return err;
}

static int uring_open(struct zero_store *store)
{
    struct uring *u = calloc(1, sizeof *u);
    int fds[NVME_PATHS];
    int err;

    if (!u)
        return -ENOMEM;
    err = ring_open(&u->ring, store->depth, store->patience_ns);
    if (err) {
        free(u);
        return err;
    }
    for (int i = 0; i < store->n_files; i++)
        fds[i] = store->files[i].fd;
    u->files = !io_uring_register_files(&u->ring, fds, (unsigned)store->n_files);
    u->refusal = -io_uring_register_buffers_sparse(&u->ring, BUFFERS);
    u->own_bytes = own_bytes(&u->ring);
    store->engine_data = u;
    return 0;
}

static void uring_close(struct zero_store *store)
{
    /* At once, where the kernel ends a ring in the background: what is locked counts until then. */
    io_uring_unregister_buffers(&of(store)->ring);
    ring_close(&of(store)->ring);
    free(store->engine_data);
}

/* The longest row of free places, of n at most: how many, and where it begins. */
static int find_places(const struct uring *u, uint64_t n, int *first)
{
    int most = 0, run = 0;

    for (int i = 0; i < BUFFERS && (uint64_t)most < n; i++) {
        run = u->used[i] ? 0 : run + 1;
        if (run > most) {
            most = run;
            *first = i + 1 - run;
        }
    }
    return most;
}

/* With the ring, and as much for one that was closed a moment ago. */
static uint64_t needed(const struct uring *u, uint64_t bytes)
{
    return u->bytes + whole_pages(bytes) + 2 * u->own_bytes;
}

/* limit: of locked memory; UINT64_MAX: it has no part in it. */
static void tell(struct zero_store *store, int level, uint64_t bytes, const char *why,
                 uint64_t limit)
{
    char remedy[ZERO__LOCKED_REMEDY], more[512] = "";

    if (of(store)->told)
        return;
    of(store)->told = true;
    if (limit != UINT64_MAX)
        snprintf(more, sizeof more,
                 ". The limit of locked memory is %llu bytes for all that processes of this user "
                 "register, and %d rank%s of this host share%s it. Raise it: %s",
                 (unsigned long long)limit, (int)store->ranks, store->ranks == 1 ? "" : "s",
                 store->ranks == 1 ? "s" : "",
                 zero__locked_remedy(needed(of(store), bytes) * (uint64_t)store->ranks, remedy));
    zero__tell(&store->voice, level,
               "%llu bytes cannot be registered with io_uring: %s; the kernel looks each of their "
               "pages up for every transfer, which takes more of a processor%s",
               (unsigned long long)bytes, why, more);
}

/*
 * A rank takes its part of the limit and no more, since it is the ranks' together: whether one of
 * them registers does not depend on who comes first.
 */
static bool is_allowed(struct zero_store *store, uint64_t bytes)
{
    uint64_t limit = zero__locked_limit();
    int refusal = of(store)->refusal;

    if (refusal) { /* EINVAL: the kernel is older than 5.19 */
        tell(store, refusal == EINVAL ? ZERO_LOG_INFO : store->warns, bytes, strerror(refusal),
             refusal == ENOMEM ? limit : UINT64_MAX);
        return false;
    }
    if (limit == UINT64_MAX || needed(of(store), bytes) <= limit / (uint64_t)store->ranks)
        return true;
    tell(store, store->warns, bytes, "it is more than a rank's part of the limit", limit);
    return false;
}

static int pieces_register(struct uring *u, int first, char *base, uint64_t bytes, int n)
{
    struct iovec pieces[BUFFERS];
    int done;

    for (int i = 0; i < n; i++) {
        uint64_t at = (uint64_t)i * NVME_REG_BYTES, left = bytes - at;
        pieces[i] = (struct iovec){base + at, left < NVME_REG_BYTES ? left : NVME_REG_BYTES};
    }
    done =
        io_uring_register_buffers_update_tag(&u->ring, (unsigned)first, pieces, NULL, (unsigned)n);
    if (done < 0 || done == n)
        return done < 0 ? done : 0;
    memset(pieces, 0, sizeof pieces); /* some of them: none */
    io_uring_register_buffers_update_tag(&u->ring, (unsigned)first, pieces, NULL, (unsigned)done);
    return -ENOMEM;
}

static void tell_full(struct zero_store *store, uint64_t bytes, uint64_t all)
{
    if (!of(store)->told_full)
        zero__tell(&store->voice, ZERO_LOG_INFO,
                   "%llu of %llu bytes are not registered with io_uring: there are %d places, for "
                   "%llu bytes each; the kernel looks their pages up for every transfer",
                   (unsigned long long)bytes, (unsigned long long)all, BUFFERS,
                   (unsigned long long)NVME_REG_BYTES);
    of(store)->told_full = true;
}

/*
 * Where there are too few places, the end of the memory gets them: libzero's buffers lie there,
 * behind states that no disk moves.
 */
static void uring_reg(struct zero_store *store, struct zero_mr *mr)
{
    uint64_t n = (mr->region.bytes + NVME_REG_BYTES - 1) / NVME_REG_BYTES;
    struct uring *u = of(store);
    int first = 0, places = find_places(u, n, &first), err;
    uint64_t begin = places ? (n - (uint64_t)places) * NVME_REG_BYTES : mr->region.bytes;
    uint64_t bytes = mr->region.bytes - begin;

    if (places && !is_allowed(store, bytes))
        return;
    if ((uint64_t)places < n)
        tell_full(store, begin, mr->region.bytes);
    if (!places)
        return;
    err = pieces_register(u, first, mr->region.base + begin, bytes, places);
    if (err) {
        tell(store, ZERO_LOG_WARN, bytes, strerror(-err), zero__locked_limit());
        return;
    }
    mr->first_piece = n - (uint64_t)places;
    mr->first_buffer = first;
    mr->n_buffers = places;
    u->bytes += whole_pages(bytes);
    memset(u->used + first, true, (size_t)places);
}

static void uring_unreg(struct zero_store *store, struct zero_mr *mr)
{
    struct iovec none[BUFFERS] = {0};

    if (!mr->n_buffers)
        return;
    io_uring_register_buffers_update_tag(&of(store)->ring, (unsigned)mr->first_buffer, none, NULL,
                                         (unsigned)mr->n_buffers);
    memset(of(store)->used + mr->first_buffer, false, (size_t)mr->n_buffers);
    of(store)->bytes -= whole_pages(mr->region.bytes - mr->first_piece * NVME_REG_BYTES);
    mr->n_buffers = 0;
}

static void uring_start(struct zero_store *store, struct nvme_transfer *t)
{
    struct uring *u = of(store);
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
    int fd = u->files ? t->file : store->files[t->file].fd;
    char *at = t->buffer + t->done;
    uint32_t left = t->bytes - t->done;
    uint64_t off = t->file_off + t->done;

    if (t->op == ZERO_IO_SYNC)
        io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
    else if (t->op == ZERO_IO_READ && t->registered >= 0)
        io_uring_prep_read_fixed(sqe, fd, at, left, off, t->registered);
    else if (t->op == ZERO_IO_READ)
        io_uring_prep_read(sqe, fd, at, left, off);
    else if (t->registered >= 0)
        io_uring_prep_write_fixed(sqe, fd, at, left, off, t->registered);
    else
        io_uring_prep_write(sqe, fd, at, left, off);
    if (u->files)
        sqe->flags |= IOSQE_FIXED_FILE;
    io_uring_sqe_set_data(sqe, t);
}

/* What the kernel has no room for stays in the ring, and goes with a later call. */
static int uring_flush(struct zero_store *store)
{
    int n = io_uring_sq_ready(&of(store)->ring) ? io_uring_submit(&of(store)->ring) : 0;

    if (n < 0)
        return n == -EBUSY || n == -EINTR ? -EAGAIN : n;
    return io_uring_sq_ready(&of(store)->ring) ? -EAGAIN : 0;
}

static struct nvme_transfer *uring_ended(struct zero_store *store, int64_t *result)
{
    struct io_uring_cqe *cqe;
    struct nvme_transfer *t;

    if (io_uring_peek_cqe(&of(store)->ring, &cqe))
        return NULL;
    t = io_uring_cqe_get_data(cqe);
    *result = cqe->res;
    io_uring_cqe_seen(&of(store)->ring, cqe);
    return t;
}

static uint32_t uring_unsent(const struct zero_store *store)
{
    return io_uring_sq_ready(&of(store)->ring);
}

static int uring_fd(const struct zero_store *store)
{
    return of(store)->ring.ring_fd;
}

const struct nvme_engine zero__nvme_uring = {
    .name = "io_uring",
    .open = uring_open,
    .close = uring_close,
    .reg = uring_reg,
    .unreg = uring_unreg,
    .start = uring_start,
    .flush = uring_flush,
    .ended = uring_ended,
    .fd = uring_fd,
    .unsent = uring_unsent,
};
