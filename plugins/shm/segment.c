/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments are memfds: they have no name, so nothing remains of them when their processes are gone,
 * however they went. They are sealed, so that no peer can shrink one under another's feet.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../common/memory.h"
#include "machine/left.h"
#include "shm.h"

#define ENDS_MS 100 /* for a process that has closed its files to end */

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif

static int segment_file(void)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create("zero-shm", flags | MFD_NOEXEC_SEAL);

    return fd < 0 && errno == EINVAL ? memfd_create("zero-shm", flags) : fd;
}

/* The file, its size fixed for good, readable by this user only. */
static int segment_make(struct shm_segment *s)
{
    if (s->bytes > zero__file_most())
        return -EFBIG;
    s->fd = segment_file();
    if (s->fd < 0)
        return -errno;
    if (fchmod(s->fd, 0600) || ftruncate(s->fd, (off_t)s->bytes) ||
        fcntl(s->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        return -errno;
    s->base = zero__memory_map(s->bytes, PROT_READ | PROT_WRITE, s->fd);
    if (s->base == MAP_FAILED) {
        s->base = NULL;
        return -errno;
    }
    return zero__memory_fill(s->base, s->bytes, s->fd, 0);
}

struct shm_segment *zero__segment_new(uint64_t bytes)
{
    struct shm_segment *s = calloc(1, sizeof *s);

    if (s) {
        s->fd = -1;
        s->bytes = bytes;
        atomic_init(&s->users, 1);
    }
    return s;
}

void zero__segment_leave(struct shm_segment *s)
{
    if (!s || atomic_fetch_sub(&s->users, 1) != 1)
        return;
    if (s->device)
        zero__device_segment_end(s);
    else if (s->base)
        munmap(s->base, s->bytes);
    if (s->fd >= 0)
        close(s->fd);
    free(s);
}

int zero__segment_create(const struct zero__voice *v, uint64_t bytes, struct shm_segment **out)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    struct shm_segment *s;
    int err;

    if (bytes == 0 || bytes > INT64_MAX - page)
        return zero__say(v, -EINVAL, "cannot allocate %llu bytes", (unsigned long long)bytes);
    s = zero__segment_new((bytes + page - 1) / page * page);
    err = s ? segment_make(s) : -ENOMEM;
    if (err) {
        zero__segment_leave(s);
        if (err == -ENOMEM)
            return zero__say(
                v, err,
                "%llu bytes of shared memory do not fit: %llu are left on this machine "
                "or in its control group, and 32 MiB must stay free: make room, or "
                "train a smaller model",
                (unsigned long long)bytes, (unsigned long long)zero__memory_left(NULL, 0));
        if (err == -EFBIG)
            return zero__say(v, err,
                             "%llu bytes of shared memory are a file, and this process may make "
                             "files of %llu bytes at most: raise that (ulimit -f)",
                             (unsigned long long)bytes, (unsigned long long)zero__file_most());
        errno = -err;
        return zero__say(v, err, "cannot make %llu bytes of shared memory: %m",
                         (unsigned long long)bytes);
    }
    *out = s;
    return 0;
}

/*
 * A hash of what is said of a segment, with bytes that the kernel has given to this process: what a
 * peer makes up, or spoils, does not go with it. 0: there are no such bytes, and nothing is proven.
 */
static uint64_t proof_of(const struct shm_address *a)
{
    const uint64_t words[] = {a->pid, a->fd, a->device, a->inode, a->bytes, a->object};
    const void *given = (const void *)(uintptr_t)getauxval(AT_RANDOM);
    uint64_t key[2], h;

    if (!given)
        return 0;
    memcpy(key, given, sizeof key);
    h = key[0];
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        h = (h ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
        h = (h ^ h >> 32) + key[1];
    }
    return h;
}

static bool is_proven(const struct shm_address *a)
{
    const uint64_t proof = proof_of(a);

    return proof && proof == a->proof;
}

int zero__segment_address(const struct shm_segment *s, struct shm_address *address)
{
    struct stat st;

    if (fstat(s->fd, &st))
        return -errno;
    *address = (struct shm_address){
        .pid = (uint64_t)getpid(),
        .fd = (uint64_t)s->fd,
        .device = st.st_dev,
        .inode = st.st_ino,
        .bytes = s->bytes,
        .object = (uint64_t)(uintptr_t)s,
    };
    address->proof = proof_of(address);
    return 0;
}

/* Is the descriptor the segment that the address speaks of, and safe to read from? */
static bool is_segment(int fd, const struct shm_address *a)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);

    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_dev == a->device &&
           st.st_ino == a->inode && st.st_uid == geteuid() && st.st_size > 0 &&
           (uint64_t)st.st_size == a->bytes && seals >= 0 && (seals & F_SEAL_SHRINK);
}

/* It may be on its way out: its files go a moment before it does. */
static bool has_ended(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    bool ended = fd < 0 ? errno == ESRCH : poll(&p, 1, ENDS_MS) == 1;

    if (fd >= 0)
        close(fd);
    return ended;
}

static int join_process(const struct zero__voice *v, int32_t rank, const struct shm_address *a,
                        bool writable, struct shm_segment *s)
{
    char path[64];
    int err;

    snprintf(path, sizeof path, "/proc/%llu/fd/%llu", (unsigned long long)a->pid,
             (unsigned long long)a->fd);
    s->fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    err = s->fd < 0 ? -errno : 0;
    if (err && err != -EMFILE && err != -ENFILE && has_ended((pid_t)a->pid))
        return zero__say(v, -ECONNRESET, "rank %d: its process %llu has ended", rank,
                         (unsigned long long)a->pid);
    errno = -err;
    if (err)
        return zero__say(v, err,
                         "cannot open the memory of rank %d (%s): %m; ranks must run as one user, "
                         "in one PID namespace, with /proc mounted",
                         rank, path);
    if (!is_segment(s->fd, a))
        return zero__say(v, -EPROTO, "%s is not the memory that rank %d announced", path, rank);
    s->base =
        zero__memory_map(s->bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, s->fd);
    if (s->base == MAP_FAILED) {
        s->base = NULL;
        return zero__say(v, -errno, "cannot map %llu bytes of rank %d: %m",
                         (unsigned long long)s->bytes, rank);
    }
    return 0;
}

int zero__segment_join(const struct zero__voice *v, int32_t rank, const struct shm_address *a,
                       uint64_t least, bool writable, struct shm_segment **out)
{
    struct shm_segment *s;
    int err;

    if (a->bytes < least || a->bytes > INT64_MAX || a->fd > INT32_MAX || a->pid > INT32_MAX)
        return zero__say(v, -EPROTO, "rank %d announced %llu bytes of memory, expected %llu", rank,
                         (unsigned long long)a->bytes, (unsigned long long)least);
    /* What is not proven is opened by its number, as another process would: that is checked. */
    if (a->pid == (uint64_t)getpid() && is_proven(a) && is_segment((int)a->fd, a)) {
        s = (struct shm_segment *)(uintptr_t)a->object;
        atomic_fetch_add(&s->users, 1);
        *out = s;
        return 0;
    }
    s = zero__segment_new(a->bytes);
    if (!s)
        return zero__say(v, -ENOMEM, "no memory for a segment of rank %d", rank);
    err = join_process(v, rank, a, writable, s);
    if (err) {
        zero__segment_leave(s);
        return err;
    }
    *out = s;
    return 0;
}
