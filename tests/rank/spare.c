/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who sends all states to a disk although there is memory for them hears of it, once; not who has
 * limited that memory, who lets states fill it, nor who sends little.
 */
#include "../tap.h"

#include <linux/magic.h>
#include <stdatomic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "toy.h"

#define MIB (UINT64_C(1) << 20)

static atomic_int told;
static char folder[4096];

static void hear(void *arg, int level, const char *line)
{
    (void)arg, (void)level;
    if (!strstr(line, "optimizer:cpu+nvme in the place of optimizer:nvme"))
        return;
    atomic_fetch_add(&told, 1);
    diag("%s", line);
}

static void run(const char *what, uint64_t width, const char *offload, const char *limit, int times)
{
    struct zero_setting s[] = {{"offload", offload},    {"nvme_path", folder},
                               {"memory_limit", limit}, {"offload_measure", "0"},
                               {"timeout", "20"},       {"nvme_engine", "threads"}};
    struct toy t = {.ranks = 2, .layers = 2, .steps = 1, .dtype = ZERO_BF16, .width = width,
                    .settings = s, .n_settings = 6, .seed = 3, .log = hear};
    struct toy_result r;

    atomic_store(&told, 0);
    int err = toy_train(&t, &r);
    is_int(atomic_load(&told), times, "%s: told %d times", what, times);
    if (err)
        diag("%s", r.error);
    is_int(err, 0, "%s: trains", what);
}

static bool on_disk(const char *dir)
{
    struct statfs fs;

    return statfs(dir, &fs) == 0 && fs.f_type != TMPFS_MAGIC && fs.f_type != RAMFS_MAGIC;
}

int main(void)
{
    char here[4000];
    const char *dir = on_disk(".") && getcwd(here, sizeof here) ? here : "/var/tmp";

    if (!on_disk(dir)) {
        skip("memory that is free", "no folder for tests lies on a disk");
        done();
    }
    snprintf(folder, sizeof folder, "%s/zero-spare-XXXXXX", dir);
    if (!mkdtemp(folder))
        bail("cannot make a folder");
    alarm(240);
    run("all on the disk", 5 * MIB, "optimizer:nvme", "", 1);
    run("all on the disk, little memory", 5 * MIB, "optimizer:nvme", "cpu:48M", 0);
    run("what there is room for", 5 * MIB, "optimizer:cpu+nvme", "cpu:64M", 0);
    run("a small model", MIB / 2, "optimizer:nvme", "", 0);
    rmdir(folder);
    if (!on_disk("/dev/shm")) {
        snprintf(folder, sizeof folder, "/dev/shm");
        run("a disk that is memory", 5 * MIB, "optimizer:nvme", "", 0);
    }
    done();
}
