/* SPDX-License-Identifier: Apache-2.0 */
/* The entry of the plugin `nvme`; see nvme.h for what it is. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/entry.h"
#include "nvme.h"

#define UNKNOWN_BYTES (UINT64_C(1) << 50) /* where a file system does not say: opening tells */

/* What the file system says of a folder that a store can have a file in. */
static int folder_ask(const struct zero__voice *voice, const char *folder,
                      struct nvme_space *space)
{
    struct stat st;
    int err = zero__nvme_folder_answers(voice, folder, NVME_ANSWER_NS);

    if (err)
        return err;
    if (statfs(folder, &space->fs) || stat(folder, &st))
        return zero__nvme_folder_refuses(voice, folder, -errno);
    if (!S_ISDIR(st.st_mode))
        return zero__nvme_folder_refuses(voice, folder, -ENOTDIR);
    if (access(folder, W_OK | X_OK))
        return zero__nvme_folder_refuses(voice, folder, -errno);
    space->device = st.st_dev;
    return 0;
}

/*
 * What could be had: the folder with the least for itself bounds a striped store. Folders of one
 * file system share what is free there; partitions of one disk have each their own.
 */
static int room(const struct zero__voice *voice, const struct nvme_settings *s,
                struct zero_store_info *info)
{
    struct nvme_space space[NVME_PATHS];
    uint64_t least = UINT64_MAX;
    int err = 0;

    for (int i = 0; i < s->n_paths && !err; i++)
        err = folder_ask(voice, s->path[i], &space[i]);
    if (err)
        return err;
    for (int i = 0; i < s->n_paths; i++) {
        uint64_t here, sharers = 0;
        if (zero__nvme_free_bytes(&space[i].fs, &here))
            here = UNKNOWN_BYTES;
        for (int k = 0; k < s->n_paths; k++)
            sharers += zero__nvme_space_is_one(&space[k], &space[i]);
        least = here / sharers < least ? here / sharers : least;
        info->flags |= zero__nvme_is_memory(&space[i].fs) ? ZERO_STORE_MEMORY : 0;
    }
    info->capacity = least / NVME_BLOCK * NVME_BLOCK * (uint64_t)s->n_paths;
    return 0;
}

static int probe(const struct zero_host *host, struct zero_store_info *info)
{
    const struct zero__voice voice = {host, NVME_NAME};
    struct nvme_settings s;
    struct zero_store_info full = {
        .mem = ZERO_MEM_HOST | ZERO_MEM_PINNED,
        .offset_align = NVME_BLOCK,
        .buffer_align = NVME_BLOCK,
        .max_io = NVME_MOST_IO,
        .best_io = NVME_BEST_IO,
    };
    int err = zero__nvme_settings(&voice, &s), uring;

    if (err)
        return err;
    err = room(&voice, &s, &full);
    full.depth = s.depth * (uint32_t)s.n_paths;
    full.bytes_per_mib = s.sums ? NVME_SUMS_PER_MIB : 0;
    uring = zero__nvme_uring_try();
    snprintf(full.note, sizeof full.note, "io_uring %s%s; %s%s",
             uring ? "cannot be used: " : "works", uring ? strerror(-uring) : "", s.path[0],
             s.n_paths > 1 ? " and more" : "");
    zero__nvme_settings_free(&s);
    if (!err)
        zero__store_info_give(&full, info);
    return err;
}

static const struct zero_offload_ops ops = {
    .size = sizeof(struct zero_offload_ops),
    .probe = probe,
    .open = zero__nvme_open,
    .info = zero__nvme_info,
    .resize = zero__nvme_resize,
    .reg = zero__nvme_reg,
    .unreg = zero__nvme_unreg,
    .submit = zero__nvme_submit,
    .poll = zero__nvme_poll,
    .wake = zero__nvme_wake,
    .close = zero__nvme_close,
};

ZERO__PLUGIN(NVME_NAME, OFFLOAD, &ops, __VERSION__)
