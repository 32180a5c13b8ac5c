/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An order that keeps more on the disk, or in the host's memory, than the one at commit: the store
 * grows, and keeps what it has, or is opened then. The thread that serves it begins again, or the
 * job ends.
 */
#define _GNU_SOURCE
#include "../threads.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include <zero/zero.h>

#include "folder.h"
#include "try.h"

enum { UNITS = 8, ELEMENTS = 20000, RANKS = 2, KEPT = 100000 /* bytes */ };

static char path[4096];
static const char *tier; /* of what is kept */

struct rank {
    int rank, err, spoilt;
    uint64_t there[2], hash[2];
    char error[1024];
};

static int model(struct zero_runtime *rt)
{
    char name[16];
    uint32_t id;

    for (uint32_t u = 0; u < UNITS; u++) {
        struct zero_param_desc w = {.size = sizeof w, .name = name, .dtype = ZERO_F32,
                                    .n_dims = 1, .dims = {ELEMENTS}};
        w.init = (struct zero_init){.kind = ZERO_INIT_NORMAL, .a = 1, .b = 0.1f, .seed = u};
        snprintf(name, sizeof name, "unit%u", u);
        TRY(zero_unit_add(rt, name, &id));
        TRY(zero_param_add(rt, u, &w, &id));
    }
    for (uint32_t u = 0; u < UNITS; u++) {
        struct zero_activation_desc a = {.size = sizeof a, .name = name, .bytes = KEPT,
                                         .from_unit = u, .to_unit = u, .to_pass = ZERO_BACKWARD};
        snprintf(name, sizeof name, "kept%u", u);
        TRY(zero_activation_add(rt, &a, &id));
    }
    return 0;
}

/* One unit after the other, or forward and then backward. */
static void order_make(struct zero_use *uses, int through)
{
    for (uint32_t u = 0; u < UNITS; u++) {
        uses[through ? u : 2 * u] = (struct zero_use){u, ZERO_FORWARD};
        uses[through ? 2 * UNITS - 1 - u : 2 * u + 1] = (struct zero_use){u, ZERO_BACKWARD};
    }
}

static int step(struct rank *r, struct zero_runtime *rt, int through)
{
    struct zero_use uses[2 * UNITS];

    order_make(uses, through);
    TRY(zero_begin(rt, ZERO_TRAIN, 1));
    for (int i = 0; i < 2 * UNITS; i++) {
        uint32_t u = uses[i].unit;
        TRY(zero_acquire(rt, u, uses[i].pass, NULL));
        if (uses[i].pass == ZERO_FORWARD) {
            uint8_t *to = zero_activation(rt, u);
            for (int k = 0; k < KEPT; k++)
                to[k] = (uint8_t)(u + (uint32_t)k % 251);
            TRY(zero_activation_save(rt, u, NULL, KEPT, NULL));
        } else {
            void *p;
            TRY(zero_activation_restore(rt, u, &p, NULL));
            float *grad = zero_grad(rt, u, NULL);
            for (int k = 0; k < KEPT; k++)
                r->spoilt += ((uint8_t *)p)[k] != (uint8_t)(u + (uint32_t)k % 251);
            for (int k = 0; k < ELEMENTS; k++)
                grad[k] = ((uint8_t *)p)[k];
        }
        TRY(zero_release(rt, u, uses[i].pass, NULL));
    }
    return zero_update(rt, NULL);
}

static int declare(struct zero_runtime *rt, int through)
{
    struct zero_use uses[2 * UNITS];

    order_make(uses, through);
    return zero_set_order(rt, ZERO_TRAIN, uses, 2 * UNITS);
}

static uint64_t bytes_there(struct zero_runtime *rt)
{
    struct zero_memory_report m = {.size = sizeof m};
    uint64_t bytes = 0;

    if (zero_memory_report(rt, &m))
        return 0;
    for (uint32_t i = 0; i < m.n_rows; i++)
        bytes += strcmp(m.rows[i].tier, tier) ? 0 : m.rows[i].reserved;
    return bytes;
}

/* Two steps in each of two orders; changes: the second is declared after two steps. */
static int train(struct rank *r, struct zero_runtime *rt, int changes)
{
    TRY(model(rt));
    TRY(declare(rt, !changes));
    TRY(zero_commit(rt));
    r->there[0] = bytes_there(rt);
    for (int i = 0; i < 4; i++) {
        if (changes && i == 2)
            TRY(declare(rt, 1));
        TRY(step(r, rt, !changes || i >= 2));
    }
    r->there[1] = bytes_there(rt);
    return zero_weights_hash(rt, &r->hash[changes]);
}

static void *rank_main(void *arg)
{
    const bool disk = strcmp(tier, "nvme") == 0;
    const struct zero_setting settings[] = {
        {"stage", "2"},
        {"timeout", "20"},
        {"offload", disk ? "optimizer:nvme,activations:nvme" : "activations:cpu"},
        {"prefetch_bytes", "0"},
        {"nvme_path", path}}; /* known to that plugin alone */
    struct rank *r = arg;
    char job[64];

    for (int changes = 0; changes < 2 && !r->err; changes++) {
        struct zero_config config = {.size = sizeof config, .settings = settings,
                                     .n_settings = disk ? 5 : 4,
                                     .ranks = RANKS, .rank = r->rank, .job = job};
        struct zero_runtime *rt = NULL;
        snprintf(job, sizeof job, "order_disk-%s-%d-%d", tier, (int)getpid(), changes);
        r->err = zero_create(&config, &rt);
        if (!r->err)
            r->err = train(r, rt, changes);
        if (r->err)
            snprintf(r->error, sizeof r->error, "%s", zero_last_error());
        zero_destroy(rt);
    }
    return NULL;
}

static void in_tier(const char *name)
{
    struct rank ranks[RANKS] = {{.rank = 0}, {.rank = 1}};

    tier = name;
    in_threads(rank_main, ranks, RANKS);
    for (int i = 0; i < RANKS; i++) {
        struct rank *r = &ranks[i];
        is_str(r->error, "", "%s, rank %d trains in both orders", tier, i);
        is_int(r->spoilt, 0, "%s, rank %d: activations come back as they were", tier, i);
        ok(r->there[1] >= r->there[0] + 3 * KEPT,
           "%s, rank %d: %llu bytes at commit, %llu at the end", tier, i,
           (unsigned long long)r->there[0], (unsigned long long)r->there[1]);
        ok(r->hash[0] && r->hash[0] == r->hash[1], "%s, rank %d: the same weights", tier, i);
    }
}

/* Steps in one order, and in another one while no thread can begin. */
static int thread_refused(struct rank *r, struct zero_runtime *rt, int *first)
{
    pthread_attr_t before, vast;

    TRY(model(rt));
    TRY(declare(rt, 0));
    TRY(zero_commit(rt));
    TRY(step(r, rt, 0));
    TRY(declare(rt, 1));
    TRY(pthread_getattr_default_np(&before));
    TRY(pthread_attr_init(&vast));
    TRY(pthread_attr_setstacksize(&vast, (size_t)1 << 50)); /* more than there are addresses */
    TRY(pthread_setattr_default_np(&vast));
    *first = step(r, rt, 1);
    TRY(pthread_setattr_default_np(&before));
    return step(r, rt, 1);
}

static void without_thread(void)
{
    const struct zero_setting settings[] = {{"stage", "2"},
                                            {"timeout", "3"},
                                            {"offload", "optimizer:nvme,activations:nvme"},
                                            {"prefetch_bytes", "0"},
                                            {"offload_measure", "0"},
                                            {"nvme_path", path}};
    char job[64];
    struct zero_config config = {.size = sizeof config, .settings = settings, .n_settings = 6,
                                 .ranks = 1, .rank = 0, .job = job};
    struct rank r = {.rank = 0};
    struct zero_runtime *rt = NULL;
    int first = 0;

    snprintf(job, sizeof job, "order_disk-thread-%d", (int)getpid());
    int err = zero_create(&config, &rt);
    if (!err)
        err = thread_refused(&r, rt, &first);
    ok(first && err && strstr(zero_last_error(), "cannot start the storage thread"),
       "a store that has grown and nobody serves: the job has failed, and nobody waits");
    diag("%d, then %d: %s", first, err, zero_last_error());
    zero_destroy(rt);
}

int main(void)
{
    folder_make("order-disk", path);
    in_tier("nvme");
    in_tier("cpu");
    without_thread();
    folder_end(path);
    done();
}
