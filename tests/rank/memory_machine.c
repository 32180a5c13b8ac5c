/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More memory than there is: a plan larger than the machine is refused before anything is touched;
 * in a small control group ranks get -ENOMEM with the table of who needs what, and are never
 * killed, whether the plan alone is too large or the application's own memory takes its room.
 */
#include "../tap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "toy.h"

#define MIB (UINT64_C(1) << 20)
#define GROUP_BYTES (224 * MIB)

static char group[1100]; /* folder of the control group; "" none */

/* What a run wants beside its small model; shared with its processes. */
struct wish {
    int ranks;
    uint64_t width;    /* not 0: of layers whose states are for a disk, a folder on tmpfs */
    uint64_t declared; /* bytes of a declared buffer */
    uint64_t own;      /* bytes that the application holds before the plan is made */
    struct outcome {
        int err;
        char error[4096];
    } outcome[2];
};

static struct wish *wish;

static void registered(struct zero_runtime *rt, int rank, void *arg)
{
    struct zero_buffer_desc d = {.size = sizeof d, .name = "huge", .bytes = wish->declared,
                                 .memory_class = ZERO_CLASS_ACTIVATIONS,
                                 .from_unit = ZERO_WHOLE_STEP, .to_unit = ZERO_WHOLE_STEP};
    uint32_t id;

    (void)rank, (void)arg;
    /* The kernel touches these pages, so that the thread sanitizer adds no memory of its own. */
    if (wish->own && mmap(NULL, wish->own, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) == MAP_FAILED)
        diag("mmap: %s", strerror(errno));
    if (wish->declared && zero_buffer_add(rt, &d, &id))
        diag("%s", zero_last_error());
}

static void failed(int rank, int err, const char *error, void *arg)
{
    (void)err, (void)error, (void)arg;
    snprintf(wish->outcome[rank].error, sizeof wish->outcome[rank].error, "%s", zero_last_error());
}

static int train(int rank, const char *job, struct toy_result *r)
{
    static const struct zero_setting s[] = {
        {"timeout", "20"},    {"comm", "shm"},               {"threads", "1"},
        {"tile_bytes", "1M"}, {"offload", "optimizer:nvme"}, {"nvme_path", "/dev/shm"},
        {"offload_measure", "0"}};
    struct toy t = {.ranks = wish->ranks, .layers = 2, .steps = 2, .dtype = ZERO_F32,
                    .width = 1000, .settings = s, .n_settings = 3, .seed = 1,
                    .registered = registered, .failed = failed};

    if (wish->width)
        t.width = wish->width, t.dtype = ZERO_BF16, t.n_settings = 7;
    return job ? toy_rank(&t, rank, job, r) : toy_train(&t, r);
}

static void wish_new(int ranks, uint64_t declared, uint64_t own)
{
    memset(wish, 0, sizeof *wish);
    wish->ranks = ranks, wish->declared = declared, wish->own = own;
}

static void refused(int rank, const char *source, const char *what)
{
    const char *text = wish->outcome[rank].error;

    has_str(text, source, "%s: the error says what is short", what);
    has_str(text, "activations", "%s: its table says who needs it", what);
    has_str(text, "what would make it fit", "%s: and what would help", what);
}

static void machine(void)
{
    struct toy_result r;
    long before = peak_kib();

    wish_new(2, UINT64_C(1) << 46, 0);
    is_int(train(0, NULL, &r), -ENOMEM, "64 TiB are refused");
    ok(peak_kib() - before < 32 * 1024, "before anything is touched: %ld KiB more are resident",
       peak_kib() - before);
    refused(0, strstr(wish->outcome[0].error, "control group") ? "control group" : "the machine",
            "64 TiB");
}

/* ---- A control group ------------------------------------------------------------------------- */

static int file_write(const char *dir, const char *name, const char *text)
{
    char path[1200];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY);
    ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));
    if (fd >= 0)
        close(fd);
    return n < 0 ? -1 : 0;
}

static int group_try(const char *root, const char *own, int v2)
{
    char limit[32];

    snprintf(group, sizeof group, "%s%s/zero-test-%d", root, own, (int)getpid());
    snprintf(limit, sizeof limit, "%llu", (unsigned long long)GROUP_BYTES);
    if (mkdir(group, 0755) == 0) {
        if (file_write(group, v2 ? "memory.max" : "memory.limit_in_bytes", limit) == 0)
            return 0;
        rmdir(group);
    }
    group[0] = 0;
    return -1;
}

/* Beside this process's own group, or at the root of the hierarchy; version 1 or 2. */
static int group_make(void)
{
    char line[1000], own[1000] = "";
    FILE *f = fopen("/proc/self/cgroup", "r");
    int v1 = 0;

    while (f && fgets(line, sizeof line, f)) {
        char *path = strstr(line, ":memory:");
        line[strcspn(line, "\n")] = 0;
        if (path)
            v1 = 1, snprintf(own, sizeof own, "%s", path + 8);
    }
    if (f)
        fclose(f);
    if (!v1)
        return group_try("/sys/fs/cgroup", "", 1);
    return group_try("/sys/fs/cgroup/memory", strcmp(own, "/") ? own : "", 0) &&
           group_try("/sys/fs/cgroup/memory", "", 0);
}

static void rank_main(int rank, const char *job)
{
    struct toy_result r;

    alarm(30);
    if (file_write(group, "cgroup.procs", "0"))
        _exit(3);
    wish->outcome[rank].err = train(rank, job, &r);
    _exit(0);
}

/* True when all ranks ended by themselves. */
static int in_group(void)
{
    static int jobs;
    char job[64];
    pid_t pids[2];
    int good = 1;

    snprintf(job, sizeof job, "memory-%d-%d", (int)getpid(), jobs++);
    fflush(stdout);
    for (int i = 0; i < wish->ranks; i++) {
        pids[i] = fork();
        if (pids[i] < 0)
            bail("cannot fork");
        if (pids[i] == 0)
            rank_main(i, job);
    }
    for (int i = 0; i < wish->ranks; i++) {
        int status;
        waitpid(pids[i], &status, 0);
        if (WIFSIGNALED(status))
            diag("rank %d: signal %d", i, WTERMSIG(status));
        else if (WEXITSTATUS(status))
            diag("rank %d: exit %d", i, WEXITSTATUS(status));
        good &= status == 0;
    }
    return good;
}

static void groups(void)
{
    wish_new(1, 110 * MIB, 0);
    ok(in_group() && wish->outcome[0].err == 0, "in a group of 224 MiB a plan of 110 MiB runs");

    wish_new(1, 400 * MIB, 0);
    ok(in_group(), "one of 400 MiB is not killed");
    is_int(wish->outcome[0].err, -ENOMEM, "but refused");
    refused(0, "control group", "400 MiB");

    wish_new(2, 100 * MIB, 0);
    ok(in_group(), "two ranks with 100 MiB each are not killed");
    is_int(wish->outcome[0].err, -ENOMEM, "the first is refused");
    is_int(wish->outcome[1].err, -ENOMEM, "so is the second");
    refused(0, "control group", "twice 100 MiB");
    has_str(wish->outcome[1].error, "control group", "the second, too, says what is short");

    /* On the device less than 6 bytes a parameter, 10 on the disk, which is memory of the group. */
    wish_new(1, 0, 0);
    wish->width = 5 * MIB;
    ok(in_group(), "states on tmpfs beside which there is too little memory: nobody is killed");
    is_int(wish->outcome[0].err, -ENOMEM, "but refused");
    has_str(wish->outcome[0].error, "control group", "with what is short");
    wish_new(1, 0, 0);
    wish->width = MIB / 4; /* the thread sanitizer keeps several bytes for each that is used */
    ok(in_group() && wish->outcome[0].err == 0, "states on tmpfs that the group has room for: %s",
       wish->outcome[0].error);

    wish_new(1, 110 * MIB, 140 * MIB);
    ok(in_group(), "110 MiB beside 140 MiB that the application holds are not killed");
    is_int(wish->outcome[0].err, -ENOMEM, "but refused");
    refused(0, "control group", "110 MiB beside 140 MiB");
}

int main(void)
{
    wish = mmap(NULL, sizeof *wish, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (wish == MAP_FAILED)
        bail("no shared memory");
    if (group_make()) {
        skip("a small control group", "no memory control group can be made here (root makes them)");
    } else {
        groups();
        if (rmdir(group))
            diag("%s is left: %s", group, strerror(errno));
    }
    machine(); /* last: its threads must not be forked */
    done();
}
