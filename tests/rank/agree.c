/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that would train differently do not train: every option that shapes training, what is
 * registered, and the learning rates of every step are compared, and all ranks say what differs.
 */
#include "../threads.h"

#include <errno.h>
#include <unistd.h>

#include <zero/zero.h>

#define RANKS 3
#define ODD 1 /* the rank that differs */

/* LATE: all are told to add what is missing. */
enum different { OPTION, NAME, SHAPE, SEED, GROUP, OPTIMIZER, HOLLOW, RATE, LATE, NOTHING };

struct rank {
    int rank, err;
    enum different different;
    const char *job, *option, *value;
    char error[1024];
};

static int callback(void *arg, uint32_t param, uint64_t first, uint64_t count, uint64_t step,
                    float *p, float *m, float *v, const float *grad)
{
    (void)arg, (void)param, (void)first, (void)count, (void)step, (void)p, (void)m, (void)v;
    (void)grad;
    return 0;
}

static int step(struct zero_runtime *rt)
{
    int err = zero_begin(rt, ZERO_TRAIN, 1);

    for (uint32_t pass = ZERO_FORWARD; pass <= ZERO_BACKWARD && !err; pass++) {
        err = zero_acquire(rt, 0, pass, NULL);
        if (!err && pass == ZERO_BACKWARD)
            memset(zero_grad(rt, 0, NULL), 0, 5000 * sizeof(float));
        if (!err)
            err = zero_release(rt, 0, pass, NULL);
    }
    return err ? err : zero_update(rt, NULL);
}

static int train(struct rank *r, struct zero_runtime *rt, int odd)
{
    enum different d = odd ? r->different : NOTHING;
    struct zero_group_desc g = {.size = sizeof g, .name = "g", .lr = d == GROUP ? 0.2f : 0.1f,
                                .beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f};
    struct zero_param_desc w = {.size = sizeof w, .name = d == NAME ? "v" : "w",
                                .dtype = ZERO_F32, .n_dims = 2,
                                .dims = {d == SHAPE ? 1000 : 2500, d == SHAPE ? 5 : 2},
                                .init = {.kind = ZERO_INIT_NORMAL, .b = 1, .seed = d == SEED}};
    uint32_t id;
    int err = zero_unit_add(rt, "u", &id);

    if (!err)
        err = zero_group_add(rt, &g, &w.group);
    if (!err && r->different == LATE) /* on all ranks: refused, and nothing has happened */
        err = zero_commit(rt) == -EINVAL ? 0 : -EBADMSG;
    if (!err)
        err = zero_param_add(rt, id, &w, &id);
    if (!err && d == OPTIMIZER)
        err = zero_set_optimizer(rt, callback, NULL);
    if (!err && d == HOLLOW)
        err = zero_unit_add(rt, "hollow", &id);
    if (!err)
        err = zero_commit(rt);
    if (!err)
        err = step(rt);
    if (!err && d == RATE)
        err = zero_set_lr(rt, w.group, 0.05f);
    if (!err)
        err = step(rt);
    return err ? err : zero_barrier(rt);
}

static void *rank_main(void *arg)
{
    struct rank *r = arg;
    int odd = r->rank == ODD;
    struct zero_setting s[] = {{"timeout", "20"}, {"comm", "shm"},
                               {r->option, odd ? r->value : NULL}};
    struct zero_config config = ZERO_CONFIG_INIT;
    struct zero_runtime *rt = NULL;

    config.settings = s;
    config.n_settings = odd && r->different == OPTION ? 3 : 2;
    config.rank = r->rank;
    config.ranks = config.local_ranks = RANKS;
    config.job = r->job;
    r->err = zero_create(&config, &rt);
    if (!r->err)
        r->err = train(r, rt, odd);
    snprintf(r->error, sizeof r->error, "%s", r->err ? zero_last_error() : "");
    zero_destroy(rt);
    return NULL;
}

static void try(enum different d, const char *option, const char *value, const char *words)
{
    struct rank ranks[RANKS];
    static int n_jobs;
    char job[64];
    int good = 1, want = d == HOLLOW ? -EINVAL : -EPROTO;

    snprintf(job, sizeof job, "agree-%d-%d", (int)getpid(), n_jobs++);
    for (int i = 0; i < RANKS; i++)
        ranks[i] = (struct rank){.rank = i, .different = d, .job = job, .option = option,
                                 .value = value};
    in_threads(rank_main, ranks, RANKS);
    for (int i = 0; i < RANKS; i++)
        good &= d >= LATE ? !ranks[i].err
                          : ranks[i].err == want && strstr(ranks[i].error, words) != NULL;
    ok(good, "%s%s%s%s", d == NOTHING ? "equal ranks train" : words, option ? " (" : "",
       option ? value : "", option ? ")" : "");
    for (int i = 0; i < RANKS && !good; i++)
        diag("rank %d: %d %s", i, ranks[i].err, ranks[i].error);
}

int main(void)
{
    static const struct {
        const char *option, *value, *words;
    } options[] = {
        {"stage", "2", "option stage is 2 on rank 1 and 3 on rank 0"},
        {"reduce_at", "boundary", "option reduce_at is boundary on rank 1"},
        {"accum", "2", "option accum is 2 on rank 1 and 1 on rank 0"},
        {"bucket_bytes", "8M", "option bucket_bytes is 8M on rank 1"},
        {"map", "0", "option map is 0 on rank 1"},
        {"optimizer", "sgd", "option optimizer is sgd on rank 1 and adamw on rank 0"},
        {"lr", "0.5", "option lr is 0.5 on rank 1"},
        {"weight_decay", "0.5", "option weight_decay is 0.5 on rank 1"},
        {"beta1", "0.5", "option beta1 is 0.5 on rank 1"},
        {"clip", "2", "option clip is 2 on rank 1 and 0 on rank 0"},
        {"loss_scale", "8", "option loss_scale is 8 on rank 1 and dynamic on rank 0"},
        {"loss_scale_window", "8", "option loss_scale_window is 8 on rank 1"},
        {"offload", "optimizer:cpu", "option offload is optimizer:cpu on rank 1"},
        {"offload", "auto", "option offload is auto on rank 1"},
    };

    alarm(100);
    try(NOTHING, NULL, NULL, "");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        try(OPTION, options[i].option, options[i].value, options[i].words);
    try(NAME, NULL, NULL, "rank 1 registered other parameters than rank 0");
    try(SHAPE, NULL, NULL, "rank 1 registered other parameters than rank 0");
    try(SEED, NULL, NULL, "rank 1 registered other parameters than rank 0");
    try(GROUP, NULL, NULL, "rank 1 registered other parameter groups than rank 0");
    try(OPTIMIZER, NULL, NULL, "rank 1 has another optimizer than rank 0");
    try(HOLLOW, NULL, NULL, "the model is incomplete on 1 of 3 ranks, which ends the job: unit "
        "hollow has no parameters: add one or leave it out");
    try(LATE, NULL, NULL, "ranks that all lack parameters may add them, and train");
    try(RATE, NULL, NULL, "zero_set_lr() must give all ranks the same");
    done();
}
