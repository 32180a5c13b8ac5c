/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiled into the plugin nvme, makes of the system below it one that does what it may do at any
 * time and seldom does: transfers that end before their end, at multiples of a block or in the
 * middle of one, and ones that were interrupted (EINTR) or are to be tried again (EAGAIN). Its
 * folders look like those of a file server that knows neither nameless files nor reserved room.
 * ZERO_SHAKY_SAYS: it says what reaches the system: writes, syncs and fstat(), with the number of
 * the file, and, once each, transfers by io_uring of registered files and memory or others.
 * ZERO_SHAKY_DIRECT: its file system takes O_DIRECT and refuses what is transferred so (EINVAL).
 * ZERO_SHAKY_ENDS: with this result, 0 or -errno, every tenth transfer ends that could have moved
 * something; with ZERO_SHAKY_FROM=N all of them from the N-th on.
 * ZERO_SHAKY_REFUSES=MS: so long, from the first transfer on that could have moved something, all
 * of these are refused (EAGAIN), and then it says how many were.
 * ZERO_SHAKY_DROP=N: the N-th write is told to be done, and is not.
 * ZERO_SHAKY_WAITS: its io_uring does everything whole, and who hands it transfers, which it says
 * (ZERO_SHAKY_SAYS), waits until all that it has have ended.
 * ZERO_SHAKY_BREAKS=N: the N-th call that hands transfers to its io_uring fails, and all later.
 * ZERO_SHAKY_HANGS=N: the N-th call does not return. ZERO_SHAKY_FULL: of four calls one is refused
 * with EAGAIN, one with EBUSY and one with EINTR, and takes nothing.
 * ZERO_SHAKY_OLD: its io_uring knows none of the operations. ZERO_SHAKY_PIECE=N: N bytes are the
 * most that can be registered with it as one.
 * ZERO_SHAKY_MAKES=ERRNO: it makes no file, and says so.
 * ZERO_SHAKY_ASLEEP: its folders' file system does not answer.
 * ZERO_SHAKY_SILENT: its folders' file system does not say what is free.
 * ZERO_SHAKY_LESS=N: the N-th request that moved something ends well, and with a block less than it
 * moved. ZERO_SHAKY_TWICE=N: from the N-th on, one ends with the tag of the one before it, where
 * both are of one op of the engine: with what stands above the number of the request in a tag.
 * ZERO_SHAKY_FOREIGN=N: the N-th has a tag that nobody gave.
 * ZERO_SHAKY_BESIDE: its threads lose a write that begins while another of them reads.
 * ZERO_SHAKY_MOST=N: it says that a request may have N bytes at most, and refuses what has more;
 * with ZERO_SHAKY_TAKES=N it says so of more than the N bytes that it takes.
 * ZERO_SHAKY_ALIGN=N: past the page cache its files want multiples of N bytes.
 * ZERO_SHAKY_WANTS=N: it says that offsets, lengths and memory are to be multiples of N bytes.
 * ZERO_SHAKY_TYPE: its folders look like those of a file system of that type, by statfs()'s number.
 * ZERO_SHAKY_VOLUMES=BYTES: each has a device number of its own, and so many bytes are free there.
 */
#define _GNU_SOURCE /* before any header of the system, as the files of the plugin want it */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "plugins/common/io.h"

#define NVME_NAME "shaky"

#define NVME_MOST_IO shaky_most("ZERO_SHAKY_MOST", INT64_MAX - INT64_MAX % 4096)
#define NVME_BEST_IO shaky_most("ZERO_SHAKY_MOST", 4 << 20)
#define NVME_REG_BYTES shaky_piece()
#define NVME_TELL(cqe) shaky_end(&(cqe)->user, &(cqe)->res)
#define NVME_ANSWER_NS ZERO_SECOND

__attribute__((unused)) static uint64_t shaky_piece(void)
{
    const char *text = getenv("ZERO_SHAKY_PIECE");

    return text ? strtoull(text, NULL, 10) : UINT64_C(1) << 30;
}

__attribute__((unused)) static uint64_t shaky_most(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);
    uint64_t most = text ? strtoull(text, NULL, 10) : otherwise;

    return most < otherwise ? most : otherwise;
}

__attribute__((unused)) static int shaky_check(const struct zero__voice *voice,
                                               const struct zero_io *io,
                                               const struct zero_store *store,
                                               uint64_t store_bytes, uint32_t offset_align,
                                               uint32_t buffer_align)
{
    uint64_t most = shaky_most("ZERO_SHAKY_TAKES", NVME_MOST_IO);

    if (io->buf.len > most)
        return zero__say(voice, -EINVAL, "a request of %llu bytes: %llu are the most",
                         (unsigned long long)io->buf.len, (unsigned long long)most);
    return zero__io_check(voice, io, store, store_bytes, offset_align, buffer_align);
}

__attribute__((unused)) static void shaky_info_give(const struct zero_store_info *full,
                                                    struct zero_store_info *info)
{
    const char *wants = getenv("ZERO_SHAKY_WANTS");
    struct zero_store_info said = *full;

    if (wants)
        said.offset_align = said.buffer_align = (uint32_t)strtoul(wants, NULL, 10);
    zero__store_info_give(&said, info);
}

static atomic_uint shaky_calls, shaky_results, shaky_submits; /* of each file's own */

__attribute__((unused)) static void shaky_end(uint64_t *user, int64_t *res)
{
    static atomic_uint ends;
    static _Atomic uint64_t last;
    const char *less = getenv("ZERO_SHAKY_LESS"), *twice = getenv("ZERO_SHAKY_TWICE");
    const char *foreign = getenv("ZERO_SHAKY_FOREIGN");
    unsigned n = *res > 0 ? atomic_fetch_add(&ends, 1) + 1 : 0;
    uint64_t before = atomic_exchange(&last, *user);

    if (less && n == strtoul(less, NULL, 10))
        *res -= 4096;
    if (twice && n > 1 && n >= strtoul(twice, NULL, 10) && before >> 8 == *user >> 8)
        *user = before;
    if (foreign && n == strtoul(foreign, NULL, 10))
        *user = ~*user;
}

__attribute__((unused)) static void shaky_tell(const char *what, int number)
{
    char text[64];

    if (getenv("ZERO_SHAKY_SAYS") &&
        write(2, text, (size_t)snprintf(text, sizeof text, "shaky: %s %d\n", what, number)) < 0)
        return;
}

/* Of every four transfers one goes to its end. */
__attribute__((unused)) static unsigned shaky_part(unsigned bytes)
{
    unsigned n = atomic_fetch_add(&shaky_calls, 1);

    if (getenv("ZERO_SHAKY_WAITS"))
        return bytes;
    return n % 4 == 0 || bytes <= 4096 ? bytes : n % 4 == 1 ? 4096 : bytes / 4096 / 2 * 4096 + 4096;
}

__attribute__((unused)) static int shaky_refuses(int fd)
{
    return getenv("ZERO_SHAKY_DIRECT") && fcntl(fd, F_GETFL) & O_DIRECT;
}

/* Is this write the one that is dropped? */
__attribute__((unused)) static int shaky_drops(void)
{
    static atomic_uint writes;
    const char *n = getenv("ZERO_SHAKY_DROP");

    return n && atomic_fetch_add(&writes, 1) + 1 == strtoul(n, NULL, 10);
}

static const void *shaky_dropped; /* whose write, of so many bytes, went to io_uring as nothing */
static unsigned shaky_dropped_bytes;

__attribute__((unused)) static void shaky_drop(struct io_uring_sqe *sqe, const void *t)
{
    if ((sqe->opcode != IORING_OP_WRITE && sqe->opcode != IORING_OP_WRITE_FIXED) || !shaky_drops())
        return;
    shaky_dropped = t;
    shaky_dropped_bytes = sqe->len;
    io_uring_prep_nop(sqe);
}

/* An operation that the kernel does not know ends as one that it refuses. */
__attribute__((unused)) static void shaky_sqe(struct io_uring_sqe *sqe, int fd)
{
    if (shaky_refuses(fd))
        sqe->opcode = 255;
}

__attribute__((unused)) static int shaky_refuses_all(const char *ms)
{
    static atomic_llong until_ms;
    static atomic_uint refused;
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    long long now = (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000, none = 0;
    atomic_compare_exchange_strong(&until_ms, &none, now + strtoll(ms, NULL, 10));
    if (now < atomic_load(&until_ms)) {
        atomic_fetch_add(&refused, 1);
        return 1;
    }
    unsigned n = atomic_exchange(&refused, 0);
    if (n)
        shaky_tell("refused", (int)n);
    return 0;
}

/* What the caller is told: a tenth of the time something else than the result. */
__attribute__((unused)) static int shaky_result(int result)
{
    if (getenv("ZERO_SHAKY_WAITS"))
        return result;
    if (result > 0 && getenv("ZERO_SHAKY_REFUSES") &&
        shaky_refuses_all(getenv("ZERO_SHAKY_REFUSES")))
        return -EAGAIN;
    unsigned n = atomic_fetch_add(&shaky_calls, 1);
    const char *ends = result > 0 ? getenv("ZERO_SHAKY_ENDS") : NULL;
    const char *from = getenv("ZERO_SHAKY_FROM");
    unsigned k = ends ? atomic_fetch_add(&shaky_results, 1) : 0;

    if (ends && (from ? k + 1 >= strtoul(from, NULL, 10) : k % 10 == 9))
        return (int)strtol(ends, NULL, 10);
    return result < 0 ? result : n % 20 == 3 ? -EAGAIN : n % 20 == 13 ? -EINTR
         : n % 20 == 17 && result > 4096 ? result - 100 : result;
}

static atomic_uint shaky_under_way; /* in io_uring, or ended there and not taken yet */

__attribute__((unused)) static int shaky_submit(struct io_uring *ring)
{
    const char *breaks = getenv("ZERO_SHAKY_BREAKS"), *hangs = getenv("ZERO_SHAKY_HANGS");
    unsigned n = atomic_fetch_add(&shaky_submits, 1) + 1;

    if (breaks && n >= strtoul(breaks, NULL, 10))
        return -EIO;
    while (hangs && n >= strtoul(hangs, NULL, 10))
        pause();
    if (getenv("ZERO_SHAKY_FULL") && n % 4)
        return n % 4 == 1 ? -EAGAIN : n % 4 == 2 ? -EBUSY : -EINTR;
    if (!getenv("ZERO_SHAKY_WAITS"))
        return io_uring_submit(ring);
    unsigned all = atomic_load(&shaky_under_way) + io_uring_sq_ready(ring);
    int k = io_uring_submit_and_wait(ring, all);
    atomic_fetch_add(&shaky_under_way, k > 0 ? (unsigned)k : 0);
    shaky_tell("a call with", k);
    return k;
}

__attribute__((unused)) static int shaky_peek(struct io_uring *ring, struct io_uring_cqe **cqe)
{
    int err = io_uring_peek_cqe(ring, cqe);

    if (err)
        return err;
    if (getenv("ZERO_SHAKY_WAITS"))
        atomic_fetch_sub(&shaky_under_way, 1);
    if (shaky_dropped && io_uring_cqe_get_data(*cqe) == shaky_dropped) {
        (*cqe)->res = (int)shaky_dropped_bytes;
        shaky_dropped = NULL;
    } else {
        (*cqe)->res = shaky_result((*cqe)->res);
    }
    return 0;
}

static atomic_int shaky_reads; /* under way */

__attribute__((unused)) static ssize_t shaky_pread(int fd, void *to, size_t bytes, off_t off)
{
    atomic_fetch_add(&shaky_reads, 1);
    ssize_t n = pread(fd, to, shaky_part((unsigned)bytes), off);
    if (getenv("ZERO_SHAKY_BESIDE"))
        usleep(1000);
    atomic_fetch_sub(&shaky_reads, 1);

    n = shaky_refuses(fd) ? -EINVAL : shaky_result((int)n);

    if (n < 0 && n != -1)
        errno = (int)-n;
    return n < 0 ? -1 : n;
}

__attribute__((unused)) static ssize_t shaky_pwrite(int fd, const void *of, size_t bytes, off_t off)
{
    unsigned part = shaky_part((unsigned)bytes);
    int drops = shaky_drops() || (getenv("ZERO_SHAKY_BESIDE") && atomic_load(&shaky_reads));
    ssize_t n = drops ? (ssize_t)part : pwrite(fd, of, part, off);

    if (drops)
        return n;
    shaky_tell("a write of", fd);
    n = shaky_refuses(fd) ? -EINVAL : shaky_result((int)n);

    if (n < 0 && n != -1)
        errno = (int)-n;
    return n < 0 ? -1 : n;
}

__attribute__((unused)) static int shaky_statfs(int err, struct statfs *fs)
{
    const char *type = getenv("ZERO_SHAKY_TYPE"), *room = getenv("ZERO_SHAKY_VOLUMES");

    if (room) {
        fs->f_bsize = fs->f_frsize = 4096;
        fs->f_bavail = fs->f_bfree = strtoul(room, NULL, 10) / 4096;
        fs->f_blocks = 2 * fs->f_bavail;
    }
    fs->f_type = type ? (__typeof__(fs->f_type))strtoul(type, NULL, 16) : NFS_SUPER_MAGIC;
    if (getenv("ZERO_SHAKY_SILENT"))
        fs->f_bavail = fs->f_bfree = fs->f_blocks = 0;
    return err;
}

__attribute__((unused)) static int shaky_stat(int err, struct stat *st)
{
    static atomic_uint n;

    if (getenv("ZERO_SHAKY_VOLUMES"))
        st->st_dev = makedev(0, 4096 + atomic_fetch_add(&n, 1));
    return err;
}

__attribute__((unused)) static int shaky_makes(void)
{
    const char *text = getenv("ZERO_SHAKY_MAKES");

    errno = text ? atoi(text) : 0;
    return !text;
}

__attribute__((unused)) static int shaky_fallocate(void)
{
    errno = EOPNOTSUPP;
    return -1;
}

/* Says what a transfer by io_uring is like, when all of it is known; once for each kind. */
__attribute__((unused)) static void shaky_say(const struct io_uring_sqe *sqe)
{
    static const char *const texts[2][2] = {{"shaky: another file, other memory\n",
                                             "shaky: another file, registered memory\n"},
                                            {"shaky: a registered file, other memory\n",
                                             "shaky: a registered file, registered memory\n"}};
    static atomic_int said[2][2];
    int file = !!(sqe->flags & IOSQE_FIXED_FILE);
    int memory = sqe->opcode == IORING_OP_READ_FIXED || sqe->opcode == IORING_OP_WRITE_FIXED;

    if (!getenv("ZERO_SHAKY_SAYS") || sqe->opcode == IORING_OP_FSYNC ||
        atomic_exchange(&said[file][memory], 1))
        return;
    if (write(2, texts[file][memory], strlen(texts[file][memory])) < 0)
        return;
}

/* A disk cannot be asked about it: did a sync get this far? */
__attribute__((unused)) static int shaky_sync(int fd)
{
    shaky_tell("a sync of", fd);
    return fdatasync(fd);
}

#ifdef STATX_DIOALIGN
__attribute__((unused)) static int shaky_statx(int result, struct statx *s)
{
    const char *align = getenv("ZERO_SHAKY_ALIGN");

    if (result || !align)
        return result;
    s->stx_mask |= STATX_DIOALIGN;
    s->stx_dio_mem_align = s->stx_dio_offset_align = (uint32_t)strtoul(align, NULL, 10);
    return 0;
}
#define statx(fd, path, flags, mask, s) shaky_statx(statx(fd, path, flags, mask, s), s)
#endif

__attribute__((unused)) static void shaky_sleep(void)
{
    while (getenv("ZERO_SHAKY_ASLEEP"))
        pause();
}

#undef O_TMPFILE
#define zero__io_check shaky_check
#define zero__store_info_give shaky_info_give
#define O_TMPFILE 0
#define statfs(path, fs) (shaky_sleep(), shaky_statfs(statfs(path, fs), fs))
#define fstatfs(fd, fs) shaky_statfs(fstatfs(fd, fs), fs)
#define stat(path, st) shaky_stat(stat(path, st), st)
#define fstat(fd, st) (shaky_tell("a stat of", fd), shaky_stat(fstat(fd, st), st))
#define mkostemp(path, flags) (shaky_makes() ? mkostemp(path, flags) : -1)
#define fallocate(...) shaky_fallocate()
/* Numbers of registered files are no descriptors, by which a file is asked for its flags. */
#define io_uring_register_files(...)                                                               \
    (getenv("ZERO_SHAKY_DIRECT") ? -ENOMEM : io_uring_register_files(__VA_ARGS__))
#define io_uring_prep_read_fixed(sqe, fd, at, n, ...)                                              \
    (io_uring_prep_read_fixed(sqe, fd, at, shaky_part(n), __VA_ARGS__), shaky_sqe(sqe, fd))
#define io_uring_prep_write_fixed(sqe, fd, at, n, ...)                                             \
    (shaky_tell("a write of", fd),                                                                 \
     io_uring_prep_write_fixed(sqe, fd, at, shaky_part(n), __VA_ARGS__), shaky_sqe(sqe, fd))
#define io_uring_prep_read(sqe, fd, at, n, off)                                                    \
    (io_uring_prep_read(sqe, fd, at, shaky_part(n), off), shaky_sqe(sqe, fd))
#define io_uring_prep_write(sqe, fd, at, n, off)                                                   \
    (shaky_tell("a write of", fd), io_uring_prep_write(sqe, fd, at, shaky_part(n), off),           \
     shaky_sqe(sqe, fd))
#define io_uring_prep_fsync(sqe, fd, flags)                                                        \
    (shaky_tell("a sync of", fd), io_uring_prep_fsync(sqe, fd, flags))
#define io_uring_sqe_set_data(sqe, t)                                                              \
    (shaky_say(sqe), shaky_drop(sqe, t), io_uring_sqe_set_data(sqe, t))
#define io_uring_submit shaky_submit
#define io_uring_peek_cqe shaky_peek
#define io_uring_opcode_supported(known, op)                                                       \
    (!getenv("ZERO_SHAKY_OLD") && io_uring_opcode_supported(known, op))
#define fdatasync shaky_sync
#define pread shaky_pread
#define pwrite shaky_pwrite
