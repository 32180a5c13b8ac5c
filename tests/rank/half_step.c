/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request to the disk of one rank fails, at any place of a job: every rank ends with one
 * sentence, that of the request. Whatever a rank could read until then is the state after a whole
 * step, and after it nothing can be read or done any more, with that sentence as the reason.
 */
#include "../tap.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"
#include "toy.h"

enum { RANKS = 2, LAYERS = 3, PARAMS = 2 * LAYERS, WIDTH = 40000, STEPS = 3 };

static char path[4096];
static float truth[STEPS][PARAMS][WIDTH]; /* after each step */

struct what {
    const char *stage, *offload, *below, *op, *error, *says;
    uint32_t dtype;
    int by; /* every so many requests */
    const char *accum;
    bool early; /* each unit is updated as soon as it is reduced */
};

/* What a rank has seen; each has its own. */
struct seen {
    float values[WIDTH];
    bool committed, failed, refused;
    int steps, reads; /* steps that it was told of, parameters that it could read after them */
    char error[512], wrong[512];
};

struct job {
    const struct what *what; /* NULL: nothing fails, truth is made */
    struct seen seen[RANKS];
};

static void wrong(struct seen *s, const char *what, int number)
{
    if (!s->wrong[0])
        snprintf(s->wrong, sizeof s->wrong, "%s (%d)", what, number);
}

static void committed(struct zero_runtime *rt, int rank, void *arg)
{
    struct job *j = arg;

    (void)rt;
    j->seen[rank].committed = true;
}

static void stepped(struct zero_runtime *rt, int rank, int step, const struct zero_step_info *info,
                    void *arg)
{
    struct job *j = arg;
    struct seen *s = &j->seen[rank];

    (void)info;
    s->steps++;
    if (j->what && step % 2)
        return; /* so what a step still writes meets the next one */
    for (uint32_t p = 0; p < PARAMS; p++) {
        int err = zero_param_read(rt, p, 0, WIDTH, s->values);
        if (!j->what && !err && rank == 0)
            memcpy(truth[step][p], s->values, sizeof s->values);
        if (!j->what || err)
            continue;
        s->reads++;
        if (memcmp(truth[step][p], s->values, sizeof s->values) != 0)
            wrong(s, "a parameter is not that of the step", step);
    }
}

/* An error of the job without what a rank adds: in which call of its own it heard of it. */
static const char *of_job(const char *error)
{
    const char *at = strstr(error, "rank 1 failed");

    return at ? at : "nothing of rank 1";
}

/* The runtime has failed: what can still be called says why. */
static void lost(struct zero_runtime *rt, int rank, int err, const char *error, void *arg)
{
    struct job *j = arg;
    struct seen *s = &j->seen[rank];
    uint64_t hash;

    s->failed = err < 0;
    snprintf(s->error, sizeof s->error, "%s", error);
    if (!s->committed || !rt)
        return;
    int errs[] = {zero_param_read(rt, 0, 0, 1, s->values), zero_weights_hash(rt, &hash),
                  zero_param_write(rt, 0, 0, 1, s->values), zero_begin(rt, ZERO_TRAIN, 1),
                  zero_begin(rt, ZERO_EVAL, 0), zero_update(rt, NULL)};
    for (int i = 0; i < (int)(sizeof errs / sizeof *errs); i++)
        if (errs[i] != err)
            wrong(s, "a call after the error returns something else", i);
    zero_param_read(rt, 0, 0, 1, s->values);
    s->refused = !strcmp(of_job(zero_last_error()), of_job(error));
}

/* n: the request of rank 1 that fails. */
static int run(const struct what *w, int n, struct job *j)
{
    char fault[64];
    struct zero_setting s[] = {{"stage", w->stage},
                               {"clip", w->early ? "0" : "0.5"},
                               {"update_at", w->early ? "backward" : "end"},
                               {"accum", w->accum ? w->accum : "1"},
                               {"timeout", "20"},
                               {"offload", w->offload},
                               {"fault_offload", w->below},
                               {"tile_bytes", "64K"},
                               {!strcmp(w->below, "nvme") ? "nvme_path" : "cpu_lock",
                                !strcmp(w->below, "nvme") ? path : "0"},
                               {"fault_io", fault}};
    struct toy t = {.ranks = RANKS, .layers = LAYERS, .steps = STEPS, .dtype = w->dtype,
                    .width = WIDTH, .settings = s, .n_settings = n ? 10 : 9, .n_other = n ? 1 : 0,
                    .seed = 7, .committed = committed, .stepped = stepped, .lost = lost,
                    .log = log_nothing, .arg = j};
    struct toy_result r;

    snprintf(fault, sizeof fault, "error=%s:op=%s:n=%d", w->error, w->op, n);
    j->what = n ? w : NULL;
    for (int i = 0; i < RANKS; i++)
        memset(&j->seen[i], 0, sizeof j->seen[i]);
    return toy_train(&t, &r);
}

/* NULL, or what is wrong with how the job has ended. */
static const char *judge(const struct what *w, const struct job *j)
{
    for (int i = 0; i < RANKS; i++) {
        const struct seen *s = &j->seen[i];
        if (s->wrong[0])
            return s->wrong;
        if (!s->failed)
            return "a rank goes on";
        if (!strstr(of_job(s->error), w->says))
            return "a rank does not say what failed where";
        if (strcmp(of_job(s->error), of_job(j->seen[0].error)) != 0)
            return "the ranks say different things";
        if (!strcmp(w->op, "write") && s->reads != j->seen[0].reads)
            return "a rank could read what another one could not";
        if (s->committed && !s->refused)
            return "a later call does not say why";
    }
    return NULL;
}

static void sweep(const struct what *w)
{
    const int by = is_short() ? 3 * w->by : w->by;
    static struct job j;
    int n = 1, in_steps = 0, late = 0, reads = 0;
    const char *bad = NULL;

    if (run(w, 0, &j)) {
        ok(false, "stage %s, %s over %s: it trains: %s", w->stage, w->offload, w->below,
           j.seen[0].error);
        return;
    }
    for (; !bad && n < 2000 && run(w, n, &j); n += by) {
        bad = judge(w, &j);
        if (bad)
            diag("request %d: %s; \"%s\", \"%s\"", n, bad, j.seen[0].error, j.seen[1].error);
        in_steps += j.seen[0].committed && j.seen[1].committed;
        late += j.seen[0].steps > j.seen[1].steps || j.seen[1].steps > 0;
        reads += j.seen[0].reads + j.seen[1].reads;
    }
    ok(!bad && in_steps > 1 && late > 0 && reads > 0 && !j.seen[0].wrong[0] && !j.seen[1].wrong[0],
       "stage %s, %s over %s: the %ss of rank 1 fail with %s, %d in steps: nobody reads half a "
       "step",
       w->stage, w->offload, w->below, w->op, w->error, in_steps);
}

int main(void)
{
    static const char *const enospc = "No space left on device", *const eio = "Input/output error";
    const struct what whats[] = {
        {"0", "optimizer:fault", "nvme", "write", "ENOSPC", enospc, ZERO_BF16, 5, NULL, false},
        {"1", "optimizer:fault", "nvme", "write", "EIO", eio, ZERO_F32, 5, NULL, false},
        {"2", "optimizer:fault,gradients:fault", "nvme", "write", "ENOSPC", enospc,
         ZERO_BF16, 5, NULL, false},
        {"3", "optimizer:fault", "nvme", "write", "ENOSPC", enospc, ZERO_F32, 5, NULL, false},
        {"3", "optimizer:fault,gradients:fault,parameters:fault", "nvme", "write", "EIO", eio,
         ZERO_BF16, 5, NULL, false},
        {"1", "optimizer:fault,parameters:fault", "cpu", "write", "ENOSPC", enospc,
         ZERO_BF16, 5, NULL, false},
        {"0", "parameters:fault", "cpu", "write", "EIO", eio, ZERO_F32, 1, NULL, false},
        {"2", "optimizer:fault", "nvme", "read", "EIO", eio, ZERO_BF16, 5, NULL, false},
        {"3", "optimizer:fault,parameters:fault", "cpu", "read", "EIO", eio,
         ZERO_F32, 5, NULL, false},
        {"1", "optimizer:fault", "nvme", "write", "EIO", eio, ZERO_BF16, 5, NULL, true},
        {"3", "optimizer:fault,gradients:fault,parameters:fault", "nvme", "write", "ENOSPC", enospc,
         ZERO_BF16, 7, "2", true},
        {"2", "optimizer:fault,gradients:fault", "nvme", "read", "EIO", eio,
         ZERO_BF16, 7, "2", false},
    };

    setenv("ZERO_TEST_TILES", "3", 1); /* so that their places are used again */
    folder_make("half-step", path);
    setenv("XDG_CACHE_HOME", path, 1); /* the disk is measured once */
    for (unsigned i = 0; i < sizeof whats / sizeof *whats; i++)
        sweep(&whats[i]);
    char speeds[4200];
    snprintf(speeds, sizeof speeds, "%s/libzero/speeds", path);
    unlink(speeds);
    *strrchr(speeds, '/') = 0;
    rmdir(speeds);
    folder_end(path);
    done();
}
