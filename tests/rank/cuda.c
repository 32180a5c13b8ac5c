/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training on the device plugin cuda, over a driver that executes on the host: the bits are those
 * of the host device, whatever the stage, the tiers and the transport. The device's memory cannot
 * be touched by the host there, so whoever forgets where it lies crashes. Then errors of the
 * device: all ranks end, and say the same.
 */
#include "../threads.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../plugins/cuda/driver.h"
#include "../fake/cuda_left.h"
#include "folder.h"
#include "toy.h"

#define MOST 12
#define SCALARS 8192 /* bytes between host and device in a few steps, without tensors */

struct run {
    const char *what, *stage, *accum;
    int ranks;
    uint32_t dtype, flags;
    const char *device; /* NULL: cuda */
    const char *more[4][2];
    int delay_us, no_virtual;
};

/* Rank 0's view of the driver before the first step and after the last. */
struct seen {
    struct fake_cuda_work before, after;
    int steps;
    uint64_t on_device, on_host; /* updates, by whose kernels they are */
};

static void *reach(const void *p)
{
    return fake_cuda_reach(p);
}

static void committed(struct zero_runtime *rt, int rank, void *arg)
{
    struct seen *s = arg;

    zero_barrier(rt);
    if (rank == 0)
        fake_cuda_work(&s->before);
    zero_barrier(rt);
}

static void count_updates(void *arg, const struct zero_op_time *op)
{
    struct seen *s = arg;

    if (strcmp(op->kind, "update") == 0)
        (*(strcmp(op->queue, "host") == 0 ? &s->on_host : &s->on_device))++;
}

static void stepped(struct zero_runtime *rt, int rank, int step, const struct zero_step_info *info,
                    void *arg)
{
    struct seen *s = arg;

    (void)info;
    if (step + 1 < s->steps)
        return;
    zero_barrier(rt);
    if (rank == 0)
        zero_op_times(rt, count_updates, s);
    if (rank == 0)
        fake_cuda_work(&s->after);
    zero_barrier(rt);
}

/* What each rank says when it fails. */
static char errors[4][512];

static void failed(int rank, int err, const char *error, void *arg)
{
    (void)err;
    (void)arg;
    snprintf(errors[rank], sizeof errors[rank], "%s", error);
}

static int train(const struct run *run, const char *device, struct seen *seen,
                 struct toy_result *result)
{
    struct zero_setting s[MOST] = {{"device", device}, {"stage", run->stage}, {"accum", run->accum},
                                   {"clip", "0.5"},    {"lr", "0.01"},        {"timeout", "20"},
                                   {"threads", "1"}};
    struct toy t = {.ranks = run->ranks,
                    .layers = 4,
                    .steps = seen->steps,
                    .dtype = run->dtype,
                    .flags = run->flags,
                    .width = 1500,
                    .settings = s,
                    .n_settings = 7,
                    .seed = 11,
                    .committed = committed,
                    .stepped = stepped,
                    .failed = failed,
                    .log = log_nothing,
                    .reach = reach,
                    .arg = seen};

    for (int i = 0; i < 4 && run->more[i][0]; i++)
        s[t.n_settings++] = (struct zero_setting){run->more[i][0], run->more[i][1]};
    return toy_train(&t, result);
}

static const char *setting_of(const struct run *run, const char *name)
{
    for (int i = 0; i < 4 && run->more[i][0]; i++)
        if (strcmp(run->more[i][0], name) == 0)
            return run->more[i][1];
    return NULL;
}

/* States outside the device are updated by the host, where they lie; others by the device. */
static bool updated_where_they_lie(const struct run *run, const struct seen *seen)
{
    const char *offload = setting_of(run, "offload");

    if (offload && strcmp(offload, "auto") == 0) /* some of each, in a memory that is too small */
        return seen->on_device && seen->on_host;
    offload = offload ? strstr(offload, "optimizer:") : NULL;
    if (!offload)
        return seen->on_device && !seen->on_host;
    return seen->on_host && (!seen->on_device || strstr(offload, "device") != NULL);
}

/*
 * Ranks of shm share the memory of their GPUs: but for some scalars nothing passes through the
 * host, where a relay takes all. Threads cannot share what has a handle of their own process only.
 */
static void passes_by(const struct run *run, const struct seen *seen)
{
    const char *comm = setting_of(run, "comm");
    bool by_itself = !comm || strcmp(comm, "trace") == 0;
    bool shares =
        run->ranks == 1 || (!run->no_virtual && by_itself && !setting_of(run, "shm_device"));
    uint64_t bytes = seen->after.host_bytes - seen->before.host_bytes;

    if (setting_of(run, "offload"))
        return;
    ok(shares == (bytes < SCALARS), "%" PRIu64 " bytes pass through the host%s", bytes,
       shares ? "" : ", as they must");
}

static void same_bits(const struct run *run)
{
    struct fake_cuda_settings set = fake_cuda_defaults();
    struct toy_result host, cuda;
    struct seen seen = {.steps = 4};
    const char *device = run->device ? run->device : "cuda";

    set.delay_us = run->delay_us;
    set.has_virtual = !run->no_virtual;
    fake_cuda_set(&set);
    bool good = !train(run, "host", &seen, &host);
    if (!good)
        diag("host: %s", host.error);
    seen.on_device = seen.on_host = 0;
    if (good && train(run, device, &seen, &cuda)) {
        diag("%s: %s", device, cuda.error);
        good = false;
    }
    if (good && (cuda.hash != host.hash || !cuda.agree || cuda.loss != host.loss ||
                 cuda.info.grad_norm != host.info.grad_norm || cuda.info.step != host.info.step ||
                 cuda.info.wire_bytes != host.info.wire_bytes)) {
        diag("hash %016" PRIx64 ", host %016" PRIx64 "; loss %g, %g; norm %g, %g; wire %" PRIu64
             ", %" PRIu64,
             cuda.hash, host.hash, cuda.loss, host.loss, cuda.info.grad_norm, host.info.grad_norm,
             cuda.info.wire_bytes, host.info.wire_bytes);
        good = false;
    }
    ok(good, "%s: stage %s, %s, %d rank%s, %s micro-batches: the bits of the host", run->what,
       run->stage, zero_dtype_name(run->dtype), run->ranks, run->ranks == 1 ? "" : "s", run->accum);
    uint64_t pageable = seen.after.pageable - seen.before.pageable;
    uint64_t launches = seen.after.launches - seen.before.launches;
    good = launches > 0 && seen.after.illegal == seen.before.illegal && !pageable;
    ok(good && nothing_left(), "by kernels, with pinned copies, and nothing is left");
    passes_by(run, &seen);
    ok(updated_where_they_lie(run, &seen), "%" PRIu64 " updates by the device, %" PRIu64
       " by the host", seen.on_device, seen.on_host);
    if (!good)
        diag("%" PRIu64 " launches, %" PRIu64 " pageable copies, %" PRIu64 " illegal ones",
             launches, pageable, seen.after.illegal);
    fake_cuda_set(NULL);
}

static void refused(const struct run *run, const char *word, const char *remedy)
{
    struct seen seen = {.steps = 1};
    struct toy_result r;
    int err = train(run, run->device, &seen, &r);

    ok(err && strstr(r.error, word) && strstr(r.error, remedy), "%s is refused with the remedy",
       run->what);
    if (!err || !strstr(r.error, word) || !strstr(r.error, remedy))
        diag("%d: %s", err, r.error);
    ok(nothing_left(), "and leaves nothing");
}

struct mixed {
    int rank;
    char job[64];
    struct toy_result result;
};

static void *mixed_main(void *arg)
{
    struct mixed *m = arg;
    struct zero_setting s[] = {
        {"device", m->rank ? "cuda" : "host"}, {"timeout", "20"}, {"threads", "1"}};
    struct toy t = {.ranks = 2,
                    .layers = 2,
                    .steps = 1,
                    .dtype = ZERO_F32,
                    .width = 100,
                    .settings = s,
                    .n_settings = sizeof s / sizeof *s,
                    .log = log_nothing,
                    .reach = reach};

    toy_rank(&t, m->rank, m->job, &m->result);
    return NULL;
}

/* Collectives of the two would be cut in different ways. */
static void mixed_devices(void)
{
    struct mixed m[2];
    bool good = true;

    for (int i = 0; i < 2; i++) {
        m[i].rank = i;
        snprintf(m[i].job, sizeof m[i].job, "mixed-%d", (int)getpid());
    }
    in_threads(mixed_main, m, 2);
    for (int i = 0; i < 2; i++)
        good &=
            m[i].result.err && strstr(m[i].result.error, "rank 1 trains on cuda:1 and rank 0 on "
                                                         "host:0");
    ok(good, "ranks on the host and on a GPU are refused");
    if (!good)
        diag("%d: %s", m[0].result.err, m[0].result.error);
    ok(nothing_left(), "and leave nothing");
}

struct lines {
    pthread_mutex_t lock;
    int first, second; /* times that a tier was told to lie there */
};

static void look(void *arg, int level, const char *line)
{
    struct lines *l = arg;

    (void)level;
    pthread_mutex_lock(&l->lock);
    l->first += strstr(line, "tier cpu: ") && strstr(line, "on node 0, next to 0000:10:00.0");
    l->second += strstr(line, "tier cpu: ") && strstr(line, "on node 1, next to 0000:20:00.0");
    pthread_mutex_unlock(&l->lock);
}

/* The memory of the tier cpu is next to the GPU of its rank, on a machine of two nodes. */
static void next_to_device(void)
{
    struct zero_setting s[] = {{"device", "cuda"},
                               {"offload", "optimizer:cpu"},
                               {"timeout", "20"},
                               {"threads", "1"},
                               {"log", "info"}};
    struct lines l = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct toy t = {.ranks = 2,
                    .layers = 2,
                    .steps = 1,
                    .dtype = ZERO_F32,
                    .width = 100,
                    .settings = s,
                    .n_settings = 5,
                    .log = look,
                    .reach = reach,
                    .arg = &l};
    const char *top = getenv("ZERO_TEST_TOP");
    struct toy_result r;
    char path[4096];

    snprintf(path, sizeof path, "%s/tests/data/two_nodes.xml", top ? top : ".");
    setenv("HWLOC_XMLFILE", path, 1);
    setenv("HWLOC_LIBXML", "0", 1); /* libxml2 leaves memory behind in each thread */
    int err = toy_train(&t, &r);
    unsetenv("HWLOC_XMLFILE");
    ok(!err && l.first == 1 && l.second == 1, "the tier cpu of each rank is next to its GPU");
    if (err || l.first != 1 || l.second != 1)
        diag("%s; %d, %d", err ? r.error : "no error", l.first, l.second);
}

static void no_room(void)
{
    struct fake_cuda_settings set = fake_cuda_defaults();
    const struct run run = {"a GPU that is too small", "0", "1", 2, .dtype = ZERO_F32,
                            .device = "cuda"};

    set.memory_mib = 0;
    fake_cuda_set(&set);
    refused(&run, "device cuda:", "what would make it fit");
    fake_cuda_set(NULL);
    const struct run limited = {"a limit that is too small", "0", "1", 2, .dtype = ZERO_F32,
                                .device = "cuda", .more = {{"memory_limit", "device:64K"}}};
    refused(&limited, "ZERO_MEMORY_LIMIT (device)", "memory_limit=device:");
}

/*
 * Transports of the tests: one that allocates nothing, and sends messages; and one that takes
 * streams, but not the device's memory.
 */
static void by_others(void)
{
    static const struct {
        const char *what, *plugin;
    } others[] = {{"messages", "mem"}, {"streams through the host", "streamed"}};
    const char *build = getenv("ZERO_TEST_BUILD");
    char plugin[4096];

    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(plugin, sizeof plugin, "%s/tests/plugin/.libs/zero-comm-%s.so",
                 build ? build : ".", others[i].plugin);
        same_bits(&(struct run){
            .what = others[i].what,
            .stage = "3",
            .accum = "1",
            .ranks = 2,
            .dtype = ZERO_BF16,
            .more = {{"comm", plugin}, {"relay_bytes", "8K"}, {"shm_device", "0"}},
            .delay_us = 50});
    }
}

/* The memory of the host that a relay takes is shown, and counts where that is limited. */
static void relay_counts(void)
{
    const uint64_t bytes = 2 * 3 * 8192; /* two lanes, three pieces each */
    char limit[64] = "";
    struct run run = {"", "2", "1", 2, .dtype = ZERO_BF16,
                      .more = {{"shm_device", "0"}, {"relay_bytes", "8K"},
                               {"memory_limit", limit}}};
    struct seen seen = {.steps = 1};
    struct toy_result r;
    uint64_t reserved = 0;

    fake_cuda_set(NULL);
    int err = train(&run, "cuda", &seen, &r);
    for (uint32_t i = 0; i < r.memory.n_rows; i++)
        reserved += r.memory.rows[i].reserved;
    ok(!err && toy_planned(&r, "cpu", "relay") == bytes && toy_planned(&r, "cpu", NULL) == bytes &&
           reserved == r.memory.reserved,
       "%" PRIu64 " bytes of the host for a relay are shown, and in the sum", bytes);
    snprintf(limit, sizeof limit, "cpu:%" PRIu64, bytes);
    err = train(&run, "cuda", &seen, &r);
    ok(!err, "they fit a limit of as many: %s", err ? r.error : "it trains");
    snprintf(limit, sizeof limit, "cpu:%" PRIu64, bytes - 1);
    err = train(&run, "cuda", &seen, &r);
    ok(err == -ENOMEM && strstr(r.error, "ZERO_MEMORY_LIMIT (cpu)") &&
           strstr(r.error, "\n  relay ") && strstr(r.error, "a smaller ZERO_RELAY_BYTES"),
       "a byte less is refused: %s", r.error);
    run.more[0][1] = "1";
    err = train(&run, "cuda", &seen, &r);
    ok(!err && !toy_planned(&r, "cpu", "relay"), "and is enough where the transport takes it: %s",
       err ? r.error : "it trains");
    ok(nothing_left(), "nothing is left");
}

/* What passes through the host's memory on its way to a disk. */
static void on_disk(void)
{
    static char path[4096], plugin[4096];
    const char *build = getenv("ZERO_TEST_BUILD");

    snprintf(plugin, sizeof plugin, "%s/.libs/zero-offload-nvme.so", build ? build : ".");
    if (access(plugin, R_OK)) {
        skip("states on a disk", "built without liburing");
        return;
    }
    folder_make("cuda", path);
    same_bits(&(struct run){
        .what = "states on a disk",
        .stage = "2",
        .accum = "1",
        .ranks = 2,
        .dtype = ZERO_BF16,
        .flags = TOY_REORDER,
        .more = {{"offload", "optimizer:nvme"}, {"nvme_path", path}, {"nvme_engine", "threads"}}});
    same_bits(&(struct run){.what = "all on a disk",
                            .stage = "3",
                            .accum = "3",
                            .ranks = 2,
                            .dtype = ZERO_F32,
                            .flags = TOY_ACTIVATIONS,
                            .more = {{"offload", "optimizer:nvme,parameters:nvme,activations:nvme"},
                                     {"nvme_path", path},
                                     {"nvme_engine", "threads"},
                                     {"reduce_at", "boundary"}}});
    same_bits(&(struct run){.what = "in turn on the GPU, beside it, on a disk",
                            .stage = "2",
                            .accum = "1",
                            .ranks = 2,
                            .dtype = ZERO_BF16,
                            .more = {{"offload", "optimizer:device+cpu+nvme"},
                                     {"nvme_path", path},
                                     {"nvme_engine", "threads"},
                                     {"memory_limit", "device:480K,cpu:200K"}}});
    same_bits(&(struct run){.what = "as it is best",
                            .stage = "2",
                            .accum = "1",
                            .ranks = 2,
                            .dtype = ZERO_BF16,
                            .more = {{"offload", "auto"},
                                     {"nvme_path", path},
                                     {"nvme_engine", "threads"},
                                     {"memory_limit", "device:480K,cpu:200K"}}});
    rmdir(path);
}

#define FIRST_KERNELS 40 /* pieces of a step before which the library may have launched none */

/* Where work goes astray: the n-th piece of a GPU from the commit on. */
struct lost {
    int gpu, at;
};

static void breaks_at_commit(struct zero_runtime *rt, int rank, void *arg)
{
    const struct lost *l = arg;

    zero_barrier(rt);
    if (rank == 0)
        fake_cuda_break_gpu(l->gpu, (uint64_t)l->at, CUDA_ILLEGAL_ADDRESS);
    zero_barrier(rt);
}

/* Names the call that has seen it, the error, and the last kernel, if there was one. */
static bool names_all(const char *text, bool launched)
{
    static const char *const calls[] = {"launching zero_", "copying ", "recording an event: ",
                                        "asking for an event: ", "making a stream wait ",
                                        "making a bell wait ", "a bell for a stream: ",
                                        "enqueueing a ", "waiting for a stream: "};
    const char *kernel = launched ? "(the last kernel of this library was zero_"
                                  : "(the last kernel of this library was ";
    const char *call = text ? strstr(text, "cuda: ") : NULL;
    bool good = false;

    for (size_t i = 0; call && i < sizeof calls / sizeof *calls; i++)
        good |= strncmp(call + strlen("cuda: "), calls[i], strlen(calls[i])) == 0;
    return good && strstr(call, ": CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was "
                                "encountered): the device's context is lost") &&
           strstr(call, kernel);
}

/*
 * The GPU of one rank goes astray, that of the other is well: both end, with the sentence of the
 * one, and the other says whose it is.
 */
static void context_lost(int gpu, int at)
{
    struct zero_setting s[] = {
        {"device", "cuda"}, {"stage", "3"}, {"timeout", "20"}, {"threads", "1"}};
    struct lost lost = {gpu, at};
    struct toy t = {.ranks = 2,
                    .layers = 4,
                    .steps = 4,
                    .dtype = ZERO_BF16,
                    .width = 1500,
                    .settings = s,
                    .n_settings = 4,
                    .seed = 3,
                    .committed = breaks_at_commit,
                    .failed = failed,
                    .log = log_nothing,
                    .reach = reach,
                    .arg = &lost};
    struct toy_result r;
    char whose[32];

    memset(errors, 0, sizeof errors);
    fake_cuda_set(NULL);
    int err = toy_train(&t, &r);
    snprintf(whose, sizeof whose, "rank %d failed", gpu);
    const char *own = strstr(errors[gpu], "cuda: "), *other = strstr(errors[!gpu], whose);
    ok(err && names_all(own, at > FIRST_KERNELS),
       "a context that is lost at piece %d of the work of GPU %d ends its rank: %s", at, gpu,
       errors[gpu]);
    ok(names_all(other, at > FIRST_KERNELS), "and the rank whose GPU is well, which names it: %s",
       errors[!gpu]);
    other = other ? strstr(other, "cuda: ") : NULL;
    is_str(other, own ? own : "", "in the same words");
    fake_cuda_set(NULL);
}

/*
 * Calls of the driver fail, one in each run, from the first to the last: the job ends with the name
 * of what failed, or did without it and has the bits of the host.
 */
static void calls_fail(void)
{
    const struct run run = {"", "2", "1", 2, .dtype = ZERO_BF16,
                            .more = {{"offload", "optimizer:cpu"}}};
    struct seen seen = {.steps = 2};
    struct toy_result host, cuda;
    unsigned runs = 0, unnamed = 0, left = 0, wrong = 0;

    if (train(&run, "host", &seen, &host))
        bail(host.error);
    for (uint64_t n = 1; n < 100000; n += 1 + n / 6, runs++) {
        fake_cuda_set(NULL);
        fake_cuda_fail(n, CUDA_NOT_PERMITTED);
        memset(errors, 0, sizeof errors);
        int err = train(&run, "cuda", &seen, &cuda);
        const char *failed_call = fake_cuda_failed();
        const char *name = failed_call ? failed_call : "nothing";
        fake_cuda_fail(0, 0);
        if (!err && (cuda.hash != host.hash || !cuda.agree)) {
            diag("%s failed as call %" PRIu64 ": other bits", name, n);
            wrong++;
        }
        if (err && !strstr(errors[0], "cuda: ") && !strstr(errors[1], "cuda: ")) {
            diag("%s failed as call %" PRIu64 ": %s", name, n, cuda.error);
            unnamed++;
        }
        if (!nothing_left()) {
            diag("%s failed as call %" PRIu64 ": %s", name, n, err ? cuda.error : "no error");
            left++;
        }
        if (!failed_call)
            break;
    }
    ok(runs > 20, "a call fails in each of %u runs", runs);
    is_int(wrong, 0, "none ends with other bits");
    is_int(unnamed, 0, "each error is that of the device");
    is_int(left, 0, "nothing is left");
    fake_cuda_set(NULL);
}

static const struct run runs[] = {
    {"one GPU", "0", "1", 1, .dtype = ZERO_F32},
    {"two GPUs", "0", "1", 2, .dtype = ZERO_BF16},
    {"two GPUs", "1", "1", 2, .dtype = ZERO_BF16},
    {"two GPUs", "2", "3", 2, .dtype = ZERO_BF16, .more = {{"reduce_at", "micro"}}},
    {"two GPUs", "3", "1", 2, .dtype = ZERO_F32},
    {"two GPUs", "3", "3", 2, .dtype = ZERO_BF16, .more = {{"reduce_at", "micro"}}},
    {"two ranks on a GPU", "3", "1", 2, .dtype = ZERO_BF16, .device = "cuda:1"},
    {"three ranks on a GPU", "0", "1", 3, .dtype = ZERO_F32, .device = "cuda:0"},
    {"three ranks on a GPU", "1", "3", 3, .dtype = ZERO_BF16, .device = "cuda:0", .delay_us = 50},
    {"three ranks on a GPU", "2", "1", 3, .dtype = ZERO_F16, .device = "cuda:0"},
    {"three ranks on a GPU", "3", "1", 3, .dtype = ZERO_BF16, .device = "cuda:0", .delay_us = 50},
    {"through a wrapper", "2", "1", 2, .dtype = ZERO_BF16, .more = {{"comm", "trace"}}},
    {"through the host", "2", "1", 2, .dtype = ZERO_BF16, .more = {{"shm_device", "0"}}},
    {"small pieces", "0", "1", 2, .dtype = ZERO_F32,
     .more = {{"relay_bytes", "4K"}, {"shm_device", "0"}}},
    {"small pieces", "1", "3", 2, .dtype = ZERO_BF16,
     .more = {{"relay_bytes", "4K"}, {"shm_device", "0"}}, .delay_us = 100},
    {"small pieces", "3", "3", 2, .dtype = ZERO_BF16,
     .more = {{"relay_bytes", "4K"}, {"shm_device", "0"}, {"reduce_at", "micro"}}, .delay_us = 100},
    {"late work", "3", "1", 2, .dtype = ZERO_BF16, .delay_us = 100},
    {"late work, on a stream", "2", "1", 2, .dtype = ZERO_BF16, .flags = TOY_STREAM,
     .delay_us = 100},
    {"without virtual memory", "2", "1", 2, .dtype = ZERO_F32, .no_virtual = 1},
    {"overflow", "3", "1", 2, .dtype = ZERO_F16, .flags = TOY_NAN},
    {"tied, frozen, persistent", "3", "1", 2, .dtype = ZERO_BF16,
     .flags = TOY_TIED | TOY_FROZEN | TOY_PERSISTENT | TOY_EVAL},
    {"orders that change", "3", "1", 2, .dtype = ZERO_BF16, .flags = TOY_REORDER},
    {"orders that grow", "2", "1", 2, .dtype = ZERO_F32, .flags = TOY_REORDER | TOY_ANNOUNCE},
    {"momentum", "1", "1", 2, .dtype = ZERO_F32,
     .more = {{"optimizer", "sgd"}, {"momentum", "0.9"}}},
    {"states in bf16", "2", "1", 2, .dtype = ZERO_BF16, .more = {{"state_dtype", "bf16"}}},
    {"activations", "3", "1", 2, .dtype = ZERO_F32, .flags = TOY_ACTIVATIONS},
    {"activations at the host", "3", "1", 2, .dtype = ZERO_F32, .flags = TOY_ACTIVATIONS,
     .more = {{"offload", "activations:cpu"}}, .delay_us = 50},
    {"states at the host", "3", "1", 2, .dtype = ZERO_BF16, .more = {{"offload", "optimizer:cpu"}},
     .delay_us = 50},
    {"gradients and states at the host", "2", "3", 2, .dtype = ZERO_BF16,
     .more = {{"offload", "optimizer:cpu,gradients:cpu"}}},
    {"updates beside the backward pass", "2", "1", 2, .dtype = ZERO_BF16,
     .more = {{"offload", "optimizer:cpu"}, {"update_at", "backward"}, {"clip", "0"}}},
};

int main(void)
{
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        same_bits(&runs[i]);
    by_others();
    relay_counts();
    on_disk();
    next_to_device();
    refused(&(struct run){"a GPU that is not there", "0", "1", 2, .dtype = ZERO_F32,
                          .device = "cuda:7"},
            "there is no GPU 7", "ZERO_DEVICE=cuda:0");
    refused(&(struct run){"a number that is none", "0", "1", 2, .dtype = ZERO_F32,
                          .device = "cuda:x"},
            "ZERO_DEVICE=cuda:x", "as in cuda:0");
    refused(&(struct run){"more ranks than GPUs", "0", "1", 3, .dtype = ZERO_F32, .device = "cuda"},
            "there is no GPU 2", "ZERO_DEVICE=cuda:0");
    mixed_devices();
    no_room();
    for (int at = 1, i = 0; at < 100; at = at * 3 + 5, i++)
        context_lost(i % 2, at);
    calls_fail();
    done();
}
