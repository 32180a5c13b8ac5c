/* SPDX-License-Identifier: Apache-2.0 */
/* To which op a wait is put down, told from the logs of a run with so many steps that looking
 * through all of them for each would take minutes; and which logs are of a sound training. */
#include "tools/bench/step/log.h"

#include <math.h>
#include <string.h>

#include "../tap.h"
#include "base/status.h"

#define STEPS 20000
#define PERIOD 1000 /* ns of a step */

static char json[] = "/tmp/zero-step-XXXXXX", ops[] = "/tmp/zero-ops-XXXXXX";

static FILE *made(char *path)
{
    int fd = mkstemp(path);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");

    if (!f)
        bail("no file in /tmp");
    return f;
}

static void op_write(FILE *f, int step, int body, const char *kind, const char *queue, int start,
                     int end)
{
    long at = 1000 + (long)step * PERIOD;

    fprintf(f,
            "{\"step\":%d,\"body\":%d,\"kind\":\"%s\",\"queue\":\"%s\",\"start_ns\":%ld,"
            "\"end_ns\":%ld}\n",
            step, body, kind, queue, at + start, at + end);
}

/*
 * Computes from 100 to 200, 300 to 400 and 400 to 500, updates from 600 on. Of the waits 40 ns are
 * those before the first compute op, for a gather; 30 for a gather that ran until 230 and 70 for a
 * fill behind it; 100 for a reduction that began while there was something to compute.
 */
static void step_write(FILE *f, int step)
{
    op_write(f, step, 0, "gather", "gather", 20, 100);
    op_write(f, step, 0, "compute", "compute", 100, 200);
    op_write(f, step, 0, "gather", "gather", 150, 230);
    op_write(f, step, 0, "fill", "cpu", 230, 300);
    op_write(f, step, 1, "compute", "compute", 300, 400);
    op_write(f, step, 1, "compute", "compute", 400, 500);
    op_write(f, step, 1, "reduce", "reduce", 350, 600);
    op_write(f, step, 2, "sumsq", "cpu", 600, 700);
    op_write(f, step, 2, "norm", "reduce", 700, 710);
    op_write(f, step, 2, "publish", "reduce", 650, 900);
    op_write(f, step, 2, "fetch", "fetch", 620, 720);
    op_write(f, step, 2, "fetch", "fetch", 640, 700);
    op_write(f, step, 2, "writeback", "writeback", 710, 760);
    op_write(f, step, 2, "writeback", "writeback", 800, 850);
}

static double of(const struct step_log *log, unsigned step, const char *kind)
{
    for (unsigned k = 0; k < log->n_kinds; k++)
        if (!strcmp(log->kinds[k], kind))
            return log->steps[step].exposed[k] * 1e9;
    return -1;
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-3;
}

/* 1999 parameters; a rank's part of the states has `bytes`, with padding. */
static void summary_write(FILE *f, const char *dtype, int bytes, const char *tier)
{
    fprintf(f,
            "{\"type\":\"summary\",\"weights_hash\":\"0123456789abcdef\",\"comm\":\"shm\","
            "\"dtype\":\"%s\",\"stage\":3,\"ranks\":2,\"vocab\":3,\"parameters\":1999,\"memory\":["
            "{\"class\":\"momentum\",\"tier\":\"device\",\"planned\":%d},"
            "{\"class\":\"variance\",\"tier\":\"device\",\"planned\":%d},"
            "{\"class\":\"master\",\"tier\":\"%s\",\"planned\":8},"
            "{\"class\":\"parameters\",\"tier\":\"cpu\",\"planned\":0}]}\n",
            dtype, bytes, bytes, tier);
}

/* What is updated, as a summary tells. */
static void updated_test(const char *dtype, int bytes, const char *tier, uint64_t n, bool wide)
{
    FILE *f = fopen(json, "we");
    struct step_log log;

    if (!f)
        bail("no file");
    fputs("{\"type\":\"step\",\"step\":1,\"loss\":1,\"grad_norm\":1}\n", f);
    summary_write(f, dtype, bytes, tier);
    fclose(f);
    is_int(step_log_read(json, ops, 0, &log), 0, "a summary is read");
    is_int((int)log.updated, (int)n, "elements that %s states of %d bytes on %s update", dtype,
           bytes, tier);
    ok(log.wide_grad == wide, "from gradients of %s", dtype);
    step_log_free(&log);
}

/* A rank's log of six steps, of which the last three say this. */
static void told_write(const char *loss, const char *norm, const char *weights, int vocab,
                       int tokens)
{
    FILE *f = fopen(json, "we");

    if (!f)
        bail("no file");
    for (int step = 1; step <= 3; step++)
        fprintf(f,
                "{\"type\":\"step\",\"step\":%d,\"loss\":1.25,\"grad_norm\":0.75,\"time_s\":2,"
                "\"tokens_per_s\":%d}\n",
                step, tokens / 2);
    for (int step = 4; step <= 6; step++)
        fprintf(f,
                "{\"type\":\"step\",\"step\":%d,\"loss\":%s,\"grad_norm\":%s,\"time_s\":2,"
                "\"tokens_per_s\":%d}\n",
                step, loss, norm, tokens / 2);
    fprintf(f, "{\"type\":\"summary\",\"weights_hash\":\"%s\",\"ranks\":2,\"vocab\":%d}\n", weights,
            vocab);
    fclose(f);
}

/* Is rank 1 that says this sound, beside a rank 0 that says 1, 0.5 and "ab"? */
static bool told_sound(const char *loss, const char *norm, const char *weights)
{
    struct step_log root, log;
    int err = 0;

    told_write("1", "0.5", "ab", 3, 10000);
    err |= step_log_read(json, ops, 1, &root);
    told_write(loss, norm, weights, 3, 10000);
    err |= step_log_read(json, ops, 1, &log);
    log.rank = 1;
    step_log_check(NULL, true, &root);
    step_log_check(&root, true, &log);
    bool sound = !err && root.sound && log.sound;
    step_log_free(&root);
    step_log_free(&log);
    return sound;
}

/* Is rank 0 with a first loss of 1.25 and these last ones sound? */
static bool first_sound(int vocab, const char *last, int tokens, bool fresh)
{
    struct step_log log;

    told_write(last, "0.5", "ab", vocab, tokens);
    int err = step_log_read(json, ops, 0, &log);
    step_log_check(NULL, fresh, &log);
    bool sound = !err && log.sound;
    step_log_free(&log);
    return sound;
}

static void told_test(void)
{
    ok(told_sound("1", "0.5", "ab"), "ranks that say the same are sound");
    ok(!told_sound("1.00000000001", "0.5", "ab"), "not if a loss differs in its last digit");
    ok(!told_sound("1", "0.500000000001", "ab"), "nor if a norm does");
    ok(!told_sound("1", "0.5", "ac"), "nor if the weights do");
    ok(!told_sound("null", "0.5", "ab"), "nor if a loss is no number");
    ok(!told_sound("1", "0", "ab"), "nor if a norm is 0");
    ok(first_sound(3, "1", 10000, true), "a first loss about the logarithm of the vocabulary");
    ok(!first_sound(6, "1", 10000, true), "not of a larger vocabulary");
    ok(!first_sound(1, "1", 10000, true), "nor of a smaller one");
    ok(!first_sound(0, "1", 10000, true), "nor of one that the log does not tell");
    ok(first_sound(6, "1", 4, true), "unless there are few tokens");
    ok(first_sound(6, "1", 10000, false), "or the weights come from a file");
    ok(!first_sound(3, "1.3", 10000, true), "losses that rise");
    ok(first_sound(3, "1.3", 400, true), "those of few tokens may");
    ok(first_sound(3, "1.3", 10000, false), "so may those of weights from a file");
}

int main(void)
{
    FILE *f = made(json), *g = made(ops);
    struct step_log log;
    unsigned good = 0;

    for (int step = 1; step <= STEPS; step++) {
        fprintf(f,
                "{\"type\":\"step\",\"step\":%d,\"loss\":1,\"grad_norm\":1,\"time_s\":1e-6,"
                "\"exposed_s\":240e-9,\"disk_read_bytes\":70,\"disk_written_bytes\":50}\n",
                step);
        step_write(g, step);
    }
    summary_write(f, "fp32", 4096, "device");
    fclose(f);
    fclose(g);
    if (!is_int(step_log_read(json, ops, 1, &log), 0, "the logs are read"))
        diag("%s", zero__error_text());
    is_int(log.n_steps, STEPS - 1, "steps behind the warm-up");
    ok(log.sound && log.ranks == 2 && log.stage == 3, "and what the summary says");
    for (unsigned i = 0; i < log.n_steps; i++)
        good += near(of(&log, i, "gather"), 70) && near(of(&log, i, "fill"), 70) &&
                near(of(&log, i, "reduce"), 100) && near(of(&log, i, "publish"), 0);
    if (!is_int(good, STEPS - 1, "each wait is put down to the op that ended last in it"))
        diag("gather %g fill %g reduce %g publish %g", of(&log, 5, "gather"), of(&log, 5, "fill"),
             of(&log, 5, "reduce"), of(&log, 5, "publish"));
    good = 0;
    for (unsigned i = 0; i < log.n_steps; i++)
        good += near(log.steps[i].busy[STEP_DISK] * 1e9, 190) && near(log.steps[i].disk_bytes, 120);
    if (!is_int(good, STEPS - 1, "the disk is at work while any request is"))
        diag("%g ns, %g bytes", log.steps[5].busy[STEP_DISK] * 1e9, log.steps[5].disk_bytes);
    good = 0;
    for (unsigned i = 0; i < log.n_steps; i++)
        good += near(log.steps[i].busy[STEP_COLLECTIVES] * 1e9, 660) &&
                near(log.steps[i].beside[STEP_COLLECTIVES] * 1e9, 250) &&
                near(log.steps[i].beside[STEP_DISK] * 1e9, 80) &&
                near(log.steps[i].busy[STEP_NORM] * 1e9, 10) &&
                near(log.steps[i].beside[STEP_NORM] * 1e9, 0);
    if (!is_int(good, STEPS - 1, "what is beside computing and kernels counts once"))
        diag("collectives %g of %g ns, disk %g", log.steps[5].beside[STEP_COLLECTIVES] * 1e9,
             log.steps[5].busy[STEP_COLLECTIVES] * 1e9, log.steps[5].beside[STEP_DISK] * 1e9);
    step_log_free(&log);
    f = fopen(ops, "we"); /* what follows is of no op, and reads the file dozens of times */
    if (!f)
        bail("no file");
    fclose(f);
    updated_test("fp32", 4096, "device", 1000, true);
    updated_test("bf16", 4096, "device", 1000, false);
    updated_test("bf16", 2048, "device", 0, false); /* halves */
    updated_test("bf16", 4096, "nvme", 0, false);
    told_test();
    unlink(json);
    unlink(ops);
    done();
}
