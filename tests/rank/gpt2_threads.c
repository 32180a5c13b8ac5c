/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPT-2 with ranks as threads of one process, so that sanitizers see all of them: a few steps in
 * every stage, with evaluation and a second model at the same time, give the same weights.
 */
#include "examples/gpt2/gemm.h"
#include "examples/gpt2/random.h"
#include "examples/gpt2/session.h"
#include "tests/threads.h"

enum { MAX_RANKS = 3, STEPS = 3 };

struct job {
    struct gpt2_options options;
    const char *stage, *name;
    int ranks;
};

struct rank {
    const struct job *job;
    int rank;
    uint64_t hash, other;
    float loss;
    int err;
    char text[512];
};

static void fill(int32_t *tokens, size_t n, uint64_t stream, uint64_t from)
{
    const uint64_t key = gpt2_key(1, stream);
    for (size_t i = 0; i < n; i++)
        tokens[i] = (int32_t)gpt2_below(key, from + i, 256);
}

static int train_step(struct gpt2_session *s, uint64_t step, int32_t *tokens, int32_t *targets,
                      float *loss)
{
    const size_t rows = gpt2_rows(&s->shape);
    const uint64_t from = (step * MAX_RANKS + (uint64_t)zero_rank(s->rt)) * rows;

    fill(tokens, rows, 1, from);
    fill(targets, rows, 2, from);
    int err = zero_begin(s->rt, ZERO_TRAIN, 1);
    if (!err)
        err = gpt2_train(&s->host, &s->shape, tokens, targets, zero_loss_scale(s->rt), loss);
    return err ? err : zero_update(s->rt, NULL);
}

static int evaluate(struct gpt2_session *s, const int32_t *tokens, const int32_t *targets,
                    float *loss)
{
    int err = zero_begin(s->rt, ZERO_EVAL, 1);
    return err ? err : gpt2_evaluate(&s->host, &s->shape, tokens, targets, loss);
}

/* Two models of different seeds, one step of each in turn. */
static int train(struct rank *r, struct gpt2_session *both)
{
    const size_t rows = gpt2_rows(&both[0].shape);
    int32_t *tokens = calloc(2 * rows, sizeof *tokens);
    float *loss = calloc(rows, sizeof *loss);
    int err = tokens && loss ? 0 : -1;

    for (uint64_t step = 0; step < STEPS && !err; step++) {
        err = train_step(&both[0], step, tokens, tokens + rows, loss);
        if (!err)
            err = train_step(&both[1], step, tokens, tokens + rows, loss);
        if (!err)
            err = evaluate(&both[0], tokens, tokens + rows, loss);
    }
    if (!err)
        err = zero_weights_hash(both[0].rt, &r->hash);
    if (!err)
        err = zero_weights_hash(both[1].rt, &r->other);
    r->loss = loss ? loss[0] : 0;
    free(loss);
    free(tokens);
    return err;
}

static void *run(void *arg)
{
    static const char *const models[] = {"first", "second"};
    struct rank *r = arg;
    const struct zero_setting stage = {"stage", r->job->stage};
    struct gpt2_session both[2] = {0};

    for (int i = 0; i < 2 && !r->err; i++) {
        struct zero_config base = ZERO_CONFIG_INIT;
        struct gpt2_options o = r->job->options;
        o.seed += (uint64_t)i;
        base.settings = &stage;
        base.n_settings = 1;
        base.rank = r->rank;
        base.ranks = base.local_ranks = r->job->ranks;
        base.job = r->job->name;
        base.model = models[i];
        r->err = gpt2_session_open(&both[i], &o, &base);
        if (!r->err)
            r->err = gpt2_session_commit(&both[i], &o);
    }
    if (!r->err)
        r->err = train(r, both);
    if (r->err)
        snprintf(r->text, sizeof r->text, "%s", zero_last_error());
    for (int i = 2; i-- > 0;) {
        if (r->err && both[i].rt)
            zero_abort(both[i].rt, r->text);
        gpt2_session_close(&both[i]);
    }
    return NULL;
}

/* Runs all ranks; 0 after an error. */
static uint64_t run_job(const struct job *job, const char *what)
{
    struct rank ranks[MAX_RANKS] = {0};
    bool same = true;

    for (int i = 0; i < job->ranks; i++) {
        ranks[i].job = job;
        ranks[i].rank = i;
    }
    in_threads(run, ranks, job->ranks);
    for (int i = 0; i < job->ranks; i++) {
        same &= !ranks[i].err && ranks[i].hash == ranks[0].hash && ranks[i].other == ranks[0].other;
        if (ranks[i].err)
            diag("rank %d: %s", i, ranks[i].text);
    }
    ok(same && ranks[0].hash != ranks[0].other && ranks[0].loss > 0, "%s, stage %s: it trains",
       what, job->stage);
    return ranks[0].hash;
}

static void check(int n, uint32_t dtype, bool recompute)
{
    static const char *const stages[] = {"0", "1", "2", "3"};
    struct job job = {.ranks = n};
    uint64_t hash[4];
    char what[64], name[64];

    gpt2_config_preset("micro", &job.options.model);
    job.options.dtype = dtype;
    job.options.batch = 2;
    job.options.seq = 20;
    job.options.seed = 1;
    job.options.recompute = recompute;
    snprintf(what, sizeof what, "%d ranks, %s%s", n, zero_dtype_name(dtype),
             recompute ? ", recomputation" : "");
    for (int stage = 0; stage < 4; stage++) {
        snprintf(name, sizeof name, "gpt2.%d.%d.%u.%d", (int)getpid(), stage, dtype, n);
        job.name = name;
        job.stage = stages[stage];
        hash[stage] = run_job(&job, what);
    }
    ok(hash[0] && hash[0] == hash[1] && hash[1] == hash[2] && hash[2] == hash[3],
       "%s: the same weights in all stages", what);
}

int main(void)
{
    gpt2_gemm_init();
    gpt2_gemm16_init();
    check(2, ZERO_F32, false);
    check(2, ZERO_BF16, true);
    check(3, ZERO_F16, false);
    done();
}
