/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training on the device plugin cuda by processes, over a driver that executes on the host: ranks
 * attach the memory of each other's GPUs, or of the one that they have in common. The bits are
 * those of the host, and but for some scalars nothing passes through it. A rank has a part of a GPU
 * that others have, too, and all of one that is its own, whatever its number.
 */
#include "../tap.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../fake/cuda_driver.h"
#include "engine/runtime.h"
#include "toy.h"

#define MAX_RANKS 3
#define WATCHDOG_S 120
#define SCALARS 8192 /* bytes between host and device in a few steps, without tensors */

struct run {
    const char *stage, *accum, *device;
    int ranks;
    uint32_t dtype;
    int has_virtual, delay_us;
};

/* Of a rank; in memory that the processes share. */
struct seat {
    struct toy_result result;
    uint64_t before, after, attached, illegal;
    uint32_t sharers; /* of its GPU, as it thinks */
};

static struct seat *seats;

static void *reach(const void *p)
{
    return fake_cuda_reach(p);
}

static void committed(struct zero_runtime *rt, int rank, void *arg)
{
    struct fake_cuda_work work;

    (void)arg;
    fake_cuda_work(&work);
    seats[rank].before = work.host_bytes;
    seats[rank].sharers = rt->site.device_sharers;
}

/* The last time that it is called counts; afterwards the values are read, through the host. */
static void stepped(struct zero_runtime *rt, int rank, int step, const struct zero_step_info *info,
                    void *arg)
{
    struct fake_cuda_work work;

    (void)rt;
    (void)step;
    (void)info;
    (void)arg;
    fake_cuda_work(&work);
    seats[rank].after = work.host_bytes;
    seats[rank].illegal = work.illegal;
    seats[rank].attached = fake_cuda_called("cuMemImportFromShareableHandle") +
                           fake_cuda_called("cuIpcOpenMemHandle_v2");
}

/* own: what is GPU 0 is another one for each rank. */
static void train(const struct run *run, const char *device, const char *job, bool own)
{
    const struct zero_setting s[] = {{"device", device},    {"stage", run->stage},
                                     {"accum", run->accum}, {"clip", "0.5"},
                                     {"timeout", "60"},     {"threads", "1"}};
    struct toy t = {.ranks = run->ranks,
                    .layers = 4,
                    .steps = 3,
                    .dtype = run->dtype,
                    .width = 1500,
                    .settings = s,
                    .n_settings = sizeof s / sizeof *s,
                    .seed = 5,
                    .committed = committed,
                    .stepped = stepped,
                    .log = log_nothing,
                    .reach = reach};

    fflush(stdout);
    for (int i = 0; i < run->ranks; i++) {
        pid_t pid = fork();
        if (pid < 0)
            bail("cannot fork");
        if (pid == 0) {
            struct fake_cuda_settings set = fake_cuda_defaults();
            set.first_bus += i;
            if (own)
                fake_cuda_set(&set);
            alarm(WATCHDOG_S);
            toy_rank(&t, i, job, &seats[i].result);
            _exit(0);
        }
    }
    for (int i = 0; i < run->ranks; i++)
        wait(NULL);
}

static void same_bits(const struct run *run)
{
    static int number;
    struct fake_cuda_settings set = fake_cuda_defaults();
    uint64_t host[MAX_RANKS];
    bool bits = true, past = true;
    char job[64];

    set.has_virtual = run->has_virtual;
    set.delay_us = run->delay_us;
    fake_cuda_set(&set);
    for (int cuda = 0; cuda < 2; cuda++) {
        memset(seats, 0, MAX_RANKS * sizeof *seats);
        snprintf(job, sizeof job, "cuda-processes-%d-%d", (int)getpid(), number++);
        train(run, cuda ? run->device : "host", job, false);
        for (int i = 0; i < run->ranks; i++) {
            const struct seat *s = &seats[i];
            bits &= !s->result.err && s->result.hash && (!cuda || s->result.hash == host[i]);
            if (s->result.err)
                diag("%s, rank %d: %s", cuda ? run->device : "host", i, s->result.error);
            host[i] = s->result.hash;
            if (cuda && (s->after - s->before >= SCALARS || !s->attached || s->illegal)) {
                diag("rank %d: %" PRIu64 " bytes, %" PRIu64 " attached, %" PRIu64 " illegal", i,
                     s->after - s->before, s->attached, s->illegal);
                past = false;
            }
        }
    }
    ok(bits, "stage %s, %s, %d ranks on %s, %s micro-batches, %s: the bits of the host", run->stage,
       zero_dtype_name(run->dtype), run->ranks, run->device, run->accum,
       run->has_virtual ? "by descriptors" : "by handles");
    ok(past, "and nothing passes through the host");
}

static void sharers(bool own)
{
    const struct run run = {"1", "1", "cuda:0", 3, ZERO_BF16, 1, 0};
    uint32_t want = own ? 1 : 3;
    char job[64];
    bool good = true;

    fake_cuda_set(NULL);
    memset(seats, 0, MAX_RANKS * sizeof *seats);
    snprintf(job, sizeof job, "cuda-sharers-%d-%d", (int)getpid(), own);
    train(&run, run.device, job, own);
    for (int i = 0; i < run.ranks; i++) {
        good &= !seats[i].result.err && seats[i].sharers == want;
        diag("rank %d: %u sharers%s%s", i, seats[i].sharers, seats[i].result.err ? ", " : "",
             seats[i].result.err ? seats[i].result.error : "");
    }
    ok(good, "a GPU is that of %u rank%s", want, own ? ", where each sees one as number 0" : "s");
}

int main(void)
{
    static const struct run runs[] = {
        {"0", "1", "cuda", 2, ZERO_F32, 1, 0},    {"1", "3", "cuda", 2, ZERO_BF16, 1, 0},
        {"2", "1", "cuda", 2, ZERO_F16, 1, 50},   {"3", "1", "cuda", 2, ZERO_BF16, 1, 50},
        {"0", "1", "cuda:0", 3, ZERO_BF16, 1, 0}, {"1", "1", "cuda:0", 3, ZERO_F32, 1, 50},
        {"2", "3", "cuda:1", 3, ZERO_BF16, 1, 0}, {"3", "3", "cuda:0", 3, ZERO_BF16, 1, 0},
        {"2", "1", "cuda", 2, ZERO_BF16, 0, 0},   {"3", "1", "cuda:0", 3, ZERO_F32, 0, 50},
    };

    seats = mmap(NULL, MAX_RANKS * sizeof *seats, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (seats == MAP_FAILED)
        bail("no shared memory");
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        same_bits(&runs[i]);
    sharers(true);
    sharers(false);
    done();
}
