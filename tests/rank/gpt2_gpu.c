/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPT-2 on GPUs, with ranks as threads, over a driver and a cuBLAS that execute on the host: losses
 * are those of the processor, every run gives the same bits, and what fails is named.
 */
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "examples/gpt2/gemm.h"
#include "examples/gpt2/random.h"
#include "examples/gpt2/session.h"
#include "tests/fake/cuda_left.h"
#include "tests/threads.h"

#define NOT_PERMITTED 800 /* CUDA_ERROR_NOT_PERMITTED */

enum { MAX_RANKS = 2, STEPS = 4, MOST_VOCAB = 259 };
static uint64_t steps = STEPS; /* that a rank trains; fewer where no loss need fall */

struct run {
    const char *what;
    int ranks;
    uint32_t dtype;
    bool recompute;
    const char *more[4][2];
    int delay_us, vocab;
};

struct job {
    const struct run *run;
    const char *device, *name;
};

struct rank {
    const struct job *job;
    int rank, err;
    double loss[STEPS], held; /* mean of all ranks; of an evaluation */
    float logits[MOST_VOCAB];
    uint64_t hash;
    char text[512];
};

static char cublas[4096];

/* Every token is followed by one that is easy to learn. */
static void fill(int32_t *tokens, int32_t *targets, size_t n, uint64_t from)
{
    const uint64_t key = gpt2_key(1, 1);

    for (size_t i = 0; i < n; i++) {
        tokens[i] = (int32_t)gpt2_below(key, from + i, 20);
        targets[i] = (tokens[i] * 7 + 3) % 20;
    }
}

static double mean(const float *loss, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)loss[i];
    return sum / (double)n;
}

static int step(struct rank *r, struct gpt2_session *s, uint64_t number, int32_t *tokens,
                float *loss)
{
    const size_t rows = gpt2_rows(&s->shape);
    const uint32_t accum = (uint32_t)gpt2_session_number(s, "accum");
    double sum = 0;
    int err = 0;

    for (uint32_t m = 0; m < accum && !err; m++) {
        const uint64_t from = (number * accum + m) * MAX_RANKS + (uint64_t)r->rank;
        fill(tokens, tokens + rows, rows, from * rows);
        err = zero_begin(s->rt, ZERO_TRAIN, m + 1 == accum);
        if (!err)
            err = gpt2_train(&s->host, &s->shape, tokens, tokens + rows, zero_loss_scale(s->rt),
                             loss);
        sum += mean(loss, rows);
    }
    if (!err)
        err = zero_update(s->rt, NULL);
    if (!err)
        err = zero_sum(s->rt, &sum, 1);
    r->loss[number] = sum / (zero_ranks(s->rt) * accum);
    return err;
}

/* An evaluation, and what follows a short text. */
static int evaluate(struct rank *r, struct gpt2_session *s, int32_t *tokens, float *loss)
{
    const size_t rows = gpt2_rows(&s->shape);
    struct gpt2_shape one = s->shape;
    int err;

    fill(tokens, tokens + rows, rows, 1000000);
    err = zero_begin(s->rt, ZERO_EVAL, 1);
    if (!err)
        err = gpt2_evaluate(&s->host, &s->shape, tokens, tokens + rows, loss);
    r->held = mean(loss, rows);
    one.batch = 1;
    if (!err)
        err = zero_begin(s->rt, ZERO_EVAL, 1);
    if (!err)
        err = gpt2_predict(&s->host, &one, tokens, 5, r->logits);
    return err;
}

static int train(struct rank *r, struct gpt2_session *s)
{
    const size_t rows = gpt2_rows(&s->shape);
    int32_t *tokens = calloc(2 * rows, sizeof *tokens);
    float *loss = calloc(rows, sizeof *loss);
    int err = tokens && loss ? 0 : -1;

    for (uint64_t i = 0; i < steps && !err; i++)
        err = step(r, s, i, tokens, loss);
    if (!err)
        err = evaluate(r, s, tokens, loss);
    if (!err)
        err = zero_weights_hash(s->rt, &r->hash);
    free(loss);
    free(tokens);
    return err;
}

static struct gpt2_options options_of(const struct run *run)
{
    struct gpt2_options o = {.dtype = run->dtype,
                             .batch = 3,
                             .seq = 21,
                             .seed = 1,
                             .recompute = run->recompute,
                             .weight_decay = 0.1,
                             .beta2 = 0.95,
                             .cublas = cublas};

    gpt2_config_preset("micro", &o.model);
    if (run->vocab)
        o.model.vocab = (uint32_t)run->vocab;
    return o;
}

static void *rank_main(void *arg)
{
    struct rank *r = arg;
    const struct run *run = r->job->run;
    struct zero_setting settings[9] = {{"device", r->job->device},
                                       {"timeout", "30"},
                                       {"threads", "1"},
                                       {"lr", "0.002"},
                                       {"clip", "1"}};
    struct zero_config base = ZERO_CONFIG_INIT;
    const struct gpt2_options o = options_of(run);
    struct gpt2_session s = {0};

    base.settings = settings;
    base.n_settings = 5;
    for (int i = 0; i < 4 && run->more[i][0]; i++)
        settings[base.n_settings++] = (struct zero_setting){run->more[i][0], run->more[i][1]};
    base.rank = r->rank;
    base.ranks = base.local_ranks = run->ranks;
    base.job = r->job->name;
    base.log = log_nothing;
    r->err = gpt2_session_open(&s, &o, &base);
    if (!r->err)
        r->err = gpt2_session_device(&s, &o, r->text, sizeof r->text);
    if (!r->err)
        r->err = gpt2_session_commit(&s, &o);
    if (!r->err)
        r->err = train(r, &s);
    if (r->err && !*r->text)
        snprintf(r->text, sizeof r->text, "%s",
                 *gpt2_session_error(&s) ? gpt2_session_error(&s) : zero_last_error());
    if (r->err && s.rt)
        zero_abort(s.rt, r->text);
    gpt2_session_close(&s);
    return NULL;
}

/* 0, or the first error. */
static int run_job(const struct run *run, const char *device, struct rank *ranks)
{
    static int number;
    char name[64];
    const struct job job = {run, device, name};
    int err = 0;

    snprintf(name, sizeof name, "gpt2-gpu.%d.%d", (int)getpid(), number++);
    for (int i = 0; i < run->ranks; i++)
        ranks[i] = (struct rank){.job = &job, .rank = i};
    in_threads(rank_main, ranks, run->ranks);
    for (int i = 0; i < run->ranks; i++)
        err = err ? err : ranks[i].err;
    return err;
}

static double limit(uint32_t dtype)
{
    return dtype == ZERO_F32 ? 1e-4 : 5e-3;
}

static double apart(const struct rank *a, const struct rank *b)
{
    double most = fabs(a->held - b->held);

    for (int i = 0; i < STEPS; i++)
        most = fmax(most, fabs(a->loss[i] - b->loss[i]));
    return isnan(most) ? INFINITY : most;
}

static void same_losses(const struct run *run)
{
    struct fake_cuda_settings set = fake_cuda_defaults();
    static struct rank host[MAX_RANKS], gpu[MAX_RANKS], again[MAX_RANKS];
    struct fake_cuda_work work;

    fake_cuda_set(&set);
    int err = run_job(run, "host", host);
    if (!err)
        err = run_job(run, "cuda", gpu);
    fake_cuda_work(&work);
    ok(!work.pageable && !work.illegal && nothing_left(), "%s: copies are pinned, nothing is left",
       run->what);
    set.delay_us = run->delay_us ? run->delay_us : 30;
    set.seed = 7;
    fake_cuda_set(&set);
    if (!err)
        err = run_job(run, "cuda", again);
    for (int i = 0; i < run->ranks; i++)
        if (*host[i].text || *gpu[i].text || *again[i].text)
            diag("rank %d: %s %s %s", i, host[i].text, gpu[i].text, again[i].text);
    const double far = err ? INFINITY : apart(host, gpu);
    double logits = 0;
    for (int v = 0; v < MOST_VOCAB; v++)
        logits = fmax(logits, (double)fabsf(host->logits[v] - gpu->logits[v]));
    const bool learned = gpu->loss[STEPS - 1] < gpu->loss[0] - 0.1;
    ok(far <= limit(run->dtype) && logits <= 20 * limit(run->dtype) && learned,
       "%s: the losses of the processor", run->what);
    diag("losses differ by up to %.1e, logits by %.1e; %.4f to %.4f", far, logits, gpu->loss[0],
         gpu->loss[STEPS - 1]);
    ok(!err && gpu->hash == again->hash && gpu->held == again->held,
       "%s: the same bits in another run, where work is late", run->what);
    fake_cuda_set(NULL);
}

/* The same in all stages and with all offload: losses and weights, bit by bit. */
static void same_bits_in_stages(size_t by)
{
    static const struct run runs[] = {
        {"stage 0", 2, .dtype = ZERO_BF16, .more = {{"stage", "0"}}},
        {"stage 1", 2, .dtype = ZERO_BF16, .more = {{"stage", "1"}}},
        {"stage 2", 2, .dtype = ZERO_BF16, .more = {{"stage", "2"}}},
        {"stage 3", 2, .dtype = ZERO_BF16, .more = {{"stage", "3"}}},
        {"recomputation", 2, .dtype = ZERO_BF16, .recompute = true, .more = {{"stage", "3"}}},
        {"activations at the host", 2, .dtype = ZERO_BF16,
         .more = {{"stage", "2"}, {"offload", "activations:cpu"}}},
        {"states at the host", 2, .dtype = ZERO_BF16,
         .more = {{"stage", "3"}, {"offload", "optimizer:cpu,parameters:cpu"}}},
    };
    static struct rank first[MAX_RANKS], other[MAX_RANKS];

    fake_cuda_set(NULL);
    if (!ok(!run_job(&runs[0], "cuda", first), "stage 0 on two GPUs"))
        diag("%s", first->text);
    for (size_t i = 1; i < sizeof runs / sizeof *runs; i += by) {
        int err = run_job(&runs[i], "cuda", other);
        ok(!err && other->hash == first->hash && apart(first, other) == 0,
           "%s: the bits of stage 0", runs[i].what);
        if (err)
            diag("%s", other->text);
    }
    ok(nothing_left(), "nothing is left");
}

/* Calls of the driver fail, one in each run, from the first to the last. */
static void calls_fail(void)
{
    const struct run run = {"", 1, .dtype = ZERO_BF16};
    static struct rank r[MAX_RANKS];
    const uint64_t part = is_whole() ? 8 : is_short() ? 1 : 3;
    unsigned runs = 0, unnamed = 0, left = 0;

    for (uint64_t n = 1; n < 100000; n += 1 + n / part, runs++) {
        fake_cuda_set(NULL);
        fake_cuda_fail(n, NOT_PERMITTED);
        int err = run_job(&run, "cuda", r);
        const char *call = fake_cuda_failed();
        const bool last = !call;
        fake_cuda_fail(0, 0);
        if (err && !strstr(r->text, "cuda: ") && !strstr(r->text, " on the GPU") &&
            !strstr(r->text, "cuBLAS") && !strstr(r->text, "pinned memory")) {
            diag("%s failed as call %" PRIu64 ": %s", call, n, r->text);
            unnamed++;
        }
        if (!nothing_left()) {
            diag("%s failed as call %" PRIu64 ": %s", call, n, r->text);
            left++;
        }
        if (last)
            break;
    }
    ok(runs > 9, "a call of the driver fails in each of %u runs", runs);
    is_int(unnamed, 0, "each error says where");
    is_int(left, 0, "nothing is left");
    fake_cuda_set(NULL);
}

static int open_on_gpu(struct gpt2_session *s, const struct gpt2_options *o, char *text,
                       size_t room)
{
    struct zero_setting device = {"device", "cuda"};
    struct zero_config base = ZERO_CONFIG_INIT;

    base.settings = &device;
    base.n_settings = 1;
    base.log = log_nothing;
    int err = gpt2_session_open(s, o, &base);
    return err ? err : gpt2_session_device(s, o, text, room);
}

static void refused(const char *what, const char *library, const char *preset, const char *words,
                    const char *remedy)
{
    const struct run run = {what, 1, .dtype = ZERO_BF16};
    struct gpt2_options o = options_of(&run);
    struct gpt2_session s = {0};
    char text[512] = "";

    o.cublas = library;
    if (preset)
        o.model.n_heads = 4;
    int err = open_on_gpu(&s, &o, text, sizeof text);
    ok(err && strstr(text, words) && strstr(text, remedy), "%s is refused with the remedy", what);
    diag("%s", text);
    if (preset)
        ok(strstr(text, preset) != NULL, "and names the preset");
    gpt2_session_close(&s);
    ok(nothing_left(), "and leaves nothing");
}

/* In a process of its own: the newest cuBLAS does not serve, the next one does. */
static int pass_over(void)
{
    const struct run run = {"", 1, .dtype = ZERO_BF16};
    struct gpt2_options o = options_of(&run);
    struct gpt2_session s = {0};
    char text[512] = "";

    o.cublas = NULL;
    int err = open_on_gpu(&s, &o, text, sizeof text);
    const bool good = !err && !*gpt2_session_error(&s);
    if (!good)
        diag("%d: \"%s\", \"%s\"", err, text, gpt2_session_error(&s));
    gpt2_session_close(&s);
    return !good;
}

/* What was passed over would stand for every later error. */
static void passed_over(void)
{
    const char *search = getenv("LD_LIBRARY_PATH");
    char *before = search ? strdup(search) : NULL;
    char folder[] = "gpt2-gpu-XXXXXX", path[4096], target[4096], link[2][4200], all[8300];
    int status = -1;

    if (!mkdtemp(folder) || !realpath(folder, path) || !realpath(cublas, target))
        bail("no folder for two names of cuBLAS");
    for (int i = 0; i < 2; i++) {
        snprintf(link[i], sizeof link[i], "%s/libcublas.so.%d", path, 13 - i);
        if (symlink(target, link[i]))
            bail("no link to cuBLAS");
    }
    snprintf(all, sizeof all, "%s:%.4000s", path, before ? before : "");
    setenv("LD_LIBRARY_PATH", all, 1);
    setenv("FAKE_CUBLAS_NEWER", "1", 1);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "gpt2_gpu", "pass over", (char *)NULL);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    unsetenv("FAKE_CUBLAS_NEWER");
    if (before)
        setenv("LD_LIBRARY_PATH", before, 1);
    else
        unsetenv("LD_LIBRARY_PATH");
    free(before);
    ok(status == 0, "a cuBLAS that is passed over leaves no error");
    unlink(link[0]);
    unlink(link[1]);
    rmdir(path);
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1)
        return pass_over();
    static const struct run runs[] = {
        {"fp32", 1, .dtype = ZERO_F32},
        {"bf16", 1, .dtype = ZERO_BF16, .delay_us = 200},
        {"fp16, recomputation", 1, .dtype = ZERO_F16, .recompute = true,
         .more = {{"loss_scale", "128"}}},
        {"a vocabulary of odd size", 1, .dtype = ZERO_BF16, .vocab = 259},
        {"two ranks, three micro-batches", 2, .dtype = ZERO_BF16,
         .more = {{"stage", "3"}, {"accum", "3"}}, .delay_us = 100},
        {"two ranks, offload", 2, .dtype = ZERO_BF16, .recompute = true,
         .more = {{"stage", "2"}, {"offload", "optimizer:cpu,activations:cpu"}}, .delay_us = 100},
    };
    const char *build = getenv("ZERO_TEST_BUILD");
    const size_t first = is_short() ? 1 : 0, by = is_short() ? 4 : 1;
    char other[4096];

    snprintf(cublas, sizeof cublas, "%s/tests/fake/.libs/libcublas.so.13", build ? build : ".");
    snprintf(other, sizeof other, "%s/tests/fake/.libs/libcuda.so.1", build ? build : ".");
    gpt2_gemm_init();
    gpt2_gemm16_init();
    for (size_t i = first; i < sizeof runs / sizeof *runs; i += by)
        same_losses(&runs[i]);
    steps = 2;
    same_bits_in_stages(by);
    refused("no cuBLAS", "/no/such/libcublas.so", NULL, "/no/such/libcublas.so cannot be loaded",
            "install cuBLAS");
    refused("another library", other, NULL, "has no cublasGetProperty", "--cublas");
    setenv("FAKE_CUBLAS_MAJOR", "10", 1);
    refused("an old cuBLAS", cublas, NULL, "cuBLAS 10.0 is too old", "install cuBLAS");
    unsetenv("FAKE_CUBLAS_MAJOR");
    passed_over();
    refused("a model of other heads", cublas, "micro", "heads of 16 features", "ZERO_DEVICE=host");
    steps = 1;
    calls_fail();
    done();
}
