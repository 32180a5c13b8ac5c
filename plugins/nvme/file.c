/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One file of a store. It has no name from the start where the file system can do that, else from
 * the moment after it was made: two jobs with one folder cannot meet, and whatever becomes of the
 * process, nothing stays behind but, of one that is killed in that moment, an empty file, which the
 * next job there removes.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include "machine/left.h"
#include "nvme.h"

/* Of file systems that lie on other machines, as statfs() calls them. */
static const struct {
    unsigned long type;
    const char *name;
} networks[] = {
    {NFS_SUPER_MAGIC, "NFS"},   {SMB_SUPER_MAGIC, "SMB"},   {CIFS_SUPER_MAGIC, "CIFS"},
    {SMB2_SUPER_MAGIC, "SMB2"}, {CEPH_SUPER_MAGIC, "Ceph"}, {0x0bd00bd0, "Lustre"},
    {V9FS_MAGIC, "9p"},         {AFS_SUPER_MAGIC, "AFS"},   {0x47504653, "GPFS"},
    {0x65735546, "FUSE"},       {0x7461636f, "OCFS2"},      {0x01161970, "GFS2"},
    {0x19830326, "BeeGFS"},
};

/*
 * Those that write a block to a new place each time (copy on write). Room that is reserved is used
 * up by the first writes; later ones need room that nobody has reserved.
 */
static const struct {
    unsigned long type;
    const char *name;
} copies[] = {{BTRFS_SUPER_MAGIC, "btrfs"}, {NVME_ZFS_MAGIC, "ZFS"}, {0xca451a4e, "bcachefs"}};

#define SCRATCH ".zero-scratch-"
#define LEFT_S 60 /* since it was made; its maker removes it at once */

/*
 * What others of this user have left of a name that nobody else gives. It is not taken from under
 * one that is about to remove it itself, on another host maybe, which has none of it open here.
 */
static void left_remove(const char *folder)
{
    DIR *d = opendir(folder);
    const struct dirent *e;
    struct stat s;

    while (d && (e = readdir(d)))
        if (!strncmp(e->d_name, SCRATCH, strlen(SCRATCH)) &&
            !fstatat(dirfd(d), e->d_name, &s, AT_SYMLINK_NOFOLLOW) && S_ISREG(s.st_mode) &&
            !s.st_size && s.st_uid == geteuid() && s.st_mtime < time(NULL) - LEFT_S)
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
}

static int named_file(const char *folder)
{
    char path[4096];
    int fd;

    if (snprintf(path, sizeof path, "%s/" SCRATCH "XXXXXX", folder) >= (int)sizeof path)
        return -ENAMETOOLONG;
    left_remove(folder);
    fd = mkostemp(path, O_CLOEXEC); /* 0600 */
    if (fd < 0)
        return -errno;
    if (!unlink(path))
        return fd;
    int err = -errno; /* it would stay behind, with all that is written to it */
    close(fd);
    return err;
}

static int nameless_file(const char *folder)
{
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);

    if (fd >= 0)
        return fd;
    return errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL ? named_file(folder) : -errno;
}

unsigned long zero__nvme_type(const struct statfs *fs)
{
    return (unsigned long)fs->f_type & 0xffffffffu;
}

bool zero__nvme_is_memory(const struct statfs *fs)
{
    return zero__nvme_type(fs) == TMPFS_MAGIC || zero__nvme_type(fs) == RAMFS_MAGIC;
}

int zero__nvme_free_bytes(const struct statfs *fs, uint64_t *bytes)
{
    if (!fs->f_blocks)
        return -ENODATA;
    *bytes = (uint64_t)fs->f_bavail * (uint64_t)(fs->f_frsize ? fs->f_frsize : fs->f_bsize);
    return 0;
}

/* What transfers past the page cache must be multiples of; 0: the file system cannot. */
static uint32_t direct_align(int fd)
{
    struct statx s;
    int flags = fcntl(fd, F_GETFL);
    uint32_t align = NVME_BLOCK; /* where it is not known: what is right for every disk */

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_DIRECT))
        return 0;
#ifdef STATX_DIOALIGN
    if (!statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &s) && (s.stx_mask & STATX_DIOALIGN))
        align = s.stx_dio_offset_align > s.stx_dio_mem_align ? s.stx_dio_offset_align
                                                             : s.stx_dio_mem_align;
#else
    (void)s;
#endif
    if (!align)
        fcntl(fd, F_SETFL, flags);
    return align;
}

#define MOST_TRIES 64

/* 0, or what the system says about a block; what it says for a moment it is asked again. */
static int block_move(int fd, char *block, bool writes)
{
    ssize_t n = -1;

    errno = EAGAIN;
    for (int i = 0; i < MOST_TRIES && n < 0 && (errno == EAGAIN || errno == EINTR); i++)
        n = writes ? pwrite(fd, block, NVME_BLOCK, 0) : pread(fd, block, NVME_BLOCK, 0);
    return n < 0 ? -errno : 0;
}

/*
 * A file system may take O_DIRECT and refuse what it is for: its blocks are larger, or what lies
 * below it cannot. Only a transfer tells. Other errors are for who needs the file to tell.
 */
static bool refuses_blocks(int fd)
{
    char *block;
    int err;

    if (zero__file_most() < NVME_BLOCK) /* a write would be a signal; who reserves room will tell */
        return false;
    block = aligned_alloc(NVME_BLOCK, NVME_BLOCK);
    if (!block)
        return false;
    memset(block, 0, NVME_BLOCK);
    err = block_move(fd, block, true);
    if (!err)
        err = block_move(fd, block, false);
    free(block);
    return err == -EINVAL || err == -EOPNOTSUPP;
}

/* Chooses the way to the disk: past the page cache if it is wanted and can be had. */
static void way_choose(const struct zero_store *store, struct nvme_file *f)
{
    uint32_t align = direct_align(f->fd);

    if (!align) {
        zero__tell(&store->voice, store->warns,
                   "the file system of %s knows no way past the page cache: the tier takes "
                   "memory of the machine, and its speed is not that of the disk",
                   f->folder);
        return;
    }
    if (align <= NVME_BLOCK && !refuses_blocks(f->fd)) {
        f->align = align;
        return;
    }
    if (align > NVME_BLOCK)
        zero__tell(&store->voice, store->warns,
                   "%s wants multiples of %u bytes past the page cache, more than %u: the page "
                   "cache is used",
                   f->folder, align, NVME_BLOCK);
    else
        zero__tell(&store->voice, store->warns,
                   "the file system of %s promises a way past the page cache and refuses a "
                   "transfer of %u bytes: the page cache is used, the tier takes memory of the "
                   "machine, and its speed is not that of the disk",
                   f->folder, NVME_BLOCK);
    fcntl(f->fd, F_SETFL, fcntl(f->fd, F_GETFL) & ~O_DIRECT);
}

/* What a folder has to be for, and is not. */
static void judge(const struct zero_store *store, const char *folder, const struct statfs *fs)
{
    if (zero__nvme_is_memory(fs))
        zero__tell(&store->voice, store->warns,
                   "%s (ZERO_NVME_PATH) is memory, no disk: the tier saves nothing there; name a "
                   "folder on a local disk",
                   folder);
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        if (zero__nvme_type(fs) == networks[i].type)
            zero__tell(&store->voice, store->warns,
                       "%s (ZERO_NVME_PATH) is no local disk (%s): expect the speed of what is "
                       "behind it; where several hosts share it, each counts all of its room for "
                       "its own ranks, so leave free there what all of them need together",
                       folder, networks[i].name);
}

/* btrfs can do without for a file that is empty yet; its checksums are then ours alone. */
static bool writes_in_place(int fd, unsigned long type)
{
    int flags = 0;

    if (type != BTRFS_SUPER_MAGIC || ioctl(fd, FS_IOC_GETFLAGS, &flags))
        return false;
    flags |= FS_NOCOW_FL;
    return !ioctl(fd, FS_IOC_SETFLAGS, &flags) && !ioctl(fd, FS_IOC_GETFLAGS, &flags) &&
           flags & FS_NOCOW_FL;
}

/* What is reserved has to stay so for every write; tells where it does not. */
static bool keeps_room(const struct zero_store *store, int fd, const char *folder,
                       const struct statfs *fs)
{
    unsigned long type = zero__nvme_type(fs);

    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++) {
        if (type != copies[i].type || writes_in_place(fd, type))
            continue;
        zero__tell(
            &store->voice, store->warns,
            "the file system of %s (ZERO_NVME_PATH) is %s, which writes every block to a new "
            "place: no room stays reserved there; if somebody else fills it, a write fails "
            "and the job ends. Leave as much free as the tier has, or name a folder on ext4 "
            "or XFS",
            folder, copies[i].name);
        return false;
    }
    return true;
}

int zero__nvme_folder_refuses(const struct zero__voice *voice, const char *folder, int err)
{
    const char *remedy = "look at what is mounted there", *or_else = ", or name another folder";

    switch (-err) {
    case EROFS:
        remedy = "its file system is read-only: mount it for writing (mount -o remount,rw)";
        break;
    case EACCES:
    case EPERM:
        remedy = "let the user of this process write there (chown, chmod)";
        break;
    case ENOENT:
        remedy = "make it (mkdir -p), or mount what should be there";
        break;
    case ENOTDIR:
        remedy = "take the folder that it lies in";
        break;
    case ENOSPC:
        remedy = "its file system has no room or no inode (df -i) for one more file: remove some";
        break;
    case EDQUOT:
        remedy = "remove files of this user there (quota), or let him have more";
        break;
    case EMFILE:
        remedy = "raise the limit of open files of this process (ulimit -n)";
        or_else = "";
        break;
    case ENFILE:
        remedy = "raise the limit of open files of this machine (sysctl fs.file-max)";
        or_else = "";
        break;
    }
    return zero__say(voice, err, "no file can be made in %s (ZERO_NVME_PATH): %s; %s%s", folder,
                     strerror(-err), remedy, or_else);
}

int zero__nvme_file_open(const struct zero_store *store, const char *folder,
                         struct nvme_file *file)
{
    struct nvme_file f = {.fd = nameless_file(folder), .folder = folder, .align = 1};
    struct statfs fs = {0};
    struct stat st = {0};

    if (f.fd < 0)
        return zero__nvme_folder_refuses(&store->voice, folder, f.fd);
    if (!fstat(f.fd, &st))
        zero__nvme_disk_find(st.st_dev, f.disk, sizeof f.disk);
    f.device = st.st_dev;
    fstatfs(f.fd, &fs);
    f.is_memory = zero__nvme_is_memory(&fs);
    judge(store, folder, &fs);
    f.keeps_room = keeps_room(store, f.fd, folder, &fs);
    if (store->settings.direct && !f.is_memory)
        way_choose(store, &f);
    *file = f;
    return 0;
}

int zero__nvme_file_full(const struct zero_store *store, const struct nvme_file *file,
                         uint64_t bytes, int err)
{
    char free_text[40] = "its file system does not say how many";
    struct statfs fs;
    uint64_t room;

    if (!fstatfs(file->fd, &fs) && !zero__nvme_free_bytes(&fs, &room))
        snprintf(free_text, sizeof free_text, "%llu", (unsigned long long)room);
    return zero__say(&store->voice, err,
                     "%llu bytes in %s (ZERO_NVME_PATH): %s; %s are free. Free some, name "
                     "folders with more room (of several the smallest counts for each), or give "
                     "this tier less",
                     (unsigned long long)bytes, file->folder, strerror(-err), free_text);
}

int zero__nvme_file_reserve(const struct zero_store *store, struct nvme_file *file,
                            uint64_t bytes)
{
    const struct zero__voice *voice = &store->voice;
    const uint64_t most = zero__file_most();
    int err = 0;

    if (bytes > INT64_MAX)
        return zero__say(voice, -EFBIG, "%llu bytes in %s: no file is so large",
                         (unsigned long long)bytes, file->folder);
    if (bytes > most)
        return zero__say(voice, -EFBIG,
                         "%llu bytes in %s (ZERO_NVME_PATH): this process may write files of %llu "
                         "bytes at most: raise that (ulimit -f), or name more folders",
                         (unsigned long long)bytes, file->folder,
                         (unsigned long long)most);
    if (ftruncate(file->fd, (off_t)bytes))
        return zero__say(voice, -errno, "%llu bytes in %s: %s", (unsigned long long)bytes,
                         file->folder, strerror(errno));
    if (!bytes)
        return 0;
    while (fallocate(file->fd, 0, 0, (off_t)bytes)) {
        if (errno == EINTR)
            continue;
        if (errno != EOPNOTSUPP && errno != ENOSYS) {
            err = errno;
            break;
        }
        /* The C library would write a byte to every block instead: hours, on a network. */
        if (file->keeps_room) /* else that is told */
            zero__tell(voice, store->warns,
                       "the file system of %s cannot reserve room: if somebody else fills it, a "
                       "write fails and the job ends",
                       file->folder);
        file->keeps_room = false;
        return 0;
    }
    return err ? zero__nvme_file_full(store, file, bytes, -err) : 0;
}
